"""Branches of a compacted conversation, and what is taken back in one: nothing is lost, and nothing comes back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from compacted import configure, talk, texts
from histories import call, openai_faults

from hermes.base.errors import NotFound
from hermes.compaction.messages import is_block
from hermes.conversations.context import Contexts, NewContext
from hermes.conversations.database import SessionDB
from hermes.session.session import MemorySession

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran

NO_HELPER = "auxiliary:\n  compression:\n    enabled: false\n"
both_ways = pytest.mark.parametrize("in_place", [True, False], ids=["in place", "by splitting"])


def said_in(session: MemorySession) -> list[str]:
    """What people said in the whole conversation, by ticket."""
    said = Contexts(session._parts.database).originals(session.id)
    return [each.text.split()[5] for each in said if each.role == "user" and "ticket" in each.text]


def tickets(*numbers: int) -> list[str]:
    return [f"ABC-{number:04}." for number in numbers]


@pytest.mark.proves("compaction.branch", "compaction.restore")
@both_ways
def test_a_branch_is_restored_with_what_was_compacted_before_it_branched_off(
    home: Path, in_place: bool, hermes: Callable[..., Ran]
) -> None:
    configure(home, NO_HELPER, in_place=in_place)
    with MemorySession.open(home) as session:
        talk(session, 20)
        assert session.compact() is not None
        branch = session.branch("aside")
        talk(session, 1, start=90)  # no part of the branch
    restored = hermes("sessions", "restore", "aside", "--json").json["session_id"]
    with MemorySession.open(home, resume=restored) as whole:
        assert said_in(whole) == tickets(*range(20))
        assert "ABC-0007" in texts(whole.request().messages)
    with MemorySession.open(home, resume=branch) as aside:
        talk(aside, 20, start=20)
        assert aside.compact() is not None
        twice = aside.branch()
    with MemorySession.open(home, resume=twice) as last:
        assert said_in(last) == tickets(*range(40))
        assert last.undo()
        assert said_in(last) == tickets(*range(39))


@pytest.mark.proves("compaction.branch", "compaction.lcm")
def test_a_branch_goes_down_the_summaries_of_its_conversation(home: Path) -> None:
    configure(home, f"{NO_HELPER}context:\n  engine: lcm\n")
    with MemorySession.open(home) as session:
        talk(session, 45)
        session.compact()
        branch = session.branch()
        with MemorySession.open(home) as other:
            other.prepare_turn("hello")
            assert json.loads(other.call_tool("lcm_describe", {}))["count"] == 0
    with MemorySession.open(home, resume=branch) as aside:
        aside.prepare_turn("what was ticket 3?")
        nodes = json.loads(aside.call_tool("lcm_describe", {}))["summaries"]
        leaf = next(node["node"] for node in nodes if node["depth"] == 0)
        assert "ABC-0003" in aside.call_tool("lcm_expand", {"node": leaf})
        found = json.loads(aside.call_tool("lcm_grep", {"query": "ABC-0003"}))
        assert "user" in [each["role"] for each in found["messages"]]


@pytest.mark.proves("compaction.undo")
@both_ways
def test_what_is_taken_back_after_a_compaction_is_found_nowhere(home: Path, in_place: bool) -> None:
    configure(home, NO_HELPER, in_place=in_place)
    with MemorySession.open(home) as session:
        talk(session, 15)
        session.prepare_turn("Sail to Zanzibar.")
        for number in range(40):
            session.record({"role": "assistant", "content": None, "tool_calls": [call(f"c{number}")]})
            session.record({"role": "tool", "tool_call_id": f"c{number}", "content": "Mombasa " * 200})
        assert session.compact() is not None  # the beginning of this turn left the context, too
        session.finish_turn("We are in Zanzibar.")
        database = session._parts.database
        assert len(database.search("Zanzibar")) > 0
        assert len(database.search("Mombasa")) > 0
        assert session.undo() == "Sail to Zanzibar."
        assert len(database.search("Zanzibar")) == 0
        assert [each for each in database.search("Mombasa", limit=50) if each.role == "tool"] == []  # a summary stays
        assert openai_faults(session.request().messages) == []
        restored, _ = Contexts(database).restore(session.id)
        assert said_in(session) == tickets(*range(15))
        assert [each.text for each in database.messages(restored) if "Mombasa" in each.text] == []


@pytest.mark.proves("compaction.undo")
@both_ways
def test_an_exchange_that_was_compacted_is_not_taken_back_with_everything_around_it(home: Path, in_place: bool) -> None:
    configure(home, NO_HELPER, in_place=in_place)
    with MemorySession.open(home) as session:
        talk(session, 15)
        session.prepare_turn("And now?")
        session.finish_turn("more words " * 3_000)
        assert session.compact() is not None
        assert session.undo() == "And now?"
        before = session.request().messages
        assert any(map(is_block, before))
        with pytest.raises(NotFound, match=f"sessions restore {session.id}"):
            session.undo()
        assert session.request().messages == before
        assert said_in(session) == tickets(*range(15))


@pytest.mark.proves("compaction.undo")
def test_the_order_of_a_context_outlives_the_row_that_tells_it(tmp_path: Path) -> None:
    with SessionDB.open(tmp_path / "state.db") as db:
        made = db.create_session()
        words = [{"role": "user", "content": word} for word in ("first", "second", "third", "fourth")]
        first, *gone, third, fourth = db.append_many(made, words)
        written = [{"role": "user", "content": word} for word in ("block", "shorter")]
        ids = [first, None, third, None]
        context = NewContext(
            messages=[words[0], written[0], words[2], written[1]], ids=ids, archive=[*gone, fourth], last_id=fourth
        )
        numbers = Contexts(db).replace(made, context)
        db.set_rewound(made, numbers[-1:])
        assert [each.text for each in Contexts(db).live(made)] == ["first", "block", "third"]
