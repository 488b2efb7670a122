"""The archive of curated memory: entries that made room for others, found again by their words.

It is no second store. The change that took an entry out says so in the history, together with the write that needed
the room, so the two cannot come apart; whatever brings the entry back takes it out of the archive.
"""

from __future__ import annotations

import re

from hermes.curated.entries import preview
from hermes.vocabulary.errors import NotFound, WriteRefused
from hermes.vocabulary.values import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hermes.curated.history import Change

_WORD = re.compile(r"[^\W_]+")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0e7f]{2,}")
_SMALL_WORDS = (
    "a an and are as at be by did do does for from has have how i in is it me my of on or our that the this to us was "
    "we were what when where which who why will with you your"
)
_COMMON = frozenset(_SMALL_WORDS.split())
_ENOUGH = 0.5


@value
class Archived:
    """One archived entry: since when, by which change, why, and what stands for it now, if anything."""

    target: str
    entry: str
    at: float
    change: str
    reason: str
    into: str = ""


def archive_of(changes: Iterable[Change]) -> dict[str, Archived]:
    """What is in the archive after these changes, oldest first."""
    found: dict[str, Archived] = {}
    for change in changes:
        for entry in change.added():
            found.pop(entry, None)
        for leaving in change.archived:
            found[leaving.entry] = Archived(
                target=change.target,
                entry=leaving.entry,
                at=change.at,
                change=change.id,
                reason=leaving.reason,
                into=leaving.into,
            )
    return found


def find(archived: Sequence[Archived], words: str) -> Archived:
    """The one archived entry that contains the words."""
    found = [each for each in archived if words == each.entry] or [each for each in archived if words in each.entry]
    if not found:
        raise NotFound(f"no archived entry contains {preview(words)!r}; `hermes memory list --archived` shows them")
    if len(found) > 1:
        raise WriteRefused(
            f"{len(found)} archived entries contain {preview(words)!r}; use a longer piece that only one has",
            kind="ambiguous",
            details={"matches": [preview(each.entry) for each in found]},
        )
    return found[0]


def search(archived: Iterable[Archived], query: str, limit: int = 3) -> list[Archived]:
    """The archived entries that share most words with a question, newest first among equals."""
    asked = _words(query)
    if not asked:
        return []
    scored = [(len(asked & _words(each.entry)) / len(asked), each.at, each) for each in archived]
    fitting = sorted((row for row in scored if row[0] >= _ENOUGH), key=lambda row: row[:2], reverse=True)
    return [each for _, _, each in fitting[:limit]]


def _words(text: str) -> set[str]:
    folded = text.casefold()
    words = {_stem(word) for word in _WORD.findall(_UNSPACED.sub(" ", folded))} - _COMMON
    pairs = {run[at : at + 2] for run in _UNSPACED.findall(folded) for at in range(len(run) - 1)}
    return words | pairs


def _stem(word: str) -> str:
    for ending in ("ing", "es", "ed", "s"):
        if word.endswith(ending) and len(word) > len(ending) + 2:
            return word[: -len(ending)]
    return word
