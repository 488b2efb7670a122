"""One compaction at a time, and either whole or not at all."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from compacted import configure, talk

from hermes.base.errors import LockTimeout
from hermes.base.events import Notice
from hermes.conversations.context import Contexts
from hermes.conversations.database import SessionDB
from hermes.session.session import MemorySession

if TYPE_CHECKING:
    from pathlib import Path

HOLD = """
import sys
from hermes.conversations.context import Contexts
from hermes.conversations.database import SessionDB
db = SessionDB.open(sys.argv[1])
print(Contexts(db).lease(sys.argv[2], "other"), flush=True)
sys.stdin.read()
"""


@pytest.mark.proves("compaction.lease")
def test_two_processes_cannot_compact_one_session_and_a_dead_one_holds_nothing(home: Path) -> None:
    configure(home)
    with MemorySession.open(home) as session:
        talk(session, 20)
        before = session.request()
        command = [sys.executable, "-c", HOLD, str(home / "state.db"), session.id]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
            assert other.stdout is not None
            assert other.stdout.readline() == "True\n"
            with pytest.raises(LockTimeout, match="another process"):
                session.compact()
            assert session.request() == before
            other.kill()
        assert session.compact() is not None


@pytest.mark.proves("compaction.lease")
def test_a_lease_of_another_machine_ends_with_its_time(home: Path) -> None:
    configure(home)
    with MemorySession.open(home) as session:
        talk(session, 20)
        with SessionDB.open(home / "state.db") as db:
            contexts = Contexts(db)
            assert contexts.lease(session.id, "one", seconds=0.05)
            assert contexts.lease(session.id, "one", seconds=0.05)
            assert not contexts.lease(session.id, "two")
            end = time.monotonic() + 5
            while not contexts.lease(session.id, "two") and time.monotonic() < end:
                pass
            contexts.release(session.id, "one")
            with pytest.raises(LockTimeout):
                session.compact()
            contexts.release(session.id, "two")
        assert session.compact() is not None


@pytest.mark.proves("compaction.lease")
def test_a_lease_taken_while_the_clock_was_wrong_does_not_last_for_years(tmp_path: Path) -> None:
    with SessionDB.open(tmp_path / "state.db") as db:
        contexts, session = Contexts(db), db.create_session()
        assert contexts.lease(session, "one")
        assert not contexts.lease(session, "two")
        assert contexts.lease(session, "one", seconds=10**8)
        assert contexts.lease(session, "two")


@pytest.mark.proves("compaction.elsewhere")
@pytest.mark.parametrize("in_place", [True, False])
def test_what_another_process_compacted_is_taken_over(home: Path, in_place: bool) -> None:
    configure(home, in_place=in_place)
    with MemorySession.open(home) as session, MemorySession.open(home, resume=session.id) as other:
        talk(other, 20)
        assert other.compact() is not None
        assert session.compact() is None
        told = session.take_events()
        assert [type(event) for event in told] == [Notice]
        assert (session.id, session.request().messages) == (other.id, other.request().messages)
        talk(session, 1, start=20)
