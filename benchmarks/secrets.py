"""Time of the secret finder on a plain sentence, on hostile texts of 65,536 characters, and on many texts at once.

python -c 'from benchmarks.secrets import run; print(run())'
"""

from __future__ import annotations

import os
import random
import time
from functools import partial

import hermes
from benchmarks.compaction import made_up_session
from benchmarks.measure import best_cpu
from hermes.safety.secrets import find_secrets, mask_all

SENTENCE = "We deploy every Tuesday from the main branch and the office is closed on Fridays."
HOSTILE = (
    *(
        "password ",
        "key=",
        'password="',
        "sk-",
        "http://a:",
        "seed abandon ability ",
        "-----BEGIN RSA PRIVATE KEY-----",
    ),
    *("4111 1111 1111 111 ", "DE89 ", "a1B2c3", "authorization: ", "curl -u ", "token 9f3aB7c2D4e5F6a7b8C9d0E1 "),
)
LENGTH = 65_536
PIECE, PIECES = 500, 1_000


def run(repeats: int = 3) -> dict[str, object]:
    """CPU time per call: microseconds for the sentence, milliseconds for each hostile text, best of `repeats`."""
    hostile = {unit: (unit * LENGTH)[:LENGTH] for unit in HOSTILE}
    return {
        "sentence \u00b5s": round(min(_seconds(SENTENCE, 1000) for _ in range(repeats)) * 1e6, 1),
        "hostile ms": {
            unit: round(min(_seconds(text) for _ in range(repeats)) * 1e3, 1) for unit, text in hostile.items()
        },
        "many texts ms": {
            name: {"texts": len(texts), "time": round(best_cpu(partial(mask_all, texts), repeats) * 1e3, 1)}
            for name, texts in (("conversation", _conversation()), ("source code", _source()))
        },
    }


def _conversation() -> list[str]:
    """What a compaction masks for a helper: the messages of a made-up session, and the arguments of its calls."""
    messages = made_up_session(random.Random(0), 250)  # noqa: S311 - made-up texts
    calls = [call["function"]["arguments"] for message in messages for call in message.get("tool_calls", ())]
    return [*(message["content"] for message in messages), *calls]


def _source() -> list[str]:
    """Our own source code, which speaks of keys and tokens more than most."""
    whole = []
    for folder, _, names in sorted(os.walk(os.path.dirname(hermes.__file__))):
        for name in sorted(name for name in names if name.endswith(".py")):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                whole.append(file.read())
    text = "".join(whole)
    return [text[at : at + PIECE] for at in range(0, len(text), len(text) // PIECES)][:PIECES]


def _seconds(text: str, calls: int = 1) -> float:
    began = time.process_time()
    for _ in range(calls):
        find_secrets(text)
    return (time.process_time() - began) / calls
