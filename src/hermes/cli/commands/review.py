"""Commands of `hermes memory` and `skills` with which a person decides: pending writes, edited files, imports."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from hermes.base.errors import NotFound, SettingsError, StorageError, WriteRefused
from hermes.base.text import counted
from hermes.cli import ui
from hermes.cli.commands.inspect import judge, judged_lines
from hermes.cli.commands.portability import carry_out
from hermes.cli.memory import BY_HAND, after, in_words, open_store, report
from hermes.memory.approval import Approvals
from hermes.memory.store import TARGETS, usage
from hermes.operations.status import examine_provider
from hermes.portability.notes import plan_memory
from hermes.safety.scanner import scan_entries
from hermes.session.approvals import PendingWrites, origins
from hermes.session.external import chosen_providers
from hermes.settings.home import named_project

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hermes.memory.store import MemoryStore
    from hermes.session.approvals import PendingWrite


def memory_status(given: ui.Given, context: ui.Context) -> None:
    """Prints how full memory is, what is pending, and whether the memory providers work."""
    store = open_store(context, given)
    waiting, unreadable = Approvals(context.home).pending()
    targets = (*TARGETS, "project") if "project" in store.targets else TARGETS
    files = {target: _file_status(store, target) for target in targets}
    names = chosen_providers(context.settings)
    providers = [examine_provider(context.home, context.settings, name, connect=not given.offline) for name in names]
    approval, lines = context.settings.flag("memory.write_approval"), []
    for target, state in files.items():
        lines.append(f"{target:<7} {state['usage'] if state['enabled'] else 'switched off'}")
        if state["enabled"]:
            held = f"{counted(state['entries'] or 0, 'entry', 'entries')}, {counted(state['changes'] or 0, 'change')}"
            lines.append(f"        {state['file']}: {held} in the log")
        if state["problem"]:
            lines.append(f"        ! {state['problem']}")
    lines.append(f"write approval is {'on' if approval else 'off'}; {counted(len(waiting), 'write')} pending")
    lines += [f"! {path} cannot be read; look at it, then remove it" for path in unreadable]
    lines += [line for each in providers for line in _provider_lines(each)]
    if not providers:
        lines.append("no external memory (`hermes memory setup`)")
    document = {"home": context.home.path, "files": files, "write_approval": approval, "pending": len(waiting)}
    ui.show(given, {**document, "unreadable_pending": unreadable, "providers": providers}, *lines)


def _provider_lines(found: dict[str, Any]) -> Iterator[str]:
    """Yields the state of a memory provider, and what it lacks."""
    state = str(found["connection"] or "available")
    if not found["available"]:
        state = "! not available: packages or settings are missing (`hermes memory setup`)"
    if found["problem"]:
        state = f"! {found['problem']}"
    yield f"provider {found['name']}: {state}"
    if found.get("runs"):
        yield f"        runs {found['runs']}"
    for key, text in (found.get("config") or {}).items():
        yield f"        {key}: {text}"
    for field in found.get("missing") or ():
        where = f" ({field['url']})" if field["url"] else ""
        yield f"        ! {field['variable'] or field['key']} is missing{where}"
    if found["waiting"]:
        yield f"        {counted(found['waiting'], 'call')} waiting to be handed over"
    if found["refused"]:
        yield f"        ! {counted(found['refused'], 'call')} refused and set aside"
    if found.get("last"):
        yield f"        {ui.when(found['last_at'])}: {found['last']}"


def _file_status(store: MemoryStore, target: str) -> dict[str, Any]:
    """The state of one memory file; one that cannot be read is a problem to report, not an error."""
    if target not in store.targets:
        return {"enabled": False, "problem": None}
    state: dict[str, Any] = {"enabled": True, "file": store.path(target), "limit": store.limit(target)}
    try:
        reading, (changes, damaged) = store.read(target), store.history(target)
    except StorageError as error:
        return {**state, "entries": None, "changes": None, "usage": "cannot be read", "problem": str(error)}
    problem = reading.drift or (f"{damaged} records of its history are damaged" if damaged else None)
    return {
        **state,
        "entries": len(reading.entries),
        "usage": usage(reading.entries, store.limit(target)),
        "changes": len(changes),
        "problem": problem,
    }


def _pending(given: ui.Given, context: ui.Context, *, skills: bool) -> None:
    waiting, lines = _waiting(context, skills=skills), []
    for each in waiting:
        origin = each.as_dict()["origin"]
        lines.append(f"{each.id}  {ui.when(each.created_at)}  {each.target}  by {origin}  {each.summary}")
        lines += [f"          {line}" for line in origins(each)]
    ui.show(given, [each.as_dict() for each in waiting], *(lines or ["nothing is pending"]))
    for path in () if given.json or skills else PendingWrites(context.home).unreadable():
        ui.problem(f"{path} cannot be read; look at it, then remove it")


def _approve(given: ui.Given, context: ui.Context, *, skills: bool) -> None:
    pending, chosen = PendingWrites(context.home), _chosen(given, context, skills=skills)
    if not skills and (given.edit or given.text is not None):
        for each in map(pending.get, chosen):
            pending.edit(each.id, _edited(each, given.text))
    done = [pending.approve(each) for each in chosen]
    documents = [
        {**each.as_dict(), "id": each.pending.id, **(after(each.written) if each.written else {})} for each in done
    ]
    lines = (in_words(each.written) if each.written else f"{each.pending.id}: {each.message}" for each in done)
    ui.show(given, documents, *lines)


def _edited(pending: PendingWrite, text: str | None) -> list[str]:
    """The texts of a pending write as the person wants them: the one they gave, or what they save in their editor."""
    if not pending.texts:
        raise SettingsError(f"{pending.id} keeps no text that could be edited; approve or reject it as it is")
    if text is not None:
        if len(pending.texts) > 1:
            raise SettingsError(f"{pending.id} keeps {len(pending.texts)} texts; edit them with --edit")
        return [text]
    return [ui.edited(each) for each in pending.texts]


def _reject(given: ui.Given, context: ui.Context, *, skills: bool) -> None:
    pending = PendingWrites(context.home)
    rejected = [pending.reject(each) for each in _chosen(given, context, skills=skills)]
    ui.show(given, [each.as_dict() for each in rejected], *(f"{each.id} rejected: {each.summary}" for each in rejected))


def _chosen(given: ui.Given, context: ui.Context, *, skills: bool) -> list[str]:
    """The ids to decide about; an unknown id is an error before anything is decided."""
    listing = f"hermes {'skills' if skills else 'memory'} pending"
    waiting = [each.id for each in _waiting(context, skills=skills)]
    if not given.ids and not given.all:
        raise SettingsError(f"name the ids, or use --all (`{listing}` lists them)")
    if unknown := [each for each in given.ids if each not in waiting]:
        raise NotFound(f"nothing is pending under {unknown[0]!r}; `{listing}` lists what is")
    if given.all and not waiting and not given.json:
        ui.line("nothing is pending")
    return waiting if given.all else list(given.ids)


def _waiting(context: ui.Context, *, skills: bool) -> list[PendingWrite]:
    return [each for each in PendingWrites(context.home).all() if not skills or each.target == "skills"]


memory_pending, skills_pending = (partial(_pending, skills=each) for each in (False, True))
memory_approve, skills_approve = (partial(_approve, skills=each) for each in (False, True))
memory_reject, skills_reject = (partial(_reject, skills=each) for each in (False, True))


def memory_adopt(given: ui.Given, context: ui.Context) -> None:
    """Accepts a memory file that was edited in another form: backs up its bytes, and writes its entries in ours."""
    report(given, open_store(context, given).adopt(given.target, cause=BY_HAND))


def memory_reset(given: ui.Given, context: ui.Context) -> None:
    """Removes all entries of a target, or of all targets, after asking; the history keeps them."""
    store = open_store(context, given)
    everything = ["project"] if given.project else list(store.targets)
    targets = [given.target] if given.target else everything
    question = f"forget everything in {' and '.join(targets)}?"
    ui.confirm(given, question, "nothing was changed (use --yes to skip the question)")
    report(given, *(store.reset(target, cause=BY_HAND) for target in targets), several=True)


def _accept(given: ui.Given, context: ui.Context) -> int:
    """Keeps a flagged entry in prompts; one that the scanner refuses cannot be kept."""
    store = open_store(context)
    found = [(target, entry) for target in store.targets for entry in store.entries(target) if given.accept in entry]
    if len(found) != 1:
        held = counted(len(found), "entry holds", "entries hold")
        raise NotFound(f"{held} {given.accept!r}, expected one; use words that only one contains")
    target, entry = found[0]
    if judge(entry, scan_entries([entry])[0])["verdict"] == "refuse":
        raise WriteRefused("this entry is refused, so it is never shown; write the plain fact instead", kind="threat")
    report(given, store.accept(target, entry, cause=BY_HAND))
    return ui.OK


def memory_scan(given: ui.Given, context: ui.Context) -> int:
    """Judges all entries; exits with 1 if one is not clean. With `--accept`, keeps a flagged entry after all."""
    if given.accept:
        return _accept(given, context)
    store = open_store(context)
    judged = []
    for target in store.targets:
        entries, origins = store.entries(target), store.provenance(target)
        for number, (entry, verdict) in enumerate(zip(entries, scan_entries(entries), strict=True), start=1):
            place = {"target": target, "number": number, "origin": origins[entry].origin}
            judged.append({**place, **judge(entry, verdict)})
    flagged = [each for each in judged if each["verdict"] != "clean"]
    lines = []
    for each in flagged:
        lines += [f"{each['target']} entry {each['number']}, by {each['origin']}", *judged_lines(each)]
    lines.append(f"{counted(len(judged), 'entry', 'entries')} scanned, {len(flagged)} flagged")
    ui.show(given, {"entries": len(judged), "flagged": flagged}, *lines)
    return ui.REFUSED if flagged else ui.OK


def memory_import(given: ui.Given, context: ui.Context) -> int:
    """Imports entries from the notes of another program, after showing them; exits with 1 after a warning."""
    project = named_project(given.project) if given.project else ""
    report = plan_memory(context.home, given.source, given.format, given.target, project)
    code = carry_out(given, context, report)
    return code or (ui.REFUSED if report.warnings else code)
