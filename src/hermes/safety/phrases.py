"""Words that mean something only together: finds the phrases of a lexicon among the words of a text."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    # second word -> (the words after it, meaning), longest first; "*" for a stem in its place
    Endings = Mapping[str, list[tuple[list[str], int]]]


def phrases_in(
    tokens: list[str], places: Iterable[int], phrases: Mapping[str, Endings]
) -> Iterator[tuple[int, int, int]]:
    """(start, end, meaning) of phrases, in order, none inside another; `places` are those of their first words."""
    done = 0
    for position in places:
        if position < done:
            continue
        seconds = phrases[tokens[position]]
        second = tokens[position + 1] if position + 1 < len(tokens) else ""
        if second not in seconds and "*" not in seconds:
            continue  # as most are
        length, mask = _phrase_at(tokens, position, seconds, second)
        if length:
            done = position + length
            yield position, done, mask


def _phrase_at(tokens: list[str], position: int, seconds: Endings, second: str) -> tuple[int, int]:
    """How many words the phrase that begins here has, and what it means; none is (0, 0)."""
    for rest, mask in seconds.get(second, ()):
        if not rest or _continues(tokens[position + 2 : position + 2 + len(rest)], rest):
            return 2 + len(rest), mask
    for rest, mask in seconds.get("*", ()):
        if _continues(tokens[position + 1 : position + 1 + len(rest)], rest):
            return 1 + len(rest), mask
    return 0, 0


def _continues(tokens: Sequence[str], rest: Sequence[str]) -> bool:
    if tokens == rest:
        return True
    stem = rest[-1]
    return (
        stem[-1] == "*" and len(tokens) == len(rest) and tokens[:-1] == rest[:-1] and tokens[-1].startswith(stem[:-1])
    )
