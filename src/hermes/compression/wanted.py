"""What there is still room for while facts are collected, so that nobody looks for what could not be kept anyway."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes.compression.reading import at_most

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

SENTENCES = ("constraint", "decision", "question", "open", "error")
# The order in which facts are kept when not all fit.
ORDER = ("constraint", "decision", "open", "question", "identifier", "url", "path", "error", "number")
_SOURCES = ("user", "assistant", "call", "result")
# Each source's share of the facts that are looked for.
_SHARES = {"user": 0.5, "assistant": 0.25, "call": 0.15, "result": 0.1}
IMPORTANCE = {
    (kind, source): len(ORDER) * (rank // 4 + nearness) + rank
    for rank, kind in enumerate(ORDER)
    for nearness, source in enumerate(_SOURCES)
}
_LEAST = 1 + max(IMPORTANCE.values())
_QUESTION = IMPORTANCE["question", "user"]
NAMES_SHARE = 1 / 3  # of the room, which questions leave to the newest names
_LONGEST = 400  # tokens of a question
_RULES = ("constraint", "decision", "open")
_NAMES = dict.fromkeys(("user", "assistant"), ("identifier", "url", "path", "number")) | {
    "call": ("identifier", "url", "path"),
    "result": ("error", "identifier", "url", "path"),
}
_NAME_RANKS = frozenset(
    IMPORTANCE[kind, source] for source, kinds in _NAMES.items() for kind in kinds if kind != "error"
)


def cost_of(kind: str, text: str) -> int:
    """Tokens that a fact takes where it is kept word for word."""
    return at_most(text) + (2 if kind in SENTENCES else 0)


class Shelf:
    """Room in tokens for facts of some kinds, which get it by their rank, the newer first."""

    def __init__(self, room: float, kinds: Iterable[str] = ORDER, first: str = "") -> None:
        """`first` is a source whose facts come before all others here."""
        self.kinds = frozenset(kinds)
        self.first = first
        self.closed = _LEAST if room > 0 else 0  # an older fact than those here finds room only above this rank
        self._room = room
        self._filled = [0] * _LEAST
        self._above = 0  # tokens of all facts above that rank

    def takes(self, rank: int) -> bool:
        """Whether there may be room for a fact of this rank that is older than the others."""
        return rank < self.closed

    def put(self, rank: int, cost: int) -> bool:
        """Puts a fact there that is older than the others; returns whether a rank has no room any more."""
        self._filled[rank] += cost
        self._above += cost
        if self._above <= self._room:
            return False
        self._above = self.closed = 0
        while self._above + self._filled[self.closed] <= self._room:
            self._above += self._filled[self.closed]
            self.closed += 1
        return True


class _Kept(Shelf):
    """The "kept exactly" section. Where questions would fill it, the newest names have a share of it."""

    def __init__(self, room: float, for_names: float) -> None:
        super().__init__(room)
        self._share = room * for_names
        self._takes_names = self._share > 0
        self._names = self._asked = self._longest = 0

    def takes(self, rank: int) -> bool:
        return rank < self.closed or (self._takes_names and rank in _NAME_RANKS)

    def put(self, rank: int, cost: int) -> bool:
        is_closed = rank < self.closed and super().put(rank, cost)
        if not self._takes_names:
            return is_closed
        if rank in _NAME_RANKS:
            self._names += cost
        elif rank <= _QUESTION:
            self._asked += cost
            self._longest = max(self._longest, cost)
        # The question that finds no room leaves less than it takes; as long as all find some, it may be any.
        unused = self._longest if self._asked > self._room - self._share else _LONGEST
        self._takes_names = self._names <= self._share + unused
        return is_closed or not self._takes_names


class Wanted:
    """How much is looked for: about `enough` facts, and of these only what finds room.

    `room` is that of the "kept exactly" section, `sections` are those of a text that shows facts, too: what lies there
    needs no other place. Facts are found the newest first and kept by importance. So once those of some importance and
    above take all the room, neither an older one of the same nor any of less importance can be kept; but for questions,
    which leave a part of it.
    """

    def __init__(
        self,
        enough: int,
        room: float = float("inf"),
        sections: Iterable[Shelf] = (),
        is_held: Callable[[str], bool] | None = None,
        for_names: float = NAMES_SHARE,
    ) -> None:
        """`is_held` says of a text that it needs no room in the section, because the summary has it."""
        self._left = {source: enough * share for source, share in _SHARES.items()}
        self._kept = _Kept(room, for_names)
        section_of = {kind: section for section in sections for kind in section.kinds}
        none = Shelf(0)
        self._places = {
            (kind, source): (shelf := section_of.get(kind, none), 0 if source == shelf.first else importance)
            for (kind, source), importance in IMPORTANCE.items()
        }
        self._is_held = is_held
        self.is_bounded = room != float("inf")
        self.rules = {"user", "assistant"}  # sources whose rules and decisions are looked for
        self.names = set(_SOURCES)  # sources whose names, numbers and errors are
        self.questions = True

    @property
    def speakers(self) -> set[str]:
        """Whose messages are read."""
        return {"assistant" if source == "call" else source for source in self.rules | self.names}

    def count(self, source: str) -> bool:
        """One more of a source was found; returns whether more of it are looked for."""
        self._left[source] -= 1
        if self._left[source] > 0:
            return True
        self.rules.discard(source)
        self.names.discard(source)
        return False

    def put(self, kind: str, source: str, text: str) -> None:
        """Gives room to a fact that is older than those before."""
        shelf, rank = self._places[kind, source]
        if not shelf.takes(rank):
            shelf, rank = self._kept, IMPORTANCE[kind, source]
            if not shelf.takes(rank) or (self._is_held is not None and self._is_held(text)):
                return
        if shelf.put(rank, cost_of(kind, text)):
            self.rules = {each for each in self.rules if self._any(_RULES, each)}
            self.names = {each for each in self.names if self._any(_NAMES[each], each)}
            self.questions = self._any(("question",), "user")

    def _any(self, kinds: Iterable[str], source: str) -> bool:
        """Whether an older fact of one of these kinds could find room."""
        for kind in kinds:
            section, rank = self._places[kind, source]
            if self._kept.takes(IMPORTANCE[kind, source]) or section.takes(rank):
                return True
        return False
