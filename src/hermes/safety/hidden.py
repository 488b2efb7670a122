"""Finds text that nobody can see: tag characters, variation-selector bytes, invisible bits, bidirectional overrides.

Emoji sequences, Persian and Indic joiners, Khmer spaces and the flags of England, Scotland and Wales use the same
characters honestly and are left alone.
"""

from __future__ import annotations

import re

from hermes.safety.verdict import ASK, REFUSE
from hermes.vocabulary.values import value

_SUSPECTS = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_TAGS = "[\U000e0000-\U000e007f]+"
_FLAG = re.compile("^[\U000e0030-\U000e0039\U000e0061-\U000e007a]{2,6}\U000e007f$")
_SELECTORS = "[\ufe00-\ufe0f\U000e0100-\U000e01ef]+"
_INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2060-\u2065\u206a-\u206f\u3164\ufeff\uffa0"
)
_INVISIBLE_RUN = f"[{_INVISIBLE}]{{6,}}"
_BITS = f"[{_INVISIBLE}]"
# An override ends with its sign, or with the paragraph.
_OVERRIDE = re.compile("([\u202d\u202e])([^\u202c\n\r\x1c-\x1e\x85\u2029]*)")
_EMBEDDING = re.compile("[\u202a\u202b\u2066\u2067\u2068]")
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]")
_FEWEST_BITS = 24
_BLACK_FLAG = "\U0001f3f4"
_TAG_LETTERS = {0xE0000 + code: chr(code) if 0x20 <= code < 0x7F else None for code in range(0x80)}  # noqa: PLR2004 - ASCII
_FIRST_SUPPLEMENT = "\U000e0100"
_STRAY_SELECTORS = 1  # one may be a paste accident


@value
class Hidden:
    """A stretch no reader sees: what it says as far as it can be decoded, how it was hidden, and where."""

    payload: str
    how: str
    level: str
    start: int
    end: int


def hidden_texts(text: str) -> list[Hidden]:
    if text.isascii() or not _SUSPECTS.search(text):
        return []
    finders = (_tags, _selector_bytes, _invisible_runs, _invisible_bits, _overrides, _embeddings)
    return [found for finder in finders if (found := finder(text)) is not None]


# Each finder puts all stretches hidden its way together: split payloads read on, and a text full of them stays cheap.


def _tags(text: str) -> Hidden | None:
    runs = [
        run
        for run in re.finditer(_TAGS, text)
        if not (run.start() and text[run.start() - 1] == _BLACK_FLAG and _FLAG.match(run[0]))
    ]
    payload = "".join(run[0] for run in runs).translate(_TAG_LETTERS)
    return _hidden(payload, "tag characters", runs) if runs else None


def _selector_bytes(text: str) -> Hidden | None:
    runs = []
    values: list[int] = []
    for run in re.finditer(_SELECTORS, text):
        single = len(run[0]) == 1
        if single and (run[0] < _FIRST_SUPPLEMENT or _is_ideograph(text[run.start() - 1 : run.start()])):
            continue  # one selector behind an emoji, or one of VS17 and up behind an ideograph, is honest
        runs.append(run)
        values += map(_selector_value, run[0])
    if len(values) <= _STRAY_SELECTORS:
        return None
    return _hidden(bytes(values).decode("utf-8", "replace"), "variation selectors", runs)


def _invisible_runs(text: str) -> Hidden | None:
    runs = list(re.finditer(_INVISIBLE_RUN, text))
    return _hidden(_decode_bits("".join(run[0] for run in runs)), "invisible run", runs) if runs else None


def _invisible_bits(text: str) -> Hidden | None:
    found = "".join(re.findall(_BITS, text))
    payload = _decode_bits(found) if len(found) >= _FEWEST_BITS else ""
    return _hidden(payload, "invisible bits", []) if payload else None


def _overrides(text: str) -> Hidden | None:
    spans = list(_OVERRIDE.finditer(text))
    payload = "\n".join(span[2][::-1] if span[1] == "\u202e" else span[2] for span in spans)
    return _hidden(payload, "bidirectional override", spans) if spans else None


def _embeddings(text: str) -> Hidden | None:
    found = _EMBEDDING.search(text)
    if found is None or _RIGHT_TO_LEFT.search(text.replace("\ufeff", "")):
        return None
    payload = text[found.end() :][::-1]
    return Hidden(payload=payload, how="bidirectional embedding", level=ASK, start=found.start(), end=len(text))


def _hidden(payload: str, how: str, runs: list[re.Match[str]]) -> Hidden:
    start, end = (runs[0].start(), runs[-1].end()) if runs else (-1, -1)
    return Hidden(payload=payload, how=how, level=REFUSE, start=start, end=end)


def _decode_bits(chars: str) -> str:
    """The text that two kinds of invisible characters spell as zeros and ones, or an empty string."""
    kinds = sorted(set(chars), key=lambda char: -chars.count(char))[:3]
    others = dict.fromkeys(map(ord, set(chars)))
    for zero, one in [(a, b) for a in kinds for b in kinds if a != b]:
        bits = chars.translate({**others, ord(zero): "0", ord(one): "1"})
        for width in (8, 7, 16):
            # What begins with something unreadable is no text, so the whole is worked out only for what may be one.
            if _spelled(bits[: width * _FEWEST_BITS], width) and (decoded := _spelled(bits, width)):
                return decoded
    return ""


def _spelled(bits: str, width: int) -> str:
    """The characters that groups of `width` bits stand for; empty when they are too few or not readable ASCII."""
    decoded = "".join([chr(int(bits[at : at + width], 2)) for at in range(0, len(bits) - width + 1, width)])
    readable = len(decoded) > 2 and decoded.isascii() and decoded.replace("\n", " ").isprintable()  # noqa: PLR2004
    return decoded if readable else ""


def _selector_value(char: str) -> int:
    code = ord(char)
    return code - 0xFE00 if code < 0xE0100 else code - 0xE0100 + 16  # noqa: PLR2004


def _is_ideograph(char: str) -> bool:
    return bool(char) and (
        "\u2e80" <= char <= "\u9fff" or "\uf900" <= char <= "\ufaff" or "\U00020000" <= char <= "\U0003ffff"
    )
