"""The first run: no model is set up yet."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest
from model_server import Answer, ModelServer, chat
from terminal_program import CTRL_D, Terminal

if TYPE_CHECKING:
    from pathlib import Path

LIST = Answer(
    content_type="application/json", pieces=[json.dumps({"data": [{"id": "tiny-1"}, {"id": "m-2"}]}).encode()]
)


@pytest.mark.proves("terminal.setup")
def test_the_first_run_leads_to_a_server_of_ones_own_and_into_the_chat(home: Path) -> None:
    answers = [LIST, Answer(pieces=[chat({"content": "Yes"})]), Answer(pieces=[chat({"content": "Hello!"})])]
    with ModelServer(*answers) as server, Terminal(home, lines=30) as terminal:
        terminal.wait_for("Which one?")
        assert "1  Anthropic (needs a key)" in terminal.screen
        terminal.send("9\r")
        terminal.wait_for("a number from 1 to 5, please")
        terminal.send("4\r")
        terminal.wait_for("Address [")
        terminal.send(f"{server.url}/v1\r")
        terminal.wait_for("its models: tiny-1, m-2")
        terminal.wait_for("Model [tiny-1]:")
        terminal.send("\r")
        terminal.wait_for("tiny-1 answers; saved.")
        terminal.say("good day")
        terminal.wait_for("Hello!")
        terminal.wait_for_prompt()
        terminal.send(CTRL_D)
        assert terminal.wait_for_end() == 0
        assert [each.path for each in server.received] == ["/v1/models", "/v1/chat/completions", "/v1/chat/completions"]
    settings = (home / "config.yaml").read_text()
    assert "default: tiny-1" in settings
    assert f"base_url: {server.url}/v1" in settings


@pytest.mark.proves("terminal.setup")
def test_a_key_is_never_shown_and_is_saved_for_its_owner_only(home: Path) -> None:
    closed = "http://127.0.0.1:9"  # nothing listens there, and nothing leaves this machine
    with Terminal(home, "setup", HTTPS_PROXY=closed, https_proxy=closed) as terminal:
        terminal.wait_for("Which one?")
        terminal.send("1\r")
        terminal.wait_for("Anthropic key (it is not shown):")
        terminal.send("sk-ant-secret-1234\r")
        terminal.wait_for("Model [claude-sonnet-5]:")
        terminal.send("\r")
        terminal.wait_for("Keep it anyway? (y/n)")
        terminal.send("y\r")
        terminal.wait_for("ANTHROPIC_API_KEY is in")
        assert terminal.wait_for_end() == 0
    assert b"secret-1234" not in terminal.raw
    assert (home / ".env").read_text() == "ANTHROPIC_API_KEY=sk-ant-secret-1234\n"
    assert (home / ".env").stat().st_mode & 0o777 == 0o600
    assert "default: claude-sonnet-5" in (home / "config.yaml").read_text()


@pytest.mark.proves("terminal.setup")
def test_leaving_the_set_up_changes_nothing(home: Path) -> None:
    with Terminal(home) as terminal:
        terminal.wait_for("Which one?")
        terminal.send(CTRL_D)
        terminal.wait_for("no model was chosen")
        assert terminal.wait_for_end() == 1
    assert not os.path.exists(home / "config.yaml")


@pytest.mark.proves("terminal.setup")
def test_neither_a_model_nor_a_key_that_was_tried_and_not_kept_stays(home: Path) -> None:
    home.mkdir()
    (home / ".env").write_text("ANTHROPIC_API_KEY=sk-ant-wrong\n")
    (home / ".env").chmod(0o600)
    closed = "http://127.0.0.1:9"
    with Terminal(home, "setup", HTTPS_PROXY=closed, https_proxy=closed) as terminal:
        terminal.wait_for("Which one?")
        terminal.send("1\r")
        terminal.wait_for("Enter keeps the one in .env")
        terminal.send("sk-ant-right\r")
        terminal.wait_for("Model [claude-sonnet-5]:")
        terminal.send("\r")
        terminal.wait_for("Keep it anyway? (y/n)")
        terminal.send(CTRL_D)
        terminal.wait_for("no model was chosen")
        assert terminal.wait_for_end() == 1
    assert (home / ".env").read_text() == "ANTHROPIC_API_KEY=sk-ant-wrong\n"
    assert "claude-sonnet-5" not in (home / "config.yaml").read_text()


@pytest.mark.proves("terminal.setup")
def test_a_server_that_is_not_there_is_said_and_what_is_chosen_already_too(home: Path) -> None:
    home.mkdir()
    (home / "config.yaml").write_text(
        "model:\n  default: tiny-1\n  provider: custom\n  base_url: http://127.0.0.1:9/v1\n"
    )
    settings = (home / "config.yaml").read_text()
    with Terminal(home, "setup", lines=40) as terminal:
        terminal.wait_for("Hermes talks to tiny-1. Choosing takes a minute; Ctrl-C keeps it.")
        terminal.wait_for("Which one?")
        terminal.send("4\r")
        terminal.wait_for("Address [")
        terminal.send("http://127.0.0.1:9/v1\r")
        terminal.wait_for("nothing answers at http://127.0.0.1:9/v1: start the server")
        terminal.send("\r")
        terminal.wait_for("Model:")
        terminal.send("m-3\r")
        terminal.wait_for("Keep it anyway? (y/n)")
        terminal.send("n\r")
        terminal.wait_for("4  a server of your own")
        terminal.send(CTRL_D)
        terminal.wait_for("nothing was changed")
        assert terminal.wait_for_end() == 1
    assert (home / "config.yaml").read_text() == settings
    assert not (home / ".env").exists()


@pytest.mark.proves("terminal.setup")
def test_an_address_is_completed_and_the_window_is_taken_from_the_server(home: Path) -> None:
    home.mkdir()
    (home / "config.yaml").write_text("model:\n  default: claude-sonnet-5\n  context_length: 500000\n")
    listed = json.dumps({"data": [{"id": "tiny-1", "max_model_len": 16000}, {"id": "m-2"}]}).encode()
    answers = [
        Answer(content_type="application/json", pieces=[listed]),
        Answer(pieces=[chat({"content": "Yes"})]),
        Answer(content_type="application/json", pieces=[listed]),
        Answer(pieces=[chat({"content": "Yes"})]),
    ]
    with ModelServer(*answers) as server:
        for model, window in (("tiny-1", "context_length: 16000"), ("m-2", "m-2")):
            with Terminal(home, "setup", lines=30) as terminal:
                terminal.wait_for("Which one?")
                terminal.send("4\r")
                terminal.wait_for("Address [")
                terminal.send(f"{server.url.removeprefix('http://')}/\r")
                terminal.wait_for("Model [tiny-1]:")
                terminal.send(f"{model}\r")
                terminal.wait_for(f"{model} answers; saved.")
                assert terminal.wait_for_end() == 0
            settings = (home / "config.yaml").read_text()
            assert f"base_url: {server.url}/v1" in settings
            assert window in settings
    assert "context_length" not in settings


@pytest.mark.proves("terminal.setup")
def test_a_server_that_names_no_models_is_asked_for_by_a_name(home: Path) -> None:
    unknown = Answer(status=404, content_type="application/json", pieces=[b"{}"])
    answers = [unknown] * 4 + [Answer(pieces=[chat({"content": "Yes"})])]
    with ModelServer(*answers) as server, Terminal(home, "setup", lines=30) as terminal:
        terminal.wait_for("Which one?")
        terminal.send("4\r")
        terminal.wait_for("Address [")
        terminal.send(f"{server.url}/v1\r")
        terminal.wait_for("If it wants a key, type it")
        terminal.send("\r")
        terminal.wait_for("Model:")
        terminal.send("\r")
        terminal.wait_for("type the name of one")
        terminal.send("m-2\r")
        terminal.wait_for("m-2 answers; saved.")
        assert terminal.wait_for_end() == 0
