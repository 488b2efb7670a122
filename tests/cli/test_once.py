"""One question and one answer: `-q`, pipes, exit codes; and what a script gets when there is no model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from model_server import Answer, ModelServer, chat, failing
from pictures import as_openai, jpeg, png
from pictures import text as words
from terminal_program import CTRL_C, Terminal, script

from hermes.base.tokens import estimate

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran

HELLO = {"when": "hello", "text": "Hello, whoever you are."}
REMEMBER = {
    "when": "remember",
    "calls": [{"name": "memory", "arguments": {"action": "add", "target": "user", "content": "Likes tea."}}],
}


def piped(home: Path, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    environment = {name: text for name, text in os.environ.items() if not name.endswith("_API_KEY")}
    return subprocess.run(
        [sys.executable, "-m", "hermes", *arguments],
        input=given,
        capture_output=True,
        text=True,
        env={**environment, "HERMES_HOME": os.fspath(home), "TERM": "xterm-256color"},
        check=False,
    )


@pytest.mark.proves("terminal.piped")
def test_what_is_piped_in_is_the_question_and_only_the_answer_comes_out(home: Path) -> None:
    script(home, {"when": "Staged", "text": "Noted."}, REMEMBER)
    ran = piped(home, given="please remember\nthat I like tea\n")
    waits = "hermes: 1 write waits for you; `hermes memory pending` shows what and why\n"  # nobody knows who wrote it
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "Noted.\n", waits)


@pytest.mark.proves("terminal.piped")
def test_what_is_piped_in_can_stand_below_a_question(home: Path) -> None:
    script(home, {"when": "what is wrong?\n\nerror 7 in line 3", "text": "Line 3."})
    assert piped(home, "-q", "what is wrong?", "--stdin", given="error 7 in line 3\n").stdout == "Line 3.\n"


@pytest.mark.proves("terminal.piped")
def test_an_empty_pipe_is_a_usage_error(home: Path) -> None:
    script(home, HELLO)
    ran = piped(home)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "give a text with -q, or pipe one in" in ran.stderr


@pytest.mark.proves("terminal.once")
def test_one_answer_as_json_tells_usage_session_and_tool_calls(hermes: Callable[..., Ran], home: Path) -> None:
    script(home, REMEMBER, {"when": "Entry added", "text": "Noted."})
    told = hermes("-q", "remember that I like tea", "--json").json
    (call,) = told["tool_calls"]
    assert (told["reply"], told["reason"], told["model_calls"], told["notices"]) == ("Noted.", "stop", 2, [])
    assert (call["name"], json.loads(call["result"])["message"]) == ("memory", "Entry added.")
    assert told["usage"]["input_tokens"] > 100
    assert hermes("sessions", "show", told["session"]).code == 0


@pytest.mark.proves("terminal.once", "terminal.resume")
def test_one_answer_can_go_on_with_an_earlier_conversation(hermes: Callable[..., Ran], home: Path) -> None:
    script(home, HELLO)
    first = hermes("-q", "hello one", "--json").json
    second = hermes("-q", "hello two", "--continue", "--json").json
    assert second["session"] == first["session"]
    assert hermes("sessions", "rename", first["session"], "greetings").code == 0
    assert hermes("--resume", "greetings", "-q", "hello three", "--json").json["session"] == first["session"]
    assert hermes("--resume", "greet", "-q", "hello four", "--json").json["session"] == first["session"]
    missing = hermes("--resume", "no such thing", "-q", "hello")
    assert (missing.code, "hermes sessions list" in missing.err) == (1, True)


@pytest.mark.proves("terminal.resume")
def test_there_is_nothing_to_continue_at_first(hermes: Callable[..., Ran], home: Path) -> None:
    script(home, HELLO)
    ran = hermes("--continue", "-q", "hello")
    assert (ran.code, ran.out) == (1, "")
    assert "no conversation to continue yet" in ran.err


@pytest.mark.proves("terminal.once")
def test_a_model_that_fails_is_exit_code_1_with_its_reason(hermes: Callable[..., Ran], home: Path) -> None:
    script(home, {"error": "the key was refused"})
    ran = hermes("-q", "hello")
    assert (ran.code, ran.out, ran.err) == (1, "", "hermes: the key was refused\n")


@pytest.mark.proves("terminal.once", "llm.retry")
def test_a_script_learns_on_standard_error_that_a_model_is_asked_again(home: Path, hermes: Callable[..., Ran]) -> None:
    busy = failing(429, {"error": {"message": "too many at once"}}, **{"retry-after": "0"})
    answered = Answer(pieces=[chat({"content": "Hello."})])
    home.mkdir()
    with ModelServer(busy, answered, busy, answered, *[busy] * 4) as server:
        (home / "config.yaml").write_text(f"model:\n  default: m\n  base_url: {server.url}/v1\n")
        ran = hermes("-q", "hello")
        assert (ran.code, ran.out) == (0, "Hello.\n")
        told = ran.err.removeprefix("hermes: ")
        assert told.endswith("; trying again, up to 3 times\n")
        assert "too many at once" in told
        quiet = hermes("-q", "hello", "--json")
        assert quiet.err == ""
        assert quiet.json["notices"] == [told.rstrip("\n")]
        given_up = hermes("-q", "hello")
    assert (given_up.code, given_up.out) == (1, "")
    assert given_up.err.count("trying again, up to 3 times\n") == 1
    assert len(server.received) == 8


@pytest.mark.proves("prompt.first-request")
@pytest.mark.parametrize("model", ["some-model", "qwen3:8b", "gpt-5.2", "gemini-3-pro"])
def test_a_first_hello_costs_at_most_3000_tokens(model: str, home: Path, hermes: Callable[..., Ran]) -> None:
    home.mkdir()
    with ModelServer(Answer(pieces=[chat({"content": "Hello."})])) as server:
        (home / "config.yaml").write_text(f"model:\n  default: {model}\n  base_url: {server.url}/v1\n")
        assert hermes("-q", "hello").out == "Hello.\n"
    (sent,) = server.received
    assert {"memory", "session_search", "skill_manage", "terminal", "delegate_task"} <= {
        tool["function"]["name"] for tool in sent.json["tools"]
    }
    assert estimate(sent.body.decode()) <= 3_000


@pytest.mark.proves("prompt.first-request")
def test_a_first_hello_in_a_chat_costs_no_more(home: Path) -> None:
    home.mkdir()
    with ModelServer(Answer(pieces=[chat({"content": "Hello."})])) as server:
        (home / "config.yaml").write_text(f"model:\n  default: m\n  base_url: {server.url}/v1\n")
        with Terminal(home) as terminal:
            terminal.say("hello")
            terminal.wait_for("Hello.")
    assert estimate(server.received[0].body.decode()) <= 3_000


@pytest.mark.proves("terminal.once", "terminal.interrupt")
def test_ctrl_c_ends_one_answer_with_code_130(home: Path) -> None:
    script(home, {"text": "Once upon a time " + "and on " * 400, "pause": 0.02})
    with Terminal(home, "-q", "tell me a story") as terminal:
        terminal.wait_for("Once upon")
        terminal.send(CTRL_C)
        assert terminal.wait_for_end() == 130


@pytest.mark.proves("terminal.no-model")
def test_a_script_without_a_model_is_told_what_to_do(home: Path, hermes: Callable[..., Ran]) -> None:
    ran = piped(home, given="hello")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "run `hermes setup` at a terminal, or name one with --model" in ran.stderr
    assert hermes("-q", "hello").code == 2
    assert "config set model.default" in hermes("setup").err
    assert not home.exists()


@pytest.mark.proves("terminal.no-model")
def test_a_model_that_the_flag_names_and_nobody_has_is_the_flags_mistake(
    hermes: Callable[..., Ran], home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    missing = hermes("--model", "scripted:nope.json", "-q", "hello")
    assert missing.code == 2
    assert missing.err.startswith("hermes: --model scripted:nope.json: there is no script ")
    unknown = hermes("--model", "clod", "-q", "hello")
    assert unknown.code == 1
    assert unknown.err.startswith(
        "hermes: --model clod: no known provider serves 'clod' (did you mean claude-…?), and no "
    )
    (tmp_path / "here.json").write_text('[{"calls": [["memory", {}]]}]')
    wrong = hermes("--model", "scripted:here.json", "-q", "hello")
    assert (wrong.code, "here.json: step 1: expected calls as a list of" in wrong.err) == (2, True)
    (tmp_path / "here.json").write_text('["From this folder."]')
    assert hermes("--model", "scripted:here.json", "-q", "hello").out == "From this folder.\n"


@pytest.mark.proves("terminal.no-model")
def test_a_script_that_is_not_named_is_told_as_that(hermes: Callable[..., Ran], home: Path) -> None:
    script(home, HELLO)
    hermes("config", "set", "model.provider", "scripted")
    assert hermes("config", "unset", "model.default").out.startswith("model.default is not set any more (removed from ")
    assert hermes("config", "unset", "model.default").out.endswith("it is not set\n")
    ran = hermes("-q", "hello")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("hermes: model.provider is scripted, but model.default names no script: ")
    assert hermes("config", "set", "model.default", "script.json").code == 0
    assert hermes("-q", "hello").out == "Hello, whoever you are.\n"


@pytest.mark.proves("terminal.no-model")
def test_a_model_without_its_key_names_the_key(
    home: Path, hermes: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    home.mkdir()
    (home / "config.yaml").write_text("model:\n  default: claude-opus-5\n")
    ran = hermes("-q", "hello")
    assert ran.code == 2
    assert "put ANTHROPIC_API_KEY=… into .env" in ran.err


@pytest.mark.proves("terminal.light")
def test_other_commands_do_not_load_the_chat(home: Path) -> None:
    code = (
        "import sys; from hermes.cli.app import run; run(['memory', 'add', 'x']); run(['sessions', 'list']);"
        "print([m for m in sys.modules if m.startswith(('prompt_toolkit', 'rich', 'httpx', 'hermes.cli.chat'))])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"


@pytest.mark.proves("terminal.piped")
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_that_are_closed_are_no_end(home: Path, closed: str) -> None:
    script(home, HELLO)
    command = f'"{sys.executable}" -m hermes -q hello {closed}'
    ran = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == ("" if ">&-" in closed.split() else "Hello, whoever you are.\n")


@pytest.mark.proves("images.terminal")
def test_a_question_is_asked_with_images(home: Path, hermes: Callable[..., Ran], tmp_path: Path) -> None:
    (tmp_path / "one.png").write_bytes(png())
    (tmp_path / "two.jpg").write_bytes(jpeg(40, 30))
    with ModelServer(Answer(pieces=[chat({"content": "Two pictures."})])) as server:
        home.mkdir()
        (home / "config.yaml").write_text(f"model: {{default: m, base_url: '{server.url}'}}\n")
        images = [word for name in ("one.png", "two.jpg") for word in ("--image", str(tmp_path / name))]
        ran = hermes("-q", "what is this?", *images)
        assert (ran.code, ran.out, ran.err) == (0, "Two pictures.\n", "")
        asked = server.received[0].json["messages"][-1]["content"]
    assert asked == [words("what is this?"), as_openai(png()), as_openai(jpeg(40, 30), "image/jpeg")]


@pytest.mark.proves("images.terminal", "images.refused")
def test_a_file_that_is_no_image_is_named_before_anything_is_asked(
    home: Path, hermes: Callable[..., Ran], tmp_path: Path
) -> None:
    script(home, HELLO)
    (tmp_path / "notes.png").write_text("only words")
    ran = hermes("-q", "what is this?", "--image", str(tmp_path / "notes.png"))
    assert (ran.code, ran.out) == (1, "")
    assert "notes.png is no image this program knows (PNG, JPEG, GIF and WebP are taken)" in ran.err
    ran = hermes("-q", "what is this?", "--image", str(tmp_path / "none.png"))
    assert "none.png cannot be read: No such file or directory" in ran.err
