"""Imports that were stopped or killed: what they are called, who is told of them, and how they are taken back."""

from __future__ import annotations

import hashlib
import os
import shlex
from typing import TYPE_CHECKING

from hermes.cli.context import OK
from hermes.cli.render import print_json, print_text
from hermes.settings.home import DATABASE
from hermes.storage.recorded import RecordedDB, unfinished_imports
from hermes.storage.sessions import SessionDB
from hermes.vocabulary.errors import NotFound
from hermes.vocabulary.words import counted

if TYPE_CHECKING:
    import argparse

    from hermes.cli.context import Context
    from hermes.storage.recorded import Unfinished


def name_of_import(file: str) -> str:
    """The same name for the same source, wherever the command is run."""
    return hashlib.sha256(_place(file).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def command_of(given: argparse.Namespace) -> str:
    """The command that goes on with it."""
    words = ["hermes", "sessions", "import", _place(given.file)]
    for option in ("format", "project"):
        if getattr(given, option):
            words += [f"--{option}", getattr(given, option)]
    return shlex.join(words)


def _place(file: str) -> str:
    """Where it is or was; the name of a program, and standard input, stand for themselves."""
    from hermes.migration.transcripts.recognise import FORMATS  # not for those who only look

    is_name = file == "-" or (file in FORMATS and not os.path.exists(file))
    return file if is_name else os.path.realpath(file)


def in_words(db: SessionDB) -> list[str]:
    """A line for each import that was not completed, with what to do about it."""
    return [
        each.in_words() if each.running else f"{each.in_words()}; {each.remedy()}" for each in unfinished_imports(db)
    ]


def discard(given: argparse.Namespace, context: Context) -> int:
    path = context.home.join(DATABASE)
    chosen = [] if not os.path.exists(path) else _chosen(path, given.file)
    if not chosen:
        raise NotFound(
            "there is no unfinished import" + (f" of {given.file}" if given.file else "") + "; nothing to do"
        )
    kept = 0
    for each in chosen:
        with RecordedDB.open(path, durability="turn", name=each.name) as db:
            kept += db.take_back(everything=True)
            db.sync()
    if given.json:
        messages, sessions = (sum(getattr(each, name) for each in chosen) for name in ("messages", "sessions"))
        print_json(
            {"imports": [each.about for each in chosen], "messages": messages, "sessions": sessions, "kept": kept}
        )
        return OK
    for each in chosen:
        print_text(f"taken back: {counted(each.messages, 'message')} of `{each.about}`")
    if kept:
        print_text(f"{counted(kept, 'conversation')} that went on here since stay")
    return OK


def _chosen(path: str, file: str | None) -> list[Unfinished]:
    with SessionDB.open(path) as db:
        found = unfinished_imports(db)
    return found if file is None else [each for each in found if each.name == name_of_import(file)]
