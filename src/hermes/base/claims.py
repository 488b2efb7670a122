"""Decides whether a later statement replaces an earlier one: "I live in Lyon", then "we moved to Oslo".

This uses no language model and no knowledge of topics. It compares two sentences by the words they share, the words
around those, differing values of one kind, and words of change. A linear model that `bin/train-rules` trains on
`tests/data/corrections` weighs this evidence. English only.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING

from hermes.base import linear
from hermes.base.values import lazy_pattern, value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

FOLDER = os.path.join(os.path.dirname(__file__), "data")
MODEL = "claims"
SURE, LIKELY = 2, 1  # an old value is left out, or shown as outdated
_LONGEST_LABEL = 3  # words before a colon
_SETTLED = lazy_pattern(
    r"(?i)\b(?:live|lives|living|based|resides?|works?|working) (?:in|at|for)\b"
)  # a person lives or works in one place at a time, so another value replaces the first
_LONGEST = 300  # characters of a message whose sentences are also read in pairs
_SHORTEST_SENTENCE, _LONGEST_SENTENCE = 4, 240
_MOST_SENTENCES = 12

with open(os.path.join(FOLDER, "claims.txt"), encoding="utf-8") as _file:
    _BLOCKS = dict(re.findall(r"^\[([a-z ]+)\]\n((?:[^#\n].*\n)+)", _file.read(), re.MULTILINE))


def _block(name: str) -> frozenset[str]:
    return frozenset(_BLOCKS[name].split())


def _phrases(block: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(_BLOCKS[block].splitlines())})\b", re.IGNORECASE)


_TOKEN = re.compile(r"[^\W_](?:[\w'\u2019.:/@+%-]*[\w+%])?|[,.;:!()]")
_SENTENCE = re.compile(
    r"(?<=[.!?])(?<!\b[A-Z]\.)(?<!\bDr\.)(?<!\bMr\.)(?<!\bMrs\.)(?<!\bMs\.)(?<!\bSt\.)(?<!\bJr\.)(?<!\bProf\.)\s+|\n+"
)
_SMALL, _OWNERS, _FIRST_PERSON = _block("small"), _block("owners"), _block("first person")
_VERBS, _EVENTS = _block("verbs"), _block("events")
_LOOSE = _block("now")  # words such as "now" that make no difference when two sentences are compared
_CUES = {name: _phrases(name) for name in ("changed", "may have changed", "added")}
_SAME = {word: line.split()[0] for line in _BLOCKS["same"].splitlines() for word in line.split()}
_DAYS, _MONTHS, _NUMBERS, _ORDINALS = (_block(name) for name in ("weekdays", "months", "numbers", "ordinals"))
_TIME = re.compile(r"\d{1,2}[:.]\d\d(?:am|pm)?|\d{1,2}(?:am|pm)|noon|midnight|\d{1,2}h\d*")
_ORDINAL, _LETTERED = re.compile(r"\d+(?:st|nd|rd|th)"), re.compile(r"[a-z]")
# Greetings, wishes, opinions and references to something else state no value that a later statement could replace.
_REMARK = re.compile(
    r"^\W*(?:hey|hi|hello|thanks|thank you|wow|yeah|yep|sure|sounds|glad|happy|cool|awesome|nice|great|definitely|"
    r"yes|no problem|so|they|let|keep|love|can't|"
    r"(?:it|this|that|these|those|there|here)(?:'s)?)\b|^\[|"
    r"\b(?:i|we)(?:'m| am|'re| are|'ve been| have been)? (?:\w+ly )?(?:think(?:ing)?|hop(?:e|ing)|wonder(?:ing)?|"
    r"look(?:ing)? (?:for|forward|at|into)|consider(?:ing)?|try(?:ing)?|lov(?:e|ed|ing)|like (?!my)|liked|"
    r"enjoy(?:ed|ing)?|remember|guess|feel(?:ing)?|wish|was \w+ing|were \w+ing)\b|\byou(?:r|'re|'ve)?\b",
    re.IGNORECASE,
)
_MOST_WORDS = 24  # in a sentence that can be replaced; the replacing one may have twice as many
_NOW = re.compile(r"\b(?:now|since|as of|became|has become)\b", re.IGNORECASE)
_DOUBLED, _SHORT = 3, 6
_ASKED = 1.0  # how far the threshold drops when both sentences have the words of a question


def says_changed(text: str) -> bool:
    """Whether the text itself says that something is different from before."""
    return _CUES["changed"].search(text) is not None or _NOW.search(text) is not None


def sentences(text: str) -> list[str]:
    """Splits a text into its first sentences, at most as many as are worth comparing."""
    found = [piece.strip() for piece in _SENTENCE.split(text)]
    return [piece for piece in found if piece][:_MOST_SENTENCES]


def is_statement(sentence: str) -> bool:
    """Whether a sentence can state a fact: not a question, and neither a fragment nor a paragraph."""
    return _SHORTEST_SENTENCE < len(sentence) <= _LONGEST_SENTENCE and not sentence.endswith("?")


# --- one sentence -----------------------------------------------------------------------------------------------------


@value
class Token:
    """A word or punctuation mark of a sentence, with what the comparison needs to know about it."""

    text: str  # in lower case
    stem: str
    kind: str  # "number", "weekday" and the like; else ""
    is_name: bool
    means: bool  # whether it carries meaning of its own
    shape: str  # the word itself when it carries none


@value
class Claim:
    """A sentence or short message, split into words for comparison."""

    text: str
    tokens: tuple[Token, ...]
    core: tuple[Token, ...]  # without punctuation and the words of `_LOOSE`
    words: frozenset[str]  # stems of the meaningful words
    cues: str  # which kinds of words of change it has, as digits
    stated: bool  # whether it tells how something is


@lru_cache(maxsize=4096)
def claim_of(text: str) -> Claim:
    """Reads a sentence into the words and signs by which two sentences are compared."""
    raw = [match[0].replace("\u2019", "'") for match in _TOKEN.finditer(text)]
    tokens = tuple(_token(raw, at) for at in range(len(raw)))
    return Claim(
        text=text,
        tokens=tokens,
        core=tuple(each for each in tokens if each.text not in _LOOSE and (each.text[0].isalnum() or each.text == ":")),
        words=frozenset(token.stem for token in tokens if token.means),
        cues="".join("01"[cue.search(text) is not None] for cue in _CUES.values()),
        stated=1 < len(tokens) <= _MOST_WORDS
        and any(map(_is_verb, tokens))
        and not _is_list(tokens)
        and not any(token.text in _EVENTS for token in tokens[:4])
        and _REMARK.search(text) is None,
    )


def _token(raw: Sequence[str], at: int) -> Token:
    word = raw[at].casefold()
    kind, means = _kind(word), word[0].isalnum() and (word in _SAME or word not in _SMALL)
    is_name = raw[at][0].isupper() and means and not kind and (not _is_first(raw, at) or _acts(raw, at))
    shape = f"<{kind}>" if kind else "<name>" if is_name else "x" if means else word
    return Token(text=word, stem=stem(word), kind=kind, is_name=is_name, means=means, shape=shape)


def _is_verb(token: Token) -> bool:
    """Whether the token may be a verb, or a colon in place of one ("Port: 8080")."""
    return token.text in _VERBS or token.text == ":" or token.text.endswith(("ed", "s", "n't"))


def _is_list(tokens: Sequence[Token]) -> bool:
    """Whether at least half of the words are numbers, dates or codes, as in a line of a log."""
    values = sum(bool(token.kind) for token in tokens)
    return values > 1 and 2 * values >= sum(token.text[0].isalnum() for token in tokens)


def _is_first(raw: Sequence[str], at: int) -> bool:
    return at == 0 or raw[at - 1] in ".!:"


def _acts(raw: Sequence[str], at: int) -> bool:
    """Whether its ending or the next word shows that the capitalised first word of a sentence is a name."""
    after = raw[at + 1] if at + 1 < len(raw) else ""
    return raw[at].endswith("'s") or after[:1].isupper() or after.endswith("ed") or after in _VERBS


@lru_cache(maxsize=4096)
def _kind(word: str) -> str:
    plain = word.removesuffix("'s").removesuffix("s")
    if any(map(str.isdigit, word)) and (any(mark in word for mark in "-_@/") or _LETTERED.search(word)):
        return "ordinal" if _ORDINAL.fullmatch(word) else "number" if _TIME.fullmatch(word) else "code"
    if "_" in word or "@" in word:
        return "code"
    if plain in _DAYS or word in _DAYS:
        return "weekday"
    if word in _MONTHS and word != "may":
        return "month"
    if word in _ORDINALS:
        return "ordinal"
    return "number" if word in _NUMBERS or word[:1].isdigit() or _TIME.fullmatch(word) else ""


@lru_cache(maxsize=4096)
def stem(word: str) -> str:
    """Reduces a word to a rough stem; words that `claims.txt` lists as the same share one."""
    word = word.removesuffix("'s")
    if word in _SAME:
        return str(_SAME[word])
    if any(map(str.isdigit, word)):
        return word
    for ending in ("ing", "ies", "es", "ed", "s", "e", "y"):
        if word.endswith(ending) and len(word) > len(ending) + 2:
            word = word[: -len(ending)]
            return word[:-1] if len(word) > _DOUBLED and word[-1] == word[-2] else word  # "running", "planned"
    return word


# --- two sentences side by side ---------------------------------------------------------------------------------------


def replaces(old: Claim, new: Claim, asked: frozenset[str] = frozenset()) -> int:
    """Says how sure it is that the later `new` replaces `old`: SURE, LIKELY or 0.

    The threshold is lower when both contain the words of the question in `asked`.
    """
    if old.words.isdisjoint(new.words) or not old.stated or len(new.tokens) > 2 * _MOST_WORDS:
        return 0
    if _only_share_a_label(old, new):
        return 0
    if _differs_in_value(old, new) and _SETTLED.search(old.text):
        return SURE
    if _stems(old) in _stems(new) and new.cues[0] == "0" and _denies(old) == _denies(new):
        return 0  # `new` repeats `old` and only adds detail
    total, known = linear.score(FOLDER, MODEL, linear.places(evidence(old, new))), linear.numbers(FOLDER, MODEL)
    about = asked & old.words
    missing = about - new.words
    named = any(token.is_name and token.stem in missing for token in old.tokens)
    if total <= known["likely"] - _ASKED * bool(about and not named and 2 * len(missing) <= len(about)):
        return 0
    return SURE if total > known["sure"] or _differs_in_value(old, new) else LIKELY


def _only_share_a_label(old: Claim, new: Claim) -> bool:
    """Whether both begin with a label ("Infrastructure: …", "Fact 1: …") and say unrelated things after it."""
    (was, one), (is_, other) = (_labelled(each) for each in (old, new))
    if not was or not is_:
        return False
    if was != is_:
        return any(map(str.isdigit, was + is_))
    return min(len(one), len(other)) > 1 and one.isdisjoint(other)


def _labelled(claim: Claim) -> tuple[str, frozenset[str]]:
    """Returns the label before a colon, if any, and the meaningful stems after it."""
    texts = [token.text for token in claim.core]
    at = texts.index(":") if ":" in texts[: _LONGEST_LABEL + 1] else 0
    return " ".join(texts[:at]), frozenset(token.stem for token in claim.core[at:] if token.means)


def _stems(claim: Claim) -> str:
    return f" {' '.join(token.stem for token in claim.core if token.text not in ('too', 'also'))} "


def _denies(claim: Claim) -> bool:
    return any(token.text in ("not", "no", "never") or token.text.endswith("n't") for token in claim.tokens)


def _differs_in_value(old: Claim, new: Claim) -> bool:
    """Whether both begin with the same words and share no meaningful word after them."""
    same = sum(takewhile(bool, (one.stem == other.stem for one, other in zip(old.core, new.core, strict=False))))
    was, is_ = old.core[same:], new.core[same:]
    if {token.stem for token in was if token.means} & {token.stem for token in is_ if token.means}:
        return False
    return 1 < same >= min(3, len(old.core) - 1) and not any(token.text in _VERBS for token in (*was, *is_))


def evidence(old: Claim, new: Claim) -> set[str]:
    """Describes a pair of sentences as pieces of evidence, each of which has a weight in the model."""
    shared = old.words & new.words
    own = [{token.shape for token in each.tokens if token.stem not in shared and token.shape[0] == "<"}
           for each in (old, new)]  # fmt: skip
    found = {f"word {token.text}" for token in new.tokens if not token.kind}
    for name, each, other in (("old", old, own[1]), ("new", new, own[0])):
        line = ["^", *_outline(each, shared, other), "$"]
        for size in (2, 3, 4):
            found |= {f"{name} {' '.join(line[at : at + size])}" for at in range(len(line) - size + 1)}
    found |= {f"kinds {one} {other}" for one in (*own[0], "-") for other in (*own[1], "-")}
    return found | _common_run(old, new) | _measures(old, new, shared, same_kind=bool(own[0] & own[1] - {"<name>"}))


def _outline(claim: Claim, shared: frozenset[str], others: set[str]) -> Iterator[str]:
    """Yields the shape of a sentence: "=" for a shared word, and "~" after a value whose kind the other has too."""
    before = ""
    for token in claim.tokens:
        shape = "=" if token.means and token.stem in shared else token.shape
        shape = f"{shape}~" if shape in others else shape
        if shape[0] not in "x<" or shape != before:
            yield shape
        before = shape


def _common_run(old: Claim, new: Claim) -> set[str]:
    """Describes the longest run of shared words: how much of the old sentence it covers, and what surrounds it."""
    was, is_ = old.core, new.core
    where: dict[str, list[int]] = {}
    for at, token in enumerate(is_):
        where.setdefault(token.stem, []).append(at)
    most = size = first = start = 0
    for one, token in enumerate(was):
        for other in where.get(token.stem, ()):
            if one and other and was[one - 1].stem == is_[other - 1].stem:
                continue  # part of a run that was already measured
            length = next((n for n, pair in enumerate(zip(was[one:], is_[other:], strict=False))
                           if pair[0].stem != pair[1].stem), min(len(was) - one, len(is_) - other))  # fmt: skip
            weight = length + sum(each.means for each in was[one : one + length])
            if weight > most:
                most, size, first, start = weight, length, one, other
    if not size:
        return {"run none"}
    run = was[first : first + size]
    meaning = sum(token.means for token in run)
    every = sum(token.means for token in was)
    content = f"{min(3, meaning)} {'all' if meaning == every else 'most' if meaning * 2 >= every else 'part'}"
    verb = next((token.text for token in run if token.text in _VERBS), "")
    before = f"{was[first - 1].shape if first else '^'}|{is_[start - 1].shape if start else '^'}"
    ends = [each[at].shape if at < len(each) else "$" for each, at in ((was, first + size), (is_, start + size))]
    after, left = "|".join(ends), min(3, len(was) - size)
    return {
        f"run {content}",
        f"run before {before} {content}",
        f"run after {after} {content}",
        f"run after {run[-1].text} {after}",
        f"run around {before} {after}",
        f"run verb {verb} {after}",
        f"run verb {verb} {content}",
        f"run last {run[-1].text} {content}",
        f"run left {left} {min(6, len(is_) - size)}",
        f"run start {first == 0} {start == 0} {content} {left}",
        f"run end {first + size == len(was)} {start + size == len(is_)} {content}",
    }


def _measures(old: Claim, new: Claim, shared: frozenset[str], *, same_kind: bool) -> set[str]:
    sides = (old, new)
    means = [[token.stem in shared for token in each.tokens if token.means] for each in sides]
    names = [{token.stem for token in each.tokens if token.is_name} for each in sides]
    owners = [{token.stem for token in each.tokens if token.text in _OWNERS} for each in sides]
    share = len(shared) / max(1, len(old.words))
    swapped = bool(names[0] - names[1] and names[1] - names[0])
    core = f"{round(share * 3)} {new.cues}"
    told = {
        "shared": min(len(shared), 4),
        "of old": round(share * 4),
        "of new": round(len(shared) / max(1, len(new.words)) * 4),
        "ends": [(each[0], each[-1]) if each else () for each in means],
        "names": (swapped, bool(names[0] & names[1])),
        "owners": (bool(owners[0] ^ owners[1]), bool(owners[0] & owners[1]), bool(owners[1] - owners[0])),
        "long": (min(len(new.tokens), 30) // 3),
        "long before": (min(len(old.tokens), 30) // 3),
        "differs in value": _differs_in_value(old, new),
        "nothing new": new.words <= old.words,
        "same kind": same_kind,
        "cues": new.cues,
        "core": core,
        "core kind": f"{core} {same_kind} {swapped}",
        "first": f"{new.cues[:2]} {same_kind} {swapped} {means[0][:1]} {bool(owners[0] ^ owners[1])}",
    }
    return {f"{name}: {each}" for name, each in told.items()}


def parts(text: str) -> list[str]:
    """Returns the parts of a message that can replace something: statements, and pairs of adjacent ones."""
    stated = [sentence for sentence in sentences(text) if is_statement(sentence)]
    return [*stated, *map(" ".join, pairwise(stated))] if len(text) <= _LONGEST else stated


def replaced(old: str, new: str) -> int:
    """Says how sure it is that any statement of `new` replaces any sentence of the memory entry `old`."""
    later = [claim_of(each) for each in parts(new)] or [claim_of(new)]
    olds = [claim_of(each) for each in sentences(old)]
    return max((replaces(one, other) for one in olds for other in later), default=0)


# --- messages ---------------------------------------------------------------------------------------------------------


@value
class Said:
    """One message to compare with others. Only the person's own messages (`mine`) can supersede anything."""

    key: int
    conversation: int
    text: str
    at: tuple[float, float]  # when it was said and when its conversation began; later means later in both
    mine: bool


@value
class Outdated:
    """A sentence with an outdated value, and the key of the message that has the current one."""

    sentence: str
    by: int
    sure: bool


@value
class _Piece:
    said: Said
    text: str
    claim: Claim


def superseded(said: Sequence[Said], question: str = "") -> dict[int, list[Outdated]]:
    """Finds the outdated sentences of each message, by its key, with the newest message that supersedes each."""
    pieces = [
        _Piece(said=each, text=text, claim=_as_mine(each, text)) for each in said for text in sentences(each.text)
    ]
    asked = claim_of(question).words
    olds = [each for each in pieces if is_statement(each.text) and (not question or asked & each.claim.words)]
    newer = [_Piece(said=each, text=text, claim=claim_of(text)) for each in said if each.mine and olds
             for text in parts(each.text)]  # fmt: skip
    found: dict[int, list[Outdated]] = {}
    gone: dict[int, list[tuple[int, Outdated, frozenset[str]]]] = {}
    for old in olds:
        best = _successor(old, newer, asked)
        if best is not None:
            new, outdated = best
            found.setdefault(old.said.key, []).append(outdated)
            told = [token.stem for token in old.claim.tokens if token.means]
            gone.setdefault(old.said.conversation, []).append(
                (old.said.key, outdated, frozenset(told[1:]) - new.words - asked)
            )
    for each in pieces if gone else ():  # answers of the assistant that repeat an outdated value
        known = {outdated.sentence for outdated in found.get(each.said.key, ())}
        if each.said.mine or each.text in known:
            continue
        for key, outdated, values in gone.get(each.said.conversation, ()):
            if key < each.said.key < outdated.by and values & each.claim.words:
                again = Outdated(sentence=each.text, by=outdated.by, sure=outdated.sure)
                found.setdefault(each.said.key, []).append(again)
                break
    return found


def names_in_value(text: str, question: str) -> list[str]:
    """Returns the names in what a person says about themselves, by which a later correction can be searched."""
    asked, found = claim_of(question).words, []
    for sentence in sentences(text):
        claim = claim_of(sentence)
        personal = any(token.text in _FIRST_PERSON for token in claim.tokens) or len(claim.tokens) <= _SHORT
        if is_statement(sentence) and personal and asked & claim.words:
            found += [token.text for token in claim.tokens if token.is_name and token.stem not in asked]
    return found


def _successor(old: _Piece, newer: Sequence[_Piece], asked: frozenset[str]) -> tuple[Claim, Outdated] | None:
    found = [
        (how, new) for new in newer if _later(new.said, old.said) and (how := replaces(old.claim, new.claim, asked))
    ]
    if not found:
        return None
    how, new = max(found, key=lambda each: (each[0], each[1].said.at, each[1].said.key))
    return new.claim, Outdated(sentence=old.text, by=new.said.key, sure=how >= SURE)


def _later(new: Said, old: Said) -> bool:
    if new.conversation == old.conversation:
        return new.key > old.key
    return new.at[0] >= old.at[0] and new.at[1] >= old.at[1]


_MINE: Mapping[str, str] = {"you": "I", "your": "my", "yours": "mine", "you're": "I'm", "you've": "I've"}
_YOURS = re.compile(r"\b(?:you're|you've|yours|your|you)\b", re.IGNORECASE)


def _as_mine(said: Said, sentence: str) -> Claim:
    """The claim of a sentence; "you" in an answer is the person."""
    return claim_of(sentence if said.mine else _YOURS.sub(lambda match: _MINE[match[0].lower()], sentence))
