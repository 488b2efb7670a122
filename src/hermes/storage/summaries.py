"""A graph of summaries beside the messages they stand for: leaves over messages, condensed ones over summaries."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from hermes.storage.database import one_row
from hermes.storage.migrations import add_summaries
from hermes.vocabulary.values import value

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hermes.storage.sessions import SessionDB

_NODE = "s.node, s.depth, s.ids, s.messages, s.text, s.made_by"
_ADD = """
    INSERT INTO summaries (session, depth, ids, messages, text, made_by, made_at) VALUES (?, ?, ?, ?, ?, ?, ?)
    RETURNING node
"""
# A branch goes on with what its conversation had, so the summaries of that one are its own, too.
_OF_CONVERSATION = """
    FROM summaries s JOIN sessions c ON c.key = s.session
    WHERE c.owner = ? AND c.root IN (
        WITH RECURSIVE family (root) AS (
            SELECT root FROM sessions WHERE owner = ? AND id = ?
            UNION SELECT above.root FROM family JOIN sessions first ON first.key = family.root
                JOIN sessions above ON above.key = first.parent AND above.owner = first.owner
        ) SELECT root FROM family
    )
"""


@value
class Node:
    """One summary; `ids` are the messages below it as ranges, such as "4096-4131, 4140"."""

    number: int
    depth: int
    ids: str
    messages: int
    text: str
    made_by: str


class SummaryGraph:
    """The summaries of one conversation and of those it branched off from, in whichever session they were made."""

    def __init__(self, db: SessionDB, session_id: str) -> None:
        self._database = db._database  # noqa: SLF001 - one package, two files
        self._owner = db._owner_key  # noqa: SLF001
        self.session_id = session_id
        add_summaries(self._database)

    def get(self, number: int) -> Node | None:
        found = self._nodes("AND s.node = ?", (number,))
        return found[0] if found else None

    def several(self, numbers: Iterable[int]) -> list[Node]:
        """Those of the nodes that exist, in the given order."""
        return [node for number in numbers if (node := self.get(number)) is not None]

    def all(self) -> list[Node]:
        return self._nodes("ORDER BY s.node", ())

    def find(self, depth: int, ids: str) -> Node | None:
        """A summary that already stands for exactly these messages."""
        found = self._nodes("AND s.depth = ? AND s.ids = ?", (depth, ids))
        return found[0] if found else None

    def children(self, number: int) -> list[Node]:
        return self._nodes(
            "AND s.node IN (SELECT child FROM summary_children WHERE parent = ?) ORDER BY s.node", (number,)
        )

    def add(
        self, *, depth: int, ids: str, messages: int, text: str, made_by: str, children: Sequence[Node] = ()
    ) -> Node:
        with self._database.writing() as connection:
            key = one_row(
                connection, "SELECT key FROM sessions WHERE owner = ? AND id = ?", (self._owner, self.session_id)
            )[0]
            row = (key, depth, ids, messages, text, made_by, time.time())
            number = int(one_row(connection, _ADD, row)[0])
            edges = [(number, child.number) for child in children]
            connection.executemany("INSERT INTO summary_children (parent, child) VALUES (?, ?)", edges)
        return Node(number=number, depth=depth, ids=ids, messages=messages, text=text, made_by=made_by)

    def _nodes(self, rest: str, values: tuple[object, ...]) -> list[Node]:
        question = f"SELECT {_NODE} {_OF_CONVERSATION} {rest}"
        rows = self._database.rows(question, (self._owner, self._owner, self.session_id, *values))
        names = ("number", "depth", "ids", "messages", "text", "made_by")
        return [Node(**dict(zip(names, row, strict=True))) for row in rows]
