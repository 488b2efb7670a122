"""Conversations as Markdown files for people, each with a name that says when it was and what it was about."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

from hermes.recall.exporting import fenced
from hermes.storage.transcripts import readable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hermes.storage.dump import Dump

_NOT_IN_A_NAME = re.compile(r"[^\w-]+")
_LONGEST_NAME = 40


def reading_copies(dump: Dump) -> Iterator[tuple[str, str]]:
    """File name and text of each conversation; times are in UTC, so that every machine writes the same."""
    session: dict[str, Any] | None = None
    pieces: list[str] = []
    for record in dump.records():
        if record["type"] == "message":
            pieces.append(_message(record))
            continue
        if session is not None:
            yield _name(session), "".join(pieces)
        session = record if record["type"] == "session" else None
        pieces = [_heading(record)] if session is not None else []
    if session is not None:
        yield _name(session), "".join(pieces)


def _name(session: dict[str, Any]) -> str:
    words = session.get("title") or session["row"].get("preview") or "untitled"
    short = _NOT_IN_A_NAME.sub("-", words).strip("-")[:_LONGEST_NAME].strip("-").lower() or "untitled"
    return f"{_moment(session.get('started_at'))[:10]}-{session['row']['key']:06}-{short}.md"


def _heading(session: dict[str, Any]) -> str:
    title = " ".join(str(session.get("title") or session["row"].get("preview") or session["id"]).split())
    facts = [f"`{session['id']}`", _moment(session.get("started_at")), session["source"]]
    facts += [str(session[name]) for name in ("model", "project") if session.get(name)]
    return f"# {title}\n\n{' · '.join(facts)}\n\n"


def _message(record: dict[str, Any]) -> str:
    message = record["message"]
    who = message["role"] if not message.get("name") else f"{message['role']} ({message['name']})"
    notes = "".join(f", {state}" for state in ("compacted", "rewound") if record.get(state))
    text = readable(message.get("content"))
    body = f"{fenced(text) if message['role'] == 'tool' else text}\n\n" if text else ""
    for call in message.get("tool_calls") or ():
        function = call.get("function", call) if isinstance(call, dict) else {}
        given = function.get("arguments", "") if isinstance(function, dict) else ""
        name = function.get("name", "?") if isinstance(function, dict) else "?"
        body += f"Called **{name}**:\n\n{fenced(str(given), 'json')}\n\n"
    return f"## {who} · {_moment(record['at'])}{notes}\n\n{body}"


def _moment(when: Any) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(when))
    except (ValueError, OverflowError, OSError, TypeError):
        return "0000-00-00 unknown"
