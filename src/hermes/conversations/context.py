"""Reads the context of a conversation, replaces part of it in one transaction, and finds the original messages."""

from __future__ import annotations

import json
import os
import socket
import time
from itertools import dropwhile
from typing import TYPE_CHECKING, Any

from hermes.base.errors import LockTimeout, StorageError
from hermes.base.values import value
from hermes.conversations.database import Pages
from hermes.storage.files import is_running
from hermes.storage.ports import Summary
from hermes.storage.records import BLOCK, BLOCK_BITS, COMPACTED, runs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hermes.conversations.database import SessionDB
    from hermes.storage.records import Session, StoredMessage

# Keys that Hermes adds to stored messages:
WRITTEN = "compaction"  # on every row that a compaction wrote
COPY = "copy_of"  # on a copy in another session: the id of the original
RECEIPT = "receipt"  # on an answer: the sealed record of what it was made from; copies do not carry it


class Transcript:
    """Every message of a conversation in order, across compactions and branches."""

    def __init__(self, db: SessionDB) -> None:
        self._db = db
        self._pages = Pages.of_db(db)

    def chain(self, session: Session) -> list[Session]:
        """The sessions of the conversation since it began or branched off, oldest first."""
        kinds = (None, "compression", "branch")
        return [each for each in self._db.lineage(session.id) if each.kind in kinds and each.key <= session.key]

    def of(self, session_id: str) -> Iterator[StoredMessage]:
        """The whole conversation up to this session, including what preceded a branch."""
        chain = self.chain(self._db.get_session(session_id))
        yield from self._inherited(chain[0])
        for session in chain:
            for each in self._pages.messages(session):
                if _was_said(each) and COPY not in each.message:
                    yield each

    def rows_from(self, session_id: str, begin: StoredMessage) -> dict[str, list[int]]:
        """The ids, by session, of the given message and all later ones, including compacted rows and copies."""
        wanted = first_id(begin)
        later = dropwhile(lambda each: first_id(each) != wanted, self.of(session_id))
        numbers = {first_id(each) for each in later}
        chain = self.chain(self._db.get_session(session_id))
        return {
            session.id: [
                each.id for each in self._pages.messages(session) if _was_said(each) and first_id(each) in numbers
            ]
            for session in chain
        }

    def _inherited(self, branch: Session) -> list[StoredMessage]:
        """What a branch began with: its own copies, and the originals that a block among them replaced."""
        copies = [each for each in self._db.messages(branch.id, rewound=True) if COPY in each.message]
        own = [each for each in copies if _was_said(each) and not each.rewound]
        parent = self._pages.parent_id(branch) if copies else None
        if parent is None:
            return own
        before = self.chain(self._db.get_session(parent))
        known = {each.id: first_id(each) for one in before for each in self._db.messages(one.id, rewound=True)}
        numbers = {each.id: known.get(each.message[COPY], first_id(each)) for each in copies}
        # A message that was taken back in the branch is left out, with everything that followed it in the parent.
        end = min((numbers[each.id] for each in copies if each.rewound), default=max(numbers.values()))
        taken = set(numbers.values())
        left = [(first_id(each), each) for each in self.of(parent) if first_id(each) < end]
        left = [(number, each) for number, each in left if number not in taken]
        return [
            each for _, each in sorted([*left, *((numbers[each.id], each) for each in own)], key=lambda one: one[0])
        ]


def first_id(stored: StoredMessage) -> int:
    """The id of the original of a message, whichever session this copy is in."""
    return int(stored.message.get(COPY, stored.id))


def _was_said(stored: StoredMessage) -> bool:
    return not stored.damaged and WRITTEN not in stored.message


# How a context is stored, and how one transaction replaces a part of it.
#
# A compaction in place marks the old rows, which stay, and appends the rows that replace them; the newest of these
# contains the order in which the context is read. A compaction that splits puts the new context into a child session
# and ends the old one. In both cases, a killed process leaves the file as it was before or as it is after.

ORDER = "context_order"  # on the newest row a compaction wrote: places, in the order in which the context is read
REPLACED_PROMPT = "replaced_prompt"  # on the first row it wrote: the prompt until then, if it changed in place
LEASE_SECONDS = 300.0  # a compaction waits for a model, so it cannot hold the write lock; it holds this lease instead
_LEASE = "compacting"
_SPANS = 64  # blocks of messages looked up at once


@value
class NewContext:
    """The context after a compaction: for each message the id of the row that stays, or None if it must be written."""

    messages: Sequence[Mapping[str, Any]]
    ids: Sequence[int | None]
    archive: Sequence[int]  # rows that leave it
    last_id: int  # the newest row that the compaction has read; if there is a newer one, nothing is replaced
    system_prompt: str | None = None  # None: it does not change
    meta: Mapping[str, str] = {}  # further values of the session, stored in the same transaction


class Contexts:
    """Reads and replaces the contexts of sessions, and finds the original messages behind a summary."""

    def __init__(self, db: SessionDB) -> None:
        self._db = db
        self._store = db.store
        self._pages = Pages.of_db(db)
        self._originals = Transcript(db)

    # --- reading -----------------------------------------------------------------------------------------------------

    def live(self, session_id: str) -> list[StoredMessage]:
        """The messages of the context, in the order in which the model reads them."""
        stored = self._db.messages(session_id, rewound=True)
        whole = [each for each in stored if not (each.compacted or each.damaged)]
        live = [each for each in whole if not each.rewound]
        # The order still holds if the row that contains it was taken back, so rewound rows are searched for it, too.
        order = next((each.message[ORDER] for each in reversed(whole) if ORDER in each.message), None)
        if order is None:
            return live
        by_place = {each.place: each for each in live}
        places = [place for first, last in order for place in range(first, last + 1)]
        arranged = [by_place.pop(place) for place in places if place in by_place]
        return arranged + list(by_place.values())

    def originals(self, session_id: str) -> Iterator[StoredMessage]:
        """The whole conversation up to this session as it was said, without what compactions wrote."""
        return self._originals.of(session_id)

    def was_compacted(self, session_id: str) -> bool:
        """Whether a compaction removed anything from the context, in this session or an earlier one of its chain."""
        first, *later = self._originals.chain(self._db.get_session(session_id))
        return bool(later) or any(each.compacted or WRITTEN in each.message for each in self._pages.messages(first))

    def read(self, session_id: str, ids: Sequence[int]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Reads messages from the first to the last of the ids, in the conversation and those it branched from; lazily.

        Messages that the person keeps from recall are left out. With "" as session, all conversations are read.
        """
        if not ids:
            return
        low, high = max(ids[0], 0), min(ids[-1], (1 << 62) - 1)
        keys = {session.key for session in self._family(session_id)} if session_id else None
        hidden = self._db.never_recalled()
        start = low
        while found := self._store.spans(start, high, _SPANS):
            holders = self._store.by_keys([key for _, _, key in found])
            for first, last, key in found:
                if key in holders and (keys is None or key in keys):
                    for message in self._pages.between(holders[key], max(low, first), min(high, last)):
                        if message.id not in hidden:
                            yield message.id, message.message
            start = found[-1][1] + 1

    # --- compacting --------------------------------------------------------------------------------------------------

    def replace(self, session_id: str, new: NewContext) -> list[int]:
        """Compacts in place; returns the ids of the new context, including the written rows."""
        written = [dict(message) for message, number in zip(new.messages, new.ids, strict=True) if number is None]
        with self._store.transaction():
            session = self._unchanged(session_id, new.last_id)
            following = self._store.place_of(session.last_id) + 1 if session.last_id else 0
            places = self._places([each for each in new.ids if each is not None])
            fresh = iter(range(following, following + len(written)))
            order = [next(fresh) if number is None else places[number] for number in new.ids]
            written = [message | {WRITTEN: True} for message in written]
            written[-1][ORDER] = runs(order)
            if new.system_prompt is not None:
                details = self._store.details(session)
                written[0][REPLACED_PROMPT] = details.pop("system_prompt", None)
                self._store.set_details(session, new.system_prompt, details)
            numbers = iter(self._store.append(session_id, written))
            self._store.set_state(session, new.archive, COMPACTED)
            self._keep(session_id, new)
        return [next(numbers) if number is None else number for number in new.ids]

    def split(self, session_id: str, new: NewContext, **more: Any) -> tuple[str, list[int]]:
        """Ends the session with `compression` and starts a child; returns the ids of the child and its messages."""
        with self._store.transaction():
            session = self._unchanged(session_id, new.last_id)
            details = self._db.session_details(session_id) | more
            details["system_prompt"] = new.system_prompt or details.get("system_prompt")
            plain = {name: getattr(session, name) for name in ("model", "project", "cwd")}
            child = self._db.create_session(
                session.source, session.title, parent_session_id=session_id, kind="compression", **plain, **details
            )
            stored = {each.id: each for each in self._db.messages(session_id)}
            rows = [
                {**message, WRITTEN: True} if number is None else _copy(stored[number])
                for message, number in zip(new.messages, new.ids, strict=True)
            ]
            numbers = self._store.append(child, rows)
            self._store.end(session, "compression")
            self._store.set_state(session, new.archive, COMPACTED)
            self._keep(child, new)
        return child, numbers

    def restore(self, session_id: str) -> tuple[str, int]:
        """Copies the conversation as it was said into a new branch; returns its id and the number of messages."""
        session = self._db.get_session(session_id)
        details = self._db.session_details(session_id)
        plain = {name: getattr(session, name) for name in ("model", "project", "cwd")}
        messages = [_copy(each) for each in self.originals(session_id)]
        with self._store.transaction():
            made = self._db.create_session(
                session.source, session.title, parent_session_id=session_id, kind="branch", **plain, **details
            )
            self._db.append_many(made, messages)
        self._db.index()
        return made, len(messages)

    def take_back(self, session_id: str, end: Sequence[StoredMessage]) -> None:
        """Takes back the end of a context, and what compactions removed since the first message of that end."""
        taken = self._originals.rows_from(session_id, end[0])
        with self._store.transaction():
            self._db.set_rewound(session_id, dict.fromkeys([*(each.id for each in end), *taken.pop(session_id)]))
            for session, rows in taken.items():
                self._db.set_rewound(session, rows)

    def set_prompt(self, session_id: str, *, system_prompt: str, **more: Any) -> None:
        """Stores a prompt for a session that another program began, or whose own prompt was lost to damage."""
        session = self._db.get_session(session_id)
        kept = {name: each for name, each in self._db.session_details(session_id).items() if name != "system_prompt"}
        self._store.set_details(session, system_prompt, kept | more)

    # --- one at a time -----------------------------------------------------------------------------------------------

    def lease(self, session_id: str, holder: str, seconds: float = LEASE_SECONDS) -> bool:
        """Takes or renews the right to compact a session; False while another running process has it."""
        key, now = f"{_LEASE}:{session_id}", time.time()
        with self._store.transaction():
            found = self._store.get_meta(key)
            if found and not _is_free(str(found), holder, now):
                return False
            lease = {"holder": holder, "host": socket.gethostname(), "pid": os.getpid(), "until": now + seconds}
            self._store.set_meta(key, json.dumps(lease))
        return True

    def release(self, session_id: str, holder: str) -> None:
        """Gives the right to compact a session back, if this holder still has it."""
        key = f"{_LEASE}:{session_id}"
        with self._store.transaction():
            found = self._store.get_meta(key)
            if found and json.loads(found)["holder"] == holder:
                self._store.set_meta(key, None)

    # --- parts -------------------------------------------------------------------------------------------------------

    def _unchanged(self, session_id: str, last_id: int) -> Session:
        session = self._db.find_session(session_id)
        if session is None or session.last_id != last_id or session.end_reason == "compression":
            raise StorageError(f"session {session_id} continued elsewhere; nothing was compacted: open it again")
        return session

    def _keep(self, session_id: str, new: NewContext) -> None:
        for name, text in new.meta.items():
            self._store.set_meta(f"{name}:{session_id}", text)

    def _places(self, ids: Sequence[int]) -> dict[int, int]:
        first = {block: self._store.place_of(block << BLOCK_BITS) for block in {number >> BLOCK_BITS for number in ids}}
        return {number: first[number >> BLOCK_BITS] + number % BLOCK for number in ids}

    def _family(self, session_id: str) -> list[Session]:
        found = self._db.find_session(session_id)
        family: list[Session] = []
        while found is not None:
            lineage = self._db.lineage(found.id)
            family += lineage
            above = lineage[0].parent
            found = self._store.by_keys([above]).get(above) if above is not None else None
        return family


def holder_name() -> str:
    """A name for one compaction, which no other process and no later compaction uses."""
    return f"{os.getpid()}:{os.urandom(6).hex()}"


def refuse_held(session_id: str) -> LockTimeout:
    """The error for a session that another process is compacting."""
    return LockTimeout(f"session {session_id} is being compacted by another process; wait until it has ended")


def _is_free(taken: str, holder: str, now: float) -> bool:
    lease = json.loads(taken)
    ends = now <= lease["until"] <= now + 2 * LEASE_SECONDS  # further ahead: taken while a clock was wrong
    if lease["holder"] == holder or not ends:
        return True
    return lease["host"] == socket.gethostname() and not is_running(lease["pid"])


def _copy(stored: StoredMessage) -> dict[str, Any]:
    """A copy of a message for another session, with its time and the id of the row it was copied from."""
    message = {key: given for key, given in stored.message.items() if key not in (ORDER, RECEIPT)}
    return {"timestamp": stored.timestamp, COPY: stored.id, **message}


Node = Summary


class SummaryGraph:
    """The summaries of a conversation and of those it branched from, whichever session they were made in."""

    def __init__(self, db: SessionDB, session_id: str) -> None:
        self._summaries = db.store.summaries
        self.session_id = session_id

    def get(self, number: int) -> Node | None:
        """The summary with this number; None if this conversation has no such summary."""
        found = self._summaries.nodes(self.session_id, number=number)
        return found[0] if found else None

    def several(self, numbers: Iterable[int]) -> list[Node]:
        """Those of the nodes that exist, in the given order."""
        return [node for number in numbers if (node := self.get(number)) is not None]

    def all(self) -> list[Node]:
        """Every summary of the conversation."""
        return self._summaries.nodes(self.session_id)

    def find(self, depth: int, ids: str) -> Node | None:
        """A summary that already stands for exactly these messages."""
        found = self._summaries.nodes(self.session_id, same=(depth, ids))
        return found[0] if found else None

    def children(self, number: int) -> list[Node]:
        """The summaries from which a higher one was made."""
        return self._summaries.nodes(self.session_id, parent=number)

    def add(
        self, *, depth: int, ids: str, messages: int, text: str, made_by: str, children: Sequence[Node] = ()
    ) -> Node:
        """Stores a summary above its children and returns it with its number."""
        node = Node(number=0, depth=depth, ids=ids, messages=messages, text=text, made_by=made_by)
        return self._summaries.add(self.session_id, node, [child.number for child in children])
