"""Turns text into vectors of its meaning: an `Embedding`, and the one that comes with the extra `semantic`.

The extra's package is used for its data only (a table of word vectors and a tokenizer): no network, no model to run.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from hermes.vocabulary.errors import ExtraMissing
from hermes.vocabulary.extras import command

if TYPE_CHECKING:
    from collections.abc import Callable

    # Asked at the first search and not before: whoever only lists conversations need not read the settings.
    Find = Callable[[], "Embedding | None"]

PACKAGE = "wordllama"
INSTALL = f"{command('semantic')} brings it, or set recall.semantic to off"
_WEIGHTS = os.path.join("weights", "l2_supercat_256.safetensors")
_TOKENIZER = os.path.join("tokenizers", "l2_supercat_tokenizer_config.json")
_DIMENSIONS = 256
_LARGEST_HEADER = 1 << 20
_WORDS_KEPT = 30_000
_MANY = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedding:
    """A function from texts to rows of numbers, one per text; a row of zeros says that it cannot tell the meaning.

    `name` stands for everything that decides the numbers: vectors made under another name are made again. `related` is
    the cosine from which on two texts have something to do with each other.
    """

    name: str
    dimensions: int
    embed: Callable[[list[str]], Any]
    related: float = 0.25


def static_vectors(setting: str = "auto") -> Embedding | None:
    """The extra's embedding: "auto" gives None where it is not installed, "on" says so at the first search."""
    if setting == "off" or (setting == "auto" and find_spec(PACKAGE) is None):
        return None
    return Embedding(name=f"{PACKAGE} l2_supercat by words", dimensions=_DIMENSIONS, embed=_embed, related=0.2)


def _embed(texts: list[str]) -> Any:
    return _loaded().embed(texts)


@cache
def _loaded() -> _StaticVectors:
    return _StaticVectors(_folder())


def _folder() -> str:
    """Where the package lies; it is not imported, because that would load an HTTP client and much else."""
    found = find_spec(PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise ExtraMissing(f"searching by meaning needs the package {PACKAGE}, which is not installed: {INSTALL}")
    return next(iter(found.submodule_search_locations))


class _StaticVectors:
    """One vector per token, averaged: cheap enough to be made for every message."""

    def __init__(self, folder: str) -> None:
        try:
            import numpy as np
            from tokenizers import Tokenizer

            self._numpy = np
            self._table = _mapped(os.path.join(folder, _WEIGHTS))
            with open(os.path.join(folder, _TOKENIZER), encoding="utf-8") as file:
                self._tokenizer = Tokenizer.from_str(file.read())
        except (ImportError, OSError, ValueError, KeyError) as error:
            raise ExtraMissing(f"the vectors of {PACKAGE} cannot be loaded ({error}): {INSTALL}") from error
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        # A few thousand words make up most of what people write; looking them up takes a tenth of splitting them again.
        self._tokens = lru_cache(maxsize=_WORDS_KEPT)(self._split)

    def embed(self, texts: list[str]) -> Any:
        np = self._numpy
        if (
            len(texts) >= _MANY
        ):  # 32 MB and 60 ms, once, make each of many texts twice as fast; a question needs neither
            self._table = np.asarray(self._table, dtype=np.float32)
        rows = np.zeros((len(texts), _DIMENSIONS), dtype=np.float32)
        for at, text in enumerate(texts):
            words = text.split() if _is_known_script(text) else ()
            tokens = [token for word in words for token in self._tokens(word)]
            if tokens:
                rows[at] = self._table[tokens].mean(axis=0, dtype=np.float32)
        return rows

    def _split(self, word: str) -> list[int]:
        # One word at a time: a batch would start threads, which complain when the process forks later.
        found: list[int] = self._tokenizer.encode(word, add_special_tokens=False).ids
        return found


def _is_known_script(text: str) -> bool:
    """The vectors were learnt from English; what is mostly written in other scripts falls into meaningless pieces."""
    letters = [letter for letter in text[:400] if letter.isalpha()]
    return sum(letter < "\u0250" for letter in letters) * 2 > len(letters)


def _mapped(path: str) -> Any:
    """The only tensor of a safetensors file, mapped rather than read: most of its rows are never needed."""
    import numpy as np

    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        if size > _LARGEST_HEADER:
            raise ValueError(f"{path} does not begin with a header")
        tensors = json.loads(file.read(size))
    (tensor,) = (tensor for name, tensor in tensors.items() if name != "__metadata__")
    if tensor["dtype"] != "F16" or len(tensor["shape"]) != 2 or tensor["shape"][1] != _DIMENSIONS:  # noqa: PLR2004 - a table
        raise ValueError(f"{path} holds {tensor['dtype']} {tensor['shape']}, not a table of {_DIMENSIONS} half floats")
    start = 8 + size + int(tensor["data_offsets"][0])
    return np.memmap(path, dtype="<f2", mode="r", offset=start, shape=tuple(tensor["shape"]))
