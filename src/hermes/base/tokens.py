"""Estimates how many tokens a text or a message costs, without a tokenizer."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MESSAGE_OVERHEAD = 4  # role and separators of one message in a chat format
CALL_OVERHEAD = 8  # id, type and framing of one tool call
_LONG_TEXT = 65_536  # characters; from here on a quarter of the text says enough about the whole
_BLOCK = 4_096
BLOB_TOKENS = 1_500  # a picture, sound or document: providers charge by its size in pixels or pages, not by its bytes


def estimate(text: str) -> int:
    """Tokens of `text`, within 15 % of o200k on ordinary text of a few hundred characters or more."""
    if len(text) > _LONG_TEXT:
        sample = "".join([text[start : start + _BLOCK] for start in range(0, len(text), 4 * _BLOCK)])
        return round(_estimate(sample) * len(text) / len(sample))
    return _estimate(text)


def estimate_message(message: Mapping[str, object]) -> int:
    """Tokens of one OpenAI- or Anthropic-format message: its content parts, tool calls and framing."""
    total = MESSAGE_OVERHEAD + _content(message.get("content"))
    for key in ("name", "tool_call_id", "reasoning_content"):
        field = message.get(key)
        if isinstance(field, str):
            total += estimate(field)
    calls = message.get("tool_calls")
    if isinstance(calls, list):
        total += sum(CALL_OVERHEAD + _content(call) for call in calls)
    return total


def _estimate(text: str) -> int:
    if not text:
        return 0
    # Lone surrogates come out of broken JSON escapes and must not end a turn.
    raw = text.encode("utf-8", "surrogatepass")
    shape = raw.translate(_CLASS_OF_BYTE, _CONTINUATION)
    total = _latin(shape)
    if len(raw) != len(shape):
        total += _other_scripts(text, raw, shape)
    # A token holds at least one byte; and even a line of dashes or blanks costs something.
    return max(1, len(raw) // 64, min(round(total), len(raw)))


def _content(content: object) -> int:
    if isinstance(content, str):
        return estimate(content)
    if isinstance(content, dict):
        kind = content.get("type")
        if isinstance(kind, str) and any(word in kind for word in _BLOB_KINDS):
            return BLOB_TOKENS
        return sum(_content(value) for key, value in content.items() if key not in _UNCOUNTED)
    if isinstance(content, list | tuple):
        return sum(_content(part) for part in content)
    return 0 if content is None else 1


_BLOB_KINDS = ("image", "audio", "file", "document", "video")
_UNCOUNTED = frozenset({"type", "cache_control", "id", "index", "signature"})


# --- classes -------------------------------------------------------------------------------------------------------


def _table(groups: Iterable[tuple[Iterable[int], str]], other: str) -> bytes:
    table = bytearray(other.encode() * 256)
    for members, name in groups:
        for member in members:
            table[member] = ord(name)
    return bytes(table)


# UTF-8's first byte names the script closely enough; the bytes that continue a character are dropped.
_CONTINUATION = bytes(range(0x80, 0xC0))
_CLASS_OF_BYTE = _table(
    (
        (range(ord("a"), ord("z") + 1), "a"),
        (range(ord("A"), ord("Z") + 1), "A"),
        (range(ord("0"), ord("9") + 1), "0"),
        (b" ", " "),
        (b"\t\x0b\x0c", "\t"),
        (b"\n\r", "\n"),
        (b"_", "_"),
        (range(0xC3, 0xCC), "L"),  # Latin letters with accents
        (b"\xcc\xcd", "M"),  # combining accents
        (b"\xce\xcf", "G"),  # Greek
        (range(0xD0, 0xD4), "Y"),  # Cyrillic
        (b"\xd4\xd5", "B"),  # Armenian
        (b"\xd6\xd7", "H"),  # Hebrew
        (range(0xD8, 0xDC), "R"),  # Arabic
        (b"\xe0", "I"),  # Indic scripts and Thai
        (b"\xe1", "X"),  # Georgian, Khmer, Vietnamese vowels, …
        (b"\xc2\xe2", "P"),  # typographic punctuation and symbols
        (b"\xe3", "K"),  # kana and ideographic punctuation
        (range(0xE4, 0xEA), "Z"),  # Han
        (range(0xEA, 0xEE), "N"),  # Hangul
        (b"\xee\xef", "F"),  # full-width forms
        (range(0xF0, 0xF8), "E"),  # emoji
    ),
    ".",
)
# Coarser views of the class string, each for one family of patterns.
_LETTERS = _table(((b"aALM", "a"),), " ")
_FORM = _table(((b"aALM", "a"), (b"0", "0"), (b"._", "."), (b" ", " "), (b"\n", "\n"), (b"\t", "\t")), "x")
_BLANKS = _table(((b" ", " "), (b"\n", "\n"), (b"\t", "\t")), "x")
_ONLY = {script: _table(((script, "a"),), " ") for script in (b"G", b"Y", b"R", b"I")}


# --- ASCII and Latin -----------------------------------------------------------------------------------------------

# A word of three, five, … letters costs this much more than a shorter one; common long words cost no more than short
# ones, which is why the steps are not even. Runs of 24 letters are no words: they are cut every few letters.
_WORD = tuple(
    (b" " + b"a" * length, weight)
    for length, weight in ((1, 0.58), (3, 0.26), (5, 0.56), (7, -0.28), (9, 0.69), (11, 0.50), (14, 0.66), (20, 0.30))
)
_LONG_RUN = b"a" * 24
_LONG_RUN_TOKENS = 7.0
_SHAPE = (
    (b"A", 0.08),
    (b"AA", -0.18),
    (b"L", 1.17),
    (b"aA", 2.86),  # camelCase starts a new token; aAa takes back what the plain inner capital costs too much
    (b"aAa", -3.13),
    (b"_a", -0.32),
)
_DIGIT_GROUP = 1.10  # o200k cuts numbers into groups of three
_PUNCTUATION = (
    (b".", 0.71),
    (b"..", -0.51),
    (b"...", -0.70),
    (b"............", -3.18),
    (b".\n", -1.30),  # punctuation takes the line end into its token
)
_NEIGHBOURS = (
    (b"a.", 0.33),
    (b"a.a", -0.78),  # `.name` and `-name` are often one token
    (b"0.0", 0.24),
    (b"..a", 0.18),
    (b"a0", 0.32),
    (b" 0", 1.31),  # a number never takes the blank before it
    (b" .", 0.33),
    (b"a\n", 0.28),
    (b"0\n", -0.65),
    (b"\n", 0.75),
    (b"\n.", 0.20),
    (b"\t", 0.54),
)
_GAPS = (
    (b"x  ", 0.91),
    (b"\n  ", 0.90),
    (b"\t ", 0.97),
    (b"x\n", 0.24),
    (b" \n", 1.37),
    (b"\t\t", 0.39),
)


def _latin(shape: bytes) -> float:
    words = b" " + shape.translate(_LETTERS)
    total = _weigh(words, _WORD) + _weigh(shape, _SHAPE) + words.count(_LONG_RUN) * _LONG_RUN_TOKENS
    # No pattern below looks into a word, so words are shortened first: it halves the bytes to be searched.
    form = shape.translate(_FORM).replace(b"aaaa", b"a").replace(b"aaa", b"a")
    total += max(_weigh(form, _PUNCTUATION), form.count(b".") / 16) + _weigh(form, _NEIGHBOURS)
    total += _weigh(shape.translate(_BLANKS).replace(b"xxxx", b"x").replace(b"xxx", b"x"), _GAPS)
    grouped = form.replace(b"000", b"3")
    return total + _DIGIT_GROUP * (grouped.count(b"3") + grouped.count(b"0") - grouped.count(b"00"))


def _weigh(view: bytes, patterns: tuple[tuple[bytes, float], ...]) -> float:
    return sum(view.count(pattern) * weight for pattern, weight in patterns)


# --- everything else -----------------------------------------------------------------------------------------------

_PER_CHARACTER = (
    (b"P", 0.67),
    (b"PP", -0.50),
    (b"F", 1.15),
    (b"E", 1.87),
    (b"B", 0.38),
    (b"G", 0.14),
    (b"Y", 0.07),
    (b"H", 0.46),
    (b"R", 0.21),
    (b"N", 0.79),
    (b"X", 0.37),
)
_PER_WORD = {b"G": 1.48, b"Y": 1.25, b"R": 0.69}
# Written words that o200k holds as one token although they have several characters.
_POLITE_JAPANESE = ("です", "ます", "まし", "くだ", "てい", "した", "こと", "する")
_FORMAL_KOREAN = ("니다", "하는", "에서", "으로", "있는", "하고", "세요")
_WHOLE_WORD = -1.5
# Characters that mark traditional writing, and ones that usually stand alone in narrative Chinese.
_TRADITIONAL = "這個們來說為會國對時過後還沒麼開點無與"
_ALONE = "了着过去来我他她你那就也都还又把上下里得说看走"


def _other_scripts(text: str, raw: bytes, shape: bytes) -> float:
    total = _weigh(shape, _PER_CHARACTER)
    for script, weight in _PER_WORD.items():
        if script in shape:
            words = b" " + shape.translate(_ONLY[script])
            total += words.count(b" a") * weight + words.count(_LONG_RUN) * _LONG_RUN_TOKENS
    if b"N" in shape:
        total += sum(map(text.count, _FORMAL_KOREAN)) * _WHOLE_WORD
    if b"X" in shape:  # Vietnamese vowels stand inside Latin words
        total -= (raw.count(b"\xe1\xba") + raw.count(b"\xe1\xbb")) * (0.37 + 0.82)
    if b"I" in shape:
        total += _indic(raw, shape)
    if b"K" in shape or b"Z" in shape:
        total += _east_asian(text, raw, shape)
    return total


def _indic(raw: bytes, shape: bytes) -> float:
    thai = raw.count(b"\xe0\xb8") + raw.count(b"\xe0\xb9")
    devanagari = raw.count(b"\xe0\xa4") + raw.count(b"\xe0\xa5")
    others = shape.count(b"I") - thai - devanagari
    words = (b" " + shape.translate(_ONLY[b"I"])).count(b" a") if devanagari + others > thai else 0
    return 0.41 * thai + 0.22 * devanagari + 0.29 * others + 0.5 * words


def _east_asian(text: str, raw: bytes, shape: bytes) -> float:
    punctuation = raw.count(b"\xe3\x80")
    kana = shape.count(b"K") - punctuation
    han = shape.count(b"Z")
    total = 0.80 * punctuation
    if kana * 8 > han:  # Japanese: its kanji are rarer in the vocabulary than the same characters in Chinese
        polite = sum(map(text.count, _POLITE_JAPANESE))
        return total + 0.78 * kana - 0.43 * raw.count(b"\xe3\x83") + 0.99 * han + _WHOLE_WORD * polite
    traditional = min(han, 18 * sum(map(text.count, _TRADITIONAL)))
    return total + 0.78 * kana + 0.68 * han + 0.18 * traditional + 0.3 * sum(map(text.count, _ALONE))
