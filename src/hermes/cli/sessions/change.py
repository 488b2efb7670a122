"""`hermes sessions`: rename, delete, prune, optimize, export, import, repair and restore conversations."""

from __future__ import annotations

import hashlib
import io
import os
import shlex
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hermes.base.errors import HermesError, LockTimeout, NotFound, SettingsError, StorageError
from hermes.base.text import counted
from hermes.cli import ui
from hermes.cli.sessions.look import as_json, name_of, named, named_exactly, open_existing
from hermes.compaction.messages import renumbered
from hermes.conversations.context import Contexts
from hermes.conversations.database import Opened, Pages, SessionDB
from hermes.conversations.maintenance import Maintenance
from hermes.conversations.recorded_import import RecordedDB, unfinished_imports
from hermes.conversations.retrieval import unmasked
from hermes.portability.conversations_export import HtmlWriter, JsonlWriter, MarkdownWriter, export
from hermes.portability.conversations_import import Importer
from hermes.portability.transcripts import (
    FORMATS,
    HERMES_AGENT,
    JSONL,
    Imported,
    TranscriptImport,
    check_name,
    recognised,
    sources,
)
from hermes.safety.secrets import mask_secrets
from hermes.session.review import QUICKLY_REWRITTEN
from hermes.settings.config import conversations_of
from hermes.settings.home import DATABASE, UNSAVED, named_project
from hermes.storage.ports import is_address

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import BinaryIO, TextIO

    from hermes.portability.conversations_export import Writer
    from hermes.portability.transcripts import Source
    from hermes.settings.home import Home
    from hermes.storage.local.repair.check import Repair
    from hermes.storage.records import Session


_LISTED = 10

_EMBEDDED_AT_ONCE = 1_000


def sessions_rename(given: ui.Given, context: ui.Context) -> None:
    with open_existing(context) as db:
        session = named_exactly(db, given.session)
        title = db.rename(session.id, " ".join(given.title))
    line = f"{session.id} is now called {ui.visible(title or '(nothing)')}"
    ui.show(given, {"session_id": session.id, "title": title}, line)


def sessions_delete(given: ui.Given, context: ui.Context) -> None:
    with open_existing(context) as db:
        chosen = {session.root: session for session in (named_exactly(db, name) for name in given.sessions)}.values()
        names = ", ".join(f"{name_of(session)!r} ({session.id})" for session in chosen)
        question = f"delete {names} with all messages, for good?"
        ui.confirm(given, question, "nothing was deleted (use --yes to skip the question)")
        _show_removed(given, _remove(db, chosen))


def sessions_prune(given: ui.Given, context: ui.Context) -> None:
    days = context.settings.get("sessions.retention_days") if given.older_than is None else given.older_than
    unused = counted(days, "day")
    with open_existing(context) as db:
        Opened(db).end_abandoned()
        upkeep = Maintenance.of_db(db)
        old = upkeep.unused(days, source=given.source, archived=given.include_archived)
        many = counted(len(old), "conversation")
        if given.dry_run or not old:
            lines = [f"{many} would be deleted, the least recently used first:"]
            lines += [f"  {each.id}  {ui.when(each.last_active)[:16]}  {name_of(each)[:60]}" for each in old[:_LISTED]]
            lines += [f"  and {len(old) - _LISTED:,} more (--json lists all)"] if len(old) > _LISTED else []
            document = {"dry_run": given.dry_run, "conversations": len(old)}
            document["sessions"] = [as_json(each) for each in old]
            ui.show(given, document, *(lines if old else [f"no ended conversation was unused for {unused}"]))
            return
        otherwise = f"{many} would be deleted; nothing was (--yes deletes, --dry-run lists)"
        ui.confirm(given, f"delete {many} not used for {unused}, for good?", otherwise)
        removed = _remove(db, old)
        if context.settings.flag("sessions.vacuum_after_prune") and upkeep.sizes()["file_bytes"] <= QUICKLY_REWRITTEN:
            upkeep.rewrite()
    _show_removed(given, removed, dry_run=False)


def _remove(db: SessionDB, chosen: Iterable[Session]) -> dict[str, Any]:
    """Deletes whole conversations, part by part; branches that grew out of them stay."""
    sessions: list[str] = []
    messages, rows = 0, list(chosen)
    with ui.Progress("deleting", len(rows)) as progress:
        for done, session in enumerate(rows, start=1):
            for part in reversed(db.lineage(session.id)):
                if db.find_session(part.id) is not None:  # a delegated part goes with the one that started it
                    messages += part.message_count
                    sessions.append(part.id)
                    db.delete(part.id)
            progress.update(done)
    return {"conversations": len(rows), "sessions": sessions, "messages": messages}


def _show_removed(given: ui.Given, removed: dict[str, Any], **more: bool) -> None:
    counts = (counted(len(removed["sessions"]), "session"), counted(removed["messages"], "message"))
    lines = f"deleted {counted(removed['conversations'], 'conversation')}: {', '.join(counts)}"
    ui.show(given, {**removed, **more}, lines)


def sessions_optimize(given: ui.Given, context: ui.Context) -> None:
    with open_existing(context) as db:
        upkeep = Maintenance.of_db(db)
        before = upkeep.sizes()
        indexed, embedded = db.index(), 0
        with ui.Progress("computing vectors for search by meaning, messages") as progress:
            while step := db.embed(_EMBEDDED_AT_ONCE):  # none where meaning is not searched
                embedded += step
                progress.update(embedded)
        steps = _settle(upkeep)
        if given.vacuum:
            upkeep.rewrite()
        after = upkeep.sizes()
    lines = [f"vectors for search by meaning computed for {embedded:,} messages"] if embedded else []
    merged = f"index merged in {counted(steps, 'step')}" if steps else "the index was merged already"
    old, new = (sizes["file_bytes"] + sizes["log_bytes"] for sizes in (before, after))
    grown = " (it grew: merging writes the index anew before the old one is free for later messages)"
    now = f"{ui.bytes_in_words(new)} now{grown if new > old else ''}"
    lines.append(f"{merged}; {ui.bytes_in_words(old)} on disk before, {now}")
    if after["free_bytes"] > after["file_bytes"] // 4 and not given.vacuum:
        lines.append(f"{ui.bytes_in_words(after['free_bytes'])} are free inside the file; --vacuum gives them back")
    document = {"before": before, "after": after, "merge_steps": steps, "indexed": indexed, "embedded": embedded}
    ui.show(given, document, *lines)


def _settle(upkeep: Maintenance) -> int:
    """Merges the pieces of the index; in how many steps."""
    steps = 0
    with ui.Progress("merging the index, step") as progress:
        for steps in upkeep.settle():
            progress.update(steps)
    return steps


def sessions_export(given: ui.Given, context: ui.Context) -> int:
    if bool(given.sessions) == given.all:
        raise SettingsError("name the conversations to export, or use --all")
    mask = unmasked if given.with_secrets else mask_secrets
    with open_existing(context) as db:
        parts = [part for name in given.sessions for part in db.lineage(named(db, name).id)]
        chosen = list(Pages.of_db(db).sessions() if given.all else {part.key: part for part in parts}.values())
        total = sum(session.message_count for session in chosen)
        with _output(given.out, replace=given.force) as file, ui.Progress("exporting", total) as progress:
            makers: dict[str, Callable[[], Writer]] = {
                "jsonl": lambda: JsonlWriter(db, file.write, mask),
                "markdown": lambda: MarkdownWriter(file.write, mask),
                "html": lambda: HtmlWriter(file.write, mask),
            }
            done = export(db, chosen, makers[given.format](), progress.update)
    if given.out:
        held = f"{counted(done.sessions, 'session')} with {counted(done.messages, 'message')}"
        print(f"{given.out} holds {held}", file=sys.stderr)
    return ui.tell_damaged(done.damaged)


@contextmanager
def _output(path: str | None, *, replace: bool) -> Iterator[TextIO]:
    """Standard output, or a private file that gets its name when it is complete."""
    if path is None:
        # Whatever the terminal's encoding is, what is exported is UTF-8 and can be imported again.
        sys.stdout.flush()
        out = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", errors="backslashreplace", newline="\n")
        yield out
        out.flush()
        out.detach()
        return
    if os.path.exists(path) and not replace:
        raise StorageError(f"{path} is there already; name another file, or use --force to replace it")
    part = f"{path}.part-{os.getpid()}"
    try:
        descriptor = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        with open(descriptor, "w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        if os.path.exists(part):
            os.unlink(part)


def sessions_repair(given: ui.Given, context: ui.Context) -> None:
    from hermes.storage.local.repair.check import repair

    path = given.path or context.home.join(DATABASE)
    with ui.Progress() as progress:
        shown = None if given.json else progress.stage
        told = repair(path, dry_run=given.dry_run, progress=shown, out=given.out)
        added = [] if given.dry_run or given.path or given.out else _added(context.home)
    lines = [*_lines(told, dry_run=given.dry_run), *added]
    ui.show(given, told.as_json() | {"dry_run": given.dry_run, "added": added}, *lines)


def _added(home: Home) -> list[str]:
    """What could not be stored while the database was damaged."""
    if not os.path.isdir(home.join(UNSAVED)):
        return []
    from hermes.conversations.database import SessionDB
    from hermes.session.unsaved import take_up

    with SessionDB.open(**conversations_of(home)) as db:
        return take_up(home, db)


def _lines(told: Repair, *, dry_run: bool) -> Iterator[str]:
    found = told.salvaged
    if found is None:
        yield f"{told.path} is sound; nothing to repair"
        return
    yield f"{told.path} is damaged:"
    yield from (f"  {problem}" for problem in told.problems)
    keep = "can keep" if dry_run else "kept"
    yield f"{keep} {found.messages:,} messages in {found.sessions:,} sessions"
    if found.summaries:
        yield f"{keep} {found.summaries:,} summaries of the lossless engine"
    if found.altered:
        yield f"{len(found.altered):,} messages were altered; they are left out and kept in unverified.jsonl"
    if found.lost:
        yield f"{found.lost:,} messages are lost"
    if found.damaged_sessions:
        yield f"sessions that lost their titles: {', '.join(found.damaged_sessions)}"
    if found.salvage_sessions:
        yield f"messages whose session is lost are in: {', '.join(found.salvage_sessions)}"
    if dry_run:
        yield "nothing was changed; run `hermes sessions repair` to do it"
    else:
        yield f"the original bytes and a report are in {told.backup}"


def sessions_restore(given: ui.Given, context: ui.Context) -> None:
    with open_existing(context) as db:
        session = db.tip(named(db, given.session).id)
        contexts = Contexts(db)
        if not contexts.was_compacted(session.id):
            raise NotFound(f"{session.id} was never compacted; there is nothing to restore")
        restored, messages = contexts.restore(session.id)
        title = db.get_session(restored).title
    document = {"session_id": restored, "restored_from": session.id, "title": title, "messages": messages}
    held = f"{restored} holds all {counted(messages, 'message')} of {session.id}, which stays as it is"
    ui.show(given, document, held, f"`hermes --resume {restored}` continues it; its model needs room for all of it")


_DAY = 86_400  # seconds
_MANY = 10_000  # messages after which the index is worth merging


def sessions_import(given: ui.Given, context: ui.Context) -> int:
    if not 0 < given.interval <= _DAY:
        raise SettingsError(f"--interval {given.interval:g}: expected seconds, more than 0 and at most a day")
    form = given.format or (_format_of(given.file) if given.file else None)
    if given.discard:
        _discard(given, context)
    elif given.file is None:
        raise SettingsError("name a file, a folder, claude-code or codex (`hermes sessions import --help`)")
    elif given.watch:
        _watch(given, context)
    elif form == HERMES_AGENT and os.path.isfile(given.file):
        _import_database(given, context)
    elif form == JSONL:
        return _import_lines(given, context)
    else:
        return _report(given, _bring_in(given, context, form))
    return ui.OK


def _format_of(path: str) -> str | None:
    """The format of a single file; a text in an unknown format counts as JSONL, whose reader reports what is wrong."""
    if path == "-":
        return JSONL
    real = os.path.realpath(path)
    if not os.path.isfile(real):
        return None
    return recognised(real) or (None if path.endswith((".json", ".zip", ".db", ".sqlite", ".af")) else JSONL)


def _bring_in(given: ui.Given, context: ui.Context, form: str | None) -> Imported:
    found = sources(given.file, form)
    if not found:
        raise NotFound(f"there are no transcripts that can be read in {given.file}; --format names what they are")
    size, project = sum(source.size() for source in found), named_project(given.project) if given.project else None
    try:
        with (
            _taken_back_on_failure(given, context) as db,
            ui.Progress("importing", size, unit=" bytes") as progress,
        ):
            work = TranscriptImport(db, project=project, on_bytes=progress.update)
            for source in found:
                _take(db, work, source)
            return work.finish()
    except KeyboardInterrupt:
        ui.problem("stopped; the same command continues from here, and --discard undoes it")
        raise


def _take(db: RecordedDB, work: TranscriptImport, source: Source) -> None:
    """A folder may hold files of every kind; those with readers of their own are read by them."""
    if source.format == HERMES_AGENT:
        from hermes.portability.hermes_agent import import_hermes_agent

        counts = import_hermes_agent(source.path, db)
        work.result.sessions += counts.sessions
        work.result.messages += counts.messages
    elif source.format == JSONL:
        with _input(source.path) as (file, _):
            title = os.path.splitext(os.path.basename(source.path))[0]
            lines = Importer(db, title=title, renumbered=renumbered).read(file)
        work.result.sessions += lines.sessions
        work.result.messages += lines.messages
        work.result.already_there += lines.already_there
        work.result.bad += lines.bad_lines
        work.result.problems += [f"{os.path.basename(source.path)}: line {n}: {text}" for n, text in lines.problems]
    else:
        work.take(source)


@contextmanager
def _taken_back_on_failure(given: ui.Given, context: ui.Context) -> Iterator[RecordedDB]:
    """Undoes a failed import. One that the person stops keeps what it has stored, and the next run continues it."""
    where, name = conversations_of(context.home), _name_of_import(given.file)
    command = ["hermes", "sessions", "import", _place(given.file)]  # goes on with it after an interruption
    for option in ("format", "project"):
        if chosen := getattr(given, option):
            command += [f"--{option}", chosen]
    with RecordedDB.open(**where, durability="turn", name=name, about=shlex.join(command)) as db:
        before = db.counts()["messages"]
        try:
            yield db
        except (HermesError, OSError, ValueError, MemoryError) as error:
            try:
                db.take_back()
            except StorageError as second:
                raise StorageError(
                    f"{error}; what was stored until then could not be taken back ({second}); "
                    "remove the cause and run the same command again, which completes it"
                ) from error
            raise
        db.complete()
        _settle_index(db, many=db.counts()["messages"] - before >= _MANY)


def _settle_index(db: RecordedDB, *, many: bool) -> None:
    """Indexes what still waits; many messages leave the index in pieces, and a search has to look into each."""
    try:
        db.index()
        if many:
            _settle(Maintenance.of_db(db))
    except StorageError as error:
        ui.problem(f"everything is imported, but its index is not ready ({error}); run `hermes sessions optimize`")


def _watch(given: ui.Given, context: ui.Context) -> None:
    """Looks again and again, and says what came; ends when the person stops it.

    What is there at the start may go and come back later; what is not there has been mistyped.
    """
    check_name(given.file)
    ui.line(f"watching {given.file}; Ctrl-C ends it")
    told: set[str] = set()
    try:
        while True:
            _look_once(given, context, told)
            sys.stdout.flush()
            time.sleep(given.interval)
    except KeyboardInterrupt:
        return


def _look_once(given: ui.Given, context: ui.Context, told: set[str]) -> None:
    try:
        found = _bring_in(given, context, given.format)
    except (NotFound, LockTimeout) as error:  # nothing there yet, or another program writes: look again later
        found = Imported(problems=[str(error)])
    for problem in found.problems:
        if problem not in told:
            ui.problem(problem)
    told.update(found.problems)
    if found.messages:
        ui.line(f"{counted(found.messages, 'new message')}, {counted(found.sessions, 'new session')}")


def _report(given: ui.Given, result: Imported) -> int:
    for problem in result.problems:
        ui.problem(problem)
    if result.bad > len(result.problems):
        ui.problem(f"and {result.bad - len(result.problems):,} more could not be read")
    unchanged = f"{counted(result.unchanged, 'file')} had not changed"
    line = f"imported {_amounts(result)} from {counted(result.files, 'file')}; {_there(result)}, {unchanged}"
    names = ("files", "unchanged", "sessions", "messages", "already_there", "bad", "problems")
    ui.show(given, ui.pick(result, *names), line)
    return ui.REFUSED if result.bad else ui.OK


def _import_lines(given: ui.Given, context: ui.Context) -> int:
    title = None if given.file == "-" else os.path.splitext(os.path.basename(given.file))[0]

    def problem(number: int, text: str) -> None:
        progress.close()
        ui.problem(f"line {number}: {text}")

    with (
        _input(given.file) as (file, size),
        ui.Progress("importing", size or 0, unit=" bytes") as progress,
        _taken_back_on_failure(given, context) as db,
    ):
        seen = progress.update
        importer = Importer(
            db, source=given.source, title=title, on_problem=problem, on_bytes=seen, renumbered=renumbered
        )
        result = importer.read(file)
    if result.bad_lines > len(result.problems):
        ui.problem(f"and {result.bad_lines - len(result.problems):,} more lines could not be read")
    problems = [{"line": number, "problem": text} for number, text in result.problems]
    counts = ui.pick(result, "sessions", "messages", "already_there", "bad_lines")
    ui.show(given, {**counts, "problems": problems}, f"imported {_amounts(result)}; {_there(result)}")
    return ui.REFUSED if result.problems else ui.OK


def _amounts(result: Any) -> str:
    return f"{counted(result.sessions, 'session')} with {counted(result.messages, 'message')}"


def _there(result: Any) -> str:
    return f"{result.already_there:,} messages were there already"


def _import_database(given: ui.Given, context: ui.Context) -> None:
    """A `state.db` of hermes-agent: brought in from elsewhere; where ours would be, adopted with the original kept."""
    from hermes.portability.exchange import HomeCopy
    from hermes.portability.hermes_agent import adopt_hermes_agent, import_hermes_agent

    ours, kept = context.home.join(DATABASE), None
    with ui.Progress("importing messages") as progress:
        if os.path.realpath(given.file) == os.path.realpath(ours):
            with HomeCopy(context.home.path) as copy:
                counts, kept = adopt_hermes_agent(ours, copy, progress.stage)
                copy.swap()
        else:
            with _taken_back_on_failure(given, context) as db:
                counts = import_hermes_agent(given.file, db, progress.stage)
    original = [f"the original is kept as {kept}"] if kept else []
    document = {**ui.pick(counts, "sessions", "messages", "known"), "original": kept}
    ui.show(given, document, f"imported {_amounts(counts)} of hermes-agent", *original)


@contextmanager
def _input(path: str) -> Iterator[tuple[BinaryIO, int | None]]:
    if path == "-":
        yield sys.stdin.buffer, None
        return
    try:
        with open(path, "rb") as file:
            yield file, os.fstat(file.fileno()).st_size
    except FileNotFoundError as error:
        raise NotFound(f"there is no file {path}") from error
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}") from error


def _name_of_import(file: str) -> str:
    """The same name for the same source, wherever the command is run."""
    return hashlib.sha256(_place(file).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _place(file: str) -> str:
    """The path, even if the file is gone; names of programs and `-` stay as they are."""
    is_name = file == "-" or (file in FORMATS and not os.path.exists(file))
    return file if is_name else os.path.realpath(file)


def _discard(given: ui.Given, context: ui.Context) -> None:
    where, chosen = conversations_of(context.home), []
    if is_address(where["path"]) or os.path.exists(where["path"]):
        with SessionDB.open(**where) as db:
            chosen = unfinished_imports(db)
    if given.file is not None:
        chosen = [each for each in chosen if each.name == _name_of_import(given.file)]
    if not chosen:
        raise NotFound(f"there is no unfinished import{f' of {given.file}' if given.file else ''} to discard")
    kept = 0
    for each in chosen:
        with RecordedDB.open(**where, durability="turn", name=each.name) as recorded:
            kept += recorded.take_back(everything=True)
            recorded.sync()
    messages, sessions = (sum(getattr(each, name) for each in chosen) for name in ("messages", "sessions"))
    lines = [f"discarded {counted(each.messages, 'message')} of `{each.about}`" for each in chosen]
    if kept:
        lines.append(f"kept {counted(kept, 'conversation')}, because they went on here after the import")
    document = {"imports": [each.about for each in chosen], "messages": messages, "sessions": sessions, "kept": kept}
    ui.show(given, document, *lines)
