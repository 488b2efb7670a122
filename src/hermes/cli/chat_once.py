"""One question, one answer: for scripts and pipes. Only the answer goes to standard output."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from hermes.cli.chat_screen import Screen
from hermes.cli.chat_turn import TurnView, retrying_in_words
from hermes.cli.context import OK, REFUSED
from hermes.cli.render import print_json, print_problem
from hermes.vocabulary.events import Continuing, Notice, Retrying, TextDelta, ToolReturned

if TYPE_CHECKING:
    from collections.abc import Callable

    from hermes.agent import Agent
    from hermes.storage.images import Content
    from hermes.vocabulary.events import TurnEvent, TurnFinished

_INTERRUPTED = 130


def answer_once(
    opener: Callable[..., Agent], question: Content, *, resume: str | None, as_json: bool, plain: bool = False
) -> int:
    view = _Apart(as_json=as_json, plain=plain)
    watched = sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
    with opener(resume=resume, ask=view.ask if watched else None) as agent:
        end = view.run(agent, question)
        notices = [*view.notices, *(notice.text for notice in agent.session.notices.take())]
        if as_json and end is not None:
            print_json(_document(agent, end, view, notices))
    if end is None or end.reason == "interrupted":
        return _INTERRUPTED
    return OK if end.reply else REFUSED


class _Apart(TurnView):
    """The answer on standard output, all else on standard error, and only when a person looks at it."""

    def __init__(self, *, as_json: bool, plain: bool) -> None:
        super().__init__(Screen(sys.stderr, plain=plain))
        self.notices: list[str] = []
        self._as_json = as_json
        self._answer = Screen(sys.stdout, plain=plain)

    def show(self, event: TurnEvent) -> None:
        if isinstance(event, Notice):
            # a script, too, should learn that what it was set up with is not all there
            self._note(event.text, aloud=event.kind in ("settings", "context", "private", "storage"))
        if isinstance(event, Retrying) and event.retry <= 1:
            # once, or whoever waits would think that it hangs
            self._note(retrying_in_words(event, once=True), aloud=True)
        if isinstance(event, TextDelta):
            self.screen.erase()
            if not self._as_json:
                self._answer.answer(event.text)
            return
        if isinstance(event, Continuing):
            return  # the answer goes on in the same line
        self._answer.end_answer()
        if self.screen.is_terminal:
            super().show(event)
        elif isinstance(event, ToolReturned):
            self.calls.append(event)

    def _note(self, text: str, *, aloud: bool) -> None:
        """With --json, standard error is kept for the object that tells of a failure."""
        self.notices.append(text)
        if aloud and not self.screen.is_terminal and not self._as_json:
            print_problem(text)


def _document(agent: Agent, end: TurnFinished, view: _Apart, notices: list[str]) -> dict[str, Any]:
    return {
        "reply": end.reply,
        "session": agent.session.id,
        "model": end.model,
        "reason": end.reason,
        "model_calls": end.model_calls,
        "usage": end.usage.as_dict(),
        "cached_share": round(end.usage.cached_share, 3),
        "tool_calls": [
            {"name": each.call.name, "arguments": each.call.arguments, "result": each.result} for each in view.calls
        ],
        "notices": notices,
    }
