"""Word-level disguises: leetspeak, missing or extra separators, typing errors, simple ciphers.

Each is tried only when it reveals a strong word that the plain text does not show, so ordinary text pays for a few set
operations and nothing else.
"""

from __future__ import annotations

import re

from hermes.safety.lexicon import bit
from hermes.safety.tables import compiled, load_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from hermes.safety.lexicon import Lexicon

_STRONG_LENGTH = 5
_LEET = str.maketrans("034578@$69+2€|!", "oeastbasggtze11")
_LEET_SIGNS = re.compile("[034578@$69+2€|!]+")
_LEET_SIGN = re.compile(r"[a-z][0-9@$!|+]|[0-9@$|+][a-z]|\s![a-z]")
_OTHER_SCRIPTS = re.compile(r"[^\x00-\x7f]+")
_ROT13 = str.maketrans("abcdefghijklmnopqrstuvwxyz", "nopqrstuvwxyzabcdefghijklm")
_ATBASH = str.maketrans("abcdefghijklmnopqrstuvwxyz", "zyxwvutsrqponmlkjihgfedcba")
_LETTERS, _DIGITS = "abcdefghijklmnopqrstuvwxyz", "0123456789"
_STRETCHED = re.compile(r"([a-z])\1{2,}")
_TELLING_LENGTH = 7
_LONGEST_WORD = 15
_LONGEST_TYPO = 20
_SHORT_WORD = 2
_LONGEST_SCRAP = 4
_FEWEST_SCRAPS = 3
_SCRAP_SHARE = 4  # one token in four
_vocabularies: dict[str, Vocabulary] = {}


class Vocabulary:
    """What the disguises are checked against, worked out once per lexicon."""

    def __init__(self, lexicon: Lexicon) -> None:
        self.lexicon = lexicon
        self._segments: dict[str, tuple[int, ...]] = {}
        self.words: frozenset[str] = frozenset()
        self._errors: list[Errors] = []
        tables = compiled("disguises")
        if tables is None:
            self._work_out()
        else:
            self.fillers, self.short, self.strong, self.ciphered, near = tables
            self.long = [word for word in self.strong if len(word) > _STRONG_LENGTH]
            self._errors.append(Errors(self.long, self._real(), near))

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
        return self.fillers, self.short, self.strong, self.ciphered, self.strong_errors().near

    def segments(self) -> dict[str, tuple[int, ...]]:
        """The lengths that known words have, by their first three letters (two for words of two)."""
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
    folded: str, tokens: list[str], cut: Callable[[str], list[str]], lexicon: Lexicon
) -> Iterator[tuple[str, list[str]]]:
    """(name, tokens) of every way to read the text that shows more than the plain words do."""
    known = set(tokens)
    words = vocabulary(lexicon)
    if not folded.isascii():  # all of this is about English words
        folded = _OTHER_SCRIPTS.sub(" ", folded)
    leet = _leet(folded, known, cut, words) if _LEET_SIGN.search(folded) and _spells(folded) else None
    if leet is not None:
        yield "leetspeak", leet
    yield from _ciphers(folded, known, cut, words)
    squashed = _squashed(tokens, known, words)
    if squashed is not None:
        yield "separators", squashed
    if leet is not None:
        squashed = _squashed(leet, set(leet), words)
        if squashed is not None:
            yield "leetspeak, separators", squashed
    if _STRETCHED.search(folded):
        yield "stretched letters", cut(_STRETCHED.sub(r"\1", folded))
    corrected, slips = _corrected(tokens, known, words)
    if slips:
        yield "typing errors" if slips > 1 else "typing error", corrected


def _spells(text: str) -> bool:
    """True unless the text is numbers with hardly a letter: words written with digits keep letters between them."""
    return sum(map(text.count, _LETTERS)) * 4 >= sum(map(text.count, _DIGITS))


def _leet(folded: str, known: set[str], cut: Callable[[str], list[str]], words: Vocabulary) -> list[str] | None:
    text = re.sub(r"(?<=\w)!(?=\w)|(?<=\s)!(?=\w)|^!(?=\w)", "1", folded) if "!" in folded else folded
    # Outside ASCII, translating looks every character up; then it is quicker to look for the signs alone.
    text = text.translate(_LEET) if text.isascii() else _LEET_SIGNS.sub(_spelled_out, text)
    tokens = cut(text)
    spelled = {}
    for token in set(tokens) - known:
        if "1" in token:
            as_i, as_l = token.replace("1", "i"), token.replace("1", "l")
            mixed = token.replace("1", "i", 1).replace("1", "l")
            spelled[token] = next((form for form in (as_i, as_l, mixed) if form in words.lexicon.masks), as_i)
    tokens = [spelled.get(token, token) for token in tokens] if spelled else tokens
    new = set(tokens) - known
    return tokens if any(token in words.short or not token.isalnum() for token in new) else None


def _spelled_out(found: re.Match[str]) -> str:
    return found[0].translate(_LEET)


def _ciphers(
    folded: str, known: set[str], cut: Callable[[str], list[str]], words: Vocabulary
) -> Iterator[tuple[str, list[str]]]:
    hits: dict[str, int] = {}
    for word in known & words.ciphered.keys():
        name = words.ciphered[word]
        hits[name] = hits.get(name, 0) + (1 if len(word) < _TELLING_LENGTH else 2)
    for name, form in _CIPHERS:
        if hits.get(name, 0) > 1:
            yield name, cut(form(folded))
            if name == "reversed":
                yield name, cut(" ".join(chunk[::-1] for chunk in folded.split()))


def _squashed(tokens: list[str], known: set[str], words: Vocabulary) -> list[str] | None:
    if not _in_pieces(tokens, known, words):
        return None
    text = "".join([word for word in tokens if word.isalpha() and word.isascii()])
    segments = words.segments()
    known_words = words.words
    cut: list[str] = []
    position = unknown = 0
    end = len(text)
    while position < end:
        start = text[position : position + 3]
        for length in segments.get(start, ()):
            word = text[position : position + length]
            if word in known_words:
                break
        else:
            word = start[:2]
            if word not in known_words or len(word) < 2:  # noqa: PLR2004 - the shortest words
                position += 1
                continue
        if unknown < position:
            cut.append(text[unknown:position])
        cut.append(word)
        position += len(word)
        unknown = position
    return cut


def _in_pieces(tokens: list[str], known: set[str], words: Vocabulary) -> bool:
    """True when words seem to be glued together or cut apart: very long ones, or many short ones nobody knows."""
    if any(len(word) > _LONGEST_WORD for word in known):
        return True
    scraps = {word for word in known if len(word) <= _LONGEST_SCRAP and word.isalpha() and word not in words.short}
    return len(scraps) >= _FEWEST_SCRAPS and sum(word in scraps for word in tokens) * _SCRAP_SHARE >= len(tokens)


def _corrected(tokens: list[str], known: set[str], words: Vocabulary) -> tuple[list[str], int]:
    """Typing errors put right, and how many; lesser words only beside a strong one that was misspelled too."""
    unknown = [word for word in known if _may_be_typo(word) and word not in words.lexicon.masks]
    corrections = _corrections(unknown, words.strong_errors())
    if not corrections:
        return tokens, 0
    corrections |= _corrections([word for word in unknown if word not in corrections], words.all_errors())
    return [corrections.get(token, token) for token in tokens], len(corrections)


def _may_be_typo(word: str) -> bool:
    return _STRONG_LENGTH <= len(word) <= _LONGEST_TYPO and word.isascii() and word.isalpha()


def _corrections(unknown: list[str], errors: Errors) -> dict[str, str]:
    found = {}
    for word in unknown:
        right = errors.correct(word)
        if right:
            found[word] = right
    return found


class Errors:
    """Words within one typing error of a list of words, by the deletions they share."""

    def __init__(self, words: Iterable[str], real: frozenset[str], near: dict[str, str] | None = None) -> None:
        self.words = frozenset(words)
        self.real = real
        self.near: dict[str, str] = near or {}
        if near is None:
            for word in sorted(self.words):
                for at in range(len(word)):
                    self.near.setdefault(word[:at] + word[at + 1 :], word)

    def correct(self, word: str) -> str:
        """The listed word that `word` is a typing error of, or an empty string."""
        if word in self.words:
            return word
        if word in self.real:
            return ""
        if word in self.near:  # a letter is missing
            return self.near[word]
        for at in range(len(word)):
            shorter = word[:at] + word[at + 1 :]
            if shorter in self.words:  # a letter too many
                return shorter
            right = self.near.get(shorter)
            if right is not None and len(right) == len(word) and _one_change(right, word):
                return right
        return ""


def _one_change(right: str, wrong: str) -> bool:
    """True when one letter differs or two neighbours are swapped."""
    differ = [at for at in range(len(right)) if right[at] != wrong[at]]
    if len(differ) == 1:
        return True
    first, last = differ[0], differ[-1]
    return last == first + 1 and right[first] == wrong[last] and right[last] == wrong[first]


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
