"""Time of the secret finder on a plain sentence and on hostile texts of 65,536 characters.

python -c 'from hermes.bench.secrets import run; print(run())'
"""

from __future__ import annotations

import time

from hermes.safety.secrets import find_secrets

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


def run(repeats: int = 3) -> dict[str, object]:
    """CPU time per call: microseconds for the sentence, milliseconds for each hostile text, best of `repeats`."""
    hostile = {unit: (unit * LENGTH)[:LENGTH] for unit in HOSTILE}
    return {
        "sentence \u00b5s": round(min(_seconds(SENTENCE, 1000) for _ in range(repeats)) * 1e6, 1),
        "hostile ms": {
            unit: round(min(_seconds(text) for _ in range(repeats)) * 1e3, 1) for unit, text in hostile.items()
        },
    }


def _seconds(text: str, calls: int = 1) -> float:
    began = time.process_time()
    for _ in range(calls):
        find_secrets(text)
    return (time.process_time() - began) / calls
