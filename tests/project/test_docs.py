"""Every example in the docs is a file that runs; the README's Python is one of them or runs too."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COLUMN = 88  # characters of a code block at the usual width of a window
# These examples use other people's frameworks, whose own warnings are none of ours.
FRAMEWORKS = ("langgraph_agent.py", "llama_index_agent.py", "openai_agents_sdk.py", "pydantic_ai_agent.py")
EXAMPLES = os.path.join(ROOT, "docs", "examples")


def run(code: str, place: Path, *, warnings: str = "default") -> str:
    """Runs it as a person does who has a home and a folder for temporary files."""
    environment = {**os.environ, "HOME": str(place)}
    for variable, name in (("HERMES_HOME", "home"), ("TMPDIR", "temporary")):
        environment[variable] = str(place / name)
        (place / name).mkdir(exist_ok=True)
    command = [sys.executable, "-X", "dev", "-W", warnings, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=place, check=False)
    assert done.returncode == 0, done.stderr
    # In this mode asyncio says which callbacks took long, which depends on how busy the machine is.
    assert not [line for line in done.stderr.splitlines() if not line.startswith("Executing <")], done.stderr
    return done.stdout


def left_in(place: Path) -> list[str]:
    return sorted(str(path.relative_to(place)) for path in place.rglob("*"))


@pytest.mark.proves("docs.examples")
@pytest.mark.parametrize("name", sorted(os.listdir(EXAMPLES)))
def test_every_example_runs_twice_and_leaves_nothing_in_the_home_of_whoever_tries_it(name: str, tmp_path: Path) -> None:
    if not name.endswith(".py"):
        return
    (tmp_path / "home").mkdir()
    settings = tmp_path / "home" / "config.yaml"
    settings.write_text("memory:\n  nudge_interval: 3\n")
    with open(os.path.join(EXAMPLES, name), encoding="utf-8") as file:
        code = file.read()
    warnings = "ignore" if name in FRAMEWORKS else "default"
    assert run(code, tmp_path, warnings=warnings)
    assert run(code, tmp_path, warnings=warnings)
    assert left_in(tmp_path) == ["home", "home/config.yaml", "temporary"]
    assert settings.read_text() == "memory:\n  nudge_interval: 3\n"


@pytest.mark.proves("docs.examples")
def test_the_python_of_the_readme_runs_twice_in_a_home_that_it_names(tmp_path: Path) -> None:
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        blocks = re.findall(r"```python\n(.*?)```", file.read(), re.DOTALL)
    assert blocks
    for block in blocks:
        assert len(block.splitlines()) <= 12
        run(block, tmp_path)
        run(block, tmp_path)
    assert left_in(tmp_path / "home") == []
    assert "Prefers short answers." in (tmp_path / "my-agent-home" / "memories" / "USER.md").read_text()


@pytest.mark.proves("docs.examples")
def test_the_quickstart_without_a_key_lets_an_agent_save_something(home: Path, tmp_path: Path) -> None:
    with open(os.path.join(ROOT, "docs", "quickstart.md"), encoding="utf-8") as file:
        (typed,) = re.findall(r"```sh\n(cat > script.json.*?)```", file.read(), re.DOTALL)
    program = f'hermes() {{ "{sys.executable}" -m hermes "$@"; }}\n'
    environment = {**os.environ, "HERMES_HOME": str(home)}
    done = subprocess.run(
        ["sh", "-ec", program + typed], capture_output=True, text=True, env=environment, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "add by agent in session" in done.stdout
    assert (home / "memories" / "USER.md").read_text() == "Uses metric units."


@pytest.mark.proves("docs.links")
def test_every_link_between_pages_leads_somewhere() -> None:
    broken = []
    for folder, _, files in os.walk(ROOT):
        if any(part.startswith(".") for part in os.path.relpath(folder, ROOT).split(os.sep) if part != "."):
            continue
        for name in files:
            if name.endswith(".md") and "prompts" not in folder and os.sep + "src" + os.sep not in folder + os.sep:
                broken += _broken_links(os.path.join(folder, name))
    assert broken == []


def _broken_links(page: str) -> list[str]:
    with open(page, encoding="utf-8") as file:
        targets = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", file.read())
    return [f"{page}: {each}" for each in targets if not os.path.exists(os.path.join(os.path.dirname(page), each))]


@pytest.mark.proves("docs.site")
def test_a_comment_beside_a_command_is_never_wider_than_the_column_of_the_site() -> None:
    """A longer one stands on a line of its own, above its command."""
    wide = [
        f"{name}: {line}"
        for name, text in pages()
        for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
        for line in block.splitlines()
        if "  # " in line and len(line) > COLUMN
    ]
    assert wide == []


def pages() -> Iterator[tuple[str, str]]:
    for folder, _, files in os.walk(os.path.join(ROOT, "docs")):
        for name in files:
            if name.endswith(".md"):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    yield name, file.read()
