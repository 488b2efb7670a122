"""Every example in the docs is a file that runs; the README's Python is one of them or runs too."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
EXAMPLES = os.path.join(ROOT, "docs", "examples")


def run(code: str, home: Path) -> str:
    environment = {**os.environ, "HERMES_HOME": str(home), "HOME": str(home)}
    home.mkdir(exist_ok=True)
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=home, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.proves("docs.examples")
@pytest.mark.parametrize("name", sorted(os.listdir(EXAMPLES)))
def test_every_example_runs(name: str, home: Path) -> None:
    if name.endswith(".py"):
        with open(os.path.join(EXAMPLES, name), encoding="utf-8") as file:
            assert run(file.read(), home)


@pytest.mark.proves("docs.examples")
def test_the_python_of_the_readme_runs(home: Path) -> None:
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        blocks = re.findall(r"```python\n(.*?)```", file.read(), re.DOTALL)
    assert blocks
    for block in blocks:
        run(block, home)


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
