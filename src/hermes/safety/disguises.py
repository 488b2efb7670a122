"""Word-level disguises: leetspeak, missing or extra separators, typing errors, simple ciphers.

Each is tried only when it reveals a strong word that the plain text does not show, so ordinary text pays for a few set
operations and nothing else.
"""

from __future__ import annotations

import re

from hermes.safety.lexicon import bit
from hermes.safety.surroundings import WIDEST_RULE, places_of, surroundings
from hermes.safety.tables import compiled, load_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from hermes.safety.lexicon import Lexicon

_STRONG_LENGTH = 5
_LEET = str.maketrans("034578@$69+2€|!", "oeastbasggtze11")
_LEET_BESIDE = "0123456789@$!|+"
_LEET_WORD = re.compile("[a-z1]{4,20}")
_LEET_SIGN = re.compile(r"[a-z][0-9@$!|+]|[0-9@$|+][a-z]|\s![a-z]")
_OTHER_SCRIPTS = re.compile(r"[^\x00-\x7f€]+")
_ROT13 = str.maketrans("abcdefghijklmnopqrstuvwxyz", "nopqrstuvwxyzabcdefghijklm")
_ATBASH = str.maketrans("abcdefghijklmnopqrstuvwxyz", "zyxwvutsrqponmlkjihgfedcba")
_LETTERS, _DIGITS = "abcdefghijklmnopqrstuvwxyz", "0123456789"
_PLAIN_WORD = re.compile("[a-z]+")
_STRETCHED = re.compile(r"([a-z])\1{2,}")
_TELLING_LENGTH = 7
_LONGEST_WORD = 15
_LONGEST_TYPO = 20
_SHORT_WORD = 2
_LONGEST_SCRAP = 4
_FEWEST_SCRAPS = 3
_RULE_LETTERS = 300  # letters that a rule spans at most, about sixty words
_SURE = 100  # letters behind a strong word that are taken without looking for another
_SCRAP_SHARE = 4  # one token in four
_vocabularies: dict[str, Vocabulary] = {}


class Vocabulary:
    """What the disguises are checked against, worked out once per lexicon."""

    def __init__(self, lexicon: Lexicon) -> None:
        self.lexicon = lexicon
        self._segments: dict[str, tuple[int, ...]] = {}
        self.openings: frozenset[str] = frozenset()
        self.telling: dict[str, list[str]] = {}
        self.inside: frozenset[str] = frozenset()
        self.words: frozenset[str] = frozenset()
        self._errors: list[Errors] = []
        tables = compiled("disguises")
        if tables is None:
            self._work_out()
        else:
            self.fillers, self.short, self.strong, self.ciphered = tables
            self.long = [word for word in self.strong if len(word) > _STRONG_LENGTH]

    def _work_out(self) -> None:
        lexicon = self.lexicon
        wanted = 0
        tables = load_table("disguises.txt")
        for concept in tables["key_concepts"].split():
            wanted |= bit(concept)
        self.fillers = tables["fillers"].split()
        self.short = {*lexicon.masks, *lexicon.phrases, *self.fillers}
        self.strong = {
            word: mask
            for word, mask in lexicon.masks.items()
            if mask & wanted and len(word) >= _STRONG_LENGTH and "'" not in word
        }
        self.long = [word for word in self.strong if len(word) > _STRONG_LENGTH]
        self.ciphered = {
            form(word): name for name, form in _CIPHERS for word in self.strong if form(word) not in lexicon.masks
        }

    def state(self) -> tuple[object, ...]:
        """What takes time to work out, as plain values for the compiled tables."""
        return self.fillers, self.short, self.strong, self.ciphered

    def segments(self) -> dict[str, tuple[int, ...]]:
        """The lengths that known words have, by their first three letters (two for words of two).

        Beside it: `openings`, three letters that any word can begin with, and `telling`, strong words by their first
        letters, of which `inside` has four.
        """
        if not self._segments:
            words = {*self.lexicon.masks, *self.fillers, *self.lexicon.phrases}
            for seconds in self.lexicon.phrases.values():
                words.update(
                    part for second, endings in seconds.items() for rest, _ in endings for part in (second, *rest)
                )
            self.words = frozenset(word for word in words if len(word) > 1 and word.isascii())
            lengths: dict[str, set[int]] = {}
            for word in self.words:
                lengths.setdefault(word[:3], set()).add(len(word))
            self._segments = {start: tuple(sorted(found, reverse=True)) for start, found in lengths.items()}
            pairs = [word for word in self.words if len(word) == _SHORT_WORD]
            self.openings = frozenset([*self._segments, *(pair + letter for pair in pairs for letter in _LETTERS)])
            for word in self.strong:
                self.telling.setdefault(word[:_STRONG_LENGTH], []).append(word)
            self.inside = frozenset(start[at : at + 4] for start in self.telling for at in (0, 1))
        return self._segments

    def covers(self, found: list[str]) -> bool:
        """True when `found` is a row of known words, most of its letters in words of some length."""
        self.segments()
        letters = sum(map(len, found))
        short = sum(len(word) for word in found if len(word) <= _SHORT_WORD)
        unknown = sum(len(word) for word in found if word not in self.words)
        return unknown * 10 <= letters and short * 3 <= letters

    def strong_errors(self) -> Errors:
        if not self._errors:
            self._errors.append(Errors(self.long, self._real()))
        return self._errors[0]

    def all_errors(self) -> Errors:
        if len(self._errors) < 2:  # noqa: PLR2004 - the strong ones come first
            self.segments()
            every = {word for word in self.words if len(word) > _STRONG_LENGTH}
            self._errors.append(Errors(every, self._real()))
        return self._errors[1]

    def _real(self) -> frozenset[str]:
        return frozenset(load_table("real_words.txt")["words"].split())


def vocabulary(lexicon: Lexicon) -> Vocabulary:
    if lexicon.name not in _vocabularies:
        _vocabularies[lexicon.name] = Vocabulary(lexicon)
    return _vocabularies[lexicon.name]


def disguises(
    folded: str, tokens: list[str], cut: Callable[[str], list[str]], lexicon: Lexicon, *, letter_by_letter: bool
) -> Iterator[tuple[str, list[str]]]:
    """(name, tokens) of every way to read the text that shows more than the plain words do.

    A text written `letter_by_letter` is read again with its letters together, so here nobody puts them together.
    """
    known = set(tokens)
    words = vocabulary(lexicon)
    if not folded.isascii():  # all of this is about English words
        folded = _OTHER_SCRIPTS.sub(" ", folded)
    leet = None
    if any(sign in folded for sign in _LEET_BESIDE) and _LEET_SIGN.search(folded) and _spells(folded):
        leet = _leet(folded, known, cut, words)
    if leet is not None:
        yield "leetspeak", leet
    yield from _ciphers(folded, known, cut, words)
    squashed = None if letter_by_letter else _squashed(tokens, known, words)
    if squashed is not None:
        yield "separators", squashed
    if leet is not None:
        squashed = _squashed(leet, set(leet), words)
        if squashed is not None:
            yield "leetspeak, separators", squashed
    if stretched := _stretched(folded, words):
        yield "stretched letters", cut(_STRETCHED.sub(r"\1", surroundings(folded, stretched)))
    corrected, slips = _corrected(tokens, known, words)
    if slips:
        yield "typing errors" if slips > 1 else "typing error", corrected


def _stretched(folded: str, words: Vocabulary) -> list[tuple[int, int]]:
    """Where words stand that somebody knows once their stretched letters are single."""
    found = []
    done = 0
    for place, _ in places_of(folded, [letter * 3 for letter in _LETTERS if letter * 3 in folded]):
        if place < done:
            continue
        start = place
        while start > done and folded[start - 1].isalpha():
            start -= 1
        word = _PLAIN_WORD.match(folded, start)
        if word is not None and _STRETCHED.sub(r"\1", word[0]) in words.short:
            found.append(word.span())
        done = max(place, start) if word is None else word.end()
    return found


def _spells(text: str) -> bool:
    """True unless the text is numbers with hardly a letter: words written with digits keep letters between them."""
    digits = sum(map(text.count, _DIGITS))
    some = sum(map(text.count, "etaoin"))  # usually enough to know without counting all
    return some * 4 >= digits or sum(map(text.count, _LETTERS)) * 4 >= digits


def _leet(folded: str, known: set[str], cut: Callable[[str], list[str]], words: Vocabulary) -> list[str] | None:
    text = re.sub(r"(?<=\w)!(?=\w)|(?<=\s)!(?=\w)|^!(?=\w)", "1", folded) if "!" in folded else folded
    text = text.translate(_LEET)
    spelt = set(_LEET_WORD.findall(text)) - known
    news = {word for word in spelt if "1" in word and _with_letters(word, words) in words.lexicon.masks}
    text = surroundings(text, places_of(text, news | (spelt & words.lexicon.masks.keys())))
    tokens = cut(text)
    spelled = {token: _with_letters(token, words) for token in set(tokens) - known if "1" in token}
    tokens = [spelled.get(token, token) for token in tokens] if spelled else tokens
    new = set(tokens) - known
    return tokens if any(token in words.short or not token.isalnum() for token in new) else None


def _with_letters(word: str, words: Vocabulary) -> str:
    """`word` with every 1 as the letter it stands for."""
    as_i, as_l = word.replace("1", "i"), word.replace("1", "l")
    mixed = word.replace("1", "i", 1).replace("1", "l")
    return next((form for form in (as_i, as_l, mixed) if form in words.lexicon.masks), as_i)


def _ciphers(
    folded: str, known: set[str], cut: Callable[[str], list[str]], words: Vocabulary
) -> Iterator[tuple[str, list[str]]]:
    hits: dict[str, set[str]] = {}
    for word in known & words.ciphered.keys():
        hits.setdefault(words.ciphered[word], set()).add(word)
    for name, form in _CIPHERS:
        found = hits.get(name, ())
        if sum(1 if len(word) < _TELLING_LENGTH else 2 for word in found) > 1:
            text = surroundings(folded, places_of(folded, found))
            yield name, cut(form(text))
            if name == "reversed":
                yield name, cut(" ".join(chunk[::-1] for chunk in text.split()))


def _squashed(tokens: list[str], known: set[str], words: Vocabulary) -> list[str] | None:
    """The letters of all words cut into known words again, around the strong words that they hold."""
    if not _in_pieces(tokens, known, words):
        return None
    plain = {word for word in known if word.isalpha() and word.isascii()}
    # Words that are glued together begin and end where they stand; only scraps belong to their neighbours.
    pieces = {word: f" {word} " if len(word) > _LONGEST_WORD else word for word in plain}
    text = "".join([pieces[word] for word in tokens if word in plain])
    segments = words.segments()
    cut: list[str] = []
    for start, end in _around_strong_words(text, words):
        if cut:
            cut.append(".")
        cut += _segmented(text[start:end], segments, words)
    return cut or None


def _around_strong_words(text: str, words: Vocabulary) -> Iterator[tuple[int, int]]:
    """Where strong words stand in `text`, with as much around them as a rule spans; neighbours as one."""
    telling, inside = words.telling, words.inside
    first = last = found = -_SURE
    # Four letters at every second place are enough to notice a word of five, wherever it begins.
    for place in [at for at in range(0, len(text), 2) if text[at : at + 4] in inside]:
        if place - found < _SURE:
            continue
        for at in (place - 1, place):
            if any(text.startswith(word, at) for word in telling.get(text[at : at + _STRONG_LENGTH], ())):
                break
        else:
            continue
        if last < 0 or place - _RULE_LETTERS > last:
            if last >= 0:
                yield first, last
            first = max(0, place - _RULE_LETTERS)
        found, last = place, place + _RULE_LETTERS + _SURE
    if last >= 0:
        yield first, last


def _segmented(text: str, segments: dict[str, tuple[int, ...]], words: Vocabulary) -> list[str]:
    known_words, openings = words.words, words.openings
    cut: list[str] = []
    done = 0
    for position in [at for at in range(len(text)) if text[at : at + 3] in openings]:
        if position < done:
            continue
        start = text[position : position + 3]
        for length in segments.get(start, ()):
            word = text[position : position + length]
            if word in known_words:
                break
        else:
            word = start[:2]
            if word not in known_words:
                continue
        if between := text[done:position].strip():
            cut.append(between)
        cut.append(word)
        done = position + len(word)
    return cut


def _in_pieces(tokens: list[str], known: set[str], words: Vocabulary) -> bool:
    """True when words seem to be glued together or cut apart: very long ones, or many short ones nobody knows."""
    if max(map(len, known), default=0) > _LONGEST_WORD:
        return True
    scraps = {word for word in known if len(word) <= _LONGEST_SCRAP and word.isalpha() and word not in words.short}
    return len(scraps) >= _FEWEST_SCRAPS and sum(map(scraps.__contains__, tokens)) * _SCRAP_SHARE >= len(tokens)


def _corrected(tokens: list[str], known: set[str], words: Vocabulary) -> tuple[list[str], int]:
    """Typing errors put right, and how many; lesser words only beside a strong one that was misspelled too."""
    masks = words.lexicon.masks
    unknown = [
        word
        for word in known
        if _STRONG_LENGTH <= len(word) <= _LONGEST_TYPO and word not in masks and word.isascii() and word.isalpha()
    ]
    corrections = _corrections(unknown, words.strong_errors())
    if not corrections:
        return tokens, 0
    beside = _beside(tokens, corrections)
    lesser = [word for word in unknown if word in beside and word not in corrections]
    corrections |= _corrections(lesser, words.all_errors())
    return [corrections.get(token, token) for token in tokens], len(corrections)


def _beside(tokens: list[str], wanted: Collection[str]) -> set[str]:
    """The words around `wanted`, as far as a rule reaches."""
    found: set[str] = set()
    done = 0
    for place in [at for at, token in enumerate(tokens) if token in wanted]:
        found.update(tokens[max(done, place - WIDEST_RULE) : place + WIDEST_RULE])
        done = place + WIDEST_RULE
    return found


def _corrections(unknown: list[str], errors: Errors) -> dict[str, str]:
    found = {}
    for word in unknown:
        right = errors.correct(word)
        if right:
            found[word] = right
    return found


class Errors:
    """Words, to be found by a misspelling: an error touches two neighbours, so some end is as it should be."""

    def __init__(self, words: Iterable[str], real: frozenset[str]) -> None:
        self.words = frozenset(words)
        self.real = real
        self._by_end: dict[str, list[str]] = {}
        for word in sorted(self.words):
            for end in _ends(word):
                self._by_end.setdefault(end, []).append(word)

    def correct(self, word: str) -> str:
        """The listed word that `word` is a typing error of, or an empty string."""
        by_end = self._by_end
        candidates = [right for end in _ends(word) if end in by_end for right in by_end[end]]
        if not candidates or word in self.real:
            return ""
        if word in self.words:
            return word
        return next((right for right in candidates if one_error(right, word)), "")


def _ends(word: str) -> tuple[str, str, str]:
    """The beginning of a word, its end, and a little of both, which two letters swapped in the middle leave."""
    return word[:3], "-" + word[-3:], word[:2] + "-" + word[-2:]


def one_error(right: str, wrong: str) -> bool:
    """True when one letter is missing, too many or another, or two neighbours are swapped."""
    if abs(len(right) - len(wrong)) > 1:
        return False
    first = next((at for at, (one, other) in enumerate(zip(right, wrong, strict=False)) if one != other), -1)
    if first < 0:
        return len(right) != len(wrong)  # it is the last one
    if len(right) > len(wrong):
        return right[first + 1 :] == wrong[first:]
    if len(right) < len(wrong):
        return right[first:] == wrong[first + 1 :]
    swapped = right[first : first + 2] == wrong[first : first + 2][::-1]
    return right[first + 1 :] == wrong[first + 1 :] or (swapped and right[first + 2 :] == wrong[first + 2 :])


def _rot13(word: str) -> str:
    return word.translate(_ROT13)


def _atbash(word: str) -> str:
    return word.translate(_ATBASH)


def _backwards(word: str) -> str:
    return word[::-1]


_CIPHERS: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("rot13", _rot13),
    ("reversed", _backwards),
    ("atbash", _atbash),
)
