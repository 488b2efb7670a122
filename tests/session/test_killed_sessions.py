"""A session whose process was killed is ended by whoever comes next, as of when it was last active."""

from __future__ import annotations

import json
import os
import signal
import socket
from typing import TYPE_CHECKING

import pytest
from compacted import configure, talk
from engines import database_of

from hermes.conversations.database import KILLED, Opened, SessionDB
from hermes.session.parts import CHAT
from hermes.session.session import MemorySession

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran
    from hermes.storage.records import Session


def killed_while(home: Path, work: Callable[[], str]) -> str:
    """The id that `work` returned in a process that was killed right after it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, work().encode())
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    return said


def row(home: Path, session: str) -> Session:
    with SessionDB.open(home / "state.db") as db:
        return db.get_session(session)


def marks(home: Path) -> list[str]:
    with SessionDB.open(home / "state.db") as db:
        found = database_of(db).rows("SELECT key FROM state_meta WHERE key LIKE '%:open:%'")
        return [key.rpartition(":")[2] for (key,) in found]


def speaks(home: Path, **more: object) -> Callable[[], str]:
    def work() -> str:
        session = MemorySession.open(home, **more)  # type: ignore[arg-type]
        session.prepare_turn("hello")
        session.finish_turn("yes?")
        return session.id

    return work


@pytest.mark.proves("sessions.killed")
def test_the_next_session_ends_it_when_it_was_last_active(home: Path) -> None:
    killed = killed_while(home, speaks(home))
    assert row(home, killed).ended_at is None
    with MemorySession.open(home) as session:
        before = row(home, killed)
        assert (before.ended_at, before.end_reason) == (before.last_active, KILLED)
        assert marks(home) == [session.id]
    assert marks(home) == []
    assert row(home, session.id).end_reason == "agent_close"


@pytest.mark.proves("sessions.killed")
@pytest.mark.parametrize("first", [True, False])
def test_resuming_it_opens_it_again_and_a_living_process_keeps_what_it_has(home: Path, first: bool) -> None:
    killed = killed_while(home, speaks(home))
    opening = ((None, killed), (killed, None))[first]
    with MemorySession.open(home, resume=opening[0]) as one, MemorySession.open(home, resume=opening[1]) as other:
        open_elsewhere = other if first else one
        assert row(home, killed).ended_at is None
        assert row(home, open_elsewhere.id).ended_at is None
        assert sorted(marks(home)) == sorted([killed, open_elsewhere.id])


@pytest.mark.proves("sessions.killed")
def test_after_a_split_it_is_the_child_that_was_open(home: Path) -> None:
    configure(home, in_place=False)

    def work() -> str:
        session = MemorySession.open(home)
        talk(session, 20)
        session.compact()
        return session.id

    child = killed_while(home, work)
    with MemorySession.open(home):
        assert row(home, child).end_reason == KILLED
        parent = row(home, child).parent
        with SessionDB.open(home / "state.db") as db:
            assert [each.end_reason for each in db.lineage(child) if each.key == parent] == ["compression"]


@pytest.mark.proves("sessions.killed")
def test_a_chat_of_a_gateway_goes_on(home: Path) -> None:
    killed = killed_while(home, speaks(home, identity={CHAT: "telegram:1"}))
    with MemorySession.open(home):
        assert row(home, killed).ended_at is None


@pytest.mark.proves("sessions.killed")
def test_what_another_machine_has_open_is_left_alone_and_what_was_deleted_forgotten(home: Path) -> None:
    with MemorySession.open(home) as session:
        session.prepare_turn("hello")
        session.finish_turn("yes?")
    gone = 2**22 + 1  # no process has such a number
    with SessionDB.open(home / "state.db") as db:
        db.update_session(session.id, ended_at=None, end_reason=None)
        db.set_meta(f"open:{session.id}", json.dumps({"host": "elsewhere", "pid": gone}))
        db.set_meta("open:deleted", json.dumps({"host": socket.gethostname(), "pid": gone}))
        assert Opened(db).end_abandoned() == []
        assert db.get_session(session.id).ended_at is None
    assert marks(home) == [session.id]


@pytest.mark.proves("sessions.killed")
def test_pruning_finds_it(home: Path, hermes: Callable[..., Ran]) -> None:
    killed = killed_while(home, speaks(home))
    with SessionDB.open(home / "state.db") as db:  # pruning counts back from the last use of any
        db.append(db.create_session(), {"role": "user", "content": "later"})
    told = json.loads(hermes("sessions", "prune", "--older-than", "0", "--dry-run", "--json").out)
    assert [each["session_id"] for each in told["sessions"]] == [killed]
