"""Two linear models of rules: whether a sentence states one, and whether one applies to a call.

`bin/train-rules` makes the weights: a table of one byte for each hashed piece of wording, and a few numbers with names
for what a rule and a call have in common.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from array import array
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDER = os.path.join(os.path.dirname(__file__), "data")
PLACES = 1 << 15  # of the table of weights: the place of a piece of wording is its hash
SMOOTHING = 3
_TOKEN = re.compile(r"[^\W_]+(?:'[^\W_]+)*|\S")
_ENDINGS = ("ing", "ed", "ly", "tion", "s")
_LONG = 4  # letters of a word whose beginning counts too


@cache
def numbers() -> Mapping[str, Any]:
    """`rules.json`: the thresholds, the named weights, and what the training reports."""
    with open(os.path.join(FOLDER, "rules.json"), encoding="utf-8") as file:
        found: dict[str, Any] = json.load(file)
    return found


@cache
def _table() -> array[int]:
    with open(os.path.join(FOLDER, "rules.bin"), "rb") as file:
        return array("b", file.read())


def states_rule(sentence: str) -> bool:
    """Whether a sentence of the person is meant to last."""
    places = wording(sentence)
    known, table = numbers()["recognised"], _table()
    total = sum(table[place] for place in places) * known["step"] / (len(places) + SMOOTHING) ** 0.5
    return bool(total + known["bias"] > known["threshold"])


def applies(evidence: Mapping[str, float]) -> bool:
    """Whether what a rule and a call have in common is enough."""
    known = numbers()["fired"]
    weights = known["weights"]
    return bool(sum(each * weights.get(name, 0.0) for name, each in evidence.items() if each) + known["bias"] > 0)


def wording(sentence: str) -> set[int]:
    """The places of the pieces of a sentence: its words, and runs of them with and without what they are about."""
    tokens = [token.lower() for token in _TOKEN.findall(sentence.replace("\u2019", "'"))]
    words = ["^", *("0" if token.isdigit() else token for token in tokens), "$"]
    glue = numbers()["glue"]
    shapes = [word if word in glue or not word[0].isalpha() else _shape(word) for word in words]
    pieces = {f"length {min(len(tokens) // 4, 6)}", *words}
    pieces |= {f"begins {word[:5]}" for word in words if len(word) > _LONG and word.isalpha()}
    pieces |= {f"{one} {other}" for one, other in pairwise(words)}
    pieces |= {f"{one} _ {other}" for one, other in zip(words, words[2:], strict=False)}
    pieces |= {" ".join(each) for each in zip(words, words[1:], words[2:], strict=False)}
    for size in (2, 3, 4):
        pieces |= {f"shape {' '.join(shapes[at : at + size])}" for at in range(len(shapes) - size + 1)}
    for size in (2, 3, 4):
        pieces |= {f"first {' '.join(words[:size])}", f"first shape {' '.join(shapes[: size + 1])}"}
    return {zlib.crc32(piece.encode("utf-8", "surrogatepass")) % PLACES for piece in pieces}


def _shape(word: str) -> str:
    """What kind of word it is, by its ending."""
    return next((f"~{end}" for end in _ENDINGS if word.endswith(end) and len(word) > len(end) + 2), "~")
