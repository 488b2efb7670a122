"""Files of `state.db` that are removed under a program that has them open: what it then acknowledges is not lost."""

from __future__ import annotations

import json
import os
import random
import signal
import tempfile
from typing import TYPE_CHECKING, NoReturn

from hermes.base.errors import HermesError
from hermes.conversations.database import SessionDB
from soak.common import Outcome, Progress

if TYPE_CHECKING:
    from soak.common import Options

_FILES = ("state.db", "state.db-wal", "state.db-shm", "state.db.lock", "state.db.lock.queue")
_SESSION = "one"


def run(trials: int, options: Options) -> Outcome:
    figures = {"trials": 0, "acknowledged afterwards": 0, "refused": 0}
    outcome = Outcome(name="removed files", figures=figures)
    progress = Progress("removed files", trials, options)
    for number in range(trials):
        if not progress.goes_on(number, outcome):
            break
        with tempfile.TemporaryDirectory(dir=options.folder, prefix="soak-") as place:
            problems = _trial(place, random.Random(f"{options.seed}/{number}"), outcome)
        outcome.count("trials")
        outcome.fail(*(f"trial {number} (--seed {options.seed}): {each}" for each in problems))
    progress.goes_on(trials, outcome)
    return outcome


def _trial(place: str, chance: random.Random, outcome: Outcome) -> list[str]:
    removed = chance.sample(_FILES, chance.randint(1, len(_FILES)))
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _write(place, removed, chance, writer)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8") as pipe:
        told = [json.loads(line) for line in pipe]
    os.waitpid(child, 0)
    problems = [f"{line['error']} after {removed} were removed" for line in told if "error" in line]
    acknowledged = [line["text"] for line in told if "text" in line]
    outcome.count("acknowledged afterwards", len(acknowledged))
    outcome.count("refused", sum("refused" in line for line in told))
    try:
        with SessionDB.open(os.path.join(place, "state.db")) as db:
            found = {each.text for each in db.messages(_SESSION)} if db.find_session(_SESSION) else set()
    except HermesError as error:
        return [*problems, f"a fresh open failed after {removed} were removed: {error}"]
    lost = [text for text in acknowledged if text not in found]
    return problems + ([f"{len(lost)} of {len(acknowledged)} lost after {removed} were removed"] if lost else [])


def _write(place: str, removed: list[str], chance: random.Random, pipe: int) -> NoReturn:
    """Writes, has files taken away, and says which of the messages that it writes then were acknowledged."""

    def say(**line: str) -> None:
        os.write(pipe, json.dumps(line).encode() + b"\n")

    try:
        db = SessionDB.open(os.path.join(place, "state.db"), durability=chance.choice(("message", "turn")))
        db.create_session(session_id=_SESSION)
        for step in range(chance.randint(0, 20)):
            db.append(_SESSION, {"role": "user", "content": f"before {step}"})
        for name in removed:
            path = os.path.join(place, name)
            if os.path.exists(path):
                os.unlink(path)
        for step in range(chance.randint(1, 10)):
            try:
                db.append(_SESSION, {"role": "user", "content": f"after {step}"})
                db.sync()
            except HermesError as error:
                say(refused=str(error))
            else:
                say(text=f"after {step}")
    except BaseException as error:  # noqa: BLE001 - whatever it is, the parent must hear of it
        say(error=f"{type(error).__name__}: {error}")
    finally:
        os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError
