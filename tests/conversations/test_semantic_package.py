"""The package of the extra `semantic`, as it lies on a disk: a small table of vectors and a stand-in for its tokenizer.

The real package is 30 MB and not part of what a developer installs; where it is, other tests use it.
"""

from __future__ import annotations

import json
import struct
import sys
from typing import TYPE_CHECKING, Any

import pytest
from engines import database_of

from hermes.base.errors import ExtraMissing
from hermes.conversations.database import SessionDB
from hermes.conversations.search import semantic
from hermes.conversations.search import semantic as vectors
from hermes.conversations.search.semantic import PACKAGE, Embedding, static_vectors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

np = pytest.importorskip("numpy")

WORDS = ("dog", "puppy", "car", "truck")
TOKENIZERS = """
import json

class _Encoded:
    def __init__(self, ids): self.ids = ids

class Tokenizer:
    @classmethod
    def from_str(cls, text):
        made = cls()
        made.words = json.loads(text)
        return made
    def no_padding(self): pass
    def no_truncation(self): pass
    def encode(self, word, add_special_tokens): return _Encoded([self.words[word]] if word in self.words else [])
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package with vectors for four words: two animals and two vehicles."""
    place = tmp_path / "site" / PACKAGE
    (place / "weights").mkdir(parents=True)
    (place / "tokenizers").mkdir()
    (place / "__init__.py").write_text("raise RuntimeError('it is used for its data only')")
    (tmp_path / "site/tokenizers.py").write_text(TOKENIZERS)
    table = np.zeros((len(WORDS), 256), dtype="<f2")
    for at, word in enumerate(WORDS):
        table[at, 0 if word in ("dog", "puppy") else 1] = 1
    write_table(place, {"dtype": "F16", "shape": list(table.shape)}, table.tobytes())
    (place / "tokenizers/l2_supercat_tokenizer_config.json").write_text(
        json.dumps({word: at for at, word in enumerate(WORDS)})
    )
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    semantic._loaded.cache_clear()
    yield place
    semantic._loaded.cache_clear()
    sys.modules.pop("tokenizers", None)


def write_table(place: Path, about: dict[str, Any], data: bytes) -> None:
    header = json.dumps({"__metadata__": {}, "embedding": {**about, "data_offsets": [0, len(data)]}}).encode()
    (place / "weights/l2_supercat_256.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + data)


@pytest.mark.proves("semantic.paraphrase", "semantic.setting")
def test_the_vectors_of_the_package_find_what_says_the_same_in_other_words(package: Path, tmp_path: Path) -> None:
    with SessionDB.open(tmp_path / "state.db", semantic=lambda: static_vectors("auto")) as db:
        session = db.create_session()
        animal, *_ = db.append_many(
            session,
            [{"role": "user", "content": text} for text in ("my puppy sleeps", "the truck is red", "щенок спит", "12")],
        )
        found = db.search("where is the dog")
    assert [hit.message_id for hit in found] == [animal]


@pytest.mark.proves("semantic.paraphrase")
def test_many_texts_and_few_have_the_same_vectors(package: Path) -> None:
    embedding = static_vectors("on")
    assert embedding is not None
    few = embedding.embed(["a dog", "a car"])
    many = embedding.embed(["a dog", "a car"] * 200)
    assert np.allclose(np.tile(few, (200, 1)), many)
    assert (few[0][0], few[1][1], float(abs(embedding.embed(["nothing known"])).sum())) == (1.0, 1.0, 0.0)


@pytest.mark.proves("semantic.missing")
@pytest.mark.parametrize("what", ["table", "shape", "header", "tokenizer", "empty folder"])
def test_a_package_that_cannot_be_used_leaves_the_search_by_words_and_is_told(
    package: Path, tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if what == "table":
        (package / "weights/l2_supercat_256.safetensors").unlink()
    elif what == "shape":
        write_table(package, {"dtype": "F32", "shape": [1, 256]}, b"\0" * 1024)
    elif what == "header":
        (package / "weights/l2_supercat_256.safetensors").write_bytes(b"\xff" * 100)
    elif what == "tokenizer":
        monkeypatch.setitem(sys.modules, "tokenizers", None)
    else:
        monkeypatch.setattr(semantic, "find_spec", lambda _name: None)
    with SessionDB.open(tmp_path / "state.db", semantic=lambda: static_vectors("on")) as db:
        session = db.create_session()
        message = db.append(session, {"role": "user", "content": "my puppy sleeps"})
        assert db.embed() == 0
        found = db.search("the puppy")
        assert [hit.message_id for hit in found] == [message]
        assert PACKAGE in (found.note or "")


@pytest.mark.proves("semantic.missing")
def test_without_numpy_a_search_goes_by_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    with pytest.raises(ExtraMissing, match="needs numpy"):
        vectors._numpy()


@pytest.mark.proves("semantic.current")
def test_in_a_store_with_more_messages_than_are_compared_the_newest_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "MOST", 64)
    monkeypatch.setattr(vectors, "_BLOCKS_AT_ONCE", 1)

    def embed(texts: list[str]) -> Any:
        return [[1.0, 0.0] if "puppy" in text or "dog" in text else [0.0, 1.0] for text in texts]

    toy = Embedding(name="toy", dimensions=2, embed=embed, related=0.5)
    with SessionDB.open(tmp_path / "state.db", semantic=lambda: toy) as db:
        session = db.create_session()
        old = db.append(session, {"role": "user", "content": "a puppy of long ago " + "and so on " * 20})
        db.append_many(session, [{"role": "user", "content": f"line {n}"} for n in range(200)])
        new = db.append(session, {"role": "user", "content": "a puppy of today " + "and so on " * 20})
        db.index()
        near = [hit.message_id for hit in db.search("dog")]
    with SessionDB.open(tmp_path / "state.db", semantic=lambda: toy) as db:
        with database_of(db).writing() as connection:  # as when another process was faster
            connection.execute("INSERT INTO vectors_waiting SELECT key FROM sessions")
        assert db.embed() == 0
        again = [hit.message_id for hit in db.search("dog")]
    assert (new in near, old in near) == (True, False)
    assert again == near
