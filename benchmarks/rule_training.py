"""Learns the weights of rules for bin/train-rules: which sentences state one, and which calls a rule applies to.

Two logistic regressions, from `tests/data/rules` without its held-out sets. A message that states a rule counts by the
sentence that sounds most like one. The figures in the report are cross-validated: each author by weights that were
learnt from the others.
"""

from __future__ import annotations

import glob
import json
import math
import os
import sys
from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from benchmarks.rules import FOLDER
from benchmarks.training import with_interval
from hermes.memory import scores
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
STRENGTH, FIRING_STRENGTH = 10.0, 0.1  # what scikit-learn calls C
EXAMPLES = "examples"  # short notes for training: nobody checked which of their rules overlap
FEWEST_TEXTS = 4  # that a word must be in, to be known as more or less rare
MISTAKEN = 0.05  # share of other messages of unseen authors that may be taken for rules
FIRED = 0.018  # share of the calls of an author that a rule may fire on although it does not apply


def read_sets() -> dict[str, list[dict[str, Any]]]:
    """The rows of the sets by author: all files that one author wrote are left out together."""
    found: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(glob.glob(f"{FOLDER}/*.jsonl")):
        name = os.path.basename(path).removesuffix(".jsonl")
        if "held-out" not in name:
            author = name if name.startswith("author") else name.split("-")[0]
            with open(path, encoding="utf-8") as file:
                rows = [json.loads(line) | {"set": name} for line in file if line.strip()]
            found.setdefault(author, []).extend(rows)
    return found


class Sentences:
    """The messages of the sets, as sentences and their places in the table."""

    def __init__(self, sets: dict[str, list[dict[str, Any]]]) -> None:
        rows = [(author, row) for author, each in sets.items() for row in each if row["kind"] != "call"]
        self.authors = np.array([author for author, _ in rows])
        self.states = np.array([row["kind"] == "rule" for _, row in rows])
        self.places = [[scores.wording(part) for part in sentences_of(row["said"])] or [set()] for _, row in rows]

    def fit(self, chosen: Any) -> tuple[Any, float]:
        """Twice: at first each sentence of a message counts, then the one that sounds most like a rule."""
        weights, _ = self._fit([(part, at) for at in chosen for part in self.places[at]])
        heaviest = [(max(self.places[at], key=lambda part: _score(part, weights)), at) for at in chosen]
        return self._fit(heaviest)

    def score(self, at: int, weights: Any, bias: float) -> float:
        return max(_score(part, weights) for part in self.places[at]) + bias

    def _fit(self, parts: Sequence[tuple[set[int], int]]) -> tuple[Any, float]:
        table = sparse.lil_matrix((len(parts), scores.PLACES))
        for row, (part, _) in enumerate(parts):
            table[row, sorted(part)] = (len(part) + scores.SMOOTHING) ** -0.5
        model = LogisticRegression(C=STRENGTH * 9, solver="liblinear", random_state=0)
        model.fit(table.tocsr(), [self.states[at] for _, at in parts])
        return model.coef_[0], float(model.intercept_[0])


def _score(part: Iterable[int], weights: Any) -> float:
    places = list(part)
    return float(weights[places].sum() * (len(places) + scores.SMOOTHING) ** -0.5)


def recognition(sets: dict[str, list[dict[str, Any]]]) -> tuple[bytes, dict[str, Any], dict[str, Any]]:
    """The table, its numbers, and the cross-validated shares."""
    read = Sentences(sets)
    unseen = np.zeros(len(read.states))
    for author in sorted(set(read.authors)):
        weights, bias = read.fit(np.flatnonzero(read.authors != author))
        for at in np.flatnonzero(read.authors == author):
            unseen[at] = read.score(int(at), weights, bias)
    others = unseen[~read.states & (read.authors != EXAMPLES)]
    threshold = float(np.quantile(others, 1 - MISTAKEN))
    weights, bias = read.fit(np.arange(len(read.states)))
    step = float(np.abs(weights).max()) / 127
    report = {
        author: {
            "recognised": _share(unseen[(read.authors == author) & read.states] > threshold),
            "mistaken": _share(unseen[(read.authors == author) & ~read.states] > threshold),
        }
        for author in sorted(set(read.authors))
    }
    table = np.clip(np.rint(weights / step), -127, 127).astype(np.int8).tobytes()
    return table, {"bias": round(bias, 5), "step": step, "threshold": round(threshold, 4)}, report


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
        self.names = sorted(next(each for _, _, each in found if each is not None))
        zero = dict.fromkeys(self.names, 0.0)
        self.table = np.array([[(each or zero)[name] for name in self.names] for _, _, each in found], dtype=np.float32)

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


def main(folder: str) -> None:
    sets = read_sets()
    scores.numbers.cache_clear()
    numbers: dict[str, Any] = {"glue": sorted(GLUE.split()), "rarity": rarity(sets)}
    _write(folder, numbers)
    table, recognised, recognised_report = recognition(sets)
    with open(f"{folder}/rules.bin", "wb") as file:
        file.write(table)
    _write(folder, numbers | {"recognised": recognised})
    fired, fired_report = firing(sets)
    report = {"recognised": recognised_report, "fired": fired_report}
    _write(folder, numbers | {"recognised": recognised, "fired": fired, "cross_validated": report})
    print(json.dumps(report, indent=1))


def _write(folder: str, numbers: dict[str, Any]) -> None:
    with open(f"{folder}/rules.json", "w", encoding="utf-8") as file:
        file.write(json.dumps(numbers, indent=0, ensure_ascii=False) + "\n")
    scores.numbers.cache_clear()


if __name__ == "__main__":
    main(*sys.argv[1:])
