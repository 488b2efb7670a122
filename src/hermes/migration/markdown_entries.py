"""Markdown notes as memory entries: one per point or paragraph, with its headings; code and tables are kept whole."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hermes.vocabulary.frontmatter import split_frontmatter

if TYPE_CHECKING:
    from collections.abc import Iterator

_HEADING = re.compile(r" {0,3}(#{1,6})\s+(.*?)\s*#*\s*$")
_BULLET = re.compile(r"\s*(?:[-*+•]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?(.*)$")
_FENCE = re.compile(r"\s*(`{3,}|~{3,})")
_TABLE = re.compile(r"\s*\|.*\|\s*$")
_RULE = re.compile(r"\s*([-*_=])(\s*\1){2,}\s*$")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_FILE_NAMES = re.compile(r"\b(MEMORY|USER|SOUL|AGENTS|TOOLS|IDENTITY|CLAUDE|GEMINI)\.md\b", re.IGNORECASE)
_SEPARATOR = "§"


@dataclass(slots=True)
class _Parser:
    headings: list[tuple[int, str]] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    block: list[str] = field(default_factory=list)  # code or a table, line for line

    def done(self) -> Iterator[str]:
        """What was collected, as an entry."""
        said = " ".join(self.words)
        block = "\n".join(self.block)
        self.words, self.block = [], []
        if not said and not block:
            return
        prefix = " > ".join(text for _, text in self.headings)
        first = f"{prefix}: {said}" if prefix and said else said or (f"{prefix}:" if prefix else "")
        yield "\n".join(filter(None, (first, block)))

    def heading(self, level: int, text: str) -> None:
        while self.headings and self.headings[-1][0] >= level:
            self.headings.pop()
        if text and not _FILE_NAMES.search(text):
            self.headings.append((level, _plain(text)))


def entries(text: str) -> list[str]:
    """The entries in the order of the text, each once."""
    found = dict.fromkeys(_entries(text))
    return [entry for entry in found if entry.strip()]


def _entries(text: str) -> Iterator[str]:
    parser = _Parser()
    fence = ""
    body = split_frontmatter(text.replace("\r\n", "\n")).body
    for line in _COMMENT.sub("", body).split("\n"):
        if fence:
            parser.block.append(line)
            if line.strip().startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
                yield from parser.done()
            continue
        opening = _FENCE.match(line)
        if opening:
            if parser.block:
                yield from parser.done()
            fence = opening[1]
            parser.block = [line.strip()]
        elif _TABLE.match(line):
            parser.block.append(line.strip())
        else:
            yield from _prose(parser, line)
    if fence:
        parser.block.append(fence)
    yield from parser.done()


def _prose(parser: _Parser, line: str) -> Iterator[str]:
    if parser.block:
        yield from parser.done()
    if heading := _HEADING.match(line):
        yield from parser.done()
        parser.heading(len(heading[1]), heading[2])
    elif not line.strip() or line.strip() == _SEPARATOR:
        if not (parser.words and parser.words[-1].endswith(":")):  # a line that announces the block below it
            yield from parser.done()
    elif _RULE.match(line):
        yield from parser.done()
    elif bullet := _BULLET.match(line):
        yield from parser.done()
        parser.words = [bullet[1].strip()]
    else:
        parser.words.append(line.strip().lstrip(">").strip())


def _plain(heading: str) -> str:
    return heading.strip().strip("*_").strip()
