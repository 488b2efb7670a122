"""Word-level disguises: leetspeak, missing or extra separators, typing errors, simple ciphers.

Each is tried only when it reveals a strong word that the plain text does not show, so ordinary text pays for a few set
operations and nothing else.
"""

from __future__ import annotations

import re

from hermes.safety.lexicon import bit
from hermes.safety.surroundings import WIDEST_RULE, places_of, surroundings
from hermes.safety.tables import compiled, load_table
from hermes.safety.typing_errors import Errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from hermes.safety.lexicon import Lexicon

_STRONG_LENGTH = 5
_LEET = str.maketrans("034578@$69+2€|!", "oeastbasggtze11")
_LEET_BESIDE = "0123456789@$!|+"
_LEET_WORD = re.compile("[a-z1]{4,20}")
_INNER_MARK = re.compile(r"!(?<=[\w\s]!)(?=\w)")
_LEET_SIGN = re.compile(r"[a-z][0-9@$!|+]|[0-9@$|+][a-z]|\s![a-z]")
_OTHER_SCRIPTS = re.compile(r"[^\x00-\x7f€]+")
_ROT13 = str.maketrans("abcdefghijklmnopqrstuvwxyz", "nopqrstuvwxyzabcdefghijklm")
_ATBASH = str.maketrans("abcdefghijklmnopqrstuvwxyz", "zyxwvutsrqponmlkjihgfedcba")
_LETTERS, _DIGITS = "abcdefghijklmnopqrstuvwxyz", "0123456789"
_PLAIN_WORD = re.compile("[a-z]+")
_CIPHER_WORD = re.compile("[a-z']+")
_STRETCHED = re.compile(r"([a-z])\1{2,}")
_TELLING_LENGTH = 7
_LONGEST_WORD = 15
_LONGEST_TYPO = 20
_SHORT_WORD = 2
_SHORT_LENGTHS = (3, 2)
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
        self.openings: dict[str, int] = {}
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
        """The lengths that words of four letters and more have, by the first four.

        Beside it: `openings`, three letters that any word can begin with, each with the length of the short word in it,
        and `telling`, strong words by their first letters, of which `inside` has four.
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
                if len(word) > _SHORT_WORD + 1:
                    lengths.setdefault(word[:4], set()).add(len(word))
            self._segments = {start: tuple(sorted(found, reverse=True)) for start, found in lengths.items()}
            pairs = [word for word in self.words if len(word) == _SHORT_WORD]
            starts = {word[:3] for word in self.words} | {pair + letter for pair in pairs for letter in _LETTERS}
            self.openings = {start: self._short_length(start) for start in starts}
            for word in self.strong:
                self.telling.setdefault(word[:_STRONG_LENGTH], []).append(word)
            self.inside = frozenset(start[at : at + 4] for start in self.telling for at in (0, 1))
        return self._segments

    def _short_length(self, start: str) -> int:
        """How long the word of at most three letters is that `start` begins with; 0 when there is none."""
        return next((length for length in _SHORT_LENGTHS if len(start) >= length and start[:length] in self.words), 0)

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
    if stretched := _stretched(folded, known, words):
        yield "stretched letters", cut(_unstretched(surroundings(folded, stretched)))
    corrected, slips = _corrected(tokens, known, words)
    if slips:
        yield "typing errors" if slips > 1 else "typing error", corrected


def _stretched(folded: str, known: set[str], words: Vocabulary) -> list[tuple[int, int]]:
    """Where words stand that somebody knows once their stretched letters are single."""
    every = " ".join(known) + " "
    stretched: dict[str, None] = {}
    for triple in [letter * 3 for letter in _LETTERS if letter * 3 in every]:
        at = every.find(triple)
        while at >= 0:
            end = every.find(" ", at)
            stretched |= dict.fromkeys(_PLAIN_WORD.findall(every, every.rfind(" ", 0, at) + 1, end))
            at = every.find(triple, end)
    meant = {
        word for word, single in _with_single_letters(stretched).items() if single != word and single in words.short
    }
    return places_of(folded, meant, _PLAIN_WORD)


def _unstretched(text: str) -> str:
    parts = re.split("([a-z]+)", text)
    parts[1::2] = map(_with_single_letters(dict.fromkeys(parts[1::2])).__getitem__, parts[1::2])
    return "".join(parts)


def _with_single_letters(words: Collection[str]) -> dict[str, str]:
    """Words without their stretched letters; all at once, because a text can be full of them."""
    return dict(zip(words, _STRETCHED.sub(lambda found: found[1], " ".join(words)).split(), strict=True))


def _spells(text: str) -> bool:
    """True unless the text is numbers with hardly a letter: words written with digits keep letters between them."""
    digits = sum(map(text.count, _DIGITS))
    some = sum(map(text.count, "etaoin"))  # usually enough to know without counting all
    return some * 4 >= digits or sum(map(text.count, _LETTERS)) * 4 >= digits


def _leet(folded: str, known: set[str], cut: Callable[[str], list[str]], words: Vocabulary) -> list[str] | None:
    text = _INNER_MARK.sub("1", " " + folded)[1:] if "!" in folded else folded
    text = text.translate(_LEET)
    spelt = set(_LEET_WORD.findall(text)) - known
    news = {word for word in spelt if "1" in word and _with_letters(word, words) in words.lexicon.masks}
    text = surroundings(text, places_of(text, news | (spelt & words.lexicon.masks.keys()), _LEET_WORD))
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
        found = hits.get(name, set())
        if sum(1 if len(word) < _TELLING_LENGTH else 2 for word in found) > 1:
            text = surroundings(folded, places_of(folded, found, _CIPHER_WORD))
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
        for length in segments.get(text[position : position + 4], ()):
            word = text[position : position + length]
            if word in known_words:
                break
        else:
            short = openings[text[position : position + 3]]
            if not short:
                continue
            word = text[position : position + short]
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
    return {word: right for word in errors.alike(unknown) if (right := errors.correct(word))}


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
