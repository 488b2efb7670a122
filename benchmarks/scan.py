"""Measures the threat scanner: processor time for an ordinary entry, and for hostile texts of 65,536 characters."""

from __future__ import annotations

import random
import time

from benchmarks.hostile_texts import HOSTILE
from benchmarks.hostile_words import LONG
from hermes.safety.scanner import scan

ENTRY = 2_200
_SENTENCE = (
    "the project uses a queue for background work and every worker writes its result to the database before it asks for"
    " the next job so that a restart never loses anything users see the status page on port while reports are sent by"
    " mail on monday morning to the team which reviews open issues and plans the release with tests docs and notes"
)


def run(seed: int = 0) -> dict[str, object]:
    """Processor milliseconds: `p50_ms` and `p99_ms` at 2,200 characters, the worst of hostile texts."""
    chance = random.Random(seed)  # noqa: S311 - reproducible texts, no secrets
    scan("warm up: load the tables once")
    entries = [_prose(chance, ENTRY) for _ in range(200)]
    first = sorted(_cpu_ms(entry) for entry in entries)  # a rule is compiled when it first applies
    times = sorted(_cpu_ms(entry) for entry in entries)
    hostile = {name: round(_slowest_ms([make(chance) for _ in range(3)]), 2) for name, make in HOSTILE.items()}
    prose = _prose(chance, LONG)
    return {
        "characters": ENTRY,
        "p50_ms": round(times[len(times) // 2], 3),
        "p99_ms": round(times[int(len(times) * 0.99)], 3),
        "p99_first_pass_ms": round(first[int(len(first) * 0.99)], 3),
        "hostile_characters": LONG,
        "hostile_ms": hostile,
        "worst_ms": max(hostile.values()),
        "worst_growth": max(_growth(make(chance)) for make in HOSTILE.values()),
        "mb_per_s": round(LONG / 1e6 / (_cpu_ms(prose) / 1e3), 2),
    }


def _slowest_ms(texts: list[str]) -> float:
    """Of the slowest text, because another of its kind may be refused at its beginning; the better of two runs."""
    return max(min(_cpu_ms(text), _cpu_ms(text)) for text in texts)


def _growth(text: str) -> float:
    """How much longer four times the text takes: about 4 when the work is linear, 16 when it is quadratic."""
    quarter = text[: len(text) // 4]
    return round(min(_cpu_ms(text) / max(_cpu_ms(quarter), 0.1) for _ in range(3)), 1)


def _cpu_ms(text: str) -> float:
    start = time.process_time()
    scan(text)
    return (time.process_time() - start) * 1e3


def _prose(chance: random.Random, length: int) -> str:
    known = _SENTENCE.split()
    words: list[str] = []
    size = 0
    while size < length:
        word = chance.choice(known) + (". " if chance.random() < 0.08 else " ")  # noqa: PLR2004 - a sentence has a dozen words
        words.append(word)
        size += len(word)
    return "".join(words)[:length]
