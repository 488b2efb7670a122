"""Finds what a summary must not lose: identifiers, paths, addresses, numbers, errors, rules, decisions, open questions.

The work is bounded: the beginning is read, then from the newest message backwards until there is more than the block
could hold; rules and decisions, which come before all else there, are looked for further back. What is not read here
stays reachable through the pointers.
"""

from __future__ import annotations

import re
from itertools import chain, islice, pairwise
from typing import TYPE_CHECKING, NamedTuple

from hermes.compression.block import is_block
from hermes.compression.cue_places import texts_with_cues
from hermes.compression.cues import ANY_WORD, FULL_STOPS, PIECES, QUESTION_MARKS, SENTENCE_MARKS, TRIMMED, WORDS
from hermes.compression.reading import calls_of, one_line, text_of
from hermes.compression.wanted import IMPORTANCE, Wanted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hermes.compression.reading import Message

    Finding = tuple[str, str]  # kind and text

SENTENCE = 280
_SOURCE_OF: dict[object, str] = {"user": "user", "tool": "result"}
_EVERYBODY = frozenset(("user", "assistant", "result"))
_OLDEST = 40  # messages of the beginning that are read in any case: rules are stated early
_MESSAGE = 6_000  # characters read of what a person or the assistant wrote
_RESULT = 300  # characters read at each end of a tool result
_WORDS_PER_MESSAGE = 40
_READ = 2_000_000  # characters of one history
_READ_FOR_RULES = 500_000  # characters, once there is no room for anything else
_TOGETHER = 128  # messages
_LONG_WORD = 80
_SHORTEST_NAME = 3
_SHORTEST_CODE = 5  # capitals: ENOSPC is a code, USA is not
_EMBEDDED = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./:@#\\%+~-]*[A-Za-z0-9]|\d+")
_FILE_NAME = re.compile(r"^[\w.@~+-]*[A-Za-z_][\w.@~+-]*\.[A-Za-z][A-Za-z0-9]{0,7}$")
_ODD_SIGNS = frozenset("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_/@#\\.")
_NOT_ODD = bytes(set(range(1, 256)) - {ord(sign) for sign in (*_ODD_SIGNS, "?")})
# From something odd to the end of its word; a capital that begins a word and a full stop that ends one are not.
_ODD_ENDING = re.compile(r"[0-9A-Z_/@#\\.](?:(?<![A-Z.])|(?<=\S[A-Z])|(?<=\.)(?=\S))\S*")
_DIGIT = re.compile("[0-9]")
_ERRORS = ("rror", "ERROR", "xception", "Traceback", "FAILED", "ailed", "错误", "失败", "エラー", "ошибка")
_PLAIN_ERRORS = ("rror", "xception", "ailed")  # all that a text can hold which is ASCII and has nothing odd
_FOREIGN_CUE = re.compile("|".join((*chain.from_iterable(PIECES.values()), *QUESTION_MARKS[1:])))
_FULL_STOP = re.compile(f"[{FULL_STOPS}]")


class Fact(NamedTuple):
    """One thing to keep, as it was written, and the position of the message it stands in."""

    kind: str
    text: str
    position: int
    source: str  # user, assistant, call or result


def find_facts(messages: Sequence[Message], wanted: Wanted | int) -> list[Fact]:
    """Facts of the messages in the order in which they stand, each text once: about so many, or what is wanted."""
    found: dict[str, Fact] = {}
    wanted = Wanted(wanted) if isinstance(wanted, int) else wanted
    # What is older than all that comes makes no room scarce.
    takes_room_from = _OLDEST if wanted.is_bounded else len(messages)
    for position, source, here in _findings(messages, wanted):
        for kind, text in here:
            if text not in found:
                found[text] = Fact(kind, text, position, source)
                if position >= takes_room_from:
                    wanted.put(kind, source, text)
                if not wanted.count(source):
                    break
    return sorted(found.values(), key=lambda fact: fact.position)


def _findings(messages: Sequence[Message], wanted: Wanted) -> Iterator[tuple[int, str, Iterable[Finding]]]:
    """Places of messages, sources of those still wanted, and (kind, text) of everything worth keeping there.

    Messages are read some at a time: what most of them do not hold is looked for in all of these at once.
    """
    oldest = min(_OLDEST, len(messages))
    places = [*range(oldest), *range(len(messages) - 1, oldest - 1, -1)]
    unread = _READ
    for start in range(0, len(places), _TOGETHER):
        some = places[start : start + _TOGETHER]
        if not (speakers := wanted.speakers):
            return
        if len(speakers) < len(_EVERYBODY):
            some = [at for at in some if _SOURCE_OF.get(messages[at].get("role"), "assistant") in speakers]
        read = [messages[at] for at in some]
        texts = _texts(read)
        if not (wanted.names or wanted.questions):
            unread = min(unread, _READ_FOR_RULES)
        unread -= sum(map(len, texts))
        if unread < 0:
            return
        yield from (_everything if wanted.names or wanted.questions else _rules)(some, read, texts, wanted)


def _everything(
    places: Sequence[int], messages: Sequence[Message], texts: Sequence[str], wanted: Wanted
) -> Iterator[tuple[int, str, Iterable[Finding]]]:
    sources = [_SOURCE_OF.get(message.get("role"), "assistant") for message in messages]
    encoded = _encoded(texts)
    spoken = [number for number, source in enumerate(sources) if source != "result"]
    cued = texts_with_cues([texts[number] for number in spoken], [encoded[number] for number in spoken])
    with_cues = {spoken[number] for number in cued.numbers}
    for number, (at, source, text, odd) in enumerate(zip(places, sources, texts, _oddities(encoded), strict=True)):
        message = messages[number]
        here: list[Finding] = []
        if source == "result":
            here = _of_result(text, odd) if source in wanted.names else here
        # Most texts end here, so this is asked without a call.
        elif (source in wanted.rules or source in wanted.names) and (
            (has_word := number in with_cues) or (odd and len(odd) > (text[0] in _ODD_SIGNS) + (text[-1] in _ODD_SIGNS))
        ):
            here = _of_text(text, source, odd, wanted, has_word=has_word, has_pieces=cued.has_pieces)
        if here and not is_block(message):  # a block is read by itself, with `facts_in`
            yield at, source, here
        if "tool_calls" in message and "call" in wanted.names and not is_block(message):
            yield at, "call", _of_calls(message)


def _texts(messages: Sequence[Message]) -> list[str]:
    """What is read of messages: of a long one its beginning and its end."""
    contents = [message.get("content") for message in messages]
    return [
        content if type(content) is str and len(content) <= 2 * _RESULT else _read(message)
        for content, message in zip(contents, messages, strict=True)
    ]


def _read(message: Message) -> str:
    text = text_of(message)
    if message.get("role") == "tool":
        return ends_of(text)
    return text if len(text) <= _MESSAGE else text[: _MESSAGE * 2 // 3] + "\n" + text[-_MESSAGE // 3 :]


def _encoded(texts: Sequence[str]) -> list[bytes]:
    """Each in ASCII, "?" for what is not."""
    return [text.encode("ascii", "replace") for text in texts]


def _oddities(texts: Sequence[bytes]) -> list[bytes]:
    """What is odd in each text: digits, capitals, signs of names, question marks (and "?" for what is not ASCII)."""
    odd = b"\0".join(texts).translate(None, _NOT_ODD).split(b"\0")
    if len(odd) == len(texts):
        return odd
    # One of them has the sign that stands between them, so each is looked at by itself.
    return [text.translate(None, _NOT_ODD + b"\0") for text in texts]


def facts_in(text: str) -> list[Fact]:
    """Facts of a text that stands for older messages: an earlier summary."""
    found = dict.fromkeys([*sentences_of(text), *words_of(text)])
    return [Fact(kind, each, -1, "assistant") for kind, each in found]


def by_importance(facts: Iterable[Fact]) -> list[Fact]:
    """What people said before what tools said, rules and decisions before numbers, newer before older."""
    return sorted(facts, key=lambda fact: (IMPORTANCE[fact.kind, fact.source], -fact.position))


def words_of(text: str) -> Iterator[tuple[str, str]]:
    """(kind, word) of every identifier, path, address and number in a text.

    All of them have something odd in them; the search skips through prose without looking at each word.
    """
    end = 0
    for found in _ODD_ENDING.finditer(text):
        start, end = end, found.end()
        word = text[start:end].rsplit(None, 1)[-1].strip(TRIMMED)
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


def sentences_of(text: str, *, has_word: bool = True, has_pieces: bool = True) -> Iterator[tuple[str, str]]:
    """(kind, sentence) of every rule, decision, open matter and question in a text.

    `has_word` is False when none of its words, as blanks part them, is a cue; `has_pieces` when it holds no cue of a
    script without blanks, and no full stop of one.
    """
    is_foreign = has_pieces and not text.isascii()
    has_word |= is_foreign  # there a sentence may end, and the next begin, without a blank
    has_piece = is_foreign and _FOREIGN_CUE.search(text) is not None
    for sentence in _sentences(text):
        kind = None
        if has_word and not ANY_WORD.isdisjoint(words := sentence.split()):
            kind = next(kind for kind, cues in WORDS.items() if not cues.isdisjoint(words))
        elif has_piece:
            kind = next((kind for kind, cues in PIECES.items() if any(map(sentence.__contains__, cues))), None)
        if kind is None and sentence.endswith(QUESTION_MARKS):
            kind = "question"
        if kind is not None:
            yield kind, one_line(sentence, SENTENCE)


def ends_of(text: str) -> str:
    """Where a tool's output says how it went: its beginning and its end."""
    return text if len(text) <= 2 * _RESULT else f"{text[:_RESULT]}\n{text[-_RESULT:]}"


def failure_in(text: str, words: Iterable[str] = _ERRORS) -> str:
    """The line that tells of an error; "" without one."""
    for word in words:
        if word in text:
            return next(one_line(line, SENTENCE) for line in text.splitlines() if word in line)
    return ""


def _of_text(text: str, source: str, odd: bytes, wanted: Wanted, *, has_word: bool, has_pieces: bool) -> list[Finding]:
    # What the assistant asks itself is no open question once it went on; what it decided is a decision.
    questions = source == "user" and wanted.questions
    here: list[Finding] = []
    if has_word or (questions and "?" in text) or (has_pieces and _has_foreign_cue(text)):
        here = list(sentences_of(text, has_word=has_word, has_pieces=has_pieces))
        if not questions:
            here = [each for each in here if each[0] != "question"]
    # A capital at the beginning and a full stop at the end are nothing odd.
    if source in wanted.names and len(odd) - odd.count(b"?") > (text[0] in _ODD_SIGNS) + (text[-1] in _ODD_SIGNS):
        here += islice(words_of(text), _WORDS_PER_MESSAGE)
    return here


def _rules(
    places: Sequence[int], messages: Sequence[Message], texts: Sequence[str], _wanted: Wanted
) -> Iterator[tuple[int, str, Iterable[Finding]]]:
    """Where nothing but rules, decisions and open matters is wanted any more."""
    with_cues, has_pieces = texts_with_cues(texts, _encoded(texts))
    if not (with_cues or has_pieces):
        return
    for number, (at, message, text) in enumerate(zip(places, messages, texts, strict=True)):
        has_word = number in with_cues
        if (has_word or (has_pieces and _has_foreign_cue(text))) and not is_block(message):
            found = sentences_of(text, has_word=has_word, has_pieces=has_pieces)
            here = [each for each in found if each[0] != "question"]
            yield at, _SOURCE_OF.get(message.get("role"), "assistant"), here


def _has_foreign_cue(text: str) -> bool:
    """Whether there is a cue of a script without blanks, or a word that is one behind such a script's full stop."""
    if text.isascii():
        return False
    if _FOREIGN_CUE.search(text):
        return True
    return _FULL_STOP.search(text) is not None and not ANY_WORD.isdisjoint(_FULL_STOP.sub(" ", text).split())


def _of_result(text: str, odd: bytes) -> list[Finding]:
    if not odd and text.isascii():
        line = failure_in(text, _PLAIN_ERRORS)
        return [("error", line)] if line else []
    line = failure_in(text)
    here = [("error", line)] if line else []
    return here + [each for each in islice(words_of(text), _WORDS_PER_MESSAGE // 4) if each[0] != "number"]


def _of_calls(message: Message) -> Iterator[Finding]:
    for _, _, arguments in calls_of(message):
        for each in words_of(arguments[:_RESULT].replace('"', " ").replace("\\n", " ")):
            if each[0] != "number":
                yield each


def _kind(word: str) -> str | None:
    """What a word of ASCII characters is, when it is worth keeping."""
    if word.isidentifier() and word[0] != "_" and not word.isalpha():  # most are, and need no closer look
        return "identifier" if len(word) >= _SHORTEST_NAME else None
    if "://" in word:
        return "url"
    has_digit = len(word) >= _LONG_WORD or _DIGIT.search(word) is not None
    has_letter = word.lower() != word.upper()
    if has_digit and not has_letter:
        return "number" if len(word) > 1 else None
    if len(word) < _SHORTEST_NAME or not (has_letter or has_digit):
        return None
    if "/" in word or "\\" in word or ("." in word and _FILE_NAME.match(word)):
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
