"""Whom and what a text names: people, products, places, files, quoted terms, in spaced and unspaced scripts.

Rules, no model: a name that is missed is still found by its words, because a probe also looks for the phrase itself.
"""

# ruff: noqa: RUF001 - the punctuation of other scripts is meant as it stands

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermes.providers.facts.words import (
    DATES,
    HAN_GLUE,
    HAN_NEGATIONS,
    HAN_SUFFIXES,
    HAN_VERBS,
    LINKS,
    STARTERS,
    TITLES,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LONGEST = 80
MOST = 24
_LETTERS = r"[^\W\d_]"
# A word may hold apostrophes (O'Brien, doesn't), hyphens and digits (Jean-Luc, GPT-4), and end in an initial's dot.
_WORD = re.compile(rf"{_LETTERS}[\w]*(?:['’\-]\w+)*")
_QUOTED = re.compile(
    r"\"([^\"\n]{2,80})\"|“([^”\n]{2,80})”|`([^`\n]{2,80})`|「([^」\n]{1,80})」|『([^』\n]{1,80})』|《([^》\n]{1,80})》"
    # A single quote opens only where a word cannot go on, so that doesn't and Bob's are no quotations.
    r"|(?<!\w)'([^'\n]{2,60})'(?!\w)|(?<!\w)‘([^’\n]{2,60})’(?!\w)"
)
_IDENTIFIER = re.compile(
    r"(?<![\w./@-])(?:https?://[^\s,;)]+|[\w.+-]+@[\w-]+\.[\w.]+"  # addresses
    r"|[\w-]*\w(?:/[\w.-]+)+|[A-Za-z][\w-]*(?:\.[A-Za-z]\w+)+|[A-Za-z]\w*_\w+|[a-z]+[A-Z]\w*"  # paths and code
    r"|[A-Za-z]+(?:-[A-Za-z]+)*-?\d[\w.-]*[A-Za-z0-9])"  # host-12, gpt4
)
_ALSO = re.compile(
    r"([^,;.()，。；（）]{1,60}?)[\s,，(（]*(?:\baka\b|\ba\.k\.a\.|\balso known as\b|又名|别名|也叫|又叫|亦称)[\s:：]*"
    r"([^,;.()，。；（）]{1,60})",
    re.IGNORECASE,
)
_HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_KANA = "\u3041-\u3096\u30a1-\u30fa\u30fc"
_HAN_RUN = re.compile(f"[{_HAN}]+(?:·[{_HAN}]+)*")
_HAN_TITLED = re.compile(f"[{_HAN}](?:{'|'.join(HAN_SUFFIXES)})")
_UNSPACED_RUN = re.compile(f"[{_HAN}{_KANA}\uac00-\ud7a3]+")
_JAPANESE_NAME = re.compile(f"[\u30a1-\u30fa\u30fc]{{2,}}|[{_HAN}]{{2,8}}")
_JAPANESE_TITLE = re.compile(f"([{_HAN}\u30a1-\u30fa\u30fc]{{1,8}})(?:さん|様|君|氏|ちゃん)")
_HAS_KANA = re.compile(f"[{_KANA}]")
_KOREAN = re.compile(
    "([\uac00-\ud7a3]{1,9}?[\uac00-\ud7a3])(?:에서는|에서|에게|께서|으로|은|는|이|가|을|를|에|와|과|의|로)(?![\uac00-\ud7a3])"
)
_HAN_BREAK = re.compile(
    "|".join(map(re.escape, sorted({*HAN_VERBS, *HAN_GLUE, *HAN_NEGATIONS, *HAN_SUFFIXES}, key=len, reverse=True)))
)
_LONGEST_HAN = 8


@dataclass(frozen=True, slots=True)
class Named:
    """A name as written, and the names it also goes by."""

    name: str
    aliases: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        return key_of(self.name)


def key_of(name: str) -> str:
    """What two spellings of one name have in common."""
    folded = unicodedata.normalize("NFKC", name).casefold().replace("’", "'").strip(" \t\n.,;:!?\"'`()[]{}。，、！？")
    folded = folded.removesuffix("'s")
    return " ".join(folded.split())[:LONGEST]


def parts_of(key: str) -> list[str]:
    """The single words by which somebody with several names may be called."""
    words = key.split()
    return [word for word in words if len(word) > 1 and word not in LINKS] if len(words) > 1 else []


def find_entities(text: str, given: Iterable[str] = ()) -> list[Named]:
    """Each entity once, in the order found; `given` ones come first."""
    text = unicodedata.normalize("NFC", text)
    found: dict[str, Named] = {}
    for name in (*given, *_names(text)):
        key = key_of(name)
        if key and (len(key) > 1 or not key.isascii()) and key not in found:
            found[key] = Named(name.strip()[:LONGEST])
    for one, other in _also_known(text, found):
        found[one] = Named(found[one].name, (*found[one].aliases, found[other].name))
        del found[other]
    return list(found.values())[:MOST]


def _names(text: str) -> Iterator[str]:
    for match in _QUOTED.finditer(text):
        yield next(group for group in match.groups() if group)
    yield from (match[0].rstrip(".") for match in _IDENTIFIER.finditer(text))
    yield from _capitalised(text)
    if _HAS_KANA.search(text):
        yield from _JAPANESE_TITLE.findall(text)
        yield from (match[0] for match in _JAPANESE_NAME.finditer(text))
    else:
        yield from _HAN_TITLED.findall(text)
        for run in _HAN_RUN.finditer(text):
            yield from han_pieces(run[0])
    yield from (name for name in _KOREAN.findall(text) if len(name) > 1)


def _capitalised(text: str) -> Iterator[str]:
    """Runs of words with a capital; at the start of a sentence only when the word is no ordinary starter."""
    run: list[str] = []
    end = 0
    text = _UNSPACED_RUN.sub("|", text)
    for match in _WORD.finditer(text):
        between = text[end : match.start()]
        starts = end == 0 or between.strip() not in ("", ",") or "\n" in between
        end = match.end()
        word, ended = _without_possessive(match[0])
        joined = bool(run) and between in (" ", ". ") and (between == " " or len(run[-1]) == 1)
        if joined and (_is_name(word) or (word in LINKS and _goes_on(text, end))):
            run.append(word)
        else:
            yield from _finished(run)
            run = [word] if _is_name(word) and not (starts and word.casefold() in STARTERS) else []
        if ended:
            yield from _finished(run)
            run = []
    yield from _finished(run)


def _finished(run: list[str]) -> Iterator[str]:
    while run and run[-1] in LINKS:
        run.pop()
    if run and not all(word.casefold() in DATES for word in run):
        yield " ".join(run)


def _is_name(word: str) -> bool:
    return word[0].isupper() and word not in TITLES and (len(word) > 1 or word not in "IA")


def _goes_on(text: str, end: int) -> bool:
    return text[end : end + 1] == " " and (
        text[end + 1 : end + 2].isupper() or text[end + 1 : end + 5] in ("der ", "den ")
    )


def _without_possessive(word: str) -> tuple[str, bool]:
    plain = word.replace("’", "'")
    if plain.endswith("'s"):
        return word[:-2], True
    if plain.endswith(("n't", "'ll", "'re", "'ve", "'d", "'m")):
        return plain.rpartition("'")[0], True
    return word, False


def _also_known(text: str, found: dict[str, Named]) -> Iterator[tuple[str, str]]:
    for match in _ALSO.finditer(text):
        before = [key for key in found if key and key_of(match[1]).endswith(key)]
        after = [key for key in found if key and key_of(match[2]).startswith(key)]
        if before and after:
            one, other = max(before, key=len), max(after, key=len)
            if one != other:
                yield one, other


def han_pieces(run: str) -> list[str]:
    """What stands between verbs and particles; a lone character is no name."""
    pieces = _HAN_BREAK.split(run)
    return [piece for piece in pieces if 1 < len(piece) <= _LONGEST_HAN * (2 if "·" in piece else 1)]
