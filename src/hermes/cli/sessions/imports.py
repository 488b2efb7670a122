"""`hermes sessions import`: conversations of other programs, and our own, into the database."""

from __future__ import annotations

import hashlib
import os
import shlex
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hermes.base.errors import HermesError, LockTimeout, NotFound, SettingsError, StorageError
from hermes.base.text import counted
from hermes.cli import ui
from hermes.compaction.messages import renumbered
from hermes.conversations.database import SessionDB
from hermes.conversations.recorded_import import RecordedDB, unfinished_imports
from hermes.portability.conversations_import import Importer
from hermes.portability.transcripts.formats import FORMATS, HERMES_AGENT, JSONL, check_name, recognised, sources
from hermes.portability.transcripts.importer import TranscriptImport
from hermes.settings.config import conversations_of
from hermes.settings.home import DATABASE, named_project
from hermes.storage.ports import is_address

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from hermes.portability.transcripts.formats import Source
    from hermes.portability.transcripts.importer import Imported


_MANY = 10_000  # messages after which the index is worth merging


def _import(given: ui.Given, context: ui.Context) -> int:
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
    """The format of a single file; lines that nobody recognises are for the reader of lines to complain about."""
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
    progress = ui.Progress("importing", sum(source.size() for source in found), unit=" bytes")
    with _taken_back_on_failure(given, context) as db:
        work = TranscriptImport(
            db, project=named_project(given.project) if given.project else None, on_bytes=progress.update
        )
        try:
            for source in found:
                _take(db, work, source)
            return work.finish()
        except KeyboardInterrupt:
            progress.close()
            ui.problem("stopped; the same command continues from here, and --discard undoes it")
            raise
        finally:
            progress.close()


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
    """A failure leaves the database as it was. A person who stops it keeps what is there; the next run goes on."""
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
    from hermes.conversations.maintenance import Maintenance

    progress = ui.Progress("merging the index, step")
    try:
        db.index()
        for step in Maintenance.of_db(db).settle() if many else ():
            progress.update(step)
    except StorageError as error:
        ui.problem(f"everything is imported, but its index is not ready ({error}); run `hermes sessions optimize`")
    finally:
        progress.close()


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
    messages, sessions, problems = 0, 0, []
    try:
        result = _bring_in(given, context, given.format)
        messages, sessions, problems = result.messages, result.sessions, result.problems
    except (NotFound, LockTimeout) as error:  # nothing there yet, or somebody is writing for long: the next look may do
        problems = [str(error)]
    for problem in problems:
        if problem not in told:
            ui.problem(problem)
    told.update(problems)
    if messages:
        ui.line(f"{counted(messages, 'new message')}, {counted(sessions, 'new session')}")


def _report(given: ui.Given, result: Imported) -> int:
    for problem in result.problems:
        ui.problem(problem)
    if result.bad > len(result.problems):
        ui.problem(f"and {result.bad - len(result.problems):,} more could not be read")
    ui.show(
        given,
        ui.pick(result, "files", "unchanged", "sessions", "messages", "already_there", "bad", "problems"),
        f"imported {counted(result.sessions, 'session')} with {counted(result.messages, 'message')} from "
        f"{counted(result.files, 'file')}; {result.already_there:,} messages were there already, "
        f"{counted(result.unchanged, 'file')} had not changed",
    )
    return ui.REFUSED if result.bad else ui.OK


def _import_lines(given: ui.Given, context: ui.Context) -> int:
    title = None if given.file == "-" else os.path.splitext(os.path.basename(given.file))[0]

    def problem(number: int, text: str) -> None:
        progress.close()
        ui.problem(f"line {number}: {text}")

    with _input(given.file) as (file, size):
        progress = ui.Progress("importing", size, unit=" bytes")
        with _taken_back_on_failure(given, context) as db:
            importer = Importer(
                db,
                source=given.source,
                title=title,
                on_problem=problem,
                on_bytes=progress.update,
                renumbered=renumbered,
            )
            result = importer.read(file)
            progress.close()
    if result.bad_lines > len(result.problems):
        ui.problem(f"and {result.bad_lines - len(result.problems):,} more lines could not be read")
    ui.show(
        given,
        {
            **ui.pick(result, "sessions", "messages", "already_there", "bad_lines"),
            "problems": [{"line": number, "problem": text} for number, text in result.problems],
        },
        f"imported {counted(result.sessions, 'session')} with {counted(result.messages, 'message')}; "
        f"{result.already_there:,} messages were there already",
    )
    return ui.REFUSED if result.problems else ui.OK


def _import_database(given: ui.Given, context: ui.Context) -> None:
    """A `state.db` of hermes-agent: brought in from elsewhere; where ours would be, adopted with the original kept."""
    from hermes.portability.exchange import HomeCopy
    from hermes.portability.hermes_agent import adopt_hermes_agent, import_hermes_agent

    progress = ui.Progress("importing", None, unit=" messages")
    kept = None
    if os.path.realpath(given.file) == os.path.realpath(context.home.join(DATABASE)):
        with HomeCopy(context.home.path) as copy:
            counts, kept = adopt_hermes_agent(
                context.home.join(DATABASE), copy, lambda _stage, done, _total: progress.update(done)
            )
            copy.swap()
    else:
        with _taken_back_on_failure(given, context) as db:
            counts = import_hermes_agent(given.file, db, lambda _stage, done, _total: progress.update(done))
    progress.close()
    ui.show(
        given,
        {**ui.pick(counts, "sessions", "messages", "known"), "original": kept},
        f"imported {counted(counts.sessions, 'session')} with {counted(counts.messages, 'message')} of hermes-agent",
        *([f"the original is kept as {kept}"] if kept else []),
    )


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
    """Where it is or was; the name of a program, and standard input, stand for themselves."""
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
        raise NotFound(f"there is no unfinished import{f' of {given.file}' if given.file else ''}; nothing to do")
    kept = 0
    for each in chosen:
        with RecordedDB.open(**where, durability="turn", name=each.name) as recorded:
            kept += recorded.take_back(everything=True)
            recorded.sync()
    messages, sessions = (sum(getattr(each, name) for each in chosen) for name in ("messages", "sessions"))
    ui.show(
        given,
        {"imports": [each.about for each in chosen], "messages": messages, "sessions": sessions, "kept": kept},
        *(f"taken back: {counted(each.messages, 'message')} of `{each.about}`" for each in chosen),
        *([f"{counted(kept, 'conversation')} that went on here since stay"] if kept else []),
    )


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds <= 86400:  # noqa: PLR2004 - a day
        raise SettingsError(f"--interval {text}: expected seconds, more than 0 and at most a day")
    return seconds


COMMANDS = {
    "sessions import": ui.command(
        _import,
        ui.option(
            "file FILE|FOLDER|NAME",
            "a file, a folder of them, claude-code or codex for their usual places, or - for JSONL on standard input",
            nargs="?",
        ),
        ui.option("--format", "what it is (default: recognised by itself)", choices=FORMATS),
        ui.option("--project NAME", "file everything under this project"),
        ui.option("--source NAME", "source of sessions that name none (JSONL)", default="import"),
        ui.option("--watch", "keep running and import what is new until stopped"),
        ui.option("--interval SECONDS", "how often --watch looks (default: 5)", type=_seconds, default=5.0),
        ui.option("--discard", "undo what an unfinished import of it (or all of them) added"),
    ),
}
