"""Splits the YAML block off the top of a Markdown file and reads its fields."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hermes.base.values import value

if TYPE_CHECKING:
    from typing import Any

MOST_CHARACTERS = 32_768  # a longer block is treated as text, not as frontmatter
MOST_YAML = 8_192  # what the full parser is given
MOST_NESTING = 400


@value
class Frontmatter:
    """`fields` are empty and `body` is the whole text when there is no block, or one with a `problem`."""

    fields: dict[str, Any]
    body: str
    problem: str = ""


def split_frontmatter(text: str) -> Frontmatter:
    """Splits a Markdown text into fields and body; a broken block is reported in `problem` and never raises."""
    text = text.removeprefix("\ufeff")
    opening = _OPENING.match(text)
    if opening is None:
        return Frontmatter(fields={}, body=text)
    closing = _CLOSING.search(text, opening.end() - 1, MOST_CHARACTERS)
    if closing is None:
        return Frontmatter(fields={}, body=text, problem="its frontmatter is opened with --- but never closed")
    block = text[opening.end() : closing.start() + 1]
    simple = _simple(block)
    fields = _full_yaml(block) if simple is None else simple
    if isinstance(fields, str):
        return Frontmatter(fields={}, body=text, problem=fields)
    return Frontmatter(fields=fields, body=text[closing.end() :])


_OPENING = re.compile(r"---[ \t]*\r?\n")
_CLOSING = re.compile(r"\n(?:---|\.\.\.)[ \t]*\r?(?:\n|\Z)")
_FIELD = re.compile(r"([A-Za-z_][\w.-]*):(?:[ \t]+(\S.*))?")
_ITEM = re.compile(r"-[ \t]+(\S.*)")
# A plain scalar we are sure about: no YAML indicator in front, no comment, nested mapping or line folding in it.
# `*` would be an alias, but without an anchor there is none, and Cursor's rules all say `globs: *.ts`.
_PLAIN = re.compile(r"(?![\s\[\]{}&!|>%@`\"'#,?-])(?:(?!:\s|\s#).)*(?<!:)")
_QUOTED = re.compile(r"\"([^\"\\]*)\"|'((?:[^']|'')*)'")
_INLINE_LIST = re.compile(r"\[([^\[\]{}#]*)\]")
_CONSTANTS = {"true": True, "false": False, "null": None, "~": None}


class _NotSimpleError(Exception):
    pass


def _simple(block: str) -> dict[str, Any] | None:
    """The fields when each line is `key: scalar`, a key with a list or more keys below it, or a list item."""
    lines = []
    for line in block.splitlines():
        content = line.lstrip(" ")
        if content.startswith("\t"):
            return None
        if content.rstrip() and content[0] != "#":
            lines.append((len(line) - len(content), content.rstrip()))
    try:
        fields, end = _mapping(lines, 0, 0)
    except _NotSimpleError:
        return None
    # An unexpected indent, such as the second line of a scalar, ends the reading early.
    return fields if end == len(lines) and "&" not in block else None


def _mapping(lines: list[tuple[int, str]], at: int, indent: int) -> tuple[dict[str, Any], int]:
    """The fields from line `at` on with this indentation, and the line after them."""
    fields: dict[str, Any] = {}
    while at < len(lines) and lines[at][0] == indent:
        field = _FIELD.fullmatch(lines[at][1])
        if field is None or field[1] in fields:
            raise _NotSimpleError
        at += 1
        below = lines[at] if at < len(lines) else (-1, "")
        if field[2] is not None:
            fields[field[1]] = _value(field[2])
        elif below[0] >= indent and below[1].startswith("- "):
            fields[field[1]], at = _items(lines, at, below[0])
        elif below[0] > indent:
            fields[field[1]], at = _mapping(lines, at, below[0])
        else:
            fields[field[1]] = None
    return fields, at


def _items(lines: list[tuple[int, str]], at: int, indent: int) -> tuple[list[Any], int]:
    items = []
    while at < len(lines) and lines[at][0] == indent and (item := _ITEM.fullmatch(lines[at][1])):
        items.append(_scalar(item[1]))
        at += 1
    return items, at


def _value(text: str) -> Any:
    inline = _INLINE_LIST.fullmatch(text)
    if inline is None:
        return _scalar(text)
    return [_scalar(part.strip()) for part in inline[1].split(",") if part.strip()]


def _scalar(text: str) -> Any:
    quoted = _QUOTED.fullmatch(text)
    if quoted is not None:
        return quoted[1] if quoted[2] is None else quoted[2].replace("''", "'")
    if _PLAIN.fullmatch(text) is None:
        raise _NotSimpleError
    return _CONSTANTS.get(text.lower(), text)


def _full_yaml(block: str) -> dict[str, Any] | str:
    """The fields, or what is wrong with them."""
    # The parser needs seconds for thousands of nested brackets, and this is a stranger's file.
    if len(block) > MOST_YAML or sum(map(block.count, "[{-?&*")) > MOST_NESTING:
        return "its frontmatter is too large or too deeply nested"
    import warnings

    from ruamel.yaml import YAML

    try:
        with warnings.catch_warnings(action="ignore"):  # about anchors that are defined twice
            fields = YAML(typ="safe", pure=True).load(block)
    except Exception as error:  # noqa: BLE001 - the parser fails in many ways on a stranger's file; all mean the same
        place = getattr(error, "problem_mark", None)
        where = f" (line {place.line + 2})" if place is not None else ""
        return f"its frontmatter is not valid YAML{where}"
    if fields is None:
        return {}
    if not isinstance(fields, dict):
        return "its frontmatter is not a list of fields"
    return {str(key): field for key, field in fields.items()}
