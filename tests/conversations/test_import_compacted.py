"""A compacted conversation that moves to another home: the same context, and pointers that lead to its messages."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from compacted import configure, talk, texts
from histories import call

from hermes.compaction.messages import is_block, parse_block, renumbered
from hermes.conversations.context import Contexts
from hermes.session.session import MemorySession

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

    from conftest import Ran

    Command = Callable[..., Ran]

NO_HELPER = "auxiliary:\n  compression:\n    enabled: false\n"
_IDS = re.compile(r'(?m)^- [\d, -]+ \(|ids="\d+"|^### (?:lcm:\d+ · )?messages [\d, -]+$')


def lived_in(home: Path, *, in_place: bool, engine: str = "compressor") -> tuple[str, list[dict[str, Any]]]:
    """A conversation with things taken back, long results and two compactions; its id and what a model is sent."""
    configure(home, f"{NO_HELPER}context:\n  engine: {engine}\n", in_place=in_place)
    with MemorySession.open(home, title="moved") as session:
        for start in (0, 20):
            talk(session, 7, start=start)
            session.prepare_turn("Something that is taken back.")
            session.finish_turn("Yes.")
            session.undo()
            talk(session, 30, start=start + 7, words=20)
            session.prepare_turn("Look at the long file.")
            session.record({"role": "assistant", "content": None, "tool_calls": [call(f"long-{start}")]})
            session.record({"role": "tool", "tool_call_id": f"long-{start}", "content": f"line {start} of it " * 4_000})
            session.compact()
            session.finish_turn("Looked at.")
        return session.id, session.request().messages


def comparable(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**each, "content": _IDS.sub("#", str(each["content"]))} for each in messages]


def reached(session: MemorySession) -> str:
    """All that is in the context or one expansion away."""
    messages = session.request().messages
    spans = [span for each in messages if is_block(each) for one in parse_block(each).chapters for span in one.ids]
    spans += [(int(one), int(one)) for one in re.findall(r'context_expand ids="(\d+)"', texts(messages))]
    contexts = Contexts(session._parts.database)
    stored = [one for first, last in spans for one in contexts.read(session.id, range(first, last + 1))]
    return texts([*messages, *(message for _, message in stored)])


def assert_moved(there: Path, session_id: str, before: list[dict[str, Any]]) -> None:
    with MemorySession.open(there, resume=session_id) as session:
        assert comparable(session.request().messages) == comparable(before)
        whole = reached(session)
        assert [number for number in range(37) if f"ABC-{number:04}" not in whole] == []
        assert ["line 0 of it " * 4_000 in whole, "line 20 of it " * 4_000 in whole] == [True, True]
        restored, _ = Contexts(session._parts.database).restore(session.id)
        said = [each.text[:40] for each in session._parts.database.messages(restored) if each.role == "user"]
        assert len(said) == len([*range(37), *range(37), "Look", "Look"])


@pytest.mark.proves("search.cli-round-trip", "compaction.reachable")
@pytest.mark.moves_prefix(reason="the block names messages by the numbers they have there")
@pytest.mark.parametrize("in_place", [True, False], ids=["in place", "by splitting"])
def test_an_imported_conversation_is_read_in_the_same_order_and_its_pointers_lead_somewhere(
    home: Path, in_place: bool, hermes: Command, tmp_path: Path
) -> None:
    session_id, before = lived_in(home, in_place=in_place)
    there, file = tmp_path / "there", tmp_path / "all.jsonl"
    assert hermes("sessions", "export", "--all", "--out", str(file)).code == 0
    configure(there, NO_HELPER)
    with MemorySession.open(there) as other:
        talk(other, 20, start=500)  # the numbers are taken there
    assert hermes("--home", str(there), "sessions", "import", str(file)).code == 0
    assert_moved(there, session_id, before)
    again = hermes("--home", str(there), "sessions", "import", str(file), "--json")
    assert (again.json["messages"], again.json["bad_lines"]) == (0, 0)


@pytest.mark.proves("search.cli-import-once")
def test_a_branch_alone_comes_back_to_where_it_was_exported_and_goes_without_what_stayed_behind(
    home: Path, hermes: Command, tmp_path: Path
) -> None:
    session_id, _ = lived_in(home, in_place=True)
    with MemorySession.open(home, resume=session_id) as session:
        branch = session.branch("aside")
    file, there = tmp_path / "branch.jsonl", tmp_path / "there"
    assert hermes("sessions", "export", "aside", "--out", str(file)).code == 0
    back = hermes("sessions", "import", str(file), "--json").json
    assert (back["messages"], back["bad_lines"]) == (0, 0)
    assert hermes("--home", str(there), "sessions", "import", str(file)).code == 0
    with MemorySession.open(there, resume=branch) as alone:
        assert "Where the originals are" in texts(alone.request().messages)
        assert reached(alone) == texts(alone.request().messages)


@pytest.mark.proves("search.cli-round-trip")
@pytest.mark.parametrize("has_ids", [True, False], ids=["with ids", "of an older version"])
def test_a_branch_has_its_past_once_in_a_home_with_fewer_messages(
    home: Path, hermes: Command, tmp_path: Path, has_ids: bool
) -> None:
    with MemorySession.open(home) as other:
        talk(other, 40)
    with MemorySession.open(home, title="trunk") as session:
        talk(session, 3, start=500)
        branch = session.branch("aside")
        talk(session, 1, start=600)
    exported = hermes("sessions", "export", session.id, branch).out
    file, there = tmp_path / "both.jsonl", tmp_path / "there"
    file.write_text(exported if has_ids else re.sub(r'"id": \d+, "message"', '"message"', exported))
    assert hermes("--home", str(there), "sessions", "import", str(file)).code == 0
    with MemorySession.open(there, resume=branch) as moved:
        said = [each.text for each in Contexts(moved._parts.database).originals(branch)]
        assert said == [each["content"] or "" for each in moved.request().messages]


@pytest.mark.proves("export.merge", "compaction.reachable")
@pytest.mark.moves_prefix(reason="the block names messages by the numbers they have there")
def test_a_merged_export_keeps_order_and_pointers_too(home: Path, hermes: Command, tmp_path: Path) -> None:
    session_id, before = lived_in(home, in_place=True)
    there, file = tmp_path / "there", tmp_path / "home.zip"
    assert hermes("export", str(file)).code == 0
    configure(there, NO_HELPER)
    with MemorySession.open(there) as other:
        talk(other, 20, start=500)
    assert hermes("--home", str(there), "import", str(file), "--merge", "--yes").code == 0
    assert_moved(there, session_id, before)


@pytest.mark.proves("compaction.reachable")
def test_what_a_block_names_and_nobody_took_along_is_named_no_more() -> None:
    block = (
        "[CONTEXT COMPACTION — REFERENCE ONLY] read it so.\n\n### lcm:3 · messages 10-12\nThree were said.\n\n"
        "## Kept exactly\n- used again: src/a.py [11] “in src/a.py”\n- used again: src/b.py [40] “in [9]”\n\n"
        "## Where the originals are\nExpand them:\n- 10-12, 30 (4 messages): three\n- 40 (1 message)\n\n"
        "--- END OF CONTEXT SUMMARY — on it goes ---"
    )

    def moved(first: int, last: int) -> list[tuple[int, int]]:
        return [(first + 90, last + 90)] if last <= 12 else []

    text = renumbered({"role": "user", "content": block}, moved)["content"]
    assert "### messages 100-102\nThree were said." in text
    assert "- used again: src/a.py [101] “in src/a.py”\n- used again: src/b.py “in [9]”" in text
    assert "Expand them:\n- 100-102 (4 messages): three\n\n--- END" in text
    result = {
        "role": "tool",
        "content": '[Old tool output cleared to save context space] context_expand ids="11" shows it.',
    }
    assert 'ids="101" shows' in renumbered(result, moved)["content"]
    assert 'ids="0" shows' in renumbered(result, lambda *_: [])["content"]
    assert renumbered({"role": "user", "content": None}, moved) == {"role": "user", "content": None}
    assert renumbered({"role": "user", "content": "10-12"}, moved) == {"role": "user", "content": "10-12"}
