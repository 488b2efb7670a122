"""Secrets in a text that a program wrote into another: the results and calls of tools are JSON."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from secret_samples import filled, samples

from hermes.safety.secrets import find_secrets, mask_all, mask_secrets, places, unescaped

if TYPE_CHECKING:
    from collections.abc import Callable

WRITTEN: dict[str, Callable[[str], str]] = {
    "a line of a result": lambda text: json.dumps({"content": f"first\n{text}\nlast"}),
    "a line with a return": lambda text: json.dumps({"content": f"first\r\n{text}\r\nlast"}),
    "a column": lambda text: json.dumps({"content": f"first\t{text}\tlast"}),
    "the arguments of a call": lambda text: json.dumps({"arguments": json.dumps({"content": f"first\n{text}\nlast"})}),
    "Python's way": lambda text: repr({"content": f"first\n{text}\nlast"}),
}


@pytest.mark.proves("secrets.found")
@pytest.mark.parametrize("how", WRITTEN)
def test_a_secret_is_found_wherever_its_text_was_written_into(how: str) -> None:
    chance = random.Random(how)
    missed = []
    for template in samples("secret"):
        text = filled(template, chance)
        if "\\" in text:
            continue  # written into another once already
        lines = f"first\n{text}\nlast"
        plain = [lines[found.start : found.end] for found in find_secrets(lines)]
        written = WRITTEN[how](text)
        kept = unescaped(mask_secrets(written))
        missed += [template for secret in plain if secret in kept]
        assert mask_all([written]) == [mask_secrets(written)]
    assert missed == []


@pytest.mark.proves("secrets.mask", "secrets.idempotent")
def test_json_with_masked_secrets_is_still_json() -> None:
    chance = random.Random(4)
    for template in samples("secret"):
        said = {"content": f"first\n{filled(template, chance)}", "path": "C:\\new\\table", "said": 'a "b"'}
        for written in (json.dumps(said), json.dumps([json.dumps(said, ensure_ascii=False)], ensure_ascii=False)):
            masked = mask_secrets(written)
            read: Any = json.loads(masked)
            inner = json.loads(read[0]) if isinstance(read, list) else read
            assert (inner["path"], inner["said"]) == (said["path"], said["said"])
            assert mask_secrets(masked) == masked


@pytest.mark.proves("secrets.harmless")
@pytest.mark.parametrize("how", [how for how in WRITTEN if how != "a column"])  # one sample ends in a quote of its own
def test_what_is_harmless_is_so_there_too(how: str) -> None:
    chance = random.Random(how)
    texts = [WRITTEN[how](filled(template, chance)) for template in samples("harmless") if "\\" not in template]
    assert [text for text in texts if mask_secrets(text) != text] == []


@pytest.mark.proves("secrets.found")
def test_signs_that_are_escaped_for_web_pages_are_read() -> None:
    assert "hunter2x!" not in mask_secrets(r'{"q": "password\u003dhunter2x!"}')
    assert "s3cr3tpw" not in mask_secrets(r'{"u": "postgres:\/\/app:s3cr3tpw@db\/app"}')
    assert find_secrets(r"\ud83d\ude00 nothing here") == ()


@pytest.mark.internal("places in what is searched lead back to the text")
@given(st.text(alphabet='ab\\nu"003d/é', max_size=40))
def test_every_place_leads_back(text: str) -> None:
    plain = unescaped(text)
    back = places(text, list(range(len(plain) + 1)))
    assert back[-1] == len(text)
    pieces = [text[start:end] for start, end in pairwise(back)]
    assert "".join(pieces) == text
    assert [unescaped(piece) for piece in pieces] == list(plain)
