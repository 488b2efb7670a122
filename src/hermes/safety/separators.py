"""Words without their spaces, or with spaces inside them: their letters are cut into known words again."""

from __future__ import annotations

from itertools import accumulate

from hermes.safety.known_words import STRONG_LENGTH
from hermes.safety.surroundings import WIDEST_RULE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from hermes.safety.known_words import Vocabulary

LONGEST_WORD = 15
_DIGITS = "0123456789"
_LONGEST_SCRAP = 4
_FEWEST_SCRAPS = 3
_RULE_LETTERS = 300  # letters that a rule spans at most, about sixty words
_MANY_LETTERS = 12_000  # of which a text shows first what it is like; the rest is then read at once
_LONG_TEXT = 1_000  # words
_SURE = 100  # letters behind a strong word that are taken without looking for another
_SCRAP_SHARE = 4  # one token in four
_STRETCH = 16  # words, as many as a sentence cut in pieces has


def squashed(tokens: list[str], known: set[str], words: Vocabulary) -> Iterator[list[str]]:
    """The letters of all words cut into known words again, around the strong words that they hold.

    Of a long text the beginning comes first: what is found there is soon found. The rest comes as one, because rules
    are tried on much text in the same time as on little.
    """
    tokens = _in_pieces(tokens, known, words)
    if not tokens:
        return
    # Words that are glued together begin and end where they stand; only scraps belong to their neighbours.
    pieces = {word: word for word in known if len(word) <= LONGEST_WORD and word.isalpha() and word.isascii()}
    pieces |= {word: f" {word.strip(_DIGITS)} " for word in _glued(known)}
    text = "".join([pieces[word] for word in tokens if word in pieces])
    cut: list[str] = []
    letters, enough = 0, _MANY_LETTERS
    for start, end in _around_strong_words(text, words):
        if letters > enough:
            yield cut
            cut, letters, enough = [], 0, len(text)
        if cut:
            cut.append(".")
        cut += segmented(text[start:end], words)
        letters += end - start
    if cut:
        yield cut


def _around_strong_words(text: str, words: Vocabulary) -> Iterator[tuple[int, int]]:
    """Where strong words stand in `text`, with as much around them as a rule spans; neighbours as one."""
    telling = words.telling
    first = last = found = -_SURE
    for place in telling_places(text, words):
        if place - found < _SURE:
            continue
        for at in (place - 1, place):
            if any(text.startswith(word, at) for word in telling.get(text[at : at + STRONG_LENGTH], ())):
                break
        else:
            continue
        if last < 0 or place - _RULE_LETTERS > last or place - first > _MANY_LETTERS:
            if last >= 0:
                yield first, last
            first = max(0, place - _RULE_LETTERS)
        found, last = place, place + _RULE_LETTERS + _SURE
    if last >= 0:
        yield first, last


def telling_places(text: str, words: Vocabulary) -> list[int]:
    """Where four letters of a strong word stand, looked for at every second place: a strong word has five at least.

    Each four letters are compared as one number, because that takes half the time.
    """
    words.segments()
    raw, inside = text.encode(), words.inside
    places = []
    for start in (0, 2):
        numbers = memoryview(raw[start : start + (len(raw) - start) // 4 * 4]).cast("I").tolist()
        places += [start + 4 * at for at, number in enumerate(numbers) if number in inside]
    return sorted(places)


def segmented(text: str, words: Vocabulary) -> list[str]:
    """From the left, the longest known word at each place, and what stands between such words."""
    known, lengths, openings = words.words, words.segments(), words.openings
    cut: list[str] = []
    done = at = 0
    end = len(text)
    while at < end:
        short = openings.get(text[at : at + 3])
        if short is None:  # no word begins so
            at += 1
            continue
        for length in lengths.get(text[at : at + 4], ()):
            word = text[at : at + length]
            if word in known:
                break
        else:
            if not short:
                at += 1
                continue
            word = text[at : at + short]
        if at > done and (between := text[done:at].strip()):
            cut.append(between)
        cut.append(word)
        done = at = at + len(word)
    return cut


def _glued(known: set[str]) -> set[str]:
    """Those that are too long for one word; a number behind it makes no difference."""
    long = [word for word in known if len(word) > LONGEST_WORD and word.isascii()]
    return {word for word in long if word.strip(_DIGITS).isalpha()}


def _in_pieces(tokens: list[str], known: set[str], words: Vocabulary) -> list[str]:
    """The words that seem to be glued together or cut apart: very long ones, or many short ones nobody knows.

    All words when a quarter of them do, or when any does in a short text; else those around any place that does.
    """
    long = _glued(known)
    scraps = {word for word in known if len(word) <= _LONGEST_SCRAP and word.isalpha() and word not in words.short}
    before = [0, *accumulate(map(scraps.__contains__, tokens if len(scraps) >= _FEWEST_SCRAPS else ()))]
    if before[-1] * _SCRAP_SHARE >= len(tokens):
        return tokens
    if len(tokens) < _LONG_TEXT:
        return tokens if long else []
    places = [(at, at + 1) for at, word in enumerate(tokens) if word in long] if long else []
    places += [
        (start, start + _STRETCH)
        for start in range(0, len(before) - _STRETCH, _STRETCH // 2)
        if (before[start + _STRETCH] - before[start]) * _SCRAP_SHARE >= _STRETCH
    ]
    found: list[str] = []
    done = 0
    for start, end in sorted(places):
        found += tokens[max(done, start - WIDEST_RULE) : end + WIDEST_RULE]
        done = max(done, end + WIDEST_RULE)
    return found
