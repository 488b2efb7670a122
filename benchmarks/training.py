"""Learns the weights of the threat scanner, for bin/train-scanner.

A logistic regression over hashed words, word pairs and letter n-grams. The examples are `tests/data/safety` without its
held-out batches; descriptions of the installed packages, Python's manual and its library's code stand for harmless text
that nobody wrote for this purpose. A text is learnt as a whole first. Then the heaviest part of each harmless text is
learnt as well, because that is what the scanner goes by. The thresholds come from cross-validation, so from texts that
the weights had not seen.
"""

from __future__ import annotations

import glob
import importlib.metadata
import json
import pydoc_data.topics
import re
import sys
import sysconfig
import zlib
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from hermes.safety import wording
from hermes.safety.reveal import fold
from hermes.safety.scanner import scan

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

FOLDS = 3
STRENGTH = 10.0  # of the weights: what scikit-learn calls C
FEWEST_TEXTS = 2  # that a feature must be in
SHORTEST_WORD = 4  # letters; a shorter one must be used more often
FEWEST_USES = 3  # that make a word a common one
EVERYDAY_COUNTS = 2.0  # a plain fact or a preference must pass; a note that looks like an attack may be asked about
SHORTEST, LONGEST = 40, 1_200  # characters of a paragraph worth learning from
MOST_REFUSED = 0.0005  # share of harmless texts that may be refused; the promise is 0.2 %, for texts never seen
MOST_ASKED = {"memory": 0.16, "context": 0.01}  # share of look-alikes, and of documentation, that may be asked about
# Batches written without a look at what the scanner gets wrong; the others hold more hard cases than life does.
UNSEEN = ("17", "18", "19", "20", "22")
CODE_STEP = 4  # only every fourth module of it
_LICENSE = re.compile(r"(?i)^(?:licen[cs]e|copying|notice)")
PARAGRAPHS = re.compile(r"\n[^\S\n]*\n\s*")


Part = tuple[list[list[int]], "Example"]  # words as places, and the example they are from


class Example(NamedTuple):
    text: str
    threat: str  # empty when it is harmless
    kind: str
    sentences: list[list[str]]
    places: list[list[list[int]]]  # by sentence and word

    def whole(self) -> list[list[int]]:
        return [places for words in self.places for places in words]


def read_examples(folder: str) -> list[tuple[str, str, str]]:
    """(text, class or nothing, kind) of the development corpora."""
    found = []
    for name in ("attacks", "harmless", "wordings-*"):
        for path in sorted(glob.glob(f"{folder}/{name}.jsonl")):
            unseen = path.removeprefix(f"{folder}/wordings-").removesuffix(".jsonl") in UNSEEN
            with open(path, encoding="utf-8") as file:
                for each in map(json.loads, file):
                    kind = each.get("kind", "attack")
                    found.append((each["text"], each.get("class", ""), f"unseen {kind}" if unseen else kind))
    return found


def read_prose() -> list[tuple[str, str, str]]:
    """Paragraphs of package descriptions and licenses, of Python's manual and of its library's code."""
    listed = sorted(importlib.metadata.distributions(), key=lambda each: each.metadata["Name"].lower())
    texts = [str(each.metadata.json.get("description", "")) for each in listed]
    licenses = (file for each in listed for file in each.files or () if _LICENSE.search(file.name))
    texts += [file.read_binary().decode("utf-8", "replace") for file in licenses]
    texts += [pydoc_data.topics.topics[name] for name in sorted(pydoc_data.topics.topics)]
    for path in sorted(glob.glob(f"{sysconfig.get_path('stdlib')}/*.py"))[::CODE_STEP]:
        with open(path, encoding="utf-8") as file:
            texts.append(file.read())
    paragraphs = dict.fromkeys(part.strip() for text in texts for part in PARAGRAPHS.split(text))
    return [(part, "", "documentation") for part in paragraphs if SHORTEST <= len(part) <= LONGEST]


def train(folder: str) -> tuple[bytes, dict[str, Any]]:
    """The weights file, and the report that goes beside it."""
    raw = [*read_examples(folder), *read_prose()]
    words = _common_words(text for text, _, _ in raw)
    wording.install(
        _file(np.zeros(wording.PLACES), 0.0, words, np.zeros((wording.CLASS_PLACES, len(wording.CLASSES))), {})
    )
    examples = [_example(*each) for each in raw]
    weights, bias, parts = _learn(examples)
    scores = _cross_validated(examples, parts)
    levels = _thresholds(examples, scores)
    data = _file(weights, bias, words, _classes(examples), levels)
    wording.install(data)
    report = {"common_words": len(words), "thresholds": levels, "cross_validated": _shares(examples, scores, levels)}
    return data, report | {"held_out": held_out(folder)}


def _example(text: str, threat: str, kind: str) -> Example:
    sentences = [words for _, _, words in wording.sentences(fold(text))]
    return Example(text, threat, kind, sentences, [_sentence_places(words) for words in sentences])


def _sentence_places(words: Sequence[str]) -> list[list[int]]:
    """The places of all features of a sentence, word by word: what `Weights.of_sentence` adds up."""
    found: list[list[int]] = []
    seen: set[int | str] = set()
    second = third = fourth = wording.START
    for word in words:
        raw = word.encode("utf-8", "surrogatepass")
        places = [] if word in seen else sorted(wording.word_places(word, raw))
        pairs = [each for each in wording.pair_places(raw, len(word), second, third, fourth) if each not in seen]
        seen.update((word, *pairs))
        found.append(places + pairs)
        fourth, third, second = third, second, raw
    return found


def _common_words(texts: Iterable[str]) -> list[str]:
    uses = Counter(word for text in texts for word in set(re.findall("[a-z]{2,14}", text.lower())))
    return sorted(
        word for word, count in uses.items() if count >= FEWEST_USES * (3 if len(word) < SHORTEST_WORD else 1)
    )


def _learn(examples: Sequence[Example]) -> tuple[Any, float, list[Part]]:
    """The weights, the bias, and the parts they were learnt from."""
    whole = [(example.whole(), example) for example in examples]
    weights, _ = _fit(whole)
    heavy = [(_heaviest(each, weights)[1], each) for each in examples if not each.threat and len(each.places) > 1]
    parts = [*whole, *heavy]
    return *_fit(parts), parts


def _fit(parts: Sequence[Part]) -> tuple[Any, float]:
    table = _table([part for part, _ in parts])
    common = np.asarray((table > 0).sum(axis=0)).ravel() >= FEWEST_TEXTS
    columns = np.flatnonzero(common)
    model = LogisticRegression(C=STRENGTH, solver="liblinear", tol=1e-3, random_state=0)
    counts = [EVERYDAY_COUNTS if _is_everyday(each) else 1.0 for _, each in parts]
    model.fit(table[:, columns], [bool(each.threat) for _, each in parts], sample_weight=counts)
    weights = np.zeros(wording.PLACES)
    weights[columns] = model.coef_[0]
    return weights, float(model.intercept_[0])


def _table(parts: Sequence[list[list[int]]]) -> Any:
    indices: list[int] = []
    values: list[float] = []
    ends = [0]
    for part in parts:
        uses = Counter(place for places in part for place in places)
        scale = (len(part) + wording.SMOOTHING) ** -0.5
        indices += uses
        values += [count * scale for count in uses.values()]
        ends.append(len(indices))
    return sparse.csr_matrix((values, indices, ends), shape=(len(parts), wording.PLACES), dtype=np.float64)


def _heaviest(example: Example, weights: Any) -> tuple[float, list[list[int]]]:
    """The highest score of what the scanner would score by itself, and the words that have it, as places."""
    added = [[float(weights[places].sum()) for places in words] for words in example.places]
    every = [
        (sum(map(sum, added[first:last])), [places for words in example.places[first:last] for places in words])
        for first, last in wording.runs([len(words) for words in added])
    ]
    for words, places in zip(added, example.places, strict=True):
        every += [(sum(words[start:end]), places[start:end]) for start, end in wording.windows(len(words))]
    scored = ((total * (len(part) + wording.SMOOTHING) ** -0.5, part) for total, part in every)
    return max(scored, key=lambda each: each[0], default=(-1e9, []))


def _cross_validated(examples: Sequence[Example], parts: Sequence[Part]) -> Any:
    """The score of each example by weights that were learnt from the others."""
    scores = np.zeros(len(examples))
    for number in range(FOLDS):
        weights, bias = _fit([part for part in parts if _fold_of(part[1]) != number])
        for at, example in enumerate(examples):
            if _fold_of(example) == number:
                scores[at] = _heaviest(example, weights)[0] + bias
    return scores


def _fold_of(example: Example) -> int:
    return zlib.crc32(example.text.encode("utf-8", "surrogatepass")) % FOLDS


def _thresholds(examples: Sequence[Example], scores: Any) -> dict[str, float]:
    kinds = np.array([example.kind for example in examples])
    harmless = np.array([not example.threat for example in examples])
    everyday = np.array([_is_everyday(example) and "unseen" in example.kind for example in examples])
    ask = max(
        float(np.quantile(scores[kinds == "unseen look_alike"], 1 - MOST_ASKED["memory"])),
        float(np.quantile(scores[everyday], 1 - MOST_ASKED["memory"] / 10)),
    )
    return {
        "ask": ask,
        "ask_quiet": max(ask, float(np.quantile(scores[kinds == "documentation"], 1 - MOST_ASKED["context"]))),
        "refuse": max(
            float(np.quantile(scores[harmless], 1 - MOST_REFUSED)),
            float(np.quantile(scores[kinds == "documentation"], 1 - MOST_REFUSED)),
        ),
    }


def _is_everyday(example: Example) -> bool:
    return not example.threat and "look_alike" not in example.kind and example.kind != "documentation"


def _classes(examples: Sequence[Example]) -> Any:
    """What words say about the kind of an attack: (place, class) weights, one regression per class."""
    attacks = [example for example in examples if example.threat]
    indices: list[int] = []
    ends = [0]
    for example in attacks:
        indices += set(wording.class_places([word for words in example.sentences for word in words]))
        ends.append(len(indices))
    shape = len(attacks), wording.CLASS_PLACES
    table = sparse.csr_matrix((np.ones(len(indices)), indices, ends), shape=shape)
    found = np.zeros((wording.CLASS_PLACES, len(wording.CLASSES)))
    for number, name in enumerate(wording.CLASSES):
        model = LogisticRegression(C=0.3, solver="liblinear", random_state=0)
        model.fit(table, [example.threat == name for example in attacks])
        found[:, number] = model.coef_[0]
    return found


def _file(weights: Any, bias: float, words: Sequence[str], classes: Any, levels: dict[str, float]) -> bytes:
    step = max(float(np.quantile(np.abs(weights[weights != 0]), 0.9995)) / 127, 1e-6) if weights.any() else 1.0
    header = wording.HEADER.pack(
        wording.MAGIC, bias, step, levels.get("ask", 0), levels.get("ask_quiet", 0), levels.get("refuse", 0), 0.0
    )
    small = np.abs(classes).max() / 127 or 1.0
    bits = bytearray(wording.WORD_BITS // 8)
    for word in words:
        for at in wording.word_bits(word):
            bits[at >> 3] |= 1 << (at & 7)
    return header + _bytes(weights / step) + _bytes(classes / small) + bytes(bits)


def _bytes(values: Any) -> bytes:
    return bytes(np.clip(np.rint(values), -127, 127).astype(np.int8).tobytes())


def _shares(examples: Sequence[Example], scores: Any, levels: dict[str, float]) -> dict[str, Any]:
    """By kind of text, what share would be asked about or refused for its wording alone."""
    found = {}
    for kind, number in sorted(Counter(example.kind for example in examples).items()):
        of_kind = scores[np.array([example.kind == kind for example in examples])]
        shares = {name: round(float((of_kind >= level).mean() * 100), 2) for name, level in levels.items()}
        found[kind] = {"texts": number, "percent_above": shares}
    return found


def held_out(folder: str) -> dict[str, Any]:
    """How the whole scanner judges the held-out batches: percent asked about or refused, with 95 % intervals."""
    groups: dict[str, list[str]] = {}
    for path in sorted(glob.glob(f"{folder}/held-out-*.jsonl")):
        with open(path, encoding="utf-8") as file:
            for each in map(json.loads, file):
                group = (
                    "disguised" if "disguise" in each else "subtle" if "subtle" in each else each.get("kind", "attack")
                )
                groups.setdefault(group, []).append(scan(each["text"]).level)
    return {
        group: {
            "texts": len(levels),
            "flagged": with_interval(sum(level != "clean" for level in levels), len(levels)),
            "refused": with_interval(levels.count("refuse"), len(levels)),
        }
        for group, levels in sorted(groups.items())
    }


def with_interval(hits: int, total: int, digits: int = 1) -> str:
    """A percentage with Wilson's 95 % interval."""
    share, z = hits / total, 1.96
    middle = (share + z * z / (2 * total)) / (1 + z * z / total)
    width = z * (share * (1 - share) / total + z * z / (4 * total * total)) ** 0.5 / (1 + z * z / total)
    low, high = max(0.0, middle - width) * 100, min(1.0, middle + width) * 100
    return f"{share * 100:.{digits}f} ({low:.{digits}f}-{high:.{digits}f})"


def main(corpora: str, folder: str) -> None:
    data, report = train(corpora)
    text = json.dumps(report, indent=1)
    with open(f"{folder}/weights.bin", "wb") as file:
        file.write(data)
    with open(f"{folder}/weights.json", "w", encoding="utf-8") as report_file:
        report_file.write(text + "\n")
    print(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
