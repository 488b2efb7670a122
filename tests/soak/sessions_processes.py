"""Sixteen processes write, read and search one `state.db`: nobody is told that it is locked, and nothing is lost."""

from __future__ import annotations

import json
import os
import random
import tempfile
import time
from typing import TYPE_CHECKING, Any, NoReturn

from hermes.storage.sessions import SessionDB
from soak.common import Outcome, Progress

if TYPE_CHECKING:
    from soak.common import Options

PROCESSES = 16


def run(rounds: int, options: Options, *, appends: int = 60) -> Outcome:
    outcome = Outcome(name=f"{PROCESSES} processes", figures={"acknowledged": 0, "longest wait ms": 0.0})
    progress = Progress("processes", rounds, options)
    for number in range(rounds):
        if not progress.goes_on(number, outcome):
            break
        with tempfile.TemporaryDirectory(dir=options.folder, prefix="soak-") as place:
            path = os.path.join(place, "state.db")
            told = _all_at_once(path, options.seed + number, appends)
            outcome.fail(*(f"round {number}: {line['error']}" for line in told if "error" in line))
            waits = [line["wait"] for line in told if "wait" in line]
            outcome.figures["longest wait ms"] = max([outcome.figures["longest wait ms"], *waits])
            expected = {line["id"]: line["text"] for line in told if "id" in line}
            outcome.count("acknowledged", len(expected))
            outcome.fail(*(f"round {number}: {each}" for each in _problems(path, expected)))
    progress.goes_on(rounds, outcome)
    return outcome


def _all_at_once(path: str, seed: int, appends: int) -> list[dict[str, Any]]:
    reader, writer = os.pipe()
    gate_reader, gate_writer = os.pipe()
    children = []
    for number in range(PROCESSES):
        child = os.fork()
        if child == 0:
            os.close(gate_writer)
            os.read(gate_reader, 1)  # ends for all of them when the parent closes its side
            _work(path, random.Random(f"{seed}/{number}"), number, appends, writer)
        children.append(child)
    os.close(writer)
    os.close(gate_writer)
    os.close(gate_reader)
    with os.fdopen(reader, encoding="utf-8") as pipe:
        told = [json.loads(line) for line in pipe]
    for child in children:
        os.waitpid(child, 0)
    return told


def _work(path: str, chance: random.Random, number: int, appends: int, pipe: int) -> NoReturn:
    try:
        db = SessionDB.open(path, durability=chance.choice(("message", "turn")))
        name = db.create_session()
        for step in range(appends):
            text = f"p{number}s{step} spoken in round"
            started = time.monotonic()
            message = db.append(name, {"role": "user", "content": text})
            waited = (time.monotonic() - started) * 1000
            _say(pipe, {"id": message, "text": text, "wait": waited})
            if chance.random() < 0.1:
                db.search(f"p{chance.randrange(PROCESSES)}s{step}", limit=2)
            if chance.random() < 0.1:
                db.list_sessions()
            if chance.random() < 0.03:
                db.close()
                db = SessionDB.open(path)
        db.close()
    except Exception as error:  # noqa: BLE001 - any error that reaches the caller is the finding
        _say(pipe, {"error": f"process {number}: {type(error).__name__}: {error}"})
    finally:
        os._exit(0)


def _say(pipe: int, line: dict[str, Any]) -> None:
    os.write(pipe, json.dumps(line).encode() + b"\n")  # short enough to be written in one piece


def _problems(path: str, expected: dict[int, str]) -> list[str]:
    with SessionDB.open(path) as db:
        found = {m.id: m.text for session in db.list_sessions(limit=100) for m in db.messages(session.id)}
        db.index()
        indexed = {row[0] for row in db._database.rows("SELECT id FROM messages_fts_docsize")}
        problems = [] if found == expected else [f"{len(expected)} acknowledged, {len(found)} found"]
        problems += [] if indexed == set(expected) else [f"{len(expected)} acknowledged, {len(indexed)} indexed"]
        verdict = db._database.row("PRAGMA integrity_check")[0]
    return problems + ([] if verdict == "ok" else [f"integrity_check: {verdict}"])
