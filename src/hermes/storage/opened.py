"""Which process has a session open, so that one whose process died can be ended by whoever comes next.

A mark names the machine and the process. It goes when the session is closed. A session whose mark is left by a process
that no longer runs ended when it was last active: nobody knows more. A process on another machine is left alone.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from hermes.storage.database import all_rows
from hermes.storage.running import is_running

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    import apsw

    from hermes.storage.sessions import SessionDB

KILLED = "process_ended"
_MARKS = "SELECT key, value FROM state_meta WHERE key >= ? AND key < ?"
_END = """
    UPDATE sessions SET ended_at = max(last_active, started_at), end_reason = ?
    WHERE owner = ? AND id = ? AND ended_at IS NULL RETURNING key
"""


class Opened:
    def __init__(self, db: SessionDB) -> None:
        self._db = db
        self._database = db._database  # noqa: SLF001 - one package, two files
        self._owner = db._owner_key  # noqa: SLF001
        self._prefix = f"{self._owner}:open:"

    def mark(self, session_id: str) -> None:
        """Notes that this process has it open; what dead ones left open is ended on the way."""
        self.end_abandoned()
        here = json.dumps({"host": os.uname().nodename, "pid": os.getpid()})
        self._db.set_meta(f"open:{session_id}", here)

    def clear(self, session_id: str) -> None:
        self._db.set_meta(f"open:{session_id}", None)

    def together(self) -> AbstractContextManager[object]:
        """One transaction for a mark and what it goes with."""
        return self._database.writing()

    def end_abandoned(self) -> list[str]:
        """Ends the sessions of dead processes; returns their ids."""
        end = self._prefix[:-1] + chr(ord(":") + 1)
        marks = self._database.rows(_MARKS, (self._prefix, end))
        left = [key for key, mark in marks if _is_abandoned(json.loads(mark))]
        if not left:
            return []
        with self._database.writing() as connection:
            return [ended for key in left if (ended := self._end(connection, key))]

    def _end(self, connection: apsw.Connection, key: str) -> str:
        connection.execute("DELETE FROM state_meta WHERE key = ?", (key,))
        opened = self._db.find_session(key.removeprefix(self._prefix))
        if opened is None:
            return ""  # deleted since
        # A compaction may have gone on in a child, which is what was open.
        tip = self._db.tip(opened.id).id
        return tip if all_rows(connection, _END, (KILLED, self._owner, tip)) else ""


def _is_abandoned(mark: dict[str, object]) -> bool:
    return mark["host"] == os.uname().nodename and not is_running(int(str(mark["pid"])))
