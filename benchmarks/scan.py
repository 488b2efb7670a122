"""Measures the threat scanner: processor time by kind of text, and for hostile texts of 65,536 characters."""

from __future__ import annotations

import glob
import importlib.metadata
import json
import os
import random
import time

from benchmarks.hostile_texts import HOSTILE
from benchmarks.hostile_words import LONG
from hermes.safety.scanner import scan

ENTRY = 2_200
_TEXTS = 100  # of each kind
_ROOT = os.path.dirname(os.path.dirname(__file__))
_SENTENCE = (
    "the project uses a queue for background work and every worker writes its result to the database before it asks for"
    " the next job so that a restart never loses anything users see the status page on port while reports are sent by"
    " mail on monday morning to the team which reviews open issues and plans the release with tests docs and notes"
)


def run(seed: int = 0) -> dict[str, object]:
    """Processor milliseconds: `p50_ms` and `p99_ms` at 2,200 characters by kind, the worst of hostile texts."""
    chance = random.Random(seed)  # noqa: S311 - reproducible texts, no secrets
    scan("warm up: load the tables once")
    kinds = {name: make(chance) for name, make in _KINDS.items()}
    first = {name: _percentiles([_cpu_ms(text) for text in texts]) for name, texts in kinds.items()}
    again = {name: _percentiles([min(_cpu_ms(text), _cpu_ms(text)) for text in texts]) for name, texts in kinds.items()}
    hostile = {name: round(_slowest_ms([make(chance) for _ in range(2)]), 2) for name, make in HOSTILE.items()}
    prose = _prose(chance, LONG)
    return {
        "characters": ENTRY,
        "p50_ms": {name: each[0] for name, each in again.items()},
        "p99_ms": {name: each[1] for name, each in again.items()},
        "p99_first_pass_ms": {name: each[1] for name, each in first.items()},
        "p99_to_prose": {name: round(each[1] / again["prose"][1], 2) for name, each in again.items()},
        "hostile_characters": LONG,
        "hostile_ms": hostile,
        "worst_ms": max(hostile.values()),
        "worst_growth": max(_growth(make(chance)) for make in HOSTILE.values()),
        "mb_per_s": round(LONG / 1e6 / (_cpu_ms(prose) / 1e3), 2),
    }


def _percentiles(times: list[float]) -> tuple[float, float]:
    ordered = sorted(times)
    return round(ordered[len(ordered) // 2], 3), round(ordered[int(len(ordered) * 0.99)], 3)


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


def _manual(chance: random.Random) -> list[str]:
    """English prose as people write it: Python's manual."""
    from pydoc_data.topics import topics

    return _cut("\n".join(topics[name] for name in sorted(topics)), chance)


def _markdown(chance: random.Random) -> list[str]:
    listed = sorted(importlib.metadata.distributions(), key=lambda each: each.metadata["Name"].lower())
    return _cut("\n".join(str(each.metadata.json.get("description", "")) for each in listed), chance)


def _code(chance: random.Random) -> list[str]:
    texts = []
    for path in sorted(glob.glob(os.path.join(_ROOT, "src", "hermes", "*", "*.py"))):
        with open(path, encoding="utf-8") as file:
            texts.append(file.read())
    return _cut("\n".join(texts), chance)


def _notes(chance: random.Random) -> list[str]:
    """Notes in many languages and scripts, one per line."""
    with open(os.path.join(_ROOT, "tests", "data", "safety", "harmless.jsonl"), encoding="utf-8") as file:
        notes = [json.loads(line)["text"] for line in file]
    return _cut("\n".join(chance.choices(notes, k=4_000)), chance)


def _cut(text: str, chance: random.Random) -> list[str]:
    return [text[at : at + ENTRY] for at in (chance.randrange(len(text) - ENTRY) for _ in range(_TEXTS))]


_KINDS = {
    "repeated words": lambda chance: [_prose(chance, ENTRY) for _ in range(_TEXTS)],
    "prose": _manual,
    "markdown": _markdown,
    "notes": _notes,
    "code": _code,
}
