"""Decides whether a note only repeats what the person said. The trust gate relies on nothing else.

A note repeats a statement if it has the same words in the same order, from the beginning of the statement, omits
nothing before the verb, and omits nothing that limits or negates it. "I" may become "the user", a verb may take
another form of the present, and a few phrases have equivalents. Every other note waits for the person.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from hermes.base.values import value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def word_set(text: str) -> frozenset[str]:
    """The words of a list that is written as one string, as in a table."""
    return frozenset(text.split())


def words(text: str) -> set[str]:
    """The runs of letters and digits in a text, in lower case."""
    return set(re.findall(r"[^\W_]+", text.casefold()))


with open(os.path.join(os.path.dirname(__file__), "data", "trust.txt"), encoding="utf-8") as _file:
    _BLOCKS = re.findall(r"^\[([a-z ]+)\]\n((?:.+\n)+)", _file.read(), re.MULTILINE)
TABLES = {name: body.split() for name, body in _BLOCKS}  # names of files and programs, and small words


def _pairs(table: str) -> dict[str, str]:
    return {word: same.replace("+", " ") for word, same in (each.split("=") for each in TABLES[table])}


SMALL_WORDS = word_set("a an the to of in on at for with and or as by from is are be it that this")
_SENTENCES = re.compile(r"(?<=[.!?;])\s+|\n+|(?<=[\u3002\uff01\uff1f\uff1b])")
_CLAUSES = re.compile(r"[,;()]+(?!\d)|\s[-\u2013\u2014]+\s|[\u2013\u2014\u3001\uff0c\uff1b]")
_FILLER = frozenset(TABLES["filler"])
# Ends with a question mark or a tag ("right"), begins with a question word, or inverts subject and verb.
_QUESTION = re.compile(
    "[?\uff1f\u061f]"
    r"\s*[\"')\]]*$|^\W*(?:is|are|am|was|were|do|does|did|can|could|should|would|will|shall|may|might|has|have|had|"
    r"what|what's|which|who|whom|whose|where|when|why|how|isn't|aren't|wasn't|won't|wouldn't|shouldn't|couldn't|can't|"
    r"any (?:idea|chance|reason)|don't (?:you|we|i|they))\b"
    r"|\b(?:is|are|can|could|should|would|will|do|does|did|may|shall)\s+(?:it|we|i|you|they|he|she|there|this|that)\b"
    r"|\b(?:right|correct|yes|no|okay|ok|huh|eh)\s*$",
    re.IGNORECASE,
)
# A sentence with one of these states nothing.
_UNSTATED = re.compile(
    r"\b(?:ask|asks|asked|asking|whether|if|wonder\w*|unsure|maybe|perhaps|possibly|probably|suppose|assume|assuming|"
    r"imagine|pretend|guess|check|verify|confirm|find out|see what|let me know|tell me|explain|figure out|forget|"
    r"hypothetical\w*|would be|could be|as though|as if)\b",
    re.IGNORECASE,
)
# A message with one of these discusses a text, or takes back what it says.
_ABOUT_A_TEXT = re.compile(
    r"\b(?:translate|proofread|rewrite|rephrase|reword|paraphrase|summari[sz]e|tl;?dr|quot(?:e|es|ed|ing)|story|poem|"
    r"novel|fiction\w*|lyrics|character|role-?play|pretend|imagine|example|for instance|e\.g\.|hypothetical\w*|sample|"
    r"dummy|placeholder|template|draft|sarcas\w+|ironic\w*|jok(?:e|ing)|kidding|untrue|not true|false|wrong|incorrect|"
    r"a lie|just testing|jk|in theory|supposedly|allegedly|"
    r"(?:don't|do not|never) (?:save|remember|store|note|keep)|"
    r"off the record|between us|scratch that|never ?mind|strike that)\b"
    r"|^(?:from|to|subject|date|cc|re|fwd?):",
    re.IGNORECASE | re.MULTILINE,
)
_PASTED = re.compile(
    r"\b(?:this|these|the following|below|here is|here's|here are|it says|they wrote)\b", re.IGNORECASE
)
# What people say before a statement: "please remember that", "from now on,".
_LEAD_IN = re.compile(
    r"^\W*(?:(?:please|ok|okay|hey|hi|hello|thanks|thank you|also|and|btw|by the way|fyi|for the record|note|remember|"
    r"save|keep in mind|don't forget|do not forget|make a note|write down|store|memori[sz]e|be aware|"
    r"just so you know|for (?:future|later) reference|from now on|going forward|in (?:the )?future|in general|"
    r"you should|you must|i want you to|i'd like you to|i would like you to|correction|update|well|so)\b"
    r"(?:\s+(?:that|this|to memory|in memory|of this|it|down))*[\s,:;.!-]*)+",
    re.IGNORECASE,
)
# What a model puts before the person's statement: "The user prefers to", "They said that".
_FRAME = re.compile(
    r"^(?:the )?(?:user|person|they|he|she)(?: has)? (?:prefers|wants|likes|said|says|asked|told me|mentioned|noted|"
    r"states|stated|requires|expects)(?: that| me to| to| you to| the agent to| the assistant to)?\s+",
    re.IGNORECASE,
)
# The statement may be somebody else's.
_REPORTED = re.compile(
    r"\b(?:say|says|said|claim\w*|told|tells|according|reads|wrote|writes|states|stated|think|thinks|thought|believe\w*|"
    r"suggest\w*|heard|rumou?r\w*)\b|:",
    re.IGNORECASE,
)
_LIMITING = frozenset(TABLES["limiting"])
# Limits or denies the sentence before it.
_TURNS_BACK = re.compile(
    r"^\W*(?:except|but|not|only|unless|however|although|though|no\b|nope|wait|actually|just kidding|don't|do not|"
    r"never mind|instead|or rather|well|unless|until)\b",
    re.IGNORECASE,
)
_HOLDS_BACK = re.compile(r"\b(?:not|never|don't|ask|if|whether|unless|why|what|without)\b", re.IGNORECASE)
# Takes back what was said before it, in the same message or in the one before.
_TAKES_BACK = re.compile(
    r"^\W*(?:no\b|nope|wait|actually|scratch|strike|never ?mind|just kidding|jk|i lied|forget (?:that|it|what)|"
    r"correction|sorry|oops|my mistake|that(?:'s| is| was)(?: not| wrong| false| a))\b",
    re.IGNORECASE,
)
_LIMITS_NEXT = re.compile(r"\b(?:only|except|unless|following|in case|provided)\b", re.IGNORECASE)
_FIRST_PERSON = _pairs("first person")
_NOTE_SUBJECTS = _pairs("note subjects")
_SAME_WORD = _pairs("same word")
_SAME_PHRASE = (
    (re.compile(r"\b(?:be )?(?:based in|located in|reside in|resides in)\b"), "live in"),
    (re.compile(r"(?:§s name be|(?:§|^) ?be (?:called|named)|^call §|§ go by|§ prefer to be called)"), "name"),
    (re.compile(r"§ (?:be born on|have §s birthday on)|§s birthday be(?: on)?|^birthday:?"), "birthday"),
    (re.compile(r"^(?:我们|我|用户|私は|わたしは|ユーザーは)"), "§ "),
)
_KEPT = _LIMITING | {"always", "this", "his", "has", "was"}
_COMMA = "|"
_BREAKS = word_set("| and because since which where who")


@value
class _Sentence:
    """One statement: its words without fillers, where its clauses begin, and which ones merely continue it ("and")."""

    tokens: tuple[str, ...]
    starts: tuple[int, ...]
    joined: frozenset[int]
    raw: str


def repeats(text: str, said: Sequence[str]) -> bool:
    """Whether every sentence of `text` repeats a statement of the person that they have not taken back since."""
    statements, before = list["_Sentence | str"](), 0
    for message in said:
        if _TAKES_BACK.match(message):
            statements[before:] = map(_raw, statements[before:])
        before = len(statements)
        statements += _statements(message)
    notes = [each for each in _SENTENCES.split(text) if words(each)]
    return bool(notes) and all(_is_repeated(note, statements) for note in notes)


def asks_to_run(message: str, command: str) -> bool:
    """Whether a line of the message is this command or ends with a request to run it; no question about it does."""
    asks = re.compile(
        rf"(?P<before>^|.*\b(?:run|execute)(?: the command)?:?\s+)(?:`{re.escape(command)}`(?:,? (?:and|then)\b.*)?"
        rf"|{re.escape(command)})(?: please| now| again| for me)*\W*$",
        re.IGNORECASE,
    )
    found = (asks.match(" ".join(line.split())) for line in _without_pasted(message).split("\n"))
    return any(each and not (_REPORTED.search(each["before"]) or _HOLDS_BACK.search(each["before"])) for each in found)


def speaks_of(entry: str, said: Sequence[str]) -> bool:
    """Whether the person's newest message asks to remove this entry, or repeats most of it."""
    if not said:
        return False
    wanted = {_stem(word) for word in words(entry) if word not in SMALL_WORDS and len(word) > 2}  # noqa: PLR2004
    for sentence in own_sentences(said[-1]):
        if _QUESTION.search(sentence) or _HOLDS_BACK.search(sentence) or _REPORTED.search(sentence):
            continue
        named = {_stem(word) for word in words(sentence)}
        after = _GONE.split(sentence, maxsplit=1)
        meant = {_stem(word) for word in words(re.split(r"[,;]| and ", after[1])[0])} if len(after) > 1 else set()
        # One word is enough if they mention memory itself; "remove the banner" may be about anything.
        if (wanted & meant and named & _OF_MEMORY) or (wanted and len(wanted & named) * 2 >= len(wanted)):
            return True
    return False


def _is_repeated(note: str, statements: Sequence[_Sentence | str]) -> bool:
    for variant in {note, _FRAME.sub("", note)}:
        for subjects in (_NOTE_SUBJECTS, {}):
            told = _parsed(variant, {**_FIRST_PERSON, **subjects})
            parts = _clauses(told)
            if _is_stated([told.tokens], statements) or (len(parts) > 1 and _is_stated(parts, statements)):
                return True
            if len(parts) > 1 and all(_is_stated([part], statements, whole=True) for part in parts):
                return True
    return False


def _is_stated(parts: Sequence[tuple[str, ...]], statements: Sequence[_Sentence | str], *, whole: bool = False) -> bool:
    """Whether one statement says all of this, and no later statement on the same subject says something else."""
    spoken = {token for part in parts for token in part} - SMALL_WORDS - _FILLER - {"§", "§s", "be", "have"}
    for at, statement in enumerate(statements):
        if _says(statement, parts, whole=whole):
            later = (each for each in statements[at + 1 :] if spoken <= {_stem(word) for word in words(_raw(each))})
            if all(_says(each, parts, whole=whole) for each in later):
                return True
    return False


def _says(statement: _Sentence | str, parts: Sequence[tuple[str, ...]], *, whole: bool) -> bool:
    return isinstance(statement, _Sentence) and all(_covers(part, statement, whole=whole) for part in parts)


def _raw(statement: _Sentence | str) -> str:
    return statement if isinstance(statement, str) else statement.raw


def _clauses(sentence: _Sentence) -> list[tuple[str, ...]]:
    ends = (*sentence.starts[1:], len(sentence.tokens))
    return [sentence.tokens[start:end] for start, end in zip(sentence.starts, ends, strict=True)]


def _covers(told: tuple[str, ...], statement: _Sentence, *, whole: bool) -> bool:
    """Whether `told` is the statement, or clauses of it that nothing before or after them limits.

    With `whole`, only clauses that name their subject count.
    """
    tokens = statement.tokens
    of_person = bool(tokens) and tokens[0].startswith("§")
    for start in statement.starts:
        own = start == 0 or tokens[start].startswith("§")
        # The words before a clause may be its condition, unless they are a statement of the person as well.
        if start and (not of_person or _REPORTED.search(statement.raw) or set(tokens[:start]) & _LIMITING):
            continue
        if whole and not own:
            continue
        for end in (*(each for each in statement.starts if each > start), len(tokens)):
            # What follows a comma may take it back ("in theory"); "and" only adds to it.
            adds = end == len(tokens) or end in statement.joined or tokens[end].startswith("§")
            is_open = adds and not _LIMITING & set(tokens[end:])
            verb = tokens[:2] if start else ()
            if is_open and _equal(told, tokens[start:end], verb, alone=own or _goes_on(statement)):
                return True
    return False


def _goes_on(statement: _Sentence) -> bool:
    """Whether a clause after "and" is a statement in itself; in "I refuse to ask and push", it is not."""
    subject, verb, then = (*statement.tokens, "", "", "")[:3]
    return subject == "§" and verb in _PLAIN_VERBS and then != "to" and not re.search(r"\w{2}ing\b", statement.raw)


def _equal(told: tuple[str, ...], clause: tuple[str, ...], verb: tuple[str, ...], *, alone: bool) -> bool:
    """The same words in the same order; a leading "I" may be left out.

    A later clause may repeat the first verb, and must unless it can stand `alone`.
    """
    wanted = _bare(clause)
    if "always" not in told:
        wanted = tuple(word for word in wanted if word != "always")
    given = _bare(told)
    return bool(wanted) and ((alone and given == wanted) or (len(verb) == 2 and given == (*_bare(verb), *wanted)))  # noqa: PLR2004


def _bare(tokens: tuple[str, ...]) -> tuple[str, ...]:
    """Drops the words for the person, because every statement is about them."""
    first = tokens[1:] if tokens[:1] == ("§",) else tokens
    return tuple(each for each in first if each != "§s")


def _statements(message: str) -> list[_Sentence | str]:
    """The sentences of a message in order; one that states nothing is kept as text, because it may deny others."""
    found: list[_Sentence | str] = []
    is_about_text = bool(_ABOUT_A_TEXT.search(message))
    for sentence in own_sentences(message):
        doubts = _QUESTION.search(sentence) and len(sentence.split()) <= 4  # noqa: PLR2004 - "Or do I?"
        if found and (_TURNS_BACK.match(sentence) or _TAKES_BACK.match(sentence) or doubts):
            found[-1] = _raw(found[-1])
        stripped = _LEAD_IN.sub("", sentence.replace("\u2019", "'"), count=1)
        limited = found and _LIMITS_NEXT.search(_raw(found[-1]))
        unsaid = is_about_text or limited or _UNSTATED.search(sentence) or not words(stripped)
        none = unsaid or _QUESTION.search(stripped)
        found.append(sentence if none or "\0" in sentence else _parsed(stripped, _FIRST_PERSON))
    return found


def own_sentences(message: str) -> list[str]:
    """What the person wrote themselves; code, quotations and pasted text become a gap."""
    text = re.sub(r"```.*?(?:```|\Z)|^\s*>.*$", "\0", message, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"[\"“”«»][^\"“”«»]*\s[^\"“”«»]*[\"“”«»]", " \0 ", text)
    return [each.strip() for each in _SENTENCES.split(_without_pasted(text)) if each.strip()]


def _without_pasted(text: str) -> str:
    lines = text.split("\n")
    for at, line in enumerate(lines[:-1]):
        led = _LEAD_IN.sub("", line, count=1)
        if (line.rstrip().endswith(":") and words(led)) or (
            _PASTED.search(line) and any(map(str.strip, lines[at + 1 :]))
        ):
            return "\n".join([*lines[: at + 1], "\0"])
    return text


def _parsed(sentence: str, people: Mapping[str, str]) -> _Sentence:
    spaced = _CLAUSES.sub(" | ", sentence.replace("\u2019", "'"))
    known = {**_SAME_WORD, **people}
    plain = (token.strip(".!?:\"'`*\u201c\u201d\u2026\u3002\uff01\uff1f") for token in spaced.casefold().split())
    text = " ".join(known.get(token, token) for token in plain if token)
    for pattern, same in _SAME_PHRASE:
        text = pattern.sub(same, text)
    tokens: list[str] = []
    starts = [0]
    joined: set[int] = set()
    for token in text.split():
        if token in _BREAKS:
            if tokens and starts[-1] != len(tokens):
                starts.append(len(tokens))
            if token != _COMMA:
                joined.add(len(tokens))
        elif token not in _FILLER:
            tokens.append(_stem(token))
    kept = tuple(at for at in starts if at < len(tokens) or at == 0)
    return _Sentence(tokens=tuple(tokens), starts=kept, joined=frozenset(joined), raw=sentence)


_ENDINGS = (("ies", "y"), ("ing", ""), ("sses", "ss"), ("shes", "sh"), ("ches", "ch"), ("xes", "x"), ("s", ""))


def _stem(word: str) -> str:
    """The form that "live", "lives" and "living" share; past forms and names with digits or signs do not change."""
    if len(word) <= 3 or not word.isalpha() or not word.isascii() or word in _KEPT:  # noqa: PLR2004
        return word
    for ending, instead in _ENDINGS:
        if word.endswith(ending) and not word.endswith("ss") and len(word) > len(ending) + 2:
            word = word[: -len(ending)] + instead
            break
    return word.removesuffix("e")


_GONE = re.compile(r"\b(?:forget|remove|delete|drop|erase|no longer|any ?more)\b", re.IGNORECASE)
_OF_MEMORY = frozenset(map(_stem, ("forget", "memory", "remember", "note", "entry", "rule", "fact", "profile")))
_PLAIN_VERBS = frozenset(map(_stem, ("be", "have", "live", "work", "use", "speak", "own", "teach", "study", "play")))
