"""Generated queries against a store whose words are known: none may fail, and one that holds a stored word finds it.

`run(seed, queries)` is deterministic; the suite runs a few thousand, a soak runs a million.
"""

from __future__ import annotations

import os
import random
import string
import tempfile
from typing import TYPE_CHECKING, Any

from hermes.conversations.database import SessionDB

if TYPE_CHECKING:
    from collections.abc import Callable

_STORED = (
    "deploy", "kubernetes", "auth_refactor_v2", "getUserName", "café", "naïve", "Straße", "Привет", "мир", "שלום",
    "مرحبا", "नमस्ते", "桂林山水", "東京タワー", "안녕하세요", "ภาษาไทย", "ພາສາລາວ", "ភាសាខ្មែរ", "မြန်မာစာ", "x",
    "7", "2024-05-03", "don't", "C++", "node.js", "user@example.org",
    "/etc/passwd", "\uff26\uff35\uff2c\uff2c", "ﬁne", "e\u0301tude",
)  # fmt: skip
_PUNCTUATION = string.punctuation + "“”«»。、…—·€£\u2018\u2019\uff01\uff1f\uff1b\uff1a\u2013\u00d7"
_OPERATORS = ("AND", "OR", "NOT", "(", ")", '"', "*", "NEAR", "NEAR/3", "^", ":", "+", "-", "{", "}")
_NOISE = ("qqzzx", "the", "what", "did", "we", "\x00", "\ud800", "\u200b", "🎉", "\n", "\t", "' OR 1=1 --", "%", "\\")


def run(seed: int = 1, queries: int = 2000, *, folder: str | None = None) -> dict[str, Any]:
    """Counts of queries, of those that held a stored word, and every failure as (kind, query)."""
    picker = random.Random(seed)  # noqa: S311 - reproducible, not secret
    failures: list[tuple[str, str]] = []
    held = 0
    with (
        tempfile.TemporaryDirectory(prefix="hermes-fuzz-", dir=folder) as place,
        SessionDB.open(os.path.join(place, "state.db"), durability="turn") as db,
    ):
        ids = _fill(db)
        for number in range(queries):
            query, word = _query(picker, number)
            found = _ask(db, query, failures)
            if word is not None and found is not None:
                held += 1
                if ids[word] not in found:
                    failures.append(("a stored word was not found", query))
    return {"queries": queries, "held_a_stored_word": held, "failures": failures}


def _fill(db: SessionDB) -> dict[str, int]:
    session = db.create_session(source="bench")
    return {word: db.append(session, {"role": "user", "content": f"here stands {word} alone"}) for word in _STORED}


def _ask(db: SessionDB, query: str, failures: list[tuple[str, str]]) -> set[int] | None:
    try:
        return {hit.message_id for hit in db.search(query, limit=len(_STORED) + 10)}
    except Exception as error:  # noqa: BLE001 - any error at all is what this looks for
        failures.append((f"{type(error).__name__}: {error}", query))
        return None


def _query(picker: random.Random, number: int) -> tuple[str, str | None]:
    """A query, and the stored word it must find (None when its syntax may rightly exclude it)."""
    makers: tuple[Callable[[random.Random], tuple[str, str | None]], ...] = (
        _punctuated, _soup, _operators, _sentence, _every_mark, _random_text,
    )  # fmt: skip
    return makers[number % len(makers)](picker)


def _punctuated(picker: random.Random) -> tuple[str, str]:
    word = picker.choice(_STORED)
    marks = "".join(picker.choices(_PUNCTUATION, k=3))
    around = (f"{marks} {word}", f"{word} {marks}", f"{marks} {word} {marks}", f"({word})", f"«{word}»")
    return picker.choice(around), word


def _soup(picker: random.Random) -> tuple[str, str | None]:
    parts = picker.choices((*_STORED, *_NOISE, *_OPERATORS, *_PUNCTUATION), k=picker.randint(1, 12))
    return " ".join(parts), None


def _operators(picker: random.Random) -> tuple[str, str | None]:
    return "".join(picker.choices((*_OPERATORS, " ", *_STORED), k=picker.randint(1, 14))), None


def _sentence(picker: random.Random) -> tuple[str, str]:
    # Glue words are looked up only when a query holds nothing else, so a sentence need not find "don't".
    word = picker.choice([word for word in _STORED if word != "don't"])
    rest = picker.choice(("qqzzx", "the plan", "and why")) + picker.choice("?!.…")
    return f"What did we say about {word}, {rest}", word


def _every_mark(picker: random.Random) -> tuple[str, str]:
    word = picker.choice([word for word in _STORED if word.isalpha()])
    mark = picker.choice(_PUNCTUATION)
    around = (f"{mark}{word}", f"{word}{mark}", f"{mark} {word}", f"{word} {mark}", f"{mark}{word}{mark}")
    return picker.choice(around), word


def _random_text(picker: random.Random) -> tuple[str, None]:
    reaches = [picker.choice((128, 0x3000, 0x11000)) for _ in range(picker.randint(0, 30))]
    return "".join(chr(picker.randrange(reach)) for reach in reaches), None
