"""How often a question asked verbatim finds its turn and its session, on LoCoMo, LongMemEval and CJK passage files.

Every haystack becomes a `SessionDB` of its own: one session per dated conversation, one message per turn. The question
goes to `SessionDB.search(question, limit=50)` and to nothing else. hit@k over messages takes the first k hits; hit@k
over sessions takes the distinct sessions in the order of the hits.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import tempfile
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from hermes.storage.semantic import INSTALL, PACKAGE, static_vectors
from hermes.storage.sessions import SessionDB
from hermes.vocabulary.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from hermes.storage.hits import Hit

LIMIT = 50
DEPTHS = (1, 5, 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    key: str
    message: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    text: str
    sessions: frozenset[str]
    turns: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Haystack:
    group: str
    sessions: dict[str, tuple[float | None, list[Turn]]]
    questions: list[Question]


@dataclass(slots=True)
class Tally:
    """How deep in the answers what was asked for stands: its session, and its very turn where one is known."""

    questions: int = 0
    empty: int = 0
    sessions: dict[int, int] = field(default_factory=lambda: dict.fromkeys(DEPTHS, 0))
    turns: dict[int, int] = field(default_factory=lambda: dict.fromkeys(DEPTHS, 0))
    with_turns: int = 0

    def count(
        self,
        hits: Sequence[Hit],
        sessions: AbstractSet[str],
        turns: AbstractSet[Any],
        key: Callable[[int], Any] = lambda number: number,
    ) -> None:
        """`key` says which turn the message of a hit stands for."""
        self.questions += 1
        self.empty += not hits
        self.with_turns += bool(turns)
        found = list(dict.fromkeys(hit.session_id for hit in hits))
        said = [key(hit.message_id) for hit in hits[: max(DEPTHS)]]
        for depth in DEPTHS:
            self.sessions[depth] += not sessions.isdisjoint(found[:depth])
            self.turns[depth] += not turns.isdisjoint(said[:depth])

    def figures(self) -> dict[str, Any]:
        return {
            "questions": self.questions,
            "empty": self.empty,
            "session": {f"hit@{depth}": _percent(self.sessions[depth], self.questions) for depth in DEPTHS},
            "turn": {f"hit@{depth}": _percent(self.turns[depth], self.with_turns) for depth in DEPTHS},
        }


def run(path: str | os.PathLike[str], *, limit: int | None = None, semantic: bool = False) -> dict[str, Any]:
    """Figures per set of one benchmark file; `limit` takes only the first questions of each haystack.

    `semantic` searches by meaning too, with the vectors of the extra.
    """
    if semantic and static_vectors() is None:
        raise SettingsError(f"--semantic needs the package {PACKAGE}; {INSTALL}")
    tallies: dict[str, Tally] = defaultdict(Tally)
    for haystack in haystacks(path):
        with (
            tempfile.TemporaryDirectory(prefix="hermes-recall-") as folder,
            SessionDB.open(
                os.path.join(folder, "state.db"), durability="turn", semantic=static_vectors if semantic else None
            ) as db,
        ):
            turns = fill(db, haystack)
            for question in haystack.questions[:limit]:
                hits = db.search(question.text, limit=LIMIT)
                tallies[haystack.group].count(hits, question.sessions, question.turns, turns.__getitem__)
    return {group: tally.figures() for group, tally in tallies.items()}


def haystacks(path: str | os.PathLike[str]) -> Iterator[Haystack]:
    """The haystacks of a file, whose format is told by its shape and never by its name."""
    data = _load(os.fspath(path))
    if isinstance(data, dict) and all(isinstance(part, dict) and "documents" in part for part in data.values()):
        return _passages(data)
    entries = isinstance(data, list) and data and all(isinstance(entry, dict) for entry in data)
    if entries and "conversation" in data[0]:
        return (_conversation(entry) for entry in data)
    if entries and "haystack_sessions" in data[0]:
        return (_long_memory(entry) for entry in data)
    raise SettingsError(f"{path} has none of the known formats (LoCoMo, LongMemEval, CJK passages)")


def fill(db: SessionDB, haystack: Haystack) -> dict[int, str]:
    """Stores a haystack; returns which turn each message id stands for."""
    turns: dict[int, str] = {}
    for name, (started, members) in haystack.sessions.items():
        session = db.create_session(source="bench", session_id=name, started_at=started)
        ids = db.append_many(session, [turn.message for turn in members])
        turns.update(zip(ids, (turn.key for turn in members), strict=True))
    return turns


def _percent(part: int, whole: int) -> float:
    return round(100 * part / whole, 1) if whole else 0.0


def _load(path: str) -> Any:
    opener = gzip.open if path.endswith(".gz") else open
    try:
        with opener(path, "rt", encoding="utf-8") as file:
            return json.load(file)
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, EOFError) as error:
        raise SettingsError(f"{path} is not JSON text: {error}") from error


def _conversation(entry: dict[str, Any]) -> Haystack:
    conversation = entry["conversation"]
    sessions: dict[str, tuple[float | None, list[Turn]]] = {}
    for name, turns in conversation.items():
        if isinstance(turns, list):
            started = _moment(conversation.get(f"{name}_date_time", ""), "%I:%M %p on %d %B, %Y")
            first = conversation.get("speaker_a")
            sessions[name.replace("session_", "D")] = (started, [_spoken(turn, first) for turn in turns])
    known = {turn.key for _, turns in sessions.values() for turn in turns}
    questions = []
    for asked in entry["qa"]:
        gold = known & set(re.findall(r"D\d+:\d+", " ".join(map(str, asked.get("evidence") or []))))
        if gold:
            where = frozenset(key.split(":")[0] for key in gold)
            questions.append(Question(text=asked["question"], sessions=where, turns=frozenset(gold)))
    return Haystack(group="locomo", sessions=sessions, questions=questions)


def _spoken(turn: dict[str, Any], first_speaker: str | None) -> Turn:
    text = turn.get("text", "")
    if turn.get("blip_caption"):
        text = f"{text} [shared image: {turn['blip_caption']}]"
    role = "user" if turn["speaker"] == first_speaker else "assistant"
    return Turn(key=turn["dia_id"], message={"role": role, "name": turn["speaker"], "content": text})


def _long_memory(entry: dict[str, Any]) -> Haystack:
    sessions: dict[str, tuple[float | None, list[Turn]]] = {}
    gold = set()
    listed = zip(entry["haystack_session_ids"], entry["haystack_dates"], entry["haystack_sessions"], strict=True)
    for name, date, members in listed:
        turns = []
        for number, turn in enumerate(members):
            key = f"{name}:{number}"
            turns.append(Turn(key=key, message={"role": turn["role"], "content": turn["content"]}))
            if turn.get("has_answer"):
                gold.add(key)
        sessions[name] = (_moment(date, "%Y/%m/%d (%a) %H:%M"), turns)
    asked = Question(text=entry["question"], sessions=frozenset(entry["answer_session_ids"]), turns=frozenset(gold))
    return Haystack(group="longmemeval", sessions=sessions, questions=[asked])


def _passages(data: dict[str, Any]) -> Iterator[Haystack]:
    for group, part in data.items():
        sessions: dict[str, tuple[float | None, list[Turn]]] = {
            document["id"]: (None, [Turn(key=document["id"], message={"role": "user", "content": document["text"]})])
            for document in part["documents"]
        }
        yield Haystack(group=group, sessions=sessions, questions=list(_passage_questions(part["questions"])))


def _passage_questions(asked: Iterable[dict[str, Any]]) -> Iterator[Question]:
    for entry in asked:
        gold = frozenset([entry["gold"]])
        yield Question(text=entry["question"], sessions=gold, turns=gold)


def _moment(text: str, form: str) -> float | None:
    try:
        return datetime.strptime(text, form).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
