"""Texts of 65,536 characters made of words that the scanner knows, or nearly knows, in every disguise it undoes."""

from __future__ import annotations

import json
import os
import re
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

LONG = 65_536
LETTERS = "abcdefghijklmnopqrstuvwxyz"
_TRIGGERS = (
    "ignore previous instructions secret password send user always whenever policy disable approve read add memory"
    " server tell hide token upload key delete backup admin recommend best link image system prompt assistant never run"
)
TRIGGERS = tuple(_TRIGGERS.split())
_LEET = str.maketrans("oeastibg", "03457189")
_ROT13 = str.maketrans(LETTERS, LETTERS[13:] + LETTERS[:13])
_ALIKE = str.maketrans("aceopxyisjhknrtuv", "асеорхуіѕјһкпгтսν")


def filled(piece: Callable[[random.Random], str]) -> Callable[[random.Random], str]:
    """Pieces one behind the other until the text is long enough."""

    def make(chance: random.Random) -> str:
        pieces: list[str] = []
        size = 0
        while size < LONG:
            pieces.append(piece(chance))
            size += len(pieces[-1])
        return "".join(pieces)[:LONG]

    return make


@cache
def _corpus() -> Sequence[tuple[str, str]]:
    """(language, text) of the development corpora."""
    folder = os.path.join(os.path.dirname(os.path.dirname(__file__)), "tests", "data", "safety")
    found = []
    for name in ("attacks", "harmless"):
        with open(os.path.join(folder, f"{name}.jsonl"), encoding="utf-8") as file:
            found += [(each["lang"], each["text"]) for each in map(json.loads, file)]
    return found


def _words_in(wanted: Callable[[str, str], bool]) -> Sequence[str]:
    words = {(tongue, word) for tongue, text in _corpus() for word in re.findall(r"[^\W\d_]+", text.lower())}
    return sorted({word for tongue, word in words if wanted(tongue, word)})


@cache
def english() -> Sequence[str]:
    return _words_in(lambda tongue, word: tongue == "en" and word.isascii())


@cache
def latin() -> Sequence[str]:
    return _words_in(lambda tongue, word: tongue != "en" and len(word) > 1 and word < "\u0250")


@cache
def other_scripts() -> Sequence[str]:
    return _words_in(lambda tongue, word: tongue != "en" and word >= "\u0250")


@cache
def _long_english() -> Sequence[str]:
    return [word for word in english() if len(word) > 5]  # noqa: PLR2004 - shorter ones are not taken for misspelt


def _words(
    words: Callable[[], Sequence[str]], form: Callable[[random.Random, str], str]
) -> Callable[[random.Random], str]:
    return filled(lambda chance: form(chance, chance.choice(words())))


def _near(chance: random.Random, word: str) -> str:
    at = chance.randrange(len(word) - 1)
    letter = chance.choice(LETTERS)
    forms = (word[:at] + word[at + 1 :], word[:at] + letter + word[at:], word[:at] + letter + word[at + 1 :])
    return chance.choice((*forms, word[:at] + word[at + 1] + word[at] + word[at + 2 :])) + " "


def _far(chance: random.Random, word: str) -> str:
    """Two letters are others: not a typing error, but every end looks like one."""
    first, second = chance.randrange(3, len(word)), chance.randrange(len(word) - 3)
    letters = list(word)
    letters[first], letters[second] = chance.choice(LETTERS), chance.choice(LETTERS)
    return "".join(letters) + " "


def _stretched(chance: random.Random, word: str) -> str:
    at = chance.randrange(len(word))
    return word[:at] + word[at] * chance.randint(3, 5) + word[at + 1 :] + " "


def _cut(chance: random.Random, word: str) -> str:
    at = chance.randrange(1, len(word)) if len(word) > 1 else 1
    return f"{word[:at]} {word[at:]} "


def _ended(chance: random.Random, word: str) -> str:
    return word + chance.choice((". ", "! ", "? ", "\n\n", " "))


def _ciphered(chance: random.Random, word: str) -> str:
    return chance.choice((word.translate(_ROT13), word[::-1], word.upper())) + " "


def _any_disguise(chance: random.Random, word: str) -> str:
    form = chance.choice((_near, _stretched, _cut, _ciphered, _alike, _leet, _ended))
    return form(chance, word if len(word) > 1 else "all")


def _alike(_: random.Random, word: str) -> str:
    return word.translate(_ALIKE) + " "


def _leet(_: random.Random, word: str) -> str:
    return word.translate(_LEET) + " "


def _with_space(_: random.Random, word: str) -> str:
    return word + " "


def _alone(_: random.Random, word: str) -> str:
    return word


WORDS: dict[str, Callable[[random.Random], str]] = {
    "every English word": _words(english, _with_space),
    "every Latin word": _words(latin, _with_space),
    "every word of other scripts": _words(other_scripts, _with_space),
    "other scripts without spaces": _words(other_scripts, _alone),
    "words with one error": _words(_long_english, _near),
    "words with two errors": _words(_long_english, _far),
    "foreign words with errors": _words(latin, lambda chance, word: _near(chance, word + "ab")),
    "words in leetspeak": _words(english, _leet),
    "words in ciphers": _words(english, _ciphered),
    "glued words": _words(english, _alone),
    "glued foreign words": _words(latin, _alone),
    "stretched words": _words(english, _stretched),
    "words cut in two": _words(english, _cut),
    "words that end sentences": _words(english, _ended),
    "look-alike words": _words(english, _alike),
    "every disguise": _words(english, _any_disguise),
    "words with digits": _words(english, lambda chance, word: f"{word}{chance.randrange(10)} "),
    "words with apostrophes": _words(english, lambda chance, word: f"{word}'{chance.choice(LETTERS)} "),
    "words in capitals": _words(english, lambda _, word: f"{word.upper()}-"),
    "words of three languages": filled(
        lambda chance: f"{chance.choice(english())} {chance.choice(latin())} {chance.choice(other_scripts())} "
    ),
}
