"""Measures rules on sets that people wrote: which are recognised, and which fire on which calls of tools.

A set is a JSONL file: `{"kind": "rule", "id", "said"}`, `{"kind": "not_rule", "said"}` and
`{"kind": "call", "tool", "arguments", "at", "user", "applies", "may"}`: a call with an empty tool is the beginning of
a turn, and rules in `may` do not count. Beside it: the floor that recognises "always" and
"never" and fires on every call that shares a word of five letters with the rule.
"""

from __future__ import annotations

import glob
import json
import os
import re
from datetime import datetime
from typing import TYPE_CHECKING, Any

from hermes.memory.rules import stated_rules
from hermes.memory.triggers import Situation, trigger_of, why

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER = os.path.join(os.path.dirname(os.path.dirname(__file__)), "tests", "data", "rules")


def run(folder: str | None = None, *, told: Callable[[str], None] | None = None) -> dict[str, Any]:
    """Shares by set: `recognised` of the rules, `mistaken` of other messages, `fired` of what applies, and `others`."""
    paths = sorted(glob.glob(os.path.join(folder or FOLDER, "*.jsonl")))
    return {os.path.basename(path).removesuffix(".jsonl"): measure(path, told) for path in paths}


def measure(path: str, told: Callable[[str], None] | None = None) -> dict[str, Any]:
    with open(path, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file if line.strip()]
    rules = {row["id"]: row["said"] for row in rows if row["kind"] == "rule"}
    others = [row["said"] for row in rows if row["kind"] == "not_rule"]
    calls = [row for row in rows if row["kind"] == "call"]
    say = told or (lambda _text: None)
    triggers = {name: [(trigger_of(text), text) for text in stated_rules(said)] for name, said in rules.items()}
    for name in (name for name, found in triggers.items() if not found):
        say(f"not recognised: {name} {rules[name]}")
    mistaken = [said for said in others if stated_rules(said)]
    for said in mistaken:
        say(f"no rule: {said}")
    fired: dict[bool, list[int]] = {True: [0, 0], False: [0, 0]}
    floor: dict[bool, list[int]] = {True: [0, 0], False: [0, 0]}
    disturbed = 0
    for row in calls:
        now = Situation(row["tool"], row["arguments"], row.get("user", ""), datetime.fromisoformat(row["at"]))
        text = f"{json.dumps(row['arguments'])} {row.get('user', '')}".casefold()
        wrong = 0
        for name, said in rules.items():
            applies = name in row["applies"]
            if name in row.get("may", ()) and not applies:
                continue
            reason = next(filter(None, (why(trigger, now, text) for trigger, text in triggers[name])), "")
            fired[applies][0] += bool(reason)
            fired[applies][1] += 1
            floor[applies][0] += any(word in text for word in re.findall(r"\w{5,}", said.casefold()))
            floor[applies][1] += 1
            wrong += bool(reason) and not applies
            if bool(reason) != applies:
                say(f"{'fired' if reason else 'silent'}: {name} {said!r} on {row} {reason}")
        disturbed += wrong > 0
    return {
        "rules": len(rules),
        "calls": len(calls),
        "recognised": _share(sum(map(bool, triggers.values())), len(rules)),
        "mistaken": _share(len(mistaken), len(others)),
        "fired": _share(*fired[True]),
        "others": _share(*fired[False]),
        "calls_with_a_wrong_rule": _share(disturbed, len(calls)),
        "floor": {
            "recognised": _share(
                sum("always" in said.casefold() or "never" in said.casefold() for said in rules.values()), len(rules)
            ),
            "fired": _share(*floor[True]),
            "others": _share(*floor[False]),
        },
    }


def _share(part: int, whole: int) -> float:
    return round(part / whole, 4) if whole else 0.0
