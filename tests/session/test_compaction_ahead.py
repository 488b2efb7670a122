"""Compaction that is prepared while the conversation goes on, and the ledger that survives every one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from compacted import configure, talk

from hermes.compaction.messages import is_block, parse_block
from hermes.session.session import MemorySession

if TYPE_CHECKING:
    from pathlib import Path

NO_HELPER = "auxiliary:\n  compression:\n    enabled: false\nreview:\n  enabled: false\n"


def do(session: MemorySession, tool: str, result: str = '{"success": true}', **arguments: object) -> None:
    """A turn in which a tool of the host is called."""
    session.prepare_turn(f"Please use {tool}. {'more words ' * 60}")
    function = {"name": tool, "arguments": json.dumps(arguments)}
    session.record(
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function", "function": function}]}
    )
    session.record_result("c1", result)
    session.finish_turn(f"Done. {'it works now ' * 60}")


def ledger(session: MemorySession) -> list[str]:
    (block,) = [message for message in session.request().messages if is_block(message)]
    return parse_block(block).ledger.splitlines()


@pytest.mark.proves("compaction.ledger")
def test_files_changed_and_commands_run_are_listed_exactly_after_every_compaction(home: Path) -> None:
    configure(home, NO_HELPER)
    with MemorySession.open(home) as session:
        talk(session, 4)
        do(session, "write_file", path="src/a.py", content="x = 1")
        do(session, "patch", path="src/a.py", old_text="1", new_text="2")
        do(session, "patch", '{"success": false, "error": "no such text"}', path="src/b.py", old_text="1", new_text="2")
        do(session, "apply_patch", input="*** Begin Patch\n*** Update File: src/c.py\n@@\n-1\n+2\n*** End Patch")
        do(session, "read_file", path="src/d.py")
        do(session, "terminal", '{"success": false, "exit_code": 1, "output": "1 failed"}', command="pytest -q\n  -x")
        do(session, "terminal", '{"success": false, "error": "held back"}', command="rm -rf build")
        do(session, "Bash", "ok", command="git push origin main")
        talk(session, 4, start=4)
        assert session.compact()
        first = ["- changed: src/a.py (2 times)", "- changed: src/c.py", "- ran: pytest -q -x"]
        assert ledger(session) == [*first, "- ran: git push origin main"]
        do(session, "terminal", command="pytest -q -x")
        talk(session, 6, start=8)
        assert session.compact()
        talk(session, 6, start=14)
        assert session.compact()
        last = ["- ran: git push origin main", "- ran: pytest -q -x (2 times)"]
        assert ledger(session) == [*first[:2], *last]
    with MemorySession.open(home, resume=session.id) as again:
        assert ledger(again) == [*first[:2], *last]


@pytest.mark.proves("compaction.ledger")
def test_a_ledger_without_room_counts_what_it_does_not_show(home: Path) -> None:
    configure(home, NO_HELPER)
    with MemorySession.open(home) as session:
        talk(session, 2)  # the first messages are never compacted
        for number in range(40):
            do(session, "write_file", path=f"src/part_{number}/{'deep/' * 12}module.py", content="x = 1")
        assert session.compact()
        lines = ledger(session)
        talk(session, 8)
        assert session.compact()
        later = ledger(session)
    for shown in (lines, later):
        hidden = int(shown[0].removeprefix("- changed before these: "))
        assert 0 < hidden < 40
        assert shown[-1].startswith("- changed: src/part_")
    assert int(later[0].rpartition(" ")[2]) + len(later) - 1 == 40
