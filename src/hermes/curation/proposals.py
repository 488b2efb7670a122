"""Operations a helper model proposes: read as JSON, checked one by one, never trusted and never taken as prose."""

from __future__ import annotations

import json
import re
from importlib.resources import files

from hermes.curation.categories import CATEGORIES
from hermes.curation.consolidate import MERGE, SUPERSEDE, Contradiction, Operation
from hermes.curation.wording import NEGATIONS, SMALL_WORDS, wording_of
from hermes.vocabulary.times import day
from hermes.vocabulary.values import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from hermes.curation.facts import Fact

_LONGEST_WHY = 200
_FEWEST = 2
_ALIKE = 0.3  # share of common words


@value
class Proposals:
    """What may be done, what a person should see, categories by entry, and why the rest was refused."""

    operations: tuple[Operation, ...] = ()
    contradictions: tuple[Contradiction, ...] = ()
    categories: tuple[tuple[str, str], ...] = ()
    refused: tuple[str, ...] = ()


class _Refused(Exception):
    pass


def question(facts: Sequence[Fact]) -> tuple[str, str]:
    """The system text and the entries for the helper model."""
    lines = [
        f"{number}. ({_day(fact.at)}) {json.dumps(fact.entry, ensure_ascii=False)}" for number, fact in _numbered(facts)
    ]
    return files(__package__).joinpath("text/propose.md").read_text(encoding="utf-8"), "\n".join(lines)


def checked(answer: str, facts: Sequence[Fact], allowed: int) -> Proposals:
    """The operations of an answer that pass every check and together touch at most `allowed` entries."""
    numbered = dict(_numbered(facts))
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
    """The JSON list of an answer; a code fence around it is forgiven, prose is not read."""
    fenced = re.search(r"```(?:json)?\s*(\[.*\])\s*```", answer, re.DOTALL)
    try:
        found = json.loads(fenced[1] if fenced else answer)
    except (ValueError, RecursionError):
        refused.append("the answer is no JSON list of operations")
        return []
    if not isinstance(found, list):
        refused.append("the answer is no JSON list of operations")
        return []
    return found


def _read(proposed: Any, numbered: dict[int, Fact]) -> list[Operation] | Contradiction | tuple[str, str]:
    if not isinstance(proposed, dict):
        raise _Refused("an operation is no JSON object")
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
        raise _Refused("the new wording is no text")
    if text and keep.pinned:
        raise _Refused("a pinned entry is not reworded")
    _check_wording(text or keep.entry, [fact.entry for fact in sources], reworded=bool(text))
    reason = "merged, as a helper model proposed"
    return [
        Operation(kind=MERGE, keep=keep.entry, drop=fact.entry, text=text if text != keep.entry else "", reason=reason)
        for fact in dropped
    ]


def _check_wording(text: str, sources: list[str], *, reworded: bool) -> None:
    """What stands for several entries may hold nothing that none of them has, and must hold every name of theirs.

    A new wording holds all their words; an entry that stays as it is must at least have much in common with each.
    """
    result, wordings = wording_of(text), [wording_of(source) for source in sources]
    names = frozenset().union(*(each.names for each in wordings))
    if invented := result.names - names:
        raise _Refused(f"it invents {', '.join(sorted(invented))}")
    if lost := names - result.names:
        raise _Refused(f"it would lose {', '.join(sorted(lost))}")
    known = frozenset().union(*(each.words for each in wordings))
    if added := result.words - known - SMALL_WORDS - NEGATIONS:
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
    """Counts what the operations touch; an entry is touched once, and only so many are in one run."""
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


def _numbered(facts: Sequence[Fact]) -> list[tuple[int, Fact]]:
    return list(enumerate(facts, start=1))


def _day(moment: float) -> str:
    return day(moment) if moment else "unknown day"
