"""How often a question of a public set, asked verbatim, finds its turn and session: LoCoMo, LongMemEval, BEAM, CJK."""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from hermes.base.errors import SettingsError
from hermes.base.tokens import estimate
from hermes.conversations.database import SessionDB
from hermes.conversations.retrieval import Criteria
from hermes.conversations.search.semantic import INSTALL, PACKAGE, static_vectors
from hermes.conversations.session_search import SessionSearch
from hermes.operations.own_bench import LIMIT, ROLES, Tally, percent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_CONVERSATIONS = 10
_FROM_ELSEWHERE = 20
_FILLED_AT_ONCE = 10
_SHOWN = re.compile(r"^(?:> )?#(\d+) ", re.MULTILINE)
_SENTENCE = re.compile(r"(?<=[.!?])\s+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One message of a benchmark conversation."""

    key: str
    message: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A benchmark question and where its answer is."""

    text: str
    sessions: frozenset[str]
    turns: frozenset[str]
    kind: str = ""  # what the set says the question tests


@dataclass(frozen=True, slots=True, kw_only=True)
class Haystack:
    """The conversations of a benchmark and the questions about them."""

    group: str
    sessions: dict[str, tuple[float | None, list[Turn]]]
    questions: list[Question]


@dataclass(slots=True)
class AnswerTally(Tally):
    """Counts also what a model gets from `session_search`, and which results are called weak."""

    shown: int = 0  # questions whose evidence `session_search` shows
    tokens: int = 0  # of its answers
    weak: int = 0
    others: int = 0  # questions about another haystack, which has no answer here
    others_weak: int = 0

    def figures(self) -> dict[str, Any]:
        weak = {"answerable": percent(self.weak, self.questions)}
        return {
            **Tally.figures(self),
            "session_search": {
                "evidence_shown": percent(self.shown, self.with_turns),
                "tokens": round(self.tokens / max(1, self.questions)),
            },
            "called_weak": weak | ({"from_elsewhere": percent(self.others_weak, self.others)} if self.others else {}),
        }


def run(
    path: str | os.PathLike[str],
    *,
    limit: int | None = None,
    semantic: bool = False,
    pooled: int | None = None,
    unanswerable: str | None = None,
) -> dict[str, Any]:
    """Figures per set of one benchmark file; `limit` takes only the first questions of each haystack.

    `semantic` searches by meaning too, with the vectors of the extra. `pooled` puts all haystacks into one store and
    fills it up to that many messages. `unanswerable` is a file of questions, one to a line, that no haystack answers;
    without it the first questions of other haystacks are taken for such.
    """
    if semantic and static_vectors() is None:
        raise SettingsError(f"--semantic needs the package {PACKAGE}; {INSTALL}")
    found = list(haystacks(path))
    if pooled is not None:
        found = [_one_store(found, pooled)]
    asked = [Question(text=line, sessions=frozenset(), turns=frozenset()) for line in _lines_of(unanswerable)]
    tallies: dict[str, AnswerTally] = defaultdict(AnswerTally)
    for number, haystack in enumerate(found):
        others = found[number + 1 :] + found[:number]
        elsewhere = [question for other in others for question in other.questions[:1]][:_FROM_ELSEWHERE]
        with (
            tempfile.TemporaryDirectory(prefix="hermes-recall-") as folder,
            SessionDB.open(
                os.path.join(folder, "state.db"), durability="turn", semantic=static_vectors if semantic else None
            ) as db,
        ):
            _ask(db, haystack, limit, tallies, asked or elsewhere)
    return {group: tally.figures() for group, tally in tallies.items()}


def _ask(
    db: SessionDB, haystack: Haystack, limit: int | None, tallies: dict[str, AnswerTally], elsewhere: list[Question]
) -> None:
    turns = fill(db, haystack)
    search = SessionSearch(db)
    for question in haystack.questions[:limit]:
        hits = db.search(question.text, limit=LIMIT)
        answer = search.discover(question.text, Criteria(limit=_CONVERSATIONS))
        shown = {turns[int(at)] for result in answer["results"] for at in _SHOWN.findall(result["messages"])}
        for group in dict.fromkeys((haystack.group, f"{haystack.group} {question.kind}".strip())):
            tally = tallies[group]
            tally.count(hits, question.sessions, question.turns, turns.__getitem__)
            tally.shown += not question.turns.isdisjoint(shown)
            tally.tokens += estimate(json.dumps(answer, ensure_ascii=False))
            tally.weak += not hits or hits.weak
    for question in elsewhere:
        hits = db.search(question.text)
        tallies[haystack.group].others += 1
        tallies[haystack.group].others_weak += not hits or hits.weak


def _one_store(found: list[Haystack], least: int) -> Haystack:
    """All haystacks in one, and more sessions made of sentences that no question wants, up to so many messages."""
    sessions = {name: session for haystack in found for name, session in haystack.sessions.items()}
    questions = [question for haystack in found for question in haystack.questions]
    wanted = {name for question in questions for name in question.sessions}
    chance = random.Random(0)  # noqa: S311 - reproducible, not secret
    texts = [t.message["content"] for name, (_, turns) in sessions.items() if name not in wanted for t in turns]
    sentences = [sentence for text in texts for sentence in _SENTENCE.split(text)]
    moments = [moment for moment, _ in sessions.values()]
    missing = least - sum(len(turns) for _, turns in sessions.values())
    for number in range(0, missing if sentences else 0, _FILLED_AT_ONCE):
        turns = []
        for at in range(_FILLED_AT_ONCE):
            length = len(_SENTENCE.split(chance.choice(texts)))
            message = {"role": ROLES[at % 2], "content": " ".join(chance.choices(sentences, k=length))}
            turns.append(Turn(key=f"filler {number}:{at}", message=message))
        sessions[f"filler {number}"] = (chance.choice(moments), turns)
    count = sum(len(turns) for _, turns in sessions.values())
    return Haystack(group=f"{found[0].group}, {count:,} messages", sessions=sessions, questions=questions)


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
    if entries and {"messages", "questions"} <= data[0].keys():
        return (_chat(entry) for entry in data)
    raise SettingsError(f"{path} has none of the known formats (LoCoMo, LongMemEval, BEAM, CJK passages)")


def fill(db: SessionDB, haystack: Haystack) -> dict[int, str]:
    """Stores a haystack; returns which turn each message id stands for."""
    turns: dict[int, str] = {}
    for name, (started, members) in haystack.sessions.items():
        session = db.create_session(source="bench", session_id=name, started_at=started)
        ids = db.append_many(session, [turn.message for turn in members])
        turns.update(zip(ids, (turn.key for turn in members), strict=True))
    return turns


def _load(path: str) -> Any:
    opener = gzip.open if path.endswith(".gz") else open
    try:
        with opener(path, "rt", encoding="utf-8") as file:
            return json.load(file)
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, EOFError) as error:
        raise SettingsError(f"{path} is not JSON text: {error}") from error


def _lines_of(path: str | None) -> list[str]:
    if path is None:
        return []
    try:
        with open(path, encoding="utf-8") as file:
            return [line.strip() for line in file if line.strip()]
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror or error}") from error


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
    asked = Question(
        text=entry["question"],
        sessions=frozenset(entry["answer_session_ids"]),
        turns=frozenset(gold),
        kind=entry.get("question_type", ""),
    )
    return Haystack(group="longmemeval", sessions=sessions, questions=[asked])


def _chat(entry: dict[str, Any]) -> Haystack:
    """One long chat of BEAM: a message with a time begins a session, and questions want messages by their ids."""
    chat = entry.get("chat", "")
    sessions: dict[str, tuple[float | None, list[Turn]]] = {}
    where: dict[str, str] = {}
    for message in entry["messages"]:
        if "time" in message or not sessions:
            moment = datetime.fromisoformat(message["time"]) if "time" in message else None
            name = f"{chat} session {len(sessions) + 1}"
            sessions[name] = (moment.timestamp() if moment else None, [])
        key = f"{chat}:{message['id']}"
        where[key] = name
        sessions[name][1].append(Turn(key=key, message={"role": message["role"], "content": message["content"]}))
    questions = [
        Question(
            text=asked["question"],
            sessions=frozenset(where[f"{chat}:{gold}"] for gold in asked["gold"]),
            turns=frozenset(f"{chat}:{gold}" for gold in asked["gold"]),
            kind=asked["ability"],
        )
        for asked in entry["questions"]
    ]
    return Haystack(group="beam", sessions=sessions, questions=questions)


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
