"""JSON as text, by the C half of the standard library's `json` alone.

`import json` loads regular expressions and enumerations and takes a third of what starting Python does, so the modules
between the command line and a memory write use this. What is not plain and right is left to `json` itself: its errors
are the ones people know.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
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
