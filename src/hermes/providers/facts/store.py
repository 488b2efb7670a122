"""Facts with trust, categories, tags and entities in one SQLite file (`FactStore`), and answers from them (`Reasoner`).

Nothing is overwritten: a changed fact is stored as a new one, and the old one points to it. Removing a fact removes its
history too, so that what was forgotten cannot come back.
"""

# ruff: noqa: RUF001 - the punctuation of other scripts is meant as it stands

from __future__ import annotations

import hashlib
import json
import math
import operator
import os
import time
import unicodedata
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Self

import apsw

from hermes.base.errors import NotFound, StorageError, WriteRefused
from hermes.base.words import STOP_WORDS, TOKENIZER, Words, query_pieces, scrub, searchable
from hermes.providers.facts.claims import claims_of, conflict, find_entities, key_of, parts_of
from hermes.storage.local.database import Database, all_rows, program_of
from hermes.storage.local.schema import apply_steps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hermes.providers.facts.claims import Named

NAME, ALIAS, PART = 0, 1, 2


def _f001_facts(connection: apsw.Connection) -> None:
    with open(os.path.join(os.path.dirname(__file__), "text", "schema.sql"), encoding="utf-8") as file:
        connection.execute(file.read().replace("{TOKENIZER}", TOKENIZER))


# A holographic vector is a string of phases, one byte each. It is similar to the vectors of all its parts.

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
    """Derives the vector of a word from its hash: always the same, and unrelated to that of any other word."""
    return hashlib.shake_256(word.encode("utf-8", "replace")).digest(dimensions)


def bind(one: bytes, other: bytes) -> bytes:
    """Combines two vectors into one that is unrelated to both, by adding their phases."""
    return bytes(phase & 255 for phase in map(operator.add, one, other))


def bundle(vectors: Sequence[bytes]) -> bytes:
    """Returns the average direction of the vectors, which is similar to each of them."""
    if len(vectors) == 1:
        return vectors[0]
    across = [sum(map(_COSINE.__getitem__, phases)) for phases in zip(*vectors, strict=True)]
    upward = [sum(map(_SINE.__getitem__, phases)) for phases in zip(*vectors, strict=True)]
    return bytes(round(angle * _PER_RADIAN) & 255 for angle in map(math.atan2, upward, across))


def similarity(one: bytes, other: bytes) -> float:
    """Returns the mean cosine of the phase differences: 1 for equal vectors, about 0 for unrelated ones."""
    return sum(map(_COSINE.__getitem__, map(operator.sub, one, other))) / len(one)


def fact_vector(words: Iterable[str], entities: Iterable[str], dimensions: int = DIMENSIONS) -> bytes:
    """The words of a fact and its entities, each bound to its role, so that a query can use either."""
    return bundle([text_vector(words, dimensions), *(entity_vector(each, dimensions) for each in entities)])


def text_vector(words: Iterable[str], dimensions: int = DIMENSIONS) -> bytes:
    """The vector of a set of words, bound to the role of content."""
    atoms = [atom(word, dimensions) for word in dict.fromkeys(words)] or [atom("", dimensions)]
    return bind(bundle(atoms), atom(_CONTENT, dimensions))


def entity_vector(key: str, dimensions: int = DIMENSIONS) -> bytes:
    """The vector of an entity, bound to the role of entities so that it differs from the same word in a text."""
    return bind(atom(key, dimensions), atom(_ENTITY, dimensions))


CATEGORIES = ("user_pref", "project", "tool", "general")
LONGEST = 4_000
HELPFUL, UNHELPFUL = 0.05, -0.10
COLUMNS = (
    "f.fact_id, f.content, f.category, f.tags, f.trust_score, f.retrieval_count, f.helpful_count, f.source, "
    "f.created_at, f.updated_at, f.hrr_vector"
)
_LIVE_BY_KEY = "SELECT fact_id FROM facts WHERE key = ? AND superseded_by IS NULL"
_INSERT = """
    INSERT INTO facts (content, key, category, tags, trust_score, source, session, created_at, updated_at, hrr_vector)
    VALUES (:content, :key, :category, :tags, :trust, :source, :session, :now, :now, :vector) RETURNING fact_id
"""
_LINEAGE = """
    WITH RECURSIVE line(id) AS (VALUES (?) UNION SELECT fact_id FROM facts, line WHERE superseded_by = line.id)
    SELECT id FROM line
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One stored fact with its trust, counters and vector."""

    fact_id: int
    content: str
    category: str
    tags: str
    trust: float
    retrievals: int
    helpful: int
    source: str
    created_at: float
    updated_at: float
    vector: bytes

    @classmethod
    def of(cls, row: Sequence[Any]) -> Self:
        """Reads a row with the `COLUMNS`."""
        names = ("fact_id", "content", "category", "tags", "trust", "retrievals", "helpful", "source")
        return cls(**dict(zip((*names, "created_at", "updated_at", "vector"), row, strict=True)))

    def shown(self) -> dict[str, Any]:
        """The fact as a tool result, without its source and vector."""
        return {
            "fact_id": self.fact_id,
            "content": self.content,
            "category": self.category,
            "tags": self.tags,
            "trust_score": round(self.trust, 3),
            "retrieval_count": self.retrievals,
            "helpful_count": self.helpful,
            "created_at": _iso(self.created_at),
            "updated_at": _iso(self.updated_at),
        }


class FactStore:
    """Facts, entities and vectors in one SQLite file."""

    def __init__(
        self,
        database: Database,
        *,
        default_trust: float = 0.5,
        dimensions: int = DIMENSIONS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.database = database
        self.words = Words()
        self.dimensions = dimensions
        self.clock = clock
        self._default_trust = default_trust

    @classmethod
    def open(cls, path: str, **options: Any) -> Self:
        """Opens the database, creating or migrating its tables; `options` are those of the constructor."""
        database = Database.open(path)
        try:
            apply_steps(database, (("f001_facts", _f001_facts),))
        except BaseException:
            database.close()
            raise
        return cls(database, **options)

    def close(self) -> None:
        """Closes the database."""
        self.database.close()

    def add(
        self,
        content: str,
        *,
        category: str = "general",
        tags: str = "",
        entities: Iterable[str] = (),
        source: str = "tool",
        session: str = "",
        supersedes: int | None = None,
    ) -> tuple[int, bool]:
        """Adds a fact; returns its id and whether it is new. The same words are the same fact."""
        content = _clean(content)
        names = find_entities(content, entities)
        with self.database.writing() as connection:
            old = self._required(connection, supersedes) if supersedes is not None else None
            known = connection.execute(_LIVE_BY_KEY, (key_of_fact(content),)).fetchone()
            if known is not None:
                if old is not None and known[0] != old.fact_id:
                    self._supersede(connection, old.fact_id, known[0])
                return known[0], False
            if old is not None:  # before the insert, because both may have the same key
                connection.execute("UPDATE facts SET superseded_by = -1 WHERE fact_id = ?", (old.fact_id,))
            trust = old.trust if old is not None else self._default_trust
            columns = {"category": category, "tags": tags, "source": source, "session": session}
            fact_id = self._insert(connection, content, names, trust=trust, **columns)
            if old is not None:
                self._supersede(connection, old.fact_id, fact_id)
        return fact_id, True

    def update(
        self,
        fact_id: int,
        *,
        content: str | None = None,
        category: str | None = None,
        tags: str | None = None,
        trust_delta: float = 0.0,
        entities: Iterable[str] = (),
    ) -> int:
        """Changes a fact; new wording makes a new fact that replaces the old one. Returns the current id."""
        old = self.get(fact_id)
        if content is not None and _clean(content) != old.content:
            chosen = {"category": category or old.category, "tags": old.tags if tags is None else tags}
            fact_id, _ = self.add(content, entities=entities, source=old.source, supersedes=fact_id, **chosen)
        with self.database.writing() as connection:
            connection.execute(
                "UPDATE facts SET category = coalesce(?, category), tags = coalesce(?, tags), updated_at = ?,"
                " trust_score = min(1.0, max(0.0, trust_score + ?)) WHERE fact_id = ?",
                (category, tags, self.clock(), trust_delta, fact_id),
            )
            self._index(connection, self._required(connection, fact_id))
            self._link(connection, fact_id, find_entities("", entities))
        return fact_id

    def remove(self, fact_id: int) -> bool:
        """Deletes the fact and everything it replaced; False when there is no such fact."""
        with self.database.writing() as connection:
            if not connection.execute("SELECT 1 FROM facts WHERE fact_id = ?", (fact_id,)).fetchall():
                return False
            for (each,) in all_rows(connection, _LINEAGE, (fact_id,)):
                self._unlink(connection, each)
                connection.execute("DELETE FROM facts WHERE fact_id = ?", (each,))
        return True

    def feedback(self, fact_id: int, *, helpful: bool) -> dict[str, Any]:
        """Raises or lowers the trust of a fact that was helpful or not; returns the old and new trust."""
        old = self.get(fact_id)
        trust = min(1.0, max(0.0, old.trust + (HELPFUL if helpful else UNHELPFUL)))
        with self.database.writing() as connection:
            connection.execute(
                "UPDATE facts SET trust_score = ?, helpful_count = helpful_count + ?, updated_at = ? WHERE fact_id = ?",
                (trust, int(helpful), self.clock(), fact_id),
            )
        shown = {"old_trust": round(old.trust, 3), "new_trust": round(trust, 3)}
        return {"fact_id": fact_id, **shown, "helpful_count": old.helpful + int(helpful)}

    def get(self, fact_id: int) -> Fact:
        """Returns a current fact; raises NotFound for one that is missing or was replaced."""
        return self._required(self.database.connection, fact_id)

    def listed(self, *, category: str | None = None, min_trust: float = 0.0, limit: int = 10) -> list[Fact]:
        """Returns current facts, the most trusted first and the newest first among equals."""
        return self.facts_where(
            "f.trust_score >= ? AND (? IS NULL OR f.category = ?) ORDER BY f.trust_score DESC, f.fact_id DESC LIMIT ?",
            (min_trust, category, category, limit),
        )

    def facts_where(self, condition: str, values: Sequence[Any]) -> list[Fact]:
        """Returns current facts that meet a condition; it is SQL, so it must never come from outside."""
        sql = f"SELECT {COLUMNS} FROM facts f WHERE f.superseded_by IS NULL AND {condition}"  # noqa: S608 - ours
        return [Fact.of(row) for row in self.database.rows(sql, values)]

    def mirrored(self, target: str, content: str) -> int | None:
        """Returns the id of the fact that mirrors this entry of curated memory, if there is one."""
        row = self.database.row(
            "SELECT fact_id FROM facts WHERE key = ? AND superseded_by IS NULL AND source = ?",
            (key_of_fact(content), f"mirror:{target}"),
        )
        return row[0] if row else None

    def note_retrieved(self, fact_ids: Iterable[int]) -> None:
        """Counts a retrieval of each of these facts."""
        with self.database.writing() as connection:
            connection.executemany(
                "UPDATE facts SET retrieval_count = retrieval_count + 1 WHERE fact_id = ?", [(i,) for i in fact_ids]
            )

    def count(self) -> int:
        """The number of current facts, without those that were replaced."""
        return int(self.database.row("SELECT count(*) FROM facts WHERE superseded_by IS NULL")[0])

    def _required(self, connection: apsw.Connection, fact_id: int | None) -> Fact:
        row = connection.execute(
            f"SELECT {COLUMNS} FROM facts f WHERE f.fact_id = ? AND f.superseded_by IS NULL",  # noqa: S608 - ours
            (fact_id,),
        ).fetchone()
        if row is None:
            raise NotFound(f"there is no fact {fact_id}; `list` or `search` shows the ids")
        return Fact.of(row)

    def _insert(self, connection: apsw.Connection, content: str, names: list[Named], **columns: Any) -> int:
        now = self.clock()
        vector = fact_vector(self.words.of(content), [each.key for each in names], self.dimensions)
        row: Any = {**columns, "content": content, "key": key_of_fact(content), "now": now, "vector": vector}
        fact_id = int(all_rows(connection, _INSERT, row)[0][0])
        self._index(connection, self._required(connection, fact_id))
        self._link(connection, fact_id, names)
        slots = [(claim.slot, fact_id) for claim in claims_of(content)]
        connection.executemany("INSERT OR IGNORE INTO fact_claims (slot, fact_id) VALUES (?, ?)", slots)
        return fact_id

    def _index(self, connection: apsw.Connection, fact: Fact) -> None:
        connection.execute("DELETE FROM facts_fts WHERE rowid = ?", (fact.fact_id,))
        row = (fact.fact_id, searchable(fact.content), searchable(fact.tags))
        connection.execute("INSERT INTO facts_fts (rowid, words, tags) VALUES (?, ?, ?)", row)

    def _link(self, connection: apsw.Connection, fact_id: int, names: list[Named]) -> None:
        for named in names:
            entity = self._entity(connection, named)
            connection.execute("INSERT OR IGNORE INTO fact_entities VALUES (?, ?)", (entity, fact_id))

    def _entity(self, connection: apsw.Connection, named: Named) -> int:
        known = connection.execute(
            "SELECT entity_id FROM entity_names WHERE key = ? AND kind <= ? ORDER BY kind LIMIT 1", (named.key, ALIAS)
        ).fetchone()
        if known is not None:
            entity = int(known[0])
        else:
            row = (named.name, named.key, self.clock())
            sql = "INSERT INTO entities (name, key, created_at) VALUES (?, ?, ?) RETURNING entity_id"
            entity = int(all_rows(connection, sql, row)[0][0])
        names = [(named.key, entity, NAME), *((part, entity, PART) for part in parts_of(named.key))]
        connection.executemany("INSERT OR IGNORE INTO entity_names (key, entity_id, kind) VALUES (?, ?, ?)", names)
        for alias in named.aliases:
            self._same(connection, entity, find_entities("", [alias]))
        return entity

    def _same(self, connection: apsw.Connection, entity: int, aliases: list[Named]) -> None:
        """Makes the aliases names of this entity, also in existing facts."""
        for alias in aliases:
            for (other,) in connection.execute(
                "SELECT entity_id FROM entity_names WHERE key = ? AND kind <= ? AND entity_id <> ?",
                (alias.key, ALIAS, entity),
            ).fetchall():
                connection.execute(
                    "UPDATE OR IGNORE fact_entities SET entity_id = ? WHERE entity_id = ?", (entity, other)
                )
                connection.execute("DELETE FROM fact_entities WHERE entity_id = ?", (other,))
                connection.execute("DELETE FROM entity_names WHERE entity_id = ?", (other,))
                connection.execute("DELETE FROM entities WHERE entity_id = ?", (other,))
            row = (alias.key, entity, ALIAS)
            connection.execute("INSERT OR REPLACE INTO entity_names (key, entity_id, kind) VALUES (?, ?, ?)", row)

    def _supersede(self, connection: apsw.Connection, old: int, new: int) -> None:
        connection.execute(
            "UPDATE facts SET superseded_by = ?, updated_at = ? WHERE fact_id = ?", (new, self.clock(), old)
        )
        self._unlink(connection, old)

    def _unlink(self, connection: apsw.Connection, fact_id: int) -> None:
        connection.execute("DELETE FROM facts_fts WHERE rowid = ?", (fact_id,))
        connection.execute("DELETE FROM fact_claims WHERE fact_id = ?", (fact_id,))
        sql = "DELETE FROM fact_entities WHERE fact_id = ? RETURNING entity_id"
        for (entity,) in connection.execute(
            sql, (fact_id,)
        ).fetchall():  # also delete entities that no fact names any more
            if not connection.execute("SELECT 1 FROM fact_entities WHERE entity_id = ? LIMIT 1", (entity,)).fetchall():
                connection.execute("DELETE FROM entity_names WHERE entity_id = ?", (entity,))
                connection.execute("DELETE FROM entities WHERE entity_id = ?", (entity,))


def key_of_fact(content: str) -> str:
    """Returns the same key for facts that differ only in case, spacing, character width or a final stop."""
    return " ".join(unicodedata.normalize("NFKC", content).casefold().split()).rstrip(".。!！ ")


def _clean(content: str) -> str:
    content = scrub(content).replace("\x00", " ").strip()
    if not key_of_fact(content):
        raise WriteRefused("a fact must not be empty; write it as one sentence", kind="empty")
    if len(content) > LONGEST:
        raise WriteRefused(
            f"a fact has at most {LONGEST:,} characters, this one has {len(content):,}; split it", kind="too_long"
        )
    return content


def _iso(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")


# Questions about the facts: search, probe, related, reason, contradict. Exact joins over entities and words decide what
# is found. Trust and age, and in a search the vectors, rank it.

CONTRADICTION = 0.3  # two facts with at least this score contradict each other
_DAY = 86_400.0
_MOST_WORDS = 32
_CANDIDATES = 3  # times the limit: what full text finds before the facts are ranked
_MOST_PER_SLOT = 40
_MOST_SLOTS = 2_000
_DIRECT_SHARE = 0.7  # of the results; the rest is reserved for facts that are one entity away
_MOST_NEIGHBOURS = 200
_TEXT_SHARE = 4 / 7  # of the weight that the vectors leave: the full-text rank; shared words have the rest

_BY_WORDS = """
    SELECT f.fact_id, bm25(facts_fts, 1.0, 0.5) FROM facts_fts JOIN facts f ON f.fact_id = facts_fts.rowid
    WHERE facts_fts MATCH ? AND f.trust_score >= ? AND (? IS NULL OR f.category = ?) ORDER BY 2 LIMIT ?
"""
_CROWDED_SLOTS = "SELECT slot FROM fact_claims GROUP BY slot HAVING count(*) > 1 ORDER BY max(fact_id) DESC LIMIT ?"


@dataclass(frozen=True, slots=True)
class Found:
    """A fact that answers a query, with its score and the entity that led to it."""

    fact: Fact
    score: float
    via: str = ""

    def shown(self) -> dict[str, Any]:
        """The fact as a tool result, with its score and the entity that led to it."""
        via = {"via": self.via} if self.via else {}
        return {**self.fact.shown(), "score": round(self.score, 4), **via}


class Reasoner:
    """Finds facts by words, entities and links between entities; `half_life_days` of 0 ignores their age."""

    def __init__(self, store: FactStore, *, hrr_weight: float = 0.3, half_life_days: float = 0.0) -> None:
        self.store = store
        self._hrr_weight = hrr_weight
        self._half_life = half_life_days

    def search(
        self, query: str, *, category: str | None = None, min_trust: float = 0.3, limit: int = 10
    ) -> list[Found]:
        """Facts that share words with the query, best first."""
        store = self.store
        pieces = [(written, stem) for written, stem in query_pieces(query, store.words) if written]
        content = [piece for piece in pieces if piece[0].casefold() not in STOP_WORDS] or pieces
        content = list(dict.fromkeys(content))[:_MOST_WORDS]
        if not content:
            return []
        match = " OR ".join('"' + written.replace('"', '""') + '"' for written, _ in content)
        rows = store.database.rows(_BY_WORDS, (match, min_trust, category, category, max(limit * _CANDIDATES, 20)))
        ranks = {fact_id: -rank for fact_id, rank in rows}
        best = max(ranks.values(), default=0.0) or 1.0
        asked = {stem for _, stem in content}
        vector = text_vector(sorted(asked), store.dimensions) if self._hrr_weight else b""
        found = []
        for fact in self._facts(ranks):
            has = set(store.words.of(fact.content)) | set(store.words.of(fact.tags))
            rank, common = ranks[fact.fact_id] / best, len(asked & has) / len(asked | has)
            words = _TEXT_SHARE * rank + (1 - _TEXT_SHARE) * common
            near = (similarity(vector, self._vector(fact)) + 1) / 2 if vector else 0.0
            score = (1 - self._hrr_weight) * words + self._hrr_weight * near
            found.append(Found(fact, score * self._weight(fact)))
        return _best(found, limit)

    def probe(self, entity: str, *, min_trust: float = 0.0, limit: int = 10) -> list[Found]:
        """Everything about an entity: facts that are linked to it, then facts that only contain its words."""
        return self._ranked(self._about(entity), min_trust, limit)

    def related(self, entity: str, *, min_trust: float = 0.0, limit: int = 10) -> list[Found]:
        """The entity's facts, then facts that share another entity with one of them."""
        about = self._about(entity)
        direct = self._ranked(about, min_trust, limit)
        own = {entity_id for entity_id, _ in self._entities(entity)}
        beyond: dict[int, str] = {}
        for fact_id in list(about)[:_MOST_NEIGHBOURS]:
            for entity_id, name in self._entities_of(fact_id):
                if entity_id not in own:
                    for other in self._facts_of(entity_id):
                        if other not in about:
                            beyond.setdefault(other, name)
        facts = [fact for fact in self._facts(beyond) if fact.trust >= min_trust]
        room = max(limit - len(direct), limit - int(limit * _DIRECT_SHARE))
        near = _best((Found(fact, 0.5 * self._weight(fact), beyond[fact.fact_id]) for fact in facts), room)
        return [*direct[: limit - len(near)], *near]

    def reason(self, entities: list[str], *, min_trust: float = 0.0, limit: int = 10) -> list[Found]:
        """Facts that name all the entities."""
        sets = [self._about(entity) for entity in entities]
        common = set(sets[0]).intersection(*sets[1:]) if sets else set()
        return self._ranked({fact_id: min(each[fact_id] for each in sets) for fact_id in common}, min_trust, limit)

    def contradict(
        self, *, entity: str = "", threshold: float = CONTRADICTION, limit: int = 10
    ) -> list[dict[str, Any]]:
        """Pairs of facts that cannot both be true, clearest first; with an entity, only pairs about it."""
        within = set(self._about(entity)) if entity else None
        pairs: dict[tuple[int, int], tuple[float, str]] = {}
        for (slot,) in self.store.database.rows(_CROWDED_SLOTS, (_MOST_SLOTS,)):
            self._compare(slot, within, pairs)
        best = sorted(pairs.items(), key=lambda each: (-each[1][0], -max(each[0])))
        shown = (self._pair(pair, score, why) for pair, (score, why) in best if score >= threshold)
        return list(islice(shown, limit))

    def conflicts_of(self, fact_id: int, threshold: float = CONTRADICTION) -> list[int]:
        """Returns the ids of the facts that this one contradicts."""
        pairs: dict[tuple[int, int], tuple[float, str]] = {}
        rows = self.store.database.rows("SELECT slot FROM fact_claims WHERE fact_id = ?", (fact_id,))
        for (slot,) in rows:
            self._compare(slot, {fact_id}, pairs)
        return [one if other == fact_id else other for (one, other), (score, _) in pairs.items() if score >= threshold]

    # --- how --------------------------------------------------------------------------------------------------------

    def _about(self, entity: str) -> dict[int, float]:
        """Facts about an entity with a confidence: 1 by name, 0.9 by a word of the name, 0.6 by words in the text."""
        found: dict[int, float] = {}
        for entity_id, sure in self._entities(entity):
            for fact_id in self._facts_of(entity_id):
                found[fact_id] = max(sure, found.get(fact_id, 0.0))
        pieces = [written for written, _ in query_pieces(key_of(entity), self.store.words)]
        if pieces:
            sql = "SELECT rowid FROM facts_fts WHERE facts_fts MATCH ? LIMIT ?"
            phrase = 'words : "' + " ".join(piece.replace('"', "") for piece in pieces) + '"'
            for (fact_id,) in self.store.database.rows(sql, (phrase, _MOST_NEIGHBOURS)):
                found.setdefault(fact_id, 0.6)
        return found

    def _entities(self, name: str) -> list[tuple[int, float]]:
        key = key_of(name)
        sql = "SELECT entity_id, kind FROM entity_names WHERE key = ? ORDER BY kind"
        found = [
            (entity_id, 1.0 if kind <= ALIAS else 0.9) for entity_id, kind in self.store.database.rows(sql, (key,))
        ]
        for part in parts_of(key):  # "Alice Johnson" is also the only Alice
            rows = self.store.database.rows(sql, (part,))
            owners = [entity_id for entity_id, kind in rows if kind == PART]
            if len(owners) == 1:
                found += [(entity_id, 0.8) for entity_id, kind in rows if kind <= ALIAS]
        return found

    def _facts_of(self, entity_id: int) -> list[int]:
        sql = "SELECT fact_id FROM fact_entities WHERE entity_id = ? ORDER BY fact_id DESC"
        return [fact_id for (fact_id,) in self.store.database.rows(sql, (entity_id,))]

    def _entities_of(self, fact_id: int) -> list[tuple[int, str]]:
        sql = "SELECT e.entity_id, e.name FROM fact_entities l JOIN entities e USING (entity_id) WHERE l.fact_id = ?"
        return [(entity_id, name) for entity_id, name in self.store.database.rows(sql, (fact_id,))]

    def _ranked(self, sure: dict[int, float], min_trust: float, limit: int) -> list[Found]:
        facts = [fact for fact in self._facts(sure) if fact.trust >= min_trust]
        return _best((Found(fact, sure[fact.fact_id] * self._weight(fact)) for fact in facts), limit)

    def _compare(self, slot: str, within: set[int] | None, pairs: dict[tuple[int, int], tuple[float, str]]) -> None:
        sql = "SELECT fact_id FROM fact_claims WHERE slot = ? ORDER BY fact_id DESC LIMIT ?"
        ids = [fact_id for (fact_id,) in self.store.database.rows(sql, (slot, _MOST_PER_SLOT))]
        if within is not None and within.isdisjoint(ids):
            return
        claims = [
            (fact.fact_id, claim)
            for fact in self._facts(ids)
            for claim in claims_of(fact.content)
            if claim.slot == slot
        ]
        for at, (one, claim) in enumerate(claims):
            for other, against in claims[:at]:
                if within is None or one in within or other in within:
                    found = conflict(claim, against)
                    pair = (min(one, other), max(one, other))
                    if found is not None and found.score > pairs.get(pair, (0.0, ""))[0]:
                        pairs[pair] = (found.score, found.why)

    def _pair(self, pair: tuple[int, int], score: float, why: str) -> dict[str, Any]:
        older, newer = (self.store.get(fact_id) for fact_id in pair)
        here, there = (dict(self._entities_of(fact_id)) for fact_id in pair)
        both, any_of = here.keys() & there.keys(), here.keys() | there.keys()
        return {
            "fact_a": older.shown(),
            "fact_b": newer.shown(),
            "entity_overlap": round(len(both) / len(any_of), 3) if any_of else 0.0,
            "content_similarity": round(similarity(self._vector(older), self._vector(newer)), 3),
            "contradiction_score": round(score, 3),
            "shared_entities": sorted(here[entity] for entity in both),
            "differs_in": why,
            "newer": newer.fact_id,
        }

    def _facts(self, ids: Any) -> list[Fact]:
        return self.store.facts_where("f.fact_id IN (SELECT value FROM json_each(?))", (json.dumps(list(ids)),))

    def _vector(self, fact: Fact) -> bytes:
        if len(fact.vector) == self.store.dimensions:
            return fact.vector
        # The setting has changed since this fact was stored: compute the vector again.
        names = [key_of(name) for _, name in self._entities_of(fact.fact_id)]
        return fact_vector(self.store.words.of(fact.content), names, self.store.dimensions)

    def _weight(self, fact: Fact) -> float:
        if not self._half_life:
            return fact.trust
        days = max(self.store.clock() - fact.updated_at, 0.0) / _DAY
        return float(fact.trust * 0.5 ** (days / self._half_life))


def _best(found: Iterable[Found], limit: int) -> list[Found]:
    return sorted(found, key=lambda each: (-each.score, -each.fact.fact_id))[:limit]


# Facts of hermes-agent.

KEPT, _NEW = ".hermes-agent", ".adopting"
_SIDES = ("", "-wal", "-shm", "-journal", ".lock")
_THEIRS = {"facts", "entities", "fact_entities", "memory_banks"}
_FACTS = """
    SELECT content, category, tags, trust_score, retrieval_count, helpful_count, created_at, updated_at
    FROM facts ORDER BY fact_id
"""
_AS_IT_WAS = """
    UPDATE facts SET trust_score = ?, retrieval_count = ?, helpful_count = ?, created_at = ?, updated_at = ?
    WHERE fact_id = ?
"""


def adopt(path: str, opened: Callable[[str], FactStore]) -> None:
    """Replaces hermes-agent's file with one of ours that has all its facts; does nothing if there is none.

    Keeps the original next to it. After a kill at any point, the next start finds the old file or the finished new one.
    """
    if not os.path.exists(path) and os.path.exists(path + _NEW) and os.path.exists(path + KEPT):
        os.rename(path + _NEW, path)  # an earlier attempt was killed between its last two steps
    rows = _their_facts(path)
    if rows is None:
        return
    for side in _SIDES:
        if os.path.exists(path + _NEW + side):
            os.remove(path + _NEW + side)
    store = opened(path + _NEW)
    try:
        _copy(store, rows)
    finally:
        store.close()
    kept = _free_name(path + KEPT)
    for side in _SIDES:
        if os.path.exists(path + side):
            os.rename(path + side, kept + side)
    os.rename(path + _NEW, path)


def _their_facts(path: str) -> list[Any] | None:
    """Every row of hermes-agent's file, or None if the file is not one."""
    if not os.path.isfile(path) or os.path.islink(path):
        return None
    try:
        connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
    except apsw.Error:
        return None  # opening it later reports what is wrong
    try:
        tables = {name for (name,) in all_rows(connection, "SELECT name FROM sqlite_schema WHERE type = 'table'")}
        if program_of(connection) is None or not tables >= _THEIRS:
            return None
        connection.pragma("wal_checkpoint(TRUNCATE)")
        return all_rows(connection, _FACTS)
    except apsw.NotADBError:
        return None
    except apsw.Error as error:
        raise StorageError(f"{path}, written by hermes-agent, cannot be read: {error}; move it away") from error
    finally:
        connection.close()


def _copy(store: FactStore, rows: list[Any]) -> None:
    """Copies each fact with its trust, counts and dates; entities are found again, because theirs contain errors."""
    with store.database.writing() as connection:
        for content, category, tags, trust, retrieved, helpful, created, updated in rows:
            fact_id, new = store.add(str(content), category=str(category or "general"), tags=str(tags or ""))
            if new:
                values = (float(trust), int(retrieved), int(helpful), _moment(created), _moment(updated), fact_id)
                connection.execute(_AS_IT_WAS, values)


def _free_name(path: str) -> str:
    number, candidate = 1, path
    while os.path.exists(candidate):
        number, candidate = number + 1, f"{path}.{number}"
    return candidate


def _moment(text: Any) -> float:
    """Parses SQLite's CURRENT_TIMESTAMP, which is UTC without a zone."""
    try:
        return datetime.fromisoformat(str(text)).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return datetime.now(UTC).timestamp()
