"""Texts that others wrote cannot act on the terminal, whichever command prints them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hermes.cli.chat.screen import Screen, TurnView
from hermes.conversations.database import SessionDB
from hermes.memory.store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran

    Command = Callable[..., Ran]

# Sets the title, clears the screen, a CSI of one byte, writes from right to left.
_HOSTILE = "tea\x1b]0;owned\x07\x1b[2J\x9b31m\u202eeat"
_ACTS = ("\x1b", "\x07", "\x9b", "\u202e")


def _acts(ran: Ran) -> list[str]:
    return [each for each in _ACTS if each in ran.out + ran.err]


_COMMANDS = (
    ("memory", "list"),
    ("memory", "list", "--json"),
    ("memory", "log"),
    ("sessions", "list"),
    ("sessions", "list", "--json"),
    ("sessions", "search", "tea"),
    ("sessions", "show", "s1"),
    ("tool", "session_search", '{"query": "tea"}'),
    ("prompt",),
    ("scan", f"/nowhere/{_HOSTILE}"),
    ("sessions", "import", f"/nowhere/{_HOSTILE}"),
    ("memory", "remove", _HOSTILE),
    (_HOSTILE,),
    ("config", "set", _HOSTILE, "1"),
)


@pytest.mark.proves("terminal.safe-commands")
def test_no_command_prints_what_acts_on_a_terminal(hermes: Command, home: Path) -> None:
    assert hermes("memory", "add", "something").code == 0
    with open(MemoryStore.open(home).path("memory"), "w", encoding="utf-8") as file:
        file.write(_HOSTILE)
    with SessionDB.open(home / "state.db") as db:
        db.create_session(source="cli", title=_HOSTILE, session_id="s1")
        db.append("s1", {"role": "user", "content": _HOSTILE})
    shown = hermes("memory", "list", "--json").json
    assert repr(_HOSTILE) in repr(shown), "a script gets the text as it is"
    for command in _COMMANDS:
        ran = hermes(*command)
        assert ran.out + ran.err
        assert (command, _acts(ran)) == (command, [])


@pytest.mark.proves("terminal.safe-commands")
def test_a_question_shows_what_would_hide_a_part_of_the_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no(_prompt: str) -> str:
        return "n"

    monkeypatch.setattr("hermes.cli.ui.read_line", no)
    assert not TurnView(Screen()).ask("Run this command?\nrm -r important\x1b[1A\x1b[2K\u202e tidy")
    shown = capsys.readouterr().out
    assert "rm -r important\\u001b[1A\\u001b[2K\\u202e tidy" in shown
