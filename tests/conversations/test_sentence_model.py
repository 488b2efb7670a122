"""A sentence model on this machine: a very small real one where its runtime is installed, and the errors where not."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

from hermes.base.errors import ExtraMissing
from hermes.conversations.database import SessionDB
from hermes.conversations.search.semantic import sentence_model

if TYPE_CHECKING:
    from pathlib import Path

WORDS = {"[UNK]": 0, "puppy": 1, "dog": 2, "truck": 3, "sleeps": 4}
VECTORS = ((0.0, 0.0), (1.0, 0.1), (1.0, 0.0), (0.0, 1.0), (0.2, 0.2))
INT64, FLOAT = 7, 1


def field(number: int, value: int | bytes) -> bytes:
    """One field of a protocol buffer: a number, or bytes with their length."""
    if isinstance(value, int):
        return bytes([number << 3, value])
    size = bytes([len(value) & 0x7F | 0x80, len(value) >> 7])
    return bytes([number << 3 | 2]) + size + value


def tensor(name: bytes, kind: int, *dimensions: bytes) -> bytes:
    """The description of an input or output; a dimension is a field of its own."""
    shape = field(2, b"".join(field(1, each) for each in dimensions))
    return field(1, name) + field(2, field(1, field(1, kind) + shape))


def write_model(folder: Path) -> None:
    """A model that looks up a vector for each token, and a tokenizer of five words."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    table = b"".join(struct.pack("<2f", *row) for row in VECTORS)
    weights = field(1, len(VECTORS)) + field(1, 2) + field(2, FLOAT) + field(8, b"table") + field(9, table)
    node = field(1, b"table") + field(1, b"input_ids") + field(2, b"vectors") + field(4, b"Gather")
    one, any_number, two = field(1, 1), field(2, b"n"), field(1, 2)
    graph = field(1, node) + field(2, b"small") + field(5, weights)
    graph += field(11, tensor(b"input_ids", INT64, one, any_number))
    graph += field(12, tensor(b"vectors", FLOAT, one, any_number, two))
    folder.mkdir()
    (folder / "model.onnx").write_bytes(field(1, 8) + field(7, graph) + field(8, field(2, 13)))
    tokenizer = Tokenizer(models.WordLevel(WORDS, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))


@pytest.mark.proves("semantic.local_model", "semantic.paraphrase")
def test_a_local_model_finds_what_says_the_same_in_other_words(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("tokenizers")
    write_model(tmp_path / "model")
    model = sentence_model(str(tmp_path / "model"))
    assert model.dimensions == len(VECTORS[0])
    with SessionDB.open(tmp_path / "state.db", semantic=lambda: model) as db:
        session = db.create_session()
        wanted, _ = db.append_many(
            session, [{"role": "user", "content": text} for text in ("puppy sleeps", "truck truck")]
        )
        assert db.embed() == 2
        found = db.search("dog?")
    assert [hit.message_id for hit in found] == [wanted]


@pytest.mark.proves("semantic.local_model", "semantic.missing")
@pytest.mark.parametrize(("place", "problem"), [("nobody_has_this/model", "no package"), ("{}", "needs")])
def test_a_model_that_cannot_be_used_leaves_the_search_by_words(tmp_path: Path, place: str, problem: str) -> None:
    pytest.importorskip("numpy")
    place = place.format(tmp_path)
    with pytest.raises(ExtraMissing, match=problem):
        sentence_model(place)
    with SessionDB.open(tmp_path / "state.db", semantic=lambda: sentence_model(place)) as db:
        message = db.append(db.create_session(), {"role": "user", "content": "my puppy sleeps"})
        found = db.search("where is the puppy?")
        assert ([hit.message_id for hit in found], problem in (found.note or "")) == ([message], True)
