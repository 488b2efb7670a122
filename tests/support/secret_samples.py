"""Builds sample secrets and harmless look-alikes from templates, so that nothing like a real key lies in the tree.

`{word:36}` becomes 36 random letters and digits; `hex`, `upper`, `digits`, `lower`, `url`, `b64` (that many bytes) and
`uuid` likewise.
"""

from __future__ import annotations

import base64
import json
import os
import re
import string
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

FILE = os.path.join(os.path.dirname(os.path.dirname(__file__)), "data", "safety", "secrets.jsonl")

_ALPHABETS = {
    "word": string.ascii_letters + string.digits,
    "hex": "0123456789abcdef",
    "upper": string.ascii_uppercase + string.digits,
    "digits": string.digits,
    "lower": string.ascii_lowercase + string.digits,
    "url": string.ascii_letters + string.digits + "_-",
}
_PLACE = re.compile(r"\{(word|hex|upper|digits|lower|url|b64|uuid)(?::(\d+))?\}")


def samples(label: str) -> list[str]:
    with open(FILE, encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    return [record["template"] for record in records if record["label"] == label]


def filled(template: str, random_: random.Random) -> str:
    return _PLACE.sub(lambda place: _drawn(place[1], int(place[2] or 0), random_), template)


def _drawn(kind: str, count: int, random_: random.Random) -> str:
    if kind == "uuid":
        return "-".join(_drawn("hex", length, random_) for length in (8, 4, 4, 4, 12))
    if kind == "b64":
        return base64.b64encode(random_.randbytes(count)).decode()
    return "".join(random_.choice(_ALPHABETS[kind]) for _ in range(count))
