"""Texts with cue words are found together; parting the words of each says the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.compaction.facts import ANY_WORD, FOREIGN_CUE, PIECES, sentences_of, texts_with_cues

FILLER = ("lock", "musty", "nevermore", "onl", "y", "?", "好的。", "a\0b", "\ud800", "12:00", "Été", "")
FOREIGN = tuple(piece for pieces in PIECES.values() for piece in pieces)
BLANKS = (" ", "  ", "\t", "\n", "\x1f", "\u3000", "\xa0", ",", "。", "")


def found(texts: list[str]) -> set[int]:
    return texts_with_cues(texts, [text.encode("ascii", "replace") for text in texts]).numbers


@pytest.mark.proves("compression.kept")
@pytest.mark.parametrize("cue", sorted(ANY_WORD))
def test_each_cue_is_found_wherever_it_stands(cue: str) -> None:
    around = ("{}", "{} it", "do {}", "We {} it.", "one\n{}\ttwo", "好的 {} 好的", "{}\u3000x", "x" * 70_000 + " {} y")
    texts = ["nothing here", *(each.format(cue) for each in around), "nor", ""]
    assert found(texts) == set(range(1, 1 + len(around)))
    assert found([f"{cue}x", f"x{cue}", f"x{cue}x"]) == {
        at for at, word in enumerate((f"{cue}x", f"x{cue}", f"x{cue}x")) if word in ANY_WORD
    }


pieces = st.one_of(*map(st.sampled_from, (sorted(ANY_WORD), FILLER, FOREIGN, BLANKS)), st.text())
texts_of_pieces = st.lists(pieces, max_size=8).map("".join)


@pytest.mark.proves("compression.kept")
@given(st.lists(texts_of_pieces, max_size=6))
def test_the_words_of_each_text_say_the_same(texts: list[str]) -> None:
    cued = texts_with_cues(texts, [text.encode("ascii", "replace") for text in texts])
    assert cued.numbers == {at for at, text in enumerate(texts) if not ANY_WORD.isdisjoint(text.split())}
    assert cued.has_pieces or not any(map(FOREIGN_CUE.search, texts))
    for at, text in enumerate(texts):
        known = sentences_of(text, has_word=at in cued.numbers, has_pieces=cued.has_pieces)
        assert list(known) == list(sentences_of(text))
