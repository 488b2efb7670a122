"""Splits the YAML block off the top of a Markdown file and reads its fields.

The block is nearly always a few `key: value` lines and short lists; those are read here. Anything richer goes to
ruamel.yaml, which takes 35 ms to import and is loaded only then.
"""

from __future__ import annotations

import re

from hermes.vocabulary.values import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MOST_CHARACTERS = 32_768  # a block longer than this is no frontmatter


@value
class Frontmatter:
    """`fields` are empty and `body` is the whole text when there is no block, or one with a `problem`."""

    fields: dict[str, Any]
    body: str
    problem: str = ""


def split_frontmatter(text: str) -> Frontmatter:
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
_ITEM = re.compile(r"[ \t]*-[ \t]+(\S.*)")
# A plain scalar we are sure about: no YAML indicator in front, no comment, nested mapping or line folding in it.
# `*` would be an alias, but without an anchor there is none, and Cursor's rules all say `globs: *.ts`.
_PLAIN = re.compile(r"(?![\s\[\]{}&!|>%@`\"'#,?-])(?:(?!:\s|\s#).)*(?<!:)")
_QUOTED = re.compile(r"\"([^\"\\]*)\"|'((?:[^']|'')*)'")
_INLINE_LIST = re.compile(r"\[([^\[\]{}#]*)\]")
_CONSTANTS = {"true": True, "false": False, "null": None, "~": None}


def _simple(block: str) -> dict[str, Any] | None:
    if "&" in block:
        return None
    fields: dict[str, Any] = {}
    open_list: list[Any] | None = None
    for line in block.splitlines():
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        item = _ITEM.fullmatch(line.rstrip())
        if item is not None and open_list is not None:
            scalar = _scalar(item[1])
            if scalar is _UNSURE:
                return None
            open_list.append(scalar)
            continue
        field = _FIELD.fullmatch(line.rstrip())
        if field is None or field[1] in fields or open_list == []:
            return None
        open_list = None
        parsed = _value(field[2])
        if parsed is _UNSURE:
            return None
        if field[2] is None:
            open_list = parsed
        fields[field[1]] = parsed
    return None if open_list == [] else fields


_UNSURE = object()


def _value(text: str | None) -> Any:
    if text is None:
        return []
    inline = _INLINE_LIST.fullmatch(text)
    if inline is None:
        return _scalar(text)
    items = [_scalar(part.strip()) for part in inline[1].split(",") if part.strip()]
    return _UNSURE if _UNSURE in items else items


def _scalar(text: str) -> Any:
    quoted = _QUOTED.fullmatch(text)
    if quoted is not None:
        return quoted[1] if quoted[2] is None else quoted[2].replace("''", "'")
    if _PLAIN.fullmatch(text) is None:
        return _UNSURE
    return _CONSTANTS.get(text.lower(), text)


def _full_yaml(block: str) -> dict[str, Any] | str:
    """The fields, or what is wrong with them."""
    from ruamel.yaml import YAML

    try:
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
