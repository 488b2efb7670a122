"""Adds nearness in meaning to a search by words: embeddings, their vectors, and one more ranking signal.

Hermes uses only the data of the extra's package (a table of word vectors and a tokenizer): no network, no model to run.
"""

from __future__ import annotations

import json
import os
import time
import zlib
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from hermes.base.errors import ExtraMissing, StorageError, command
from hermes.storage.ports import OPTIONAL_WAIT
from hermes.storage.records import BLOCK, BLOCK_BITS, readable, unpacked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hermes.conversations.search.ranking import Candidate
    from hermes.storage.conversations import Conversations

    Find = Callable[[], "Embedding | None"]

PACKAGE = "wordllama"
INSTALL = f"{command('semantic')} brings it, or set recall.semantic to off"
_WEIGHTS = os.path.join("weights", "l2_supercat_256.safetensors")
_TOKENIZER = os.path.join("tokenizers", "l2_supercat_tokenizer_config.json")
_DIMENSIONS = 256
_LARGEST_HEADER = 1 << 20  # bytes; a longer header means that the file is not what we expect
_WORDS_KEPT = 30_000
_MANY = 256
_SENT_AT_ONCE, _SENT_OF_TEXT, _ENDPOINT_SECONDS = 64, 2_000, 10.0  # texts per request, characters of each, timeout
_MOST_TOKENS = 256  # that a sentence model reads of a text
_ASKED_AGAIN_AFTER = 60.0  # seconds after a failure of an endpoint, in which no search waits for it


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedding:
    """A function from texts to rows of numbers, one per text; a row of zeros means that it knows no meaning.

    `name` stands for everything that determines the numbers: vectors made under another name are made again. `related`
    is the cosine above which two texts have something to do with each other.
    """

    name: str
    dimensions: int
    embed: Callable[[list[str]], Any]
    related: float = 0.25
    sentences: bool = False  # a model that reads whole sentences, so it also distinguishes short turns
    per_search: int = 2_000  # messages whose vectors are made before a search


def static_vectors(setting: str = "auto") -> Embedding | None:
    """The extra's embedding; if it is not installed, "auto" gives None, and "on" reports that at the first search."""
    if setting == "off" or (setting == "auto" and find_spec(PACKAGE) is None):
        return None
    return Embedding(
        name=f"{PACKAGE} l2_supercat by words",
        dimensions=_DIMENSIONS,
        embed=lambda texts: _loaded().embed(texts),
        related=0.2,
    )


def sentence_model(place: str) -> Embedding:
    """A local sentence model: a folder with an ONNX model and its `tokenizer.json`.

    The folder is an absolute path, or PACKAGE/FOLDER inside an installed package, whose code is not run.
    """
    model = _SentenceModel(_folder(place))
    return Embedding(
        name=f"{place} {model.checksum:08x}",
        dimensions=len(model.embed(["How long is a vector?"])[0]),
        embed=model.embed,
        related=0.3,
        sentences=True,
        per_search=_SENT_AT_ONCE,
    )


def _folder(place: str) -> str:
    if os.path.isabs(place):
        return place
    package, _, inside = place.partition("/")
    found = find_spec(package) if package.isidentifier() else None
    if found is None or not found.submodule_search_locations:
        raise ExtraMissing(f"search.embedding is {place!r}, but there is no package {package!r}; install it")
    return os.path.join(next(iter(found.submodule_search_locations)), inside)


class _SentenceModel:
    """Runs a model on one core, text by text: a batch of different lengths would be padded to the longest."""

    def __init__(self, folder: str) -> None:
        self._numpy = _numpy()
        try:
            import onnxruntime
            from tokenizers import Tokenizer

            (model,) = (name for name in os.listdir(folder) if name.endswith(".onnx"))
            with open(os.path.join(folder, model), "rb") as file:
                data = file.read()
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = 1
            self._session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
            self._tokenizer = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
        except ImportError as error:
            raise ExtraMissing(f"a local model needs {error.name}; {command('onnx')} brings it") from error
        except Exception as error:  # the libraries raise plain `Exception` for a model or tokenizer that they refuse
            raise ExtraMissing(f"{folder} needs one .onnx file and tokenizer.json ({error})") from error
        self.checksum = zlib.crc32(data)
        self._inputs = {each.name for each in self._session.get_inputs()}
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(_MOST_TOKENS)

    def embed(self, texts: list[str]) -> list[Any]:
        """One row per text: the model's own, or the average of what it says about each token."""
        np = self._numpy
        rows = []
        for text in texts:
            ids = self._tokenizer.encode(text).ids or [0]
            given = {"input_ids": ids, "attention_mask": [1] * len(ids), "token_type_ids": [0] * len(ids)}
            asked = {name: np.array([given[name]], dtype=np.int64) for name in self._inputs}
            found = self._session.run(None, asked)[0][0]
            rows.append(found.mean(axis=0) if found.ndim > 1 else found)
        return rows


class NoVectors(StorageError):
    """An embeddings endpoint failed, or answered with something else than vectors."""


def endpoint(url: str, model: str, key: str = "") -> Embedding:
    """The embedding of an OpenAI-compatible API (`URL/embeddings`); its first answer shows how long vectors are."""

    def embed(texts: list[str]) -> Any:
        rows: list[list[float]] = []
        for at in range(0, len(texts), _SENT_AT_ONCE):
            rows += _embedded(url, model, key, [text[:_SENT_OF_TEXT] or " " for text in texts[at : at + _SENT_AT_ONCE]])
        return rows

    dimensions = len(_embedded(url, model, key, ["How long is a vector?"])[0])
    return Embedding(
        name=f"{model} at {url}", dimensions=dimensions, embed=embed, sentences=True, per_search=_SENT_AT_ONCE
    )


def _embedded(url: str, model: str, key: str, texts: list[str]) -> list[list[float]]:
    import httpx  # loaded only if an endpoint is configured

    from hermes.llm.transport import shared_client

    headers = {"Authorization": f"Bearer {key}"} if key else {}
    where = f"{url.rstrip('/')}/embeddings"
    try:
        answer = shared_client().post(
            where, json={"model": model, "input": texts}, headers=headers, timeout=_ENDPOINT_SECONDS
        )
        answer.raise_for_status()
        rows = sorted(answer.json()["data"], key=lambda row: row["index"])
        found = [[float(number) for number in row["embedding"]] for row in rows]
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError) as error:
        raise NoVectors(f"{where} gave no vectors ({error}); see search.embedding in the settings") from error
    if len(found) != len(texts):
        raise NoVectors(f"{where} gave {len(found)} vectors for {len(texts)} texts; see search.embedding")
    return found


@cache
def _loaded() -> _StaticVectors:
    """The vectors of the installed package, which is not imported: that would load an HTTP client and much more."""
    found = find_spec(PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise ExtraMissing(f"searching by meaning needs the package {PACKAGE}, which is not installed: {INSTALL}")
    return _StaticVectors(next(iter(found.submodule_search_locations)))


class _StaticVectors:
    """Averages one vector per token, which is cheap enough to do for every message."""

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
        # A few thousand words make up most of what people write; a lookup takes a tenth of the time of splitting them.
        self._tokens = lru_cache(maxsize=_WORDS_KEPT)(self._split)

    def embed(self, texts: list[str]) -> Any:
        """One row per text, the average of its words' vectors; zeros for text that the table does not cover."""
        np = self._numpy
        # 32 MB and 60 ms, once, make each of many texts twice as fast; a single question needs neither.
        if len(texts) >= _MANY:
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
    """Whether most letters are Latin: the vectors were learnt from English, and other scripts become mere pieces."""
    letters = [letter for letter in text[:400] if letter.isalpha()]
    return sum(letter < "\u0250" for letter in letters) * 2 > len(letters)


def _mapped(path: str) -> Any:
    """The only tensor of a safetensors file, mapped into memory, because most of its rows are never needed."""
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


# Keeps a vector of meaning for every message of an owner in the same database, and finds those nearest to a text.
#
# A vector has one signed byte per dimension. Vectors are made after the text index, a bounded number before each
# search, and are kept in memory as one matrix, so that the newest `MOST` messages are compared all at once.

MOST = 100_000
# With so many sessions waiting, a search makes only a few vectors, because 2,000 take about one CPU second. `hermes
# sessions optimize` makes the rest.
_FAR_BEHIND = 2_000
_PER_SEARCH_THEN = 128
_BATCH_BLOCKS = 64  # blocks of messages embedded in one transaction
_BLOCKS_AT_ONCE = 512  # blocks of vectors read by one statement
_SPOKEN = ("user", "assistant")
_LONGEST = 8_000  # characters; more words hardly change the average
_ROWS_AT_ONCE = 512  # so many rows fit into the processor's cache, which takes a seventh of the time of 4,096


class Vectors:
    """The vectors of an owner's messages: made before searches, and compared with the vector of a question."""

    def __init__(self, store: Conversations, embedding: Embedding) -> None:
        self._store = store
        self._embedding = embedding
        self._blocks: dict[int, Any] = {}  # block -> (ids, rows, length of each row)
        self._damaged: list[int] = []
        self._seen = self._oldest = 0  # the newest stamp that was read, and the block below which none is
        self._ids: Any = None
        self._matrix: Any = None
        self._lengths: Any = None
        self._numpy = _numpy()
        self._rows = store.vectors()
        self._rows.start_over_unless(f"{embedding.name} {embedding.dimensions}")

    @property
    def reads_sentences(self) -> bool:
        """Whether the embedding is a model that reads whole sentences."""
        return self._embedding.sentences

    def embed_waiting(self, most: int | None = None) -> int:
        """Makes missing vectors, newest sessions first; returns for how many messages."""
        done = 0
        while (most is None or done < most) and self._store.damage is None:
            step = self._embed_some(_BATCH_BLOCKS if most is None else min(_BATCH_BLOCKS, -(-(most - done) // BLOCK)))
            if step is None:
                break
            done += step
        return done

    def embed_before_search(self) -> None:
        """Makes some of the missing vectors, few enough for a person to wait for the search."""
        most = self._embedding.per_search
        self.embed_waiting(min(most, _PER_SEARCH_THEN) if self._rows.waits_for_many(_FAR_BEHIND) else most)

    def similarities(self, text: str) -> tuple[Any, Any] | None:
        """Ids of the newest messages, ascending, with the cosine of each; None if there is nothing to compare."""
        self._read_newer()
        np = self._numpy
        asked = np.asarray(self._embedding.embed([text]), dtype=np.float32)[0]
        length = float(np.linalg.norm(asked))
        if self._ids is None or not len(self._ids) or not length:
            return None
        cosines = np.empty(len(self._ids), dtype=np.float32)
        for at in range(0, len(cosines), _ROWS_AT_ONCE):
            rows = slice(at, at + _ROWS_AT_ONCE)
            cosines[rows] = self._matrix[rows].astype(np.float32) @ asked
        return self._ids, cosines / (self._lengths * length)

    def _embed_some(self, most_blocks: int) -> int | None:
        blocks: list[tuple[int, int]] = []
        finished: list[tuple[int, int]] = []
        for session, reached in self._rows.waiting(most_blocks):
            missing = self._rows.missing(session, reached, self._embedding.dimensions)
            room = most_blocks - len(blocks)
            blocks += missing[:room]
            if len(missing) > room:
                break
            finished.append((session, reached))
        if not blocks and not finished:
            return None
        made = list(self._made(blocks))  # outside the transaction, so that others can write
        self._rows.keep(made, finished)
        return sum(count for _, count in blocks)

    def _made(self, blocks: list[tuple[int, int]]) -> Iterator[tuple[int, bytes]]:
        if not blocks:
            return
        texts: list[str] = []
        for block, count in blocks:
            first = block << BLOCK_BITS
            found = {i: _text(role, content) for i, role, content in self._rows.texts(first, first + count - 1)}
            texts += [found.get(first + offset, "") for offset in range(count)]
        rows = self._packed(self._embedding.embed(texts))
        at = 0
        for block, count in blocks:
            yield block, rows[at : at + count].tobytes()
            at += count

    def _packed(self, rows: Any) -> Any:
        """Rounds to signed bytes, the largest 127: cosines need no lengths, and rounding hardly changes an order."""
        np = self._numpy
        rows = np.asarray(rows, dtype=np.float32)
        largest = np.abs(rows).max(axis=1, keepdims=True)
        return np.rint(127 * (rows / np.where(largest > 0, largest, 1))).astype(np.int8)

    def _read_newer(self) -> None:
        newer = self._rows.newer(self._seen, self._oldest) if self._seen else []
        for row in newer:
            self._take(*row)
        # Counts differ the first time, and after something was deleted, perhaps by another program.
        if self._rows.count(self._oldest) != len(self._blocks):
            self._read_all()
        elif newer:
            self._assemble()
        if self._damaged and self._store.damage is None:
            self._forget_damaged()

    def _read_all(self) -> None:
        """Reads the newest blocks until there are enough messages; older ones are not compared."""
        self._blocks.clear()
        self._oldest = count = 0
        below = 1 << 62
        while rows := self._rows.below(below, _BLOCKS_AT_ONCE):
            for row in rows:
                self._take(*row)
            below = rows[-1][0]
            count += sum(len(row[3]) for row in rows) // self._embedding.dimensions
            if count >= MOST:
                self._oldest = below
                break
        self._assemble()

    def _take(self, block: int, stamp: int, checksum: int, data: bytes) -> None:
        self._seen = max(self._seen, stamp)
        if zlib.crc32(data, block) == checksum and len(data) % self._embedding.dimensions == 0:
            self._blocks[block] = self._unpacked(block, data)
        else:
            self._damaged.append(block)

    def _unpacked(self, block: int, data: bytes) -> tuple[Any, Any, Any]:
        np = self._numpy
        rows = np.frombuffer(data, dtype=np.int8).reshape(-1, self._embedding.dimensions)
        lengths = np.linalg.norm(rows.astype(np.float32), axis=1)
        told = np.flatnonzero(lengths)
        return told + (block << BLOCK_BITS), rows[told], lengths[told]

    def _assemble(self) -> None:
        chosen = []
        count = 0
        for block in sorted(self._blocks, reverse=True):
            chosen.append(self._blocks[block])
            count += len(chosen[-1][0])
            if count >= MOST:
                break
        if not count:
            self._ids = None
            return
        self._ids, self._matrix, self._lengths = (
            self._numpy.concatenate([part[column] for part in reversed(chosen)]) for column in range(3)
        )

    def _forget_damaged(self) -> None:
        """Deletes damaged vectors, which loses nothing: the text has its own checksum, and they are made again."""
        damaged = self._damaged.copy()
        self._damaged.clear()
        self._rows.forget(damaged)


def _text(role: str, content: str | None) -> str:
    return readable(unpacked(content))[:_LONGEST] if content and role in _SPOKEN else ""


def _numpy() -> Any:
    try:
        import numpy as np
    except ImportError as error:
        raise ExtraMissing(f"searching by meaning needs numpy ({error}); {command('semantic')} brings it") from error
    return np


# Adds nearness in meaning to a search by words: more candidates, and one more signal added to the score of the words.
#
# The signal counts fully for long turns, whose average says what they are about, and hardly for short ones: the average
# of a few static vectors says little about a turn.

NEAREST = 64  # messages added to the candidates
NEAREST_FILTERED = 4_000  # messages among which a filter selects
_WEIGHT = 1.8
_SHARE_AMONG_SHORT = 0.05  # of that weight, in sessions of short turns
_SHORT_TURN = 60.0  # words
ONLY_NEAR = "no message holds these words; shown are the nearest in meaning"


@dataclass(frozen=True, slots=True)
class Nearness:
    """How near in meaning the messages of an owner are to one question."""

    nearest: dict[int, float] = field(repr=False)  # the best of them, best first, with their cosines
    _ids: Any
    _shares: Any
    sentences: bool = False

    def share(self, message_id: int) -> float:
        """From 0 for messages no nearer than the average to 1 for the nearest of all."""
        at = int(self._ids.searchsorted(message_id))
        return float(self._shares[at]) if at < len(self._ids) and self._ids[at] == message_id else 0.0


class Meaning:
    """Search by meaning for one owner; opens the vectors at the first question, and notes if they are unavailable."""

    def __init__(self, store: Conversations, find: Find | None) -> None:
        self._store = store
        self._find = find
        self._vectors: Vectors | None = None
        self._related = 0.0
        self._asked_again = 0.0
        self.note: str | None = None

    def embed_waiting(self, most: int | None = None) -> int:
        """Makes missing vectors and returns for how many messages; 0 if search by meaning is off."""
        try:
            vectors = self._opened()
            return vectors.embed_waiting(most) if vectors else 0
        except ExtraMissing as error:
            self._give_up(error)
            return 0

    def near(self, question: str, *, filtered: bool) -> Nearness | None:
        """Compares a question with all messages; None without the extra, or if the vectors are not available now."""
        if self._store.damage is not None or time.monotonic() < self._asked_again:
            return None
        try:
            with self._store.waiting_at_most(OPTIONAL_WAIT):
                vectors = self._opened()
                if vectors is None:
                    return None
                vectors.embed_before_search()
            found = vectors.similarities(question)
        except ExtraMissing as error:
            self._give_up(error)
            return None
        except StorageError as error:  # a full disk or a busy file must not stop a search by words
            self.note = f"searched by words alone: {error}"
            if isinstance(error, NoVectors):
                self._asked_again = time.monotonic() + _ASKED_AGAIN_AFTER
            return None
        self.note = None
        return None if found is None else self._nearness(*found, NEAREST_FILTERED if filtered else NEAREST)

    def _opened(self) -> Vectors | None:
        if self._find is not None:
            embedding = self._find()
            if embedding is not None:
                self._related = embedding.related
                self._vectors = Vectors(self._store, embedding)
            self._find = None
        return self._vectors

    def _give_up(self, error: ExtraMissing) -> None:
        self._find, self._vectors, self.note = None, None, str(error)

    def _nearness(self, ids: Any, cosines: Any, most: int) -> Nearness:
        low = float(cosines.mean())
        # If nothing is really near, the nearest must not count as much as an answer would.
        span = max(float(cosines.max()) - low, self._related)
        best = cosines.argsort()[::-1][:most]
        nearest = {int(ids[at]): float(cosines[at]) for at in best if cosines[at] >= self._related}
        sentences = self._vectors is not None and self._vectors.reads_sentences
        return Nearness(nearest, ids, ((cosines - low) / span).clip(0.0, 1.0), sentences)


def fuse(candidates: list[Candidate], nearness: Nearness) -> list[Candidate]:
    """Adds each candidate's nearness to its score by words; returns them best first.

    A model that reads sentences also counts for short turns, but only for the ranks below the first hit by words: it
    knows which texts are alike, but seldom which of two turns is the answer.
    """
    lengths: dict[int, list[int]] = defaultdict(list)
    for candidate in candidates:
        lengths[candidate.session].append(candidate.line.length)
    for candidate in candidates:
        turns = lengths[candidate.session]
        long = 0.5 if nearness.sentences else 1 - min(1.0, _SHORT_TURN * len(turns) / max(1, sum(turns)))
        weight = _WEIGHT * (_SHARE_AMONG_SHORT + (1 - _SHARE_AMONG_SHORT) * long)
        added = weight * nearness.share(candidate.id)
        candidate.parts["meaning"] = added
        candidate.score += added * candidate.factor
    first = candidates[0].id if candidates and nearness.sentences else None
    return sorted(candidates, key=lambda candidate: (candidate.id != first, -candidate.score, -candidate.id))
