"""The program's own commands inside the chat."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from model_server import Answer, ModelServer, chat
from pictures import as_openai, png, text
from terminal_program import Terminal, script

from hermes.conversations.database import SessionDB

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


@pytest.mark.proves("images.terminal")
def test_an_image_goes_with_the_next_message_or_with_words_behind_its_name(home: Path, tmp_path: Path) -> None:
    answers = [Answer(pieces=[chat({"content": f"Answer {number}."})]) for number in range(4)]
    (tmp_path / "a chart.png").write_bytes(png())
    with ModelServer(*answers) as server:
        home.mkdir()
        (home / "config.yaml").write_text(f"model: {{default: m, base_url: '{server.url}'}}\n")
        with Terminal(home, lines=60) as terminal:
            terminal.say("/image 'a chart.png'")
            terminal.wait_for("[image: PNG, 30×20, 688 bytes] goes with your next message")  # noqa: RUF001
            terminal.say("what is this?")
            terminal.wait_for("Answer 0.")
            terminal.say("/retry")
            terminal.wait_for("Answer 1.")
            terminal.say("/image a\\ chart.png and this?")
            terminal.wait_for("Answer 2.")
            terminal.say("/image nothing.png")
            terminal.wait_for("nothing.png cannot be read")
            terminal.say("bye")
            terminal.wait_for("Answer 3.")
            terminal.say("/quit")
            assert terminal.wait_for_end() == 0
        first, again, third, last = (each.json["messages"] for each in server.received)
    assert first[-1]["content"] == again[-1]["content"] == [text("what is this?"), as_openai(png())]
    assert third[-1]["content"] == [text("and this?"), as_openai(png())]
    assert last[-1]["content"] == "bye"


@pytest.mark.proves("receipts.surfaces")
def test_the_chat_shows_receipts_on_request_and_below_each_answer(home: Path) -> None:
    script(home, {"when": "", "text": "Vim."})
    with (home / "config.yaml").open("a") as settings:
        settings.write("display: {receipts: true}\n")
    with Terminal(home, lines=60, columns=140) as terminal:
        terminal.say("/receipt")
        terminal.wait_for("no answer has a receipt yet")
        terminal.say("which editor?")
        terminal.wait_for("receipt 20")
        terminal.say("/receipt 1")
        terminal.wait_for("question   which editor?")
        terminal.wait_for("in front of the model")
        terminal.say("/receipt 9")
        terminal.wait_for("no answer of turn 9 has a receipt")
        terminal.say("/quit")
        assert terminal.wait_for_end() == 0
