"""Undoes disguises of words: leetspeak, missing or extra separators, typing errors, simple ciphers.

Each is tried only when it reveals a strong word that the plain text does not show, so ordinary text pays for a few set
operations and nothing else.
"""

from __future__ import annotations

import re
import sys
from itertools import accumulate, pairwise

from hermes.safety.lexicon import ENDS, WIDEST_RULE, bit, places_of, surroundings
from hermes.safety.tables import compiled, load_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    _Spelling = tuple[str, int, int]
    from collections.abc import Callable, Collection, Iterator

    from hermes.safety.lexicon import Lexicon


class Errors:
    """Words, to be found by a misspelling: an error touches two neighbours, so most of the word is as it should be."""

    def __init__(self, words: Iterable[str], real: frozenset[str]) -> None:
        self.words = frozenset(words)
        self.real = real
        # By both ends, for an error in the middle; by all but a few last letters; by all but a few first ones.
        self._framed: dict[str, list[_Spelling]] = {}
        self._headed: dict[str, list[_Spelling]] = {}
        self._tailed: dict[str, list[_Spelling]] = {}
        for word in self.words:
            spelling = word, len(word), _as_number(word)
            self._framed.setdefault(word[:2] + word[-2:], []).append(spelling)
            for size in range(len(word) - 4, len(word) - 1):  # the error may have added a letter, or taken one
                self._headed.setdefault(word[:size], []).append(spelling)
                self._tailed.setdefault(word[-size:], []).append(spelling)

    def alike(self, unknown: Iterable[str]) -> list[str]:
        """Those that may be meant for a listed word, and are no words of their own."""
        framed, headed, tailed, real = self._framed, self._headed, self._tailed, self.real
        return [
            word
            for word in unknown
            if (word[:2] + word[-2:] in framed or word[:-3] in headed or word[3:] in tailed) and word not in real
        ]

    def correct(self, word: str) -> str:
        """The listed word that `word`, in letters of ASCII, is a typing error of, or an empty string."""
        if word in self.words:
            return word
        candidates = (
            *self._framed.get(word[:2] + word[-2:], ()),
            *self._headed.get(word[:-3], ()),
            *self._tailed.get(word[3:], ()),
        )
        size, wrong = len(word), _as_number(word)
        meant: list[str] = []
        for right, length, number in candidates:
            longer = length - size
            if -1 <= longer <= 1 and _one_error(number, wrong, longer):
                meant.append(right)
        if len(meant) < 2:  # noqa: PLR2004 - there is nothing to choose
            return meant[0] if meant else ""
        # Of several the one that begins alike, as a reader would take it.
        return min(meant, key=lambda right: (right[:3] != word[:3], right[-3:] != word[-3:], right))


def _as_number(word: str) -> int:
    """A word as one number, a byte for each letter, the first one lowest: two are compared all letters at once."""
    return int.from_bytes(word.encode(), "little")


def _one_error(right: int, wrong: int, longer: int) -> bool:
    """True when one letter is missing, too many or another, or two neighbours are swapped, and nothing else.

    `longer` is how many letters the right word has more.
    """
    differ = right ^ wrong
    same = (differ & -differ).bit_length() - 1 & -8  # bits of the letters before the first that differs
    right >>= same
    wrong >>= same
    if longer:
        return right >> 8 == wrong if longer > 0 else right == wrong >> 8
    if right >> 8 == wrong >> 8:
        return True
    return right >> 16 == wrong >> 16 and right & 0xFF == wrong >> 8 & 0xFF and right >> 8 & 0xFF == wrong & 0xFF


# What disguises are checked against: the words of a lexicon by their letters, the strong ones, and ciphers.

STRONG_LENGTH = 5
LETTERS = "abcdefghijklmnopqrstuvwxyz"
_ROT13 = str.maketrans(LETTERS, "nopqrstuvwxyzabcdefghijklm")
_ATBASH = str.maketrans(LETTERS, "zyxwvutsrqponmlkjihgfedcba")
_SHORT_WORD = 2
_SHORT_LENGTHS = (3, 2)
_vocabularies: dict[str, Vocabulary] = {}


class Vocabulary:
    """What the disguises are checked against, worked out once per lexicon."""

    def __init__(self, lexicon: Lexicon) -> None:
        self.lexicon = lexicon
        self._segments: dict[str, tuple[int, ...]] = {}
        self.openings: dict[str, int] = {}
        self.telling: dict[str, list[str]] = {}
        self.inside: frozenset[int] = frozenset()
        self.words: frozenset[str] = frozenset()
        self._errors: list[Errors] = []
        tables = compiled("disguises")
        if tables is None:
            self._work_out()
        else:
            self.fillers, self.short, self.strong, self.ciphered = tables
            self.long = [word for word in self.strong if len(word) > STRONG_LENGTH]

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
            if mask & wanted and len(word) >= STRONG_LENGTH and "'" not in word
        }
        self.long = [word for word in self.strong if len(word) > STRONG_LENGTH]
        self.ciphered = {
            form(word): name for name, form in CIPHERS for word in self.strong if form(word) not in lexicon.masks
        }

    def state(self) -> tuple[object, ...]:
        """What takes time to work out, as plain values for the compiled tables."""
        return self.fillers, self.short, self.strong, self.ciphered

    def segments(self) -> dict[str, tuple[int, ...]]:
        """The lengths that words of four letters and more have, by the first four.

        Beside it: `openings`, three letters that any word can begin with, each with the length of the short word in it,
        and `telling`, strong words by their first letters, of which `inside` has four, as numbers.
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
            starts = {word[:3] for word in self.words} | {pair + letter for pair in pairs for letter in LETTERS}
            self.openings = {start: self._short_length(start) for start in starts}
            for word in self.strong:
                self.telling.setdefault(word[:STRONG_LENGTH], []).append(word)
            self.inside = _as_numbers(start[at : at + 4] for start in self.telling for at in (0, 1))
        return self._segments

    def _short_length(self, start: str) -> int:
        """How long the word of at most three letters is that `start` begins with; 0 when there is none."""
        return next((length for length in _SHORT_LENGTHS if len(start) >= length and start[:length] in self.words), 0)

    def covers(self, found: list[str]) -> bool:
        """True when `found` is a row of known words, most of its letters in words of some length."""
        self.segments()
        letters = short = unknown = 0
        for word in found:  # one plain loop: asked for every match among letters without spaces
            size = len(word)
            letters += size
            if size <= _SHORT_WORD:
                short += size
            if word not in self.words:
                unknown += size
        return unknown * 10 <= letters and short * 3 <= letters

    def strong_errors(self) -> Errors:
        if not self._errors:
            self._errors.append(Errors(self.long, self._real()))
        return self._errors[0]

    def all_errors(self) -> Errors:
        if len(self._errors) < 2:  # noqa: PLR2004 - the strong ones come first
            self.segments()
            every = {word for word in self.words if len(word) > STRONG_LENGTH}
            self._errors.append(Errors(every, self._real()))
        return self._errors[1]

    def _real(self) -> frozenset[str]:
        return frozenset(load_table("real_words.txt")["words"].split())


def _as_numbers(letters: Iterable[str]) -> frozenset[int]:
    return frozenset(int.from_bytes(each.encode(), sys.byteorder) for each in letters)


def vocabulary(lexicon: Lexicon) -> Vocabulary:
    if lexicon.name not in _vocabularies:
        _vocabularies[lexicon.name] = Vocabulary(lexicon)
    return _vocabularies[lexicon.name]


def _rot13(word: str) -> str:
    return word.translate(_ROT13)


def _atbash(word: str) -> str:
    return word.translate(_ATBASH)


def _backwards(word: str) -> str:
    return word[::-1]


CIPHERS: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("rot13", _rot13),
    ("reversed", _backwards),
    ("atbash", _atbash),
)


# Words without their spaces, or with spaces inside them: their letters are cut into known words again.

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


_LEET = str.maketrans("034578@$69+2€|!", "oeastbasggtze11")
_LEET_BESIDE = "0123456789@$!|+"
_LEET_WORD = re.compile("[a-z1]{4,20}")
_LEET_LETTERS = bytes(code if chr(code) in LETTERS + "1" else ord(" ") for code in range(256))
_INNER_MARK = re.compile(r"!(?<=[\w\s]!)(?=\w)")
_LEET_SIGN = re.compile(r"[a-z][0-9@$!|+]|[0-9@$|+][a-z]|\s![a-z]")
_OTHER_SCRIPTS = re.compile(r"[^\x00-\x7f€]+")
_PLAIN_WORD = re.compile("[a-z]+")
_CIPHER_WORD = re.compile("[a-z']+")
_STRETCHED = re.compile(r"([a-z])\1{2,}")
_TELLING_LENGTH = 7
_LONGEST_TYPO = 20
_FIRST_WORDS = 1_500
_MANY_WORDS = 4_000
_FAR = WIDEST_RULE + 40  # words: around a match as many are weighed
_FEW_WORDS = 25


class Written:
    """A folded text, its words, and whether these stand in single letters."""

    __slots__ = ("folded", "known", "letter_by_letter", "tokens")

    def __init__(self, folded: str, tokens: list[str], *, letter_by_letter: bool) -> None:
        # All of this is about English words.
        self.folded = folded if folded.isascii() else _OTHER_SCRIPTS.sub(" ", folded)
        self.tokens, self.known, self.letter_by_letter = tokens, set(tokens), letter_by_letter


def disguises(
    written: Written, cut: Callable[[str], list[str]], lexicon: Lexicon, only_refusals: Callable[[], bool]
) -> Iterator[tuple[str, list[str]]]:
    """(name, tokens) of every way to read the text that shows more than the plain words do.

    A text written letter by letter is read again with its letters together, so here nobody puts them together. What is
    a guess is left out as soon as `only_refusals` says that a question more would not matter.
    """
    folded, tokens, known = written.folded, written.tokens, written.known
    words = vocabulary(lexicon)
    leet = _leet(folded, known, cut, words)
    if leet is not None:
        yield "leetspeak", leet
    yield from _ciphers(folded, known, cut, words)
    # First what may be refused: of a long text it is then the last thing looked for.
    stretched, singles = _stretched(folded, known, words)
    if stretched:
        yield "stretched letters", cut(_unstretched(surroundings(folded, stretched), singles))
    if not written.letter_by_letter:
        parts = (("separators", cut_again) for cut_again in squashed(tokens, known, words))
        yield from _until(only_refusals, parts) if is_guess("separators", tokens) else parts
    if leet is not None:
        yield from (("leetspeak, separators", cut_again) for cut_again in squashed(leet, set(leet), words))
    yield from _until(only_refusals, _corrected(tokens, known, words))


def _until(enough: Callable[[], bool], parts: Iterator[tuple[str, list[str]]]) -> Iterator[tuple[str, list[str]]]:
    while not enough():
        part = next(parts, None)
        if part is None:
            return
        yield part


def is_guess(name: str, tokens: list[str]) -> bool:
    """Whether what a disguise shows is never refused.

    Real words differ by one letter, too; in a long text some identifiers come apart into words that happen to make a
    sentence.
    """
    return name.startswith("typing error") or (name == "separators" and len(tokens) > _FEW_WORDS)


def _stretched(folded: str, known: set[str], words: Vocabulary) -> tuple[list[tuple[int, int]], dict[str, str]]:
    """Where words stand that somebody knows once their stretched letters are single, and every stretched word so."""
    every = " ".join(known) + " "
    stretched: dict[str, None] = {}
    for triple in [letter * 3 for letter in LETTERS if letter * 3 in every]:
        at = every.find(triple)
        while at >= 0:
            end = every.find(" ", at)
            word = every[every.rfind(" ", 0, at) + 1 : end]
            if word.isalpha():
                stretched[word] = None
            else:
                stretched |= dict.fromkeys(_PLAIN_WORD.findall(word))
            at = every.find(triple, end)
    singles = _with_single_letters(stretched)
    meant = {word for word, single in singles.items() if single != word and single in words.short}
    return places_of(folded, meant, _PLAIN_WORD), singles


def _unstretched(text: str, singles: dict[str, str]) -> str:
    parts = re.split("([a-z]+)", text)
    parts[1::2] = [singles.get(word, word) for word in parts[1::2]]
    return "".join(parts)


def _with_single_letters(words: Collection[str]) -> dict[str, str]:
    """Words without their stretched letters; all at once, because a text can be full of them."""
    return dict(zip(words, _STRETCHED.sub(lambda found: found[1], " ".join(words)).split(), strict=True))


def _spells(text: str) -> bool:
    """True unless a text is numbers with hardly a letter: words written with digits keep letters between them."""
    raw = text.encode("ascii", "replace")
    without_digits = raw.translate(None, b"0123456789")
    letters = len(without_digits) - len(without_digits.translate(None, LETTERS.encode()))
    return letters * 4 >= len(raw) - len(without_digits)


def _leet(folded: str, known: set[str], cut: Callable[[str], list[str]], words: Vocabulary) -> list[str] | None:
    if not (any(sign in folded for sign in _LEET_BESIDE) and _LEET_SIGN.search(folded)):
        return None
    if not _spells(folded):
        chunks = folded.split()
        spelling = {chunk for chunk in set(chunks) if not chunk.isdigit() and _spells(chunk)}
        folded = " ".join([chunk for chunk in chunks if chunk in spelling])
    text = _INNER_MARK.sub("1", " " + folded)[1:] if "!" in folded else folded
    text = text.translate(_LEET)
    spelt = _spelt_in(text) - known
    news = (spelt & words.lexicon.masks.keys()) | _meant_with_letters(spelt, words)
    text = surroundings(text, places_of(text, news, _LEET_WORD))
    tokens = cut(text)
    spelled = {token: _with_letters(token, words) for token in set(tokens) - known if "1" in token}
    tokens = [spelled.get(token, token) for token in tokens] if spelled else tokens
    new = set(tokens) - known - ENDS
    return tokens if any(token in words.short or not token.isalnum() for token in new) else None


def _spelt_in(text: str) -> set[str]:
    """What the expression for words in leetspeak matches; only what is too long for a word is shown to it."""
    runs = set(text.encode("ascii", "replace").translate(_LEET_LETTERS).decode().split())
    longer = [run for run in runs if len(run) > _LONGEST_TYPO]
    return {run for run in runs if 3 < len(run) <= _LONGEST_TYPO}.union(_LEET_WORD.findall(" ".join(longer)))  # noqa: PLR2004


def _meant_with_letters(spelt: Iterable[str], words: Vocabulary) -> set[str]:
    """The words with a 1 that somebody knows with a letter instead; the 1s of all are replaced at once."""
    masks = words.lexicon.masks
    ones = [word for word in spelt if "1" in word]
    joined = " ".join(ones)
    forms = zip(ones, joined.replace("1", "i").split(), joined.replace("1", "l").split(), strict=True)
    return {
        word
        for word, as_i, as_l in forms
        if as_i in masks or as_l in masks or (word.count("1") > 1 and _with_letters(word, words) in masks)
    }


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
    for name, form in CIPHERS:
        found = hits.get(name, set())
        if sum(1 if len(word) < _TELLING_LENGTH else 2 for word in found) > 1:
            text = surroundings(folded, places_of(folded, found, _CIPHER_WORD))
            yield name, cut(form(text))
            if name == "reversed":
                yield name, cut(" ".join(chunk[::-1] for chunk in text.split()))


def _corrected(tokens: list[str], known: set[str], words: Vocabulary) -> Iterator[tuple[str, list[str]]]:
    """Typing errors put right; lesser words only beside a strong one that was misspelled too.

    A long text comes a part at a time, each with some words of its neighbours; the first part is small, because a text
    full of errors soon shows what it is.
    """
    masks = words.lexicon.masks
    unknown = {
        word
        for word in known
        if STRONG_LENGTH <= len(word) <= _LONGEST_TYPO and word not in masks and word.isascii() and word.isalpha()
    }
    likely = set(words.strong_errors().alike(unknown))
    if not likely:
        return
    strong: dict[str, str] = {}
    every: dict[str, str] = {}
    bounds = [0, *range(_FIRST_WORDS, len(tokens), _MANY_WORDS), len(tokens)]
    for start, end in pairwise(bounds):
        part = tokens[max(0, start - WIDEST_RULE) : end + WIDEST_RULE]
        corrections = _corrections(likely.intersection(part), words.strong_errors(), strong)
        if corrections:
            lesser = unknown.intersection(_beside(part, corrections, WIDEST_RULE)) - corrections.keys()
            corrections |= _corrections(words.all_errors().alike(lesser), words.all_errors(), every)
            name = "typing errors" if len(corrections) > 1 else "typing error"
            shown = part if len(part) < _FIRST_WORDS else _beside(part, corrections, _FAR)
            yield name, [corrections.get(token, token) for token in shown]


def _beside(tokens: list[str], wanted: Collection[str], reach: int) -> list[str]:
    """The words around `wanted`, as far as `reach`; the end of a sentence where others are left out."""
    found: list[str] = []
    done = 0
    for place in [at for at, token in enumerate(tokens) if token in wanted]:
        if place - reach > done:
            found.append(".")
        found += tokens[max(done, place - reach) : place + reach]
        done = place + reach
    return found


def _corrections(unknown: Iterable[str], errors: Errors, known: dict[str, str]) -> dict[str, str]:
    """What misspelled words are meant to be; `known` remembers what was worked out before."""
    found = {}
    for word in unknown:
        if word not in known:
            known[word] = errors.correct(word)
        if known[word]:
            found[word] = known[word]
    return found
