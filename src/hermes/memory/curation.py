"""Curation: merges duplicate entries, archives superseded ones, and checks what a helper model proposes."""

from __future__ import annotations

import json
import re
from datetime import datetime
from importlib.resources import files
from typing import TYPE_CHECKING

from hermes.base.claims import replaced, says_changed
from hermes.base.dates import absolute
from hermes.base.text import day
from hermes.base.values import value
from hermes.memory.capture import covers, table, wording_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from hermes.memory.capture import Fact

CATEGORIES = ("identity", "environment", "project", "lesson")


def category_of(entry: str, target: str) -> str:
    """Returns the category whose cue words the entry has most of; without any, the file decides."""
    if target == "user":
        return "identity"
    cues = table()["categories"]
    found = {category: len(re.findall(cue, entry, re.IGNORECASE)) for category, cue in cues.items()}
    best = max(found.values())
    return next(category for category in cues if found[category] == best) if best else "project"


# Without a model no entry is reworded: it stays, moves to the archive, or has a relative date replaced.
# When in doubt, both entries stay.
MERGE, SUPERSEDE, DATE = "merge", "supersede", "date"
_SHARE = 4  # a run touches at most one entry in four, as docs/guides/curation.md promises


@value
class Operation:
    """`drop` moves to the archive in favour of `keep`; `text`, if given, is the new wording of `keep`."""

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
class Proposals:
    """What a curation run would change; of what a helper model proposed, what passed, and why the rest was refused."""

    operations: tuple[Operation, ...] = ()
    contradictions: tuple[Contradiction, ...] = ()
    categories: tuple[tuple[str, str], ...] = ()
    refused: tuple[str, ...] = ()
    put_off: int = 0  # operations left for the next run, because this one reached its allowance


def allowance(entries: int) -> int:
    """How many of the entries one run may touch: a quarter, and one at least."""
    return max(1, entries // _SHARE)


def consolidate(facts: Sequence[Fact]) -> Proposals:
    """Finds merges, superseded entries, relative dates and contradictions without a model, up to the allowance."""
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
    return Proposals(
        operations=tuple(operations[:allowed]), contradictions=left, put_off=max(0, len(operations) - allowed)
    )


def _pairs(facts: Sequence[Fact]) -> Iterator[tuple[Fact, Fact]]:
    """Yields every pair of facts, the earlier one first; their place in the file decides between equal dates."""
    ordered = sorted(enumerate(facts), key=lambda each: (each[1].at, each[0]))
    for place, (_, older) in enumerate(ordered):
        for _, newer in ordered[place + 1 :]:
            yield older, newer


def _relation(older: Fact, newer: Fact) -> Operation | Contradiction | None:
    one, other = older.wording, newer.wording
    if covers(one, other) or covers(other, one):
        return _merged(older, newer)
    if one.sequence == other.sequence and one.negated != other.negated and one.sequence:
        return _changed(older, newer, "one says the opposite of the other")
    if replaced(older.entry, newer.entry):
        return _changed(older, newer, "different values for the same thing")
    return None


def _merged(older: Fact, newer: Fact) -> Operation | None:
    """Of two entries that say the same, the pinned, the trusted, the richer, then the older stays."""
    if older.pinned and newer.pinned:
        return None
    richer = covers(newer.wording, older.wording) and not covers(older.wording, newer.wording)
    newer_stays = (newer.pinned, newer.trusted, richer) > (older.pinned, older.trusted, not richer)
    keep, drop = (newer, older) if newer_stays else (older, newer)
    # A pinned or trusted entry that says less must not swallow what only the other says.
    if not covers(keep.wording, drop.wording):
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


_LONGEST_WHY = 200
_FEWEST = 2
_ALIKE = 0.3  # the least share of common words between a merged text and each source


class _Refused(Exception):
    pass


def question(facts: Sequence[Fact]) -> tuple[str, str]:
    """Returns the system text and the numbered entries for the helper model."""
    lines = [
        f"{number}. ({day(fact.at) if fact.at else 'unknown day'}) {json.dumps(fact.entry, ensure_ascii=False)}"
        for number, fact in enumerate(facts, start=1)
    ]
    return files(__package__).joinpath("text/propose.md").read_text(encoding="utf-8"), "\n".join(lines)


def checked(answer: str, facts: Sequence[Fact], allowed: int) -> Proposals:
    """The operations of an answer that pass every check and together touch at most `allowed` entries."""
    numbered = dict(enumerate(facts, start=1))
    operations: list[Operation] = []
    contradictions: list[Contradiction] = []
    categories: list[tuple[str, str]] = []
    refused: list[str] = []
    used: set[str] = set()
    for proposed in _list_in(answer, refused):
        try:
            found = _read(proposed, numbered)
            if isinstance(found, Contradiction):
                contradictions.append(found)
            elif isinstance(found, tuple):
                categories.append(found)
            else:
                _take(found, used, allowed - len(used))
                operations += found
        except _Refused as why:
            refused.append(str(why))
    return Proposals(
        operations=tuple(operations),
        contradictions=tuple(contradictions),
        categories=tuple(categories),
        refused=tuple(refused),
    )


def _list_in(answer: str, refused: list[str]) -> list[Any]:
    """Reads the JSON list of an answer; a code fence around it is accepted, prose is not."""
    fenced = re.search(r"```(?:json)?\s*(\[.*\])\s*```", answer, re.DOTALL)
    try:
        found = json.loads(fenced[1] if fenced else answer)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list):
        refused.append("the answer is not a JSON list of operations")
        return []
    return found


def _read(proposed: Any, numbered: dict[int, Fact]) -> list[Operation] | Contradiction | tuple[str, str]:
    if not isinstance(proposed, dict):
        raise _Refused("an operation is not a JSON object")
    match proposed.get("op"):
        case "merge":
            return _merge(proposed, numbered)
        case "supersede":
            old, new = _fact(proposed.get("old"), numbered), _fact(proposed.get("new"), numbered)
            return [_superseded(old, new)]
        case "contradiction":
            one, other = _several(proposed, numbered)[:2]
            why = str(proposed.get("why", ""))[:_LONGEST_WHY]
            return Contradiction(one=one.entry, other=other.entry, why=f"a helper model says: {why}")
        case "category":
            category = proposed.get("category")
            if category not in CATEGORIES:
                raise _Refused(f"there is no category {category!r}")
            return _fact(proposed.get("entry"), numbered).entry, str(category)
    raise _Refused(f"there is no operation {proposed.get('op')!r}")


def _merge(proposed: dict[str, Any], numbered: dict[int, Fact]) -> list[Operation]:
    sources, keep = _several(proposed, numbered), _fact(proposed.get("keep"), numbered)
    if keep not in sources:
        raise _Refused("the entry to keep is not among those to merge")
    dropped = [fact for fact in sources if fact is not keep]
    if any(fact.pinned for fact in dropped):
        raise _Refused("a pinned entry does not leave")
    text = proposed.get("text") or ""
    if not isinstance(text, str):
        raise _Refused("the new wording is not text")
    if text and keep.pinned:
        raise _Refused("a pinned entry is not reworded")
    _check_wording(text or keep.entry, [fact.entry for fact in sources], reworded=bool(text))
    reason = "merged, as a helper model proposed"
    return [
        Operation(kind=MERGE, keep=keep.entry, drop=fact.entry, text=text if text != keep.entry else "", reason=reason)
        for fact in dropped
    ]


def _check_wording(text: str, sources: list[str], *, reworded: bool) -> None:
    """Refuses a merged text that invents anything or loses a name.

    A new wording must hold every word of its sources; an existing entry must share enough words with each of them.
    """
    result, wordings = wording_of(text), [wording_of(source) for source in sources]
    names = frozenset().union(*(each.names for each in wordings))
    if invented := result.names - names:
        raise _Refused(f"it invents {', '.join(sorted(invented))}")
    if lost := names - result.names:
        raise _Refused(f"it would lose {', '.join(sorted(lost))}")
    known, words = frozenset().union(*(each.words for each in wordings)), table()["words"]
    if added := result.words - known - words["small"] - words["negations"]:
        raise _Refused(f"it adds words that no entry has: {', '.join(sorted(added))}")
    if reworded and (missing := known - result.words):
        raise _Refused(f"it would lose {', '.join(sorted(missing))}")
    if not all(len(each.words & result.words) >= _ALIKE * len(each.words | result.words) for each in wordings):
        raise _Refused("the entries have too little in common to be merged")
    if {each.negated for each in wordings} != {result.negated}:
        raise _Refused("it turns a negation round")
    if len(text) > sum(map(len, sources)) + len(sources):
        raise _Refused("it is longer than the entries it is made of")


def _superseded(old: Fact, new: Fact) -> Operation:
    if old is new or not (old.at and new.at) or new.at <= old.at:
        raise _Refused("only a newer entry supersedes an older one")
    if old.pinned:
        raise _Refused("a pinned entry is not superseded")
    if old.trusted and not new.trusted:
        raise _Refused("text from outside does not supersede what a person or the agent wrote")
    return Operation(kind=SUPERSEDE, keep=new.entry, drop=old.entry, reason="superseded, as a helper model proposed")


def _take(operations: list[Operation], used: set[str], left: int) -> None:
    """Counts the entries that the operations touch, and refuses a second change of one or a run that is too large."""
    touched = {operation.drop for operation in operations}
    touched |= {operation.keep for operation in operations if operation.text}
    if touched & used or {operation.keep for operation in operations} & used:
        raise _Refused("one of its entries was changed by an operation before")
    if len(touched) > left:
        raise _Refused("a run may touch a quarter of the entries, and that is used up")
    used |= touched


def _several(proposed: dict[str, Any], numbered: dict[int, Fact]) -> list[Fact]:
    given = proposed.get("entries")
    if not isinstance(given, list) or len(set(map(str, given))) < _FEWEST:
        raise _Refused("it needs the numbers of at least two entries")
    return [_fact(number, numbered) for number in given]


def _fact(number: Any, numbered: dict[int, Fact]) -> Fact:
    if not isinstance(number, int) or isinstance(number, bool) or number not in numbered:
        raise _Refused(f"there is no entry {number!r}")
    return numbered[number]
