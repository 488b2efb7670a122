"""Word-level disguises: leetspeak, missing or extra separators, typing errors, simple ciphers.

Each is tried only when it reveals a strong word that the plain text does not show, so ordinary text pays for a few set
operations and nothing else.
"""

from __future__ import annotations

import re
from itertools import pairwise

from hermes.safety.known_words import CIPHERS, LETTERS, STRONG_LENGTH, vocabulary
from hermes.safety.separators import squashed
from hermes.safety.surroundings import WIDEST_RULE, places_of, surroundings
from hermes.safety.words import ENDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from hermes.safety.known_words import Vocabulary
    from hermes.safety.lexicon import Lexicon
    from hermes.safety.typing_errors import Errors

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
