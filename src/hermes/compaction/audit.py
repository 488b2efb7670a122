"""Judges a summary before it may replace anything, and finds what must be restored word for word."""

from __future__ import annotations

import re
from itertools import takewhile
from typing import TYPE_CHECKING

from hermes.base.tokens import estimate
from hermes.compaction.facts import ORDER, SENTENCES, TRIMMED, by_importance, words_of
from hermes.compaction.messages import at_most

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hermes.compaction.facts import Fact

NAMES_SHARE = 1 / 3  # of the "kept exactly" section, which questions leave to the newest names
_SHORTEST = 24  # characters; no session worth compacting fits into less
_NO_COINCIDENCE = 6  # characters
_PHRASE = 6  # words, or twice as many characters where words are not spaced
_LOOP_FROM = 60  # phrases; in less nothing can be said
_LOOP_BELOW = 0.35  # share of distinct phrases; prose and lists stay above 0.8
_REPEATED_LINE = 5
_REFUSAL = re.compile(
    r"^\W*(?:(?:i['\u2019]?m|i am)\s+(?:very\s+)?(?:sorry|afraid|unable|not able)|sorry\b"
    r"|i\s+(?:can['\u2019]?t|cannot|can not|won['\u2019]?t)\b"
    r"|as an ai\b|i apologi[sz]e|unfortunately,? i\b|lo siento|no puedo|je suis désolé|je ne peux pas"
    r"|es tut mir leid|ich kann (?:das |dies |dabei |leider )?nicht|mi dispiace|извините|я не могу"
    r"|抱歉|对不起|對不起|我无法|我無法|申し訳|お手伝いできません|죄송|عذرا|آسف)",
    re.IGNORECASE,
)
_REFUSAL_UP_TO = 1_200  # characters; a long text that begins with "sorry" is about one
_HEADING = re.compile(r"^#{1,4} ", re.MULTILINE)
_UNFINISHED = re.compile(r"(?:[,;:(\[{=+\-/&]|\b(?:and|or|the|a|an|of|to|in|with|for|because|that))\s*$", re.IGNORECASE)
_INVENTED_FROM = 6  # identifiers; fewer may be slips
_PLURAL = {"identifier": "identifiers", "url": "addresses", "path": "paths", "number": "numbers"}
_KINDS = {word: kind for kind, word in _PLURAL.items()}


def fault(summary: str, max_tokens: int, source: str) -> str:
    """Why a summary must not be used; "" when it may. `source` is what it was made from, for a look at its names."""
    text = summary.strip()
    if len(text) < _SHORTEST:
        return "it is empty"
    if len(text) < _REFUSAL_UP_TO and _REFUSAL.match(text) and not _HEADING.search(text):
        return "the model refused"
    if _loops(text):
        return "it repeats itself"
    tokens = estimate(text)
    if tokens > 2 * max_tokens:
        return f"it is too long: about {tokens:,} tokens, {max_tokens:,} were asked for"
    if _is_cut(text, tokens, max_tokens):
        return "it ends in the middle"
    return _invented(text, source)


def missing(facts: Iterable[Fact], held: Held) -> Iterator[Fact]:
    """Facts that the summary does not hold as they were written."""
    return (fact for fact in facts if not held.has(fact.text))


class Held:
    """The words of a summary, sorted so that hundreds of facts can be looked up in it."""

    def __init__(self, summary: str) -> None:
        in_order = summary.split()
        self._words = set(in_order)
        self._flat = " ".join(in_order)
        self._trimmed = {word.strip(TRIMMED) for word in self._words}
        # A name may be part of a longer word; plain words hold none.
        self._odd = "\n".join(word for word in self._words if not (word.isalpha() and word.islower()))
        # Names and numbers between the letters of scripts that have no blanks.
        foreign = " ".join(word for word in self._words if not word.isascii())
        self._embedded = {word for _, word in words_of(foreign)}

    def has(self, text: str) -> bool:
        if text in self._words:
            return True
        if " " in text:
            return text in self._flat
        if len(text) >= _NO_COINCIDENCE:  # kept wherever it stands
            return text in self._odd
        return text in self._trimmed or text in self._embedded  # "42" is not kept by "1420"


def keep_exactly(earlier: str, facts: Sequence[Fact], held: Held, room: int, for_names: float = NAMES_SHARE) -> str:
    """The "kept exactly" section: what an earlier block kept in about `room` tokens, then the missing facts.

    New facts get what is left, and half of the room in any case: old ones must not keep them out. In the same way
    questions that would fill it leave a share `for_names`, the newest ones.
    """
    chosen: dict[tuple[str, str], None] = {}
    left = max(_choose(_parse(earlier), room, chosen)[0], room / 2)
    ranked = by_importance(facts)
    first = next((at for at, fact in enumerate(ranked) if fact.kind == "question"), len(ranked))
    left, all_fit = _choose(_missing(ranked[:first], held), left, chosen)
    if all_fit:
        questions = list(takewhile(lambda fact: fact.kind == "question", ranked[first:]))
        share = room * for_names
        left, all_fit = _choose(_missing(questions, held), left - share, chosen)
        left += share
        if all_fit:
            _choose(_missing(ranked[first + len(questions) :], held), left, chosen)
        elif share:
            names = sorted([fact for fact in facts if fact.kind in _PLURAL], key=lambda fact: -fact.position)
            left, _ = _choose(_missing(names, held), left, chosen)
            _choose(_missing(questions, held), left, chosen)
    return _render(chosen)


def _missing(facts: Iterable[Fact], held: Held) -> Iterator[tuple[str, str]]:
    return ((fact.kind, fact.text) for fact in missing(facts, held))


def _choose(
    candidates: Iterable[tuple[str, str]], room: float, chosen: dict[tuple[str, str], None]
) -> tuple[float, bool]:
    """Takes candidates until one finds no room any more; returns what is left of it, and whether all found some."""
    for kind, text in candidates:
        if (kind, text) not in chosen:
            cost = at_most(text) + (2 if kind in SENTENCES else 0)
            if cost > room:
                return room, False
            room -= cost
            chosen[kind, text] = None
    return room, True


def count_kept(section: str) -> int:
    return sum(1 for _ in _parse(section))


def _parse(section: str) -> list[tuple[str, str]]:
    found = []
    for line in section.splitlines():
        name, colon, rest = line.removeprefix("- ").partition(": ")
        if not colon:
            continue
        if name in _KINDS:
            found += [(_KINDS[name], word) for word in rest.split()]
        elif name in ORDER:
            found.append((name, rest))
    return found


def _render(chosen: Iterable[tuple[str, str]]) -> str:
    by_kind: dict[str, list[str]] = {}
    for kind, text in chosen:
        by_kind.setdefault(kind, []).append(text)
    lines = []
    for kind in ORDER:
        texts = by_kind.get(kind, [])
        if kind in SENTENCES:
            lines += [f"- {kind}: {text}" for text in texts]
        elif texts:
            lines.append(f"- {_PLURAL[kind]}: {' '.join(texts)}")
    return "\n".join(lines)


def _loops(text: str) -> bool:
    lines = [line.strip() for line in text.splitlines() if len(line.strip()) > 12]  # noqa: PLR2004 - not "-" or "none"
    if lines:
        most = max(map(lines.count, set(lines[-40:])))
        if most >= _REPEATED_LINE and most * 3 > len(lines):
            return True
    words = text.split()
    units: Sequence[str] = words if len(words) * 12 > len(text) else "".join(words)
    size = _PHRASE if units is words else 2 * _PHRASE
    phrases = [tuple(units[at : at + size]) for at in range(len(units) - size)]
    return len(phrases) >= _LOOP_FROM and len(set(phrases)) < len(phrases) * _LOOP_BELOW


def _is_cut(text: str, tokens: int, max_tokens: int) -> bool:
    if text.count("```") % 2:
        return True
    last = text.splitlines()[-1].strip()
    if re.fullmatch(r"#{1,4}(?: .*)?", last):
        return True  # a heading and nothing under it: the model stopped there
    if _UNFINISHED.search(last) and last != "-":
        return True
    return tokens >= max_tokens * 0.97 and not re.search(r"[.!?)\]`|*\"\u201d\u3002\uff01\uff1f]$", last)


def _invented(text: str, source: str) -> str:
    """A summary whose names mostly do not occur in its source was not made from it."""
    names = {word for kind, word in words_of(text) if kind in ("identifier", "path", "url")}
    strange = [name for name in names if name not in source]
    if len(strange) >= _INVENTED_FROM and len(strange) * 2 > len(names):
        return f"{len(strange)} of its {len(names)} names do not occur in the conversation"
    return ""
