"""What a fact claims: about whom, in which respect, with which value. Two claims on one slot can contradict.

A slot is a subject and a relation ("alice|live"), or the whole sentence with its numbers and alternatives taken out.
Facts meet only in slots, so looking for contradictions never compares every fact with every other.
"""

# ruff: noqa: RUF001 - the punctuation of other scripts is meant as it stands

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermes.providers.facts import words as w

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_CLAIMS = 6
_LONGEST_SLOT = 160
_TOKEN = re.compile(r"[^\s,;!?()\[\]{}\"“”`*]+")
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|[。！？；\n]+")
_NUMBER = re.compile(r"[$€£]?\d[\d,.:/-]*\d%?|[$€£]?\d%?")
_DATE = re.compile(r"\d{4}-\d\d-\d\d|\d{1,2}/\d{1,2}/\d{2,4}")
_HAN = re.compile("[\u3400-\u9fff]")
_HAN_VERB = re.compile("|".join(sorted(w.HAN_VERBS, key=len, reverse=True)))
_HAN_NEGATION = re.compile("|".join(w.HAN_NEGATIONS))
_HAN_PUNCTUATION = re.compile(r"[\s，、：:“”\"]+")
_HAN_ADVERB = re.compile("现在|目前|已经|一直|总是|经常|通常|非常|很|都|也|了|的")

NEGATED, NUMBER, EXCLUSIVE, VALUE = "negation", "number", "alternative", "value"
_SCORES = {NEGATED: 0.9, NUMBER: 0.85, EXCLUSIVE: 0.85}
_VALUE_SCORES = {w.ONE: 0.7, w.OPEN: 0.25, w.LOOSE: 0.25}
_SAME_TOPIC = 0.5
_SHORT_VALUE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    slot: str
    kind: str  # how many values the slot can hold at once
    value: frozenset[str]
    numbers: tuple[str, ...]
    negated: bool


@dataclass(frozen=True, slots=True)
class Conflict:
    score: float
    why: str


def claims_of(text: str) -> list[Claim]:
    """The claims of a fact; none for what is told as past or asks something."""
    found: dict[str, Claim] = {}
    for sentence in _SENTENCE.split(unicodedata.normalize("NFKC", text)):
        if sentence and not sentence.rstrip().endswith("?"):
            reader = _han_claims if _is_han(sentence) else _spaced_claims
            for claim in reader(sentence):
                found.setdefault(claim.slot, claim)
    return [claim for claim in found.values() if len(claim.slot) <= _LONGEST_SLOT][:MOST_CLAIMS]


def conflict(one: Claim, other: Claim) -> Conflict | None:
    """Why two claims on the same slot cannot both hold; None when they can."""
    overlap = _overlap(one.value, other.value)
    if one.negated != other.negated:
        same = overlap >= _SAME_TOPIC and one.numbers == other.numbers
        return Conflict(_SCORES[NEGATED] * (0.8 + 0.2 * overlap), NEGATED) if same else None
    if one.negated:
        return None
    alike = overlap > 0 or not (one.value and other.value)  # three children and two cats go together
    if alike and one.numbers and other.numbers and set(one.numbers).isdisjoint(other.numbers):
        return Conflict(_SCORES[NUMBER], NUMBER)
    if one.kind == w.MANY:
        return None
    if _exclude(one.value - other.value, other.value - one.value):
        return Conflict(_SCORES[EXCLUSIVE], EXCLUSIVE)
    if one.value <= other.value or other.value <= one.value:
        return None  # the longer one only tells more
    known = [{kind for word in value for kind in w.KIND_OF.get(word, ())} for value in (one.value, other.value)]
    if known[0] and known[1] and one.kind == w.OPEN:
        return None  # values of different kinds: using a language and a database is no contradiction
    # Using two things is no contradiction, using two for the same purpose is.
    score = _VALUE_SCORES[w.ONE if overlap and one.kind == w.OPEN else one.kind] * (
        1 if max(len(one.value), len(other.value)) <= _SHORT_VALUE else 0.6
    )
    return Conflict(score, VALUE)


def _is_han(sentence: str) -> bool:
    """Whether it is read without spaces: a Chinese name in an English sentence does not make it Chinese."""
    return bool(_HAN.search(sentence)) and not any(_says(word) for word in sentence.casefold().split())


def _says(word: str) -> bool:
    return word in w.COPULAS or _base(word) in _VERBS


def _overlap(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other) if one | other else 1.0


def _exclude(one: frozenset[str], other: frozenset[str]) -> bool:
    kinds = [w.KIND_OF.get(word, frozenset()) for word in other]
    return any(not kind.isdisjoint(w.KIND_OF.get(word, frozenset())) for word in one for kind in kinds)


# --- scripts with spaces, mostly English -----------------------------------------------------------------------------


def _spaced_claims(sentence: str) -> Iterator[Claim]:
    tokens = _tokens(sentence)
    if w.PAST & set(tokens) or "used to" in " ".join(tokens):
        return
    yield from _skeleton(tokens)
    at = _verb_at(tokens)
    if at is None:
        return
    subject, attribute, denied = _subject(tokens[:at])
    relation, kind, denies = _relation(tokens[at])
    rest = tokens[at + 1 :]
    negated = (denied + denies + (tokens[at - 1] in ("no", "not") if at else 0)) % 2 == 1
    while rest and (rest[0] in w.ADVERBS or rest[0] in w.NEGATIONS):
        negated ^= rest[0] in w.NEGATIONS
        rest = rest[1:]
    if relation == "is" and rest and _is_participle(rest[0]):
        relation, kind, denies = _relation(rest[0])
        negated ^= bool(denies)
        rest = rest[1:]
    if rest and rest[0] in w.PREPOSITIONS:
        relation, kind = w.WITH_PREPOSITION.get((relation, rest[0]), (relation, kind))
        rest = rest[1:]
    if attribute and relation == "is":
        relation, kind = attribute, w.ONE
    else:
        subject = f"{subject} {attribute}".rstrip()
        if relation == "is":
            kind = w.ONE if subject != "user" and len(rest) == 1 else w.LOOSE
        if relation == "is" and not negated:
            yield from _office(subject, rest)
    value, numbers = _value(rest)
    yield Claim(slot=f"{subject}|{relation}", kind=kind, value=value, numbers=numbers, negated=negated)
    yield from _measures(subject, rest)


def _tokens(sentence: str) -> list[str]:
    found: list[str] = []
    for match in _TOKEN.finditer(sentence.replace("’", "'")):
        word = match[0].strip(".:'")
        lower = word.casefold().replace("favorite", "favourite")
        if lower.endswith("n't"):
            found += [lower[:-3], "not"]
        elif lower == "i'm":
            found += ["i", "is"]
        elif lower:
            found.append(lower)
    return found


def _verb_at(tokens: list[str]) -> int | None:
    for at, word in enumerate(tokens):
        if at and tokens[at - 1] in w.DETERMINERS:
            continue  # "the work laptop"
        if _says(word):
            later = tokens[at + 1 : at + 4]
            if word in ("has", "have", "had") and any(_base(each) in _VERBS or each == "been" for each in later[:2]):
                continue  # an auxiliary: "has moved to", "has been using"
            return at
        if at >= _SHORT_VALUE * 2:
            return None
    return None


def _subject(tokens: list[str]) -> tuple[str, str, int]:
    """The subject, the attribute of it that is spoken of, and how often it is denied before the verb."""
    denied = sum(word in w.NEGATIONS for word in tokens)
    mine = any(word in ("my", "our", "user's") for word in tokens)
    left = [word for word in tokens if word not in w.DETERMINERS | w.ADVERBS | w.NEGATIONS]
    if not left:
        return "user", "", denied
    if mine:
        return "user", " ".join(word for word in left if word != "user's"), denied
    for at, word in enumerate(left[:-1]):
        if word.endswith("'s"):
            return " ".join([*left[:at], word[:-2]]), " ".join(left[at + 1 :]), denied
    if "of" in left[1:-1]:
        at = left.index("of", 1)
        return " ".join(left[at + 1 :]), " ".join(left[:at]), denied
    if all(word in w.PRONOUNS for word in left):
        return "user", "", denied
    return " ".join(left), "", denied


def _relation(word: str) -> tuple[str, str, int]:
    if word in w.COPULAS:
        return "is", w.LOOSE, 0
    return _VERBS.get(_base(word), (word, w.OPEN, 0))


def _is_participle(word: str) -> bool:
    return _base(word) in _VERBS and (word.endswith(("ed", "en", "ing", "t", "d")) or word in w.IRREGULAR)


def _value(tokens: list[str]) -> tuple[frozenset[str], tuple[str, ...]]:
    kept: list[str] = []
    for at, word in enumerate(tokens):
        if word in w.ENDS_A_VALUE or (word == "and" and _starts_clause(tokens[at + 1 : at + 3])):
            break
        kept.append(word)
    numbers = tuple(word for word in kept if _NUMBER.fullmatch(word))
    glue = w.DETERMINERS | w.PREPOSITIONS | w.ADVERBS | {"and", "or"}
    return frozenset(_singular(word) for word in kept if word not in glue and word not in numbers), numbers


def _starts_clause(tokens: list[str]) -> bool:
    return any(map(_says, tokens))


def _measures(subject: str, tokens: list[str]) -> Iterator[Claim]:
    """Numbers with what they measure: `port 8080`, `30 seconds`."""
    for at, word in enumerate(tokens):
        if _NUMBER.fullmatch(word) and not _DATE.fullmatch(word):
            before = tokens[at - 1] if at and tokens[at - 1].isalpha() else ""
            unit = tokens[at + 1] if at + 1 < len(tokens) and tokens[at + 1].isalpha() else ""
            noun = before if before and before not in w.PREPOSITIONS | w.DETERMINERS | w.ADVERBS else _singular(unit)
            if noun and noun not in w.PREPOSITIONS | w.ADVERBS | {"and", "or"}:
                yield Claim(slot=f"{subject}|#{noun}", kind=w.ONE, value=frozenset(), numbers=(word,), negated=False)


def _office(subject: str, rest: list[str]) -> Iterator[Claim]:
    """Somebody is the lead of something: there is one such office, and its holder has it in one place."""
    if len(rest) < 2 or rest[0] != "the" or not subject:  # noqa: PLR2004 - the word and what follows it
        return
    office, _, where = " ".join(rest[1:]).partition(" of ")
    holder = frozenset(subject.split())
    yield Claim(slot=f"{' '.join(rest[1:])}|holder", kind=w.ONE, value=holder, numbers=(), negated=False)
    if where:
        place, numbers = _value(where.split())
        yield Claim(slot=f"{subject}|{office} of", kind=w.ONE, value=place, numbers=numbers, negated=False)


def _skeleton(tokens: list[str]) -> Iterator[Claim]:
    """The sentence without its numbers, alternatives and negations: what else is left must be the same words."""
    if any(_DATE.fullmatch(word) or word in w.DATES for word in tokens):
        return  # the same event on two days is two events
    negated = sum(word in w.NEGATIONS for word in tokens) % 2 == 1
    verb = _verb_at(tokens)
    if verb is None:  # as in "order 5 shipped"
        verb = next((at for at, word in enumerate(tokens) if word.endswith("ed")), 0)
    # What stands before the verb tells things apart ("bug 12"), what follows it is said about them.
    numbers = tuple(word for word in tokens[verb:] if _NUMBER.fullmatch(word))
    glue = w.DETERMINERS | w.ADVERBS | w.NEGATIONS
    shape, value = [], set()
    for at, word in enumerate(tokens):
        if at >= verb and word in numbers:
            shape.append("#")
        elif word in w.KIND_OF:
            shape.append(f"<{min(w.KIND_OF[word])}>")
            value.add(_singular(word))
        elif word not in glue:
            shape.append(_VERBS[_base(word)][0] if _base(word) in _VERBS else word)
    plain = sum(len(word) > 1 and word[0] not in "#<" for word in shape)
    if plain > 1 or (plain and value):
        slot = "~" + " ".join(shape)
        kind = w.MANY if any(_relation(word)[1] == w.MANY for word in tokens) else w.OPEN
        yield Claim(slot=slot, kind=kind, value=frozenset(value), numbers=numbers, negated=negated)


def _singular(word: str) -> str:
    if word in w.KIND_OF or len(word) <= len("gas") or word.endswith(("ss", "us", "is")):
        return word
    return word.removesuffix("s")


def _base(word: str) -> str:
    """The base form of a verb, as far as endings tell."""
    if word in w.IRREGULAR:
        return w.IRREGULAR[word]
    for ending, instead in (("ies", "y"), ("ied", "y"), ("es", ""), ("es", "e"), ("s", ""), ("ed", ""), ("ed", "e"),
                            ("ing", ""), ("ing", "e")):  # fmt: skip
        if word.endswith(ending) and word[: -len(ending)] + instead in _VERBS:
            return word[: -len(ending)] + instead
    return word


def _verbs() -> dict[str, tuple[str, str, int]]:
    found = {verb: (name, kind, 0) for name, (kind, verbs) in w.RELATIONS.items() for verb in verbs.split()}
    for name, verbs in w.OPPOSITES.items():
        found |= dict.fromkeys(verbs.split(), (name, w.RELATIONS[name][0], 1))
    return found


_VERBS = _verbs()


# --- Chinese ---------------------------------------------------------------------------------------------------------


def _han_claims(sentence: str) -> Iterator[Claim]:
    plain = _HAN_ADVERB.sub("", sentence)
    if "曾经" in plain or "以前" in plain or "过去" in plain:
        return
    for clause in re.split("[，,]", plain):
        joined = _HAN_PUNCTUATION.sub("", clause)
        denied = len(_HAN_NEGATION.findall(joined))
        positive = _HAN_NEGATION.sub("", joined)
        verb = _HAN_VERB.search(positive, 1) or _HAN_VERB.match(positive)
        if verb is None:
            continue
        relation = w.HAN_VERBS[verb[0]]
        negated = (denied + relation.startswith("!")) % 2 == 1
        relation = relation.removeprefix("!")
        subject, rest = positive[: verb.start()] or "我", positive[verb.end() :]
        numbers = tuple(_NUMBER.findall(rest))
        value = frozenset(filter(None, [_NUMBER.sub("", rest).casefold()]))
        kind = w.ONE if relation in w.HAN_ONE else w.OPEN if relation == "use" else w.MANY
        slot = f"{subject}|{relation}" if not (numbers and value) else f"{subject}|{relation}#{next(iter(value))}"
        yield Claim(slot=slot, kind=kind, value=value, numbers=numbers, negated=negated)
