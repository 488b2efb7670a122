"""`hermes` without a command, and `hermes chat`: a conversation at a terminal, or one answer for a script."""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from hermes.base.errors import NotFound, SettingsError, WrongKey
from hermes.base.events import Continuing, Notice, Retrying, TextDelta, ToolReturned
from hermes.cli import ui
from hermes.cli.chat.screen import Screen, TurnView, retrying_in_words
from hermes.session.approvals import PendingWrites, waiting_in_words

if TYPE_CHECKING:
    from collections.abc import Callable

    from hermes.agent import Agent
    from hermes.base.events import TurnEvent, TurnFinished
    from hermes.llm.client import Model
    from hermes.storage.images import Content


_INTERRUPTED = 130  # as shells report Ctrl-C


def answer_once(
    opener: Callable[..., Agent],
    question: Content,
    *,
    pending: PendingWrites,
    resume: str | None,
    as_json: bool,
    plain: bool = False,
    attached: str = "",
) -> int:
    """Prints one answer, then how to review writes it left pending, because a script cannot be asked about them."""
    view = _Apart(as_json=as_json, plain=plain)
    watched = sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
    before = {each.id for each in pending.all()}
    with opener(resume=resume, ask=view.ask if watched else None) as agent:
        end = view.run(agent, question, attached=attached)
        staged = [each.id for each in pending.all() if each.id not in before]
        if staged:
            told = f"{waiting_in_words(len(staged))}; `hermes memory pending` shows what and why"
            view.show(Notice(kind="pending", text=told))
        notices = [*view.notices, *(notice.text for notice in agent.session.notices.take())]
        if as_json and end is not None:
            ui.print_json(_document(agent, end, view, notices) | {"pending": staged})
    if end is None or end.reason == "interrupted":
        return _INTERRUPTED
    return ui.OK if end.reply else ui.REFUSED


class _Apart(TurnView):
    """Shows the answer on standard output; all else on standard error, and only if that is a terminal."""

    def __init__(self, *, as_json: bool, plain: bool) -> None:
        super().__init__(Screen(sys.stderr, plain=plain))
        self.notices: list[str] = []
        self._as_json = as_json
        self._answer = Screen(sys.stdout, plain=plain)

    def show(self, event: TurnEvent) -> None:
        if isinstance(event, Notice):
            # Scripts must also learn that something in their set-up is missing or does not work.
            self._note(event.text, aloud=event.kind in ("settings", "context", "private", "storage", "pending"))
        if isinstance(event, Retrying) and event.retry <= 1:
            # Once, so that it does not look as if the program hung.
            self._note(retrying_in_words(event, once=True), aloud=True)
        if isinstance(event, TextDelta):
            self.screen.erase()
            if not self._as_json:
                self._answer.answer(event.text)
            return
        if isinstance(event, Continuing):
            return  # the answer continues in the same line
        self._answer.end_answer()
        if self.screen.is_terminal:
            super().show(event)
        elif isinstance(event, ToolReturned):
            self.calls.append(event)

    def _note(self, text: str, *, aloud: bool) -> None:
        """Keeps a notice; prints it where nothing else shows it. With --json, standard error holds failures only."""
        self.notices.append(text)
        if aloud and not self.screen.is_terminal and not self._as_json:
            ui.problem(text)


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


_SOURCE = "cli"  # stored with each conversation; `--continue` looks for the newest one of this source

_NO_MODEL = (
    "there is no model to talk to: run `hermes setup` at a terminal, or name one with --model (`hermes model list`"
    " shows what there is), or try `hermes demo`, which needs none"
)


def run_chat(given: ui.Given, context: ui.Context) -> int:
    """Opens the chat, or with a question or piped text answers once and ends."""
    if given.newest and given.resume is not None:
        raise SettingsError("--continue and --resume name two conversations; use only one of them")
    images: list[dict[str, Any]] = []
    if given.image:
        from hermes.storage.images import image_part

        images = [image_part(path) for path in given.image]
    question, piped = _question(given)
    model = _model(given, context, interactive=question is None)
    resume = _resumed(given, context)
    opener = partial(_open, context, model)
    if question is not None:
        asked = [{"type": "text", "text": question}, *images] if images else question
        pending = PendingWrites(context.home)
        how = {"resume": resume, "as_json": given.json, "plain": given.plain, "attached": piped}
        return answer_once(opener, asked, pending=pending, **how)
    from hermes.cli.chat.loop import Chat
    from hermes.cli.commands.rules import ask_about

    ask_about(context.home, os.getcwd())
    chat = Chat(context, Screen(plain=given.plain), opener)
    chat.images = images
    try:
        chat.reopen(resume=resume)
        chat.greet()
        if resume:
            chat.show_last_exchange()
        chat.run()
        return ui.OK
    finally:
        chat.close()


def _question(given: ui.Given) -> tuple[str | None, str]:
    """The question and the piped text; the question is None if a person at a terminal wants a conversation."""
    piped = "" if sys.stdin is None or sys.stdin.isatty() or (given.question and not given.stdin) else sys.stdin.read()
    if given.question or piped.strip():
        return given.question or "", piped.strip()
    if given.question is not None or sys.stdin is None or not sys.stdin.isatty():
        raise SettingsError("there is nothing to ask: give a text with -q, or pipe one in")
    if given.json:
        raise SettingsError("--json is for one answer: add -q TEXT")
    return None, ""


def _model(given: ui.Given, context: ui.Context, *, interactive: bool) -> Model:
    """The model to use; without one in the settings, a person is asked to choose, and a script gets an error."""
    from hermes.session.models import main_model, script_from_here

    if given.model:
        try:
            return main_model(context.settings, script_from_here(given.model))
        except (NotFound, WrongKey, SettingsError) as error:
            raise type(error)(f"--model {given.model}: {error}") from error
    try:
        return main_model(context.settings)
    except (NotFound, WrongKey) as error:
        if context.settings.text("model.default") and not isinstance(error, WrongKey):
            raise
        if not interactive or not sys.stdout.isatty():
            raise SettingsError(f"{error}\n{_no_model()}" if isinstance(error, WrongKey) else _no_model()) from error
        from hermes.cli.commands.setup import set_up

        return set_up(context.home, reason=str(error) if isinstance(error, WrongKey) else "")


def _no_model() -> str:
    from hermes.llm.embedded import installed

    ready = "the embedded one is ready: `--model local`"
    return f"{_NO_MODEL}; {ready}" if installed() else _NO_MODEL


def _resumed(given: ui.Given, context: ui.Context) -> str | None:
    """The id of the conversation that `--continue` or `--resume` means; None for a new one."""
    from hermes.cli.sessions import named, open_existing
    from hermes.session.parts import open_past

    if given.resume is not None:
        with open_existing(context) as past:
            return named(past, given.resume).id
    if not given.newest:
        return None
    found = None
    if newest := open_past(context.home):
        with newest:
            found = next((each.id for each in newest.list_sessions(source=_SOURCE) if each.message_count), None)
    if found is None:
        raise NotFound("there is no conversation to continue yet; `hermes` starts one")
    return found


def _open(context: ui.Context, chosen: Model, *, model: Model | None = None, **given: Any) -> Agent:
    from hermes.agent import Agent

    return Agent.open(context.home, _SOURCE, model=model or chosen, cwd=os.getcwd(), **given)
