"""Facts that change: whether search and memory show the current fact, and not the one it replaced.

FactConsolidation: its facts are stored in their order as messages of one person, and its questions are asked verbatim.
`right` counts the questions whose answer `session_search` shows while it shows no fact with the same wording up to its
value and another value. Corrections (JSON lines, as below `tests/data/corrections`) are pairs of messages on two days:
`right` counts the questions for which the later one is shown and the earlier one is not shown as current. Independent
pairs are alike and both hold; `folded` and `replaced` count those that were wrongly taken for a correction.
Nothing is deleted: `kept` counts the messages that opening their conversation still shows whole.
"""

from __future__ import annotations

import glob
import gzip
import json
import os
import re
import tempfile
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from hermes.base.errors import SettingsError
from hermes.conversations.database import SessionDB
from hermes.conversations.retrieval import Criteria
from hermes.conversations.session_search import SessionSearch
from hermes.memory.entries import Cause
from hermes.memory.store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Sequence

_CORRECTIONS = os.path.join(os.path.dirname(os.path.dirname(__file__)), "tests", "data", "corrections", "*.jsonl")
_AT_ONCE = 40  # facts in one conversation
_DAY = 86_400.0
_FOLDED = re.compile(r"\[until [^\]]*\]")
_EARLY, _LATE = "2026-01-10", "2026-04-10"
_PERSON = Cause(origin="user")


def run(path: str | None = None) -> dict[str, Any]:
    """Figures for a file; without one for the corrections that are part of the project."""
    figures: dict[str, Any] = {}
    for each in [path] if path else sorted(glob.glob(_CORRECTIONS)):
        name = os.path.basename(each).split(".")[0]
        if not path and name.startswith("examples"):
            continue  # pairs without a question, for training
        if each.endswith(".jsonl"):
            figures[name] = corrections(each)
        else:
            figures |= {part["set"]: _consolidated(part) for part in _load(each)}
    return figures


def _load(path: str) -> list[dict[str, Any]]:
    try:
        with (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="utf-8") as file:
            found = json.load(file)
        if isinstance(found, list) and all(
            isinstance(part, dict) and {"set", "facts", "questions"} <= part.keys() for part in found
        ):
            return found
    except (OSError, ValueError) as error:
        raise SettingsError(f"{path} cannot be read: {error}") from error
    raise SettingsError(f"{path} is not FactConsolidation: expected a list of sets with facts and questions")


def _consolidated(part: dict[str, Any]) -> dict[str, Any]:
    facts, questions = part["facts"], part["questions"]
    begin = time.time() - _DAY * len(facts)
    with tempfile.TemporaryDirectory(prefix="hermes-facts-") as folder, _open(folder) as db:
        for first in range(0, len(facts), _AT_ONCE):
            session = db.create_session(source="bench", session_id=f"facts {first}", started_at=begin + first * _DAY)
            db.append_many(session, [{"role": "user", "content": each} for each in facts[first : first + _AT_ONCE]])
        search, current, right = SessionSearch(db), 0, 0
        started = time.thread_time()
        for asked in questions:
            shown = _text(search.discover(asked["question"], Criteria(limit=10))["results"])
            answered = any(answer in shown for answer in asked["answers"])
            current += answered
            right += answered and not any(fact in shown for fact in _replaced(facts, asked))
        milliseconds = (time.thread_time() - started) * 1000 / len(questions)
        kept = sum(len(db.messages(session.id)) for session in db.list_sessions(limit=len(facts)))
    shares = {"current_shown": current / len(questions), "right": right / len(questions)}
    return {"questions": len(questions), **shares, "facts": len(facts), "kept": kept, "cpu_ms": round(milliseconds, 2)}


def _replaced(facts: Sequence[str], asked: dict[str, Any]) -> list[str]:
    """The facts with the wording of the one that answers, up to its value, and another value."""
    answering = [(fact, answer) for answer in asked["answers"] for fact in facts if fact.endswith(f" {answer}.")]
    best, answer = max(answering, key=lambda each: _alike(each[0], asked["question"]), default=("", ""))
    head = best[: -len(answer) - 1] if best else "-"
    return [fact for fact in facts if fact.startswith(head) and fact != best]


def _alike(fact: str, question: str) -> float:
    one, other = (set(re.findall(r"\w+", text)) for text in (fact, question))
    return len(one & other) / len(one | other)


def corrections(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            rows = [json.loads(line) for line in file if line.strip()]
    except (OSError, ValueError) as error:
        raise SettingsError(f"{path} cannot be read as JSON lines: {error}") from error
    corrected = [row for row in rows if "question" in row]
    independent = [row for row in rows if row.get("kind") == "independent"]
    right, kept = _searched(corrected)
    folded = _folded(independent)
    written = [_written(row) for row in corrected]
    replaced = [row for row in independent if len(_written(row)) == 1]
    figures: dict[str, Any] = {}
    if corrected:
        figures["corrections"] = {
            "pairs": len(corrected),
            "right_in_search": right / len(corrected),
            "right_in_memory": written.count(("later",)) / len(corrected),
            "messages": 2 * len(corrected),
            "kept": kept,
        }
    if independent:
        figures["independent"] = {"pairs": len(independent), "folded": folded, "replaced": len(replaced)}
    return figures


def _searched(rows: Sequence[dict[str, Any]]) -> tuple[int, int]:
    """How many questions are answered right from all pairs in one store, and how many messages can be read whole."""
    with tempfile.TemporaryDirectory(prefix="hermes-facts-") as folder, _open(folder) as db:
        _store(db, rows)
        search, right = SessionSearch(db), 0
        for number, row in enumerate(rows):
            results = search.discover(row["question"], Criteria(limit=10))["results"]
            current = _FOLDED.sub("", _text(results)).casefold()
            earlier = _FOLDED.sub("", _text([each for each in results if each["session_id"] == f"{number} first"]))
            right += row["current"].casefold() in current and row["outdated"].casefold() not in earlier.casefold()
        kept = 0
        for number, row in enumerate(rows):
            for name in ("first", "later"):
                kept += search.read(f"{number} {name}")["messages"][0]["content"] == row[name]
    return right, kept


def _folded(rows: Sequence[dict[str, Any]]) -> int:
    """How many independent pairs lose one of the two when either is asked for in its own words."""
    with tempfile.TemporaryDirectory(prefix="hermes-facts-") as folder, _open(folder) as db:
        _store(db, rows)
        search, folded = SessionSearch(db), 0
        for number, row in enumerate(rows):
            results = [
                each
                for asked in (row["first"], row["later"])
                for each in search.discover(asked, Criteria(limit=10))["results"]
                if each["session_id"] in (f"{number} first", f"{number} later")
            ]
            folded += _FOLDED.search(_text(results)) is not None
    return folded


def _store(db: SessionDB, rows: Sequence[dict[str, Any]]) -> None:
    said = [(row.get("first_on", _EARLY), f"{number} first", row["first"]) for number, row in enumerate(rows)]
    said += [(row.get("later_on", _LATE), f"{number} later", row["later"]) for number, row in enumerate(rows)]
    for day, name, text in sorted(said):
        moment = datetime.fromisoformat(day).replace(hour=12, tzinfo=UTC).timestamp()
        session = db.create_session(source="bench", session_id=name, started_at=moment)
        db.append_many(session, [{"role": "user", "content": text, "timestamp": moment}])


def _written(row: dict[str, Any]) -> tuple[str, ...]:
    """Which of the two statements of a person the prompt of the next session would show."""
    with tempfile.TemporaryDirectory(prefix="hermes-facts-") as folder:
        store = MemoryStore.open(folder, screen=lambda _content, _cause: None)  # some rows are about passwords
        for name in ("first", "later"):
            store.add("memory", row[name], cause=_PERSON)
        entries = MemoryStore.open(folder).entries("memory")
    return tuple(name for name in ("first", "later") if row[name] in entries)


def _open(folder: str) -> SessionDB:
    return SessionDB.open(os.path.join(folder, "state.db"), durability="turn")


def _text(results: Sequence[dict[str, Any]]) -> str:
    parts = ("snippet", "bookend_start", "messages", "bookend_end")
    return "\n".join(re.sub(r"#\d+", "#", str(each[part])) for each in results for part in parts)
