"""Renders Markdown in the formatting of a platform, which describes its marks in a `Markup`."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_WIDEST_TABLE = 60  # columns; a wider one is written row by row
# HTML, references and pictures stay text, because they would vanish otherwise. A line of hyphens is a rule, not the
# underline of a heading.
MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
MARKDOWN.disable(["reference", "image", "lheading"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Markup:
    """How a platform writes the elements of Markdown; the functions receive text that is already escaped."""

    marks: Mapping[str, tuple[str, str]]  # strong, em, s, code_inline
    escape: Callable[[str], str]
    block: Callable[[str, str], str]  # code and its language
    quote: Callable[[str], str]
    link: Callable[[str, str], str]  # address, and what it is called

    def render(self, markdown: str) -> str:
        """Formats Markdown; headings become bold, and tables become aligned blocks of code."""
        return self._blocks(SyntaxTreeNode(MARKDOWN.parse(markdown)).children)

    def _blocks(self, nodes: Sequence[SyntaxTreeNode], between: str = "\n\n", *, quoted: bool = False) -> str:
        return between.join(self._block(node, quoted=quoted) for node in nodes)

    def _block(self, node: SyntaxTreeNode, *, quoted: bool) -> str:
        match node.type:
            case "heading":
                return self._marked("strong", self._inline(node))
            case "fence" | "code_block":
                language = (node.info or "").split()[:1]
                return self.block(self.escape(node.content.rstrip("\n")), self.escape("".join(language)))
            case "bullet_list" | "ordered_list":
                return self._list(node, quoted=quoted)
            case "blockquote":
                inside = self._blocks(node.children, quoted=True)
                return inside if quoted else self.quote(inside)  # no platform has a quote in a quote
            case "hr":
                return "———"
            case "table":
                return self._table(node)
            case _:
                return self._inline(node)

    def _list(self, node: SyntaxTreeNode, *, quoted: bool) -> str:
        first, items, loose = int(str(node.attrs.get("start", 1))), [], False
        for number, item in enumerate(node.children, start=first):
            mark = "• " if node.type == "bullet_list" else f"{number}. "
            loose = loose or any(child.type == "paragraph" and not child.hidden for child in item.children)
            text = self._blocks(item.children, "\n", quoted=quoted)
            code = any(child.type in ("fence", "code_block", "table") for child in item.walk())
            items.append(mark + (text if code else text.replace("\n", "\n" + " " * len(mark))))
        return ("\n\n" if loose else "\n").join(items)

    def _table(self, node: SyntaxTreeNode) -> str:
        aligned = aligned_table(node)
        if aligned:
            return self.block(self.escape(aligned), "")
        rows = [[self._inline(cell) for cell in row.children] for part in node.children for row in part.children]
        return "\n\n".join(
            "\n".join(f"{self._marked('strong', name)}: {cell}" for name, cell in zip(rows[0], row, strict=False))
            for row in rows[1:]
        )

    def _inline(self, node: SyntaxTreeNode) -> str:
        return "".join(map(self._one, node.children))

    def _one(self, node: SyntaxTreeNode) -> str:
        match node.type:
            case "text" | "text_special":
                return self.escape(node.content)
            case "softbreak" | "hardbreak":
                return "\n"
            case "code_inline":
                return self._marked(node.type, self.escape(node.content))
            case "link":
                return self.link(str(node.attrs.get("href", "")), self._inline(node))
            case "strong" | "em" | "s":
                return self._marked(node.type, self._inline(node))
            case _:
                return self._inline(node)

    def _marked(self, kind: str, text: str) -> str:
        before, after = self.marks[kind]
        return f"{before}{text}{after}"


def aligned_table(node: SyntaxTreeNode) -> str:
    """Formats a table as plain lines with aligned columns; "" if it is too wide for a phone."""
    rows = [[_plain(cell) for cell in row.children] for part in node.children for row in part.children]
    widths = [max(map(_columns, column)) for column in zip(*rows, strict=False)]
    if sum(widths) + 2 * len(widths) > _WIDEST_TABLE:
        return ""
    lines = [
        "  ".join(cell + " " * (width - _columns(cell)) for cell, width in zip(row, widths, strict=False)).rstrip()
        for row in rows
    ]
    lines.insert(1, "  ".join("─" * width for width in widths))
    return "\n".join(lines)


def with_tables_aligned(markdown: str) -> str:
    """Turns the tables of Markdown into blocks of code, for platforms that know the rest of it."""
    lines = markdown.split("\n")
    for node in reversed(SyntaxTreeNode(MARKDOWN.parse(markdown)).children):
        if node.type == "table" and node.map is not None:
            aligned = aligned_table(node)
            if aligned:
                lines[node.map[0] : node.map[1]] = ["```", *aligned.split("\n"), "```"]
    return "\n".join(lines)


def _plain(node: SyntaxTreeNode) -> str:
    return "".join(each.content for each in node.walk() if each.type in ("text", "text_special", "code_inline"))


def _columns(text: str) -> int:
    """The width on a screen: accents take no column, Chinese characters and emoji take two."""
    return sum(0 if unicodedata.combining(each) else 1 + (unicodedata.east_asian_width(each) in "WF") for each in text)
