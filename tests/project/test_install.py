"""`bin/install` and the benchmarks, called as people do who have not read the manual."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@pytest.mark.proves("ground.usage")
@pytest.mark.parametrize(
    ("words", "code"), [((), 2), (("foo",), 2), (("dev", "local"), 2), (("--help",), 0), (("-h",), 0)]
)
def test_installing_says_which_sets_there_are(words: tuple[str, ...], code: int) -> None:
    command = [os.path.join(ROOT, "bin", "install"), *words]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == code
    said = ran.stderr if code else ran.stdout
    sets = [name.removesuffix(".in") for name in os.listdir(os.path.join(ROOT, "requirements")) if name.endswith(".in")]
    assert sorted(line.split()[0] for line in said.splitlines() if line.startswith("  ")) == sorted(sets)
    assert ("there is no set 'foo'" in said) == (words == ("foo",))


@pytest.mark.proves("ground.usage")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("recall", "/nope"), "/nope cannot be read: No such file or directory"),
        (("recall", "HERE"), "HERE cannot be read: Is a directory"),
        (("recall", "HERE/words.txt"), "HERE/words.txt is not JSON text"),
        (("recall", "HERE/numbers.json"), "HERE/numbers.json has none of the known formats"),
        (("recall", "HERE/words.gz"), "HERE/words.gz cannot be read: Not a gzipped file"),
        (("import", "--folder", "/nope"), "--folder: /nope is no folder"),
        (("curated", "--folder", "HERE/words.txt"), "HERE/words.txt is no folder"),
        (("search", "--peer-python", "/nope"), "--peer: /nope is no program"),
        (("scan", "--chart", "/nope/x.svg"), "--chart: /nope/x.svg cannot be written: /nope is not there"),
        (("scan", "--chart", "HERE"), "--chart: HERE cannot be written: it is a folder"),
        (("all", "--page", "/nope/x.md"), "--page: /nope/x.md cannot be written"),
    ],
)
def test_a_path_that_is_wrong_is_told_in_one_line_before_anything_is_measured(
    hermes: Callable[..., Ran], tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    for name, text in (("words.txt", "just words"), ("words.gz", "just words"), ("numbers.json", "[1]")):
        (tmp_path / name).write_text(text)
    ran = hermes("bench", *(word.replace("HERE", str(tmp_path)) for word in words))
    assert ran.code in (1, 2)
    assert said.replace("HERE", str(tmp_path)) in ran.err
    assert ran.err.count("\n") == 1
