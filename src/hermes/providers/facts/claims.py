"""Finds the names and claims in a text. A claim has a slot and a value; two claims on one slot may contradict.

A slot is a subject and a relation ("alice|live"). Only facts that share a slot are compared, never every fact with
every other.
"""

# ruff: noqa: RUF001 - the punctuation of other scripts is meant as it stands

from __future__ import annotations

import os
import re
import tomllib
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hermes.safety.fence import sanitize_context

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


with open(os.path.join(os.path.dirname(__file__), "text", "words.toml"), "rb") as _file:
    _TABLES: dict[str, Any] = tomllib.load(_file)


def _words(name: str) -> frozenset[str]:
    return frozenset(_TABLES["words"][name].split())


STARTERS, DATES, LINKS, TITLES = _words("starters"), _words("dates"), _words("links"), _words("titles")
NEGATIONS, DETERMINERS, PREPOSITIONS = _words("negations"), _words("determiners"), _words("prepositions")
ADVERBS, COPULAS, PRONOUNS, PAST = _words("adverbs"), _words("copulas"), _words("pronouns"), _words("past")
ENDS_A_VALUE = _words("ends_a_value")
ONE, OPEN, LOOSE, MANY = "one", "open", "loose", "many"  # how many values a slot can hold at once
IRREGULAR: dict[str, str] = {form: base for base, forms in _TABLES["irregular"].items() for form in forms.split()}
# By a verb's base form: its relation, how many values that can have, and whether the verb denies it.
_VERBS: dict[str, tuple[str, str, int]] = {
    verb: (name, kind, 0) for name, (kind, verbs) in _TABLES["relations"].items() for verb in verbs.split()
}
for _name, _opposites in _TABLES["opposites"].items():
    _VERBS |= dict.fromkeys(_opposites.split(), (_name, _TABLES["relations"][_name][0], 1))
KIND_OF: dict[str, frozenset[int]] = {}
for _number, _kind in enumerate(_TABLES["kinds"]["exclusive"]):
    for _word in _kind.split():
        KIND_OF[_word] = KIND_OF.get(_word, frozenset()) | {_number}
HAN_VERBS: dict[str, str] = _TABLES["han"]["verbs"]
HAN_NEGATIONS, HAN_SUFFIXES, HAN_GLUE = (_TABLES["han"][name].split() for name in ("negations", "suffixes", "glue"))


# Names: people, products, places, files and quoted terms. A name that the rules miss is still found by its words.

LONGEST_NAME = 80
MOST = 24
_LETTERS = r"[^\W\d_]"
# A word may hold apostrophes (O'Brien, doesn't), hyphens and digits (Jean-Luc, GPT-4), and end in an initial's dot.
_WORD = re.compile(rf"{_LETTERS}[\w]*(?:['’\-]\w+)*")
_QUOTED = re.compile(
    r"\"([^\"\n]{2,80})\"|“([^”\n]{2,80})”|`([^`\n]{2,80})`|「([^」\n]{1,80})」|『([^』\n]{1,80})』|《([^》\n]{1,80})》"
    # A single quote opens only where a word cannot go on, so that doesn't and Bob's are no quotations.
    r"|(?<!\w)'([^'\n]{2,60})'(?!\w)|(?<!\w)‘([^’\n]{2,60})’(?!\w)"
)
_IDENTIFIER = re.compile(
    r"(?<![\w./@-])(?:https?://[^\s,;)]+|[\w.+-]+@[\w-]+\.[\w.]+"  # addresses
    r"|[\w-]*\w(?:/[\w.-]+)+|[A-Za-z][\w-]*(?:\.[A-Za-z]\w+)+|[A-Za-z]\w*_\w+|[a-z]+[A-Z]\w*"  # paths and code
    r"|[A-Za-z]+(?:-[A-Za-z]+)*-?\d[\w.-]*[A-Za-z0-9])"  # host-12, gpt4
)
_ALSO = re.compile(
    r"([^,;.()，。；（）]{1,60}?)[\s,，(（]*(?:\baka\b|\ba\.k\.a\.|\balso known as\b|又名|别名|也叫|又叫|亦称)[\s:：]*"
    r"([^,;.()，。；（）]{1,60})",
    re.IGNORECASE,
)
_HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_KANA = "\u3041-\u3096\u30a1-\u30fa\u30fc"
_HAN_RUN = re.compile(f"[{_HAN}]+(?:·[{_HAN}]+)*")
_HAN_TITLED = re.compile(f"[{_HAN}](?:{'|'.join(HAN_SUFFIXES)})")
_UNSPACED_RUN = re.compile(f"[{_HAN}{_KANA}\uac00-\ud7a3]+")
_JAPANESE_NAME = re.compile(f"[\u30a1-\u30fa\u30fc]{{2,}}|[{_HAN}]{{2,8}}")
_JAPANESE_TITLE = re.compile(f"([{_HAN}\u30a1-\u30fa\u30fc]{{1,8}})(?:さん|様|君|氏|ちゃん)")
_HAS_KANA = re.compile(f"[{_KANA}]")
_KOREAN = re.compile(
    "([\uac00-\ud7a3]{1,9}?[\uac00-\ud7a3])(?:에서는|에서|에게|께서|으로|은|는|이|가|을|를|에|와|과|의|로)(?![\uac00-\ud7a3])"
)
_HAN_BREAK = re.compile(
    "|".join(map(re.escape, sorted({*HAN_VERBS, *HAN_GLUE, *HAN_NEGATIONS, *HAN_SUFFIXES}, key=len, reverse=True)))
)
_LONGEST_HAN = 8


@dataclass(frozen=True, slots=True)
class Named:
    """A name as written, and its aliases."""

    name: str
    aliases: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The key under which all spellings of the name are found."""
        return key_of(self.name)


def key_of(name: str) -> str:
    """The same key for all spellings of a name."""
    folded = unicodedata.normalize("NFKC", name).casefold().replace("’", "'").strip(" \t\n.,;:!?\"'`()[]{}。，、！？")
    folded = folded.removesuffix("'s")
    return " ".join(folded.split())[:LONGEST_NAME]


def parts_of(key: str) -> list[str]:
    """Returns the words of a name that has several, each of which may be used alone."""
    words = key.split()
    return [word for word in words if len(word) > 1 and word not in LINKS] if len(words) > 1 else []


def find_entities(text: str, given: Iterable[str] = ()) -> list[Named]:
    """The entities named in a text, without duplicates; the `given` ones come first."""
    text = unicodedata.normalize("NFC", text)
    found: dict[str, Named] = {}
    for name in (*given, *_names(text)):
        key = key_of(name)
        if key and (len(key) > 1 or not key.isascii()) and key not in found:
            found[key] = Named(name.strip()[:LONGEST_NAME])
    for one, other in _also_known(text, found):
        found[one] = Named(found[one].name, (*found[one].aliases, found[other].name))
        del found[other]
    return list(found.values())[:MOST]


def _names(text: str) -> Iterator[str]:
    for match in _QUOTED.finditer(text):
        yield next(group for group in match.groups() if group)
    yield from (match[0].rstrip(".") for match in _IDENTIFIER.finditer(text))
    yield from _capitalised(text)
    if _HAS_KANA.search(text):
        yield from _JAPANESE_TITLE.findall(text)
        yield from (match[0] for match in _JAPANESE_NAME.finditer(text))
    else:
        yield from _HAN_TITLED.findall(text)
        for run in _HAN_RUN.finditer(text):
            yield from han_pieces(run[0])
    yield from (name for name in _KOREAN.findall(text) if len(name) > 1)


def _capitalised(text: str) -> Iterator[str]:
    """Runs of capitalised words; at the start of a sentence, common words such as "The" do not count."""
    run: list[str] = []
    end = 0
    text = _UNSPACED_RUN.sub("|", text)
    for match in _WORD.finditer(text):
        between = text[end : match.start()]
        starts = end == 0 or between.strip() not in ("", ",") or "\n" in between
        end = match.end()
        word, ended = _without_possessive(match[0])
        joined = bool(run) and between in (" ", ". ") and (between == " " or len(run[-1]) == 1)
        if joined and (_is_name(word) or (word in LINKS and _goes_on(text, end))):
            run.append(word)
        else:
            yield from _finished(run)
            run = [word] if _is_name(word) and not (starts and word.casefold() in STARTERS) else []
        if ended:
            yield from _finished(run)
            run = []
    yield from _finished(run)


def _finished(run: list[str]) -> Iterator[str]:
    while run and run[-1] in LINKS:
        run.pop()
    if run and not all(word.casefold() in DATES for word in run):
        yield " ".join(run)


def _is_name(word: str) -> bool:
    return word[0].isupper() and word not in TITLES and (len(word) > 1 or word not in "IA")


def _goes_on(text: str, end: int) -> bool:
    return text[end : end + 1] == " " and (
        text[end + 1 : end + 2].isupper() or text[end + 1 : end + 5] in ("der ", "den ")
    )


def _without_possessive(word: str) -> tuple[str, bool]:
    plain = word.replace("’", "'")
    if plain.endswith("'s"):
        return word[:-2], True
    if plain.endswith(("n't", "'ll", "'re", "'ve", "'d", "'m")):
        return plain.rpartition("'")[0], True
    return word, False


def _also_known(text: str, found: dict[str, Named]) -> Iterator[tuple[str, str]]:
    for match in _ALSO.finditer(text):
        before = [key for key in found if key and key_of(match[1]).endswith(key)]
        after = [key for key in found if key and key_of(match[2]).startswith(key)]
        if before and after:
            one, other = max(before, key=len), max(after, key=len)
            if one != other:
                yield one, other


def han_pieces(run: str) -> list[str]:
    """The text between verbs and particles; a single character is not a name."""
    pieces = _HAN_BREAK.split(run)
    return [piece for piece in pieces if 1 < len(piece) <= _LONGEST_HAN * (2 if "·" in piece else 1)]


MOST_CLAIMS = 6
_LONGEST_SLOT = 160
_TOKEN = re.compile(r"[^\s,;!?()\[\]{}\"“”`*]+")
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|[。！？；\n]+")
_NUMBER = re.compile(r"[$€£]?\d[\d,.:/-]*\d%?|[$€£]?\d%?")
_HAN_CLAIM = re.compile("[\u3400-\u9fff]")
_HAN_VERB = re.compile("|".join(sorted(HAN_VERBS, key=len, reverse=True)))
_HAN_NEGATION = re.compile("|".join(HAN_NEGATIONS))
_HAN_PUNCTUATION = re.compile(r"[\s，、：:“”\"]+")
_HAN_ADVERB = re.compile("现在|目前|已经|一直|总是|经常|通常|非常|很|都|也|了|的")

NEGATED, NUMBER, EXCLUSIVE, VALUE = "negation", "number", "alternative", "value"
# How surely two claims contradict each other, by how they differ; `CONTRADICTION` in `store` is the threshold.
_SCORES = {NEGATED: 0.9, NUMBER: 0.85, EXCLUSIVE: 0.85}
_VALUE_SCORES = {ONE: 0.7, OPEN: 0.25, LOOSE: 0.25}
_SAME_TOPIC = 0.5
_SHORT_VALUE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a fact says about a subject, in a form that can be compared."""

    slot: str
    kind: str  # how many values the slot can hold at once
    value: frozenset[str]
    numbers: tuple[str, ...]
    negated: bool


@dataclass(frozen=True, slots=True)
class Conflict:
    """Why two facts cannot both be true."""

    score: float
    why: str


def claims_of(text: str) -> list[Claim]:
    """Returns the claims of a fact; questions and statements about the past have none."""
    found: dict[str, Claim] = {}
    for sentence in _SENTENCE.split(unicodedata.normalize("NFKC", text)):
        if sentence and not sentence.rstrip().endswith("?"):
            reader = _han_claims if _is_han(sentence) else _spaced_claims
            for claim in reader(sentence):
                found.setdefault(claim.slot, claim)
    return [claim for claim in found.values() if len(claim.slot) <= _LONGEST_SLOT][:MOST_CLAIMS]


def conflict(one: Claim, other: Claim) -> Conflict | None:
    """Why two claims on the same slot cannot both be true; None if they can."""
    both = one.value | other.value
    overlap = len(one.value & other.value) / len(both) if both else 1.0
    if one.negated != other.negated:
        same = overlap >= _SAME_TOPIC and one.numbers == other.numbers
        return Conflict(_SCORES[NEGATED] * (0.8 + 0.2 * overlap), NEGATED) if same else None
    if one.negated:
        return None
    alike = overlap > 0 or not (one.value and other.value)  # "three children" and "two cats" do not contradict
    if alike and one.numbers and other.numbers and set(one.numbers).isdisjoint(other.numbers):
        return Conflict(_SCORES[NUMBER], NUMBER)
    if one.kind == MANY:
        return None
    if _exclude(one.value - other.value, other.value - one.value):
        return Conflict(_SCORES[EXCLUSIVE], EXCLUSIVE)
    if one.value <= other.value or other.value <= one.value:
        return None  # the longer one only adds detail
    known = [{kind for word in value for kind in KIND_OF.get(word, ())} for value in (one.value, other.value)]
    if known[0] and known[1] and one.kind == OPEN:
        return None  # of different kinds: using a language and a database is not a contradiction
    # Using two things is not a contradiction; using two for the same purpose is.
    score = _VALUE_SCORES[ONE if overlap and one.kind == OPEN else one.kind] * (
        1 if max(len(one.value), len(other.value)) <= _SHORT_VALUE else 0.6
    )
    return Conflict(score, VALUE)


def _is_han(sentence: str) -> bool:
    """Whether the sentence is Chinese; a Chinese name in an English sentence does not make it so."""
    return bool(_HAN_CLAIM.search(sentence)) and not any(_says(word) for word in sentence.casefold().split())


def _says(word: str) -> bool:
    return word in COPULAS or _base(word) in _VERBS


def _exclude(one: frozenset[str], other: frozenset[str]) -> bool:
    kinds = [KIND_OF.get(word, frozenset()) for word in other]
    return any(not kind.isdisjoint(KIND_OF.get(word, frozenset())) for word in one for kind in kinds)


# --- scripts with spaces, mostly English -----------------------------------------------------------------------------


def _spaced_claims(sentence: str) -> Iterator[Claim]:
    tokens = _tokens(sentence)
    if PAST & set(tokens) or "used to" in " ".join(tokens):
        return
    at = _verb_at(tokens)
    if at is None:
        return
    subject, attribute, denied = _subject(tokens[:at])
    relation, kind, denies = _relation(tokens[at])
    rest = tokens[at + 1 :]
    negated = (denied + denies) % 2 == 1
    while rest and (rest[0] in ADVERBS or rest[0] in NEGATIONS):
        negated ^= rest[0] in NEGATIONS
        rest = rest[1:]
    if relation == "is" and rest and _is_participle(rest[0]):
        relation, kind, denies = _relation(rest[0])
        negated ^= bool(denies)
        rest = rest[1:]
    if rest and rest[0] in PREPOSITIONS:
        relation, kind = _TABLES["with_preposition"].get(f"{relation} {rest[0]}", (relation, kind))
        rest = rest[1:]
    if attribute and relation == "is":
        relation, kind = attribute, ONE
    else:
        subject = f"{subject} {attribute}".rstrip()
        if relation == "is":
            kind = ONE if subject != "user" and len(rest) == 1 else LOOSE
        if relation == "is" and not negated:
            yield from _office(subject, rest)
    value, numbers = _value(rest)
    yield Claim(slot=f"{subject}|{relation}", kind=kind, value=value, numbers=numbers, negated=negated)


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
        if at and tokens[at - 1] in DETERMINERS:
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
    """The subject, the attribute that the sentence is about, and the number of negations before the verb."""
    denied = sum(word in NEGATIONS for word in tokens)
    mine = any(word in ("my", "our", "user's") for word in tokens)
    left = [word for word in tokens if word not in DETERMINERS | ADVERBS | NEGATIONS]
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
    if all(word in PRONOUNS for word in left):
        return "user", "", denied
    return " ".join(left), "", denied


def _relation(word: str) -> tuple[str, str, int]:
    if word in COPULAS:
        return "is", LOOSE, 0
    return _VERBS.get(_base(word), (word, OPEN, 0))


def _is_participle(word: str) -> bool:
    return _base(word) in _VERBS and (word.endswith(("ed", "en", "ing", "t", "d")) or word in IRREGULAR)


def _value(tokens: list[str]) -> tuple[frozenset[str], tuple[str, ...]]:
    kept: list[str] = []
    for at, word in enumerate(tokens):
        if word in ENDS_A_VALUE or (word == "and" and any(map(_says, tokens[at + 1 : at + 3]))):
            break
        kept.append(word)
    numbers = tuple(word for word in kept if _NUMBER.fullmatch(word))
    glue = DETERMINERS | PREPOSITIONS | ADVERBS | {"and", "or"}
    return frozenset(_singular(word) for word in kept if word not in glue and word not in numbers), numbers


def _office(subject: str, rest: list[str]) -> Iterator[Claim]:
    """Claims of "A is the lead of B": only one person has this role, and has it in one place."""
    if len(rest) < 2 or rest[0] != "the" or not subject:  # noqa: PLR2004 - the word and what follows it
        return
    office, _, where = " ".join(rest[1:]).partition(" of ")
    holder = frozenset(subject.split())
    yield Claim(slot=f"{' '.join(rest[1:])}|holder", kind=ONE, value=holder, numbers=(), negated=False)
    if where:
        place, numbers = _value(where.split())
        yield Claim(slot=f"{subject}|{office} of", kind=ONE, value=place, numbers=numbers, negated=False)


def _singular(word: str) -> str:
    if word in KIND_OF or len(word) <= len("gas") or word.endswith(("ss", "us", "is")):
        return word
    return word.removesuffix("s")


def _base(word: str) -> str:
    """The base form of a verb, judged by its ending."""
    if word in IRREGULAR:
        return IRREGULAR[word]
    for ending, instead in (("ies", "y"), ("ied", "y"), ("es", ""), ("es", "e"), ("s", ""), ("ed", ""), ("ed", "e"),
                            ("ing", ""), ("ing", "e")):  # fmt: skip
        if word.endswith(ending) and word[: -len(ending)] + instead in _VERBS:
            return word[: -len(ending)] + instead
    return word


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
        relation = HAN_VERBS[verb[0]]
        negated = (denied + relation.startswith("!")) % 2 == 1
        relation = relation.removeprefix("!")
        subject, rest = positive[: verb.start()] or "我", positive[verb.end() :]
        numbers = tuple(_NUMBER.findall(rest))
        value = frozenset(filter(None, [_NUMBER.sub("", rest).casefold()]))
        kind = ONE if relation in _TABLES["han"]["one"] else OPEN if relation == "use" else MANY
        slot = f"{subject}|{relation}" if not (numbers and value) else f"{subject}|{relation}#{next(iter(value))}"
        yield Claim(slot=slot, kind=kind, value=value, numbers=numbers, negated=negated)


# Statements: sentences in which a person states a preference or a decision.

LONGEST_SENTENCE = 400
_SHORTEST = 6
_MOST = 50
_SENTENCE_SPLIT = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")
_FENCED_CODE = re.compile(r"```.*?```|~~~.*?~~~", re.DOTALL)
_QUOTED_SPEECH = re.compile(r"^\s*(?:>|\||#|[-*]\s*\[)")

_RULES = [
    (category, re.compile(rule, re.IGNORECASE)) for category, rules in _TABLES["statements"].items() for rule in rules
]


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence worth keeping as a fact."""

    text: str
    category: str


def statements_in(messages: Iterable[dict[str, Any]]) -> list[Statement]:
    """The person's statements in these messages, without duplicates."""
    found: dict[str, Statement] = {}
    for message in messages:
        if message.get("role") == "user":
            for sentence in _sentences(_text(message.get("content"))):
                if (category := _category(sentence)) is not None:
                    found.setdefault(sentence.casefold(), Statement(sentence, category))
    return list(found.values())[:_MOST]


def _sentences(text: str) -> Iterator[str]:
    plain = _FENCED_CODE.sub("\n", sanitize_context(text))
    for line in plain.splitlines():
        if not _QUOTED_SPEECH.match(line):
            for piece in _SENTENCE_SPLIT.split(line):
                sentence = piece.strip(" \t-*•")
                if len(sentence) * (1 if sentence.isascii() else 2) >= _SHORTEST and len(sentence) <= LONGEST_SENTENCE:
                    yield sentence


def _category(sentence: str) -> str | None:
    if sentence.endswith(("?", "？", "吗", "呢")):
        return None
    return next((category for category, rule in _RULES if rule.match(sentence)), None)


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(str(part.get("text", "")) for part in parts if isinstance(part, dict))
