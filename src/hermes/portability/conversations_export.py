"""Writes conversations as JSONL that imports byte for byte, as Markdown, and as one HTML page."""

from __future__ import annotations

import os
import re
import time
from html import escape
from typing import TYPE_CHECKING, Any

from hermes.portability.conversations_import import fenced, moment, tool_calls
from hermes.storage.messages import readable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hermes.conversations.retrieval import Mask
    from hermes.storage.conversations import Session
    from hermes.storage.dump import Dump
    from hermes.storage.messages import StoredMessage

# The page holds text of all kinds; the policy keeps a browser from running or fetching anything that slipped through.
_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
<h1>{title}</h1>
"""
_ROLES = frozenset(("user", "assistant", "tool", "system"))
_LONG_OUTPUT = 400


class HtmlWriter:
    def __init__(self, write: Callable[[str], object], mask: Mask) -> None:
        self._write = write
        self._mask = mask
        self._open = False

    def begin(self, sessions: Sequence[Session]) -> None:
        with open(os.path.join(os.path.dirname(__file__), "text", "export.css"), encoding="utf-8") as file:
            style = file.read()
        title = self._name(sessions[0]) if len(sessions) == 1 else f"{len(sessions):,} conversations"
        self._write(_HEAD.format(title=escape(title), style=style))
        if len(sessions) > 1:
            rows = sorted(sessions, key=lambda session: (session.activity, session.key))
            items = "".join(f'<li><a href="#{_anchor(s)}">{escape(self._name(s))}</a></li>\n' for s in rows)
            self._write(f"<nav><ol>\n{items}</ol></nav>\n")

    def session(self, session: Session) -> None:
        self._close()
        facts = [session.id, moment(session.started_at), session.source, session.model, session.project]
        self._write(
            f'<section id="{_anchor(session)}">\n<h2>{escape(self._name(session))}</h2>\n'
            f'<p class="facts">{escape(" · ".join(fact for fact in facts if fact))}</p>\n'
        )
        self._open = True

    def message(self, session: Session, message: StoredMessage) -> None:
        del session
        role = message.role if message.role in _ROLES else "other"
        speaker = message.message.get("name")
        who = f"{message.role} ({speaker})" if isinstance(speaker, str) and speaker else message.role
        compacted = " compacted" if message.compacted else ""
        self._write(
            f'<article class="{role}{compacted}"><header><span>{escape(who)}</span>'
            f"<time>{moment(message.timestamp)}</time></header>"
        )
        text = self._mask(message.text)
        if text:
            self._write(_output(text) if role == "tool" else f'<p class="text">{escape(text)}</p>')
        for name, arguments in tool_calls(message):
            shown = f"<pre>{escape(self._mask(arguments))}</pre>"
            self._write(f"<details><summary>called {escape(name)}</summary>{shown}</details>")
        self._write("</article>\n")

    def end(self) -> None:
        self._close()
        self._write("</body>\n</html>\n")

    def _close(self) -> None:
        if self._open:
            self._write("</section>\n")
        self._open = False

    def _name(self, session: Session) -> str:
        return " ".join(self._mask(session.title or session.preview or session.id).split())


def _anchor(session: Session) -> str:
    return f"session-{session.key}"


def _output(text: str) -> str:
    shown = f"<pre>{escape(text)}</pre>"
    if len(text) <= _LONG_OUTPUT:
        return shown
    return f"<details><summary>{len(text):,} characters of output</summary>{shown}</details>"


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
