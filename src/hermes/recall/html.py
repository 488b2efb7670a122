"""Writes conversations as one HTML page for reading: no scripts, nothing loaded from anywhere, light and dark."""

from __future__ import annotations

import os
from html import escape
from typing import TYPE_CHECKING

from hermes.recall.exporting import moment, tool_calls

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hermes.recall.excerpts import Mask
    from hermes.storage.conversations import Session
    from hermes.storage.transcripts import StoredMessage

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
