"""JSON by the C half of `json`: the same texts, the same values, the same errors."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.base.text import decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(st.text(), inside, max_size=4),
)


def outcome(call: Callable[[], Any]) -> tuple[str, str]:
    """What a call gives or raises, in words that can be compared; NaN is not equal to itself."""
    try:
        return "value", repr(call())
    except (ValueError, TypeError) as error:
        return type(error).__name__, str(error)


@pytest.mark.internal("what is written and read on the way to a memory write is JSON like any other")
@given(VALUES)
def test_values_become_the_text_that_json_makes_of_them(value: object) -> None:
    assert encode(value) == json.dumps(value, ensure_ascii=False)
    assert encode(value, tight=True) == json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    assert repr(decode(f" {encode(value)}\n")) == repr(value)


@pytest.mark.internal("what is written and read on the way to a memory write is JSON like any other")
@given(
    st.text(st.sampled_from(' \t\n[]{}":,.-+e0123nulltrueNaNInfinity\\u00e9\ufeff\x00\xa0§')) | st.binary(max_size=8)
)
def test_any_text_is_read_or_refused_as_json_does_it(text: str | bytes) -> None:
    assert outcome(lambda: decode(text)) == outcome(lambda: json.loads(text))


@pytest.mark.internal("what is written and read on the way to a memory write is JSON like any other")
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_bytes_in_other_encodings_are_recognised(encoding: str) -> None:
    assert decode('{"a": "ä"}'.encode(encoding)) == {"a": "ä"}


@pytest.mark.internal("what is written and read on the way to a memory write is JSON like any other")
def test_what_is_no_json_and_what_holds_itself_is_refused_in_the_words_of_json() -> None:
    ring: list[object] = []
    ring.append(ring)
    for value in (object(), {"a": {1, 2}}, {(1, 2): 3}, ring):
        assert outcome(lambda value=value: encode(value)) == outcome(lambda value=value: json.dumps(value))  # type: ignore[misc]


@pytest.mark.internal("a Python without the C half has all of it in json")
def test_without_the_c_half_json_does_the_work() -> None:
    code = (
        "import sys; sys.modules['_json'] = None\nfrom hermes.base.text import decode, encode\n"
        "print(encode({'a': ['é', 1]}), encode([1, 2], tight=True), decode(b' [1, null] '))"
    )
    out = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True).stdout
    assert out == '{"a": ["é", 1]} [1,2] [1, None]\n'
