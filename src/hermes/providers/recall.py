"""Makes one text for the model of what several providers recalled: clean, without repetition, within a budget."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hermes.safety.fence import sanitize_context
from hermes.vocabulary.tokens import estimate

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

CUT = "[… more was recalled than fits]"
_CHARACTERS_PER_TOKEN = 12  # more than any script needs; keeps gigabytes away from the exact count
_SHORTEST_REPEATED = 8
_LEADING = re.compile(r"^[\s\-*•>]*(?:\d{1,3}[.)]\s+)?(?:\[[^\]\n]{0,24}\]\s*)?")
_NO_WORD = re.compile(r"[\W_]+")


def clean(text: object, budget: int) -> str:
    """A provider's text without fences and half characters; TypeError when it is no text at all."""
    if not isinstance(text, str):
        raise TypeError(f"expected text, got {type(text).__name__}")
    plain = str.__getitem__(text, slice(0, budget * _CHARACTERS_PER_TOKEN))  # whatever a subclass of str makes of it
    whole = plain.encode("utf-8", "replace").decode("utf-8").replace("\x00", "")
    return sanitize_context(whole).strip()


def merge(texts: Sequence[str], *, budget: int, known: Iterable[str] = ()) -> str:
    """The texts one after the other. No line comes twice, none that is `known` already, and together they cost at most
    `budget` tokens: each has the same share, and what one does not need goes to the others.
    """  # noqa: D205 - one thought
    seen = {_key(each) for each in known}
    kept = [_without_repetition(text, seen) for text in texts]
    kept = [text for text in kept if text]
    shares = _shares([estimate(text) for text in kept], budget - 2 * len(kept))
    return "\n\n".join(filter(None, map(_cut, kept, shares)))


def _without_repetition(text: str, seen: set[str]) -> str:
    lines = []
    for line in text.split("\n"):
        key = _key(line)
        if len(key) >= _SHORTEST_REPEATED:
            if key in seen:
                continue
            seen.add(key)
        lines.append(line)
    left = "\n".join(lines).strip()
    # Headings whose facts are all gone say nothing.
    return left if any(line.strip() and not line.lstrip().startswith("#") for line in lines) else ""


def _key(line: str) -> str:
    return _NO_WORD.sub("", _LEADING.sub("", line)).casefold()


def _shares(costs: list[int], budget: int) -> list[int]:
    shares, left = [0] * len(costs), max(budget, 0)
    for position, index in enumerate(sorted(range(len(costs)), key=costs.__getitem__)):
        shares[index] = min(costs[index], left // (len(costs) - position))
        left -= shares[index]
    return shares


def _cut(text: str, budget: int) -> str:
    if estimate(text) <= budget:
        return text
    room = budget - estimate(CUT) - 1
    kept: list[str] = []
    for line in text.split("\n"):
        cost = estimate(line) + 1
        if cost > room:
            break
        kept.append(line)
        room -= cost
    if not "".join(kept).strip():  # the first line alone is too long
        first = text.split("\n", 1)[0]
        kept = [first[: max(0, len(first) * room // max(estimate(first), 1))].rstrip()]
    body = "\n".join(kept).rstrip()
    return f"{body}\n{CUT}" if body else ""
