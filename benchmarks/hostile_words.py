"""Texts of 65,536 characters made of words that the scanner knows, or nearly knows, in every disguise it undoes."""

from __future__ import annotations

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
_NOTHING = " qq ww zz" * 14 + " "  # more words than a rule spans
_LIGHT = "emojis engine wrapped saturday lazy nginx tuesdays club museum isolated coffee mixer monorepo faq weekday"
_BETWEEN = 3  # words from one rule to the next
_SCRIPTS = ("han", "japanese", "korean", "cyrillic", "arabic", "hindi", "thai")


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
def english() -> Sequence[str]:
    from hermes.safety.languages import english as language

    return sorted(word for word in language().lexicon.masks if word.isalpha())


@cache
def latin() -> Sequence[str]:
    from hermes.safety.languages import latin_languages

    family = latin_languages()
    return sorted(word for word in {*family.exact, *family.stems} if word.isalpha())


@cache
def other_scripts() -> Sequence[str]:
    from hermes.safety.tables import load_table

    tables = (load_table(f"{name}.txt") for name in _SCRIPTS)
    return sorted({word.replace("_", " ") for table in tables for words in table.values() for word in words.split()})


@cache
def _strangers() -> Sequence[Sequence[str]]:
    """English words in groups, none of which has all that any rule needs: rules apply, but their words never meet."""
    from hermes.safety.languages import english as language

    masks, rules = language().lexicon.masks, language().rules
    groups: list[tuple[int, list[str]]] = []
    for word in english():
        for at, (present, words) in enumerate([*groups, (0, [])]):
            together = present | masks[word]
            if not any(together & rule.need[0] and rule.can_apply(together) for rule in rules):
                groups[at : at + 1] = [(together, [*words, word])]
                break
    return [words for _, words in groups]


def _never_meeting(chance: random.Random) -> str:
    groups = _strangers()
    size = LONG // len(groups)
    parts = (" ".join(chance.choices(words, k=size // 4))[: size - len(_NOTHING)] for words in groups)
    return "".join(part + _NOTHING for part in parts)


@cache
def _lightest(concepts: int) -> str:
    """The word with one of some concepts that hardly ever stands in attacks."""
    from hermes.safety.classifier import weight_of_concepts
    from hermes.safety.fast_path import weight_of_word
    from hermes.safety.languages import english as language

    masks = language().lexicon.masks
    able = [word for word in english() if masks[word] & concepts]
    return min(able, key=lambda word: weight_of_concepts(masks[word]) + weight_of_word(word), default="or")


def _hollow(chance: random.Random) -> str:
    """What rules match, but among words that speak against an attack: each match is weighed for nothing."""
    from hermes.safety.languages import english as language
    from hermes.safety.rules import orders_of

    light = _LIGHT.split()
    rules = [rule for rule in language().rules if rule.level == "refuse"]

    def matched(chance: random.Random) -> str:
        words: list[str] = []
        for concepts, gap, _ in chance.choice(orders_of(chance.choice(rules).source)):
            words += [*chance.choices(light, k=gap), _lightest(concepts)]
        return " ".join([*words, *chance.choices(light, k=_BETWEEN), ""])

    return filled(matched)(chance)


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


# Apart from the others, which are put together in turn.
MATCHED = {"rules among light words": _hollow}
WORDS: dict[str, Callable[[random.Random], str]] = {
    "every English word": _words(english, _with_space),
    "every Latin word": _words(latin, _with_space),
    "every word of other scripts": _words(other_scripts, _with_space),
    "other scripts without spaces": _words(other_scripts, _alone),
    "words of rules that never meet": _never_meeting,
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
