"""Answers questions about the facts: search, probe, related, reason, contradict.

Exact joins over entities and words decide what is found. Trust and age, and in a search the vectors, rank it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from hermes.base.words import STOP_WORDS, query_pieces
from hermes.providers.facts.claims import claims_of, conflict, key_of, parts_of
from hermes.providers.facts.store import ALIAS, PART, fact_vector, similarity, text_vector

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hermes.providers.facts.store import Fact, FactStore


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
