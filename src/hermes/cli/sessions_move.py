"""`hermes sessions export`: conversations out of the database, as JSONL, Markdown or HTML."""

from __future__ import annotations

import io
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hermes.cli.progress import Progress
from hermes.cli.sessions_report import chosen_mask, conversation, named, open_existing, tell_damaged
from hermes.recall.exporting import JsonlWriter, MarkdownWriter, export
from hermes.recall.html import HtmlWriter
from hermes.storage.pages import Pages
from hermes.vocabulary.errors import SettingsError, StorageError
from hermes.vocabulary.words import counted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator
    from typing import TextIO

    from hermes.cli.context import Context
    from hermes.recall.exporting import Writer
    from hermes.storage.conversations import Session
    from hermes.storage.sessions import SessionDB

FORMATS = ("jsonl", "markdown", "html")


def _export(given: argparse.Namespace, context: Context) -> int:
    if bool(given.sessions) == given.all:
        raise SettingsError("name the conversations to export, or use --all")
    mask = chosen_mask(given)
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
    return tell_damaged(done.damaged)


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


def _configure_export(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sessions", nargs="*", metavar="ID|TITLE", help="whole conversations, by any of their ids")
    parser.add_argument("--all", action="store_true", help="every conversation")
    parser.add_argument("--format", choices=FORMATS, default="jsonl", help="jsonl (default) can be imported again")
    parser.add_argument("--out", metavar="FILE", help="where to write (default: standard output)")
    parser.add_argument("--force", action="store_true", help="replace the file if it is there")
    parser.add_argument("--mask", action="store_true", help="mask passwords, keys and other secrets")


COMMANDS = {"export": (_configure_export, _export)}
