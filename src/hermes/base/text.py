"""Reads and writes JSON, repairs what a model wrote almost right, and words times and counts. No slow imports."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING

from hermes.base.values import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


def encode(value: object, *, tight: bool = False, indent: int | None = None) -> str:
    """Writes a value as JSON without escaping other scripts; `tight` leaves out spaces, `indent` breaks lines."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":") if tight else None, indent=indent)


def decode(text: str | bytes) -> Any:
    """Parses JSON; like `json.loads`, it also accepts NaN and Infinity."""
    return json.loads(text)


def read_schemas(path: str) -> dict[str, dict[str, Any]]:
    """The schemas of tools by name; the file has each one's description, properties and required properties."""
    with open(path, encoding="utf-8") as file:
        found = decode(file.read())
    return {
        name: {"name": name, "description": rest.pop("description"), "parameters": {"type": "object", **rest}}
        for name, rest in found.items()
    }


def change_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Returns a JSON value with every text changed; field names stay as they are."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: change_texts(inner, change) for key, inner in value.items()}
    return [change_texts(inner, change) for inner in value] if isinstance(value, list) else value


def in_days(seconds: float) -> str:
    """A wait as a person says it: days from two days on, else hours."""
    hours = round(seconds / 3600)
    return counted(round(hours / 24), "day") if hours >= 48 else counted(hours, "hour")  # noqa: PLR2004


def in_words(moment: float, form: str) -> str:
    """Formats a moment with `time.strftime`; an impossible number becomes "unknown time" instead of an error."""
    try:
        return time.strftime(form, time.localtime(moment))
    except (ValueError, OverflowError, OSError):
        return "unknown time"


def day(moment: float) -> str:
    """The local date of a moment, as YYYY-MM-DD."""
    return in_words(moment, "%Y-%m-%d")


def counted(number: int, one: str, many: str = "") -> str:
    """`1 entry`, `2 entries`; without `many`, an s is added."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


_WORDS = {
    "true": True,
    "True": True,
    "false": False,
    "False": False,
    "null": None,
    "None": None,
    # These are not JSON, and every server refuses them.
    "NaN": None,
    "nan": None,
    "Infinity": None,
    "-Infinity": None,
    "undefined": None,
}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "'": "'", "\\": "\\", "/": "/", "\n": ""}
_LETTERS = frozenset("ntrbfux")  # in a path, C:\new\Users, these may be meant as letters
_BLANKS = " \t\n\r\f\v\u00a0\ufeff"
# Compiled when first used, because a memory write from a fresh process seldom needs them.
_PIECE = lazy_pattern(
    rf"[{_BLANKS}]*+(?:(?P<text>\"[^\"\\]*+(?:\\.[^\"\\]*+)*+\"|'[^'\\]*+(?:\\.[^'\\]*+)*+')|(?P<sign>[{{}}\[\]:,])"
    rf"|(?P<word>[\w+.$-]+)(?P<named>[{_BLANKS}]*+:)?)",
    re.DOTALL,
)
_ESCAPE = lazy_pattern(r"\\(?:u(?P<wide>[0-9a-fA-F]{4})|x(?P<byte>[0-9a-fA-F]{2})|(?P<sign>.))", re.DOTALL)


def read_arguments(text: str | bytes | Mapping[str, Any] | None) -> tuple[dict[str, Any] | None, str]:
    """Returns the arguments (None if unreadable) and what is wrong with their JSON ("" if nothing)."""
    if text is not None and not isinstance(text, str | bytes):
        return dict(text), ""
    try:
        given = _strictly(text) if text and text.strip() else None
        wrong = "" if given is None or isinstance(given, dict) else f"expected a JSON object, found {_named(given)}"
    except (ValueError, RecursionError) as error:
        given = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
        wrong = str(error) or "too deeply nested"
    if wrong:
        try:
            given = repaired(given) if isinstance(given, str) else given
        except (ValueError, RecursionError):
            given = wrong
    return (given or {} if given is None or isinstance(given, dict) else None), wrong


def valid_arguments(text: str | Mapping[str, Any] | None) -> str:
    """Returns the arguments as the JSON text of an object: valid text unchanged, unreadable text as {}."""
    given, wrong = read_arguments(text)
    return text if isinstance(text, str) and not wrong and text.strip()[:1] == "{" else encode(given or {})


def repaired(text: str) -> Any:
    """Reads a text that is nearly JSON; raises ValueError when it is ambiguous or empty."""
    written = _without_fence(text).rstrip(f"{_BLANKS});")
    pieces: list[str] = []  # the same text as JSON
    closers: list[str] = []  # the brackets that are open
    at = 0
    while at < len(written):
        found = _PIECE.match(written, at)
        if found is None:
            raise ValueError(f"expected a value at character {at}, found {written[at : at + 20]!r}")
        at = found.end()
        sign = found["sign"] or ""
        if sign and sign in "{[":
            closers.append("}" if sign == "{" else "]")
        elif sign and sign in "}]":
            if pieces and not closers:
                continue  # a bracket too many
            if not pieces or closers.pop() != sign:
                raise ValueError(f"the bracket before character {at} closes none")
            if pieces[-1] == "," and pieces[-2] not in ("{", "[", ","):
                pieces.pop()
        pieces.append(
            sign or (_meant(found["text"]) if found["text"] else _meant_word(found, is_last=at == len(written)))
        )
    return decode(" ".join([*pieces, *reversed(closers)]))


def _meant(quoted: str) -> str:
    """A string in quotes of either kind, as JSON."""
    try:
        if quoted[0] == '"':
            return encode(json.loads(quoted, strict=False))
    except ValueError:
        pass  # a wrong escape
    escapes = {found["sign"] or found[0][1] for found in _ESCAPE.finditer(quoted)}
    if escapes & _LETTERS and escapes - _ESCAPES.keys() - _LETTERS:
        raise ValueError(f"{quoted[:20]!r} mixes escapes and backslashes")
    plain = _ESCAPE.sub(_unescaped, quoted[1:-1])
    return encode(plain.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"))  # joins halves of \\u


def _unescaped(escape: re.Match[str]) -> str:
    if code := escape["wide"] or escape["byte"]:
        return chr(int(code, 16))
    # Not a JSON escape but a pattern such as \d or a path, in which the model forgot to double the backslash.
    return _ESCAPES.get(escape["sign"], f"\\{escape['sign']}")


def _meant_word(found: re.Match[str], *, is_last: bool) -> str:
    word = found["word"]
    if found["named"]:
        return f"{encode(word)}:"
    if word in _WORDS:
        return encode(_WORDS[word])
    if word[0] not in "-0123456789" or is_last:
        raise ValueError(f"{word!r} is not a value")  # and a number at the very end may have lost its last digits
    return word


def _strictly(text: str | bytes) -> Any:
    return _DECODER.decode(text if isinstance(text, str) else text.decode(json.detect_encoding(text), "surrogatepass"))


def _refuse_constant(name: str) -> None:
    raise ValueError(f"JSON has no {name}")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)  # `json.loads` with this option makes a new one each time


def _named(value: object) -> str:
    return {list: "a list", str: "a text", bool: "a truth value"}.get(type(value), "a number")


def _without_fence(text: str) -> str:
    text = text.strip(_BLANKS)
    if not text.startswith("```"):
        return text
    head, _, rest = text[3:].partition("\n")
    inside = rest if rest and head.strip().isalnum() else text[3:].removeprefix("json")
    return inside.rstrip(_BLANKS).removesuffix("```").strip(_BLANKS)
