"""A conversation as it was said, through every session it went through: nothing that a compaction wrote or copied."""

from __future__ import annotations

from itertools import dropwhile
from typing import TYPE_CHECKING

from hermes.storage.pages import Pages

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hermes.storage.conversations import Session
    from hermes.storage.sessions import SessionDB
    from hermes.storage.transcripts import StoredMessage

WRITTEN = "compaction"  # on every row a compaction wrote
COPY = "copy_of"  # on a row that another session took over: the id of the original


class Originals:
    def __init__(self, db: SessionDB) -> None:
        self._db = db
        self._pages = Pages.of_db(db)

    def chain(self, session: Session) -> list[Session]:
        """The sessions the conversation went through since it began or branched off, oldest first."""
        kinds = (None, "compression", "branch")
        return [each for each in self._db.lineage(session.id) if each.kind in kinds and each.key <= session.key]

    def of(self, session_id: str) -> Iterator[StoredMessage]:
        """The whole conversation up to this session, with what it was before it branched off from another."""
        chain = self.chain(self._db.get_session(session_id))
        yield from self._inherited(chain[0])
        for session in chain:
            for each in self._pages.messages(session):
                if _was_said(each) and COPY not in each.message:
                    yield each

    def rows_from(self, session_id: str, begin: StoredMessage) -> dict[str, list[int]]:
        """Every row, by session, that holds the given message or what was said after it, compacted and copies too."""
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
        """What a branch began with: its own copies, and what a block among them stands for."""
        copies = [each for each in self._db.messages(branch.id, rewound=True) if COPY in each.message]
        own = [each for each in copies if _was_said(each) and not each.rewound]
        parent = self._pages.parent_id(branch) if copies else None
        if parent is None:
            return own
        before = self.chain(self._db.get_session(parent))
        known = {each.id: first_id(each) for one in before for each in self._db.messages(one.id, rewound=True)}
        numbers = {each.id: known.get(each.message[COPY], first_id(each)) for each in copies}
        # Up to here it went along; what was taken back in the branch is left out with all that followed it.
        end = min((numbers[each.id] for each in copies if each.rewound), default=max(numbers.values()))
        taken = set(numbers.values())
        left = [(first_id(each), each) for each in self.of(parent) if first_id(each) < end]
        left = [(number, each) for number, each in left if number not in taken]
        return [
            each for _, each in sorted([*left, *((numbers[each.id], each) for each in own)], key=lambda one: one[0])
        ]


def first_id(stored: StoredMessage) -> int:
    """The id under which a message was said first, whichever session has it now."""
    return int(stored.message.get(COPY, stored.id))


def _was_said(stored: StoredMessage) -> bool:
    return not stored.damaged and WRITTEN not in stored.message
