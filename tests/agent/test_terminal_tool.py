"""Running commands: who is asked, what stops them, and what they get to see."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from agents import call_tools, configure, first_json

from hermes import Agent
from hermes.base.events import ToolReturned, TurnFinished
from hermes.llm.scripted import Reply, Scripted
from hermes.tools import terminal as processes


def yes(_question: str) -> bool:
    return True


@pytest.mark.proves("agent.terminal")
def test_a_command_runs_in_the_folder_when_the_person_agrees(home: Path, tmp_path: Path) -> None:
    asked: list[str] = []

    def agree(question: str) -> bool:
        asked.append(question)
        return True

    folder = tmp_path / "work"
    call = ("terminal", {"command": "pwd; echo oops >&2; exit 3"})
    (result,) = call_tools(home, folder, call, ask=agree)
    assert (result["success"], result["exit_code"], result["output"]) == (False, 3, f"{folder}\noops\n")
    assert asked == [f"Run this command in {folder}?\npwd; echo oops >&2; exit 3"]


@pytest.mark.proves("agent.terminal-policy")
def test_a_no_nobody_to_ask_and_the_policy_deny_all_refuse(home: Path, tmp_path: Path) -> None:
    call = ("terminal", {"command": "touch ran"})
    (no,) = call_tools(home, tmp_path / "work", call, ask=lambda _: False)
    (alone,) = call_tools(home, tmp_path / "work", call)
    configure(home, "terminal: {policy: deny}\n")
    (denied,) = call_tools(home, tmp_path / "work", call, ask=yes)
    assert "the user said no" in no["error"]
    assert "nobody can be asked" in alone["error"]
    assert "terminal.policy is deny" in denied["error"]
    assert not (tmp_path / "work" / "ran").exists()


@pytest.mark.proves("agent.terminal-policy")
def test_allowed_commands_run_without_asking_and_nothing_hides_behind_them(home: Path, tmp_path: Path) -> None:
    configure(home, "command_allowlist: [echo hello, 'ls | wc -l']\n")
    commands = {
        "echo hello": True,
        "echo hello world": True,
        "ls | wc -l": True,
        "echo": False,
        "echo 'hello; x'": False,
        "echo hello; id": False,
        "echo hello && id": False,
        "echo hello $(id)": False,
        "echo hello `id`": False,
        "echo hello > file": False,
        "echo hello\nid": False,
        "echo hellox": False,
        "ls | wc -l; id": False,
        "echo 'hello": False,
    }
    results = call_tools(home, tmp_path / "work", *(("terminal", {"command": each}) for each in commands))
    assert {command: each["success"] for command, each in zip(commands, results, strict=True)} == commands


@pytest.mark.proves("agent.terminal")
def test_a_command_that_takes_too_long_is_ended_with_everything_it_started(home: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "held")
    reader = os.open(tmp_path / "held", os.O_RDONLY | os.O_NONBLOCK)
    command = "exec 9> ../held; echo started >&9; sleep 600 & sleep 600"
    (result,) = call_tools(home, tmp_path / "work", ("terminal", {"command": command, "timeout": 1}), ask=yes)
    assert "ended after 1 s" in result["error"]
    # The second read finds the end of the pipe: nobody holds it any more.
    assert [os.read(reader, 100), os.read(reader, 100)] == [b"started\n", b""]
    os.close(reader)


@pytest.mark.proves("agent.interrupt")
def test_an_interrupt_ends_a_running_command_and_the_turn(home: Path, tmp_path: Path) -> None:
    model = Scripted([Reply(calls=[("terminal", {"command": "touch started; sleep 600"})] * 2), "never"])
    (tmp_path / "work").mkdir()

    def stop_when_started() -> None:
        while not (tmp_path / "work" / "started").exists():
            time.sleep(0.01)
        agent.interrupt()

    with Agent.open(home, model=model, cwd=str(tmp_path / "work"), ask=yes) as agent:
        watcher = threading.Thread(target=stop_when_started)
        watcher.start()
        *events, end = agent.turn("go")
        watcher.join()
    returned = [first_json(each.result) for each in events if isinstance(each, ToolReturned)]
    assert [each["error"] for each in returned] == ["the user stopped the command"]
    assert isinstance(end, TurnFinished)
    assert end.reason == "interrupted"


@pytest.mark.proves("agent.terminal")
def test_a_process_in_the_background_does_not_hold_the_turn(home: Path, tmp_path: Path) -> None:
    command = "sleep 30 & echo $! > pid; echo started"
    (result,) = call_tools(home, tmp_path / "work", ("terminal", {"command": command}), ask=yes)
    os.kill(int((tmp_path / "work" / "pid").read_text()), 9)  # ProcessLookupError if it had been waited for
    assert result["output"] == "started\n"


@pytest.mark.proves("agent.terminal")
def test_a_command_does_not_see_keys_of_the_environment(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(home, "terminal: {policy: allow, pass_environment: [MY_TOKEN]}\n")
    monkeypatch.setenv("SOME_API_KEY", "k1")
    monkeypatch.setenv("MY_TOKEN", "k2")
    monkeypatch.setenv("PLAIN", "p")
    (result,) = call_tools(home, tmp_path / "work", ("terminal", {"command": "echo $SOME_API_KEY-$MY_TOKEN-$PLAIN"}))
    assert result["output"] == "-k2-p\n"


@pytest.mark.proves("agent.terminal")
def test_all_output_of_a_command_that_ended_is_read_and_one_that_closed_it_is_waited_for(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_PIECE", 8)  # so that most of it is still unread when the command has ended
    many, closed, unusable = call_tools(
        home,
        tmp_path / "work",
        ("terminal", {"command": "printf 'x%.0s' {1..16000}"}),
        ("terminal", {"command": "exec >&- 2>&-; sleep 0.2; exit 7"}),
        ("terminal", {"command": "echo \ud83c"}),
        ask=yes,
    )
    assert many["output"] == "x" * 2000 + "… [14,000 more characters]"
    assert (closed["exit_code"], closed["output"]) == (7, "")
    assert "cannot be run" in unusable["error"]


def _alive(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.proves("agent.interrupt")
@pytest.mark.parametrize(
    "command",
    [
        "exec >&- 2>&-; echo $$ > pid; exec sleep 600",  # its output is closed, it goes on
        "setsid sh -c 'exec sleep 5' & echo $$ > pid; exec sleep 600",  # somebody outside of its group holds the pipe
    ],
)
def test_an_interrupt_ends_whatever_a_command_did_with_its_output(home: Path, tmp_path: Path, command: str) -> None:
    noted = tmp_path / "work" / "pid"

    def stop_when_started() -> None:
        while not noted.exists() or not noted.read_text().strip():
            time.sleep(0.01)
        agent.interrupt()

    noted.parent.mkdir()
    call = Reply(calls=[("terminal", {"command": command})])
    with Agent.open(home, model=Scripted([call, "never"]), cwd=str(noted.parent), ask=yes) as agent:
        watcher = threading.Thread(target=stop_when_started)
        watcher.start()
        (returned,) = [first_json(each.result) for each in agent.turn("go") if isinstance(each, ToolReturned)]
        watcher.join()
    assert returned["error"] == "the user stopped the command"
    assert not _alive(int(noted.read_text()))


@pytest.mark.proves("agent.terminal")
def test_a_program_that_goes_on_in_the_background_can_still_write(home: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "more")
    os.mkfifo(tmp_path / "told")
    command = "trap '' PIPE; (read line < ../more; echo $line; echo code $? > ../told) & echo started"
    (result,) = call_tools(home, tmp_path / "work", ("terminal", {"command": command}), ask=yes)
    assert (result["exit_code"], result["output"]) == (0, "started\n")
    (tmp_path / "more").write_text("later\n")
    assert (tmp_path / "told").read_text() == "code 0\n"


@pytest.mark.proves("agent.interrupt")
@pytest.mark.parametrize("when", ["as it starts", "while it runs"])
def test_ctrl_c_ends_a_running_command_and_the_turn(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    noted = tmp_path / "work" / "pid"
    known = threading.Event()

    def wait_for_start() -> None:
        while not noted.exists() or not noted.read_text().strip():
            time.sleep(0.01)

    class Started(subprocess.Popen[bytes]):
        def __init__(self, *given: Any, **more: Any) -> None:
            super().__init__(*given, **more)
            if when == "as it starts":
                wait_for_start()
                signal.raise_signal(signal.SIGINT)
            known.set()

    def press_when_started() -> None:
        known.wait()
        wait_for_start()
        if when == "while it runs":
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    monkeypatch.setattr(subprocess, "Popen", Started)
    noted.parent.mkdir()
    call = Reply(calls=[("terminal", {"command": "echo $$ > pid; exec sleep 600"})])
    with Agent.open(home, model=Scripted([call, "never"]), cwd=str(noted.parent), ask=yes) as agent:
        watcher = threading.Thread(target=press_when_started)
        watcher.start()
        *_, end = agent.turn("go")
        watcher.join()
    assert isinstance(end, TurnFinished)
    assert end.reason == "interrupted"
    assert not _alive(int(noted.read_text()))


@pytest.mark.proves("agent.terminal-policy")
def test_an_entry_of_the_allow_list_that_is_no_command_allows_nothing(home: Path, tmp_path: Path) -> None:
    configure(home, "command_allowlist: [\"echo 'open\", '']\n")
    (result,) = call_tools(home, tmp_path / "work", ("terminal", {"command": "echo open"}))
    assert "nobody can be asked" in result["error"]
