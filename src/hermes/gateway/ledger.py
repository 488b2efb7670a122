"""The gateway's durable state: received messages, answers to send, each chat's conversation, and whose accounts are.

A message is `new` when it is stored, `running` when a turn for it may have begun, `answered` when its answer is stored,
and `done` when the answer is delivered; its text is erased then. Each step is one durable transaction, so that a
process that dies at any point is followed by one that continues from there. The tables are those of
`storage/engines.open_ledger`: a file, or rows of the operator's home in PostgreSQL.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from hermes.base.errors import NotFound, SettingsError
from hermes.gateway.platforms.base import Incoming
from hermes.safety.fence import without_private
from hermes.settings.config import storage_address, whose
from hermes.settings.people import OWNER
from hermes.storage.engines import copy_ledger, open_ledger
from hermes.storage.local.database import Database

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hermes.gateway.platforms.base import Buttons
    from hermes.settings.config import Settings
    from hermes.settings.home import Home
    from hermes.settings.people import People
    from hermes.storage.conversations import EngineDatabase

FOLDER = "gateway"
FILE = "gateway.db"
NEW, RUNNING, ANSWERED, DONE = "new", "running", "answered", "done"
KEPT_SECONDS = 14 * 86_400  # for which the number of a finished message is kept, so that it is not accepted twice

_FIELDS = "id, lane, person, message, state, session, before, draft, attempts, received"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One message in the ledger; its turn began in `session`, after the message with the id `before`."""

    id: int
    chat_key: str
    person: str
    message: Incoming
    state: str
    session: str
    before: int
    draft: str
    attempts: int
    received: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A piece of an answer; `sent` is the platform's id of the message that it is written into."""

    number: int
    text: str
    sent: str
    buttons: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """One chat of a platform and the session it continues."""

    key: str
    person: str
    session: str
    active: float


class Ledger:
    """Every received message, from its arrival until its answer is delivered."""

    def __init__(self, database: EngineDatabase, check: Callable[[], None] = lambda: None) -> None:
        self.database = database
        self._check = check
        self._private: dict[int, str] = {}  # texts with private parts, which are never stored

    @classmethod
    def open(cls, home: Home, *, check: Callable[[], None] = lambda: None) -> Ledger:
        """Opens the ledger of a home; `check` is called before each write and raises if another gateway answers now."""
        path, address = home.join(FOLDER, FILE), storage_address(home)
        database = open_ledger(path, address, whose(home))
        if address and os.path.exists(path):  # from before `storage.url` was set
            with closing(open_ledger(path, "", "")) as file:
                copy_ledger(file, database)
            os.rename(path, f"{path}.moved")
        return cls(database, check)

    def close(self) -> None:
        """Closes the database, without a log that could hold erased text."""
        self._truncate_log()
        self.database.close()

    def _run(self, sql: str, values: Sequence[Any]) -> None:
        self._check()
        self.database.run(sql, values)

    @contextmanager
    def writing(self) -> Iterator[EngineDatabase]:
        """One durable transaction."""
        self._check()
        with self.database.writing():
            yield self.database

    # --- coming in ---------------------------------------------------------------------------------------------------

    def store(
        self, messages: Sequence[tuple[str, str, Incoming]], now: float, *, platform: str = "", cursor: str = ""
    ) -> list[Entry]:
        """Stores messages, with their chats and people, and the platform's cursor; returns those that are new."""
        stored: list[Any] = []
        with self.writing() as database:
            for key, person, message in messages:
                made = database.rows(
                    "INSERT INTO inbox (platform, number, lane, person, message, state, received) "
                    "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING id",
                    (message.platform, message.update, key, person, _written(message), NEW, now),
                )
                stored += [row[0] for row in made]
                if made and message.text != without_private(message.text):
                    self._private[stored[-1]] = message.text
            if cursor:
                database.run("DELETE FROM cursors WHERE platform = ?", (platform,))
                database.run("INSERT INTO cursors (platform, value) VALUES (?, ?)", (platform, cursor))
        found = [self.entry(number) for number in stored]
        return [entry for entry in found if entry is not None]

    def cursor(self, platform: str) -> str:
        """How far a platform was read; empty if it never was."""
        row = self.database.row("SELECT value FROM cursors WHERE platform = ?", (platform,))
        return str(row[0]) if row else ""

    def entry(self, number: int) -> Entry | None:
        """A message; None when everything of its person was erased meanwhile."""
        row = self.database.row(f"SELECT {_FIELDS} FROM inbox WHERE id = ?", (number,))  # noqa: S608 - our own names
        return _entry(row) if row else None

    def words(self, entry: Entry) -> str:
        """What the person wrote; after a restart, private parts are placeholders."""
        return self._private.get(entry.id, entry.message.text)

    def open_entries(self) -> list[Entry]:
        """Every message that is not done, in the order of arrival."""
        rows = self.database.rows(f"SELECT {_FIELDS} FROM inbox WHERE state <> 'done' ORDER BY id")  # noqa: S608 - our own names
        return [_entry(row) for row in rows]

    # --- answering ---------------------------------------------------------------------------------------------------

    def begin(self, entry: Entry, session: str, before: int) -> None:
        """Notes that a turn begins, in which session and after which message, so that a crash can be detected."""
        with self.writing() as database:
            database.run(
                "UPDATE inbox SET state = ?, session = ?, before = ? WHERE id = ?", (RUNNING, session, before, entry.id)
            )
            self._put_chat(Chat(key=entry.chat_key, person=entry.person, session=session, active=entry.received))

    def attempted(self, number: int) -> None:
        """Counts an attempt before it is made, so that a message that kills the process is not tried forever."""
        self._run("UPDATE inbox SET attempts = attempts + 1 WHERE id = ?", (number,))

    def drafted(self, number: int, sent: str) -> None:
        """Notes the platform's id of the draft that will become the answer."""
        self._run("UPDATE inbox SET draft = ? WHERE id = ?", (sent, number))

    def answered(
        self,
        number: int,
        pieces: Sequence[str],
        outcome: str,
        *,
        session: str = "",
        questions: Sequence[tuple[str, Buttons]] = (),
    ) -> None:
        """Stores the answer, after which the model is not asked again; `questions` follow it, with buttons."""
        with self.writing() as database:
            kept = database.row("SELECT draft, lane FROM inbox WHERE id = ?", (number,))
            if kept is None:  # everything of the person was erased while their message was answered
                return
            draft, key = kept
            database.run("DELETE FROM outbox WHERE message = ?", (number,))
            for place, (text, buttons) in enumerate([*((piece, ()) for piece in pieces), *questions]):
                database.run(
                    "INSERT INTO outbox (message, piece, text, sent, buttons) VALUES (?, ?, ?, ?, ?)",
                    (number, place, text.replace("\0", ""), "" if place else draft, json.dumps(buttons)),
                )
            database.run("UPDATE inbox SET state = ?, outcome = ? WHERE id = ?", (ANSWERED, outcome, number))
            if session:  # a compaction may have continued the conversation in another session
                database.run("UPDATE chats SET session = ? WHERE lane = ?", (session, key))

    def pieces(self, number: int) -> list[Piece]:
        """The pieces still to be delivered, in order."""
        found = "SELECT piece, text, sent, buttons FROM outbox WHERE message = ? ORDER BY piece"
        return [
            Piece(number=piece, text=text, sent=sent, buttons=tuple((each[0], each[1]) for each in json.loads(buttons)))
            for piece, text, sent, buttons in self.database.rows(found, (number,))
        ]

    def sent(self, number: int, piece: int, sent: str) -> None:
        """Notes which message of the platform a piece will be written into, before it is."""
        self._run("UPDATE outbox SET sent = ? WHERE message = ? AND piece = ?", (sent, number, piece))

    def delivered(self, number: int, piece: int) -> None:
        """Removes a piece that the person now has."""
        self._run("DELETE FROM outbox WHERE message = ? AND piece = ?", (number, piece))

    def done(self, entry: Entry, now: float, outcome: str = "") -> None:
        """Erases a message once its answer is delivered; its number is kept, so that it is not accepted twice."""
        self._private.pop(entry.id, None)
        with self.writing() as database:
            database.run("DELETE FROM outbox WHERE message = ?", (entry.id,))
            database.run(
                "UPDATE inbox SET state = ?, message = '{}', outcome = coalesce(nullif(?, ''), outcome) WHERE id = ?",
                (DONE, outcome, entry.id),
            )
            database.run("DELETE FROM inbox WHERE state = 'done' AND received < ?", (now - KEPT_SECONDS,))

    # --- questions ---------------------------------------------------------------------------------------------------

    def unasked(self, person: str, place: str, pending: Sequence[str]) -> list[str]:
        """The pending writes that the person was not yet asked about in this kind of place (dm, group)."""
        rows = self.database.rows("SELECT pending FROM asked WHERE person = ? AND place = ?", (person, place))
        known = {row[0] for row in rows}
        return [each for each in pending if each not in known]

    def was_asked(self, person: str, pending: str) -> bool:
        """Whether the person was asked about a pending write, in any place."""
        return bool(self.database.row("SELECT 1 FROM asked WHERE person = ? AND pending = ?", (person, pending)))

    def ask(self, person: str, place: str, pending: Sequence[str]) -> None:
        """Notes that the person was asked about these pending writes."""
        with self.writing() as database:
            for each in pending:
                asked = "INSERT INTO asked (person, pending, place) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
                database.run(asked, (person, each, place))

    # --- chats -------------------------------------------------------------------------------------------------------

    def chat(self, key: str) -> Chat | None:
        """The chat with this key; None if nobody has had a turn there."""
        return next(iter(self._chats("lane = ?", key)), None)

    def chats(self, person: str = "") -> list[Chat]:
        """All chats with their sessions, the most recent first."""
        return self._chats("? IN ('', person)", person)

    def _chats(self, condition: str, wanted: str) -> list[Chat]:
        found = f"SELECT lane, person, session, active FROM chats WHERE {condition} ORDER BY active DESC"  # noqa: S608 - our own
        return [
            Chat(key=row[0], person=row[1], session=row[2], active=row[3])
            for row in self.database.rows(found, (wanted,))
        ]

    def move(self, session: str, chat: Chat) -> None:
        """Continues a conversation in another chat, and only there."""
        with self.writing() as database:
            database.run("DELETE FROM chats WHERE session = ?", (session,))
            self._put_chat(chat)

    def _put_chat(self, chat: Chat) -> None:
        self.database.run("DELETE FROM chats WHERE lane = ?", (chat.key,))
        made = "INSERT INTO chats (lane, person, session, active) VALUES (?, ?, ?, ?)"
        self.database.run(made, (chat.key, chat.person, chat.session, chat.active))

    # --- people ------------------------------------------------------------------------------------------------------

    def forget(self, person: str, *, keep: int = 0) -> None:
        """Erases everything about a person; message `keep` loses its link to them, and is still answered."""
        with self.writing() as database:
            for table in ("chats", "links", "codes", "asked"):
                database.run(f"DELETE FROM {table} WHERE person = ?", (person,))  # noqa: S608 - our own names
            database.run(
                "DELETE FROM outbox WHERE message IN (SELECT id FROM inbox WHERE person = ? AND id <> ?)",
                (person, keep),
            )
            database.run("DELETE FROM inbox WHERE person = ? AND id <> ?", (person, keep))
            database.run("UPDATE inbox SET person = '', lane = '', session = '' WHERE id = ?", (keep,))
        self._private = {number: text for number, text in self._private.items() if self.entry(number)}
        self._truncate_log()

    def counts(self) -> dict[str, int]:
        """How many messages are in each state."""
        rows = self.database.rows("SELECT state, count(*) FROM inbox GROUP BY state")
        return {NEW: 0, RUNNING: 0, ANSWERED: 0, DONE: 0} | {str(row[0]): int(row[1]) for row in rows}

    def _truncate_log(self) -> None:
        if isinstance(self.database, Database):
            with self.database.lock, self.database.translated():
                self.database.connection.wal_checkpoint(None, 3)  # 3 is SQLITE_CHECKPOINT_TRUNCATE: no old pages


def has_ledger(home: Home) -> bool:
    """Whether a gateway may have run here; creates no file."""
    return bool(storage_address(home)) or os.path.exists(home.join(FOLDER, FILE))


def forget_person(home: Home, person: str) -> None:
    """Erases what a home's gateway stored about a person, if there ever was a gateway."""
    if has_ledger(home):
        ledger = Ledger.open(home)
        ledger.forget(person)
        ledger.database.close()


def _written(message: Incoming) -> str:
    return json.dumps(asdict(message) | {"text": without_private(message.text)}, ensure_ascii=False)


def _entry(row: Any) -> Entry:
    found = dict(zip(("id", "chat_key", *_FIELDS.split(", ")[2:]), row, strict=True))
    empty = {"platform": "", "update": "", "chat": "", "user": "", "text": ""}
    return Entry(**{**found, "message": Incoming(**{**empty, **json.loads(found["message"])})})


# --- whose account is whose -------------------------------------------------------------------------------------------

PAIR, HAND_OVER, FORGET = "pair", "hand over", "forget"
SECONDS = {PAIR: 3600.0, HAND_OVER: 900.0, FORGET: 600.0}  # for which a code is valid
_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"  # no two that look alike, such as l and 1
_LENGTH = 12  # 59 bits


class Directory:
    """Maps accounts on chat platforms to people, and keeps the codes that pair them.

    An account is known when the settings list it (`gateway.people`) or when its owner has sent a pairing code. Codes
    are random, valid once and for a short time, and stored only as digests.
    """

    def __init__(self, people: People, settings: Settings, ledger: Ledger, clock: Callable[[], float]) -> None:
        self.people = people
        self._listed = listed_accounts(settings)
        self._ledger = ledger
        self._clock = clock

    def person(self, platform: str, user: str) -> str:
        """The person an account belongs to, or "" for a stranger, such as a person who was removed."""
        name = self._listed.get((platform, user)) or self._linked(platform, user)
        return name if name and self.knows(name) else ""

    def group(self, message: Incoming) -> str:
        """The name of a group, which has a home of its own, like a person; its first message creates it."""
        digest = hashlib.sha256(message.chat.encode()).hexdigest()[:10]
        name = f"group-{message.platform}-{digest}"
        if not self.knows(name):
            self.people.add(name, note=message.chat_name or f"a group on {message.platform}")
        return name

    def knows(self, name: str) -> bool:
        """Whether there is a person or a group of this name."""
        try:
            self.people.home_of(name)
        except NotFound:
            return False
        return True

    def accounts(self) -> list[dict[str, str]]:
        """All known accounts with their people, and whether the settings or a pairing code made them known."""
        rows = self._ledger.database.rows('SELECT platform, "user", person FROM links ORDER BY 3, 1, 2')
        linked = [{"platform": row[0], "account": row[1], "person": row[2], "by": "pairing"} for row in rows]
        listed = [
            {"platform": platform, "account": user, "person": person, "by": "settings"}
            for (platform, user), person in sorted(self._listed.items())
        ]
        return listed + linked

    def link(self, platform: str, user: str, person: str) -> None:
        """Assigns an account to a person, and takes it from anyone who had it before."""
        self.people.home_of(person)
        with self._ledger.writing() as database:
            database.run('DELETE FROM links WHERE platform = ? AND "user" = ?', (platform, user))
            values = (platform, user, person, self._clock())
            database.run('INSERT INTO links (platform, "user", person, made) VALUES (?, ?, ?, ?)', values)

    def unlink(self, platform: str, user: str) -> None:
        """Removes a paired account; raises NotFound if it was not paired."""
        with self._ledger.writing() as database:
            gone = database.rows(
                'DELETE FROM links WHERE platform = ? AND "user" = ? RETURNING person', (platform, user)
            )
        if not gone:
            raise NotFound(
                f"{platform} account {user[:100]!r} is not paired; `hermes gateway people` lists paired accounts"
            )

    def pair(self, code: str, platform: str, user: str) -> str:
        """Assigns the account to the code's person and returns their name; "" if the code is wrong or has expired."""
        person, _ = self.redeem(PAIR, code) or ("", "")
        if person and self.knows(person):
            self.link(platform, user, person)
            return person
        return ""

    # --- codes -------------------------------------------------------------------------------------------------------

    def make_code(self, kind: str, person: str, about: str = "") -> str:
        """Makes a code for a person; an earlier one of the same kind no longer works."""
        code = "".join(secrets.choice(_LETTERS) for _ in range(_LENGTH))
        now = self._clock()
        with self._ledger.writing() as database:
            database.run("DELETE FROM codes WHERE expires < ? OR (kind = ? AND person = ?)", (now, kind, person))
            values = (_digest(kind, code), kind, person, about, now + SECONDS[kind])
            database.run("INSERT INTO codes (digest, kind, person, about, expires) VALUES (?, ?, ?, ?, ?)", values)
        return code

    def check(self, kind: str, code: str, *, at: float | None = None) -> tuple[str, str] | None:
        """The person and the subject of a code that is valid now, or was when it arrived (`at`)."""
        moment = self._clock() if at is None else at
        row = self._ledger.database.row(
            "SELECT person, about FROM codes WHERE digest = ? AND expires >= ?", (_digest(kind, code), moment)
        )
        return (str(row[0]), str(row[1])) if row else None

    def redeem(self, kind: str, code: str) -> tuple[str, str] | None:
        """Like `check`, and makes the code invalid."""
        found = self.check(kind, code)
        if found:
            with self._ledger.writing() as database:
                database.run("DELETE FROM codes WHERE digest = ?", (_digest(kind, code),))
        return found

    def _linked(self, platform: str, user: str) -> str:
        row = self._ledger.database.row('SELECT person FROM links WHERE platform = ? AND "user" = ?', (platform, user))
        return str(row[0]) if row else ""


def listed_accounts(settings: Settings) -> dict[tuple[str, str], str]:
    """The accounts that the settings list: `gateway.people: {telegram: {"12345": ann}}`."""
    found: dict[tuple[str, str], str] = {}
    platforms: Mapping[str, Mapping[str, str]] = settings.get("gateway.people") or {}
    for platform, accounts in platforms.items():
        if not hasattr(accounts, "items"):
            raise SettingsError(
                f'gateway.people.{platform}: expected accounts and whose they are, such as {{"12345": {OWNER}}}'
            )
        found |= {(str(platform), str(user)): str(person) for user, person in accounts.items()}
    return found


def _digest(kind: str, code: str) -> str:
    return hashlib.sha256(f"{kind}:{code.strip().lower()}".encode()).hexdigest()
