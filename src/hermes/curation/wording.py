"""What an entry says, as far as a program can tell without a model: its words in order, its identifiers, its negation.

Everything here errs on the side of "different": two entries that are not understood are left alone.
"""

from __future__ import annotations

import re

from hermes.vocabulary.values import value

_TOKEN = re.compile(r"[^\s,;()\[\]{}<>\"“”«»]+")
_EDGES = ".!?:'`*\u2018\u2019\u2026"
_SMALL = (
    "a an the is are was were be been being am to of in on at for with and as by from this that these those it its "
    "i me my we us our you your user user's person they their them he she his her has have had do does did will would "
    "also please so very really just currently always-on"
)
SMALL_WORDS = frozenset(_SMALL.split())
_NOT = (
    "not no never don't doesn't didn't isn't aren't won't cannot can't without neither nor stop avoid avoids dislikes"
)
NEGATIONS = frozenset(_NOT.split())
_LIMITING = "only except unless but if when while until instead sometimes rarely occasionally over than rather"
LIMITING = frozenset(_LIMITING.split())
_SAME = {
    "likes": "prefer",
    "like": "prefer",
    "wants": "prefer",
    "want": "prefer",
    "prefers": "prefer",
    "favours": "prefer",
    "favors": "prefer",
    "using": "use",
    "uses": "use",
    "used": "use",
}
_CHANGED = re.compile(
    r"\b(?:now|no longer|any ?more|instead|moved|changed|switched|migrated|replaced|renamed|correction|corrected|"
    r"actually|from now on|as of|since|formerly|previously|has become|became)\b",
    re.IGNORECASE,
)


@value
class Wording:
    """`sequence`: the words that carry meaning, in order and in a plain form; `names`: what must never be altered."""

    sequence: tuple[str, ...]
    names: frozenset[str]
    negated: bool
    limited: frozenset[str]

    @property
    def words(self) -> frozenset[str]:
        return frozenset(self.sequence)


def wording_of(entry: str) -> Wording:
    tokens = [token.strip(_EDGES) for token in _TOKEN.findall(entry)]
    plain = [(token, token.casefold().replace("\u2019", "'")) for token in tokens if token]
    meaningful = [(token, word) for token, word in plain if word not in SMALL_WORDS and word not in NEGATIONS]
    return Wording(
        sequence=tuple(word if is_name(token) else stem(word) for token, word in meaningful),
        names=frozenset(token for token, _ in plain if is_name(token)),
        negated=any(word in NEGATIONS for _, word in plain),
        limited=frozenset(word for _, word in plain if word in LIMITING),
    )


def is_name(token: str) -> bool:
    """Numbers, paths, addresses, `getUser`, `ENOSPC`, `node-7`: one letter more or less makes another thing of them."""
    if any(map(str.isdigit, token)) or any(mark in token.strip("/") for mark in "_/@#\\:=.+"):
        return True
    return (token.isupper() and len(token) > 1) or any(map(str.isupper, token[1:]))


def stem(word: str) -> str:
    word = _SAME.get(word.removesuffix("'s"), word.removesuffix("'s"))
    for ending in ("ing", "es", "ed", "s"):
        if word.endswith(ending) and len(word) > len(ending) + 3:
            return word[: -len(ending)]
    return word


def says_changed(entry: str) -> bool:
    """Whether the entry itself says that something is different from before."""
    return _CHANGED.search(entry) is not None


def covers(richer: Wording, poorer: Wording) -> bool:
    """Whether everything the one says, in its order, is said by the other too, without a limit of its own."""
    if not poorer.sequence or richer.negated != poorer.negated or not poorer.names <= richer.names:
        return False
    if richer.limited != poorer.limited:
        return False
    words = iter(richer.sequence)
    return all(word in words for word in poorer.sequence)
