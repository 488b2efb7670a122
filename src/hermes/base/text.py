"""Reads and writes JSON, repairs what a model wrote almost right, and words times and counts. No slow imports."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

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


_BLANKS = " \t\n\r\f\v\u00a0\ufeff"
_CLOSERS = "}])"
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
    reader = _Reader(_without_fence(text))
    value = reader.value()
    if reader.text[reader.at :].strip(_BLANKS + _CLOSERS + ";"):
        raise ValueError(f"there is more behind the end of the value (character {reader.at})")
    return value


def _strictly(text: str | bytes) -> Any:
    value = decode(text)
    words = text if isinstance(text, str) else text.decode("utf-8", "replace")
    if "NaN" in words or "Infinity" in words:
        import json

        json.loads(words, parse_constant=_refuse_constant)
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"JSON has no {name}")


def _named(value: object) -> str:
    return {list: "a list", str: "a text", bool: "a truth value"}.get(type(value), "a number")


def _without_fence(text: str) -> str:
    text = text.strip(_BLANKS)
    if not text.startswith("```"):
        return text
    head, _, rest = text[3:].partition("\n")
    inside = rest if rest and head.strip().isalnum() else text[3:].removeprefix("json")
    return inside.rstrip(_BLANKS).removesuffix("```").strip(_BLANKS)


class _Reader:
    """Reads one value from the beginning of a text; `at` is the position after what was read."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def value(self) -> Any:
        self._skip()
        match self._here():
            case "{":
                return self._object()
            case "[":
                return self._array()
            case '"' | "'":
                return self._string()
            case _:
                return self._word()

    def _object(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        self.at += 1
        while not self._closed("}", first=not found):
            key = self._string() if self._here() in "\"'" else self._token()
            if not key:
                raise self._wrong("a key")
            self._skip()
            if self._here() != ":":
                raise self._wrong("a colon")
            self.at += 1
            found[key] = self.value()
        return found

    def _array(self) -> list[Any]:
        found: list[Any] = []
        self.at += 1
        while not self._closed("]", first=not found):
            found.append(self.value())
        return found

    def _closed(self, closer: str, *, first: bool) -> bool:
        """Whether a bracket ends here, by its closer or with the text; else what follows is its next element."""
        self._skip()
        if self._here() == "," and not first:
            self.at += 1
            self._skip()
            if not self._here():
                raise self._wrong("what follows the comma")
        elif not first and self._here() not in ("", closer):
            raise self._wrong("a comma")
        if self._here() == closer:
            self.at += 1
            return True
        return not self._here()

    def _string(self) -> str:
        if self._here() == '"':
            from json.decoder import scanstring  # type: ignore[attr-defined] # it has no stub, and loads its error

            try:
                value, self.at = scanstring(self.text, self.at + 1, False)
            except ValueError:
                return self._string_by_hand()  # a wrong escape, or no end
            return str(value)
        return self._string_by_hand()

    def _string_by_hand(self) -> str:
        quote, at, pieces = self.text[self.at], self.at + 1, [""]
        escapes: set[str] = set()
        while True:
            ends = [found for found in (self.text.find(quote, at), self.text.find("\\", at)) if found >= 0]
            if not ends or self.text.find(quote, at) < 0:
                raise ValueError(f"the string that begins at character {self.at} has no end")
            stop = min(ends)
            pieces.append(self.text[at:stop])
            if self.text[stop] == quote:
                if escapes & _LETTERS and escapes - _ESCAPES.keys() - _LETTERS:
                    raise ValueError(f"the string that begins at character {self.at} mixes escapes and backslashes")
                self.at = stop + 1
                joined = "".join(pieces).encode("utf-16-le", "surrogatepass")  # halves that \\u wrote become one again
                return joined.decode("utf-16-le", "replace")
            escapes.add(self.text[stop + 1 : stop + 2])
            piece, at = self._escape(stop)
            pieces.append(piece)

    def _escape(self, at: int) -> tuple[str, int]:
        letter = self.text[at + 1 : at + 2]
        end = at + 2 + {"u": 4, "x": 2}.get(letter, 0)  # the latter as Python writes it
        digits = self.text[at + 2 : end]
        if digits and len(digits) == end - at - 2 and all(each in "0123456789abcdefABCDEF" for each in digits):
            return chr(int(digits, 16)), end
        # Not a JSON escape but a pattern such as \d or a path, in which the model forgot to double the backslash.
        return _ESCAPES.get(letter, f"\\{letter}"), at + 2

    def _word(self) -> Any:
        word = self._token()
        if word in _WORDS:
            return _WORDS[word]
        if not word or (word[0] not in "-0123456789") or not self._here():
            raise self._wrong("a value")  # and a number at the very end may have lost its last digits
        return decode(word)

    def _token(self) -> str:
        start = self.at
        while self._here() and (self._here().isalnum() or self._here() in "_-+.$"):
            self.at += 1
        return self.text[start : self.at]

    def _here(self) -> str:
        return self.text[self.at : self.at + 1]

    def _skip(self) -> None:
        while self._here() and self._here() in _BLANKS:
            self.at += 1

    def _wrong(self, wanted: str) -> ValueError:
        return ValueError(f"expected {wanted} at character {self.at}, found {self.text[self.at : self.at + 20]!r}")
