"""Cuts the part of a message that shows why it was found, with the found words between `>>>` and `<<<`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes.storage.text import unspaced_runs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hermes.storage.query import Query
    from hermes.storage.text import Words

BEFORE, WIDTH = 48, 240
_READ = 20_000


def snippet(text: str, query: Query, words: Words) -> str:
    """About `WIDTH` characters around the place where most of the query's words stand together."""
    text = text[:_READ]
    found = sorted(set(_places(text, query, words)))
    start = max(0, _best_start(found) - BEFORE)
    end = start + WIDTH
    if start > 0:
        start = text.find(" ", start, start + 20) + 1 or start
    if end < len(text):
        end = max(text.rfind(" ", start + 1, end + 1), end - 20)
    shown = _marked(text, start, end, [(first, last) for first, last, _ in found])
    return f"{'…' if start else ''}{shown.strip()}{'…' if end < len(text) else ''}"


def _places(text: str, query: Query, words: Words) -> Iterator[tuple[int, int, int]]:
    """(start, end, which word) in characters; pairs of unspaced script are looked for as they are written."""
    stems = {stem: number for number, unit in enumerate(query.units) if not unit.prefix for stem in unit.stems}
    beginnings = [(number, unit.stem) for number, unit in enumerate(query.units) if unit.prefix]
    data = text.encode("utf-8", "replace")
    plain = text.isascii()
    for first, last, token in words.places(text):
        number = stems.get(token)
        if number is None:
            number = next((at for at, beginning in beginnings if token.startswith(beginning)), None)
        if number is not None:
            yield _in_characters(data, first, last, number) if not plain else (first, last, number)
    if not plain:
        yield from _unspaced_places(text, query)


def _unspaced_places(text: str, query: Query) -> Iterator[tuple[int, int, int]]:
    wanted = [(unit.written, number) for number, unit in enumerate(query.units) if not unit.written.isascii()]
    for start, run in unspaced_runs(text):
        for written, number in wanted:
            at = run.find(written)
            while at >= 0:
                yield start + at, start + at + len(written), number
                at = run.find(written, at + 1)


def _in_characters(data: bytes, first: int, last: int, number: int) -> tuple[int, int, int]:
    start = len(data[:first].decode("utf-8", "ignore"))
    return start, start + len(data[first:last].decode("utf-8", "ignore")), number


def _best_start(found: list[tuple[int, int, int]]) -> int:
    best, most = 0, -1
    for at, (start, _, _) in enumerate(found):
        kinds = {number for first, _, number in found[at : at + 40] if first < start + WIDTH - BEFORE}
        if len(kinds) > most:
            best, most = start, len(kinds)
    return best


def _marked(text: str, start: int, end: int, found: list[tuple[int, int]]) -> str:
    pieces, at = [], start
    for first, last in _merged(found):
        if first >= at and last <= end:
            pieces += [text[at:first], ">>>", text[first:last], "<<<"]
            at = last
    return "".join([*pieces, text[at:end]])


def _merged(found: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Overlapping pairs of characters read as one stretch."""
    current: tuple[int, int] | None = None
    for first, last in found:
        if current is not None and first < current[1]:
            current = current[0], max(current[1], last)
            continue
        if current is not None:
            yield current
        current = first, last
    if current is not None:
        yield current
