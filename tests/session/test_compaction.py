"""A session that outgrows its window: compacted in place or by splitting, and whole again when asked."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from compacted import configure, talk, texts

from hermes.base.events import Compacted, Notice
from hermes.compaction.messages import is_block
from hermes.conversations.database import SessionDB
from hermes.session.session import MemorySession

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran
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
def test_a_title_as_long_as_titles_may_be_is_numbered_too(home: Path) -> None:
    configure(home, in_place=False)
    titles = []
    with MemorySession.open(home, title="x" * 98) as session:
        for start in (0, 20, 40):
            talk(session, 20, start=start)
            assert session.compact() is not None
            titles.append(session.about().title)
    assert titles == [f"{'x' * 97} #{number}" for number in (2, 3, 4)]
    for name in ("x" * 98, *titles):
        with MemorySession.open(home, resume=name) as again:
            assert again.id == session.id


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


@pytest.mark.proves("compaction.reachable")
@pytest.mark.parametrize("in_place", [True, False])
def test_every_original_can_be_searched_scrolled_read_and_expanded(
    home: Path, hermes: Callable[..., Ran], in_place: bool
) -> None:
    configure(home, in_place=in_place)
    with MemorySession.open(home) as session:
        first = session.id
        talk(session, 20)
        session.compact()
        talk(session, 12, start=20)
        session.compact()
        block = next(each["content"] for each in session.request().messages if is_block(each))
        found = json.loads(session.call_tool("session_search", {"query": "ABC-0009"}))
        assert "ABC-0009" in json.dumps(found["results"])
        hit = found["results"][0]["match_message_id"]
        scrolled = session.call_tool("session_search", {"session_id": first, "around_message_id": hit})
        assert "ABC-0009" in scrolled
        assert "ABC-0009" in session.call_tool("context_expand", {"ids": str(hit)})
        lines = re.findall(r"^- ([\d, -]+) \(\d+ messages?\)", block, re.MULTILINE)
        everything = "".join(_expanded(session, ids) for ids in lines) + texts(session.request().messages)
        assert [number for number in range(32) if f"ABC-{number:04}" not in everything] == []
    other = hermes("tool", "context_expand", json.dumps({"ids": str(hit)}), "--session", first)
    assert "ABC-0009" in other.out


def _expanded(session: MemorySession, ids: str) -> str:
    """Everything that a line of the block leads to, page by page."""
    shown, more = "", {"ids": ids}
    while more:
        answer = json.loads(session.call_tool("context_expand", more))
        shown, more = shown + json.dumps(answer["messages"]), answer.get("more")
    return shown


@pytest.mark.proves("compaction.reachable")
def test_a_result_that_was_shortened_in_one_compaction_can_be_read_after_the_next(home: Path) -> None:
    configure(home)
    call = {"id": "c1", "type": "function", "function": {"name": "read_log", "arguments": "{}"}}
    with MemorySession.open(home) as session:
        talk(session, 4)
        session.prepare_turn("look at the log")
        session.record({"role": "assistant", "content": None, "tool_calls": [call]})
        session.record_result("c1", "\n".join(f"line {number} of the log" for number in range(6000)))
        assert session.compact() is not None  # in the turn: the result stays, but not as long as it was
        (pointer,) = re.findall(r'context_expand ids="(\d+)" shows', texts(session.request().messages))
        session.finish_turn("It is long.")
        talk(session, 20, start=20)
        assert session.compact() is not None
        block = next(each["content"] for each in session.request().messages if is_block(each))
        lines = re.findall(r"^- ([\d, -]+) \(\d+ messages?\)", block, re.MULTILINE)
        assert "line 3000 of the log" in "".join(_expanded(session, ids) for ids in lines)
        assert "line 3000 of the log" in _expanded(session, pointer)


@pytest.mark.proves("compaction.expand.own")
def test_another_conversation_cannot_be_expanded(home: Path) -> None:
    configure(home)
    with MemorySession.open(home) as other:
        other.prepare_turn("the launch code is 7781")
        number = other.last_id
    with MemorySession.open(home) as session:
        session.prepare_turn("hello")
        assert "7781" not in session.call_tool("context_expand", {"ids": f"1-{number + 100}"})


@pytest.mark.proves("compaction.restore")
@pytest.mark.parametrize("in_place", [True, False])
def test_restore_rebuilds_the_conversation_as_it_was_said(
    home: Path, hermes: Callable[..., Ran], in_place: bool
) -> None:
    configure(home, in_place=in_place)
    said: list[dict[str, Any]] = []
    with MemorySession.open(home, title="long") as session:
        for turns, start in ((20, 0), (8, 20)):
            talk(session, turns, start=start)
            before = session.request().messages
            said += before[before.index(said[-1]) + 1 :] if said else before
            session.compact()
        tip = session.id
    assert hermes("sessions", "restore", "nothing").code == 1
    restored = hermes("sessions", "restore", "long", "--json").json
    assert restored["restored_from"] == tip
    assert restored["messages"] == len(said)
    with MemorySession.open(home, resume=restored["session_id"]) as again:
        assert again.request().messages == said
    with SessionDB.open(home / "state.db") as db:
        assert db.get_session(restored["session_id"]).parent == db.get_session(tip).key
    with MemorySession.open(home, resume=tip) as kept:
        assert len(kept.request().messages) < len(said)


@pytest.mark.proves("compaction.restore")
def test_what_was_never_compacted_is_not_restored(home: Path, hermes: Callable[..., Ran]) -> None:
    with MemorySession.open(home, title="short") as session:
        session.prepare_turn("hello")
    ran = hermes("sessions", "restore", "short")
    assert (ran.code, "was never compacted" in ran.err) == (1, True)


@pytest.mark.proves("compaction.range")
@pytest.mark.parametrize("in_place", [True, False])
def test_the_model_puts_away_a_stretch_and_the_current_turn_stays(home: Path, in_place: bool) -> None:
    configure(home, in_place=in_place, window=200_000)
    with MemorySession.open(home) as session:
        talk(session, 30)
        before = session.prepare_turn("now the release notes").messages
        calls = [
            {"id": name, "type": "function", "function": {"name": "context_compact", "arguments": "{}"}}
            for name in ("one", "two")
        ]
        session.record({"role": "assistant", "content": None, "tool_calls": calls})
        wanted = {"first": "ticket abc-0002", "last": "ticket ABC-0027"}
        answer = json.loads(session.call_tool("context_compact", wanted, call_id="one"))
        assert answer["success"], answer
        refused = json.loads(session.call_tool("context_compact", {"first": "no such words"}, call_id="two"))
        assert (refused["success"], "quote a few words" in refused["error"]) == (False, True)
        after = session.request().messages
        assert openai_faults(after) == []
        assert after[:5] == before[:5]
        assert [message["role"] for message in after[-4:]] == ["user", "assistant", "tool", "tool"]
        assert "ABC-0029" in texts(after)
        assert len([each for each in after if is_block(each)]) == 1
        assert len(after) < len(before) // 3
        session.finish_turn("done")
    with MemorySession.open(home, resume=session.id) as again:
        assert again.request().messages[:-1] == after


@pytest.mark.proves("compaction.thrift")
def test_a_stretch_that_would_not_shrink_is_left_alone(home: Path) -> None:
    configure(home)
    with MemorySession.open(home) as session:
        talk(session, 3, words=1)
        before = session.prepare_turn("next").messages
        assert not json.loads(session.call_tool("context_compact", {}))["success"]
        assert session.request().messages[: len(before)] == before
        assert session.compact() is None
        assert "Nothing was compacted" in session.notices.take()[-1].text
