"""The finder of the places where words may begin, which the threat scanner skips through a text with."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.safety.lexicon import UNUSUAL, Beginnings, FewBeginnings


@pytest.mark.internal("the finder of beginnings misses none")
@given(st.lists(st.sampled_from([*"abcky. -", "key", "ckab", "ckabc"]), max_size=80).map("".join))
@settings(max_examples=200, deadline=None)
def test_every_place_where_a_word_begins_is_found(text: str) -> None:
    found = set(Beginnings("abc|key.|- a", "bck|kyc", "ckabc").places(text.encode()))
    places = range(len(text))
    assert {at for at in places if text.startswith(("abc", "- a", "bck", "kyc", "ckabc"), at)} <= found
    assert {at for at in places if text.startswith("key", at) and not text[at + 3 : at + 4].isalpha()} <= found
    assert all(text[at] in "abk-" or text.startswith("ckabc", at) for at in found)


@pytest.mark.internal("the finder of beginnings misses none")
@given(
    st.lists(st.sampled_from(["abck", "- ab", "KYca", "caB ", *"abcky -\n"]), max_size=40).map("".join),
    st.sampled_from(["", "b" * 120_000]),
)
@settings(max_examples=100, deadline=None)
def test_nor_of_two_groups_of_words(text: str, before: str) -> None:
    words = FewBeginnings("abck|- ab", "kyca|cab ", usual=b"abcABCykYK -")
    marks = words.marks((before + text).encode())
    found = set(words.places(marks))
    places = range(len(before), len(before + text))
    assert {at for at in places if (before + text).lower().startswith(("abck", "- ab", "kyca", "cab "), at)} <= found
    assert all((before + text)[at] in "a-kcAKC\n" for at in found)
    assert found.isdisjoint(range(len(before)))
    assert [at for at in places if marks[at : at + 1] == UNUSUAL] == [
        at for at in places if (before + text)[at] == "\n"
    ]
