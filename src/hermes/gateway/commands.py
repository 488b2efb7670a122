"""What a person can tell the gateway itself: lines that begin with a slash and never reach a model."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hermes.base.errors import NotFound, SettingsError, WriteRefused
from hermes.base.text import counted
from hermes.gateway.conversations import NEW
from hermes.gateway.directory import FORGET, HAND_OVER
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
    from collections.abc import Callable

    from hermes.gateway.conversations import Conversations
    from hermes.gateway.directory import Directory
    from hermes.gateway.ledger import Entry, Ledger
    from hermes.gateway.platforms.base import Buttons

STOP = "/stop"
_PRIVATE = frozenset({"/handover", "/continue", "/forget"})  # of one person; the rest is the group's own in a group
_LOOKED_AT = 20
_MOST_QUESTIONS = 5  # messages with buttons after one answer
_LONGEST_SHOWN = 3000  # characters of a pending write in one message
_LIKE_A_COMMAND = re.compile(r"/[A-Za-z][A-Za-z0-9_-]*")  # a path goes on with another slash
_FOLDER = re.compile("/(?:bin|boot|dev|etc|home|lib|media|mnt|opt|proc|root|run|sbin|srv|sys|tmp|usr|var)")


class Commands:
    """`waiting` says how many messages of a chat wait for an answer."""

    def __init__(
        self,
        directory: Directory,
        conversations: Conversations,
        ledger: Ledger,
        *,
        waiting: Callable[[str], int],
    ) -> None:
        self._directory = directory
        self._conversations = conversations
        self._ledger = ledger
        self._messages_waiting = waiting

    def answer(self, entry: Entry) -> str | None:
        """The answer to a command; None when it is no command, and a model should see it."""
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
        lines = [f"{name}{told}" for name, (told, _) in _COMMANDS.items() if told]
        return "Just write. I also understand:\n" + "\n".join(lines)

    def start(self, entry: Entry, _rest: str) -> str:
        return (
            f"Hello {entry.message.user_name or entry.message.speaker or entry.person}. I remember what you tell me. "
            + self.help(entry, "")
        )

    def paired(self, entry: Entry, _rest: str) -> str:
        return f"This account is already that of {entry.message.speaker or entry.person}."

    def new(self, entry: Entry, _rest: str) -> str:
        self._conversations.start_over(entry, NEW)
        return "A new conversation. What I remember is still there; /continue goes back."

    def stop(self, entry: Entry, _rest: str) -> str:
        stopped = self._conversations.interrupt(entry.chat_key)
        left = max(0, self._messages_waiting(entry.chat_key))
        more = f" {left} of your messages still wait for an answer." if left else ""
        return ("I stop." if stopped else "There is nothing to stop.") + more

    def status(self, entry: Entry, _rest: str) -> str:
        lines = [f"You are {entry.message.speaker or entry.person}."]
        if self._ledger.chat(entry.chat_key) is None:
            lines.append("There is no conversation here yet.")
        else:
            with self._conversations.entered(entry) as (agent, told):
                about, model = agent.session.about(), agent.model
            lines += [told] if told else []
            tokens = about.input_tokens + about.output_tokens
            title = about.title or "no title yet"
            lines += [
                f"This conversation: {title}, {counted(about.message_count, 'message')}, {tokens:,} tokens.",
                f"Model: {model.name}, {model.context_length:,} tokens of context.",
            ]
        store = MemoryStore.open(self._directory.people.home_of(entry.person))
        lines += [f"{each}: {usage(store.entries(each), store.limit(each))}" for each in store.targets]
        return "\n".join(lines)

    def memory(self, entry: Entry, rest: str) -> str:
        home = self._directory.people.home_of(entry.person)
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
        """Notes that are kept only when the person says so; empty when there are none."""
        staged = self._pending(entry).all()
        lines = [f"{each.id}: {each.summary}, because {each.reason}" for each in staged]
        told = "/memory approve ID keeps one, /memory reject ID throws it away, /memory show ID shows all of it."
        return "\n\nThis waits for your word:\n" + "\n".join(lines) + f"\n{told}" if lines else ""

    def _decide(self, entry: Entry, word: str, wanted: str) -> str:
        pending = self._pending(entry)
        staged = next((each for each in pending.all() if each.id == wanted), None)
        if staged is None:
            if entry.attempts:  # a process that died before it could say so may have done it
                return "That is decided."
            raise NotFound(f"say which one: /memory {word} ID, with an id from /memory")
        if word == "reject":
            pending.reject(wanted)
            return f"Thrown away: {staged.summary}"
        pending.approve(wanted)
        return f"Noted: {staged.summary}"

    def questions(self, entry: Entry, *, buttons: bool) -> tuple[list[tuple[str, Buttons]], str, list[str]]:
        """What the person has not been asked about here yet: as messages with buttons, or as a line that says so.

        The ids come with it, to be marked as asked when the answer is stored. In a group everybody who is known may
        decide: what waits is the group's own.
        """
        place = entry.message.kind
        waiting = {each.id: each for each in self._pending(entry).all()}
        new = self._ledger.unasked(entry.person, place, list(waiting))
        if not buttons:
            return [], f"{waiting_in_words(len(new))}; /memory shows what" if new else "", new
        asked: list[tuple[str, Buttons]] = []
        for each in new[:_MOST_QUESTIONS]:
            text = f"**May I keep this?**\n\n{in_a_block(described(waiting[each], whole=False))}"
            asked.append((text, buttons_for(each)))
        left = len(new) - len(asked)
        return asked, f"{waiting_in_words(left)} besides; /memory shows what" if left else "", new

    def _pending(self, entry: Entry) -> PendingWrites:
        home = self._directory.people.home_of(entry.person)
        return PendingWrites(home, platform=entry.message.platform)

    def _forget_one(self, entry: Entry, store: MemoryStore, numbered: list[tuple[str, str]], number: str) -> str:
        note = f"gateway message {entry.message.platform} {entry.message.update}"
        if entry.attempts:  # a process that died may have done it; the same number is another entry by now
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
        chat = self._ledger.chat(entry.chat_key)
        if chat is None:
            raise NotFound("there is no conversation here yet")
        code = self._directory.make_code(HAND_OVER, entry.person, chat.session)
        return f"Where you want to continue, send within 15 minutes:\n/continue {code}"

    def go_on(self, entry: Entry, code: str) -> str:
        if code:
            person, session = self._directory.check(HAND_OVER, code, at=entry.received) or ("", "")
            if person != entry.person:  # somebody else's code is no code
                raise NotFound("this code is wrong or has expired; send /handover in the other chat to get a new one")
        else:
            session = self._latest_other(entry)
        self._conversations.hand_over(entry, session)
        with self._conversations.entered(entry) as (agent, _):
            about = agent.session.about()
        return f"We go on here: {about.title or about.preview or 'your conversation'}"

    def forget_me(self, entry: Entry, rest: str) -> str:
        what, _, code = rest.partition(" ")
        if what.lower() != "me":
            raise NotFound("/forget me removes everything of yours; /memory forget NUMBER removes one note")
        people, person = self._directory.people, entry.person
        if person == OWNER:
            raise NotFound(
                "you run this home, so it cannot be removed from a chat; `hermes memory reset` empties memory"
            )
        if not code:
            plan = rehearse(people, person)
            made = self._directory.make_code(FORGET, person)
            conversations = f"{counted(plan.conversations, 'conversation')} with {counted(plan.messages, 'message')}"
            return (
                f"This removes {counted(plan.entries, 'note')}, {conversations}, and your access, for good. "
                f"If you mean it, send within 10 minutes:\n/forget me {made}"
            )
        if (self._directory.check(FORGET, code, at=entry.received) or ("", ""))[0] != person:
            raise NotFound(
                "this code is wrong or has expired, so nothing was removed; send /forget me to get a new one"
            )
        return self._forget(entry)

    def _forget(self, entry: Entry) -> str:
        """Removes the person; done again after a crash in the middle, it finishes what is left."""
        people, person = self._directory.people, entry.person
        self._conversations.close_person(person)
        outside: list[str] = []
        if self._directory.knows(person):
            done = forget(people, person)
            outside = list(done.providers)
            if done.elsewhere:
                outside.append(f"The operator still has words of yours in {len(done.elsewhere)} other files.")
        finish_removals(people.home)
        self._ledger.forget(person, keep=entry.id)
        return "\n".join(["Everything of yours is removed, and I do not know you any more.", *outside])

    def _latest_other(self, entry: Entry) -> str:
        """The person's most recent conversation besides the one of this chat, wherever they had it."""
        here = self._ledger.chat(entry.chat_key)
        database = open_past(self._directory.people.home_of(entry.person))
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
    words = [("Accept", "approve"), ("Reject", "reject"), *([] if shown else [("Show", "show")])]
    return [(label, f"{word} {pending}") for label, word in words]


def in_a_block(text: str) -> str:
    """As it is, without formatting; a text that is longer than a message can be is cut."""
    cut = text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]} … (`hermes memory pending` shows the rest)"
    fence = "```"
    while fence in cut:
        fence += "`"
    return f"{fence}\n{cut}\n{fence}"


def _unknown(name: str, rest: str) -> str | None:
    """The answer to an unknown command; None for a text that only begins with a slash."""
    if not _LIKE_A_COMMAND.fullmatch(name) or (rest and _FOLDER.fullmatch(name)):
        return None
    known = [each for each, (told, _) in _COMMANDS.items() if told]
    return f"There is no command {name}{nearest(name.lower(), known) or '.'} /help lists what I understand."


def is_stop(text: str) -> bool:
    return text.strip().lower() == STOP
