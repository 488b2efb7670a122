"""JSON, times and counts as text, without slow imports."""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_SPACE = " \t\n\r"
_OTHER_ENCODINGS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
_CONSTANTS = {"-Infinity": float("-inf"), "Infinity": float("inf"), "NaN": float("nan")}


class _Plainly:
    """How the scanner is to read: as `json.loads` does when it is told nothing."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float, parse_int, parse_constant = float, int, _CONSTANTS.__getitem__


def _refuse(value: object) -> object:
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


try:
    from _json import encode_basestring, make_encoder, make_scanner

    _scan = make_scanner(_Plainly())  # type: ignore[arg-type] # it asks for these attributes and nothing else

    def encode(value: object, *, tight: bool = False) -> str:
        """As `json.dumps(value, ensure_ascii=False)`; with `tight` without spaces between the parts."""
        between = (":", ",") if tight else (": ", ", ")
        # The empty dictionary is where the encoder notes what it is inside of, to find a ring.
        encoder = make_encoder({}, _refuse, encode_basestring, None, *between, False, False, True)
        return "".join(encoder(value, 0))

    def decode(text: str | bytes) -> Any:
        """As `json.loads`."""
        words = text if isinstance(text, str) else _decoded(text)
        try:
            value, end = _scan(words, len(words) - len(words.lstrip(_SPACE)))
        except (StopIteration, SystemError):  # the latter: Python 3.11 cannot raise its error before `json` is loaded
            return _read_by_json(text)
        return value if end == len(words) or not words[end:].strip(_SPACE) else _read_by_json(text)

except (ImportError, TypeError):  # a Python without the C half, or with another one

    def encode(value: object, *, tight: bool = False) -> str:
        import json

        return json.dumps(value, ensure_ascii=False, separators=(",", ":") if tight else None)

    def decode(text: str | bytes) -> Any:
        return _read_by_json(text)


def _decoded(data: bytes) -> str:
    if b"\0" in data[:2] or data.startswith(_OTHER_ENCODINGS):
        from json import detect_encoding

        return data.decode(detect_encoding(data), "surrogatepass")
    return data.decode("utf-8", "surrogatepass")


def _read_by_json(text: str | bytes) -> Any:
    import json

    return json.loads(text)


# Every text inside a JSON value, changed alike.


def change_texts(value: Any, change: Callable[[str], str]) -> Any:
    """The same value with each text changed; names of fields stay as they are."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: change_texts(inner, change) for key, inner in value.items()}
    return [change_texts(inner, change) for inner in value] if isinstance(value, list) else value


# Moments in words, where the machine stands; stored numbers come from other clocks and other programs.


def in_words(moment: float, form: str) -> str:
    """`form` as `time.strftime` takes it; a number that is no moment is an unknown time and no error."""
    try:
        return time.strftime(form, time.localtime(moment))
    except (ValueError, OverflowError, OSError):
        return "unknown time"


def day(moment: float) -> str:
    return in_words(moment, "%Y-%m-%d")


def counted(number: int, one: str, many: str = "") -> str:
    """`1 entry`, `2 entries`; without `many`, an s is added."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"
