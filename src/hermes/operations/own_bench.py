"""Measures memory on a person's own conversations: how well their words are found, and whether that helps.

`run_own` draws a message, makes a question of three of its telling words, and expects the message or its session back.
That is easier than a question somebody thinks up; it says how well the person's own words and languages are found.

`run_self` replays questions of the person with memory, without it, and with outdated memory. Such a question is a
sentence they once asked whose answer had come up before: the reply they got has rare words that the question does not
have and that occur in a message of an earlier conversation, the evidence. So no model is needed to find the questions
or to judge what memory shows.
"""

from __future__ import annotations

import random
import re
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hermes.base.errors import NotFound
from hermes.base.events import Usage
from hermes.base.tokens import estimate
from hermes.base.words import STOP_WORDS
from hermes.conversations.database import Pages
from hermes.conversations.retrieval import Criteria
from hermes.conversations.session_search import SessionSearch
from hermes.llm.catalogue import cost_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from hermes.conversations.database import SessionDB
    from hermes.conversations.search.results import Hit

    Ask = Callable[[str, str], str]

LIMIT = 50
DEPTHS = (1, 5, 10)
_RECALLED = 20


@dataclass(slots=True)
class Tally:
    """How deep in the answers what was asked for stands: its session, and its very turn where one is known."""

    questions: int = 0
    empty: int = 0
    sessions: dict[int, int] = field(default_factory=lambda: dict.fromkeys(DEPTHS, 0))
    turns: dict[int, int] = field(default_factory=lambda: dict.fromkeys(DEPTHS, 0))
    with_turns: int = 0
    recalled: float = 0.0  # the share of the wanted turns among the first twenty, summed up

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
        }


def percent(part: float, whole: int) -> float:
    """A share in percent, to one decimal."""
    return round(100 * part / whole, 1) if whole else 0.0


_LETTERS = re.compile(r"[^\W\d_]{3,24}")
_UNSPACED = re.compile("[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]{4,}")
_KEPT = 20_000  # messages that words are counted in and questions are drawn from
_ASKED_ABOUT = 3
ROLES = ("user", "assistant")
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
            if stored.role in ROLES and isinstance(text, str) and not stored.damaged:
                yield stored.id, session.id, text


def common_words(drawn: list[tuple[int, str, str]]) -> frozenset[str]:
    counts: Counter[str] = Counter()
    for _, _, text in drawn:
        counts.update(set(_LETTERS.findall(text.lower())))
    most = max(2.0, _COMMON * len(drawn))
    return frozenset(word for word, count in counts.items() if count > most)


def _question(text: str, common: frozenset[str], chance: random.Random) -> str | None:
    """Telling words of a message as a question; None when it has too few of them."""
    runs = _UNSPACED.findall(text)
    if runs:
        run_ = chance.choice(runs)
        start = chance.randrange(len(run_) - 3)
        return f"{run_[start : start + 6]}?"
    words = [word for word in dict.fromkeys(_LETTERS.findall(text.lower())) if word not in common | STOP_WORDS]
    if len(words) < _ASKED_ABOUT:
        return None
    first, second, third = chance.sample(words, _ASKED_ABOUT)
    return f"What did we say about {first}, {second} and {third}?"


ARMS = ("without", "memory", "stale", "elsewhere")
_WORD = re.compile(r"[^\W_][\w.:/@-]*[^\W_]")
_QUESTION = re.compile(r"[^.!?\n]{12,240}\?")
_FOLDED = re.compile(r"\[until [^\]]*\]")  # what a search shows in place of a superseded sentence
# An evidence shares at least two words and half of the question's; up to three words make up the answer.
_FEWEST_WORDS, _SHARED, _ANSWER_WORDS = 2, 0.5, 3
_MOST_MESSAGES = 20_000  # the newest; all of them are in memory
_SYSTEM = "Answer the question in one short sentence. If you cannot know the answer, say that you do not know."
# Questions that nobody's memory should be able to answer.
_ELSEWHERE = (
    "Which enzyme unwinds the double helix before replication?",
    "In which year did the Hanseatic League hold its last diet?",
    "What is the boiling point of liquid argon?",
    "Who composed the opera about the flying Dutchman?",
    "How many moons does the planet Uranus have?",
    "Which glacier feeds the river Rhone?",
    "What is the tensile strength of spider silk?",
    "Which dynasty built the terracotta army?",
    "How is the eigenvalue of a rotation matrix found?",
    "Which treaty ended the Thirty Years' War?",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question of the person: its time, the words of its answer, and the message with the evidence."""

    text: str
    asked_at: float
    answer: tuple[str, ...]
    evidence: int
    evidence_at: float


@dataclass(frozen=True, slots=True)
class _Said:
    id: int
    session: int
    at: float
    role: str
    text: str
    words: frozenset[str]


def run_self(
    db: SessionDB,
    *,
    limit: int = 50,
    seed: int = 0,
    model: tuple[str, Ask, Mapping[str, Any]] | None = None,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> dict[str, Any]:
    """Measures hits, harm, tokens and cost of each arm, for `limit` questions drawn with `seed`.

    `model` is its name, a function that asks it, and the person's own prices; without it, a hit means that memory shows
    the words of the answer.
    """
    found = list(questions(db))
    if not found:
        raise NotFound(
            "no question of yours was answered in an earlier conversation; `hermes sessions import` adds more"
        )
    chosen = random.Random(seed).sample(found, min(limit, len(found)))  # noqa: S311 - reproducible, not secret
    elsewhere = [Question(text=each, asked_at=0, answer=(), evidence=0, evidence_at=0) for each in _ELSEWHERE]
    search = SessionSearch(db)
    asked = {arm: elsewhere if arm == "elsewhere" else chosen for arm in ARMS}
    total, done = sum(map(len, asked.values())), 0
    right: dict[str, list[bool]] = defaultdict(list)
    figures: dict[str, Any] = {}
    for arm in ARMS:
        tally = {"questions": len(asked[arm]), "hits": 0, "misled": 0, "tokens": 0}
        cost: float | None = 0.0
        for question in asked[arm]:
            shown, weak = _shown(search, question, arm)
            hit = _holds(_FOLDED.sub("", shown), question)
            tally["tokens"] += estimate(shown)
            if model is not None:
                name, ask, prices = model
                text = f"{shown}\n\n{question.text}" if shown else question.text
                reply = ask(_SYSTEM, text)
                hit = _holds(reply, question)
                used = Usage(input_tokens=estimate(_SYSTEM) + estimate(text), output_tokens=estimate(reply))
                price = cost_of(name, used, own=prices)
                cost = None if cost is None or price is None else cost + price
            right[arm].append(hit)
            tally["hits"] += hit
            tally["misled"] += bool(shown) and not hit and not weak
            done += 1
            progress(done, total)
        tally["tokens"] = round(tally["tokens"] / max(1, tally["questions"]))
        figures[arm] = {**tally, "hit_share": percent(tally["hits"], tally["questions"])}
        if model is not None:
            figures[arm]["cost_usd"] = None if cost is None else round(cost, 4)
    figures["harm"] = sum(bare and not with_it for bare, with_it in zip(right["without"], right["memory"], strict=True))
    return {**figures, "found_questions": len(found), "how": how(model[0] if model else "")}


def how(model: str) -> dict[str, str]:
    """How each figure was obtained."""
    judged = (
        f"the answer of {model} holds the answer's words" if model else "what memory shows holds the answer's words"
    )
    return {
        "questions": "your questions whose reply has words of an earlier conversation that the question does not have",
        "hits": judged,
        "misled": "memory showed something, did not call it weak, and it was not a hit",
        "tokens": "what memory adds to a question, estimated, on average",
        "cost_usd": f"list prices of {model} for all questions of an arm, by estimated tokens" if model else "no model",
        "harm": "questions that are right without memory and wrong with it",
        "without": "nothing but the question",
        "memory": "with what session_search shows of what was said before the question",
        "stale": "the same, as if memory had stopped just before the answer was said",
        "elsewhere": "questions about other things, which memory should call weak or leave alone",
    }


def questions(db: SessionDB) -> Iterator[Question]:
    """Yields questions of the person with evidence in an earlier conversation, oldest first.

    Goes through the messages in order and adds each to the index only afterwards, so that evidence is always older.
    """
    said = list(_said(db))[-_MOST_MESSAGES:]
    common = common_words([(each.id, "", each.text) for each in said])
    holding: dict[str, list[_Said]] = defaultdict(list)
    for place, each in enumerate(said):
        reply = next((after for after in said[place + 1 : place + 3] if after.role == "assistant"), None)
        if each.role == "user" and reply is not None and reply.session == each.session:
            for text in dict.fromkeys(_QUESTION.findall(each.text)):
                asked = _telling(text, common)
                answers = _telling(reply.text, common) - asked
                if len(asked) >= _FEWEST_WORDS and (best := _evidence(each, asked, answers, holding)):
                    known = sorted(answers & best.words, key=lambda word: (len(holding[word]), word))
                    yield Question(
                        text=text.strip(),
                        asked_at=each.at,
                        answer=tuple(known[:_ANSWER_WORDS]),
                        evidence=best.id,
                        evidence_at=best.at,
                    )
        for word in each.words - common:
            holding[word].append(each)


def _evidence(
    question: _Said, asked: frozenset[str], answers: frozenset[str], holding: Mapping[str, list[_Said]]
) -> _Said | None:
    """The newest message of an earlier conversation with half the words of the question and one of the answer."""
    shared: dict[int, int] = defaultdict(int)
    by_id: dict[int, _Said] = {}
    for word in asked:
        for each in holding.get(word, ()):
            if each.session != question.session and not each.text.rstrip().endswith("?"):
                shared[each.id] += 1
                by_id[each.id] = each
    enough = max(_FEWEST_WORDS, _SHARED * len(asked))
    fitting = [by_id[key] for key, count in shared.items() if count >= enough and answers & by_id[key].words]
    return max(fitting, key=lambda each: (each.at, each.id), default=None)


def _said(db: SessionDB) -> Iterator[_Said]:
    pages = Pages.of_db(db)
    for session in sorted(pages.sessions(), key=lambda each: each.started_at):
        for stored in pages.messages(session):
            if stored.role in ("user", "assistant") and not stored.damaged and stored.text:
                words = frozenset(map(str.lower, _WORD.findall(stored.text)))
                yield _Said(stored.id, session.key, stored.timestamp, stored.role, stored.text, words)


def _telling(text: str, common: frozenset[str]) -> frozenset[str]:
    return frozenset(map(str.lower, _WORD.findall(text))) - common - STOP_WORDS


def _shown(search: SessionSearch, question: Question, arm: str) -> tuple[str, bool]:
    """What memory shows a model in this arm, and whether it calls its own results weak."""
    if arm == "without":
        return "", False
    until = {"memory": question.asked_at - 1, "stale": question.evidence_at - 1}.get(arm)
    answer = search.discover(question.text, Criteria(limit=5, until=until))
    return "\n".join(result["messages"] for result in answer["results"]), bool(answer.get("weak"))


def _holds(text: str, question: Question) -> bool:
    words = frozenset(map(str.lower, _WORD.findall(text)))
    return bool(question.answer) and words.issuperset(question.answer)


def bars(figures: Mapping[str, Any], width: int = 30) -> Iterator[str]:
    """The shares of hits as a bar chart for the terminal."""
    for arm in ARMS:
        share = figures[arm]["hit_share"]
        bar = "█" * round(share * width / 100)
        yield f"{arm:<10} {bar:<{width}} {share:5.1f} % hits, {figures[arm]['misled']} misled"


def shares(figures: Mapping[str, Any]) -> dict[str, Any]:
    """What a chart shows: hits and misleading results of each arm, in percent of its questions."""
    misled = {arm: percent(figures[arm]["misled"], figures[arm]["questions"]) for arm in ARMS}
    return {"hits_percent": {arm: figures[arm]["hit_share"] for arm in ARMS}, "misled_percent": misled}


def lines(figures: Mapping[str, Any]) -> Sequence[str]:
    """The figures for a person: the chart, then what was counted and how."""
    told = [*bars(figures), ""]
    for arm in ARMS:
        tally = figures[arm]
        cost = f", ${tally['cost_usd']}" if tally.get("cost_usd") is not None else ""
        told.append(f"{arm:<10} {tally['hits']} of {tally['questions']}, {tally['tokens']} tokens a question{cost}")
    told.append(f"harm       {figures['harm']}")
    return [*told, "", *(f"{name:<10} {text}" for name, text in figures["how"].items())]
