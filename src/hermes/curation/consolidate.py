"""What the curator does without a model: merge what is said twice, link what was superseded, show what contradicts.

Nothing is worded anew: an entry stays, leaves for the archive, or has a date written out. When in doubt both stay.
"""

from __future__ import annotations

from datetime import datetime

from hermes.curation.dates import absolute
from hermes.curation.facts import comparable, gave_up, statement_of
from hermes.curation.wording import covers, says_changed, wording_of
from hermes.vocabulary.values import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hermes.curation.facts import Fact

MERGE, SUPERSEDE, DATE = "merge", "supersede", "date"
_VERBS = frozenset(["use", "prefer", "run", "work"])
_SHARE = 4  # at most one in so many entries is touched in a run


@value
class Operation:
    """`drop` leaves for the archive and `keep` stands for it; with `text` the kept entry is worded like that."""

    kind: str
    keep: str
    drop: str = ""
    text: str = ""
    reason: str = ""


@value
class Contradiction:
    """Two entries that cannot both be true, for a person to decide."""

    one: str
    other: str
    why: str


@value
class Tidied:
    operations: tuple[Operation, ...]
    contradictions: tuple[Contradiction, ...]
    put_off: int = 0  # operations left for the next run, because this one may touch only so much


def allowance(entries: int) -> int:
    """How many of the entries one run may touch: a quarter, and one at least."""
    return max(1, entries // _SHARE)


def consolidate(facts: Sequence[Fact]) -> Tidied:
    gone: set[str] = set()
    operations: list[Operation] = []
    contradictions: list[Contradiction] = []
    for older, newer in _pairs(facts):
        if {older.entry, newer.entry} & gone:
            continue
        found = _relation(older, newer)
        if isinstance(found, Contradiction):
            contradictions.append(found)
        elif found is not None:
            operations.append(found)
            gone.add(found.drop)
    operations += [each for fact in facts if fact.entry not in gone and (each := _dated(fact)) is not None]
    allowed = allowance(len(facts))
    left = tuple(c for c in contradictions if not {c.one, c.other} & gone)
    return Tidied(
        operations=tuple(operations[:allowed]), contradictions=left, put_off=max(0, len(operations) - allowed)
    )


def _pairs(facts: Sequence[Fact]) -> Iterator[tuple[Fact, Fact]]:
    """Every two facts, the earlier first; their place in the file decides where no date does."""
    ordered = sorted(enumerate(facts), key=lambda each: (each[1].at, each[0]))
    for place, (_, older) in enumerate(ordered):
        for _, newer in ordered[place + 1 :]:
            yield older, newer


def _relation(older: Fact, newer: Fact) -> Operation | Contradiction | None:
    one, other = wording_of(older.entry), wording_of(newer.entry)
    if covers(one, other) or covers(other, one):
        return _merged(older, newer)
    if one.sequence == other.sequence and one.negated != other.negated and one.sequence:
        return _changed(older, newer, "one says the opposite of the other")
    said, says = statement_of(older.entry), statement_of(newer.entry)
    if said and says and one.negated == other.negated and comparable(said, says):
        if set(said.is_) <= set(says.is_) or set(says.is_) <= set(said.is_):
            return None  # one only says more than the other
        return _changed(older, newer, f"different values for {' '.join(said.about)!r}")
    given_up = wording_of(gave_up(newer.entry))
    if given_up.sequence and says_changed(newer.entry) and _is_about(given_up.words, one.words, other.words):
        return _changed(older, newer, "the newer one names the older value as given up")
    return None


def _is_about(given_up: frozenset[str], old: frozenset[str], new: frozenset[str]) -> bool:
    """Whether the older entry states what was given up, and shares its subject with the newer one."""
    rest = old - given_up - _VERBS
    return given_up <= old and bool(rest) and rest <= new


def _merged(older: Fact, newer: Fact) -> Operation | None:
    """Of two entries that say the same, the pinned, the trusted, the richer, then the older stays."""
    if older.pinned and newer.pinned:
        return None
    rank = {True: 1, False: 0}
    richer = covers(wording_of(newer.entry), wording_of(older.entry)) and not covers(
        wording_of(older.entry), wording_of(newer.entry)
    )
    newer_stays = (rank[newer.pinned], rank[newer.trusted], richer) > (
        rank[older.pinned],
        rank[older.trusted],
        not richer,
    )
    keep, drop = (newer, older) if newer_stays else (older, newer)
    # A pinned or trusted entry that says less must not swallow what only the other says.
    if not covers(wording_of(keep.entry), wording_of(drop.entry)):
        return None
    return Operation(kind=MERGE, keep=keep.entry, drop=drop.entry, reason="says the same as the entry that stays")


def _changed(older: Fact, newer: Fact, why: str) -> Operation | Contradiction:
    """The newer entry wins when it says itself that something changed and may do so; else a person decides."""
    dated = bool(older.at and newer.at and newer.at > older.at)
    if dated and says_changed(newer.entry) and not older.pinned and (newer.trusted or not older.trusted):
        return Operation(kind=SUPERSEDE, keep=newer.entry, drop=older.entry, reason=f"superseded: {why}")
    return Contradiction(one=older.entry, other=newer.entry, why=why)


def _dated(fact: Fact) -> Operation | None:
    if not fact.at:
        return None
    text = absolute(fact.entry, datetime.fromtimestamp(fact.at).astimezone().date())
    if text == fact.entry:
        return None
    return Operation(
        kind=DATE, keep=fact.entry, text=text, reason="dates written out, counted from the day of the entry"
    )
