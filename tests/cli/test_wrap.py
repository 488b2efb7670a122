"""Breaking lines at words while an answer arrives."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.utils import get_cwidth

from hermes.cli.chat.wrap import WordWrap

PROSE = st.text(alphabet="ab é日本語 \n", max_size=200)


def wrapped(text: str, width: int, *cuts: int) -> str:
    wrap = WordWrap(width)
    places = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    pieces = [text[start:end] for start, end in itertools.pairwise(places)]
    return "".join(wrap.feed(piece) for piece in pieces) + wrap.flush()


@pytest.mark.proves("terminal.stream")
@given(PROSE, st.integers(10, 40), st.lists(st.integers(0, 500), max_size=5))
def test_wrapping_loses_nothing_and_does_not_depend_on_the_pieces(text: str, width: int, cuts: list[int]) -> None:
    shown = wrapped(text, width, *cuts)
    assert shown == wrapped(text, width)
    assert "".join(shown.split()) == "".join(text.split())
    assert all(get_cwidth(line.rstrip()) <= max(width, _longest_word(line)) for line in shown.split("\n"))


@pytest.mark.proves("terminal.stream")
def test_code_is_left_as_it_is() -> None:
    code = "```python\nvalue = function_with_a_long_name(first, second, third)\n```\n"
    assert wrapped(code + "and words that are broken", 20) == code + "and words that are \nbroken"


@pytest.mark.proves("terminal.narrow")
def test_scripts_without_spaces_break_between_characters() -> None:
    assert wrapped("日本語の文章は空白なしで続く", 10) == "日本語の文\n章は空白な\nしで続く"


def _longest_word(line: str) -> int:
    return max((get_cwidth(word) for word in line.split()), default=0)
