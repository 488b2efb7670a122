"""`hermes sessions export` and `import`: conversations out of the database and into it."""

from __future__ import annotations

import io
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hermes.cli.app import OK, REFUSED
from hermes.cli.progress import Progress
from hermes.cli.render import add_json_option, counted, print_json, print_text
from hermes.cli.sessions_report import conversation, mask_or_refuse, named, open_existing, open_or_create
from hermes.recall.exporting import JsonlWriter, MarkdownWriter, export
from hermes.recall.html import HtmlWriter
from hermes.recall.importing import Importer
from hermes.settings.home import DATABASE
from hermes.storage.pages import Pages
from hermes.vocabulary.errors import NotFound, SettingsError, StorageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator
    from typing import BinaryIO, TextIO

    from hermes.cli.app import Context
    from hermes.recall.exporting import Writer
    from hermes.storage.conversations import Session
    from hermes.storage.sessions import SessionDB

_DATABASE = b"SQLite format 3\x00"
FORMATS = ("jsonl", "markdown", "html")


def _export(given: argparse.Namespace, context: Context) -> int:
    if bool(given.sessions) == given.all:
        raise SettingsError("name the conversations to export, or use --all")
    mask = mask_or_refuse(given)
    with open_existing(context) as db:
        chosen = _chosen(db, given)
        progress = Progress("exporting", sum(session.message_count for session in chosen))
        with _output(given.out, replace=given.force) as file:
            writer = _writer(given.format, db, file.write, mask)
            done = export(db, chosen, writer, progress.update)
        progress.close()
    if given.out:
        print(
            f"{given.out} holds {counted(done.sessions, 'session')} with {counted(done.messages, 'message')}",
            file=sys.stderr,
        )
    if done.damaged:
        print(
            f"hermes: {done.damaged:,} damaged messages were left out; `hermes sessions repair` looks at them",
            file=sys.stderr,
        )
        return REFUSED
    return OK


def _chosen(db: SessionDB, given: argparse.Namespace) -> list[Session]:
    if given.all:
        return list(Pages.of_db(db).sessions())
    parts = [part for name in given.sessions for part in conversation(db, named(db, name))]
    return list({part.key: part for part in parts}.values())


def _writer(form: str, db: SessionDB, write: Callable[[str], object], mask: Callable[[str], str]) -> Writer:
    if form == "jsonl":
        return JsonlWriter(db, write, mask)
    return MarkdownWriter(write, mask) if form == "markdown" else HtmlWriter(write, mask)


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


def _import(given: argparse.Namespace, context: Context) -> int:
    if given.file != "-" and _is_database(given.file):
        return _import_database(given, context)
    title = None if given.file == "-" else os.path.splitext(os.path.basename(given.file))[0]

    def problem(number: int, text: str) -> None:
        progress.close()
        print(f"hermes: line {number}: {text}", file=sys.stderr)

    with _input(given.file) as (file, size):
        progress = Progress("importing", size, unit=" bytes")
        with open_or_create(context) as db:
            importer = Importer(db, source=given.source, title=title, on_problem=problem, on_bytes=progress.update)
            result = importer.read(file)
            progress.close()
    if result.bad_lines > len(result.problems):
        print(f"hermes: and {result.bad_lines - len(result.problems):,} more lines could not be read", file=sys.stderr)
    if given.json:
        print_json(
            {
                "sessions": result.sessions,
                "messages": result.messages,
                "already_there": result.already_there,
                "bad_lines": result.bad_lines,
                "problems": [{"line": number, "problem": text} for number, text in result.problems],
            }
        )
    else:
        print_text(
            f"imported {counted(result.sessions, 'session')} with {counted(result.messages, 'message')}; "
            f"{result.already_there:,} messages were there already"
        )
    return REFUSED if result.problems else OK


def _is_database(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(len(_DATABASE)) == _DATABASE
    except OSError:
        return False  # whoever reads it next says what is wrong with it


def _import_database(given: argparse.Namespace, context: Context) -> int:
    """A `state.db` of hermes-agent: brought in from elsewhere; where ours would be, adopted with the original kept."""
    from hermes.migration.hermes_agent_sessions import adopt_hermes_agent, import_hermes_agent

    progress = Progress("importing", None, unit=" messages")

    def told(_: str, done: int, __: int) -> None:
        progress.update(done)

    kept = None
    if os.path.realpath(given.file) == os.path.realpath(context.home.join(DATABASE)):
        counts, kept = adopt_hermes_agent(given.file, told)
    else:
        with open_or_create(context) as db:
            counts = import_hermes_agent(given.file, db, told)
    progress.close()
    if given.json:
        print_json({"sessions": counts.sessions, "messages": counts.messages, "known": counts.known, "original": kept})
    else:
        print_text(
            f"imported {counted(counts.sessions, 'session')} with {counted(counts.messages, 'message')} of hermes-agent"
        )
        if kept:
            print_text(f"the original is kept as {kept}")
    return OK


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


def _configure_export(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sessions", nargs="*", metavar="ID|TITLE", help="whole conversations, by any of their ids")
    parser.add_argument("--all", action="store_true", help="every conversation")
    parser.add_argument("--format", choices=FORMATS, default="jsonl", help="jsonl (default) can be imported again")
    parser.add_argument("--out", metavar="FILE", help="where to write (default: standard output)")
    parser.add_argument("--force", action="store_true", help="replace the file if it is there")
    parser.add_argument("--mask", action="store_true", help="mask passwords, keys and other secrets")


def _configure_import(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="JSONL: exported, or in the OpenAI format; - for standard input")
    parser.add_argument("--source", default="import", metavar="NAME", help="source of sessions that name none")
    add_json_option(parser)


COMMANDS = {"export": (_configure_export, _export), "import": (_configure_import, _import)}
