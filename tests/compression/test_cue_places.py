"""Texts with cue words are found together; parting the words of each says the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.compression.cue_places import texts_with_cues
from hermes.compression.cues import ANY_WORD

FILLER = ("lock", "musty", "nevermore", "onl", "y", "?", "好的。", "a\0b", "\ud800", "12:00", "Été", "")
BLANKS = (" ", "  ", "\t", "\n", "\x1f", "\u3000", "\xa0", ",", "。", "")


def found(texts: list[str]) -> set[int]:
    return texts_with_cues(texts, [text.encode("ascii", "replace") for text in texts])


@pytest.mark.proves("compression.kept")
@pytest.mark.parametrize("cue", sorted(ANY_WORD))
def test_each_cue_is_found_wherever_it_stands(cue: str) -> None:
    around = ("{}", "{} it", "do {}", "We {} it.", "one\n{}\ttwo", "好的 {} 好的", "{}\u3000x", "x" * 70_000 + " {} y")
    texts = ["nothing here", *(each.format(cue) for each in around), "nor", ""]
    assert found(texts) == set(range(1, 1 + len(around)))
    assert found([f"{cue}x", f"x{cue}", f"x{cue}x"]) == {
        at for at, word in enumerate((f"{cue}x", f"x{cue}", f"x{cue}x")) if word in ANY_WORD
    }


pieces = st.one_of(st.sampled_from(sorted(ANY_WORD)), st.sampled_from(FILLER), st.sampled_from(BLANKS), st.text())
texts_of_pieces = st.lists(pieces, max_size=8).map("".join)


@pytest.mark.proves("compression.kept")
@given(st.lists(texts_of_pieces, max_size=6))
def test_the_words_of_each_text_say_the_same(texts: list[str]) -> None:
    assert found(texts) == {at for at, text in enumerate(texts) if not ANY_WORD.isdisjoint(text.split())}
