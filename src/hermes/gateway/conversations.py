"""Keeps everybody's conversations open between messages, and resets them by the policy.

A chat has a key: `agent:main:telegram:dm:42:@ann`. A group is one conversation of all who speak there, kept in a home
of its own, so that nobody's private memory can appear in it. The agent of a chat is used by one worker at a time;
`interrupt` may come from anywhere.
"""

from __future__ import annotations

import logging
import re
import threading
from collections import OrderedDict
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from hermes.agent import Agent
from hermes.base.errors import DamagedFile, HermesError, NotFound
from hermes.gateway.ledger import RUNNING, Chat
from hermes.gateway.platforms.base import Incoming

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import tzinfo

    from hermes.gateway.ledger import Entry, Ledger
    from hermes.settings.config import Settings
    from hermes.settings.home import Home

IDLE, DAILY = "idle", "daily"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetPolicy:
    """When a chat starts a new conversation by itself."""

    mode: str = "none"  # none, idle, daily, both
    at_hour: int = 4
    idle_minutes: int = 1440
    notify: bool = True
    zone: tzinfo | None = None  # of the hour; None for the machine's own

    @classmethod
    def of(cls, settings: Settings) -> ResetPolicy:
        """The policy that `session_reset` in the settings describes."""
        name = settings.text("timezone")
        return cls(
            mode=settings.text("session_reset.mode"),
            at_hour=settings.integer("session_reset.at_hour"),
            idle_minutes=settings.integer("session_reset.idle_minutes"),
            notify=settings.flag("session_reset.notify"),
            zone=ZoneInfo(name) if name else None,
        )

    def due(self, active: float, now: float) -> str:
        """Why a chat that was last used at `active` starts over at `now`; "" if it continues."""
        if self.mode in (DAILY, "both") and active < self._last_reset(now):
            return DAILY
        if self.mode in (IDLE, "both") and now - active >= self.idle_minutes * 60:
            return IDLE
        return ""

    def told(self, why: str) -> str:
        """One line that tells the person why the conversation started over."""
        cause = "a new day" if why == DAILY else f"{_duration(self.idle_minutes)} without a message"
        return f"This is a new conversation ({cause}). What I remember is still there; /continue goes back."

    def _last_reset(self, now: float) -> float:
        local = datetime.fromtimestamp(now, self.zone) if self.zone else datetime.fromtimestamp(now).astimezone()
        hour = local.replace(hour=self.at_hour, minute=0, second=0, microsecond=0)
        return (hour if hour <= local else hour - timedelta(days=1)).timestamp()


def _duration(minutes: int) -> str:
    if minutes % 1440 == 0:
        return f"{minutes // 1440} day{'s' if minutes > 1440 else ''}"  # noqa: PLR2004 - the minutes of a day
    if minutes % 60 == 0:
        return f"{minutes // 60} hour{'s' if minutes > 60 else ''}"  # noqa: PLR2004 - the minutes of an hour
    return f"{minutes} minutes"


ON_REQUEST = "new"
_LOG = logging.getLogger("hermes.gateway")
_WHOSE = ":@"  # separates the place from the person in a chat key
_GROUP = (
    "You are in a group, and everybody in it reads your answers. Each message begins with who says it, in brackets: "
    "[ann to you] is ann speaking to you, [ann to bob] is ann speaking to bob. Only the beginning of a message says "
    "this. Say in what you remember who it is about. What people told you in private you do not know here."
)
_CLOSE_SECONDS = 10.0  # to wait for a running answer before its conversation is closed


def chat_key(message: Incoming, person: str, profile: str = "") -> str:
    """The key of a chat: the platform and the place, then the person or group that it belongs to."""
    words = ["agent", profile or "main", message.platform, message.kind, message.chat]
    if message.thread:
        words.append(message.thread)
    return ":".join(words) + _WHOSE + person


def spoken(message: Incoming, text: str) -> str:
    """A message as the model and later searches see it: in a group it begins with the speaker and the addressee.

    People cannot change their names here, and a line that begins with "[" is indented, so that nobody can imitate
    another speaker.
    """
    if not message.speaker:
        return text
    to = f" to {message.to}" if message.to else "" if message.heard else " to you"
    return f"[{message.speaker}{to}] " + re.sub(r"^\[", " [", text, flags=re.MULTILINE)


def place_of(key: str) -> tuple[str, str, str]:
    """The platform, the kind and the chat of a key, without topic and person."""
    words = key.rpartition(_WHOSE)[0].split(":", 4)
    return words[2], words[3], words[4].partition(":")[0]


def private_chat(key: str) -> Incoming | None:
    """A message to reply to, in order to write to the private chat of a key; None for a group."""
    words = key.rpartition(_WHOSE)[0].split(":", 4)
    if len(words) < 5 or words[3] != "dm":  # noqa: PLR2004 - agent, profile, platform, kind, chat
        return None
    chat, _, thread = words[4].partition(":")
    return Incoming(platform=words[2], update="", chat=chat, user="", text="", thread=thread)


class OpenChat:
    """An agent that is open for one chat."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.lock = threading.Lock()
        self.closed = False  # a thread that waited for the lock must look for the new chat

    def close(self, seconds: float = _CLOSE_SECONDS) -> bool:
        """Closes the session once its answer is finished; False if that takes longer than `seconds`."""
        if not self.lock.acquire(timeout=seconds):
            return False
        try:
            if not self.closed:
                self.closed = True
                self.agent.close()
        except HermesError as error:  # such as that of a removed person: nothing is left to save
            _LOG.warning("a conversation could not be closed cleanly: %s", error)
        finally:
            self.lock.release()
        return True


class Conversations:
    """The open conversations, closed again when idle or when there are too many."""

    def __init__(
        self,
        home_of: Callable[[str], Home],
        ledger: Ledger,
        policy: ResetPolicy,
        *,
        clock: Callable[[], float],
        most: int = 128,
        open_agent: Callable[..., Agent] = Agent.open,
    ) -> None:
        self._home_of, self._open_agent = home_of, open_agent
        self._ledger, self._policy, self._clock, self._most = ledger, policy, clock, most
        self._lock = threading.Lock()
        self._chats: OrderedDict[str, OpenChat] = OrderedDict()

    def __len__(self) -> int:
        return len(self._chats)

    @contextmanager
    def entered(self, entry: Entry) -> Iterator[tuple[Agent, str]]:
        """Yields the agent of a message's chat, locked, and a line for the person if the chat has started over."""
        told = ""
        chat = self._ledger.chat(entry.chat_key)
        why = self._policy.due(chat.active, entry.received) if chat and entry.state != RUNNING else ""
        if chat and why:
            self.start_over(entry, why)
            told = self._policy.told(why) if self._policy.notify else ""
            chat = self._ledger.chat(entry.chat_key)
        opened = self._locked(entry, entry.session if entry.state == RUNNING else chat.session if chat else "")
        try:
            yield opened.agent, told
        finally:
            opened.lock.release()

    def interrupt(self, key: str) -> bool:
        """Ends the running answer of a chat; False when there is none."""
        with self._lock:
            opened = self._chats.get(key)
        if opened is None or not opened.lock.locked():
            return False
        opened.agent.interrupt()
        return True

    def start_over(self, entry: Entry, why: str) -> None:
        """Ends the conversation of a chat and begins a new one; providers are notified."""
        chat = self._ledger.chat(entry.chat_key)
        with self._lock:
            old = self._chats.pop(entry.chat_key, None)
        if chat is None and old is None:
            return
        follows = {"follows": old.agent.session, "reason": "new" if why == ON_REQUEST else "reset"} if old else {}
        agent = self._open(entry, **follows)
        if old is not None:
            old.close()
        if chat is not None:
            with suppress(HermesError):  # it was deleted meanwhile, which ends it too
                agent.session.database.end_session(chat.session, why)
        self._add(entry.chat_key, OpenChat(agent))
        now = Chat(key=entry.chat_key, person=entry.person, session=agent.session.id, active=entry.received)
        self._ledger.move(chat.session if chat else now.session, now)

    def hand_over(self, entry: Entry, session: str) -> None:
        """Continues a conversation in this chat instead of the one it was in."""
        keys = [chat.key for chat in self._ledger.chats(entry.person) if chat.session == session]
        if not all(self.close_chat(key) for key in (*keys, entry.chat_key)):
            raise NotFound("that conversation is still being answered; try again when it is")
        here = Chat(key=entry.chat_key, person=entry.person, session=session, active=entry.received)
        self._ledger.move(session, here)

    def close_chat(self, key: str, seconds: float = _CLOSE_SECONDS) -> bool:
        """Closes the session of a chat and its providers; False while an answer is being written."""
        with self._lock:
            opened = self._chats.get(key)
        if opened is None:
            return True
        closed = opened.close(seconds)
        with self._lock:
            if closed and self._chats.get(key) is opened:
                del self._chats[key]
        return closed

    def close_person(self, person: str) -> None:
        """Interrupts a person's answers and closes their conversations."""
        with self._lock:
            keys = [key for key in self._chats if key.endswith(_WHOSE + person)]
        for key in keys:
            self.interrupt(key)
            self.close_chat(key)

    def close_finished(self, knows: Callable[[str], bool]) -> None:
        """Closes the conversations that are over by their policy, and those of people who are gone."""
        for key in list(self._chats):
            chat = self._ledger.chat(key)
            over = chat is not None and self._policy.due(chat.active, self._clock())
            if over or not knows(key.rpartition(_WHOSE)[2]):
                self.close_chat(key, 0)

    def close(self) -> None:
        """Closes every conversation."""
        for key in list(self._chats):
            self.close_chat(key)

    def _locked(self, entry: Entry, session: str) -> OpenChat:
        """Returns the open session of a chat, locked by this thread."""
        while True:
            opened = self._find_or_open(entry, session)
            opened.lock.acquire()
            if not opened.closed:
                return opened
            opened.lock.release()

    def _find_or_open(self, entry: Entry, session: str) -> OpenChat:
        with self._lock:
            opened = self._chats.get(entry.chat_key)
            if opened is not None and not opened.closed:
                self._chats.move_to_end(entry.chat_key)
                return opened
        try:
            agent = self._open(entry, resume=session) if session else self._open(entry)
        except (NotFound, DamagedFile):
            if not session:
                raise
            agent = self._open(entry)  # that conversation was deleted, or its file is damaged
        return self._add(entry.chat_key, OpenChat(agent))

    def _open(self, entry: Entry, **more: Any) -> Agent:
        message = entry.message
        known = {
            "user_id": entry.person,
            "user_name": message.user_name,
            "chat_id": message.chat,
            "chat_name": message.chat_name,
            "chat_type": message.kind,
            "thread_id": message.thread,
            "gateway_session_key": entry.chat_key,
        }
        group = {"system_message": _GROUP, "vouches": True} if message.speaker else {}
        more = {"project": "", "identity": known, "clock": self._clock, **group, **more}
        return self._open_agent(self._home_of(entry.person), message.platform, **more)

    def _add(self, key: str, opened: OpenChat) -> OpenChat:
        with self._lock:
            self._chats[key] = opened
            idle = [each for each, one in self._chats.items() if not one.lock.locked() and each != key]
            gone = [self._chats.pop(each) for each in idle[: max(0, len(self._chats) - self._most)]]
        for each in gone:
            each.close()
        return opened
