"""Recall on the user's own history: questions made from their transcripts without a model, asked as a person would.

A message is drawn, three of its telling words become a question, and the question must bring the message or its
session back. That is easier than a question somebody thinks up, and it is about the user's own words, languages and
habits; the figures say how well those are found, not how a public benchmark would come out.
"""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from hermes.bench.recall import LIMIT, Tally
from hermes.storage import english
from hermes.storage.pages import Pages
from hermes.vocabulary.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hermes.storage.sessions import SessionDB

_WORD = re.compile(r"[^\W\d_]{3,24}")
_UNSPACED = re.compile("[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]{4,}")
_KEPT = 20_000  # messages that words are counted in and questions are drawn from
_ASKED_ABOUT = 3
_ROLES = ("user", "assistant")
_COMMON = 0.05  # a word in more messages than this tells nothing


def run(db: SessionDB, *, questions: int = 200, seed: int = 0) -> dict[str, Any]:
    """hit@k for sessions and messages over questions drawn from what is stored."""
    chance = random.Random(seed)  # noqa: S311 - reproducible, not secret
    drawn = _sample(db, chance)
    if len(drawn) < _ASKED_ABOUT:
        raise NotFound("there are too few conversations to ask about; `hermes sessions import` brings some in")
    common = _common_words(drawn)
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
    for number, said in enumerate(_spoken(db)):
        if len(kept) < _KEPT:
            kept.append(said)
        elif (place := chance.randrange(number + 1)) < _KEPT:
            kept[place] = said
    return kept


def _spoken(db: SessionDB) -> Iterator[tuple[int, str, str]]:
    pages = Pages.of_db(db)
    for session in pages.sessions():
        for stored in pages.messages(session):
            text = stored.message.get("content")
            if stored.role in _ROLES and isinstance(text, str) and not stored.damaged:
                yield stored.id, session.id, text


def _common_words(drawn: list[tuple[int, str, str]]) -> frozenset[str]:
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
