"""Handles one stored message: runs a command or a turn, then delivers the answer; after a crash, finishes what is left.

An answer is delivered once. Where a platform can edit, a draft is sent first and its id on the platform is stored;
then the draft becomes the answer, which can be repeated without harm. A crash can leave an empty draft, never a second
answer. Where it cannot edit, every attempt carries the same `delivery`.
"""

from __future__ import annotations

import logging
import re
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hermes.base.errors import (
    ContextTooLong,
    HermesError,
    ModelError,
    NotFound,
    SettingsError,
    StorageError,
    WriteRefused,
)
from hermes.base.events import Notice, Retrying, TextDelta, ToolReturned, TurnFinished
from hermes.base.text import counted
from hermes.gateway.conversations import ON_REQUEST, spoken
from hermes.gateway.ledger import DONE, FORGET, HAND_OVER, NEW, RUNNING
from hermes.gateway.platforms.base import DRAFT, Later, Never
from hermes.memory.entries import Cause
from hermes.memory.store import MemoryStore, usage
from hermes.operations.forget import finish_removals, forget, rehearse
from hermes.session.approvals import PendingWrites, described, waiting_in_words
from hermes.session.external import store_beside
from hermes.session.parts import open_past
from hermes.settings.config import load_settings
from hermes.settings.people import OWNER
from hermes.settings.schema import nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from hermes.agent import Agent
    from hermes.base.events import TurnEvent
    from hermes.gateway.conversations import Conversations
    from hermes.gateway.ledger import Directory, Entry, Ledger, Piece
    from hermes.gateway.platforms.base import Buttons, Platform

_LOG = logging.getLogger("hermes.gateway")
_MOST_ATTEMPTS = 20  # a message that has ended the process this often is not tried again
_PAUSES = (0.5, 1.0, 2.0, 5.0, 15.0, 60.0)  # seconds before the next attempt to deliver
_TYPING_SECONDS = 4.0  # between two signs of typing; platforms show one for a few seconds
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Router:
    """Turns one stored message into an answer."""

    platforms: Mapping[str, Platform]
    ledger: Ledger
    conversations: Conversations
    commands: Commands
    clock: Callable[[], float]
    stream_seconds: float = 1.5
    failures: dict[int, int] = field(default_factory=dict)  # deliveries in a row that failed, by message

    def handle(self, number: int) -> float | None:
        """Handles one message; returns None once it is done, or the seconds until the next attempt."""
        try:
            entry = self.ledger.entry(number)
            if entry is not None and entry.state in (NEW, RUNNING):
                self._answer(entry)
                entry = self.ledger.entry(number)
            return None if entry is None or entry.state == DONE else self._deliver(entry)
        except HermesError as error:  # our own files cannot be read or written; the message is stored
            _LOG.error("message %s will be tried again: %s", number, error)
        except Exception:  # noqa: BLE001 - a platform is other people's code, and its chat must continue
            _LOG.exception("message %s will be tried again", number)
        return self._pause(number)

    # --- the answer --------------------------------------------------------------------------------------------------

    def _answer(self, entry: Entry) -> None:
        self.ledger.attempted(entry.id)
        if entry.message.heard:
            return self._hear(entry)
        session = ""
        try:
            text, outcome, session = self._reply(entry)
        except ModelError as error:
            _LOG.warning("no model is available for message %s: %s", entry.id, error)
            text, outcome = _sorry(error, entry), "model failed"
        except StorageError:
            raise  # a lock or a full disk: the turn is tried again, and continues where it was
        except HermesError as error:  # its message says what is wrong, so a traceback would not help
            _LOG.error("message %s could not be answered: %s", entry.id, error)
            text, outcome = _BROKEN.format(number=entry.id), "failed"
        except Exception:  # noqa: BLE001 - a turn runs tools, providers and plug-ins: other people's code may raise anything
            _LOG.exception("message %s could not be answered", entry.id)
            text, outcome = _BROKEN.format(number=entry.id), "failed"
        platform, message = self.platforms[entry.message.platform], entry.message
        questions: list[tuple[str, Buttons]] = []
        asked: list[str] = []
        if session:
            questions, told, asked = self.commands.questions(entry, buttons=platform.buttons)
            text = f"{text}\n\n({told})" if told else text
        pieces = platform.split(text) or [_EMPTY]
        if message.pressed:  # the message with the button becomes the answer
            self.ledger.drafted(entry.id, message.message)
            word, _, wanted = message.text.removeprefix("/memory ").partition(" ")
            if word == "show" and text.startswith("```"):
                pieces, questions = [], [(text, buttons_for(wanted, shown=True))]
        self.ledger.answered(entry.id, pieces, outcome, session=session, questions=questions)
        return self.ledger.ask(entry.person, message.kind, asked)

    def _hear(self, entry: Entry) -> None:
        """Records a group's message that was not addressed to us; after a crash, it is not recorded twice."""
        with self.conversations.entered(entry) as (agent, _):
            session = agent.session
            done, begun = ("", False) if entry.state == NEW else earlier_answer(agent, entry)
            if not begun:
                self.ledger.begin(entry, session.id, session.last_id)
                session.record({"role": "user", "content": spoken(entry.message, entry.message.text)})
            if not done:  # models expect each message to be followed by an answer
                session.record({"role": "assistant", "content": _HEARD})
            self.ledger.answered(entry.id, [], "heard", session=session.id)

    def _reply(self, entry: Entry) -> tuple[str, str, str]:
        """Returns the answer, its outcome for the ledger, and its session; no session for commands."""
        if entry.attempts >= _MOST_ATTEMPTS:
            return _BROKEN.format(number=entry.id), "given up", ""
        if not entry.message.text.strip():
            return _ONLY_TEXT, "not a text", ""
        said = self.commands.answer(entry)
        if said is not None:
            return said, "command", ""
        with self.conversations.entered(entry) as (agent, told):
            return self._turn(entry, agent, told)

    def _turn(self, entry: Entry, agent: Agent, told: str) -> tuple[str, str, str]:
        session = agent.session
        answered, begun = ("", False) if entry.state == NEW else earlier_answer(agent, entry)
        if answered:
            return _whole(told, answered, []), "answered before", session.id
        if not begun:
            self.ledger.begin(entry, session.id, session.last_id)
        show = _Draft(self.platforms[entry.message.platform], entry, self.ledger, self.stream_seconds)
        notices: list[str] = []
        events = agent.go_on() if begun else agent.turn(spoken(entry.message, self.ledger.words(entry)))
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
        platform, outcome = self.platforms[entry.message.platform], ""
        if entry.message.pressed:
            with suppress(Later, Never):  # it only ends the sign of waiting on the button
                platform.acknowledge(entry.message)
        try:
            for piece in self.ledger.pieces(entry.id):
                if platform.edits:
                    self._fill(platform, entry, piece)
                else:
                    platform.send(entry.message, piece.text, delivery=f"{entry.message.update}.{piece.number}")
                self.ledger.delivered(entry.id, piece.number)
        except Later as error:
            _LOG.warning("the answer to message %s will be sent later: %s", entry.id, error)
            return error.seconds or self._pause(entry.id)
        except Never as error:  # the bot was blocked, or the chat is gone: nobody can read it
            _LOG.warning("the answer to message %s cannot be delivered: %s", entry.id, error)
            outcome = "undeliverable"
        self.ledger.done(entry, self.clock(), outcome)
        self.failures.pop(entry.id, None)
        return None

    def _fill(self, platform: Platform, entry: Entry, piece: Piece) -> None:
        """Writes a piece into its draft; sends a new draft if somebody deleted the old one."""
        number, text, buttons = piece.number, piece.text, piece.buttons
        try:
            sent = piece.sent or self._send_draft(platform, entry, number)
            platform.edit(entry.message, sent, text, buttons=buttons)
        except Never as error:
            if not error.gone:
                raise
            sent = self._send_draft(platform, entry, number)
            platform.edit(entry.message, sent, text, buttons=buttons)

    def _send_draft(self, platform: Platform, entry: Entry, piece: int) -> str:
        sent = platform.send(entry.message, DRAFT, delivery=f"{entry.message.update}.{piece}")
        self.ledger.sent(entry.id, piece, sent)
        return sent

    def _pause(self, number: int) -> float:
        failures = self.failures[number] = self.failures.get(number, -1) + 1
        return _PAUSES[min(failures, len(_PAUSES) - 1)]


def earlier_answer(agent: Agent, entry: Entry) -> tuple[str, bool]:
    """What an earlier process achieved before it died: the whole answer, or "" and whether the turn had begun."""
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
    """What the person is told about a failure; the details are in the operator's log."""
    if isinstance(error, ContextTooLong):
        return _TOO_LONG
    return _BUSY if error.passing else _BROKEN.format(number=entry.id)


def _whole(told: str, reply: str, notices: list[str]) -> str:
    return "\n\n".join([*([told] if told else []), reply, *(f"({each})" for each in dict.fromkeys(notices))])


class _Draft:
    """Shows an answer while it is written, as far as the platform can; failures here do not matter."""

    def __init__(self, platform: Platform, entry: Entry, ledger: Ledger, seconds: float) -> None:
        self._platform, self._entry, self._ledger, self._seconds = platform, entry, ledger, seconds
        self._sent = entry.draft
        self._text = self._shown = ""
        self._next = time.monotonic() + seconds
        self._typed = 0.0

    def begin(self) -> None:
        """Shows that an answer is being written."""
        self._try(self._type)

    def clear(self) -> None:
        """Drops the text so far, because the model starts again after a retry or a tool."""
        self._text = ""
        self._try(self._type)

    def add(self, text: str) -> None:
        """Appends to the answer, and shows it if the last update is long enough ago."""
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


# --- commands: lines that begin with a slash and never reach a model --------------------------------------------------

STOP = "/stop"
_PRIVATE = frozenset({"/handover", "/continue", "/forget"})  # the others act on the group's own memory
_LOOKED_AT = 20  # recent conversations among which /continue looks
_MOST_QUESTIONS = 5  # messages with buttons after one answer
_LONGEST_SHOWN = 3000  # characters of a pending write in one message
_LIKE_A_COMMAND = re.compile(r"/[A-Za-z][A-Za-z0-9_-]*")  # a path has another slash
# "/tmp is full" is a sentence about a folder, not a command.
_FOLDER = re.compile("/(?:bin|boot|dev|etc|home|lib|media|mnt|opt|proc|root|run|sbin|srv|sys|tmp|usr|var)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    """The commands of the chat; `messages_waiting` counts the messages of a chat that wait for an answer."""

    directory: Directory
    conversations: Conversations
    ledger: Ledger
    messages_waiting: Callable[[str], int]

    def answer(self, entry: Entry) -> str | None:
        """Runs a command and returns its answer; None if the message is not a command but for the model."""
        name, _, rest = entry.message.text.strip().partition(" ")
        command = _COMMANDS.get(name.lower())
        if command is None:
            return _unknown(name, rest)
        if name.lower() in _PRIVATE and entry.message.kind != "dm":
            return "That is about you, and everybody here would read it; ask me in a private chat."
        try:
            return command[1](self, entry, rest.strip())
        except (NotFound, SettingsError, WriteRefused) as error:
            return str(error)

    def help(self, _entry: Entry, _rest: str) -> str:
        """Lists the commands, except aliases."""
        lines = [f"{name}{told}" for name, (told, _) in _COMMANDS.items() if told]
        return "Just write. I also understand:\n" + "\n".join(lines)

    def start(self, entry: Entry, _rest: str) -> str:
        """Greets the person and lists the commands."""
        return (
            f"Hello {entry.message.user_name or entry.message.speaker or entry.person}. I remember what you tell me. "
            + self.help(entry, "")
        )

    def paired(self, entry: Entry, _rest: str) -> str:
        """Answers a pairing code of an account that is known already."""
        return f"This account is already that of {entry.message.speaker or entry.person}."

    def new(self, entry: Entry, _rest: str) -> str:
        """Begins a new conversation in this chat."""
        self.conversations.start_over(entry, ON_REQUEST)
        return "A new conversation. What I remember is still there; /continue goes back."

    def stop(self, entry: Entry, _rest: str) -> str:
        """Interrupts the running answer of this chat."""
        stopped = self.conversations.interrupt(entry.chat_key)
        left = max(0, self.messages_waiting(entry.chat_key))
        more = f" {left} of your messages still wait for an answer." if left else ""
        return ("I stop." if stopped else "There is nothing to stop.") + more

    def status(self, entry: Entry, _rest: str) -> str:
        """Says who the person is, and shows the conversation, the model and the use of memory."""
        lines = [f"You are {entry.message.speaker or entry.person}."]
        if self.ledger.chat(entry.chat_key) is None:
            lines.append("There is no conversation here yet.")
        else:
            with self.conversations.entered(entry) as (agent, told):
                about, model = agent.session.about(), agent.model
            lines += [told] if told else []
            tokens = about.input_tokens + about.output_tokens
            title = about.title or "no title yet"
            lines += [
                f"This conversation: {title}, {counted(about.message_count, 'message')}, {tokens:,} tokens.",
                f"Model: {model.name}, {model.context_length:,} tokens of context.",
            ]
        store = MemoryStore.open(self.directory.people.home_of(entry.person))
        lines += [f"{each}: {usage(store.entries(each), store.limit(each))}" for each in store.targets]
        return "\n".join(lines)

    def memory(self, entry: Entry, rest: str) -> str:
        """Lists entries and pending writes, or shows, approves, rejects or forgets one."""
        home = self.directory.people.home_of(entry.person)
        store = store_beside(home, load_settings(home), platform=entry.message.platform)
        numbered = [(target, text) for target in store.targets for text in store.entries(target)]
        word, _, number = rest.partition(" ")
        if word == "forget":
            return self._forget_one(entry, store, numbered, number.strip())
        if word == "show":
            return in_a_block(described(self._pending(entry).get(number.strip())))
        if word in ("approve", "reject"):
            return self._decide(entry, word, number.strip())
        waiting = self._waiting(entry)
        if not numbered:
            return "I have not noted anything yet." + waiting
        lines = [f"{at}. {text}" for at, (_, text) in enumerate(numbered, start=1)]
        return "What I have noted:\n" + "\n".join(lines) + "\n\n/memory forget NUMBER removes one." + waiting

    def _waiting(self, entry: Entry) -> str:
        """The list of pending writes with what the person can do about them; empty if there are none."""
        staged = self._pending(entry).all()
        lines = [f"{each.id}: {each.summary}, because {each.reason}" for each in staged]
        told = "/memory approve ID keeps one, /memory reject ID rejects it, /memory show ID shows all of it."
        return "\n\nThis waits for your word:\n" + "\n".join(lines) + f"\n{told}" if lines else ""

    def _decide(self, entry: Entry, word: str, wanted: str) -> str:
        pending = self._pending(entry)
        staged = next((each for each in pending.all() if each.id == wanted), None)
        if staged is None:
            if entry.attempts:  # an earlier process may have done it and died before it could answer
                return "That is decided."
            raise NotFound(f"say which one: /memory {word} ID, with an id from /memory")
        if word == "reject":
            pending.reject(wanted)
            return f"Rejected: {staged.summary}"
        pending.approve(wanted)
        return f"Noted: {staged.summary}"

    def questions(self, entry: Entry, *, buttons: bool) -> tuple[list[tuple[str, Buttons]], str, list[str]]:
        """The pending writes that the person was not asked about here: as messages with buttons, or as one line.

        Also returns their ids, to be marked as asked when the answer is stored. In a group, every known person may
        decide, because the writes are to the group's own memory.
        """
        place = entry.message.kind
        waiting = {each.id: each for each in self._pending(entry).all()}
        new = self.ledger.unasked(entry.person, place, list(waiting))
        if not buttons:
            return [], f"{waiting_in_words(len(new))}; /memory shows what" if new else "", new
        asked: list[tuple[str, Buttons]] = []
        for each in new[:_MOST_QUESTIONS]:
            text = f"**May I keep this?**\n\n{in_a_block(described(waiting[each], whole=False))}"
            asked.append((text, buttons_for(each)))
        left = len(new) - len(asked)
        return asked, f"{waiting_in_words(left)} besides; /memory shows what" if left else "", new

    def _pending(self, entry: Entry) -> PendingWrites:
        home = self.directory.people.home_of(entry.person)
        return PendingWrites(home, platform=entry.message.platform)

    def _forget_one(self, entry: Entry, store: MemoryStore, numbered: list[tuple[str, str]], number: str) -> str:
        note = f"gateway message {entry.message.platform} {entry.message.update}"
        if entry.attempts:  # an earlier process may have done it and died; then the number now means another entry
            changes = [change for target in store.targets for change in store.history(target)[0]]
            done = next((change for change in changes if change.cause.note == note), None)
            if done is not None:
                return f"Forgotten: {done.removed()[0]}"
        if not number.isdecimal() or not 0 < int(number) <= len(numbered):
            raise NotFound("say which one: /memory forget NUMBER, with a number from /memory")
        target, text = numbered[int(number) - 1]
        store.remove(target, text, cause=Cause(origin="user", note=note), whole=True)
        return f"Forgotten: {text}"

    def hand_over(self, entry: Entry, _rest: str) -> str:
        """Makes a code that continues this conversation in another chat."""
        chat = self.ledger.chat(entry.chat_key)
        if chat is None:
            raise NotFound("there is no conversation here yet")
        code = self.directory.make_code(HAND_OVER, entry.person, chat.session)
        return f"Where you want to continue, send within 15 minutes:\n/continue {code}"

    def go_on(self, entry: Entry, code: str) -> str:
        """Continues another conversation of the person here: that of a code, or the most recent one."""
        if code:
            person, session = self.directory.check(HAND_OVER, code, at=entry.received) or ("", "")
            if person != entry.person:  # a code of another person does not count
                raise NotFound("this code is wrong or has expired; send /handover in the other chat to get a new one")
        else:
            session = self._latest_other(entry)
        self.conversations.hand_over(entry, session)
        with self.conversations.entered(entry) as (agent, _):
            about = agent.session.about()
        return f"Continuing here: {about.title or about.preview or 'your conversation'}"

    def forget_me(self, entry: Entry, rest: str) -> str:
        """Explains what forgetting would remove, and removes it once the person repeats the code."""
        what, _, code = rest.partition(" ")
        if what.lower() != "me":
            raise NotFound("/forget me removes everything of yours; /memory forget NUMBER removes one note")
        people, person = self.directory.people, entry.person
        if person == OWNER:
            raise NotFound(
                "you run this home, so it cannot be removed from a chat; `hermes memory reset` empties memory"
            )
        if not code:
            plan = rehearse(people, person)
            made = self.directory.make_code(FORGET, person)
            conversations = f"{counted(plan.conversations, 'conversation')} with {counted(plan.messages, 'message')}"
            return (
                f"This removes {counted(plan.entries, 'note')}, {conversations}, and your access, for good. "
                f"If you mean it, send within 10 minutes:\n/forget me {made}"
            )
        if (self.directory.check(FORGET, code, at=entry.received) or ("", ""))[0] != person:
            raise NotFound(
                "this code is wrong or has expired, so nothing was removed; send /forget me to get a new one"
            )
        return self._forget(entry)

    def _forget(self, entry: Entry) -> str:
        """Removes the person; after a crash in the middle, a second call finishes the removal."""
        people, person = self.directory.people, entry.person
        self.conversations.close_person(person)
        outside: list[str] = []
        if self.directory.knows(person):
            done = forget(people, person)
            outside = list(done.providers)
            if done.elsewhere:
                outside.append(f"The operator still has words of yours in {len(done.elsewhere)} other files.")
        finish_removals(people.home)
        self.ledger.forget(person, keep=entry.id)
        return "\n".join(["Everything of yours is removed, and I do not know you any more.", *outside])

    def _latest_other(self, entry: Entry) -> str:
        """The person's most recent conversation other than this chat's, on any platform."""
        here = self.ledger.chat(entry.chat_key)
        database = open_past(self.directory.people.home_of(entry.person))
        if database is not None:
            with database:
                for each in database.list_sessions(limit=_LOOKED_AT):
                    if each.kind != "delegate" and each.message_count and (here is None or each.id != here.session):
                        return each.id
        raise NotFound("you have no other conversation to continue")


_COMMANDS: dict[str, tuple[str, Callable[[Commands, Entry, str], str]]] = {
    "/new": (": begin a new conversation", Commands.new),
    "/stop": (": stop the answer that is being written", Commands.stop),
    "/memory": (
        ": what I have noted about you, and what waits for your word; /memory forget NUMBER removes one",
        Commands.memory,
    ),
    "/handover": (": continue this conversation in another chat", Commands.hand_over),
    "/continue": (": continue your last conversation here, or the one a code names", Commands.go_on),
    "/status": (": who you are, the model, and how much there is", Commands.status),
    "/forget": (" me: remove everything of yours", Commands.forget_me),
    "/help": (": this list", Commands.help),
    "/start": ("", Commands.start),
    "/pair": ("", Commands.paired),
    "/reset": ("", Commands.new),
}


def buttons_for(pending: str, *, shown: bool = False) -> Buttons:
    """The buttons for a pending write; `shown` leaves out the one that shows all of it."""
    words = [("Accept", "approve"), ("Reject", "reject"), *([] if shown else [("Show", "show")])]
    return [(label, f"{word} {pending}") for label, word in words]


def in_a_block(text: str) -> str:
    """A text as a block of code, so that it is shown without formatting; cut if it is too long for a message."""
    cut = text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]} … (`hermes memory pending` shows the rest)"
    fence = "```"
    while fence in cut:  # the text must not close the block
        fence += "`"
    return f"{fence}\n{cut}\n{fence}"


def _unknown(name: str, rest: str) -> str | None:
    """The answer to an unknown command; None for other text that begins with a slash, such as a path."""
    if not _LIKE_A_COMMAND.fullmatch(name) or (rest and _FOLDER.fullmatch(name)):
        return None
    known = [each for each, (told, _) in _COMMANDS.items() if told]
    return f"There is no command {name}{nearest(name.lower(), known) or '.'} /help lists what I understand."


def is_stop(text: str) -> bool:
    """Whether a message is the command /stop, which must not wait behind the answer it stops."""
    return text.strip().lower() == STOP
