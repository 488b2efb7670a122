"""Our own prose: spelling, phrases we no longer use, and diagrams drawn from their sources."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATTERNS = ("*.md", "docs/*.md", "docs/[cgp]*/*.md", "src/hermes/**/text/*.md")
PAGES = sorted(path for pattern in PATTERNS for path in ROOT.glob(pattern))
PHRASES = [
    re.split(r"\s{2,}", line.rstrip(), maxsplit=1)
    for line in (ROOT / "tests/project/phrases.txt").read_text("utf-8").splitlines()
    if line and not line.startswith("#")
]


@pytest.mark.proves("docs.prose")
def test_pages_and_prompts_avoid_the_phrases_readers_stumbled_over() -> None:
    found = [
        f"{page.relative_to(ROOT)}:{number}: {match[0]!r}; write: {better}"
        for page in PAGES
        for number, line in enumerate(page.read_text("utf-8").splitlines(), 1)
        for phrase, better in PHRASES
        if (match := re.search(phrase, line))
    ]
    assert not found, "\n".join(found)


@pytest.mark.proves("docs.prose")
def test_pages_and_prompts_are_spelled_correctly() -> None:
    done = subprocess.run([sys.executable, "-m", "codespell_lib", *PAGES], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.proves("docs.diagrams")
def test_every_diagram_is_drawn_from_its_source() -> None:
    spec = importlib.util.spec_from_file_location("draw", ROOT / "docs/diagrams/draw.py")
    assert spec is not None
    assert spec.loader is not None
    draw = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(draw)
    assert [source.name for source in draw.sources() if not draw.is_current(source)] == [], "run bin/docs"
