"""Takes a conversation out of the file, with its messages and every word of them in the index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes.storage.database import all_rows
from hermes.storage.index import remove_rows, set_title
from hermes.storage.migrations import BLOCK, BLOCK_BITS

if TYPE_CHECKING:
    import apsw

_MESSAGES_OF = "SELECT id FROM messages WHERE id BETWEEN ? AND ?"


def delete_session(connection: apsw.Connection, owner_key: int, key: int) -> None:
    """Delegated children go with it; other children stay, and the first continuation becomes the beginning."""
    children = "SELECT key FROM sessions WHERE parent = ? AND kind = 'delegate'"
    for (child,) in all_rows(connection, children, (key,)):
        delete_session(connection, owner_key, child)
    heir = connection.execute(
        "SELECT key FROM sessions WHERE root = ? AND root <> key AND kind = 'compression' ORDER BY key LIMIT 1",
        (key,),
    ).fetchone()
    if heir:
        connection.execute("UPDATE sessions SET root = ? WHERE root = ?", (heir[0], key))
    for (block,) in all_rows(connection, "SELECT block FROM blocks WHERE session = ?", (key,)):
        first = block << BLOCK_BITS
        span = (first, first + BLOCK - 1)
        remove_rows(connection, [i for (i,) in connection.execute(_MESSAGES_OF, span)])
        connection.execute("DELETE FROM messages WHERE id BETWEEN ? AND ?", span)
    set_title(connection, key, owner_key, None)
    connection.execute("DELETE FROM sessions WHERE key = ?", (key,))
