"""Notices damage in `state.db` and reads around it: seals on session rows, and texts that are no longer UTF-8.

Messages carry a checksum of their own (`records.checksum`). A session's row carries a seal of two halves: who it is
(key, owner, id) and what it shows (source, title, preview). A row that fails the first half belongs to nobody.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

from hermes.base.errors import DamagedFile
from hermes.storage.local.database import DAMAGE
from hermes.storage.records import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermes.storage.local.database import Database
    from hermes.storage.records import Row

_HALF = 32
_INTEGER: tuple[type, ...] = (int,)
_TEXT: tuple[type, ...] = (str, type(None))
_KINDS = (_INTEGER, (str,), _INTEGER, (float, int), *[_TEXT] * 4, (*_INTEGER, type(None)), _TEXT, _INTEGER)
UNREADABLE = (*DAMAGE, UnicodeDecodeError)


def seal(key: int, owner: int, name: str, *shown: str | None) -> int:
    """The seal that a valid session row has; `shown` is its source, title and preview."""
    return _crc(key, owner, name) - (1 << 31) << _HALF | _crc(key, *shown)  # fits SQLite's signed 64 bits


def identity_holds(stored: Any, key: int, owner: int, name: str) -> bool:
    """Whether a seal proves that the row belongs to this key, owner and id."""
    return isinstance(stored, int) and (stored >> _HALF) + (1 << 31) == _crc(key, owner, name)


def texts_hold(stored: Any, key: int, *shown: str | None) -> bool:
    """Whether a seal proves the row's source, title and preview."""
    return isinstance(stored, int) and stored & (1 << _HALF) - 1 == _crc(key, *shown)


def details_seal(session: int, system_prompt: str | None, details: str | None) -> int:
    """The checksum of the details of a session."""
    return _crc(session, system_prompt, details)


def select(database: Database, columns: str, rest: str, values: Sequence[Any] | dict[str, Any]) -> list[Any]:
    """Runs `SELECT columns rest`; text that is no longer UTF-8 gets replacement characters, so its checksum fails."""
    try:
        return database.rows(f"SELECT {columns} {rest}", values)
    except DamagedFile as error:
        if not isinstance(error.__cause__, UnicodeDecodeError):
            raise
    return [mended(row) for row in database.rows(f"SELECT {text_as_bytes(columns)} {rest}", values)]


def text_as_bytes(columns: str) -> str:
    """The columns with text as bytes, because damaged text need not be UTF-8."""
    return ", ".join(f"iif(typeof({name}) = 'text', CAST({name} AS BLOB), {name})" for name in columns.split(", "))


def mended(row: Sequence[Any]) -> Any:
    """The row with bytes as text; text that cannot be decoded fails every checksum."""
    return tuple(value.decode("utf-8", "replace") if isinstance(value, bytes) else value for value in row)


def careful_row(database: Database, message_id: int) -> Row | None:
    """Reads one message, whatever its bytes; None if there is none, a row without text if its page is damaged."""
    try:
        row = database.row(f"SELECT {text_as_bytes(COLUMNS)} FROM messages WHERE id = ?", (message_id,))  # noqa: S608
    except DamagedFile:
        return _unreadable(message_id)
    if row is None:
        return None
    whole: Row = mended(row)
    return whole if is_shaped(whole) else _unreadable(message_id)


def is_shaped(row: Sequence[Any]) -> bool:
    """Whether each value has a possible type, so that nothing fails before the checksum is compared."""
    return all(type(value) in kinds for value, kinds in zip(row, _KINDS, strict=True))


def _unreadable(message_id: int) -> Row:
    return (message_id, "unknown", 0, 0.0, None, None, None, None, None, None, -1)  # -1 is no CRC, so it never holds


def _crc(*values: object) -> int:
    return zlib.crc32("\x1f".join(map(str, values)).encode("utf-8", "surrogatepass"))
