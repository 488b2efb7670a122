"""Finds what a summary must not lose: identifiers, paths, addresses, numbers, errors, rules, decisions, open questions.

The work is bounded: the beginning is read, then from the newest message backwards until there is more than the block
could hold. What is not read here stays reachable through the pointers.
"""

from __future__ import annotations

import re
from itertools import islice, pairwise
from typing import TYPE_CHECKING, NamedTuple

from hermes.compression.block import is_block
from hermes.compression.cues import ANY_WORD, PIECES, QUESTION_MARKS, SENTENCE_MARKS, TRIMMED, WORDS
from hermes.compression.reading import calls_of, one_line, text_of

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from hermes.compression.reading import Message

    Finding = tuple[str, str, str]  # kind, text, source

SENTENCE = 280
SENTENCES = ("constraint", "decision", "question", "open", "error")
# The order in which facts are kept when not all fit.
ORDER = ("constraint", "decision", "open", "question", "identifier", "url", "path", "error", "number")
_SOURCES = ("user", "assistant", "call", "result")
_SOURCE_OF = {"user": "user", "tool": "result"}
# Each source's share of the facts that are looked for.
_SHARES = {"user": 0.5, "assistant": 0.25, "call": 0.15, "result": 0.1}
_OLDEST = 40  # messages of the beginning that are read in any case: rules are stated early
_MESSAGE = 6_000  # characters read of what a person or the assistant wrote
_RESULT = 300  # characters read at each end of a tool result
_WORDS_PER_MESSAGE = 40
_USUAL_KEYS = 2  # role and content; what has more may be marked as a block by another program
_READ = 2_000_000  # characters of one history
_LONG_WORD = 80
_SHORTEST_NAME = 3
_SHORTEST_CODE = 5  # capitals: ENOSPC is a code, USA is not
_EMBEDDED = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./:@#\\%+~-]*[A-Za-z0-9]|\d+")
_FILE_NAME = re.compile(r"^[\w.@~+-]*[A-Za-z_][\w.@~+-]*\.[A-Za-z][A-Za-z0-9]{0,7}$")
# One class of characters and nothing else: such a search runs at memory speed.
_ODD = re.compile(r"[0-9A-Z_/@#\\.]")
_BLANK = re.compile(r"\s")
_ERRORS = ("rror", "ERROR", "xception", "Traceback", "FAILED", "ailed", "错误", "失败", "エラー", "ошибка")
_ALL_PIECES = tuple(piece for pieces in PIECES.values() for piece in pieces)


class Fact(NamedTuple):
    """One thing to keep, as it was written, and the position of the message it stands in."""

    kind: str
    text: str
    position: int
    source: str  # user, assistant, call or result


def find_facts(
    messages: Sequence[Message],
    enough: int,
    ids: Sequence[int | None] = (),
    known: Mapping[int | None, Sequence[Finding]] | None = None,
) -> list[Fact]:
    """About `enough` facts of the messages in the order in which they stand, each text once.

    `known` is what `findings` said before about messages, by their ids.
    """
    found: dict[str, Fact] = {}
    left = {source: enough * share for source, share in _SHARES.items()}
    wanted = set(left)
    unread = _READ
    oldest = range(min(_OLDEST, len(messages)))
    for position in (*oldest, *range(len(messages) - 1, len(oldest) - 1, -1)):
        here = known.get(ids[position]) if known else None
        if here is None:
            content = messages[position].get("content")
            unread -= min(len(content), _MESSAGE) if type(content) is str else _MESSAGE
            if unread < 0:
                break
            here = findings(messages[position], wanted)
        for kind, text, source in here:
            if text not in found and source in wanted:
                found[text] = Fact(kind, text, position, source)
                left[source] -= 1
                if left[source] <= 0:
                    wanted.discard(source)
        if not wanted:
            break
    return sorted(found.values(), key=lambda fact: fact.position)


def findings(message: Message, wanted: Container[str] = _SOURCES) -> list[Finding]:
    """(kind, text, source) of everything worth keeping in a message, of the sources that are wanted."""
    content = message.get("content")
    text = content if type(content) is str else text_of(message)
    if (text.startswith("[") or len(message) > _USUAL_KEYS) and is_block(message):
        return []  # read by itself, with `facts_in`
    source = _SOURCE_OF.get(message.get("role", ""), "assistant")
    here: list[Finding] = []
    if text and source in wanted:
        # Most messages hold nothing; a generator for each of them would be half of the work.
        if source == "result":
            here += _of_result(text)
        elif (cue := _has_cue(text)) or _ODD.search(text, 1, len(text) - 1):
            here += _of_text(text, source, cue=cue)
    if "call" in wanted and message.get("tool_calls"):
        here += _of_calls(message)
    return here


def facts_in(text: str) -> list[Fact]:
    """Facts of a text that stands for older messages: an earlier summary."""
    found = dict.fromkeys([*sentences_of(text), *words_of(text)])
    return [Fact(kind, each, -1, "assistant") for kind, each in found]


def by_importance(facts: Iterable[Fact]) -> list[Fact]:
    """What people said before what tools said, rules and decisions before numbers, newer before older."""
    order = {
        (kind, source): (rank // 4 + nearness, rank)
        for rank, kind in enumerate(ORDER)
        for nearness, source in enumerate(_SOURCES)
    }
    return sorted(facts, key=lambda fact: (order[fact.kind, fact.source], -fact.position))


def words_of(text: str) -> Iterator[tuple[str, str]]:
    """(kind, word) of every identifier, path, address and number in a text."""
    for raw in _odd_words(text):
        word = raw.strip(TRIMMED)
        if word.isalpha():
            if not word.islower() and not word[1:].islower() and _is_name(word):
                yield "identifier", word
        elif word.isascii():
            if kind := _kind(word):
                yield kind, word
        else:
            for piece in _EMBEDDED.findall(word):
                if kind := _kind(piece):
                    yield kind, piece


def sentences_of(text: str) -> Iterator[tuple[str, str]]:
    """(kind, sentence) of every rule, decision, open matter and question in a text."""
    pieces = not text.isascii() and any(map(text.__contains__, _ALL_PIECES))
    for sentence in _sentences(text):
        words = sentence.split()
        kind = next((kind for kind, cues in WORDS.items() if not cues.isdisjoint(words)), None)
        if kind is None and pieces:
            kind = next((kind for kind, cues in PIECES.items() if any(map(sentence.__contains__, cues))), None)
        if kind is None and sentence.endswith(QUESTION_MARKS):
            kind = "question"
        if kind is not None:
            yield kind, one_line(sentence, SENTENCE)


def ends_of(text: str) -> str:
    """Where a tool's output says how it went: its beginning and its end."""
    return text if len(text) <= 2 * _RESULT else f"{text[:_RESULT]}\n{text[-_RESULT:]}"


def failure_in(text: str) -> str:
    """The line that tells of an error; "" without one."""
    for word in _ERRORS:
        if word in text:
            return next(one_line(line, SENTENCE) for line in text.splitlines() if word in line)
    return ""


def _of_text(text: str, source: str, *, cue: bool) -> Iterator[Finding]:
    if len(text) > _MESSAGE:
        text = text[: _MESSAGE * 2 // 3] + "\n" + text[-_MESSAGE // 3 :]
    if cue:
        for kind, sentence in sentences_of(text):
            # What the assistant asks itself is no open question once it went on; what it decided is a decision.
            if source == "user" or kind != "question":
                yield kind, sentence, source
    if _ODD.search(text, 1, len(text) - 1):  # a capital at the beginning and a full stop at the end are nothing odd
        for kind, word in islice(words_of(text), _WORDS_PER_MESSAGE):
            yield kind, word, source


def _of_result(text: str) -> Iterator[Finding]:
    ends = ends_of(text)
    if line := failure_in(ends):
        yield "error", line, "result"
    if _ODD.search(ends):
        for kind, word in islice(words_of(ends), _WORDS_PER_MESSAGE // 4):
            if kind != "number":
                yield kind, word, "result"


def _of_calls(message: Message) -> Iterator[Finding]:
    for _, _, arguments in calls_of(message):
        for kind, word in words_of(arguments[:_RESULT].replace('"', " ").replace("\\n", " ")):
            if kind != "number":
                yield kind, word, "call"


def _has_cue(text: str) -> bool:
    if "?" in text or not ANY_WORD.isdisjoint(text.split()):
        return True
    return not text.isascii() and any(map(text.__contains__, (*_ALL_PIECES, *QUESTION_MARKS)))


def _odd_words(text: str) -> Iterator[str]:
    """Words that are not just lower-case letters; the search skips through prose without looking at each word."""
    end = 0
    while found := _ODD.search(text, end):
        place = found.start()
        start = (
            max(text.rfind(" ", end, place), text.rfind("\n", end, place), text.rfind("\t", end, place), end - 1) + 1
        )
        blank = _BLANK.search(text, place)
        end = blank.start() if blank else len(text)
        yield text[start:end]


def _kind(word: str) -> str | None:
    if "://" in word:
        return "url"
    has_digit = len(word) >= _LONG_WORD or any(map(str.isdigit, word))
    if has_digit and not any(map(str.isalpha, word)):
        return "number" if len(word) > 1 else None
    if len(word) < _SHORTEST_NAME or not any(map(str.isalnum, word)):
        return None
    if "/" in word or "\\" in word or _FILE_NAME.match(word):
        return "path"
    return "identifier" if has_digit or "_" in word or "@" in word or "#" in word else None


def _is_name(word: str) -> bool:
    """`getUser` and `ENOSPC`; not `Title` or `USA`."""
    if word.isupper():
        return len(word) >= _SHORTEST_CODE
    return any(a.islower() and b.isupper() for a, b in pairwise(word))


def _sentences(text: str) -> Iterator[str]:
    start = 0
    for found in SENTENCE_MARKS.finditer(text):
        if sentence := text[start : found.end()].strip():
            yield sentence
        start = found.end()
    if sentence := text[start:].strip():
        yield sentence
