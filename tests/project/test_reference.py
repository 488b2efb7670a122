"""The reference is written by the program and complete; the site builds without a warning."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from checks import reference, reference_code
from hermes.compaction.engine import ContextEngine
from hermes.providers.base import MemoryProvider
from hermes.settings.schema import TASKS, all_keys

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.proves("docs.reference")
def test_the_reference_is_what_the_program_says_now() -> None:
    assert reference.stale() == [], "run bin/reference and commit what it writes"


@pytest.mark.proves("docs.complete")
def test_every_command_and_every_option_says_what_it_does() -> None:
    unclear = []
    for name, summary, options in reference.commands():
        unclear += [f"{name}: no summary"] if not summary else []
        unclear += [f"{name} {option}: no help" for option, text in options.rows if not text]
    assert unclear == []


@pytest.mark.proves("docs.complete")
def test_every_setting_is_explained_in_the_reference() -> None:
    with open(os.path.join(reference.FOLDER, "settings.md"), encoding="utf-8") as file:
        page = file.read()
    shown = {name: re.sub(rf"^auxiliary\.({'|'.join(TASKS)})\.", "auxiliary.TASK.", name) for name in all_keys()}
    assert [name for name, written in shown.items() if f"| `{written}` |" not in page] == []
    assert [key.name for key in all_keys().values() if len(key.help.split()) < 2] == []


@pytest.mark.proves("docs.complete")
def test_every_tool_and_each_of_its_arguments_is_described() -> None:
    tools = reference_code.model_tools() + [
        {**each, "parameters": each["inputSchema"]} for each in reference_code.mcp_tools()
    ]
    assert [tool["name"] for tool in tools if not tool.get("description")] == []
    with open(os.path.join(reference.FOLDER, "tools.md"), encoding="utf-8") as file:
        page = file.read()
    assert [tool["name"] for tool in tools if f"### {tool['name']}\n" not in page] == []


@pytest.mark.proves("docs.complete")
@pytest.mark.parametrize("interface", [MemoryProvider, ContextEngine])
def test_every_hook_of_a_plugin_is_described(interface: type) -> None:
    undescribed = [
        name
        for name, member in vars(interface).items()
        if not name.startswith("_") and (callable(member) or isinstance(member, property)) and not member.__doc__
    ]
    assert undescribed == []


@pytest.mark.proves("docs.site")
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    pages = os.path.join(reference.ROOT, "docs")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", pages, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    quickstart = (tmp_path / "quickstart.html").read_text(encoding="utf-8")
    assert "site.css" in quickstart
    loaded = re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="(\w+:)?//', quickstart)
    assert loaded == [], "the pages are read without a network"
