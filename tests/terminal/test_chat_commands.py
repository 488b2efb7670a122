"""The program's own commands inside the chat."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hermes.storage.sessions import SessionDB
from terminal_program import Terminal, script

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.proves("terminal.commands")
def test_a_command_of_the_program_reads_and_fails_in_the_words_of_the_chat(home: Path) -> None:
    script(home)
    with Terminal(home, lines=60) as terminal:
        terminal.say("/memory add --target user 'tis the season's end")
        terminal.wait_for("Entry added. (user")
        terminal.say("/memory add I don't use tabs, and it's fine")
        terminal.wait_for("Entry added. (memory")
        terminal.say("/memory list")
        terminal.wait_for("   1  I don't use tabs, and it's fine")
        terminal.wait_for("   1  'tis the season's end")
        terminal.say('/memory replace "use tabs" "Uses spaces."')
        terminal.wait_for("Entry replaced.")
        terminal.say("/memory add")
        terminal.wait_for("the following arguments are required: TEXT (`/memory add --help`)")
        terminal.wait_for("usage: /memory add [-h]")
        terminal.say("/memory remove --help")
        terminal.wait_for("usage: /memory remove [-h]")
        assert "hermes" not in terminal.screen.partition("Entry replaced.")[2]
        terminal.say("/quit")
        assert terminal.wait_for_end() == 0


@pytest.mark.proves("search.cli-list", "terminal.narrow")
def test_at_a_terminal_the_list_of_conversations_has_a_header_and_no_broken_lines(home: Path) -> None:
    with SessionDB.open(home / "state.db", owner="local") as db:
        db.append(db.create_session(title="A title that is far too long"), {"role": "user", "content": "hello"})
    with Terminal(home, "sessions", "list", columns=80) as terminal:
        assert terminal.wait_for_end() == 0
        header, row = terminal.screen.splitlines()
    assert header.split()[:3] == ["id", "last", "used"]
    assert (len(row), row[-1]) == (80, "…")
    assert header.index("title") == row.index("A title")
