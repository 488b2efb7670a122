"""Opens the storage engine that holds a person's data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes.storage.local.conversations import LocalConversations

if TYPE_CHECKING:
    from hermes.storage.ports import Conversations, Durability


def open_conversations(
    where: str,
    *,
    owner: str = "local",
    durability: Durability = "message",
    wait: float | None = None,
    reading: bool = False,
) -> Conversations:
    """One person's conversations in the SQLite file at `where`."""
    return LocalConversations.open(where, owner=owner, durability=durability, wait=wait, reading=reading)
