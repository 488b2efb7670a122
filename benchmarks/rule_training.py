"""Learns the weights of rules and of facts that change, for bin/train-rules.

Three logistic regressions: which sentences state a rule and which calls it applies to (`tests/data/rules`), and which
statement replaces which (`tests/data/corrections`), all without the held-out sets. A message counts by the sentence
that sounds most like a rule, or like a correction. The figures in the reports are cross-validated: each author by
weights that were learnt from the others.
"""

from __future__ import annotations

import glob
import json
import math
import os
import random
import sys
from collections import Counter
from datetime import datetime
from itertools import permutations
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from benchmarks.rules import FOLDER
from benchmarks.training import with_interval
from hermes.base import claims, linear
from hermes.memory import rules
from hermes.memory.rules import sentences_of, stated_rules
from hermes.memory.triggers import Situation, evidence, tables, trigger_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

GLUE = """
a an the i me my you your we our us he she it they him her his their them this that these those is are was were be been
am do does did don't doesn't didn't not no never always every each all any only if when whenever before after once while
until unless without with for from to in on at of by as and or but so than then must should shall can could may might
will would please have has had need needs want let make sure just there here what which who how why where ever both
nothing nobody everything anything keep use stop avoid ask
"""
STRENGTH, WORDING_STRENGTH, FIRING_STRENGTH = 90.0, 40.0, 0.003  # what scikit-learn calls C
FACTS = "facts"  # the author of what is no rule, but a fact that may change
EXAMPLES = "examples"  # short notes for training: nobody checked which of their rules overlap
FEWEST_TEXTS = 4  # that a word must be in, to be known as more or less rare
RECOGNISED = 0.8  # a score at which about one ordinary message in forty is taken for a rule
CORRECTIONS = os.path.join(os.path.dirname(FOLDER), "corrections")
FILLED = 6  # pairs that are made of a frame
OTHERS, OTHER_PAIRS, MOST_APART = (
    " others",
    12,
    4000,
)  # statements that only happen to share a word, and how many for each
LIKELY_WRONG, SURELY_WRONG = 0.12, 0.02  # share of alike pairs of unseen authors that may be taken for corrections
FIRED = 0.018  # share of the calls of an author that a rule may fire on although it does not apply


def read_files(folder: str) -> dict[str, list[dict[str, Any]]]:
    """The rows of all sets but the held-out ones, by their names."""
    found: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(glob.glob(f"{folder}/*.jsonl")):
        name = os.path.basename(path).removesuffix(".jsonl")
        if "held-out" not in name:
            with open(path, encoding="utf-8") as file:
                found[name] = [json.loads(line) | {"set": name} for line in file if line.strip()]
    return found


def read_sets() -> dict[str, list[dict[str, Any]]]:
    """The rows of the rules by author: all files that one author wrote are left out together."""
    found: dict[str, list[dict[str, Any]]] = {}
    for name, rows in read_files(FOLDER).items():
        found.setdefault(name if name.startswith("author") else name.split("-")[0], []).extend(rows)
    return found


class Examples:
    """Texts that count by the heaviest of their alternatives, such as the sentences of a message."""

    def __init__(
        self, found: Iterable[tuple[str, bool, list[set[int]]]], size: int = linear.PLACES, strength: float = STRENGTH
    ) -> None:
        rows = list(found)
        self.authors = np.array([author for author, _, _ in rows])
        self.states = np.array([states for _, states, _ in rows])
        self.size, self.strength = size, strength
        self.places = [alternatives or [set()] for _, _, alternatives in rows]

    def fit(self, chosen: Any) -> tuple[Any, float]:
        """Twice: at first each alternative counts, then the heaviest."""
        weights, _ = self._fit([(part, at) for at in chosen for part in self.places[at]])
        heaviest = [(max(self.places[at], key=lambda part: _score(part, weights)), at) for at in chosen]
        return self._fit(heaviest)

    def cross_validated(self) -> Any:
        """The score of each example by weights that were learnt from the other authors."""
        scores = np.zeros(len(self.states))
        writers = np.array([author.removesuffix(OTHERS) for author in self.authors])
        for writer in sorted(set(writers)):
            weights, bias = self.fit(np.flatnonzero(writers != writer))
            for at in np.flatnonzero(writers == writer):
                scores[at] = max(_score(part, weights) for part in self.places[at]) + bias
        return scores

    def table(self) -> tuple[bytes, dict[str, float]]:
        """The weights that all authors give, as a file, and what it takes to read it."""
        weights, bias = self.fit(np.arange(len(self.states)))
        step = float(np.abs(weights).max()) / 127
        table = np.clip(np.rint(weights / step), -127, 127).astype(np.int8).tobytes()
        return table, {"bias": round(bias, 5), "step": step}

    def _fit(self, parts: Sequence[tuple[set[int], int]]) -> tuple[Any, float]:
        table = sparse.lil_matrix((len(parts), self.size))
        for row, (part, _) in enumerate(parts):
            table[row, sorted(part)] = (len(part) + linear.SMOOTHING) ** -0.5
        model = LogisticRegression(C=self.strength, solver="liblinear", random_state=0)
        model.fit(table.tocsr(), [self.states[at] for _, at in parts])
        return model.coef_[0], float(model.intercept_[0])


def _score(part: Iterable[int], weights: Any) -> float:
    places = list(part)
    return float(weights[places].sum() * (len(places) + linear.SMOOTHING) ** -0.5)


def recognition(sets: dict[str, list[dict[str, Any]]]) -> tuple[bytes, dict[str, Any], dict[str, Any]]:
    """The table of what states a rule, its numbers, and the cross-validated shares."""
    messages = [(author, row) for author, rows in sets.items() for row in rows if row["kind"] != "call"]
    messages += [(FACTS, {"kind": "not_rule", "said": said}) for said in sorted(_facts())]
    examples = (
        (
            author,
            row["kind"] == "rule",
            [linear.places(rules.wording(said, at), rules.PLACES) for at in range(len(said))],
        )
        for author, row in messages
        for said in [sentences_of(row["said"])]
    )
    read = Examples(examples, rules.PLACES, WORDING_STRENGTH)
    unseen = read.cross_validated()
    threshold = RECOGNISED
    report = {
        author: {
            "recognised": _share(unseen[(read.authors == author) & read.states] > threshold),
            "mistaken": _share(unseen[(read.authors == author) & ~read.states] > threshold),
        }
        for author in sorted(set(read.authors))
    }
    table, known = read.table()
    return table, known | {"threshold": round(threshold, 4)}, report


def _facts() -> set[str]:
    """What people tell in the corrections: statements and small talk, which are no rules."""
    rows = [row for rows in read_files(CORRECTIONS).values() for row in rows if row.get("kind") != "slots"]
    return {said for row in rows for said in row.get("said") or (row["first"], row["later"])}


# --- facts that change ------------------------------------------------------------------------------------------------


def corrections() -> tuple[bytes, dict[str, Any], dict[str, Any]]:
    """The table of what replaces what, its numbers, and the cross-validated shares."""
    read = Examples(_pairs_of_statements())
    unseen = read.cross_validated()
    alike = ~read.states & np.array([not author.endswith((OTHERS, "slots")) for author in read.authors])
    likely, sure = (float(np.quantile(unseen[alike], 1 - share)) for share in (LIKELY_WRONG, SURELY_WRONG))
    report = {}
    for author in sorted(set(read.authors)):
        own = unseen[read.authors == author], read.states[read.authors == author]
        report[author] = {
            name: {"likely": _share(scores > likely), "sure": _share(scores > sure)}
            for name, scores in (("replaced", own[0][own[1]]), ("alike", own[0][~own[1]]))
        }
    table, known = read.table()
    return table, {"table": known, "likely": round(likely, 4), "sure": round(sure, 4)}, report


def _pairs_of_statements() -> Iterable[tuple[str, bool, list[set[int]]]]:
    """Corrections, pairs of which both hold, and statements of one author that have little in common."""
    chance = random.Random(0)  # noqa: S311 - chooses examples
    for author, rows in read_files(CORRECTIONS).items():
        for row in rows:
            if row.get("kind") == "apart":
                pairs = [found for each in permutations(row["said"], 2) if (found := _alternatives(*each))]
                for found in chance.sample(pairs, min(MOST_APART, len(pairs))):
                    yield f"{author}{OTHERS}", False, found
                continue
            if row.get("kind") == "slots":
                yield from ((author, corrects, _alternatives(*pair)) for pair, corrects in _filled(row, chance))
                continue
            corrects = row.get("kind") != "independent"
            yield author, corrects, _alternatives(row["first"], row["later"])
            if not corrects:
                yield author, False, _alternatives(row["later"], row["first"])
        said = [row for row in rows if "first" in row]
        for row in said:
            words = claims.claim_of(row["first"]).words
            others = [
                each["later"] for each in said
                if 0 < len(claims.claim_of(each["later"]).words & words) < len(words) / 2 and each is not row
            ]  # fmt: skip
            for later in chance.sample(others, min(OTHER_PAIRS, len(others))):
                yield f"{author}{OTHERS}", False, _alternatives(row["first"], later)


def _filled(row: dict[str, Any], chance: random.Random) -> Iterable[tuple[tuple[str, str], bool]]:
    """Sentences with the same words around two slots: `one` has one value for a subject, `many` several at once."""
    for frame in (*row["one"], *row["many"]):
        for _ in range(FILLED):
            subject, other = (
                (chance.sample(row["subjects"], 2) * 2)[:2] if len(row["subjects"]) > 1 else row["subjects"] * 2
            )
            value, changed = chance.sample(row["values"], 2)
            said = frame.format(subject, value)
            yield (said, frame.format(subject, changed)), frame in row["one"]
            if other != subject:
                yield (said, frame.format(other, chance.choice((value, changed)))), False


def _alternatives(first: str, later: str) -> list[set[int]]:
    olds = [claims.claim_of(each) for each in claims.sentences(first)]
    news = [claims.claim_of(each) for each in claims.parts(later)]
    return [linear.places(claims.evidence(old, new)) for old in olds for new in news if old.words & new.words]


# --- rules and calls of tools -----------------------------------------------------------------------------------------


class Pairs:
    """Each rule with each call of its set, as evidence."""

    def __init__(self, sets: dict[str, list[dict[str, Any]]]) -> None:
        found: list[tuple[str, bool, dict[str, float] | None]] = []
        for author, rows in sets.items():
            for name in sorted({row["set"] for row in rows}):
                rules = [row for row in rows if row["set"] == name and row["kind"] == "rule"]
                said = {row["id"]: next(iter(stated_rules(row["said"])), row["said"]) for row in rules}
                for row in rows:
                    if row["set"] == name and row["kind"] == "call":
                        found += [(author, *pair) for pair in _pairs(said, row)]
        self.authors = np.array([author for author, _, _ in found])
        self.applies = np.array([fits for _, fits, _ in found])
        self.timely = np.array([each is not None for _, _, each in found])
        self.names = sorted({name for _, _, each in found for name in each or ()})
        self.table: Any = np.zeros((len(found), len(self.names)), dtype=np.float32)
        places = {name: at for at, name in enumerate(self.names)}
        for at, (_, _, each) in enumerate(found):
            for name, size in (each or {}).items():
                self.table[at, places[name]] = size

    def fit(self, chosen: Any) -> tuple[Any, float]:
        """The weights of the evidence as it is, learnt where each kind of it has the same spread."""
        table, spread = self.table[chosen], self.table[chosen].std(axis=0) + 1e-9
        model = LogisticRegression(C=FIRING_STRENGTH, max_iter=300)
        model.fit((table - table.mean(axis=0)) / spread, self.applies[chosen])
        weights = model.coef_[0] / spread
        return weights, float(model.intercept_[0] - (weights * table.mean(axis=0)).sum())

    def calibrated(self, chosen: Any) -> tuple[Any, float]:
        """The same, with a bias that keeps the share of wrong firings low for each of the authors."""
        weights, bias = self.fit(chosen & self.timely)
        scores_of = np.where(self.timely, self.table @ weights + bias, -99.0)
        written = {*self.authors[chosen]} - {EXAMPLES}
        wrong = [scores_of[chosen & ~self.applies & (self.authors == each)] for each in written]
        return weights, bias - max(float(np.quantile(each, 1 - FIRED)) for each in wrong)


def _pairs(said: dict[str, str], row: dict[str, Any]) -> Iterable[tuple[bool, dict[str, float] | None]]:
    now = Situation(row["tool"], row["arguments"], row.get("user", ""), datetime.fromisoformat(row["at"]))
    for name, text in said.items():
        if name in row["applies"] or name not in row.get("may", ()):
            times = trigger_of(text).times
            timely = not times or any(window.holds(moment) for window in times for moment in now.moments())
            yield name in row["applies"], evidence(text, now, timed=bool(times)) if timely else None


def firing(sets: dict[str, list[dict[str, Any]]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The weights of the evidence, and the cross-validated shares."""
    read = Pairs(sets)
    report = {}
    for author in sorted(set(read.authors)):
        weights, bias = read.calibrated(read.authors != author)
        fires = read.timely & (read.table @ weights + bias > 0)
        own = read.authors == author
        report[author] = {
            "fired": _share(fires[own & read.applies]),
            "others": _share(fires[own & ~read.applies]),
        }
    weights, bias = read.calibrated(read.authors != "")
    named = {name: round(float(each), 4) for name, each in zip(read.names, weights, strict=True)}
    return {"bias": round(bias, 4), "weights": named}, report


def _share(hits: Any) -> str:
    return with_interval(int(hits.sum()), len(hits)) if len(hits) else "none"


def rarity(sets: dict[str, list[dict[str, Any]]]) -> dict[str, float]:
    """How rare a word is among the messages of the sets; the rarer, the more two texts with it have in common."""
    texts = [row["said"] for rows in sets.values() for row in rows if row["kind"] != "call"]
    uses = Counter(stem for text in texts for stem in tables().topics(text))
    known = {stem: math.log(len(texts) / count) for stem, count in uses.items() if count >= FEWEST_TEXTS}
    return {"": round(math.log(len(texts) / 2), 2)} | {stem: round(known[stem], 2) for stem in sorted(known)}


def main(source: str) -> None:
    table, known, report = corrections()
    _write(f"{source}/base/data/claims", known | {"cross_validated": report}, table)
    print(json.dumps(report, indent=1))
    sets = read_sets()
    numbers: dict[str, Any] = {"glue": sorted(GLUE.split()), "rarity": rarity(sets)}
    _write(f"{source}/memory/data/rules", numbers)
    table, recognised, recognised_report = recognition(sets)
    numbers["table"] = recognised
    _write(f"{source}/memory/data/rules", numbers, table)
    fired, fired_report = firing(sets)
    report = {"recognised": recognised_report, "fired": fired_report}
    _write(f"{source}/memory/data/rules", numbers | {"fired": fired, "cross_validated": report})
    print(json.dumps(report, indent=1))


def _write(name: str, numbers: dict[str, Any], table: bytes = b"") -> None:
    with open(f"{name}.json", "w", encoding="utf-8") as file:
        file.write(json.dumps(numbers, indent=0, ensure_ascii=False) + "\n")
    if table:
        with open(f"{name}.bin", "wb") as binary:
            binary.write(table)
    linear.numbers.cache_clear()


if __name__ == "__main__":
    main(*sys.argv[1:])
