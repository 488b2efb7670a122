"""A writer with a model of its own: does random changes and says before each what the outcome must be."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hermes.memory.entries import Cause
from hermes.memory.store import TARGETS

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from hermes.memory.store import MemoryStore, Written

    Entries = tuple[str, ...]

_MOST_ENTRIES = 9
_WORDS = (
    "deploys",
    "prefers",
    "λόγος",
    "tabs",
    "Zürich",
    "日本",
    "on\nFridays",
    "🜁",
    "naïve",
    "port 8080",
    "§ 5",
    "never",
)


@dataclass(slots=True)
class State:
    """What each target holds, and its newest change with the entries before it (for an undo)."""

    entries: dict[str, Entries] = field(default_factory=lambda: dict.fromkeys(TARGETS, ()))
    newest: dict[str, tuple[str, Entries]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One change: what to call, and what the target holds afterwards."""

    target: str
    action: str
    expected: Entries
    session: str
    call: Callable[[MemoryStore], Written]


class Writer:
    def __init__(self, chance: random.Random, state: State, name: str) -> None:
        self._chance, self._state, self._name = chance, state, name
        self._number = 0

    def next_step(self) -> Step:
        self._number += 1
        target = self._chance.choice(TARGETS)
        before = self._state.entries[target]
        session = f"{self._chance.choice(('s', '2026-11-15T04:10', 'chat/7', 'Ω.é'))}-{self._name}-{self._number}"
        cause = Cause(origin=self._chance.choice(("agent", "user", "import")), session=session)
        action = self._chance.choice(("add", "add", "replace", "remove", "batch", "undo"))
        if action == "undo" and target in self._state.newest:
            change_id, expected = self._state.newest[target]
            return Step(
                target=target,
                action="undo",
                expected=expected,
                session=session,
                call=lambda store: store.undo(change_id, cause=cause),
            )
        operations, expected = self._operations(action, before)
        return Step(
            target=target,
            action=operations[0]["action"] if len(operations) == 1 else "batch",
            expected=expected,
            session=session,
            call=lambda store: store.apply(target, operations, cause=cause),
        )

    def acknowledge(self, step: Step, change_id: str) -> None:
        self._state.newest[step.target] = (change_id, self._state.entries[step.target])
        self._state.entries[step.target] = step.expected

    def _operations(self, action: str, before: Entries) -> tuple[list[dict[str, Any]], Entries]:
        live = list(before)
        count = self._chance.randint(2, 4) if action == "batch" else 1
        operations = []
        for _ in range(count):
            kind = self._chance.choice(("add", "replace", "remove")) if action == "batch" else action
            if not live or kind == "undo":
                kind = "add"
            if kind == "add" and len(live) >= _MOST_ENTRIES:
                kind = "remove"
            operations.append(self._one(kind, live))
        return (operations, tuple(live)) if tuple(live) != before else ([self._one("add", live)], tuple(live))

    def _one(self, kind: str, live: list[str]) -> dict[str, Any]:
        # Digits, and too few for a card: among random letters the scanner finds a word now and then, and asks.
        new = f"{self._chance.choice(_WORDS)} {self._name} {self._chance.getrandbits(16)} {self._number}"
        if kind == "add":
            live.append(new)
            return {"action": "add", "content": new}
        at = self._chance.randrange(len(live))
        old = live[at]
        live[at : at + 1] = [new] if kind == "replace" else []
        return {"action": kind, "old_text": old} | ({"content": new} if kind == "replace" else {})
