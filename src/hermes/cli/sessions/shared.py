"""What the `hermes sessions` commands share: opening the database, naming a session, showing text safely."""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shlex
import sys
import time
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from hermes.base.errors import NotFound
from hermes.base.text import counted
from hermes.cli.output import OK, REFUSED, has_styles, print_json, print_problem, print_text, visible
from hermes.safety.secrets import mask_secrets
from hermes.session.history import open_past
from hermes.settings.home import DATABASE
from hermes.storage.rollback import RecordedDB, unfinished_imports
from hermes.storage.sessions import SessionDB

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from hermes.cli.output import Context
    from hermes.storage.conversations import Session
    from hermes.storage.rollback import Unfinished

_CANDIDATES = 5
_LOOKED_AT = 500
_SHOWN = 60
_MARKED = re.compile(r">>>(.*?)<<<", re.DOTALL)


def open_existing(context: Context) -> SessionDB:
    db = open_past(context.home)
    if db is None:
        raise NotFound("there are no conversations yet; `hermes sessions import FILE` brings some in")
    return db


def named(db: SessionDB, name: str) -> Session:
    """The conversation a person means: its id or title, or a part of one that no other has."""
    if session := db.resolve(name):
        return session
    alike = db.resembling(name, _CANDIDATES + 1) if name.strip() else []
    if len(alike) > 1:
        count = len(alike) if len(alike) <= _CANDIDATES else f"more than {_CANDIDATES}"
        raise NotFound(
            f"{count} conversations match {name!r}; say more of the title, or the id: {_listed(alike[:_CANDIDATES])}"
        )
    return alike[0] if alike else _nobody(db, name)


def named_exactly(db: SessionDB, name: str) -> Session:
    """As `named`, for what cannot be taken back: a part of a title is not enough."""
    return db.resolve(name) or _nobody(db, name)


def _nobody(db: SessionDB, name: str) -> NoReturn:
    alike = db.resembling(name, _CANDIDATES) if name.strip() else []
    if not alike:
        recent = {session.title: session for session in db.list_sessions(limit=_LOOKED_AT) if session.title}
        alike = [recent[title] for title in get_close_matches(name, recent, n=_CANDIDATES)]
    if not alike:
        raise NotFound(f"there is no session {name!r}; `hermes sessions list` shows ids and titles")
    raise NotFound(f"there is no session {name!r}; the nearest: {_listed(alike)}")


def _listed(sessions: list[Session]) -> str:
    return ", ".join(f"{name_of(session)[:_SHOWN]!r} ({session.id})" for session in sessions)


def conversation(db: SessionDB, session: Session) -> list[Session]:
    """Every session of the conversation, oldest first."""
    return db.lineage(session.id)


def highlighted(snippet: str) -> str:
    """Found words in bold where styles are wanted, between marks elsewhere."""
    text = " ".join(visible(snippet).split())
    return _MARKED.sub("\x1b[1m\\1\x1b[0m", text) if has_styles(sys.stdout) else text


def name_of(session: Session) -> str:
    return visible(" ".join(mask_secrets(session.title or session.preview or "(empty)").split()))


def as_json(session: Session) -> dict[str, Any]:
    return {
        "session_id": session.id,
        "title": mask_secrets(session.title) if session.title else session.title,
        "source": session.source,
        "model": session.model,
        "project": session.project,
        "started_at": session.started_at,
        "last_active": session.last_active,
        "ended_at": session.ended_at,
        "end_reason": session.end_reason,
        "archived": session.archived,
        "message_count": session.message_count,
        "tool_call_count": session.tool_call_count,
        "preview": mask_secrets(session.preview) if session.preview else session.preview,
    }


def tell_damaged(count: int) -> int:
    """The exit code of an export, after saying what could not be part of it."""
    if not count:
        return OK
    print_problem(f"{count:,} damaged messages were left out; `hermes sessions repair` looks at them")
    return REFUSED


def bytes_in_words(count: int) -> str:
    for size, unit in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count} bytes"


def moment_option(read: Callable[[str, float], float], text: str | None) -> float | None:
    return None if text is None else read(text, time.time())


def whole_number(low: int) -> Callable[[str], int]:
    """An argparse type: a whole number from `low` up."""

    def read(text: str) -> int:
        if not text.strip().lstrip("-").isdigit() or int(text) < low:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {low} up")
        return int(text)

    return read


def chosen_mask(given: argparse.Namespace) -> Callable[[str], str]:
    from hermes.conversations.retrieval import unmasked
    from hermes.safety.secrets import mask_secrets

    return mask_secrets if given.mask else unmasked


def project_option(words: str | None) -> str | None:
    """The project a person means: `.` and paths stand for the repository there, everything else is its name."""
    if words is None or not (words in (".", "..") or os.sep in words):
        return words
    from hermes.settings.home import named_project

    return named_project(words)


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
    from hermes.portability.transcripts.formats import FORMATS  # not for those who only look

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
