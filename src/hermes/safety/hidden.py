"""Finds text that nobody can see: tag characters, variation-selector bytes, invisible bits, bidirectional overrides.

Emoji sequences, Persian and Indic joiners, Khmer spaces and the flags of England, Scotland and Wales use the same
characters honestly and are left alone.
"""

from __future__ import annotations

import re

from hermes.safety.verdict import ASK, REFUSE, SEVERITY
from hermes.vocabulary.values import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

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
_OVERRIDE = re.compile("([\u202d\u202e])([^\u202c\n]*)")
_EMBEDDING = re.compile("[\u202a\u202b\u2066\u2067\u2068]")
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]")
_FEWEST_BITS = 24
_BLACK_FLAG = "\U0001f3f4"


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
    finders = (_tags, _selector_bytes, _invisible_runs, _invisible_bits, _overrides)
    return [_together(found) for finder in finders if (found := list(finder(text)))]


def _together(found: list[Hidden]) -> Hidden:
    """Many stretches hidden the same way are one: split payloads read on, and a text full of them stays cheap."""
    first = found[0]
    payload = "\n".join(hidden.payload for hidden in found)
    level = max((hidden.level for hidden in found), key=SEVERITY.__getitem__)
    return Hidden(payload=payload, how=first.how, level=level, start=first.start, end=first.end)


def _tags(text: str) -> Iterator[Hidden]:
    for run in re.finditer(_TAGS, text):
        if run.start() and text[run.start() - 1] == _BLACK_FLAG and _FLAG.match(run[0]):
            continue
        payload = "".join(chr(ord(char) - 0xE0000) for char in run[0] if "\U000e0020" <= char < "\U000e007f")
        yield Hidden(payload=payload, how="tag characters", level=REFUSE, start=run.start(), end=run.end())


def _selector_bytes(text: str) -> Iterator[Hidden]:
    loose: list[int] = []
    first = last = -1
    for run in re.finditer(_SELECTORS, text):
        values = [_selector_value(char) for char in run[0]]
        if len(values) > 1:
            payload = bytes(values).decode("utf-8", "replace")
            yield Hidden(payload=payload, how="variation selectors", level=REFUSE, start=run.start(), end=run.end())
        elif values[0] >= 16 and not _is_ideograph(text[run.start() - 1 : run.start()]):  # noqa: PLR2004 - see below
            loose.append(values[0])  # VS17 and up belong to ideographs only
            first, last = (run.start() if first < 0 else first), run.end()
    if len(loose) > 2:  # noqa: PLR2004 - two strays may be a paste accident
        payload = bytes(loose).decode("utf-8", "replace")
        yield Hidden(payload=payload, how="variation selectors", level=REFUSE, start=first, end=last)


def _invisible_runs(text: str) -> Iterator[Hidden]:
    for run in re.finditer(_INVISIBLE_RUN, text):
        yield Hidden(payload=_decode_bits(run[0]), how="invisible run", level=REFUSE, start=run.start(), end=run.end())


def _invisible_bits(text: str) -> Iterator[Hidden]:
    found = re.findall(_BITS, text)
    if len(found) >= _FEWEST_BITS:
        payload = _decode_bits("".join(found))
        if payload:
            yield Hidden(payload=payload, how="invisible bits", level=REFUSE, start=-1, end=-1)


def _overrides(text: str) -> Iterator[Hidden]:
    for span in _OVERRIDE.finditer(text):
        payload = span[2][::-1] if span[1] == "\u202e" else span[2]
        yield Hidden(payload=payload, how="bidirectional override", level=REFUSE, start=span.start(), end=span.end())
    embedding = _EMBEDDING.search(text)
    if embedding and not _RIGHT_TO_LEFT.search(text.replace("\ufeff", "")):
        stripped = text[embedding.end() :]
        yield Hidden(
            payload=stripped[::-1], how="bidirectional embedding", level=ASK, start=embedding.start(), end=len(text)
        )


def _decode_bits(chars: str) -> str:
    """The text that two kinds of invisible characters spell as zeros and ones, or an empty string."""
    kinds = sorted(set(chars), key=lambda char: -chars.count(char))[:3]
    for zero, one in [(a, b) for a in kinds for b in kinds if a != b]:
        bits = "".join("0" if char == zero else "1" for char in chars if char in (zero, one))
        for width in (8, 7, 16):
            decoded = "".join(chr(int(bits[at : at + width], 2)) for at in range(0, len(bits) - width + 1, width))
            if len(decoded) > 2 and decoded.isascii() and decoded.replace("\n", " ").isprintable():  # noqa: PLR2004
                return decoded
    return ""


def _selector_value(char: str) -> int:
    code = ord(char)
    return code - 0xFE00 if code < 0xE0100 else code - 0xE0100 + 16  # noqa: PLR2004


def _is_ideograph(char: str) -> bool:
    return bool(char) and (
        "\u2e80" <= char <= "\u9fff" or "\uf900" <= char <= "\ufaff" or "\U00020000" <= char <= "\U0003ffff"
    )
