"""Homes that version 0.1 wrote: every later version opens them and answers the same questions without loss.

`tests/data/homes/write_home.py` wrote each home once, with the program of that version, and kept its answers to a few
questions (`answers.json`).
A later answer may say more; what 0.1 said has to be in it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

HOMES = Path(__file__).parent.parent / "data" / "homes"
NAMES = sorted(path.stem for path in HOMES.glob("*.zip"))
# Where a home is, how a search scores, and how much a list was read are no part of what a home holds.
VARIES = {"file", "home", "db_path", "score", "snippet", "sessions_searched", "retrieval_count", "providers"}

OF_THE_MATCH = {"matched_role", "match_message_id", "answer", "answer_message_id"}


@pytest.mark.proves("frozen.homes")
@pytest.mark.parametrize("name", NAMES)
def test_a_home_of_version_0_1_opens_without_loss(name: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    with zipfile.ZipFile(HOMES / f"{name}.zip") as archive:
        archive.extractall(home)
    asked = json.loads((home / "answers.json").read_text(encoding="utf-8"))
    (home / "answers.json").unlink()
    for question in asked:
        answer = _answer(home, question["words"])
        missing = list(_missing(_parsed(question["answer"]), _parsed(answer), " ".join(question["words"])))
        assert missing == []


def _answer(home: Path, words: list[str]) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "hermes", "--home", str(home), *words],
        env={**os.environ, "TZ": "UTC"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _parsed(text: str) -> Any:
    """One JSON document, or one per line, or the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        return [json.loads(line) for line in text.splitlines()]
    except ValueError:
        return text


def _missing(then: Any, now: Any, where: str) -> Iterator[str]:
    """What 0.1 answered and is not in the answer of today."""
    match then, now:
        case [{"session_id": _}, *_], [{"session_id": _}, *_] if len(then) == len(now) and then != now:
            # Later versions rank hits in their own order.
            then, now = ({each["session_id"]: each for each in found} for found in (then, now))
            yield from _missing(then, now, where)
        case {"answer_message_id": answer}, {"match_message_id": match} if answer and answer == match:
            # Later versions may find the answer where 0.1 found its question.
            found_before = {key: each for key, each in then.items() if key not in OF_THE_MATCH}
            yield from _missing(found_before, now, where)
        case dict(), dict():
            for key, value in then.items():
                if key not in VARIES:
                    yield from _missing(value, now.get(key), f"{where}.{key}")
        case list(), list() if len(then) == len(now):
            for number, (old, new) in enumerate(zip(then, now, strict=True)):
                yield from _missing(old, new, f"{where}[{number}]")
        case _ if then != now:
            yield f"{where}: {str(then)[:200]!r} became {str(now)[:200]!r}"
