"""Reminders: what the person wants to hear again, at a time or when a topic comes up; found in what they say.

"Remind me on Friday to call Ada", "when we next talk about billing, remind me of the refund". Each comes up once: a
running gateway sends it, otherwise the next turn after it is due brings it. Times are those of the person's wall clock
(the setting `timezone`). No model is asked. English only.
"""

from __future__ import annotations

import re
import time
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from hermes.base.dates import ahead
from hermes.base.errors import NotFound, SettingsError, WriteRefused
from hermes.base.values import value
from hermes.memory.entries import Cause
from hermes.memory.rules import Fired
from hermes.memory.triggers import speech, tables
from hermes.safety.trust import decide, own_sentences
from hermes.settings.config import documents_of
from hermes.storage.documents import Document, new_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hermes.memory.approval import Approvals
    from hermes.safety.trust import TurnContext
    from hermes.settings.home import Home

FILE = "reminders.json"
WAITING, FIRED, DONE = "waiting", "fired", "done"
_MOST = 500
_LONGEST = 400
# The clock time stays the same at each repetition, because due times are wall-clock times without a zone.
_REPEATS = {"daily": timedelta(days=1), "weekly": timedelta(weeks=1)}


@value
class Wanted:
    """A reminder as worded: `due` is a time of the wall clock, `words` are a topic, `repeat` is daily or weekly."""

    text: str
    due: str = ""
    words: tuple[str, ...] = ()
    repeat: str = ""
    sentence: str = ""


@value
class Reminder:
    """Something to bring up at a time or topic."""

    id: str
    text: str
    due: str = ""
    words: tuple[str, ...] = ()
    repeat: str = ""
    state: str = WAITING
    created_at: float = 0.0
    fired_at: float = 0.0
    session: str = ""

    @property
    def when(self) -> str:
        """Says when the reminder comes up, for lists: a time, a repetition or a topic."""
        if self.words:
            return f"when {', '.join(self.words)} comes up"
        return f"{self.repeat} {self.due.replace('T', ' ')}".strip()

    def is_due(self, now: datetime, topics: set[str]) -> bool:
        """Whether its time has come or one of its topics is among `topics`."""
        if self.due and datetime.fromisoformat(self.due) <= now:
            return True
        return any(tables().topics(word) <= topics for word in self.words)

    def as_dict(self) -> dict[str, Any]:
        """The reminder as JSON for the command line and the HTTP API."""
        return {**vars(self), "words": list(self.words), "when": self.when}


def wanted_in(message: str, now: datetime) -> Iterator[Wanted]:
    """The reminders that the person's message asks for."""
    for sentence in own_sentences(message.replace("\u2019", "'")):
        if "\0" in sentence or len(sentence) > _LONGEST or not speech("asks-reminder").search(sentence):
            continue
        wanted = None if speech("no-reminder").search(sentence) else read_reminder(sentence, now)
        if wanted is not None:
            yield wanted


def read_reminder(sentence: str, now: datetime) -> Wanted | None:
    """What a sentence wants to be reminded of, and when; None when it names neither a time nor a topic."""
    topic, rest, words = speech("topic").search(sentence), sentence, tuple[str, ...]()
    if topic is not None:
        named = re.findall(r"[^\W_][\w'-]+", (topic["subject"] or topic["topic"] or "").lower())
        words = tuple(each for each in named if tables().glue.isdisjoint(tables().stems(each)))
        rest = f"{rest[: topic.start()]} {rest[topic.end() :]}" if words else rest
    moment = None if words else ahead(rest, now)
    if moment is None and not words:
        return None
    text = _what(moment.rest if moment is not None else rest) or sentence
    due, repeat = (moment.at.isoformat(timespec="minutes"), moment.repeat) if moment is not None else ("", "")
    return Wanted(text=text, due=due, words=words, repeat=repeat, sentence=sentence)


def _what(rest: str) -> str:
    """Returns what to be reminded of: the text after the request, else the text before it."""
    before, _, after = speech("asks-reminder").sub("\0", rest, count=1).rpartition("\0")
    parts = (" ".join(part.split()).strip(" ,.;!?") for part in (after, before))
    return next((told for part in parts if (told := speech("reminds-of").sub("", part))), "")


class Reminders:
    """`reminders.json` of a person's home."""

    def __init__(self, home: Home) -> None:
        self._document = Document(documents_of(home), FILE)

    def all(self) -> list[Reminder]:
        """Every reminder, oldest first; what cannot be understood in a file edited by hand is left out."""
        found = []
        for record in self._document.read().get("reminders", ()):
            try:
                found.append(_of(record))
            except (KeyError, TypeError, ValueError, AttributeError):
                continue
        return found

    def add(self, wanted: Wanted, *, session: str = "") -> Reminder:
        """Stores a reminder, or returns the waiting one that says the same."""
        text = " ".join(wanted.text.split())
        if not text or len(text) > _LONGEST:
            raise WriteRefused(f"a reminder has 1 to {_LONGEST} characters; this one has {len(text)}", kind="length")
        about: dict[str, Any] = {"text": text, "due": wanted.due, "words": wanted.words, "repeat": wanted.repeat}
        made = Reminder(id=f"m{new_id()[:4]}", **about, created_at=time.time(), session=session)

        def apply(held: dict[str, Any]) -> Reminder:
            waiting = [each for each in held.get("reminders", ()) if each.get("state", WAITING) == WAITING]
            for record in waiting:
                if vars(_of(record)).items() >= about.items():
                    return _of(record)
            if len(waiting) >= _MOST:
                raise WriteRefused(f"{_MOST} reminders wait already; `hermes reminders done ID` ends one", kind="full")
            if len(held.get("reminders", ())) >= _MOST:  # finished reminders make room
                held["reminders"] = waiting
            held.setdefault("reminders", []).append(_record(made))
            return made

        return self._document.change(apply)

    def change(self, reminder_id: str, **fields: Any) -> Reminder:
        """Sets fields of a reminder, such as `state` and `due`."""

        def apply(held: dict[str, Any]) -> Reminder:
            for at, record in enumerate(held.get("reminders", ())):
                if record.get("id") == reminder_id:
                    changed = Reminder(**(vars(_of(record)) | fields))
                    held["reminders"][at] = _record(changed)
                    return changed
            raise NotFound(f"there is no reminder {reminder_id!r}; `hermes reminders list --all` shows them")

        return self._document.change(apply)

    def due(self, now: datetime, said: str = "") -> list[Reminder]:
        """Returns the waiting reminders whose time has come or whose topic the person mentions."""
        waiting = [each for each in self.all() if each.state == WAITING]
        topics = tables().topics(said) if said and any(each.words for each in waiting) else set()
        return [each for each in waiting if each.is_due(now, topics)]

    def fired(self, now: datetime, said: str = "") -> list[Fired]:
        """Returns the reminders that are `due`, as receipts record them."""
        due = self.due(now, said)
        return [Fired(kind="reminder", name=each.id, text=each.text, trigger=each.when) for each in due]

    def fire(self, ids: Sequence[str], now: datetime) -> None:
        """Notes that they came up; one that repeats waits for its next time."""
        for each in self.all():
            if each.id not in ids:
                continue
            if each.repeat in _REPEATS:
                due, step = datetime.fromisoformat(each.due), _REPEATS[each.repeat]
                due += step * (max(0, (now - due) // step) + 1)
                self.change(each.id, due=due.isoformat(timespec="minutes"), fired_at=time.time())
            else:
                self.change(each.id, state=FIRED, fired_at=time.time())

    def hear(self, said: str, now: datetime, turn: TurnContext, approvals: Callable[[], Approvals]) -> list[str]:
        """Stores the reminders a message asks for, with a notice each; stages those that may not be the person's."""
        told = []
        for wanted in wanted_in(said, now):
            decision = decide("reminders", turn, writes=[wanted.sentence])
            if decision.allowed:
                kept = self.add(wanted, session=turn.session)
                told.append(f"reminder {kept.id} set, {kept.when}: {kept.text}")
            else:
                cause = Cause(origin=decision.origin or "unknown", session=turn.session)
                operation = {"action": "add", "content": wanted.sentence}
                approvals().stage("reminders", [operation], cause, decision.reason, sources=decision.evidence())
        return told


def understood(sentence: str, now: datetime) -> Wanted:
    """The reminder that a sentence asks for; an error that shows how to word one when it names no time or topic."""
    wanted = read_reminder(sentence, now)
    if wanted is None:
        raise SettingsError(
            f"{sentence[:80]!r} names no time and no topic; write it like `tomorrow at 9 call Ada` or "
            "`when we next talk about billing, ask for the refund`"
        )
    return wanted


def moment_meant(text: str, now: datetime) -> Wanted:
    """The time, and perhaps its repetition, that a person typed; a clock time alone, such as "9:30" or "14", is one."""
    alone = text[:1].isdigit() and "-" not in text and len(text.split()) == 1
    wanted = read_reminder(f"at {text}" if alone else re.sub(r"(?<=\d)T(?=\d)", " at ", text), now)
    if wanted is None or not wanted.due:
        raise SettingsError(f"{text[:80]!r} is not a time; write it like `tomorrow at 9` or `in 2 hours`")
    return wanted


def _record(reminder: Reminder) -> dict[str, Any]:
    return {key: list(each) if key == "words" else each for key, each in vars(reminder).items() if each}


def _of(record: Mapping[str, Any]) -> Reminder:
    due = datetime.fromisoformat(str(record["due"])).replace(tzinfo=None) if record.get("due") else None
    texts: dict[str, Any] = {key: str(record.get(key, "")) for key in ("repeat", "session")}
    return Reminder(
        id=str(record["id"]),
        text=str(record["text"]),
        due=due.isoformat(timespec="minutes") if due is not None else "",
        words=tuple(map(str, record.get("words", ()))),
        state=str(record.get("state", WAITING)),
        created_at=float(record.get("created_at") or 0),
        fired_at=float(record.get("fired_at") or 0),
        **texts,
    )
