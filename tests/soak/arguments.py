"""Any JSON as arguments of the memory tool: always a result, and a refusal names the field that is wrong."""

from __future__ import annotations

import json
import os
import random
import tempfile
from typing import TYPE_CHECKING, Any

from hermes.session.parts import open_parts
from soak.common import Outcome, Progress

if TYPE_CHECKING:
    from soak.common import Options

_FIELDS = ("target", "action", "content", "old_text", "operations")
# A refusal speaks of one of these.
_NAMES = (*_FIELDS, "arguments", "memory is full", "entry contains", "entries contain", "refusal number")
_CALLS_PER_HOME = 2_000


def run(count: int, options: Options) -> Outcome:
    outcome = Outcome(name="arguments", figures={"calls": 0, "accepted": 0, "refused": 0})
    progress = Progress("arguments", count, options)
    for start in range(0, count, _CALLS_PER_HOME):
        with tempfile.TemporaryDirectory(dir=options.folder, prefix="soak-") as place:
            toolbox = open_parts(os.path.join(place, "home")).toolbox
            for number in range(start, min(count, start + _CALLS_PER_HOME)):
                if not progress.goes_on(number, outcome):
                    return outcome
                given = arguments(random.Random(f"{options.seed}/{number}"))
                problem = _problem(toolbox.call, given, outcome)
                if problem:
                    outcome.fail(f"call {number} (--seed {options.seed}) {given!r:.200}: {problem}")
    progress.goes_on(count, outcome)
    return outcome


def _problem(call: Any, given: Any, outcome: Outcome) -> str:
    outcome.count("calls")
    try:
        said = call("memory", given)
    except Exception as error:  # noqa: BLE001 - any exception is the finding
        return f"{type(error).__name__}: {error}"
    try:
        said.encode()
        result = json.loads(said)
    except ValueError as error:
        return f"not JSON: {error}"
    if not isinstance(result, dict) or not isinstance(result.get("success"), bool):
        return f"no success in {said:.200}"
    outcome.count("accepted" if result["success"] else "refused")
    if not result["success"] and not any(name in result.get("error", "") for name in _NAMES):
        return f"names no field: {result.get('error')}"
    return ""


def arguments(chance: random.Random) -> Any:
    """Valid, nearly valid or nonsense; as a mapping or as JSON text."""
    kind = chance.random()
    given: Any
    if kind < 0.3:
        given = _valid(chance)
    elif kind < 0.7:
        given = _valid(chance) | {chance.choice((*_FIELDS, "targets", "", "\ud800")): _anything(chance, 3)}
    elif kind < 0.85:
        given = {chance.choice(_FIELDS): _anything(chance, 3) for _ in range(chance.randint(0, 5))}
    else:
        given = _anything(chance, 4)
    if isinstance(given, dict) and chance.random() < 0.5:
        return given
    text = json.dumps(given)
    return chance.choice(
        (text, text, text, text[: chance.randrange(len(text) + 1)], text.encode(), "[" * 100_000, "NaN")
    )


def _valid(chance: random.Random) -> dict[str, Any]:
    target = chance.choice(("memory", "user"))
    if chance.random() < 0.3:
        return {"target": target, "operations": [_operation(chance) for _ in range(chance.randint(0, 3))]}
    return {"target": target, **_operation(chance)}


def _operation(chance: random.Random) -> dict[str, Any]:
    action = chance.choice(("add", "replace", "remove"))
    text = f"fact {chance.randint(0, 30)}"
    return {
        "add": {"action": action, "content": text},
        "replace": {"action": action, "old_text": f"fact {chance.randint(0, 30)}", "content": text},
        "remove": {"action": action, "old_text": text},
    }[action]


def _anything(chance: random.Random, depth: int) -> Any:
    if depth and chance.random() < 0.4:
        if chance.random() < 0.5:
            return [_anything(chance, depth - 1) for _ in range(chance.randint(0, 4))]
        return {_word(chance): _anything(chance, depth - 1) for _ in range(chance.randint(0, 4))}
    deep: list[Any] = []
    for _ in range(chance.choice((0, 0, 0, 400))):
        deep = [deep]
    return chance.choice(
        (None, True, False, 0, -1, 1e308, float("nan"), float("inf"), 10**400, "", _word(chance), "x" * 3_000, deep)
    )


def _word(chance: random.Random) -> str:
    words = (
        *_FIELDS,
        "memory",
        "user",
        "add",
        "replace",
        "remove",
        "\ud800",
        "a\0b",
        "\n§\n",
        "§",
        "  ",
        "fact 1",
        "🜁",
        "\ufeff",
    )
    return chance.choice(words)
