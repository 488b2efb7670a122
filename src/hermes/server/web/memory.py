"""The Memory, Rules and Approvals pages: entries as cards with their history, standing rules, pending writes."""

from __future__ import annotations

import difflib
import json
import re
from contextlib import suppress
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any

from hermes.base.errors import HermesError, NotFound, SettingsError, WriteRefused
from hermes.base.text import counted
from hermes.memory.entries import NONE, PIN, UNPIN, Cause, in_order, is_trusted, key_of, provenance, size
from hermes.memory.file import FILES, PROJECTS
from hermes.memory.reminders import DONE, WAITING, Reminders, moment_meant, understood
from hermes.memory.rules import ENFORCE, RuleBook
from hermes.memory.store import TARGETS, blocked_in_prompt
from hermes.memory.triggers import Situation
from hermes.safety.trust import SINKS
from hermes.server.web.site import Notice, Page, Redirect, Section, View, address, paged
from hermes.session.approvals import PendingWrites
from hermes.session.external import store_beside
from hermes.settings.config import documents_of, load_settings
from hermes.settings.home import check_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hermes.memory.entries import Change, Marks, Provenance
    from hermes.memory.store import MemoryStore, Written
    from hermes.server.web.site import Ask
    from hermes.server.workspace import Workspace
    from hermes.session.approvals import PendingWrite
    from hermes.storage.records import Session

TITLES = {"memory": "Notes", "user": "About you", "project": "Project"}
_ON_THE_PAGE = "on the web page"
_BY_HAND = Cause(origin="user", note=_ON_THE_PAGE)
_CHANGES_EACH = 25
_CONFLICTS = 20  # on a page; settling one makes room for the next
RECENT = 25  # conversations whose projects and agents the filters offer
_WORDS = re.compile(r"\s+|\S+")


def projects_of(workspace: Workspace, recent: Sequence[Session] | None = None) -> list[str]:
    """The projects that have a folder of notes, and those of recent conversations."""
    found: set[str] = set()
    with suppress(HermesError):  # a project that cannot be listed can still be opened by its name
        folder = documents_of(workspace.home).below(PROJECTS).open()
        if folder is not None:
            with folder:
                found.update(folder.names())
        sessions = workspace.past.list_sessions(limit=RECENT) if recent is None else recent
        found.update(each.project for each in sessions if each.project)
    return sorted(filter(_is_name, found))


def _is_name(project: str) -> bool:
    """Whether this can be the name of a project: imported conversations may give the path of any folder."""
    try:
        check_name(project, "a project's name")
    except SettingsError:
        return False
    return True


def store_of(workspace: Workspace, project: str = "", projects: Sequence[str] | None = None) -> MemoryStore:
    """The person's entries, with the notes of one of their projects; changes reach their memory providers."""
    if not project:
        return workspace.store
    if project not in (projects_of(workspace) if projects is None else projects):
        raise NotFound(f"there are no notes of a project {project!r}")
    return store_beside(workspace.home, load_settings(workspace.home), platform="web", project=project)


def _store(ask: Ask) -> MemoryStore:
    return store_of(ask.workspace, ask.query.get("project", "") or ask.field("project"))


def _target(ask: Ask, store: MemoryStore, name: str = "target") -> str:
    target = ask.path[name] if name in ask.path else ask.field(name)
    if target not in store.targets:
        raise NotFound(f"there is no memory {target!r}")
    return target


def _entry(ask: Ask, store: MemoryStore, target: str) -> str:
    """The entry of a card; raises NotFound if it was changed meanwhile, because it is another entry then."""
    for entry in store.entries(target):
        if key_of(entry) == ask.path["entry"]:
            return entry
    raise NotFound("this entry was changed or removed meanwhile")


def _show(ask: Ask) -> Page:
    store = _store(ask)
    wanted = ask.query.get("q", "").strip()
    groups = [_group(store, target, wanted) for target in store.targets]
    values = {
        "groups": groups,
        "q": wanted,
        "project": store.project,
        "projects": projects_of(ask.workspace),
        "targets": [(target, TITLES[target]) for target in store.targets],
    }
    return Page(template="memory.html", values=values)


def _group(store: MemoryStore, target: str, wanted: str) -> dict[str, Any]:
    reading = store.read(target)
    changes = store.history(target)[0]
    origins, marks = provenance(reading.entries, changes), store.marks(target)
    hidden = _hidden(target, origins)
    cards = [
        {
            **_card(entry, origins[entry], marks.get(entry, NONE)),
            "hidden": entry in hidden,
            "earlier": store.earlier(target, entry, changes),
        }
        for entry in dict.fromkeys(reading.entries)
        if wanted.casefold() in entry.casefold()
    ]
    return {
        "target": target,
        "title": TITLES[target],
        "cards": sorted(cards, key=lambda card: not card["pinned"]),
        "count": len(reading.entries),
        "used": size(reading.entries),
        "limit": store.limit(target),
        "problem": reading.drift,
        "archived": [each for each in store.archived(target) if wanted.casefold() in each.entry.casefold()],
    }


def _hidden(target: str, origins: Mapping[str, Provenance]) -> set[str]:
    """The entries of other programs that prompts hide; our own were scanned when they were written."""
    foreign = [entry for entry, origin in origins.items() if origin.origin in ("unknown", "external")]
    seen = blocked_in_prompt(foreign, FILES[target], lambda: origins)
    return {entry for entry, shown in zip(foreign, seen, strict=True) if entry != shown}


def _card(entry: str, origin: Provenance, marks: Marks) -> dict[str, Any]:
    change = origin.change
    return {
        "key": key_of(entry),
        "text": entry,
        "origin": origin.origin,
        "grade": _grade(origin),
        "at": change.at if change else None,
        "change": change.id if change else "",
        "session": change.cause.session if change else "",
        "note": change.cause.note if change else "",
        "approved": bool(change and change.cause.approved),
        "pinned": marks.pinned,
        "category": marks.category,
        "uses": marks.uses,
        "last_used": marks.last_used,
    }


def _grade(origin: Provenance) -> str:
    """How far an entry is trusted because of its source, in a word of the glossary."""
    if origin.origin == "user":
        return "person"
    return "trusted" if is_trusted(origin.origin) else "outside"


def _add(ask: Ask) -> Redirect:
    store = _store(ask)
    written = store.add(_target(ask, store), ask.field("text"), cause=_BY_HAND)
    return _back(store, written)


def _pin(ask: Ask) -> Redirect:
    store = _store(ask)
    target = _target(ask, store)
    entry = _entry(ask, store, target)
    pinned = store.marks(target).get(entry, NONE).pinned
    store.marks_file(target).add(UNPIN if pinned else PIN, [entry])
    said = "Unpinned: it may be archived when room is needed." if pinned else "Pinned: it is never archived."
    return Redirect(to=address("memory", project=store.project), notice=Notice(said))


def _change(ask: Ask) -> Redirect:
    """Edits, removes, archives or accepts an entry; accepting one that no prompt may show leaves it hidden."""
    store, action = _store(ask), ask.path["action"]
    target = _target(ask, store)
    entry = _entry(ask, store, target)
    match action:
        case "edit":
            written = store.replace(target, entry, ask.field("text"), cause=_BY_HAND, whole=True)
        case "remove":
            written = store.remove(target, entry, cause=_BY_HAND, whole=True)
        case "archive":
            written = store.archive(target, entry, cause=_BY_HAND)
        case "accept":
            written = store.accept(target, entry, cause=_BY_HAND)
        case _:
            raise NotFound(f"nothing of an entry is called {action!r}")
    return _back(store, written)


def _restore(ask: Ask) -> Redirect:
    store = _store(ask)
    target = _target(ask, store)
    for each in store.archived(target):
        if key_of(each.entry) == ask.path["entry"]:
            return _back(store, store.restore(target, each.entry, cause=_BY_HAND))
    raise NotFound("this entry is not in the archive")


def _move(ask: Ask) -> Redirect:
    """Moves an entry with its origin and its pin; adds it first and removes it then, so that none is lost."""
    store = _store(ask)
    source, target = _target(ask, store), _target(ask, store, "to")
    entry = _entry(ask, store, source)
    if source == target:
        raise WriteRefused(f"it is in {TITLES[target]} already", kind="target")
    origin = store.provenance(source)[entry].origin
    # Moving a text does not make it the person's own: text from outside stays marked as such.
    cause = Cause(
        origin="external" if origin == "unknown" else origin, note=f"moved from {source} {_ON_THE_PAGE}", approved=True
    )
    pinned = store.marks(source).get(entry, NONE).pinned
    added = store.add(target, entry, cause=cause)
    if pinned:
        store.marks_file(target).add(PIN, [entry])
    removed = store.remove(source, entry, cause=_BY_HAND, whole=True)
    done = [each.change.id for each in (removed, added) if each.change]
    notice = Notice(f"Moved to {TITLES[target]}.", undo=",".join(done))
    return Redirect(to=address("memory", project=store.project), notice=notice)


def _undo(ask: Ask) -> Redirect:
    """Undoes changes in the given order."""
    store = _store(ask)
    done = [store.undo(change, cause=_BY_HAND) for change in ask.field("change").split(",")[:10]]
    ids = ",".join(each.change.id for each in reversed(done) if each.change)
    to = address("memory", "history", project=store.project) if ask.field("from") else _home(store)
    return Redirect(to=to, notice=Notice("Undone.", undo=ids))


def _back(store: MemoryStore, written: Written) -> Redirect:
    undo = written.change.id if written.change else ""
    return Redirect(to=_home(store), notice=Notice(written.message, undo=undo))


def _home(store: MemoryStore) -> str:
    return address("memory", project=store.project)


def _conflicts(ask: Ask) -> Page:
    """Shows entries that may contradict each other side by side."""
    store = _store(ask)
    found = [each for target in store.targets for each in store.conflicts(target)]
    pairs = [
        {"target": each.target, "old": (each.old, each.old_at), "new": (each.new, each.new_at)}
        for each in found[:_CONFLICTS]
    ]
    values = {"pairs": pairs, "more": len(found) - len(pairs), "titles": TITLES, "project": store.project}
    return Page(template="conflicts.html", values=values)


def _settle(ask: Ask) -> Redirect:
    """Keeps one entry of a conflict, or both; raises NotFound if one of them was changed meanwhile."""
    store, keep = _store(ask), ask.field("keep")
    pair = (_target(ask, store), ask.field("old"), ask.field("new"))
    for each in store.conflicts(pair[0]):
        if pair == (each.target, key_of(each.old), key_of(each.new)) and keep in ("old", "new", "both"):
            written = store.settle(each, keep, cause=_BY_HAND)
            undo = written.change.id if written and written.change else ""
            said = written.message if written else "Both stay, and you are not asked about them again."
            return Redirect(to=address("memory", "conflicts", project=store.project), notice=Notice(said, undo=undo))
    raise NotFound("one of these entries was changed or settled meanwhile")


def _history(ask: Ask) -> Page:
    store = _store(ask)
    histories = []
    for target in store.targets:
        with suppress(HermesError):  # one file that cannot be read does not hide the others
            histories.append(store.history(target)[0])
    changes = in_order(*histories)[::-1]
    shown, pages = paged(changes, ask, _CHANGES_EACH)
    undone = {change.undoes for change in changes if change.undoes}
    values = {
        "changes": [_shown(change, undone) for change in shown],
        **pages,
        "project": store.project,
    }
    return Page(template="history.html", values=values)


def _shown(change: Change, undone: set[str]) -> dict[str, Any]:
    edits = [(edit.before, edit.after) for edit in change.edits]
    return {
        "id": change.id,
        "at": change.at,
        "action": change.action,
        "title": TITLES[change.target],
        "origin": change.cause.origin,
        "note": change.cause.note,
        "session": change.cause.session,
        "approved": change.cause.approved,
        "undoes": change.undoes,
        "undone": change.id in undone,
        "edits": [difference(before, after) for before, after in edits],
        "archived": [each.entry for each in change.archived],
    }


def difference(before: str | None, after: str | None) -> list[tuple[str, str]]:
    """Compares two texts word by word; returns pairs of "same", "gone" or "new" and the words."""
    if before is None or after is None:
        return [("new" if before is None else "gone", after or before or "")]
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    found: list[tuple[str, str]] = []
    for kind, i, j, k, end in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        pairs: Sequence[tuple[str, list[str]]] = (
            [("same", old[i:j])] if kind == "equal" else [("gone", old[i:j]), ("new", new[k:end])]
        )
        found += [(what, "".join(words)) for what, words in pairs if words]
    return found


MEMORY = Section(
    name="memory",
    title="Memory",
    key="m",
    views=(
        View(act=_show),
        View(path="/history", act=_history),
        View(path="/undo", method="POST", act=_undo),
        View(path="/conflicts", act=_conflicts),
        View(path="/conflicts", method="POST", act=_settle),
        View(path="/{target}", method="POST", act=_add),
        View(path="/{target}/{entry}/pin", method="POST", act=_pin),
        View(path="/{target}/{entry}/restore", method="POST", act=_restore),
        View(path="/{target}/{entry}/move", method="POST", act=_move),
        View(path="/{target}/{entry}/{action}", method="POST", act=_change),
    ),
)


_EFFECTS = {
    "tell": "the model reads it with the result",
    "hold": "the call is held back until the model has read it",
    "ask": "you are asked first",
}


def _show_rules(ask: Ask) -> Page:
    """Lists rules and reminders; the rules that a command or sentence in `test` would fire come first."""
    rules, reminders, now = RuleBook(ask.workspace.home), Reminders(ask.workspace.home), ask.workspace.now()
    tested = ask.query.get("test", "").strip()
    moments = (Situation("terminal", {"command": tested}, "", now), Situation("", None, tested, now)) if tested else ()
    fired = {each.name: each for moment in reversed(moments) for each in rules.fired(moment)}
    due = {each.id for each in reminders.due(now)}
    waiting = [each for each in reminders.all() if each.state == WAITING]
    values = {
        "rules": sorted(rules.all(), key=lambda each: (each.id not in fired, not each.on)),
        "fired": fired,
        "tested": tested,
        "effects": _EFFECTS,
        "reminders": sorted(waiting, key=lambda each: (each.id not in due, each.due or "~")),
        "due": due,
    }
    return Page(template="rules.html", values=values)


def _add_rule(ask: Ask) -> Redirect:
    """Adds a rule that the person typed, which needs no approval, as on the command line."""
    home = ask.workspace.home
    rule = RuleBook(home).add(ask.field("text"), enforce=load_settings(home).text("rules.enforce"))
    return _to_rules(f"Noted: {rule.text} It applies to {rule.when.in_words()}.")


def _change_rule(ask: Ask) -> Redirect:
    rules, wanted = RuleBook(ask.workspace.home), ask.path["rule"]
    if ask.field("enforce") in ENFORCE:
        rule = rules.change(wanted, enforce=ask.field("enforce"))
        return _to_rules(f"When it fires, {_EFFECTS[rule.enforce]}: {rule.text}")
    if ask.field("remove"):
        return _to_rules(f"Removed: {rules.remove(wanted).text}")
    rule = rules.change(wanted, on=ask.field("on") == "yes")
    return _to_rules(f"Switched {'on' if rule.on else 'off'}: {rule.text}")


def _add_reminder(ask: Ask) -> Redirect:
    made = Reminders(ask.workspace.home).add(understood(ask.field("text"), ask.workspace.now()))
    return _to_rules(f"Comes up {made.when}: {made.text}")


def _remind(ask: Ask) -> Redirect:
    reminders, now = Reminders(ask.workspace.home), ask.workspace.now()
    if ask.field("done"):
        return _to_rules(f"Done: {reminders.change(ask.path['reminder'], state=DONE).text}")
    due = moment_meant(ask.field("until"), now).due
    moved = reminders.change(ask.path["reminder"], state=WAITING, due=due, words=())
    return _to_rules(f"Comes up {moved.when}: {moved.text}")


def _to_rules(said: str) -> Redirect:
    return Redirect(to=address("rules"), notice=Notice(said))


def _due(workspace: Workspace) -> int:
    return len(Reminders(workspace.home).due(workspace.now()))


RULES = Section(
    name="rules",
    title="Rules",
    key="u",
    waiting=_due,
    views=(
        View(act=_show_rules),
        View(method="POST", act=_add_rule, approves=True),
        View(path="/reminders", method="POST", act=_add_reminder, approves=True),
        View(path="/{rule}", method="POST", act=_change_rule, approves=True),
        View(path="/reminders/{reminder}", method="POST", act=_remind),
    ),
)


# Approvals: pending writes with the passages they may come from, to accept, change or reject.

_EACH = 20  # on a page
# The tags and the note that Hermes puts around recalled text, whole or cut off.
_FENCE = re.compile(r"</?memory-context[^>]*>|(\[System note:|^…)[^\]]*stands inside it\.\]\s*")
_WORD_OR_GAP = re.compile(r"\w+|\W+")
_SMALL_WORDS = "a an and are as at be by for from has have i in is it my of on or that the this to was with you"
_SMALL = frozenset(_SMALL_WORDS.split())
_SHORTEST = 2  # characters of a word that is worth marking


def _writes(workspace: Workspace) -> PendingWrites:
    return PendingWrites(workspace.home, platform="web")


def _show_pending(ask: Ask) -> Page:
    waiting = _writes(ask.workspace)
    shown, pages = paged(waiting.all(), ask, _EACH)
    values = {"pending": [_pending_card(each) for each in shown], "unreadable": len(waiting.unreadable()), **pages}
    return Page(template="approvals.html", values=values)


def _pending_card(pending: PendingWrite) -> dict[str, Any]:
    call = getattr(pending, "call", None)
    sink = SINKS.get(pending.sink)
    return {
        "id": pending.id,
        "what": TITLES.get(pending.target) or (call["tool"] if call else pending.target),
        "summary": "" if pending.target in TITLES else pending.summary,
        "project": getattr(pending, "project", ""),
        "about": sink.about if sink else "",
        "texts": pending.texts,
        "removes": [each["old_text"] for each in getattr(pending, "operations", ()) if each.get("old_text")],
        "arguments": json.dumps(call["arguments"], ensure_ascii=False, indent=1) if call and not pending.texts else "",
        "created_at": pending.created_at,
        "session": pending.as_dict()["session"],
        "reason": pending.reason,
        "sources": [_source(each, pending.texts) for each in pending.sources],
    }


def _source(source: Mapping[str, str], texts: Sequence[str]) -> dict[str, Any]:
    passage = highlighted(_FENCE.sub("", source.get("passage", "")), texts)
    nearest = any(marked for marked, _ in passage)
    return {"origin": source.get("origin", ""), "name": source.get("name", ""), "passage": passage, "nearest": nearest}


def highlighted(passage: str, texts: Sequence[str]) -> list[tuple[bool, str]]:
    """Splits a passage into pieces, each marked if its words are also in the texts that would be kept."""
    kept = {word for text in texts for word in _WORD_OR_GAP.findall(text.casefold()) if _counts(word)}
    pieces = _WORD_OR_GAP.findall(passage)
    found = [place for place, piece in enumerate(pieces) if piece.casefold() in kept]
    marked = set(found)
    for here, after in pairwise(found):  # small words do not interrupt a marked run
        if not any(_counts(piece.casefold()) for piece in pieces[here + 1 : after]):
            marked.update(range(here, after))
    runs = groupby(range(len(pieces)), key=lambda place: place in marked)
    return [(is_marked, "".join(pieces[place] for place in places)) for is_marked, places in runs]


def _counts(word: str) -> bool:
    return word[:1].isalnum() and len(word) >= _SHORTEST and word not in _SMALL


def _decide(ask: Ask) -> Redirect:
    """Decides about one write, with the texts as the person edited them in its form."""
    waiting, wanted = _writes(ask.workspace), ask.path["pending"]
    pending = waiting.get(wanted)
    texts = ask.form.get("text", ())
    if ask.field("decision") == "reject":
        waiting.reject(wanted)
        return _to_approvals(Notice(f"Rejected: {pending.summary}"))
    if texts and texts != tuple(text.replace("\r\n", "\n") for text in pending.texts):
        waiting.edit(wanted, texts)
    approved = waiting.approve(wanted)
    change = approved.as_dict()["change"] if _can_undo(pending) else None
    return _to_approvals(Notice(approved.message, undo=change or ""))


def _decide_several(ask: Ask) -> Redirect:
    waiting, chosen = _writes(ask.workspace), ask.form.get("chosen", ())
    if not chosen:
        return _to_approvals(Notice("Choose some first.", wrong=True))
    done, undo, wrong = 0, [], []
    for wanted in chosen:
        try:
            if ask.field("decision") == "reject":
                waiting.reject(wanted)
            else:
                approved = waiting.approve(wanted)
                undo += [approved.as_dict()["change"]] if _can_undo(approved.pending) else []
            done += 1
        except NotFound:
            wrong.append("one was decided elsewhere meanwhile")
        except HermesError as error:
            wrong.append(str(error))
    verb = "Rejected" if ask.field("decision") == "reject" else "Accepted"
    said = ". ".join([f"{verb} {counted(done, 'write')}", *wrong])
    return _to_approvals(Notice(f"{said}.", undo=",".join(filter(None, reversed(undo))), wrong=bool(wrong)))


def _can_undo(pending: PendingWrite) -> bool:
    return pending.target in TARGETS  # notes of a project are undone in its history


def _to_approvals(notice: Notice) -> Redirect:
    return Redirect(to=address("approvals"), notice=notice)


APPROVALS = Section(
    name="approvals",
    title="Approvals",
    key="a",
    waiting=lambda workspace: len(_writes(workspace).all()),
    views=(
        View(act=_show_pending),
        View(method="POST", act=_decide_several, approves=True),
        View(path="/{pending}", method="POST", act=_decide, approves=True),
    ),
)
