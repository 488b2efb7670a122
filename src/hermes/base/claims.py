"""What a sentence claims, and whether a later one takes its place: "I live in Lyon", then "we moved to Oslo".

No model and no topic is known here. A later text supersedes a sentence when it is about the same thing and gives it
another value: the same words up to the value, or words of change ("moved", "instead", "no longer") around what the
two share. Whose fact it is must agree, and two things of one kind ("the car insurance", "the house insurance") are two.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from hermes.base.values import value

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LONGEST = 300  # characters of a message whose sentences are also read in pairs
_SHORTEST_SENTENCE, _LONGEST_SENTENCE = 4, 240
_MOST_SENTENCES = 12


with open(os.path.join(os.path.dirname(__file__), "data", "claims.txt"), encoding="utf-8") as _file:
    _BLOCKS = dict(re.findall(r"^\[([a-z ]+)\]\n((?:[^#\n].*\n)+)", _file.read(), re.MULTILINE))


def _block(name: str) -> frozenset[str]:
    return frozenset(_BLOCKS[name].split())


def _phrases(block: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(_BLOCKS[block].splitlines())})\b", re.IGNORECASE)


_TOKEN = re.compile(r"[^\W_](?:[\w'\u2019.:/@+%-]*[\w+%])?")
_SENTENCE = re.compile(
    r"(?<=[.!?])(?<!\b[A-Z]\.)(?<!\bDr\.)(?<!\bMr\.)(?<!\bMrs\.)(?<!\bMs\.)(?<!\bSt\.)(?<!\bJr\.)(?<!\bProf\.)\s+|\n+"
)
_SMALL = _block("small")
_COPULAS = _block("copulas")
_PREPOSITIONS = _block("prepositions")
# Words by which somebody says that something is different from before.
_STRONG = _phrases("changed")
_WEAK = _phrases("may have changed")
_ADDS = _phrases("added")
_GIVEN_UP = re.compile(
    r"\b(?:from\s+(?P<a>[^,.;]{1,40}?)\s+to\b|"
    r"(?:no longer|no more|instead of|rather than|away from|against|(?<!why )not|"
    r"replac(?:ed|es|ing)|sold|quit|left|leaving|cancell?ed|ditched|dropped|finished|gave up|given up|stopped|swapped|"
    r"traded in|cut out|got rid of|done with|broke up with|returned|over)\s+(?P<b>[^,.;:()]{1,50}))",
    re.IGNORECASE,
)
_CLAUSE = re.compile(r"[,.;:]\s+|\s(?:so|and|but|because)\s")
_LEFT = re.compile(
    r"(?:^|[.,;:]\s*|\band\s)(?P<c>[^.,;:]{3,40}?)\s+(?:is|are|was|were|has|have)?\s*(?:gone|left|retired|quit|resigned|"
    r"closed|cancell?ed|sold|full|fully booked|fell through|any ?more)\b",
    re.IGNORECASE,
)
# Whose fact it is.
_OWNERS = _block("owners")
_SAME = {word: line.split()[0] for line in _BLOCKS["same"].splitlines() for word in line.split()}
_NUMBERS = _block("numbers")
_ORDINALS = _block("ordinals")
_WEEKDAYS = _block("weekdays")
_MONTHS = _block("months")
_TIME = re.compile(r"\d{1,2}[:.]\d\d(?:am|pm)?|\d{1,2}(?:am|pm)|noon|midnight|\d{1,2}h\d*")
_ORDINAL, _LETTERED = re.compile(r"\d+(?:st|nd|rd|th)"), re.compile(r"[a-z]")
_EVENT = _block("events")
_VAGUE_SUBJECTS = _block("vague")
# Verbs that hold for one value at a time.
_SINGLE = _block("single")
_NOW = _block("now")
_PLACING = _PREPOSITIONS - {"of"}
_MOVED = _block("moved")
_MOVING = re.compile(
    r"\b(?:mov(?:ed?|ing)|relocat(?:ed|ing))(?=[,.;!]|$|\s+(?:to|in|into|out|from|back|here|away|up|down)\b)",
    re.IGNORECASE,
)
_ONE_ONLY = _block("only one")
_ACTING = _block("acting")
_FIRST_PERSON = _block("first person")
_MOST_TOKENS = 24
_REMARK = re.compile(
    r"^\W*(?:hey|hi|hello|thanks|thank you|wow|yeah|yep|sure|sounds|glad|happy|cool|awesome)\b|^\[|"
    r"\b(?:i|we)(?:'m| am|'re| are|'ve been| have been)? (?:\w+ly )?(?:think(?:ing)?|hop(?:e|ing)|wonder(?:ing)?|"
    r"look(?:ing)? (?:for|forward|at|into)|consider(?:ing)?|try(?:ing)?|lov(?:e|ed|ing)|like (?!my)|liked|"
    r"enjoy(?:ed|ing)?|remember|guess|feel(?:ing)?|planning|wish|was \w+ing|were \w+ing)\b|"
    r"\bit(?:'s| is| was) (?:great|good|so|been|a)\b",
    re.IGNORECASE,
)
_SHORT = 6  # words of a sentence that is looked up by its value although it is about nobody
_NEGATING = _block("negating")
_MOST_OF = 0.6
_HALF, _LITTLE, _SEVERAL, _DOUBLED, _LONGEST_VALUE = 0.5, 0.34, 2, 3, 8
# Verbs that tell little about what a sentence is about.
_GENERIC = _block("generic")
_ATTRIBUTES = _block("attributes")
SURE, LIKELY = 6, 4  # points from which an old value is left out, and from which it is shown as outdated


@value
class Claim:
    """A sentence, or a short message: its words as they stand, and what they tell."""

    text: str
    tokens: tuple[str, ...]  # in lower case
    words: frozenset[str]  # that carry meaning, as stems
    subject: frozenset[str]  # those of them before the verb
    names: frozenset[str]
    kinds: frozenset[tuple[str, str, str]]  # values with their kind and unit: ("number", "euro", "400")
    owners: frozenset[str]
    topic: frozenset[str]  # what it is about: its subject, or the verb and what follows it up to a preposition
    value: frozenset[str]  # the words after the verb
    verb: int  # where it stands; -1 when there is none
    cue: int  # 2 when it says that something changed, 1 when it may, else 0
    stated: bool  # whether it tells how something is, and is no greeting, wish or remark
    adds: bool
    negated: bool
    given_up: frozenset[str]


def sentences(text: str) -> list[str]:
    found = [piece.strip() for piece in _SENTENCE.split(text)]
    return [piece for piece in found if piece][:_MOST_SENTENCES]


def is_statement(sentence: str) -> bool:
    return _SHORTEST_SENTENCE < len(sentence) <= _LONGEST_SENTENCE and not sentence.endswith("?")


@lru_cache(maxsize=512)
def claim_of(text: str) -> Claim:
    raw = [match[0].replace("\u2019", "'") for match in _TOKEN.finditer(text)]
    lower = [token.casefold() for token in raw]
    starts = {0} | {len(_TOKEN.findall(text[: found.end()])) for found in re.finditer(r"[.!?:]\s+|\n", text)}
    verb, cue = _verb_at(lower), 2 if _STRONG.search(text) else 1 if _WEAK.search(text) else 0
    if verb < 0 and (colon := re.match(r"[^:]{2,40}:\s", text)):
        verb = min(len(_TOKEN.findall(colon[0])), len(lower) - 1)
    words = [
        (_stem(word), at)
        for at, word in enumerate(lower)
        if word in _SAME or (word not in _SMALL and not _is_cue(word))
    ]
    if _MOVING.search(text):
        words += [("live", at) for at, word in enumerate(lower) if word in _MOVED]
    subject = frozenset(word for word, at in words if at < verb and not _kind(lower[at]))
    names = {
        _stem(word)
        for at, word in enumerate(lower)
        if raw[at][:1].isupper() and word not in _SMALL and not _kind(word) and (at not in starts or _acts(lower, at))
    }
    names |= {_stem(word) for word in lower if _kind(word) == "code"}
    kinds = {(kind, _unit(raw, at), word.removesuffix("s")) for at, word in enumerate(lower) if (kind := _kind(word))}
    kinds |= {("month", "", "may")} if "May" in raw[1:] else set()
    given = " ".join(
        part for form in (_GIVEN_UP, _LEFT) for found in form.finditer(text) for part in found.groups() if part
    )
    return Claim(
        text=text,
        tokens=tuple(lower),
        words=frozenset(word for word, _ in words),
        subject=subject,
        value=frozenset(word for word, at in words if at > verb and lower[at] not in _SINGLE),
        # Words of change stand around the topic in many ways.
        topic=_plain(words, lower) - (frozenset(names) - subject)
        if cue > 1
        else _topic(words, lower, subject, frozenset(names), verb),
        names=frozenset(names),
        kinds=frozenset(kinds),
        owners=_OWNER_STEMS.intersection(word for word, _ in words),
        verb=verb,
        cue=cue,
        stated=verb >= 0
        and len(lower) <= _MOST_TOKENS
        and lower[0] not in _VAGUE_SUBJECTS
        and not _REMARK.search(text),
        adds=_ADDS.search(text) is not None,
        negated=any(word in _NEGATING or word.endswith("n't") for word in lower),
        given_up=frozenset(_stem(word.casefold()) for word in _TOKEN.findall(given) if word.casefold() not in _SMALL),
    )


def _topic(
    words: Sequence[tuple[str, int]], tokens: Sequence[str], subject: frozenset[str], names: frozenset[str], verb: int
) -> frozenset[str]:
    """What a sentence is about: its subject ("my cat Milo" is Milo), else a verb that tells it, else its object."""
    plain = [(word, at) for word, at in words if word in _plain(words, tokens)]
    called = subject & names
    if called and subject - called <= _OWNER_STEMS | {"best", "old", "littl"}:
        return called
    if subject:
        return subject - _ATTRIBUTE_STEMS or subject
    if verb >= 0 and tokens[verb] not in _GENERIC and any(at == verb for _, at in plain):
        return frozenset(word for word, at in plain if at == verb)
    end = next((at for at in range(verb + 1, len(tokens)) if tokens[at] in _PLACING), len(tokens))
    near = frozenset(word for word, at in plain if verb < at < end and word not in names)
    after = frozenset(word for word, at in plain if at > verb and word not in names)
    return near or after or _plain(words, tokens) - (names - subject)


def _plain(words: Sequence[tuple[str, int]], tokens: Sequence[str]) -> frozenset[str]:
    """The words that are no number, day or the like, nor the unit of one."""
    counted = {at + 1 for at, word in enumerate(tokens) if _kind(word) == "number"}
    return frozenset(word for word, at in words if at not in counted and not _kind(tokens[at]))


def points(old: Claim, new: Claim, asked: frozenset[str] = frozenset()) -> int:
    """How much speaks for it that `new`, said later, takes the place of `old`; `asked` are the words of a question."""
    shared, come = old.words & new.words, new.words - old.words
    if not shared or not old.stated or old.tokens == new.tokens:
        return 0
    if _same_frame(old, new) or (new.cue > 1 and _same_end(old, new)):
        return SURE
    if (not come and old.negated == new.negated) or len(new.tokens) > 2 * _MOST_TOKENS or _rivals(old, new):
        return 0
    if (one := _numbered(old)) and (other := _numbered(new)) and one != other:
        return 0  # "Fact 1: …", "Fact 2: …"
    given_up = new.given_up & old.value or (_contrasted(old, new) if asked else frozenset())
    answers = bool(asked & old.words) and asked & old.words <= new.words and len(asked & shared) >= _HALF * len(asked)
    if asked and not given_up and len(asked & shared) < _HALF * len(asked & old.words):
        return 0
    covered = len(old.topic & new.words) / len(old.topic) if old.topic else 0.0
    if len(asked & shared) >= max(_SEVERAL, _MOST_OF * len(asked & old.words)):
        covered = 1.0
    if covered < _LITTLE and not given_up & old.names and len(given_up) < _SEVERAL:
        return 0
    kinds = _same_kind(old.kinds, new.kinds - old.kinds)
    value_names = old.names - old.subject
    mentioned = bool((old.names | {word for _, _, word in old.kinds}) & (new.words - old.subject))
    swapped = bool(value_names and come & new.names)
    flipped = old.negated != new.negated and covered == 1
    change = 2 if given_up else max(new.cue, swapped and mentioned)
    told = 2 * bool(kinds) + 2 * bool(given_up) + swapped + mentioned + 2 * flipped + _same_place(old, new, shared)
    typed = {word for _, _, word in old.kinds if _stem(word) not in asked} and not value_names and not kinds
    # Both answer the question in their own words, and the later one holds.
    personal = {*old.tokens, *new.tokens} & _FIRST_PERSON or new.cue
    likely = LIKELY if answers and personal and new.stated and not (new.adds or typed or _is_event(old)) else 0
    if not told and (change <= 1 or covered < 1):
        return likely
    if not given_up and not flipped and not mentioned:
        told -= 2 * bool(old.kinds and not value_names and not kinds)
        told -= 2 * bool(value_names and not old.kinds and not swapped)
    total = change + told + (2 if covered == 1 else covered > _HALF or (covered == _HALF and _head(old) in new.words))
    total -= 3 * (new.adds and not given_up and not (covered == 1 and mentioned))
    total -= 3 * (not change and (not kinds or covered < 1)) + 3 * (_is_event(old) and not given_up)
    # Only what is named as given up is as sure as the same words with another value.
    return min(max(total, likely), SURE if new.given_up & old.value else SURE - 1)


def _numbered(claim: Claim) -> set[str]:
    """The numbers before the verb, which tell things of one kind apart."""
    return {word for word in claim.tokens[: claim.verb] if _kind(word) == "number"}


def _two_things(was: Sequence[str], is_: Sequence[str]) -> bool:
    """Whether two ends of a sentence tell two things: "is written in Python" and "is licensed under MIT"."""
    participles = was[0] != is_[0] and all(part[0].endswith(("ed", "en")) for part in (was, is_))
    return participles or bool({*was} & {*is_} & _PLACING)


def _same_frame(old: Claim, new: Claim) -> bool:
    """The same words up to the value, or around it, with a verb among them that holds for one value at a time."""
    a = tuple(each for each in old.tokens if each not in _NOW)
    upto = sum(each not in _NOW for each in old.tokens[: old.verb + 1])
    b = _from(tuple(each for each in new.tokens if each not in _NOW), a[:upto])
    if old.verb < 0 or not b or old.adds or new.adds:
        return False
    before = 0
    while before < min(len(a), len(b)) and a[before] == b[before]:
        before += 1
    after = 0
    while after < min(len(a), len(b)) - before and a[-1 - after] == b[-1 - after]:
        after += 1
    was, is_ = a[before : len(a) - after], b[before : len(b) - after]
    verb = max((at for at in range(before) if a[at] in _COPULAS | _SINGLE | _GENERIC), default=0)
    if not verb and old.subject and a[before - 1] == "of":  # "died in the city of"
        verb = min(old.verb, before - 1)
    if not was or not is_ or before < _SEVERAL or len(was) > _LONGEST_VALUE or _two_things(was, is_):
        return False
    kinds = [{_kind(word) for word in part} - {"", "code"} for part in (was, is_)]
    if kinds[0] != kinds[1] or (kinds[0] and _kind(was[0]) != _kind(is_[0])) or ("not" in was) != ("not" in is_):
        return False
    if (was[0] in _PREPOSITIONS) != (is_[0] in _PREPOSITIONS):
        return False
    placed = before > verb + 1 and a[before - 1] in _PREPOSITIONS
    if a[verb] in _COPULAS:
        named = any(_stem(word) in old.names or _kind(word) for word in was)
        if not placed and not named and len(old.subject) < _SEVERAL and not new.cue:
            return False  # "the project is fast", "the project is young"
        return bool(old.subject or before > verb + 1) and (placed or not after or bool(kinds[0]))
    return (placed and not after) or (bool(kinds[0]) and a[verb] in _SINGLE) or a[verb] in _ONE_ONLY


def _same_end(old: Claim, new: Claim) -> bool:
    """Somebody else is in the place of the subject: "Peter owns billing", "Rosa owns billing"."""
    end = old.tokens[old.verb :]
    at = next((at for at in range(1, len(new.tokens)) if new.tokens[at : at + len(end)] == end), 0)
    people = bool(old.subject) and old.subject <= old.names and _stem(new.tokens[at - 1]) in new.names
    return bool(at) and people and len(end) > _SEVERAL


def _contrasted(old: Claim, new: Claim) -> frozenset[str]:
    """The old value, when one clause is about it and another has a new name: "Lisa went abroad, Marta helps us"."""
    if not {*new.tokens} & _FIRST_PERSON:
        return frozenset()
    clauses = [_words(each) for each in _CLAUSE.split(new.text)]
    gone = frozenset(word for clause in clauses for word in clause & (old.names - old.subject))
    come = new.names - old.words
    return gone if any(clause & come and not clause & gone for clause in clauses) else frozenset()


def _from(tokens: tuple[str, ...], start: tuple[str, ...]) -> tuple[str, ...]:
    """The tokens from where they hold all of `start` in a row; empty when they do not."""
    for at in range(len(tokens) - len(start) + 1):
        if tokens[at : at + len(start)] == start:
            return tokens[at:]
    return ()


def _rivals(old: Claim, new: Claim) -> bool:
    """Whether the two are about different things of one kind, or about different people."""
    return _other_person(old, new) or _other_thing(old, new)


def _other_person(old: Claim, new: Claim) -> bool:
    subjects, owners = old.names & old.subject, old.owners & old.subject
    if subjects and not subjects & new.words:
        return True
    if owners:
        return not (owners | subjects) & new.words and not new.given_up & old.words
    if old.subject:
        return False
    if new.owners - old.owners and not old.names & new.words:
        return True
    theirs = (new.subject & (new.names | new.owners)) - old.words or (
        not new.subject & old.words and not new.given_up & old.value
    )
    return bool(new.subject and theirs) and not {*new.tokens} & _FIRST_PERSON


def _other_thing(old: Claim, new: Claim) -> bool:
    codes = {word for word in old.tokens[: max(0, old.verb)] if _kind(word) == "code"}
    if codes and not codes & {*new.tokens}:  # ticket ABC-1 is not ticket ABC-2
        return True
    for name in old.names & old.subject & new.words:
        if _before(old, name) != (_before(new, name) or _before(old, name)):
            return True
    for head in (old.subject - old.names) & new.words:
        one, other = _modifier(old, head), _modifier(new, head)
        apart = one != other and not {one, _bare(one)} & new.words and not {other, _bare(other)} & old.words
        if (one and other and apart) or (other.endswith("'s") and _bare(other) not in old.words):
            return True
    head = _head(old)
    return head in new.words and head not in old.names and _is_part(new, head, old)


def _head(claim: Claim) -> str:
    """The word that says what the subject is: "username" in "my username on the forum"."""
    before = [word for word in claim.tokens[: claim.verb] if word in _PREPOSITIONS or _stem(word) in claim.subject]
    pairs = zip(before, [*before[1:], "of"], strict=False)
    return next((_stem(one) for one, other in pairs if other in _PREPOSITIONS), "")


def _same_place(old: Claim, new: Claim, shared: frozenset[str]) -> bool:
    """Whether both say where or how with one preposition: "in the desk drawer", "in the safe"."""
    places = [
        {(word, _stem(each.tokens[at + 2])) for at, word in enumerate(each.tokens[:-2]) if word in _PLACING}
        for each in (old, new)
    ]
    return any(
        word == other and one not in shared and two not in shared for word, one in places[0] for other, two in places[1]
    )


def _is_part(claim: Claim, head: str, old: Claim) -> bool:
    """Whether the word only describes another thing there: "production" in "the production database"."""
    for word, after in zip(claim.tokens, claim.tokens[1:], strict=False):
        if _stem(word) == head:
            noun = _stem(after) in claim.words - claim.names - (_ATTRIBUTE_STEMS if word.endswith("'s") else {""})
            acts = after.endswith(("s", "ed", "ing")) and _stem(after) not in _ATTRIBUTE_STEMS
            if (
                not noun
                or acts
                or after in _ACTING
                or after in ("topic", "title", "subject")
                or _kind(after)
                or _stem(after) in old.words
            ):
                return False
    return claim.tokens[-1] != head and _stem(claim.tokens[-1]) != head


def _before(claim: Claim, name: str) -> str:
    """The word before a name when it gives a direction: a flight to Berlin is not the one from there."""
    found = next((at for at, word in enumerate(claim.tokens) if at and _stem(word) == name), 0)
    return claim.tokens[found - 1] if found and claim.tokens[found - 1] in ("to", "from") else ""


def _same_kind(old: Iterable[tuple[str, str, str]], new: Iterable[tuple[str, str, str]]) -> bool:
    return any(a == b and (not u or not v or u == v) for a, u, _ in old for b, v, _ in new)


def _acts(tokens: Sequence[str], at: int) -> bool:
    """Whether a verb follows the word, so that a capital at the start of a sentence is a name's."""
    after = tokens[at + 1] if at + 1 < len(tokens) else ""
    return (
        tokens[at].endswith("'s") or after in _COPULAS or after in _SINGLE or after.endswith("ed") or after in _ACTING
    )


def _unit(raw: Sequence[str], at: int) -> str:
    after = raw[at + 1] if at + 1 < len(raw) else ""
    return _stem(after) if after.islower() and after not in _SMALL and not _kind(after) else ""


def _modifier(claim: Claim, head: str) -> str:
    for at, word in enumerate(claim.tokens[1:], start=1):
        if _stem(word) == head:
            before = claim.tokens[at - 1]
            if _stem(before) in claim.words and not _kind(before):
                return f"{_stem(before)}'s" if before.endswith("'s") else _stem(before)
    return ""


def _verb_at(tokens: Sequence[str]) -> int:
    for at, word in enumerate(tokens):
        if word in _COPULAS or word in _SINGLE or word in _GENERIC or word.endswith("n't") or word in ("will", "had"):
            return at
    for at, word in enumerate(tokens[1:], start=1):
        if word.endswith(("ed", "s")) and not word.endswith(("'s", "ss")) and word not in _SMALL:
            return at
    return -1


def _is_event(claim: Claim) -> bool:
    return any(word in _EVENT for word in claim.tokens[:4])


@lru_cache(maxsize=4096)
def _is_cue(word: str) -> bool:
    return word in ("not", "no") or any(form.fullmatch(word) for form in (_STRONG, _WEAK, _ADDS))


@lru_cache(maxsize=4096)
def _kind(word: str) -> str:
    if any(map(str.isdigit, word)) and (any(mark in word for mark in "-_@/") or _LETTERED.search(word)):
        return "ordinal" if _ORDINAL.fullmatch(word) else "number" if _TIME.fullmatch(word) else "code"
    if "_" in word or "@" in word:
        return "code"
    plain = _bare(word).removesuffix("s")
    if plain in _WEEKDAYS or word in _WEEKDAYS:
        return "weekday"
    if word in _MONTHS and word != "may":
        return "month"
    if _TIME.fullmatch(word):
        return "number"
    if word in _ORDINALS:
        return "ordinal"
    if word in _NUMBERS or word[:1].isdigit():
        return "number"
    return ""


def _bare(word: str) -> str:
    return word.removesuffix("'s")


@lru_cache(maxsize=4096)
def _stem(word: str) -> str:
    word = _bare(word)
    if word in _SAME:
        return str(_SAME[word])
    if any(map(str.isdigit, word)):
        return word
    for ending in ("ing", "ies", "es", "ed", "s", "e", "y"):
        if word.endswith(ending) and len(word) > len(ending) + 2:
            word = word[: -len(ending)]
            return word[:-1] if len(word) > _DOUBLED and word[-1] == word[-2] else word  # "running", "planned"
    return word


def words_of(text: str) -> frozenset[str]:
    return claim_of(text).words


_OWNER_STEMS = frozenset(map(_stem, _OWNERS))
_MOVED_STEMS = frozenset(map(_stem, _MOVED))
_GIVING_UP = frozenset(map(_stem, _block("giving up")))
_ATTRIBUTE_STEMS = frozenset(map(_stem, _ATTRIBUTES))
_GENERIC_STEMS = frozenset(map(_stem, _GENERIC))
_ASKING = frozenset(map(_stem, _block("asking")))


@value
class Said:
    """One message among those that are looked at together. Only what `mine` is, the person's own, supersedes."""

    key: int
    conversation: int
    text: str
    at: tuple[float, float]  # when it was said and when its conversation began; later means later in both
    mine: bool


@value
class Outdated:
    """A sentence whose value is no longer the current one, and the key of the message that has the current one."""

    sentence: str
    by: int
    sure: bool


def superseded(said: Sequence[Said], question: str = "") -> dict[int, list[Outdated]]:
    """The outdated sentences of each message, by its key; the newest message that supersedes one is named."""
    pieces = [_Piece(said=each, text=text, words=_words(text)) for each in said for text in sentences(each.text)]
    all_asked, asked = _asked(question)
    read = [each for each in pieces if is_statement(each.text) and (not question or all_asked & each.words)]
    olds = [(each, claim) for each in read if (claim := _as_mine(each)).stated]
    topics = frozenset(word for _, claim in olds for word in claim.words)
    valued = frozenset(word for _, claim in olds for word in claim.names - claim.subject)
    newer = [(each, claim) for each in said if each.mine for claim in _claims(each.text, asked | valued, topics)]
    found: dict[int, list[Outdated]] = {}
    echoes: dict[int, list[tuple[int, Outdated, frozenset[str]]]] = {}
    for old, claim in olds if newer else ():
        best = _successor(old, claim, newer, asked if question else frozenset())
        if best is not None:
            new, outdated = best
            found.setdefault(old.said.key, []).append(outdated)
            gone = (claim.value | claim.names) - claim.subject - new.words
            echoes.setdefault(old.said.conversation, []).append((old.said.key, outdated, gone))
    for each in pieces if echoes else ():
        known = {outdated.sentence for outdated in found.get(each.said.key, ())}
        if each.said.mine or each.text in known:
            continue
        for key, outdated, gone in echoes.get(each.said.conversation, ()):  # an answer that repeats what was said
            if key < each.said.key < outdated.by and gone & each.words:
                again = Outdated(sentence=each.text, by=outdated.by, sure=outdated.sure)
                found.setdefault(each.said.key, []).append(again)
                break
    return found


def _asked(question: str) -> tuple[frozenset[str], frozenset[str]]:
    """The words of a question, and those of them that tell what it is about."""
    words = words_of(question) or _words(question)
    return words, words - _ASKING - _GENERIC_STEMS or words


def names_in_value(text: str, question: str) -> list[str]:
    """The names by which a later message may take back what a person says about themselves here."""
    asked, found = _asked(question)[0], []
    for sentence in sentences(text):
        claim = claim_of(sentence)
        personal = {*claim.tokens} & _FIRST_PERSON or len(claim.tokens) <= _SHORT
        if claim.stated and asked & claim.words and personal:
            wanted = claim.names - claim.subject
            found += [token for token in claim.tokens if _stem(token) in wanted]
    return found


@value
class _Piece:
    said: Said
    text: str
    words: frozenset[str]


def _as_mine(piece: _Piece) -> Claim:
    """The claim of a sentence; "you" in an answer is the person."""
    mine = piece.said.mine
    return claim_of(piece.text if mine else _YOURS.sub(lambda match: _MINE[match[0].lower()], piece.text))


def _successor(
    old: _Piece, claim: Claim, newer: Sequence[tuple[Said, Claim]], asked: frozenset[str]
) -> tuple[Claim, Outdated] | None:
    best: tuple[Said, Claim, int] | None = None
    for each, new in newer:
        if _later(each, old.said) and not claim.words.isdisjoint(new.words):
            score = points(claim, new, asked)
            if score >= LIKELY and (best is None or (each.at, each.key) >= (best[0].at, best[0].key)):
                best = (each, new, score)
    if best is None:
        return None
    return best[1], Outdated(sentence=old.text, by=best[0].key, sure=best[2] >= SURE)


def _later(new: Said, old: Said) -> bool:
    if new.conversation == old.conversation:
        return new.key > old.key
    return new.at[0] >= old.at[0] and new.at[1] >= old.at[1]


def _claims(text: str, asked: frozenset[str], topics: frozenset[str]) -> list[Claim]:
    """The claims of a message that may be about the topics: of each sentence, and of two that follow each other."""
    stated = [sentence for sentence in sentences(text) if is_statement(sentence)]
    pairs = map(" ".join, pairwise(stated)) if len(text) <= LONGEST else ()
    found = []
    for each in [*stated, *pairs]:
        words = _words(each)
        if topics & words and (not asked or asked & words or _GIVING_UP & words):
            found.append(claim_of(each))
    return found


@lru_cache(maxsize=1024)
def _words(sentence: str) -> frozenset[str]:
    found = frozenset(_stem(match[0].replace("\u2019", "'").casefold()) for match in _TOKEN.finditer(sentence))
    return found | {"live"} if found & _MOVED_STEMS else found


_MINE = {"you": "I", "your": "my", "yours": "mine", "you're": "I'm", "you've": "I've"}
_YOURS = re.compile(r"\b(?:you're|you've|yours|your|you)\b", re.IGNORECASE)
