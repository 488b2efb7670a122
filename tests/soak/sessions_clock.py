"""Conversations and memory written while the clock jumps by up to twenty years: every order follows the writing."""

from __future__ import annotations

import os
import random
import tempfile
import time
from typing import TYPE_CHECKING
from unittest import mock

from hermes.conversations.database import SessionDB
from hermes.memory.entries import in_order, newest_to_undo
from hermes.memory.store import TARGETS, MemoryStore
from soak.common import Outcome, Progress

if TYPE_CHECKING:
    from soak.common import Options

_TWENTY_YEARS = 20 * 365 * 86_400


def run(histories: int, options: Options) -> Outcome:
    outcome = Outcome(name="clock jumps", figures={"histories": 0, "messages": 0})
    progress = Progress("clock jumps", histories, options)
    for number in range(histories):
        if not progress.goes_on(number, outcome):
            break
        with tempfile.TemporaryDirectory(dir=options.folder, prefix="soak-") as place:
            chance = random.Random(f"{options.seed}/{number}")
            problems = _history(os.path.join(place, "state.db"), chance, outcome)
        outcome.count("histories")
        outcome.fail(*(f"history {number} (--seed {options.seed}): {each}" for each in problems))
    progress.goes_on(histories, outcome)
    return outcome


def run_memory(histories: int, options: Options) -> Outcome:
    """The log of both memory files, and what an undo takes back."""
    outcome = Outcome(name="clock jumps in memory", figures={"histories": 0, "changes": 0})
    progress = Progress("clock jumps in memory", histories, options)
    for number in range(histories):
        if not progress.goes_on(number, outcome):
            break
        with tempfile.TemporaryDirectory(dir=options.folder, prefix="soak-") as place:
            problems = _changes(os.path.join(place, "home"), random.Random(f"{options.seed}/{number}"), outcome)
        outcome.count("histories")
        outcome.fail(*(f"history {number} (--seed {options.seed}): {each}" for each in problems))
    progress.goes_on(histories, outcome)
    return outcome


def _changes(home: str, chance: random.Random, outcome: Outcome) -> list[str]:
    written: list[str] = []
    for step in range(chance.randint(3, 12)):
        jump = chance.uniform(-_TWENTY_YEARS, _TWENTY_YEARS)
        with mock.patch("time.time", return_value=time.time() + jump):
            change = MemoryStore.open(home).add(chance.choice(TARGETS), f"fact {step} {chance.getrandbits(30)}").change
        written.append(change.id if change else "none")
        outcome.count("changes")
    store = MemoryStore.open(home)
    ordered = in_order(*(store.history(target)[0] for target in TARGETS))
    newest = newest_to_undo(ordered)
    problems = [] if [each.id for each in ordered] == written else [f"{[each.id for each in ordered]}, not {written}"]
    return problems + ([] if newest and newest.id == written[-1] else ["an undo takes back another change"])


def _history(path: str, chance: random.Random, outcome: Outcome) -> list[str]:
    written: dict[str, list[str]] = {}
    used: list[str] = []
    with SessionDB.open(path, durability="turn") as db:
        for step in range(chance.randint(20, 60)):
            jump = chance.uniform(-_TWENTY_YEARS, _TWENTY_YEARS)
            with mock.patch(
                "time.time", return_value=time.time() + jump
            ):  # the machine's clock, as every caller sees it
                if not written or chance.random() < 0.15:
                    name = db.create_session()
                    written[name] = []
                name = chance.choice(list(written))
                text = f"step{step} happened"
                db.append(name, {"role": "user", "content": text})
                written[name].append(text)
                used = [name, *(other for other in used if other != name)]
            outcome.count("messages")
        return _problems(db, written, used, chance)


def _problems(db: SessionDB, written: dict[str, list[str]], used: list[str], chance: random.Random) -> list[str]:
    problems = []
    for name, texts in written.items():
        messages = db.messages(name)
        if [message.text for message in messages] != texts:
            problems.append(f"{name} is not in the order of writing")
        if messages:
            at = chance.randrange(len(messages))
            window = [message.text for message in db.messages(name, around=messages[at].id, window=2)]
            if window != texts[max(0, at - 2) : at + 3]:
                problems.append(f"the neighbours of message {at} of {name} are {window}")
            if [m.text for m in db.bookends(name, 2)[1]] != texts[-2:]:
                problems.append(f"the end of {name} is not what was written last")
    listed = [session.id for session in db.list_sessions(limit=100) if session.message_count]
    if listed != used:
        problems.append("the sessions are not listed in the order of use")
    newest = db.search("happened", limit=3, sort="newest")
    if newest and newest[0].session_id != used[0]:
        problems.append("the newest hit is not in the session that was used last")
    return problems
