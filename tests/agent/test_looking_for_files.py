"""Listing and searching files: what is found, what is passed over, and what stops a search."""

from __future__ import annotations

import builtins
import errno
import io
import json
import os
import runpy
import sys
import threading
from typing import TYPE_CHECKING

import pytest
from agents import call_tools, configure, first_json

from hermes import Agent
from hermes.base.events import ToolReturned
from hermes.llm.scripted import Reply, Scripted
from hermes.tools import files as looking
from hermes.tools import search_worker

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.proves("agent.files")
def test_files_are_listed_and_searched(home: Path, folder: Path) -> None:
    (folder / "src").mkdir()
    (folder / "node_modules").mkdir()
    (folder / "src/a.py").write_text("import os\nprint(os.sep)\n")
    (folder / "b.txt").write_text("os (sep)\n")
    (folder / ".env").write_text("OS=secret\n")
    (folder / "node_modules/c.py").write_text("os\n")
    listed, top, found, plain = call_tools(
        home,
        folder,
        ("search_files", {"files": "*.py"}),
        ("search_files", {"depth": 1}),
        ("search_files", {"pattern": r"\bos\b", "ignore_case": True}),
        ("search_files", {"pattern": "os ("}),
    )
    assert listed["files"] == ["src/a.py"]
    assert top["files"] == [".env", "b.txt", "node_modules/", "src/"]
    places = [(each["path"], each["line"]) for each in found["matches"]]
    assert places == [("b.txt", 1), ("src/a.py", 1), ("src/a.py", 2)]
    assert [each["text"] for each in plain["matches"]] == ["os (sep)"]
    assert plain["note"].startswith("searched as plain text: not a regular expression")


@pytest.mark.proves("agent.files")
def test_a_pattern_that_would_never_end_is_stopped_by_the_person(home: Path, folder: Path) -> None:
    (folder / "a.txt").write_text("a" * 60 + "!\n")
    model = Scripted([Reply(calls=[("search_files", {"pattern": r"(a+)+$"})]), "Done."])
    with Agent.open(home, model=model, cwd=str(folder)) as agent:
        stop = threading.Timer(0.3, agent.interrupt)
        stop.start()
        (result,) = [first_json(each.result) for each in agent.turn("go") if isinstance(each, ToolReturned)]
        stop.join()
    assert "the search was stopped (interrupted)" in result["note"]


@pytest.mark.proves("agent.files-border")
def test_a_search_passes_over_folders_of_keys_and_nobody_reads_the_variables_of_a_process(
    home: Path, folder: Path
) -> None:
    configure(home, "files: {outside: allow}\n")
    (folder / ".ssh").mkdir()
    (folder / ".ssh/work").write_text("needle: a private key under a harmless name")
    (folder / "a.txt").write_text("needle")
    calls = [
        ("search_files", {"pattern": "needle"}),
        ("search_files", {"pattern": "needle", "path": ".ssh"}),
        ("read_file", {"path": "/proc/self/environ"}),
    ]
    found, asked, variables = call_tools(home, folder, *calls)
    assert [each["path"] for each in found["matches"]] == ["a.txt"]
    assert "a person would have to agree" in asked["error"]
    assert "no tool may read it" in variables["error"]


@pytest.mark.proves("agent.files")
def test_a_listing_tells_what_it_leaves_out_and_what_cannot_be_listed(
    home: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abcde":
        (folder / f"{name}.txt").write_text("tea\n" * 3)
    short, missing, searched = call_tools(
        home,
        folder,
        ("search_files", {"limit": 2}),
        ("search_files", {"path": "nowhere"}),
        ("search_files", {"pattern": "tea", "limit": 2, "path": "a.txt"}),
    )
    assert short == {"success": True, "path": ".", "files": ["a.txt", "b.txt"], "truncated": True, "count": 5}
    assert missing["error"] == "there is no folder nowhere"
    assert ([each["line"] for each in searched["matches"]], searched["truncated"]) == ([1, 2], True)

    def closed(_path: str) -> list[str]:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(looking, "_MOST_WALKED", 3)
    monkeypatch.setattr("hermes.tools.files.os.listdir", closed)
    deep, top = call_tools(home, folder, ("search_files", {}), ("search_files", {"depth": 1}))
    assert (deep["files"], deep["truncated"]) == (["a.txt", "b.txt", "c.txt"], True)
    assert top["error"] == ". cannot be listed: Permission denied"


@pytest.mark.proves("agent.files")
def test_the_program_that_searches_passes_over_what_is_not_text(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Run in this process, as the tool runs it in one of its own."""
    (folder / ".ssh").mkdir()
    (folder / "src").mkdir()
    for name in (".ssh/note.txt", "key.pem", "a.txt", "src/b.txt", "src/c.py"):
        (folder / name).write_text("Tea\nwater\nTea\n")
    (folder / "image.txt").write_bytes(b"\0Tea")
    (folder / "link.txt").symlink_to(folder / "a.txt")
    (folder / "gone.txt").symlink_to(folder / "nothing")
    with (folder / "large.txt").open("wb") as file:
        file.truncate(5_000_001)
    (folder / "unreadable.txt").write_text("Tea")
    real = open

    def opened(path: str, *given: object) -> object:
        if path.endswith("unreadable.txt"):
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(path, *given)  # type: ignore[call-overload]

    def found(root: Path, glob: str, most: int) -> list[tuple[str, int, str]]:
        asked = {
            "root": str(root),
            "pattern": "tea",
            "glob": glob,
            "passed_over": ["*.pem"],
            "closed": [".ssh"],
            "ignore_case": True,
            "most": most,
            "longest": 2,
        }
        monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(asked)))
        runpy.run_path(str(search_worker.__file__), run_name="__main__")
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        return [(os.path.relpath(each["path"], folder), each["line"], each["text"]) for each in lines]

    monkeypatch.setattr(builtins, "open", opened)
    assert found(folder, "*.txt", 9) == [(f"{name}.txt", line, "Te") for name in ("a", "src/b") for line in (1, 3)]
    assert found(folder, "src/**/*.py", 9) == [("src/c.py", 1, "Te"), ("src/c.py", 3, "Te")]
    both = [("a.txt", 1, "Te"), ("a.txt", 3, "Te")]
    assert found(folder / "a.txt", "", 1) == both  # one more than asked for says that there is more
    assert found(folder / "a.txt", "", 2) == both
