"""Finds what a summary must not lose: identifiers, paths, numbers, errors, rules, decisions, open questions.

The work is bounded: the beginning is read, then the newest messages backwards. Names are looked for until there are
enough of them, rules, decisions and questions further back. What is not read stays reachable through the pointers.
"""

from __future__ import annotations

import re
from itertools import islice, pairwise
from typing import TYPE_CHECKING, NamedTuple

from hermes.compaction.block import is_block
from hermes.compaction.messages import calls_of, one_line, text_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hermes.compaction.messages import Message

    Finding = tuple[str, str]

# The order in which facts are kept when not all fit.
ORDER = ("constraint", "decision", "open", "question", "identifier", "url", "path", "error", "number")
SENTENCES = ("constraint", "decision", "question", "open", "error")
# Each source's share of the names, numbers and errors that are looked for; nearer to the person comes first.
_SHARES = {"user": 0.5, "assistant": 0.25, "call": 0.15, "result": 0.1}
_IMPORTANCE = {
    (kind, source): len(ORDER) * (rank // 4 + nearness) + rank
    for rank, kind in enumerate(ORDER)
    for nearness, source in enumerate(_SHARES)
}
_SENTENCE = 280  # characters of one sentence that are kept
_OLDEST = 40  # messages of the beginning that are read in any case: rules are stated early
_MESSAGE = 6_000  # characters read of what a person or the assistant wrote
_RESULT = 300  # characters read at each end of a tool result
_WORDS_PER_MESSAGE = 40
_READ = 1_000_000  # characters of one history
_LONG_WORD = 80
_SHORTEST_NAME = 3
_SHORTEST_CODE = 5  # capitals: ENOSPC is a code, USA is not
_EMBEDDED = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./:@#\\%+~-]*[A-Za-z0-9]|\d+")
_FILE_NAME = re.compile(r"^[\w.@~+-]*[A-Za-z_][\w.@~+-]*\.[A-Za-z][A-Za-z0-9]{0,7}$")
# From something odd to the end of its word; a capital that begins a word and a full stop that ends one are not.
_ODD_ENDING = re.compile(r"[0-9A-Z_/@#\\.](?:(?<![A-Z.])|(?<=\S[A-Z])|(?<=\.)(?=\S))\S*")
_DIGIT = re.compile("[0-9]")
_ERRORS = ("rror", "ERROR", "xception", "Traceback", "FAILED", "ailed", "错误", "失败", "エラー", "ошибка")
# Full-width and other punctuation is spelled by name or code, so that nobody mistakes it for its ASCII twin.
_QUESTION_MARKS = ("?", "\N{FULLWIDTH QUESTION MARK}", "\N{ARABIC QUESTION MARK}")
# The full stops of East Asian scripts end a sentence in any case, other marks only before a blank.
_SENTENCE_MARKS = re.compile("[.!?\u061f\u3002\uff01\uff1f\\n](?:(?<![.!?\u061f])|(?=\\s|$))")
# Punctuation around a word: ASCII, typographic quotes and dots, East Asian.
TRIMMED = (
    ".,;:!?()[]{}<>\"'`*|=\u201c\u201d\u2018\u2019\u00ab\u00bb\u2026"
    "\u3001\u3002\uff0c\uff1b\uff1a\uff01\uff1f\uff08\uff09\u300c\u300d\u300e\u300f\u3010\u3011\u300a\u300b"
)

# Words that tell what a sentence is: "constraint" for "We must never …".
_WORDS = {
    "constraint": (
        "must never always only cannot can't don't dont shouldn't mustn't forbidden required require requires prefer "
        "avoid deadline limit budget constraint important ensure without "
        "nunca siempre debe deben solo prohibido evita prefiero obligatorio "
        "jamais toujours doit doivent interdit éviter préfère obligatoire "
        "nie niemals immer muss müssen darf dürfen verboten nur bevorzugt pflicht "
        "sempre mai deve devono vietato evitare "
        "никогда всегда должен должна должны нельзя только запрещено обязательно "
        "يجب دائما أبدا ممنوع فقط "
        "हमेशा कभी ज़रूरी केवल "
        "반드시 절대 항상 금지 필수"
    ),
    "decision": (
        "decided decision chose chosen agreed settled concluded picked instead rejected approved "
        "decidimos decidido elegimos acordamos "
        "décidé choisi convenu retenu "
        "entschieden beschlossen gewählt vereinbart "
        "deciso scelto concordato "
        "решили решено выбрали договорились "
        "قررنا اخترنا اتفقنا "
        "तय फैसला चुना "
        "결정 선택 합의"
    ),
    "open": (
        "todo fixme pending blocked unresolved remaining unclear "
        "pendiente bloqueado bloqué offen blockiert sospeso осталось открыто معلق बाकी 보류"
    ),
}
# The same in scripts that put no blanks between words.
_PIECES = {
    "constraint": (
        "必须 必須 不要 不能 不得 禁止 只能 务必 務必 绝不 一定要 总是 必ず しないで 絶対 のみ "
        "ないでください 절대 반드시 하지 마 ต้อง ห้าม เสมอ"
    ),
    "decision": "决定 決定 选择了 選擇 同意 采用 採用 改用 定为 に決め 採用 にします 결정 ตัดสินใจ ตกลง",
    "open": "待办 待辦 未完成 尚未 还没 還沒 未解決 保留 残り 보류 ค้าง",
}


def _forms(words: str) -> frozenset[str]:
    plain = words.split()
    return frozenset(plain) | {word.capitalize() for word in plain} | {word.upper() for word in plain}


CUE_WORDS = {kind: _forms(words) for kind, words in _WORDS.items()}
_ANY_CUE_WORD = frozenset().union(*CUE_WORDS.values())
_CUE_PIECES = {kind: tuple(pieces.split()) for kind, pieces in _PIECES.items()}


class Fact(NamedTuple):
    """One thing to keep, as it was written, and the position of its message."""

    kind: str
    text: str
    position: int
    source: str  # user, assistant, call or result


def find_facts(messages: Sequence[Message], enough: int) -> list[Fact]:
    """Facts of the messages in their order, each text once: about `enough` names, and all rules and questions."""
    found: dict[str, Fact] = {}
    wanted = {source: enough * share for source, share in _SHARES.items()}
    oldest = min(_OLDEST, len(messages))
    unread = _READ
    for position in (*range(oldest), *range(len(messages) - 1, oldest - 1, -1)):
        message = messages[position]
        if is_block(message):
            continue  # a block is read by itself, with `facts_in`
        text = _shown(message)
        unread -= len(text)
        if unread < 0:
            break
        for source, findings in _findings(message, text, {each for each, left in wanted.items() if left > 0}).items():
            for kind, fact in findings:
                if fact not in found:
                    found[fact] = Fact(kind, fact, position, source)
                    wanted[source] -= kind not in CUE_WORDS and kind != "question"
    return sorted(found.values(), key=lambda fact: fact.position)


def facts_in(text: str) -> list[Fact]:
    """Facts of a text that replaces older messages: an earlier summary."""
    found = dict.fromkeys([*sentences_of(text), *words_of(text)])
    return [Fact(kind, each, -1, "assistant") for kind, each in found]


def by_importance(facts: Iterable[Fact]) -> list[Fact]:
    """What people said before what tools said, rules and decisions before numbers, newer before older."""
    return sorted(facts, key=lambda fact: (_IMPORTANCE[fact.kind, fact.source], -fact.position))


def words_of(text: str) -> Iterator[Finding]:
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
        else:
            for piece in (word,) if word.isascii() else _EMBEDDED.findall(word):
                if kind := _kind(piece):
                    yield kind, piece


def sentences_of(text: str) -> Iterator[Finding]:
    """(kind, sentence) of every rule, decision, open matter and question in a text."""
    if text.isascii() and "?" not in text and _ANY_CUE_WORD.isdisjoint(text.split()):
        return  # as most are
    for sentence in _sentences(text):
        if kind := _sentence_kind(sentence):
            yield kind, one_line(sentence, _SENTENCE)


def ends_of(text: str) -> str:
    """Where a tool's output says how it went: its beginning and its end."""
    return text if len(text) <= 2 * _RESULT else f"{text[:_RESULT]}\n{text[-_RESULT:]}"


def failure_in(text: str) -> str:
    """The line that tells of an error; "" without one."""
    for word in _ERRORS:
        if word in text:
            return next(one_line(line, _SENTENCE) for line in text.splitlines() if word in line)
    return ""


def _shown(message: Message) -> str:
    """What is read of a message: of a long one its beginning and its end."""
    text = text_of(message)
    if message.get("role") == "tool":
        return ends_of(text)
    return text if len(text) <= _MESSAGE else text[: _MESSAGE * 2 // 3] + "\n" + text[-_MESSAGE // 3 :]


def _findings(message: Message, text: str, wanted: set[str]) -> dict[str, Iterable[Finding]]:
    """What is worth keeping, by source; names, numbers and errors only of `wanted` sources."""
    role = message.get("role")
    if role == "tool":
        return {"result": _of_result(text)} if "result" in wanted else {}
    source = "user" if role == "user" else "assistant"
    # What the assistant asks itself is no open question once it went on; what it decided is a decision.
    said = [each for each in sentences_of(text) if each[0] != "question" or source == "user"]
    if source in wanted:
        said += islice(words_of(text), _WORDS_PER_MESSAGE)
    return {source: said, "call": _of_calls(message) if "call" in wanted else ()}


def _of_result(text: str) -> Iterator[Finding]:
    if line := failure_in(text):
        yield "error", line
    yield from (each for each in islice(words_of(text), _WORDS_PER_MESSAGE // 4) if each[0] != "number")


def _of_calls(message: Message) -> Iterator[Finding]:
    for _, _, arguments in calls_of(message):
        found = words_of(arguments[:_RESULT].replace('"', " ").replace("\\n", " "))
        yield from (each for each in found if each[0] != "number")


def _sentences(text: str) -> Iterator[str]:
    start = 0
    for found in _SENTENCE_MARKS.finditer(text):
        if sentence := text[start : found.end()].strip():
            yield sentence
        start = found.end()
    if sentence := text[start:].strip():
        yield sentence


def _sentence_kind(sentence: str) -> str | None:
    words = sentence.split()
    for kind, cues in CUE_WORDS.items():
        if not cues.isdisjoint(words):
            return kind
    if not sentence.isascii():
        for kind, pieces in _CUE_PIECES.items():
            if any(piece in sentence for piece in pieces):
                return kind
    return "question" if sentence.endswith(_QUESTION_MARKS) else None


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
