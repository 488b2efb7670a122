"""The finder of the places where words may begin, which the search for secrets skips through a text with."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.safety.secrets import Beginnings


@pytest.mark.internal("the finder of beginnings misses none")
@given(st.lists(st.sampled_from([*"abcky. -", "key", "ckab", "ckabc"]), max_size=80).map("".join))
@settings(max_examples=200, deadline=None)
def test_every_place_where_a_word_begins_is_found(text: str) -> None:
    found = set(Beginnings("abc|key.|- a", "bck|kyc", "ckabc").places(text.encode()))
    places = range(len(text))
    assert {at for at in places if text.startswith(("abc", "- a", "bck", "kyc", "ckabc"), at)} <= found
    assert {at for at in places if text.startswith("key", at) and not text[at + 3 : at + 4].isalpha()} <= found
    assert all(text[at] in "abk-" or text.startswith("ckabc", at) for at in found)
