"""Kills a writer of `state.db` at random moments: what it acknowledged is there, in order, unchanged and searchable."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from typing import TYPE_CHECKING, Any, NoReturn

from engines import database_of

from hermes.base.errors import HermesError
from hermes.conversations.database import SessionDB
from soak.common import Outcome, kill_again_and_again

if TYPE_CHECKING:
    import random

    from soak.common import Options

_KILLS_PER_FILE = 50
_LONGEST_LIVES = (0.004, 0.02, 0.06)
_SESSIONS = ("one", "two", "three")
_WORDS = (
    "deploy",
    "λόγος",
    "naïve",
    "日本語の予定",
    "🜁",
    "line\nbreak",
    "tab\there",
    "nul\0inside",
    "it's 100%",
    "Zürich",
)


def run(kills: int, options: Options) -> Outcome:
    outcome = Outcome(name=f"kills in {options.folder}", figures={"acknowledged": 0, "in flight": 0})
    return kill_again_and_again(
        kills, options, outcome, lambda place: _Trial(os.path.join(place, "state.db")), per_folder=_KILLS_PER_FILE
    )


class _Trial:
    """One file with the model of what it must hold: for each session its messages, id and text."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._expected: dict[str, list[tuple[int, str]]] = {name: [] for name in _SESSIONS}
        with SessionDB.open(path) as db:
            for name in _SESSIONS:
                db.create_session(session_id=name)

    def kill_once(self, chance: random.Random, number: int, outcome: Outcome) -> list[str]:
        life = chance.uniform(0, chance.choice(_LONGEST_LIVES))
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            _write_until_killed(self._path, chance, number, writer)
        os.close(writer)
        time.sleep(life)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with os.fdopen(reader, encoding="utf-8") as pipe:
            told = [json.loads(line) for line in pipe.read().split("\n")[:-1] if line]
        in_flight, problems = self._follow(told, outcome)
        try:
            return problems + self._problems(chance, in_flight)
        except HermesError as error:
            return [*problems, f"a fresh open failed: {error}"]

    def _follow(self, told: list[dict[str, Any]], outcome: Outcome) -> tuple[tuple[str, list[str]] | None, list[str]]:
        in_flight: tuple[str, list[str]] | None = None
        for line in told:
            if "error" in line:
                return in_flight, [f"the writer failed: {line['error']}"]
            if "ids" not in line:
                in_flight = (line["session"], line["texts"])
                continue
            in_flight = None
            outcome.count("acknowledged", len(line["ids"]))
            self._expected[line["session"]] += zip(line["ids"], line["texts"], strict=True)
        outcome.count("in flight", 1 if in_flight else 0)
        return in_flight, []

    def _problems(self, chance: random.Random, in_flight: tuple[str, list[str]] | None) -> list[str]:
        problems: list[str] = []
        with SessionDB.open(self._path) as db:
            for name in _SESSIONS:
                found = [(message.id, message.message.get("content", "")) for message in db.messages(name)]
                expected = self._expected[name]
                more = found[len(expected) :]
                if found[: len(expected)] != expected:
                    problems.append(f"session {name}: {len(expected)} were acknowledged, not all are there as written")
                elif more and (in_flight is None or in_flight != (name, [text for _, text in more])):
                    problems.append(f"session {name}: {len(more)} messages that nobody wrote, or a torn batch")
                self._expected[name] = found
            problems += _index_problems(db, chance, [text for rows in self._expected.values() for _, text in rows])
            verdict = database_of(db).row("PRAGMA integrity_check")[0]
            if verdict != "ok":
                problems.append(f"integrity_check: {verdict}")
        return problems


def _index_problems(db: SessionDB, chance: random.Random, texts: list[str]) -> list[str]:
    """The index holds exactly the live messages; a word that only one of them holds finds it."""
    db.index()
    in_table = {row[0] for row in database_of(db).rows("SELECT id FROM messages")}
    in_index = {row[0] for row in database_of(db).rows("SELECT id FROM messages_fts_docsize")}
    problems = [f"{len(in_table ^ in_index)} messages stand only in the table or only in the index"]
    problems = problems if in_table != in_index else []
    for text in chance.sample(texts, min(2, len(texts))):
        word = text.split()[0]
        if not any(hit.snippet.replace(">>>", "").find(word) >= 0 for hit in db.search(word, limit=3)):
            problems.append(f"a search for {word!r} does not find its message")
    return problems


def _write_until_killed(path: str, chance: random.Random, number: int, pipe: int) -> NoReturn:
    try:
        db = SessionDB.open(path, durability=chance.choice(("message", "turn")))
        step = 0
        while True:
            name = chance.choice(_SESSIONS)
            texts = [_text(chance, f"k{number}x{step + at}") for at in range(chance.choice((1, 1, 1, 2, 5, 40)))]
            step += len(texts)
            said = {"session": name, "texts": texts}
            os.write(pipe, json.dumps(said).encode() + b"\n")
            messages = [{"role": "user", "content": text} for text in texts]
            with db.bulk() if chance.random() < 0.3 else contextlib.nullcontext():
                ids = [db.append(name, messages[0])] if len(texts) == 1 else db.append_many(name, messages)
            os.write(pipe, json.dumps(said | {"ids": ids}).encode() + b"\n")
            if chance.random() < 0.1:
                db.search("deploy", limit=2)  # indexes what waits
            if chance.random() < 0.05:
                db.sync()
    except (HermesError, OSError, ValueError, KeyError, TypeError, IndexError) as error:
        os.write(pipe, json.dumps({"error": f"{type(error).__name__}: {error}"}).encode() + b"\n")
    finally:
        os._exit(1)


def _text(chance: random.Random, word: str) -> str:
    """Starts with a word that no other message holds."""
    long = chance.random() < 0.03
    return f"{word} " + " ".join(chance.choice(_WORDS) for _ in range(2000 if long else chance.randint(0, 30)))
