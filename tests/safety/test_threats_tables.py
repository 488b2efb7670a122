"""The table of wordings: missing or cut short it stops the scanner, and little of it is kept in mind."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from hermes.base.errors import ScannerUnavailable
from hermes.safety import fast_path as wording
from hermes.safety import tables
from hermes.safety.scanner import scan

if TYPE_CHECKING:
    from pathlib import Path

DATA = os.path.join(os.path.dirname(os.path.dirname(__file__)), "data", "safety")


@pytest.fixture
def lexicons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The tables of the scanner in a folder of their own, with no wording weighed yet."""
    for name in os.listdir(tables._FOLDER):
        (tmp_path / name).symlink_to(os.path.join(tables._FOLDER, name))
    monkeypatch.setattr(tables, "_FOLDER", os.fspath(tmp_path))
    for name, empty in (("_table", []), ("_words", wording._Words()), ("_pairs", wording._Pairs())):
        monkeypatch.setattr(wording, name, empty)
    return tmp_path


@pytest.mark.proves("threats.closed")
def test_without_the_weights_of_wordings_nothing_is_called_clean(lexicons: Path) -> None:
    (lexicons / wording.TABLE).unlink()
    with pytest.raises(ScannerUnavailable, match=f"{wording.TABLE}.*reinstall"):
        scan("The deploy runs at night and takes ten minutes.")


@pytest.mark.proves("threats.closed")
def test_weights_of_wordings_that_were_cut_short_are_not_used(lexicons: Path) -> None:
    whole = (lexicons / wording.TABLE).read_bytes()
    (lexicons / wording.TABLE).unlink()
    (lexicons / wording.TABLE).write_bytes(whole[:-1])
    with pytest.raises(ScannerUnavailable, match=f"{len(whole) - 1} bytes instead of {len(whole)}"):
        scan("The deploy runs at night and takes ten minutes.")


@pytest.mark.proves("threats.verdict")
def test_however_few_words_are_kept_in_mind_the_verdicts_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [*texts_of("attacks")[::24], *texts_of("harmless")[::24]]
    before = [scan(text) for text in texts]
    for name, less in (("_MOST_KEPT", 3), ("_words", wording._Words()), ("_pairs", wording._Pairs())):
        monkeypatch.setattr(wording, name, less)
    assert [scan(text) for text in texts] == before
    assert 0 < len(wording._words) <= 3
    assert 0 < len(wording._pairs) <= 3


def texts_of(name: str) -> list[str]:
    with open(os.path.join(DATA, f"{name}.jsonl"), encoding="utf-8") as file:
        return [json.loads(line)["text"] for line in file]
