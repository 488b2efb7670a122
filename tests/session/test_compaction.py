"""A session that outgrows its window: compacted in place or by splitting, and whole again when asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from compacted import configure, talk, texts
from hermes.session.session import MemorySession
from hermes.storage.sessions import SessionDB
from hermes.vocabulary.events import Compacted, Notice
from histories import openai_faults


@pytest.mark.proves("compaction.in-place", "compaction.notice")
def test_in_place_the_session_keeps_its_id_and_resumes_with_the_same_bytes(home: Path) -> None:
    configure(home)
    with MemorySession.open(home, title="long") as session:
        first = session.id
        talk(session, 20)
        before = session.request()
        done = session.compact()
        assert isinstance(done, Compacted)
        after = session.request()
        assert [type(event) for event in session.take_events()] == [Compacted, Notice]
        assert session.take_events() == []
    assert session.id == first == done.session_id == done.parent_session_id
    assert len(after.messages) < len(before.messages) // 2
    assert openai_faults(after.messages) == []
    assert after.messages[-1] == before.messages[-1]
    with MemorySession.open(home, resume="long") as again:
        assert (again.request().messages, again.request().system) == (after.messages, after.system)
    with SessionDB.open(home / "state.db") as db:
        rows = db.messages(first)
        assert len(rows) == len(before.messages) + len([m for m in rows if "compaction" in m.message])
        assert sum(row.compacted for row in rows) == done.messages


@pytest.mark.proves("compaction.split")
def test_by_splitting_the_old_session_ends_and_a_child_goes_on(home: Path) -> None:
    configure(home, in_place=False)
    with MemorySession.open(home, title="long") as session:
        first = session.id
        talk(session, 20)
        assert session.compact() is not None
        after = session.request()
        talk(session, 1, start=20)
    with SessionDB.open(home / "state.db") as db:
        old, new = db.get_session(first), db.get_session(session.id)
        assert (old.end_reason, new.parent, new.title) == ("compression", old.key, "long #2")
        assert [each.id for each in db.list_sessions()] == [new.id]
    with MemorySession.open(home, resume=first) as again:
        assert again.id == session.id
        assert again.request().messages[: len(after.messages)] == after.messages
        assert "ABC-0020" in texts(again.request().messages)
