"""`hermes memory`: list, change, pin and restore entries; log, undo and diff their history."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from hermes.base.errors import NotFound, WriteRefused
from hermes.base.text import counted
from hermes.cli import ui
from hermes.memory.entries import (
    PIN,
    UNPIN,
    Cause,
    in_order,
    index_of,
    is_trusted,
    newest_to_undo,
    preview,
    provenance,
    replay,
)
from hermes.memory.store import MemoryStore, find, usage
from hermes.settings.home import named_project, namesakes, project_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hermes.memory.entries import Change
    from hermes.memory.store import Written


_NO_CHANGES = "nothing has changed yet"
BY_HAND = Cause(origin="user", note="from the command line")


def open_store(context: ui.Context, given: ui.Given | None = None) -> MemoryStore:
    """Opens memory with the notes of the named project, which becomes the target unless another one was named.

    If only the target `project` is named, the project is the repository around the current folder, as in a chat there.
    Changes are also queued for the memory providers in the settings.
    """
    words, target = getattr(given, "project", None), getattr(given, "target", None)
    if given is not None and target == "":
        given.target = "project" if words else "memory"
    project = ""
    if words:
        project = named_project(words)
    elif target == "project" and context.settings.text("memory.projects") == "auto":
        project = project_of(os.getcwd())
    store = MemoryStore.open(context.home, settings=context.settings, project=project)
    if context.settings.text("memory.provider") or context.settings.texts("memory.providers"):
        from hermes.session.external import chosen_providers, leave_for_providers

        names = chosen_providers(context.settings)
        store.watch(lambda written: leave_for_providers(context.home, names, written, platform="cli"))
    return store


def _numbered(store: MemoryStore, target: str, word: str, given: ui.Given) -> str:
    """The entry with this number in the list; "" if there is none, or if `--text` says that the word is text."""
    if given.text or not (word.isascii() and word.isdecimal()):
        return ""
    entries = store.entries(target)
    return entries[int(word) - 1] if 0 < int(word) <= len(entries) else ""


def report(given: ui.Given, *writes: Written, several: bool = False) -> None:
    """Prints what writes did; with `several`, JSON is a list even for one."""
    documents = [
        {**ui.pick(each, "target", "message"), "change": each.change.id if each.change else None, **after(each)}
        for each in writes
    ]
    ui.show(given, documents if several else documents[0], *map(in_words, writes))


def after(written: Written) -> dict[str, Any]:
    """The state of a memory file after a write, for JSON."""
    archived = [ui.pick(each, "entry", "reason") for each in written.archived]
    return {"usage": written.usage, "entries": list(written.entries), "archived": archived}


def in_words(written: Written) -> str:
    """What a write did, and how full its file is now if it has a limit."""
    change = f", change {written.change.id}" if written.change else ""
    return f"{written.message} ({written.target}: {written.usage}{change})" if written.limit else written.message


def _list_archived(given: ui.Given, store: MemoryStore) -> None:
    """Prints the archive with the reason and the time of each entry."""
    document: dict[str, list[dict[str, Any]]] = {}
    lines = []
    for target in _chosen(store, given):
        archived, document[target] = store.archived(target), []
        lines.append(f"{target}  {len(archived)} archived")
        for each in archived:
            when, into = ui.when(each.at), f"; now: {preview(each.into)!r}" if each.into else ""
            lines.append(ui.indented(each.entry, f"  {when[:10]}  "))
            lines.append(f"              {each.change}: {each.reason}{into}")
            times = {"archived_at": each.at, "when": when, "into": each.into or None}
            document[target].append({**ui.pick(each, "entry", "change", "reason"), **times})
    ui.show(given, document, *lines)


def _chosen(store: MemoryStore, given: ui.Given) -> Sequence[str]:
    return [given.target] if given.target else store.targets


def memory_restore(given: ui.Given, context: ui.Context) -> None:
    """Puts an archived entry back into memory."""
    store = open_store(context, given)
    archived = [each for target in store.targets for each in store.archived(target)]
    wanted = find([each for each in archived if given.target in (None, each.target)], given.words)
    report(given, store.restore(wanted.target, wanted.entry, cause=BY_HAND))


def _mark(given: ui.Given, context: ui.Context, *, kind: str, done: str) -> None:
    store = open_store(context, given)
    target, entry = _entry(store, given)
    store.marks_file(target).add(kind, [entry])
    document = {"target": target, "entry": entry, "pinned": kind == PIN}
    ui.show(given, document, f"{done}: {preview(entry)} ({target})")


memory_pin = partial(_mark, kind=PIN, done="pinned")
memory_unpin = partial(_mark, kind=UNPIN, done="no longer pinned")


def _entry(store: MemoryStore, given: ui.Given) -> tuple[str, str]:
    """The target and the entry that a number or words name."""
    words = given.words
    if entry := _numbered(store, given.target or "memory", words, given):
        return given.target or "memory", entry
    for each in _chosen(store, given):
        entries = store.entries(each)
        if any(words in entry for entry in entries):
            return each, entries[index_of(entries, words)]
    raise NotFound(f"no entry contains {preview(words)!r}; `hermes memory list` shows them")


def memory_list(given: ui.Given, context: ui.Context) -> None:
    """Prints the entries with their numbers, pins and outside origins, or with `--archived` the archive."""
    store = open_store(context, given)
    if given.archived:
        _list_archived(given, store)
        return
    document, lines = {}, []
    for target in _chosen(store, given):
        reading = store.read(target)
        beside = _beside(store, target, reading.entries)
        used = usage(reading.entries, store.limit(target))
        document[target] = {"entries": list(reading.entries), "usage": used, "limit": store.limit(target)}
        document[target] |= {"file": store.path(target), "problem": reading.drift or None, **beside}
        lines.append(f"{target}  {used}")
        for number, entry in enumerate(reading.entries, start=1):
            lines.append(ui.indented(entry, f"{number:>4} {'*' if entry in beside['pinned'] else ' '}"))
            if (origin := beside["origins"][entry]) != "unknown" and not is_trusted(origin):
                lines.append(f"      (from outside: {origin})")
        if reading.drift:
            lines.append(f"      ! {store.path(target)}: {reading.drift} (`hermes memory adopt --target {target}`)")
        if target == "project" and not reading.entries:
            lines += _namesakes(store)
    ui.show(given, document, *lines)


def _namesakes(store: MemoryStore) -> list[str]:
    """Hints for a project without notes: they may be under its old path, if the repository was moved."""
    folder = os.path.dirname(os.path.dirname(store.path("project")))
    return [
        f"      there are notes of {each}, which was elsewhere (`hermes memory list --project {each}`); if it was "
        f"moved here, move the files of {os.path.join(folder, each)} to {os.path.join(folder, store.project)}"
        for each in namesakes(folder, store.project)
    ]


def _beside(store: MemoryStore, target: str, entries: Sequence[str]) -> dict[str, Any]:
    """What is known about the entries besides their text; an entry that was just removed may have no marks."""
    marks, origins = store.marks(target), provenance(entries, store.history(target)[0])
    return {
        "origins": {entry: origins[entry].origin for entry in entries},
        "pinned": [entry for entry in entries if entry in marks and marks[entry].pinned],
        "categories": {entry: marks[entry].category for entry in entries if entry in marks and marks[entry].category},
        "archived": len(store.archived(target)),
    }


def memory_show(given: ui.Given, context: ui.Context) -> None:
    """Prints one entry with its origin, its use and its earlier values."""
    store, words = open_store(context, given), " ".join(given.which)
    entries = store.entries(given.target)
    numbered = _numbered(store, given.target, words, given)
    with _looking_in(given.target):
        at = index_of(entries, numbered or words, whole=bool(numbered))
    entry = entries[at]
    marks, known = store.marks(given.target)[entry], store.provenance(given.target)[entry]
    change, earlier = known.change, store.earlier(given.target, entry)
    note, session = (change.cause.note, change.cause.session) if change else ("", "")
    document = {"target": given.target, "number": at + 1, "entry": entry, "characters": len(entry)}
    document |= {"origin": known.origin, "note": note, "session": session}
    document |= {"change": change.id if change else None, "at": change.at if change else None}
    document |= {**ui.pick(marks, "uses", "pinned", "category"), "last_used": marks.last_used or None}
    document["earlier"] = [ui.pick(each, "entry", "since", "until", "change") for each in earlier]
    by = f"{f' ({note})' if note else ''}{f', session {session}' if session else ''}"
    used = f"{ui.when(marks.last_used)} (uses: {marks.uses})" if marks.last_used else "not since it was added"
    lines = [
        f"{entry}\n",
        f"entry     {at + 1} of {len(entries)} in {given.target}, {len(entry):,} characters",
        f"origin    {known.origin}{by}{'' if known.trusted else ', not trusted'}",
        f"added     {f'{ui.when(change.at)}, change {change.id}' if change else 'unknown'}",
        f"last use  {used}",
    ]
    if marked := ", ".join(filter(None, ["pinned" if marks.pinned else "", marks.category])):
        lines.append(f"marks     {marked}")
    if given.history:
        lines += [ui.indented(each.entry, f"until {_day(each.until)}  ") for each in earlier]
    elif earlier:
        lines.append(f"earlier   {counted(len(earlier), 'value')} (--history)")
    ui.show(given, document, *lines)


def memory_conflicts(given: ui.Given, context: ui.Context) -> None:
    """Lists entries that may contradict each other, or settles one of these conflicts."""
    store = open_store(context, given)
    found = [each for target in _chosen(store, given) for each in store.conflicts(target)]
    if given.settle:
        if not 0 < given.settle <= len(found):
            raise NotFound(f"there is no conflict {given.settle}; `hermes memory conflicts` lists {len(found)}")
        conflict = found[given.settle - 1]
        if written := store.settle(conflict, given.keep, cause=BY_HAND):
            report(given, written)
            return
        document = {**ui.pick(conflict, "target", "old", "new"), "keep": "both"}
        ui.show(given, document, "Settled. Both entries stay, and Hermes will not ask about them again.")
        return
    lines = [] if found else ["no entries contradict each other"]
    for number, each in enumerate(found, start=1):
        lines.append(f"{number:>4}  {each.target}")
        lines.append(ui.indented(each.old, f"      {_day(each.old_at)}  "))
        lines.append(ui.indented(each.new, f"      {_day(each.new_at)}  "))
    if found:
        lines.append("`hermes memory conflicts --settle N --keep new|old|both` settles one")
    ui.show(given, [ui.pick(each, "target", "old", "new", "old_at", "new_at") for each in found], *lines)


def _day(moment: float) -> str:
    return ui.when(moment)[:10] if moment else "unknown   "


def memory_add(given: ui.Given, context: ui.Context) -> None:
    """Adds an entry; `-` reads it from standard input."""
    report(given, open_store(context, given).add(given.target, _content(given.content), cause=BY_HAND))


def memory_replace(given: ui.Given, context: ui.Context) -> None:
    """Replaces an entry, named by its number or by words that only it contains."""
    _change_entry(given, context, given.old_text, _content([given.content]))


def memory_remove(given: ui.Given, context: ui.Context) -> None:
    """Removes an entry, named by its number or by words that only it contains."""
    _change_entry(given, context, " ".join(given.old_text), None)


def _change_entry(given: ui.Given, context: ui.Context, words: str, content: str | None) -> None:
    store = open_store(context, given)
    entry = _numbered(store, given.target, words, given)
    change = store.remove if content is None else partial(store.replace, content=content)
    with _looking_in(given.target):
        written = change(given.target, entry or words, cause=BY_HAND, whole=bool(entry))
    if words.isdecimal() and written.change is not None:  # after a number, show which entry it was: numbers move
        written = written.saying(f"{written.message} It was {preview(written.change.removed()[0])!r}.")
    report(given, written)


@contextmanager
def _looking_in(target: str) -> Iterator[None]:
    """Says in which target an unknown entry was looked for: `--target` is easily forgotten."""
    try:
        yield
    except WriteRefused as refused:
        if refused.kind != "no_match":
            raise
        found = str(refused).rpartition(";")[0]
        hint = f"{found} in {target}; `hermes memory list` shows all with their numbers, --target names another target"
        raise WriteRefused(hint, kind=refused.kind, details=refused.details) from refused


def _content(words: list[str]) -> str:
    """The text of an entry from the arguments, or from standard input after `-`."""
    if words != ["-"]:
        return " ".join(words)
    return sys.stdin.buffer.read().decode("utf-8", "surrogateescape")


def memory_log(given: ui.Given, context: ui.Context) -> None:
    """Prints the changes of memory, newest first; with `--session`, also how that conversation learned of them."""
    changes = _changes(open_store(context, given), given.target)
    told = _told(given.session, context, changes) if given.session else {}
    wanted = [each for each in changes if any(given.grep in entry for entry in each.removed() + each.added())]
    wanted = [each for each in reversed(wanted) if not given.session or each.id in told]
    wanted = wanted[: given.limit] if given.limit else wanted
    document, lines = [], []
    if not wanted:
        lines.append("no change matches; `hermes memory log` shows all" if changes else _NO_CHANGES)
    for change in wanted:
        row = {**ui.pick(change, "id", "target", "at", "action"), "when": ui.when(change.at)}
        row |= {**ui.pick(change.cause, "origin", "session", "note"), "undoes": change.undoes or None}
        row |= {"removed": change.removed(), "added": change.added()}
        row["archived"] = [ui.pick(each, "entry", "reason", "into") for each in change.archived]
        document.append(row | ({"told": told[change.id]} if told else {}))
        lines += [_headline(change), *([f"      {told[change.id]}"] if told else [])]
        lines += _difference(change.removed(), change.added())
        lines += [f"      archived {preview(each.entry)!r}: {each.reason}" for each in change.archived]
    ui.show(given, document, *lines)


def _told(name: str, context: ui.Context, changes: list[Change]) -> dict[str, str]:
    """How a conversation learned of each change; imports here, because most calls do not need it."""
    from hermes.cli.sessions import named, open_existing
    from hermes.session.receipts import how_told

    with open_existing(context) as db:
        return how_told(db, named(db, name).id, changes)


def memory_undo(given: ui.Given, context: ui.Context) -> None:
    """Takes back one change, by default the newest that was not undone."""
    store = open_store(context, given)
    changes = _changes(store)
    change = _find(store, given.change) if given.change else newest_to_undo(changes)
    if change is None:
        last = next((each.id for each in reversed(changes) if each.undoes), "")
        again = f"; `hermes memory undo {last}` takes the last undo back" if last else ""
        raise NotFound(f"there is nothing left to undo{again}")
    report(given, store.undo(change.id, cause=BY_HAND))


def memory_diff(given: ui.Given, context: ui.Context) -> None:
    """Prints what one change did, or with `--since` everything that changed from it on."""
    store = open_store(context, given)
    change = _find(store, given.since or given.change)
    removed, added = change.removed(), change.added()
    if given.since:
        history = store.history(change.target)[0]
        before = replay(history[: [each.id for each in history].index(change.id)])
        now = store.entries(change.target)
        removed = [entry for entry in before if entry not in now]
        added = [entry for entry in now if entry not in before]
    document = {"change": change.id, "target": change.target, "removed": removed, "added": added}
    ui.show(given, document, f"{'since ' if given.since else ''}{_headline(change)}", *_difference(removed, added))


def _changes(store: MemoryStore, target: str | None = None) -> list[Change]:
    """The changes of one or all targets, oldest first."""
    histories: list[list[Change]] = []
    for each in [target] if target else store.targets:
        changes, damaged = store.history(each)
        histories.append(changes)
        if damaged:
            ui.problem(f"{damaged} records of the {each} history are damaged and left out")
    return in_order(*histories)


def _find(store: MemoryStore, change_id: str | None) -> Change:
    """The change with this id; the newest without one."""
    changes = _changes(store)
    for change in reversed(changes):
        if change_id in (None, change.id):
            return change
    raise NotFound(f"there is no change {change_id}; `hermes memory log` lists them" if changes else _NO_CHANGES)


def _headline(change: Change) -> str:
    session = f" in session {change.cause.session}" if change.cause.session else ""
    undoes = f" of {change.undoes}" if change.undoes else ""
    note = f" ({change.cause.note})" if change.cause.note else ""
    who = f"{change.action}{undoes} by {change.cause.origin}{session}{note}"
    return f"{change.id}  {ui.when(change.at)}  {change.target}  {who}"


def _difference(removed: Iterable[str], added: Iterable[str]) -> list[str]:
    lines = [ui.indented(entry, "    - ") for entry in removed]
    return lines + [ui.indented(entry, "    + ") for entry in added]
