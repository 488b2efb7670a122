"""Whether facts come back right, and what another one costs: generated facts whose answers are known beforehand.

An answer counts as right only when it holds every fact it should and none it should not. Costs of a store with 100 and
one with 10,000 facts are taken in turns, so that a busy machine slows both.
"""

from __future__ import annotations

import random
import tempfile
from itertools import combinations
from typing import TYPE_CHECKING, Any

from benchmarks.measure import median, timed
from hermes.providers.facts.claims import find_entities
from hermes.providers.facts.store import CONTRADICTION, FactStore, Reasoner

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

FACTS = 80
SMALL, LARGE, ADDS = 100, 10_000, 60
_FIRST, _LAST, _HAN, _THINGS, _HAN_THINGS = (
    names.split()
    for names in (
        "Alice Bruno Chiara Dmitri Elena Farid Greta Hiro Ines Jonas Kaya Liam Mira Noor Otto Priya",
        "O'Brien Novak Rossi Weber Tanaka Silva D'Angelo Haddad Kowalski Larsen Mbeki Ortega",
        "张伟 王芳 李娜 刘洋 陈静 赵磊 孙丽 周杰 吴敏 郑强",
        "Apollo Borealis Cobalt Dynamo Ember Falcon Granite Helios Indigo Juniper Kestrel Lumen",
        "凤凰系统 长城平台 东海数据库 昆仑引擎 泰山网关 黄河缓存",
    )
)
_SAID = (
    "{0} maintains {1}", "{1} was reviewed by {0} last spring", "{0}'s notes about {1} are in the wiki",
    "{0} doesn't trust {1} yet", "the tests of {1} are written by {0}", "{0} and {1} were seen in the same audit",
)  # fmt: skip
_SAID_HAN = ("{0}负责{1}", "{0}使用{1}", "{0}喜欢{1}")
_SLOTS = (
    ("{0} lives in {1}", "Lisbon Oslo Quito Tunis"), ("{0} works at {1}", "Acme Globex Initech Umbrella"),
    ("{0}'s server listens on port {1}", "8080 9090 5432 6379"), ("{0} prefers {1} mode", "dark light"),
    ("the stand-up of {0} is on {1}", "Monday Tuesday Friday"), ("{0} likes olives", ""),
    ("{0}住在{1}", "北京 上海 广州"),
)  # fmt: skip
_ENTITIES: tuple[tuple[str, str], ...] = (
    ("Alice doesn't like Bob's code", "alice|bob"),
    ("Sinead O'Brien met Ludwig van Beethoven in New York", "sinead o'brien|ludwig van beethoven|new york"),
    ("Rex hates the vacuum cleaner", "rex"),
    ("It was Maria who fixed auth_service.py", "maria|auth_service.py"),
    ("The team 'Night Owls' uses \"Project X\"", "night owls|project x"),
    ("Robert aka Bob works at Acme", "robert|acme"),
    ("Jean-Luc's cat isn't called Data", "jean-luc|data"),
    ("Uses Python and prefers tabs", "python"),
    ("张伟住在北京", "张伟|北京"),
    ("李娜在阿里巴巴工作", "李娜|阿里巴巴"),
    ("王小明喜欢用Python", "王小明|python"),
    ("约翰·史密斯来自伦敦", "约翰·史密斯|伦敦"),
    ("陈先生负责凤凰项目", "陈先生|凤凰"),
    ("田中さんは東京に住んでいます", "田中|東京"),
)


def run(seed: int = 0, seeds: int = 5) -> dict[str, Any]:
    right = {"probe": 0, "related": 0, "reason": 0}
    asked = dict.fromkeys(right, 0)
    contradictions: list[float] = []
    others: list[float] = []
    pairs = 0
    for number in range(seed, seed + seeds):
        with tempfile.TemporaryDirectory() as folder:
            _questions(folder, random.Random(number), right, asked)  # noqa: S311 - made-up facts
        with tempfile.TemporaryDirectory() as folder:
            pairs += _contradictions(folder, random.Random(number), contradictions, others)  # noqa: S311
    return {
        "facts": FACTS,
        "seeds": seeds,
        **{f"{name}_right": right[name] / asked[name] for name in right},
        "questions": asked,
        "contradictions_found": sum(score >= CONTRADICTION for score in contradictions) / pairs,
        "lowest_contradiction": min(contradictions, default=0.0),
        "highest_other_pair": max(others, default=0.0),
        "entities_right": _entities_right(),
        "add": _cost(seed),
    }


def _entities_right() -> float:
    found = [{each.key for each in find_entities(text)} for text, _ in _ENTITIES]
    return sum(keys == set(names.split("|")) for keys, (_, names) in zip(found, _ENTITIES, strict=True)) / len(found)


# --- right answers --------------------------------------------------------------------------------------------------


def _questions(folder: str, chance: random.Random, right: dict[str, int], asked: dict[str, int]) -> None:
    store = FactStore.open(f"{folder}/facts.db")
    facts = {store.add(text)[0]: names for text, names in _generated(chance, FACTS)}
    reasoner = Reasoner(store)
    names = sorted({name for each in facts.values() for name in each})
    for name in names:
        wanted = _holding(facts, [name])
        asked["probe"] += 1
        right["probe"] += _ids(reasoner.probe(name, limit=FACTS)) == wanted
        asked["related"] += 1
        near = {other for each in wanted for partner in facts[each] for other in _holding(facts, [partner])}
        right["related"] += _ids(reasoner.related(name, limit=FACTS)) == near | wanted
    for pair in combinations(names, 2):
        wanted = _holding(facts, pair)
        if wanted:
            asked["reason"] += 1
            right["reason"] += _ids(reasoner.reason(list(pair), limit=FACTS)) == wanted
    store.close()


def _generated(chance: random.Random, count: int) -> Iterator[tuple[str, tuple[str, str]]]:
    """Facts that name two entities: people with one name or two, some with apostrophes, and some in Chinese."""
    people = [*_FIRST[:8], *(f"{first} {last}" for first, last in zip(_FIRST[8:], _LAST, strict=False))]
    seen: set[str] = set()
    while len(seen) < count:
        if chance.random() < 0.25:  # noqa: PLR2004 - a quarter
            names = (chance.choice(_HAN), chance.choice(_HAN_THINGS))
            text = chance.choice(_SAID_HAN).format(*names)
        else:
            names = (chance.choice(people), chance.choice(_THINGS))
            text = chance.choice(_SAID).format(*names)
        if text not in seen:
            seen.add(text)
            yield text, names


def _holding(facts: dict[int, tuple[str, str]], names: Iterable[str]) -> set[int]:
    return {fact_id for fact_id, held in facts.items() if all(name in held for name in names)}


def _ids(found: Iterable[Any]) -> set[int]:
    return {each.fact.fact_id for each in found}


# --- contradictions -------------------------------------------------------------------------------------------------


def _contradictions(folder: str, chance: random.Random, found: list[float], others: list[float]) -> int:
    """Plants pairs that cannot both hold among facts that share their entities; returns how many."""
    store = FactStore.open(f"{folder}/facts.db")
    for text, _ in _generated(chance, FACTS):
        store.add(text)
    planted: set[tuple[int, int]] = set()
    for slot, values in _SLOTS:
        name = chance.choice(_FIRST[:8] if slot.isascii() else _HAN)
        one, other = chance.sample(values.split(), 2) if values else ("", "")
        first, _ = store.add(slot.format(name, one))
        again = slot.format(name, other) if values else f"{name} does not like olives"
        planted.add((first, store.add(again)[0]))
    scores = {
        (pair["fact_a"]["fact_id"], pair["fact_b"]["fact_id"]): pair["contradiction_score"]
        for pair in Reasoner(store).contradict(threshold=0.0, limit=FACTS * FACTS)
    }
    store.close()
    found += [scores.get(pair, 0.0) for pair in planted]
    others += [score for pair, score in scores.items() if pair not in planted]
    return len(planted)


# --- cost -----------------------------------------------------------------------------------------------------------


def _cost(seed: int) -> dict[str, float]:
    """Milliseconds of one add to a small and to a large store."""
    chance = random.Random(seed)  # noqa: S311 - made-up facts
    with tempfile.TemporaryDirectory() as folder:
        small, large = (FactStore.open(f"{folder}/{size}.db") for size in (SMALL, LARGE))
        with large.database.writing():  # one transaction: only the adds that are timed are synced
            _fill(large, LARGE, chance)
        with small.database.writing():
            _fill(small, SMALL, chance)
        samples: dict[str, list[tuple[float, float]]] = {"small": [], "large": []}
        for number in range(ADDS):
            for name, store in (("small", small), ("large", large)):
                text = _unique(chance, LARGE + number)
                samples[name].append(timed(lambda store=store, text=text: store.add(text)))  # type: ignore[misc]
        small.close()
        large.close()
    wall = {name: median([each[0] for each in taken]) for name, taken in samples.items()}
    cpu = {name: median([each[1] for each in taken]) for name, taken in samples.items()}
    return {
        "at_100_ms": wall["small"],
        "at_10000_ms": wall["large"],
        "at_10000_over_at_100": wall["large"] / wall["small"],
        "cpu_at_10000_over_at_100": cpu["large"] / cpu["small"],
    }


def _fill(store: FactStore, count: int, chance: random.Random) -> None:
    for number in range(count):
        store.add(_unique(chance, number))


def _unique(chance: random.Random, number: int) -> str:
    name = f"{chance.choice(_FIRST)} {chance.choice(_LAST)}"
    return f"{name} works with {chance.choice(_THINGS)}{number % 500} and reported case {number}"
