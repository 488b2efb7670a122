"""How often a question asked verbatim finds its turn and session: on public sets, and on your own history.

A message is drawn, three of its telling words become a question, and the question must bring the message or its
session back. That is easier than a question somebody thinks up, and it is about the user's own words, languages and
habits; the figures say how well those are found, not how a public benchmark would come out.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import tempfile
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from hermes.base import words as english
from hermes.base.errors import NotFound, SettingsError
from hermes.base.tokens import estimate
from hermes.conversations.database import Pages, SessionDB
from hermes.conversations.retrieval import Criteria
from hermes.conversations.search.semantic import INSTALL, PACKAGE, static_vectors
from hermes.conversations.session_search import SessionSearch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from hermes.conversations.search.results import Hit

LIMIT = 50
DEPTHS = (1, 5, 10)
_RECALLED = 20
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
class Tally:
    """How deep in the answers what was asked for stands: its session, and its very turn where one is known."""

    questions: int = 0
    empty: int = 0
    sessions: dict[int, int] = field(default_factory=lambda: dict.fromkeys(DEPTHS, 0))
    turns: dict[int, int] = field(default_factory=lambda: dict.fromkeys(DEPTHS, 0))
    with_turns: int = 0
    recalled: float = 0.0  # the share of the wanted turns among the first twenty, summed up
    shown: int = 0  # questions whose evidence `session_search` shows
    tokens: int = 0  # of its answers
    weak: int = 0
    others: int = 0  # questions about another haystack, which has no answer here
    others_weak: int = 0

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
        self.recalled += len(turns & {key(hit.message_id) for hit in hits[:_RECALLED]}) / max(1, len(turns))

    def figures(self) -> dict[str, Any]:
        return {
            "questions": self.questions,
            "empty": self.empty,
            "session": {f"hit@{depth}": percent(self.sessions[depth], self.questions) for depth in DEPTHS},
            "turn": {
                **{f"hit@{depth}": percent(self.turns[depth], self.with_turns) for depth in DEPTHS},
                f"recall@{_RECALLED}": percent(self.recalled, self.with_turns),
            },
            **self._answers(),
        }

    def _answers(self) -> dict[str, Any]:
        """What a model gets from `session_search`; empty when that was not asked."""
        if not self.tokens:
            return {}
        weak = {"answerable": percent(self.weak, self.questions)}
        return {
            "session_search": {
                "evidence_shown": percent(self.shown, self.with_turns),
                "tokens": round(self.tokens / self.questions),
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
    tallies: dict[str, Tally] = defaultdict(Tally)
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
    db: SessionDB, haystack: Haystack, limit: int | None, tallies: dict[str, Tally], elsewhere: list[Question]
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
            message = {"role": _ROLES[at % 2], "content": " ".join(chance.choices(sentences, k=length))}
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


def percent(part: float, whole: int) -> float:
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


_WORD = re.compile(r"[^\W\d_]{3,24}")
_UNSPACED = re.compile("[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]{4,}")
_KEPT = 20_000  # messages that words are counted in and questions are drawn from
_ASKED_ABOUT = 3
_ROLES = ("user", "assistant")
_COMMON = 0.05  # a word in more messages than this tells nothing


def run_own(db: SessionDB, *, questions: int = 200, seed: int = 0) -> dict[str, Any]:
    """hit@k for sessions and messages over questions drawn from what is stored."""
    chance = random.Random(seed)  # noqa: S311 - reproducible, not secret
    drawn = _sample(db, chance)
    if len(drawn) < _ASKED_ABOUT:
        raise NotFound("there are too few conversations to ask about; `hermes sessions import` brings some in")
    common = common_words(drawn)
    chance.shuffle(drawn)
    tally = Tally()
    taken: list[float] = []
    for message_id, session_id, text in drawn:
        question = _question(text, common, chance)
        if question is None:
            continue
        started = time.thread_time()
        hits = db.search(question, limit=LIMIT)
        taken.append((time.thread_time() - started) * 1000)
        tally.count(hits, {session_id}, {message_id})
        if tally.questions == questions:
            break
    taken.sort()
    figures = tally.figures() | {"drawn_from_messages": len(drawn)}
    return {"own_history": figures | {"median_cpu_ms": round(taken[len(taken) // 2], 2) if taken else 0.0}}


def _sample(db: SessionDB, chance: random.Random) -> list[tuple[int, str, str]]:
    """Up to so many messages of all that were said, each as likely as any other."""
    kept: list[tuple[int, str, str]] = []
    for number, said in enumerate(_spoken_by(db)):
        if len(kept) < _KEPT:
            kept.append(said)
        elif (place := chance.randrange(number + 1)) < _KEPT:
            kept[place] = said
    return kept


def _spoken_by(db: SessionDB) -> Iterator[tuple[int, str, str]]:
    pages = Pages.of_db(db)
    for session in pages.sessions():
        for stored in pages.messages(session):
            text = stored.message.get("content")
            if stored.role in _ROLES and isinstance(text, str) and not stored.damaged:
                yield stored.id, session.id, text


def common_words(drawn: list[tuple[int, str, str]]) -> frozenset[str]:
    counts: Counter[str] = Counter()
    for _, _, text in drawn:
        counts.update(set(_WORD.findall(text.lower())))
    most = max(2.0, _COMMON * len(drawn))
    return frozenset(word for word, count in counts.items() if count > most)


def _question(text: str, common: frozenset[str], chance: random.Random) -> str | None:
    """Telling words of a message as a question; None when it has too few of them."""
    runs = _UNSPACED.findall(text)
    if runs:
        run_ = chance.choice(runs)
        start = chance.randrange(len(run_) - 3)
        return f"{run_[start : start + 6]}?"
    words = [word for word in dict.fromkeys(_WORD.findall(text.lower())) if word not in common | english.STOP_WORDS]
    if len(words) < _ASKED_ABOUT:
        return None
    first, second, third = chance.sample(words, _ASKED_ABOUT)
    return f"What did we say about {first}, {second} and {third}?"
