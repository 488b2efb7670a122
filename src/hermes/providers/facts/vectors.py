"""Holographic vectors: a fact as one string of phases from which the presence of each of its parts can be read.

A phase takes one byte, so a vector is `bytes` and the arithmetic is table look-ups: fast enough without a numeric
library, and a fact's vector takes 1 KB instead of 8. Vectors only order what exact joins have found.
"""

from __future__ import annotations

import hashlib
import math
import operator
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

DIMENSIONS = 1024
_STEPS = 256
# A difference of two phases lies between -255 and 255; a negative index counts from the end, which is the same angle.
_COSINE = tuple(math.cos(2 * math.pi * step / _STEPS) for step in range(_STEPS))
_SINE = tuple(math.sin(2 * math.pi * step / _STEPS) for step in range(_STEPS))
_PER_RADIAN = _STEPS / (2 * math.pi)
_CONTENT = "role content"
_ENTITY = "role entity"


@lru_cache(maxsize=4096)
def atom(word: str, dimensions: int = DIMENSIONS) -> bytes:
    """The same phases for the same word, and unrelated ones for any other."""
    return hashlib.shake_256(word.encode("utf-8", "replace")).digest(dimensions)


def bind(one: bytes, other: bytes) -> bytes:
    return bytes(phase & 255 for phase in map(operator.add, one, other))


def bundle(vectors: Sequence[bytes]) -> bytes:
    """One vector that is similar to each of the given."""
    if len(vectors) == 1:
        return vectors[0]
    across = [sum(map(_COSINE.__getitem__, phases)) for phases in zip(*vectors, strict=True)]
    upward = [sum(map(_SINE.__getitem__, phases)) for phases in zip(*vectors, strict=True)]
    return bytes(round(angle * _PER_RADIAN) & 255 for angle in map(math.atan2, upward, across))


def similarity(one: bytes, other: bytes) -> float:
    """1 for the same vector, about 0 for unrelated ones."""
    return sum(map(_COSINE.__getitem__, map(operator.sub, one, other))) / len(one)


def fact_vector(words: Iterable[str], entities: Iterable[str], dimensions: int = DIMENSIONS) -> bytes:
    """What a fact says and whom it names, each bound to its role, so that both can be asked for."""
    return bundle([text_vector(words, dimensions), *(entity_vector(each, dimensions) for each in entities)])


def text_vector(words: Iterable[str], dimensions: int = DIMENSIONS) -> bytes:
    atoms = [atom(word, dimensions) for word in dict.fromkeys(words)] or [atom("", dimensions)]
    return bind(bundle(atoms), atom(_CONTENT, dimensions))


def entity_vector(key: str, dimensions: int = DIMENSIONS) -> bytes:
    return bind(atom(key, dimensions), atom(_ENTITY, dimensions))
