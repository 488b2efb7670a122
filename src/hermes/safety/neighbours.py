"""Reads neighbouring entries together, as the prompt shows them: a phrase split over entries is a phrase."""

from __future__ import annotations

from hermes.safety.verdict import Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_EDGE = 240  # characters of each neighbour that take part; a rule spans far less
_WIDEST = 4  # neighbours read together; short fragments need more than two to make a phrase


def split_findings(
    entries: Sequence[str], alone: Sequence[list[Finding]], judge: Callable[[str], list[Finding]]
) -> Iterator[tuple[int, Finding]]:
    """(entry index, finding) for what only the joined text shows; every entry that takes part gets the finding."""
    for first in range(len(entries) - 1):
        for last in range(first + 1, min(len(entries), first + _WIDEST)):
            between = entries[first + 1 : last]
            if any(len(entry) > _EDGE for entry in between):
                break  # a whole long entry between two others separates them
            pieces = [entries[first][-_EDGE:], *between, entries[last][:_EDGE]]
            known = {finding.threat for index in range(first, last + 1) for finding in alone[index]}
            for finding in judge(" ".join(pieces)):
                for offset in _members(finding, pieces, known):
                    yield first + offset, _as_split(finding)


def _members(finding: Finding, pieces: Sequence[str], known: set[str]) -> Sequence[int]:
    """Which pieces a finding in the joined text touches; none when a single piece shows it alone."""
    if finding.start < 0:  # disguised, so the place is unknown: blame all, unless one of them has that threat anyway
        return () if finding.threat in known else range(len(pieces))
    touched = []
    position = 0
    for number, piece in enumerate(pieces):
        if finding.start < position + len(piece) and finding.end > position:
            touched.append(number)
        position += len(piece) + 1
    return touched if len(touched) > 1 else ()


def _as_split(finding: Finding) -> Finding:
    how = f"split over entries, {finding.how}"
    return Finding(threat=finding.threat, level=finding.level, excerpt=finding.excerpt, how=how)
