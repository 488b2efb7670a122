"""Reads the small linear models that `bin/train-rules` makes: a table with one byte per hash of a piece of evidence.

A model is two files: `NAME.bin` holds the table, `NAME.json` its numbers and what the training reports.
"""

from __future__ import annotations

import json
import os
import zlib
from array import array
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

PLACES = 1 << 15  # of a table, unless the model says otherwise: the place of a piece is its hash
SMOOTHING = 3


@cache
def numbers(folder: str, name: str) -> Mapping[str, Any]:
    """Loads the JSON half of a model once per process."""
    with open(os.path.join(folder, f"{name}.json"), encoding="utf-8") as file:
        found: dict[str, Any] = json.load(file)
    return found


@cache
def _table(folder: str, name: str) -> array[int]:
    with open(os.path.join(folder, f"{name}.bin"), "rb") as file:
        return array("b", file.read())


def places(pieces: Iterable[str], size: int = PLACES) -> set[int]:
    """Returns the places of the table that these pieces of evidence hash to."""
    return {zlib.crc32(piece.encode("utf-8", "surrogatepass")) % size for piece in pieces}


def score(folder: str, name: str, at: Collection[int]) -> float:
    """Adds up the weights of these places, divided by the root of their number so that long texts do not score more."""
    known, table = numbers(folder, name)["table"], _table(folder, name)
    total = sum(table[place] for place in at) * known["step"] / (len(at) + SMOOTHING) ** 0.5
    return float(total + known["bias"])
