"""One entry with what curation needs to know of it, and what an entry states: a value of something."""

from __future__ import annotations

import re

from hermes.curation.wording import wording_of
from hermes.vocabulary.values import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hermes.curation.wording import Wording


@value
class Fact:
    """`at` is when the entry was written, 0 when nobody knows; `trusted` is False for text from outside."""

    entry: str
    at: float = 0.0
    trusted: bool = True
    pinned: bool = False

    @property
    def wording(self) -> Wording:
        return wording_of(self.entry)


@value
class Statement:
    """That `about` has `is_`: "the deploy host" "atlas-7". `about` holds plain words, sorted out of their order."""

    about: tuple[str, ...]
    is_: tuple[str, ...]
    named: bool  # whether the value holds a name or a number


_LONGEST_SUBJECT = 7
_LONGEST_VALUE = 5
_CLAUSE = re.compile(r"(?<=[a-z0-9)])[.;](?:\s|$)|\s—\s|\s\(|,\s")
# Relations that hold for one value at a time; "uses" and "likes" hold for many and contradict nothing.
_PLACED = r"lives?|works?|runs?|listens?|deploys?|is hosted|is located"
_RELATIONS = (
    r"^(?P<about>.*?)\b(?P<moved>moved|migrated)\s+(?:from\s+.+?\s+)?to\s+(?P<is>.+)$",
    r"^(?P<about>.+?)\s+(?:has\s+)?(?:changed|switched)\s+(?:from\s+.+?\s+)?to\s+(?P<is>.+)$",
    rf"^(?P<about>.*?\b(?:{_PLACED}))\s+(?:now\s+)?(?:in|at|on|for|to|under)\s+(?P<is>.+)$",
    r"^(?P<about>[^:=]{2,60}?)\s*[:=]\s+(?P<is>.+)$",
    r"^(?P<about>.+?)\s+(?:is|are)\s+(?:now\s+|called\s+|named\s+|currently\s+|set to\s+|no longer\s+)*(?P<is>.+)$",
)
_PATTERNS = tuple(re.compile(pattern, re.IGNORECASE) for pattern in _RELATIONS)
_ADVERBS = frozenset(["now", "currently", "actually", "correction", "longer", "as", "of", "since"])


def statement_of(entry: str) -> Statement | None:
    """What the first clause of an entry says about what; None when it is no plain statement of one value."""
    clause = _CLAUSE.split(" ".join(entry.split()), maxsplit=1)[0].strip(" .")
    found = next((match for pattern in _PATTERNS if (match := pattern.match(clause))), None)
    if found is None:
        return None
    about, is_ = _plain(found["about"]), _plain(found["is"])
    if "moved" in found.groupdict() and not about:
        about = ["live"]  # a person who moved lives somewhere else now
    if not 0 < len(about) <= _LONGEST_SUBJECT or not 0 < len(is_) <= _LONGEST_VALUE:
        return None
    named = bool(wording_of(found["is"]).names)
    return Statement(about=tuple(sorted(set(about))), is_=tuple(is_), named=named)


def comparable(one: Statement, other: Statement) -> bool:
    """Whether two statements give values of one kind for one thing: "fast" and "written in Go" are no rivals."""
    if one.about != other.about or one.named != other.named:
        return False
    return one.named or len(one.about) > 1 or one.about == ("live",)


def gave_up(entry: str) -> str:
    """The old value an entry names itself: "switched from npm to pnpm" gives npm; "" when it names none."""
    found = re.search(
        r"\b(?:from\s+(?P<a>\S[^,.;]*?)\s+to\s|no longer\s+(?:uses?\s+|in\s+|on\s+|at\s+)?(?P<b>[^,.;(]+)|"
        r"instead of\s+(?P<c>[^,.;(]+)|,\s*not\s+(?P<d>[^,.;(]+)|replac(?:es|ed|ing)\s+(?P<e>[^,.;(]+))",
        entry,
        re.IGNORECASE,
    )
    return next((text.strip() for text in found.groups() if text), "") if found else ""


def _plain(text: str) -> list[str]:
    return [word for word in wording_of(text).sequence if word not in _ADVERBS]
