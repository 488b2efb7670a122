"""Handles one stored message: a command or a turn, then the delivery of its answer; after a crash, what is left of it.

An answer is delivered once. Where a platform can edit, a draft is sent first and what the platform calls it is stored;
then the draft becomes the answer, which can be repeated without harm. A crash can leave a lonely draft, never a second
answer. Where it cannot edit, every attempt carries the same `delivery`.
"""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from hermes.base.errors import ContextTooLong, HermesError, ModelError, StorageError
from hermes.base.events import Notice, Retrying, TextDelta, ToolReturned, TurnFinished
from hermes.gateway.commands import buttons_for
from hermes.gateway.conversations import spoken
from hermes.gateway.ledger import DONE, NEW, RUNNING
from hermes.gateway.platforms.base import DRAFT, Later, Never

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from hermes.agent import Agent
    from hermes.base.events import TurnEvent
    from hermes.gateway.commands import Commands
    from hermes.gateway.conversations import Conversations
    from hermes.gateway.ledger import Entry, Ledger, Piece
    from hermes.gateway.platforms.base import Buttons, Platform

_LOG = logging.getLogger("hermes.gateway")
_MOST_ATTEMPTS = 20  # a message that has ended the process so often is not tried again
_PAUSES = (0.5, 1.0, 2.0, 5.0, 15.0, 60.0)  # seconds before the next attempt to deliver
_TYPING_SECONDS = 4.0
_ONLY_TEXT = "I can only read text."
_EMPTY = "(The model had nothing to say.)"
_HEARD = "(I listen.)"
_STOPPED = "(stopped)"
_BUSY = "Sorry, I cannot answer: the model cannot be reached just now. Your message is kept; please write again later."
_TOO_LONG = (
    "Sorry, I cannot answer: this conversation has become too long for the model and could not be shortened. Nothing "
    "of it is lost; /new begins another."
)
_BROKEN = "Sorry, I cannot answer this; the operator has to look at it (message {number} in the log)."


class Router:
    """Turns one stored message into an answer."""

    def __init__(
        self,
        platforms: Mapping[str, Platform],
        ledger: Ledger,
        conversations: Conversations,
        commands: Commands,
        *,
        clock: Callable[[], float],
        stream_seconds: float = 1.5,
    ) -> None:
        self._platforms = platforms
        self._ledger = ledger
        self._conversations = conversations
        self._commands = commands
        self._clock = clock
        self._stream_seconds = stream_seconds
        self._failures: dict[int, int] = {}

    def handle(self, number: int) -> float | None:
        """Works on one message; None when it is done, or the seconds until it should be tried again."""
        try:
            entry = self._ledger.entry(number)
            if entry is not None and entry.state in (NEW, RUNNING):
                self._answer(entry)
                entry = self._ledger.entry(number)
            return None if entry is None or entry.state == DONE else self._deliver(entry)
        except HermesError as error:  # our own files cannot be read or written: nothing is lost, it is tried again
            _LOG.error("message %s will be tried again: %s", number, error)
        except Exception:  # noqa: BLE001 - a platform is other people's code, and its chat must go on
            _LOG.exception("message %s will be tried again", number)
        return self._pause(number)

    # --- the answer --------------------------------------------------------------------------------------------------

    def _answer(self, entry: Entry) -> None:
        self._ledger.attempted(entry.id)
        if entry.message.heard:
            return self._hear(entry)
        session = ""
        try:
            text, outcome, session = self._reply(entry)
        except ModelError as error:
            _LOG.warning("no model is available for message %s: %s", entry.id, error)
            text, outcome = _sorry(error, entry), "model failed"
        except StorageError:
            raise  # a lock or a full disk: the turn is tried again, and goes on where it was
        except HermesError as error:  # it says what is wrong; where in our code it was noticed helps nobody
            _LOG.error("message %s could not be answered: %s", entry.id, error)
            text, outcome = _BROKEN.format(number=entry.id), "failed"
        except Exception:  # noqa: BLE001 - a turn runs tools, providers and plug-ins: other people's code may raise anything
            _LOG.exception("message %s could not be answered", entry.id)
            text, outcome = _BROKEN.format(number=entry.id), "failed"
        platform, message = self._platforms[entry.message.platform], entry.message
        questions: list[tuple[str, Buttons]] = []
        asked: list[str] = []
        if session:
            questions, told, asked = self._commands.questions(entry, buttons=platform.buttons)
            text = f"{text}\n\n({told})" if told else text
        pieces = platform.split(text) or [_EMPTY]
        if message.pressed:  # the message with the button becomes the answer
            self._ledger.drafted(entry.id, message.message)
            word, _, wanted = message.text.removeprefix("/memory ").partition(" ")
            if word == "show" and text.startswith("```"):
                pieces, questions = [], [(text, buttons_for(wanted, shown=True))]
        self._ledger.answered(entry.id, pieces, outcome, session=session, questions=questions)
        return self._ledger.ask(entry.person, message.kind, asked)

    def _hear(self, entry: Entry) -> None:
        """Keeps what was said in a group without being said to us; a crash in the middle does not keep it twice."""
        with self._conversations.entered(entry) as (agent, _):
            session = agent.session
            done, begun = ("", False) if entry.state == NEW else earlier_answer(agent, entry)
            if not begun:
                self._ledger.begin(entry, session.id, session.last_id)
                session.record({"role": "user", "content": spoken(entry.message, entry.message.text)})
            if not done:  # models want every message to be followed by one of theirs
                session.record({"role": "assistant", "content": _HEARD})
            self._ledger.answered(entry.id, [], "heard", session=session.id)

    def _reply(self, entry: Entry) -> tuple[str, str, str]:
        """The answer, how it came about, and the session it belongs to."""
        if entry.attempts >= _MOST_ATTEMPTS:
            return _BROKEN.format(number=entry.id), "given up", ""
        if not entry.message.text.strip():
            return _ONLY_TEXT, "not a text", ""
        said = self._commands.answer(entry)
        if said is not None:
            return said, "command", ""
        with self._conversations.entered(entry) as (agent, told):
            return self._turn(entry, agent, told)

    def _turn(self, entry: Entry, agent: Agent, told: str) -> tuple[str, str, str]:
        session = agent.session
        answered, begun = ("", False) if entry.state == NEW else earlier_answer(agent, entry)
        if answered:
            return _whole(told, answered, []), "answered before", session.id
        if not begun:
            self._ledger.begin(entry, session.id, session.last_id)
        show = _Draft(self._platforms[entry.message.platform], entry, self._ledger, self._stream_seconds)
        notices: list[str] = []
        events = agent.go_on() if begun else agent.turn(spoken(entry.message, self._ledger.words(entry)))
        try:
            end = _follow(events, show, notices)
        except ModelError as error:
            _LOG.warning("the model did not answer message %s: %s", entry.id, error)
            reply, outcome = _sorry(error, entry), "model failed"
        else:
            reply = f"{end.reply} {_STOPPED}".strip() if end.reason == "interrupted" else end.reply
            outcome = end.reason
        notices += [event.text for event in session.take_events() if isinstance(event, Notice)]
        return _whole(told, reply or _EMPTY, notices), outcome, session.id

    # --- the delivery ------------------------------------------------------------------------------------------------

    def _deliver(self, entry: Entry) -> float | None:
        platform, outcome = self._platforms[entry.message.platform], ""
        if entry.message.pressed:
            with suppress(Later, Never):  # only the sign of waiting on the button
                platform.acknowledge(entry.message)
        try:
            for piece in self._ledger.pieces(entry.id):
                if platform.edits:
                    self._fill(platform, entry, piece)
                else:
                    platform.send(entry.message, piece.text, delivery=f"{entry.message.update}.{piece.number}")
                self._ledger.delivered(entry.id, piece.number)
        except Later as error:
            _LOG.warning("the answer to message %s will be sent later: %s", entry.id, error)
            return error.seconds or self._pause(entry.id)
        except Never as error:  # blocked, left, deleted: nobody is there to read it
            _LOG.warning("the answer to message %s cannot be delivered: %s", entry.id, error)
            outcome = "undeliverable"
        self._ledger.done(entry, self._clock(), outcome)
        self._failures.pop(entry.id, None)
        return None

    def _fill(self, platform: Platform, entry: Entry, piece: Piece) -> None:
        number, text, buttons = piece.number, piece.text, piece.buttons
        try:
            sent = piece.sent or self._send_draft(platform, entry, number)
            platform.edit(entry.message, sent, text, buttons=buttons)
        except Never as error:
            if not error.gone:
                raise
            sent = self._send_draft(platform, entry, number)  # somebody deleted the draft
            platform.edit(entry.message, sent, text, buttons=buttons)

    def _send_draft(self, platform: Platform, entry: Entry, piece: int) -> str:
        sent = platform.send(entry.message, DRAFT, delivery=f"{entry.message.update}.{piece}")
        self._ledger.sent(entry.id, piece, sent)
        return sent

    def _pause(self, number: int) -> float:
        failures = self._failures[number] = self._failures.get(number, -1) + 1
        return _PAUSES[min(failures, len(_PAUSES) - 1)]


def earlier_answer(agent: Agent, entry: Entry) -> tuple[str, bool]:
    """What a process that died had already got: the whole answer, or "" and whether the turn had begun."""
    session = agent.session
    stored = sorted(session.database.messages(session.id, limit=1000, newest=True), key=lambda each: each.id)
    since = [each.message for each in stored if each.id > entry.before]
    said = spoken(entry.message, entry.message.text)
    asked = [at for at, one in enumerate(since) if one["role"] == "user" and one.get("content") == said]
    if not asked:
        return "", False
    last = since[-1]
    if last["role"] == "assistant" and not last.get("tool_calls"):
        return str(last.get("content") or _EMPTY), True
    return "", True


def _follow(events: Iterator[TurnEvent], show: _Draft, notices: list[str]) -> TurnFinished:
    show.begin()
    for event in events:
        if isinstance(event, TextDelta):
            show.add(event.text)
        elif isinstance(event, Retrying | ToolReturned):
            show.clear()
        elif isinstance(event, Notice):
            notices.append(event.text)
        elif isinstance(event, TurnFinished):
            end = event
        else:
            show.begin()
    return end


def _sorry(error: ModelError, entry: Entry) -> str:
    """What the person may know of a failure; the rest is the operator's, and in the log."""
    if isinstance(error, ContextTooLong):
        return _TOO_LONG
    return _BUSY if error.passing else _BROKEN.format(number=entry.id)


def _whole(told: str, reply: str, notices: list[str]) -> str:
    return "\n\n".join([*([told] if told else []), reply, *(f"({each})" for each in dict.fromkeys(notices))])


class _Draft:
    """Shows an answer while it is written, as far as the platform can; what fails here is not worth a word."""

    def __init__(self, platform: Platform, entry: Entry, ledger: Ledger, seconds: float) -> None:
        self._platform, self._entry, self._ledger, self._seconds = platform, entry, ledger, seconds
        self._sent = entry.draft
        self._text = self._shown = ""
        self._next = time.monotonic() + seconds
        self._typed = 0.0

    def begin(self) -> None:
        self._try(self._type)

    def clear(self) -> None:
        self._text = ""
        self._try(self._type)

    def add(self, text: str) -> None:
        self._text += text
        if self._seconds and self._platform.edits and time.monotonic() >= self._next:
            self._next = time.monotonic() + self._seconds
            self._try(self._show)

    def _show(self) -> None:
        shown = next(iter(self._platform.split(self._text)), "")
        if not shown or shown == self._shown:
            return
        if not self._sent:
            self._sent = self._platform.send(self._entry.message, DRAFT, delivery=f"{self._entry.message.update}.0")
            self._ledger.drafted(self._entry.id, self._sent)
        self._platform.edit(self._entry.message, self._sent, shown)
        self._shown = shown

    def _type(self) -> None:
        if time.monotonic() - self._typed >= _TYPING_SECONDS:
            self._typed = time.monotonic()
            self._platform.typing(self._entry.message)

    def _try(self, step: Callable[[], None]) -> None:
        try:
            step()
        except Later as error:
            self._next = time.monotonic() + max(error.seconds, self._seconds)
        except Never:
            self._seconds = 0
