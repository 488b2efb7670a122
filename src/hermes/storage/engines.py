"""Opens the storage engine that holds a person's data: SQLite for a path, PostgreSQL for an address."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes.storage.local.conversations import LocalConversations
from hermes.storage.ports import is_address

if TYPE_CHECKING:
    from hermes.storage.conversations import Conversations
    from hermes.storage.ports import Durability


def open_conversations(
    where: str,
    *,
    owner: str = "local",
    durability: Durability = "message",
    wait: float | None = None,
    reading: bool = False,
) -> Conversations:
    """One person's conversations in the SQLite file, or in the PostgreSQL database, at `where`."""
    if is_address(where):
        from hermes.storage.postgres.conversations import PostgresConversations  # loads an optional library

        return PostgresConversations.open(where, owner=owner, wait=wait)
    return LocalConversations.open(where, owner=owner, durability=durability, wait=wait, reading=reading)


def forget_conversations(path: str, owner: str) -> None:
    """Removes everything of a person from a database of many; a file goes with the home it is in."""
    if is_address(path):
        from hermes.storage.postgres.conversations import PostgresConversations  # loads an optional library
        from hermes.storage.postgres.documents import PostgresDocuments

        PostgresConversations.open(path, owner=owner).forget()
        PostgresDocuments.renew()
