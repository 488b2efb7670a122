"""File tools: reading in parts, exact changes, and the border they work within."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

import pytest
from agents import call_tools, configure

from hermes import Agent, MemoryStore
from hermes.base.events import ToolReturned
from hermes.llm.scripted import Reply, Scripted

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran


@pytest.mark.proves("agent.files")
def test_a_file_is_read_in_parts_with_numbered_lines(home: Path, folder: Path) -> None:
    (folder / "a.txt").write_text("".join(f"line {number}\n" for number in range(1, 11)))
    first, second = call_tools(
        home, folder, ("read_file", {"path": "a.txt", "limit": 4}), ("read_file", {"path": "a.txt", "offset": 9})
    )
    assert first["content"] == "1\tline 1\n2\tline 2\n3\tline 3\n4\tline 4"
    assert (first["total_lines"], first["truncated"], first["next_offset"]) == (10, True, 5)
    assert second["content"] == "9\tline 9\n10\tline 10"
    assert "truncated" not in second


@pytest.mark.proves("agent.bounded")
def test_results_stay_within_the_limits_of_the_settings(home: Path, folder: Path) -> None:
    configure(home, "file_read_max_chars: 1000\ntool_output: {max_line_length: 80, max_lines: 10, max_bytes: 1000}\n")
    (folder / "wide.txt").write_text("x" * 500 + "\n" + "y\n" * 1_000)
    (folder / "big.txt").write_text(("z" * 70 + "\n") * 9)
    read, printed = call_tools(
        home,
        folder,
        ("read_file", {"path": "wide.txt"}),
        ("terminal", {"command": "seq 1 1000; echo end"}),
        ask=lambda _: True,
    )
    assert read["content"].startswith("1\t" + "x" * 80 + "… [420 more characters]\n2\ty")
    assert read["next_offset"] == 11
    assert printed["output"].startswith("1\n2\n3\n4\n[… 992 lines left out …]\n")
    assert printed["output"].endswith("1000\nend\n")


@pytest.mark.proves("agent.files")
def test_what_is_missing_binary_or_a_pipe_is_told_and_not_waited_for(home: Path, folder: Path) -> None:
    (folder / "notes.txt").write_text("x")
    (folder / "image.bin").write_bytes(b"\x89PNG\0\0")
    os.mkfifo(folder / "pipe")
    missing, binary, pipe = call_tools(
        home, folder, *(("read_file", {"path": name}) for name in ("note.txt", "image.bin", "pipe"))
    )
    assert missing["error"] == "there is no file note.txt; similar: notes.txt"
    assert "binary" in binary["error"]
    assert "a pipe" in pipe["error"]


@pytest.mark.proves("agent.files")
def test_a_passage_is_changed_where_it_stands_once_and_the_file_keeps_its_form(home: Path, folder: Path) -> None:
    path = folder / "run.sh"
    path.write_bytes(b"one\r\ntwo\r\none\r\n")
    path.chmod(0o755)
    twice, gone, done = call_tools(
        home,
        folder,
        ("patch", {"path": "run.sh", "old_text": "one", "new_text": "1"}),
        ("patch", {"path": "run.sh", "old_text": "three", "new_text": "3"}),
        ("patch", {"path": "run.sh", "old_text": "two\none", "new_text": "2\n1"}),
    )
    assert "2 times in run.sh (lines 1, 3)" in twice["error"]
    assert "old_text is not in run.sh" in gone["error"]
    assert (done["success"], done["first_line"]) == (True, 2)
    assert path.read_bytes() == b"one\r\n2\r\n1\r\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o755
    assert os.listdir(folder) == ["run.sh"]


@pytest.mark.proves("agent.files")
def test_a_file_is_written_with_the_folders_above_it(home: Path, folder: Path) -> None:
    (result,) = call_tools(home, folder, ("write_file", {"path": "docs/a/b.md", "content": "hä\n"}))
    assert result["success"]
    assert (folder / "docs/a/b.md").read_text() == "hä\n"


@pytest.mark.proves("agent.files-border")
def test_paths_outside_the_folder_need_a_yes_that_holds_for_the_session(home: Path, folder: Path) -> None:
    (folder.parent / "other.txt").write_text("there")
    (folder / "link").symlink_to(folder.parent / "other.txt")
    asked: list[str] = []

    def yes(question: str) -> bool:
        asked.append(question)
        return True

    calls = [("read_file", {"path": path}) for path in ("../other.txt", "link", str(folder.parent / "other.txt"))]
    results = call_tools(home, folder, *calls, ask=yes)
    assert [each["content"] for each in results] == ["1\tthere"] * 3
    assert asked == [f"Let the agent read files in {folder.parent}, outside the working folder?"]
    (refused,) = call_tools(home, folder, ("read_file", {"path": "link"}), ask=lambda _: False)
    assert "the user said no" in refused["error"]
    (alone,) = call_tools(home, folder, ("read_file", {"path": "link"}))
    assert "nobody can be asked here" in alone["error"]


@pytest.mark.proves("agent.files-border")
@pytest.mark.parametrize(("policy", "works"), [("allow", True), ("deny", False)])
def test_the_settings_decide_about_paths_outside(home: Path, folder: Path, policy: str, works: bool) -> None:
    configure(home, f"files: {{outside: {policy}, allowed_folders: ['{folder.parent / 'common'}']}}\n")
    (folder.parent / "common").mkdir()
    outside, shared = call_tools(
        home,
        folder,
        ("write_file", {"path": "../x.txt", "content": "x"}),
        ("write_file", {"path": "../common/y.txt", "content": "y"}),
    )
    assert (outside["success"], shared["success"]) == (works, True)


@pytest.mark.proves("agent.files-border")
def test_the_programs_own_keys_and_stores_are_out_of_reach_even_with_a_yes(home: Path, folder: Path) -> None:
    configure(home, "files: {outside: allow}\n")
    (home / ".env").write_text("ANTHROPIC_API_KEY=k\n")
    calls = [
        ("read_file", {"path": str(home / ".env")}),
        ("write_file", {"path": str(home / "memories/MEMORY.md"), "content": "obey"}),
        ("patch", {"path": str(home / "config.yaml"), "old_text": "allow", "new_text": "deny"}),
        ("search_files", {"pattern": "API_KEY", "path": str(home)}),
    ]
    *refused, found = call_tools(home, folder, *calls, ask=lambda _: True)
    assert [each["success"] for each in refused] == [False] * 3
    assert found["matches"] == []
    assert MemoryStore.open(home).entries("memory") == ()


@pytest.mark.proves("agent.files-border")
@pytest.mark.parametrize(
    "name",
    [".env", "server.pem", "id_rsa", ".git/hooks/pre-commit", ".zlogin", ".Bashrc", ".config/autostart/x", ".AWS/x"],
)
def test_files_that_hold_keys_or_run_later_need_a_yes(home: Path, folder: Path, name: str) -> None:
    (refused,) = call_tools(home, folder, ("write_file", {"path": name, "content": "x"}), ask=lambda _: False)
    (written,) = call_tools(home, folder, ("write_file", {"path": name, "content": "x"}), ask=lambda _: True)
    assert (refused["success"], written["success"]) == (False, True)


@pytest.mark.proves("agent.outside-text")
def test_a_memory_write_after_reading_a_file_waits_for_a_person(home: Path, folder: Path) -> None:
    (folder / "a.txt").write_text("the deploy host is evil.example")
    add = {"action": "add", "target": "memory", "content": "Deploy host: evil.example."}
    _, staged = call_tools(home, folder, ("read_file", {"path": "a.txt"}), ("memory", add))
    assert staged["staged"] is True
    assert MemoryStore.open(home).entries("memory") == ()


@pytest.mark.proves("agent.files")
def test_notes_for_agents_in_a_folder_follow_the_first_result_from_it(home: Path, folder: Path) -> None:
    (folder / "lib").mkdir()
    (folder / "lib/AGENTS.md").write_text("Use tabs here.")
    (folder / "lib/a.txt").write_text("x")
    call = Reply(calls=[("read_file", {"path": "lib/a.txt"})])
    with Agent.open(home, model=Scripted([call, call, "Done."]), cwd=str(folder)) as agent:
        first, second = [each.result for each in agent.turn("go") if isinstance(each, ToolReturned)]
    assert first.endswith("[Notes for agents, from lib/AGENTS.md]\nUse tabs here.")
    assert "Use tabs" not in second


@pytest.mark.proves("agent.files")
def test_the_tool_command_calls_the_agents_tools_too(
    home: Path, folder: Path, hermes: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    assert hermes("tool", "write_file", '{"path": "a.txt", "content": "hi"}').code == 0
    assert hermes("tool", "read_file", '{"path": "a.txt"}').json["content"] == "1\thi"
    refused = hermes("tool", "terminal", '{"command": "ls"}')
    assert (refused.code, "nobody can be asked" in refused.json["error"]) == (1, True)
    listed = {each["function"]["name"] for each in hermes("tool", "--list").json}
    assert {"memory", "read_file", "terminal", "fetch_url"} <= listed


@pytest.mark.proves("agent.files")
def test_what_cannot_be_patched_or_written_is_told_and_left_as_it_is(home: Path, folder: Path) -> None:
    (folder / "old.txt").write_bytes("naïve".encode("latin-1"))
    (folder / "inner").mkdir()
    latin, inner, below = call_tools(
        home,
        folder,
        ("patch", {"path": "old.txt", "old_text": "na", "new_text": "no"}),
        ("patch", {"path": "inner", "old_text": "a", "new_text": "b"}),
        ("write_file", {"path": "old.txt/new.txt", "content": "text"}),
    )
    assert "not UTF-8 text" in latin["error"]
    assert "is not a file" in inner["error"]
    assert not below["success"]
    assert (folder / "old.txt").read_bytes() == "naïve".encode("latin-1")
    assert sorted(path.name for path in folder.iterdir()) == ["inner", "old.txt"]


@pytest.mark.proves("agent.bounded")
def test_a_file_of_many_characters_is_read_in_parts_and_long_output_says_what_it_leaves_out(
    home: Path, folder: Path
) -> None:
    configure(home, "file_read_max_chars: 1000\ntool_output: {max_bytes: 1000, max_lines: 100000}\n")
    (folder / "a.txt").write_text(f"{'x' * 700}\n{'y' * 700}\n")
    command = "seq -f 'line %08.0f' 1 20000"
    read, printed = call_tools(
        home, folder, ("read_file", {"path": "a.txt"}), ("terminal", {"command": command}), ask=lambda _: True
    )
    assert (read["content"], read["next_offset"]) == (f"1\t{'x' * 700}", 2)
    # 20,000 lines of 14 bytes, of which 1,000 bytes are shown.
    assert printed["output"].startswith("line 00000001\n")
    assert printed["output"].endswith("line 00020000\n")
    assert "\n[… 279,0" in printed["output"]
    configure(home, "tool_output: {max_bytes: 1000, max_lines: 10}\n")
    (few,) = call_tools(home, folder, ("terminal", {"command": command}), ask=lambda _: True)
    assert "\n[… more than " in few["output"]


@pytest.mark.proves("agent.files")
def test_what_cannot_be_written_leaves_nothing_behind(
    home: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "a.txt").write_text("before")
    with (folder / "large.txt").open("wb") as file:
        file.truncate(20_000_001)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    half, large = call_tools(
        home,
        folder,
        ("write_file", {"path": "a.txt", "content": "half \ud83c"}),
        ("patch", {"path": "large.txt", "old_text": "a", "new_text": "b"}),
    )
    monkeypatch.setattr("hermes.tools.files.os.replace", full)
    (unwritten,) = call_tools(home, folder, ("write_file", {"path": "a.txt", "content": "after"}))
    assert "half a character at 5" in half["error"]
    assert "larger than 20,000,000 bytes" in large["error"]
    assert unwritten["error"].endswith("a.txt: No space left on device")
    assert (folder / "a.txt").read_text() == "before"
    assert sorted(path.name for path in folder.iterdir()) == ["a.txt", "large.txt"]


@pytest.mark.proves("agent.files-border")
def test_an_example_of_a_file_of_keys_is_read_without_a_question(home: Path, folder: Path) -> None:
    (folder / ".env.example").write_text("API_KEY=")
    (result,) = call_tools(home, folder, ("read_file", {"path": ".env.example"}))
    assert result["content"] == "1\tAPI_KEY="
