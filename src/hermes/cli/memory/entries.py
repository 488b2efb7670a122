"""`hermes memory`: list, change, pin and restore entries; log, undo and diff their history."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from hermes.base.errors import NotFound, WriteRefused
from hermes.base.text import counted
from hermes.cli import ui
from hermes.memory.entries import PIN, UNPIN, Cause, index_of, is_trusted, newest_to_undo, preview, provenance, replay
from hermes.memory.store import ALL_TARGETS, MemoryStore, find, usage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from hermes.memory.entries import Change
    from hermes.memory.store import Archived, Written


BY_HAND = Cause(origin="user", note="from the command line")


def open_store(context: ui.Context, given: ui.Given | None = None) -> MemoryStore:
    """The store, with the notes of the project that was named; they are the target then, unless another was named.

    Where only the target is named, they are those of the repository around the current folder, as in a chat there.
    What is changed in it is kept for the memory providers of the settings.
    """
    words = getattr(given, "project", None)
    if given is not None and getattr(given, "target", None) == "":
        given.target = "project" if words else "memory"
    project = ""
    if words:
        from hermes.settings.home import named_project

        project = named_project(words)
    elif getattr(given, "target", None) == "project" and context.settings.text("memory.projects") == "auto":
        import os

        from hermes.settings.home import project_of

        project = project_of(os.getcwd())
    store = MemoryStore.open(context.home, settings=context.settings, project=project)
    if context.settings.text("memory.provider") or context.settings.texts("memory.providers"):
        from hermes.session.external import chosen_providers, leave_for_providers

        names = chosen_providers(context.settings)
        store.watch(lambda written: leave_for_providers(context.home, names, written, platform="cli"))
    return store


PROJECT = ui.option("--project NAME", "the notes of a project: its name, or . for this repository")


def targets(default: str | None = "") -> tuple[ui.Option, ui.Option]:
    usual = "all" if default is None else "memory"
    return ui.option("--target", f"default: {usual}", choices=ALL_TARGETS, default=default), PROJECT


def _which(words: str, **more: Any) -> tuple[ui.Option, ui.Option]:
    return (
        ui.option(words, "its number in the list, or a piece of the entry that no other entry has", **more),
        ui.option("--text", f"{words.split()[1]} is a piece of the entry even if it is a number"),
    )


def numbered(store: MemoryStore, target: str, word: str, given: ui.Given) -> str:
    """The entry that has this number in the list; "" when there is none, or the word is meant as text."""
    if given.text or not (word.isascii() and word.isdecimal()):
        return ""
    entries = store.entries(target)
    return entries[int(word) - 1] if 0 < int(word) <= len(entries) else ""


def report(given: ui.Given, written: Written) -> int:
    """Says what one write did."""
    return ui.show(given, _as_json(written), _in_words(written))


def report_all(given: ui.Given, written: list[Written]) -> int:
    """Says what several writes did; one JSON list for scripts."""
    return ui.show(given, [_as_json(each) for each in written], *map(_in_words, written))


def _in_words(written: Written) -> str:
    change = f", change {written.change.id}" if written.change else ""
    return f"{written.message} ({written.target}: {written.usage}{change})"


def _as_json(written: Written) -> dict[str, Any]:
    return {
        "target": written.target,
        "message": written.message,
        "change": written.change.id if written.change else None,
        "entries": list(written.entries),
        "usage": written.usage,
        "archived": [ui.pick(each, "entry", "reason") for each in written.archived],
    }


# `hermes memory restore`, `pin` and `unpin`: what left for the archive, and what must never leave.


def list_archived(given: ui.Given, store: MemoryStore) -> int:
    """`hermes memory list --archived`."""
    found = {target: store.archived(target) for target in ([given.target] if given.target else store.targets)}
    if given.json:
        ui.print_json({target: [_archived_as_json(each) for each in archived] for target, archived in found.items()})
        return ui.OK
    for target, archived in found.items():
        ui.line(f"{target}  {len(archived)} archived")
        for each in archived:
            ui.line(ui.indented(each.entry, f"  {ui.when(each.at)[:10]}  "))
            stands = f"; now: {preview(each.into)!r}" if each.into else ""
            ui.line(f"              {each.change}: {each.reason}{stands}")
    return ui.OK


def _restore(given: ui.Given, context: ui.Context) -> int:
    store = open_store(context, given)
    archived = [each for target in store.targets for each in store.archived(target)]
    wanted = find([each for each in archived if given.target in (None, each.target)], given.words)
    return report(given, store.restore(wanted.target, wanted.entry, cause=BY_HAND))


def _marking(kind: str) -> Callable[[ui.Given, ui.Context], int]:
    def command(given: ui.Given, context: ui.Context) -> int:
        store = open_store(context, given)
        target, entry = _entry(store, given)
        store.marks_file(target).add(kind, [entry])
        return ui.show(
            given,
            {"target": target, "entry": entry, "pinned": kind == PIN},
            f"{'pinned' if kind == PIN else 'no longer pinned'}: {preview(entry)} ({target})",
        )

    return command


def _entry(store: MemoryStore, given: ui.Given) -> tuple[str, str]:
    words = given.words
    if entry := numbered(store, given.target or "memory", words, given):
        return given.target or "memory", entry
    for each in [given.target] if given.target else store.targets:
        entries = store.entries(each)
        if any(words in entry for entry in entries):
            return each, entries[index_of(entries, words)]
    raise NotFound(f"no entry contains {preview(words)!r}; `hermes memory list` shows them")


def _archived_as_json(archived: Archived) -> dict[str, object]:
    return {
        "entry": archived.entry,
        "archived_at": archived.at,
        "when": ui.when(archived.at),
        "change": archived.change,
        "reason": archived.reason,
        "into": archived.into or None,
    }


# `hermes memory list`, `show`, `add`, `replace` and `remove`: the entries themselves.


def _list(given: ui.Given, context: ui.Context) -> int:
    store = open_store(context, given)
    if given.archived:
        return list_archived(given, store)
    readings = {target: store.read(target) for target in ([given.target] if given.target else store.targets)}
    if given.json:
        ui.print_json(
            {
                target: {
                    "entries": list(reading.entries),
                    "usage": usage(reading.entries, store.limit(target)),
                    "limit": store.limit(target),
                    "file": store.path(target),
                    "problem": reading.drift or None,
                    **_beside(store, target, reading.entries),
                }
                for target, reading in readings.items()
            }
        )
        return ui.OK
    for target, reading in readings.items():
        ui.line(f"{target}  {usage(reading.entries, store.limit(target))}")
        beside = _beside(store, target, reading.entries)
        for number, entry in enumerate(reading.entries, start=1):
            ui.line(ui.indented(entry, f"{number:>4} {'*' if entry in beside['pinned'] else ' '}"))
            if (origin := beside["origins"][entry]) != "unknown" and not is_trusted(origin):
                ui.line(f"      (from outside: {origin})")
        if reading.drift:
            ui.line(f"      ! {store.path(target)}: {reading.drift} (`hermes memory adopt --target {target}`)")
        if target == "project" and not reading.entries:
            _name_namesakes(store)
    return ui.OK


def _name_namesakes(store: MemoryStore) -> None:
    """Where notes of a project may be that has none: those of a repository stay with the place it was in."""
    import os

    from hermes.settings.home import namesakes

    folder = os.path.dirname(os.path.dirname(store.path("project")))
    for each in namesakes(folder, store.project):
        ui.line(
            f"      there are notes of {each}, in another place (`hermes memory list --project {each}`); when it was "
            f"moved here, move the files of {os.path.join(folder, each)} to {os.path.join(folder, store.project)}"
        )


def _beside(store: MemoryStore, target: str, entries: Sequence[str]) -> dict[str, Any]:
    """What is known about the entries beside their text; one that somebody removes meanwhile may have no marks."""
    marks, origins = store.marks(target), provenance(entries, store.history(target)[0])
    return {
        "origins": {entry: origins[entry].origin for entry in entries},
        "pinned": [entry for entry in entries if entry in marks and marks[entry].pinned],
        "categories": {entry: marks[entry].category for entry in entries if entry in marks and marks[entry].category},
        "archived": len(store.archived(target)),
    }


def _show(given: ui.Given, context: ui.Context) -> int:
    store, words = open_store(context, given), " ".join(given.which)
    entries = store.entries(given.target)
    entry = numbered(store, given.target, words, given)
    try:
        at = index_of(entries, entry or words, whole=bool(entry))
    except WriteRefused as refused:
        raise _with_the_right_target(refused, store, given, words) from refused
    entry = entries[at]
    marks, known = store.marks(given.target)[entry], store.provenance(given.target)[entry]
    change = known.change
    facts: dict[str, Any] = {
        "target": given.target,
        "number": at + 1,
        "entry": entry,
        "characters": len(entry),
        "origin": known.origin,
        "note": change.cause.note if change else "",
        "session": change.cause.session if change else "",
        "change": change.id if change else None,
        "at": change.at if change else None,
        "uses": marks.uses,
        "last_used": marks.last_used or None,
        "pinned": marks.pinned,
        "category": marks.category,
    }
    if given.json:
        ui.print_json(facts)
        return ui.OK
    by = f" ({facts['note']})" if facts["note"] else ""
    session = f", session {facts['session']}" if facts["session"] else ""
    used = f"{ui.when(marks.last_used)} (uses: {marks.uses})" if marks.last_used else "not since it was added"
    ui.line(f"{entry}\n")
    ui.line(f"entry     {at + 1} of {len(entries)} in {given.target}, {len(entry):,} characters")
    ui.line(f"origin    {known.origin}{by}{session}{'' if known.trusted else ', not trusted'}")
    ui.line(f"added     {f'{ui.when(change.at)}, change {change.id}' if change else 'unknown'}")
    ui.line(f"last use  {used}")
    if marks.pinned or marks.category:
        ui.line(f"marks     {', '.join(filter(None, ['pinned' if marks.pinned else '', marks.category]))}")
    return ui.OK


def _add(given: ui.Given, context: ui.Context) -> int:
    store = open_store(context, given)
    return report(given, store.add(given.target, _content(given.content), cause=BY_HAND))


def _replace(given: ui.Given, context: ui.Context) -> int:
    store = open_store(context, given)
    content = _content([given.content])
    entry = numbered(store, given.target, given.old_text, given)
    try:
        written = store.replace(given.target, entry or given.old_text, content, cause=BY_HAND, whole=bool(entry))
    except WriteRefused as refused:
        raise _with_the_right_target(refused, store, given, given.old_text) from refused
    return report(given, _naming(written, given.old_text))


def _remove(given: ui.Given, context: ui.Context) -> int:
    store = open_store(context, given)
    old_text = " ".join(given.old_text)
    entry = numbered(store, given.target, old_text, given)
    try:
        written = store.remove(given.target, entry or old_text, cause=BY_HAND, whole=bool(entry))
    except WriteRefused as refused:
        raise _with_the_right_target(refused, store, given, old_text) from refused
    return report(given, _naming(written, old_text))


def _naming(written: Written, word: str) -> Written:
    """Who gave a number sees which entry it was; `hermes memory undo` takes it back."""
    if not word.isdecimal() or written.change is None:
        return written
    return written.saying(f"{written.message} It was {preview(written.change.removed()[0])!r}.")


def _with_the_right_target(refused: WriteRefused, store: MemoryStore, given: ui.Given, words: str) -> WriteRefused:
    """An entry that is not in this target may be in another one; who types by hand easily forgets `--target`."""
    if refused.kind != "no_match":
        return refused
    wanted = given.target
    for other in (target for target in store.targets if target != wanted):
        if numbered(store, other, words, given):
            hint = f"{wanted} has no entry {words}, but {other} has: add --target {other}"
        elif any(words in entry for entry in store.entries(other)):
            hint = f"no entry of {wanted} contains it, but one of {other} does: add --target {other}"
        else:
            continue
        return WriteRefused(hint, kind=refused.kind, details=refused.details)
    if not words.isdecimal() or given.text:
        return refused
    many = counted(len(store.entries(wanted)), "entry", "entries")
    hint = f"{wanted} has {many} and none contains {words!r}; `hermes memory list` shows them with their numbers"
    return WriteRefused(hint, kind=refused.kind, details=refused.details)


def _content(words: list[str]) -> str:
    if words != ["-"]:
        return " ".join(words)
    return sys.stdin.buffer.read().decode("utf-8", "surrogateescape")


def _log(given: ui.Given, context: ui.Context) -> int:
    changes = _changes(open_store(context, given), given.target)
    told = _told(given.session, context, changes) if given.session else {}
    wanted = [each for each in changes if any(given.grep in entry for entry in each.removed() + each.added())]
    wanted = [each for each in reversed(wanted) if not given.session or each.id in told]
    wanted = wanted[: given.limit] if given.limit else wanted
    if given.json:
        ui.print_json([_change_as_json(change) | ({"told": told[change.id]} if told else {}) for change in wanted])
        return ui.OK
    if not wanted:
        ui.line("no such change; `hermes memory log` shows all" if changes else "nothing has changed yet")
    for change in wanted:
        ui.line(_headline(change))
        if told:
            ui.line(f"      {told[change.id]}")
        _print_difference(change.removed(), change.added())
        for leaving in change.archived:
            ui.line(f"      archived {preview(leaving.entry)!r}: {leaving.reason}")
    return ui.OK


def _told(name: str, context: ui.Context, changes: list[Change]) -> dict[str, str]:
    """How a conversation learnt of changes; loaded only when it is asked for."""
    from hermes.cli.sessions.look import named, open_existing
    from hermes.session.receipts import how_told

    with open_existing(context) as db:
        return how_told(db, named(db, name).id, changes)


def _undo(given: ui.Given, context: ui.Context) -> int:
    store = open_store(context, given)
    changes = _changes(store)
    change = _find(store, given.change) if given.change else newest_to_undo(changes)
    if change is None:
        last = next((each.id for each in reversed(changes) if each.undoes), "")
        again = f"; `hermes memory undo {last}` takes the last undo back" if last else ""
        raise NotFound(f"there is nothing left to undo{again}")
    return report(given, store.undo(change.id, cause=BY_HAND))


def _diff(given: ui.Given, context: ui.Context) -> int:
    store = open_store(context, given)
    change = _find(store, given.since or given.change)
    if given.since:
        history = store.history(change.target)[0]
        before = replay(history[: [each.id for each in history].index(change.id)])
        now = store.entries(change.target)
        removed = [entry for entry in before if entry not in now]
        added = [entry for entry in now if entry not in before]
    else:
        removed, added = change.removed(), change.added()
    if given.json:
        ui.print_json({"change": change.id, "target": change.target, "removed": removed, "added": added})
        return ui.OK
    ui.line(f"since {_headline(change)}" if given.since else _headline(change))
    _print_difference(removed, added)
    return ui.OK


def _changes(store: MemoryStore, target: str | None = None) -> list[Change]:
    """The changes of one or all targets, oldest first."""
    found: list[Change] = []
    for each in [target] if target else store.targets:
        changes, damaged = store.history(each)
        found += changes
        if damaged:
            ui.problem(f"{damaged} records of the {each} history are damaged and left out")
    return sorted(found, key=lambda change: change.at)


def _find(store: MemoryStore, change_id: str | None) -> Change:
    changes = _changes(store)
    for change in reversed(changes):
        if change_id in (None, change.id):
            return change
    raise NotFound(
        f"there is no change {change_id}; `hermes memory log` lists them" if changes else "nothing has changed yet"
    )


def _headline(change: Change) -> str:
    session = f" in session {change.cause.session}" if change.cause.session else ""
    undoes = f" of {change.undoes}" if change.undoes else ""
    note = f" ({change.cause.note})" if change.cause.note else ""
    who = f"{change.action}{undoes} by {change.cause.origin}{session}{note}"
    return f"{change.id}  {ui.when(change.at)}  {change.target}  {who}"


def _print_difference(removed: list[str], added: list[str]) -> None:
    for entry in removed:
        ui.line(ui.indented(entry, "    - "))
    for entry in added:
        ui.line(ui.indented(entry, "    + "))


def _change_as_json(change: Change) -> dict[str, Any]:
    return {
        "id": change.id,
        "target": change.target,
        "at": change.at,
        "when": ui.when(change.at),
        "action": change.action,
        "origin": change.cause.origin,
        "session": change.cause.session,
        "note": change.cause.note,
        "undoes": change.undoes or None,
        "removed": change.removed(),
        "added": change.added(),
        "archived": [ui.pick(each, "entry", "reason", "into") for each in change.archived],
    }


_MARK = (*_which("words ENTRY"), *targets(None))


COMMANDS = {
    "memory restore": ui.command(
        _restore, ui.option("words TEXT", "a piece of the entry that no other entry has"), *targets(None)
    ),
    "memory pin": ui.command(_marking(PIN), *_MARK),
    "memory unpin": ui.command(_marking(UNPIN), *_MARK),
    "memory list": ui.command(
        _list, ui.option("--archived", "the entries that made room for others instead"), *targets(None)
    ),
    "memory show": ui.command(_show, *_which("which ENTRY", nargs="+"), *targets()),
    "memory add": ui.command(
        _add, ui.option("content TEXT", "the entry; - reads it from standard input", nargs="+"), *targets()
    ),
    "memory replace": ui.command(
        _replace,
        *_which("old_text OLD"),
        ui.option("content NEW", "the whole new entry; - reads it from standard input"),
        *targets(),
    ),
    "memory remove": ui.command(_remove, *_which("old_text OLD", nargs="+"), *targets()),
    "memory log": ui.command(
        _log,
        ui.option("-n --limit N", "only the newest N (default: all)", type=int, default=0),
        ui.option("--grep TEXT", "only changes whose entries contain this", default=""),
        ui.option("--session ID|TITLE", "only what this conversation was told or wrote, and when and how"),
        *targets(None),
    ),
    "memory undo": ui.command(
        _undo, ui.option("change CHANGE", "its id from the log (default: the newest change)", nargs="?"), PROJECT
    ),
    "memory diff": ui.command(
        _diff,
        ui.option("change CHANGE", "its id from the log (default: the newest change)", nargs="?"),
        ui.option("--since CHANGE", "from the state before this change until now"),
        PROJECT,
    ),
}
