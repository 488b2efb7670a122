"""The screenshots of the documentation are taken from the running program."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from screens.main import FOLDER, SCREENS, take

if TYPE_CHECKING:
    from pathlib import Path

LARGEST = 40_000


def words(path: str) -> str:
    return " ".join("".join(text.itertext()) for text in ET.parse(path).iter("{http://www.w3.org/2000/svg}text"))


@pytest.mark.proves("docs.screens")
def test_a_screenshot_shows_what_the_program_prints(tmp_path: Path) -> None:
    take(["chat", "context"], str(tmp_path))
    chat = words(str(tmp_path / "chat.svg"))
    assert "Please keep your answers short, and use metric units." in chat
    assert "Entry added." in chat
    assert "scripted (script.json)" in chat
    assert "turn 1" in words(str(tmp_path / "context.svg"))
    assert sorted(os.listdir(tmp_path)) == ["chat.svg", "context.svg"]


@pytest.mark.proves("docs.screens")
def test_every_screenshot_is_there_small_and_free_of_this_machine() -> None:
    assert sorted(os.listdir(FOLDER)) == sorted([*(f"{name}.svg" for name in SCREENS), "web-memory.png"])
    for name in SCREENS:
        path = os.path.join(FOLDER, f"{name}.svg")
        assert os.path.getsize(path) < LARGEST
        assert "/home/" not in words(path)
