"""Renders Markdown for a terminal while it streams: finished blocks once, the unfinished one again and again."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode
from rich import box
from rich.color import ColorSystem
from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from hermes.cli.chat.wrap import breaks

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import JustifyMethod
    from rich.segment import Segment

_NARROWEST = 10  # columns that text keeps, however deep it is nested
_NARROWEST_COLUMN = 8  # below this a table is shown row by row
_CODE_THEME = "ansi_dark"  # the sixteen colours of the terminal, so that its own theme decides
_INLINE = {"strong": "bold", "em": "italic", "s": "strike"}
# Raw HTML and reference definitions would vanish, an image would lose its address, and a line of hyphens below a
# paragraph is usually meant as a rule. A chat shows what the model wrote.
_OFF = ["reference", "image", "lheading"]


def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable(_OFF)


_BLOCKS = _parser().disable("inline")  # splits a text into blocks without looking inside them
_WHOLE = _parser()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    source: str
    kind: str
    gap: bool  # an empty line comes before it


class MarkdownStream:
    """An answer in pieces: feed them, print `finished` once, and show `unfinished` below it until the next piece."""

    def __init__(self) -> None:
        self._source = ""  # of the block that is not finished
        self._gap = False

    def feed(self, piece: str) -> None:
        """Adds a piece of the answer, which may end anywhere, even inside a mark."""
        self._source += piece

    def finished(self, width: int) -> list[str]:
        """The lines of blocks that ended since the last call. Only complete lines can end a block."""
        complete, _, partial = self._source.rpartition("\n")
        *done, last = _split(complete, gap=self._gap) or [_Block(source=complete, kind="", gap=self._gap)]
        if done:
            self._source, self._gap = f"{last.source}\n{partial}", last.gap
        return _ansi(line for block in done for line in _rendered(block, width))

    def unfinished(self, width: int, most: int) -> list[str]:
        """The last lines that may still change, at most so many; all of them are printed when their block ends."""
        blocks = _split(self._source, gap=self._gap)
        lines = [line for block in blocks for line in _rendered(block, width, live=True)][-most:]
        for line in lines:  # cut long code while it may be redrawn; once printed, the terminal wraps it
            line.truncate(width, overflow="crop")
        return _ansi(lines)

    def rest(self, width: int) -> list[str]:
        """The lines that are not printed yet, once the answer is complete."""
        blocks = _split(self._source, gap=self._gap)
        self._source, self._gap = "", False
        return _ansi(line for block in blocks for line in _rendered(block, width))


def _split(text: str, *, gap: bool) -> list[_Block]:
    """Splits a text into blocks; each item of a list is one, so that the parts of a long list are printed early."""
    lines = text.split("\n")
    starts: list[tuple[int, str]] = []
    for token in _BLOCKS.parse(text):
        if token.map is None or token.nesting < 0:
            continue
        if token.type == "list_item_open" and token.level == 1:
            starts.append((token.map[0], "item"))
        elif token.level == 0 and not token.type.endswith("list_open"):
            starts.append((token.map[0], token.type.removesuffix("_open")))
    blocks = []
    for place, (start, kind) in enumerate(starts):
        end = starts[place + 1][0] if place + 1 < len(starts) else len(lines)
        follows_item = place > 0 and kind == starts[place - 1][1] == "item"
        apart = gap if place == 0 else not follows_item or not lines[start - 1].strip()
        blocks.append(_Block(source="\n".join(lines[start:end]), kind=kind, gap=apart))
    return blocks


def _closed(block: _Block) -> str:
    """Closes emphasis that is still open, so that its marks are not visible until the closing mark arrives."""
    source = block.source.rstrip()
    if block.kind not in ("paragraph", "heading", "item") or "```" in source:
        return block.source
    last = source.rpartition("\n\n")[2]
    mark = "`" if last.count("`") % 2 else "**" if last.count("**") % 2 else ""
    return source.removesuffix(mark) if mark and source.endswith(mark) else source + mark


def _rendered(block: _Block, width: int, *, live: bool = False) -> list[Text]:
    nodes = SyntaxTreeNode(_WHOLE.parse(_closed(block) if live else block.source)).children
    lines = _lines_of(nodes, max(width, _NARROWEST))
    return [Text(), *lines] if block.gap else lines


def _lines_of(nodes: Sequence[SyntaxTreeNode], width: int) -> list[Text]:
    lines: list[Text] = []
    for place, node in enumerate(nodes):
        if place and not _is_tight(nodes[place - 1]):
            lines.append(Text())
        lines += _block_lines(node, width)
    return lines


def _is_tight(node: SyntaxTreeNode) -> bool:
    """Whether this is a paragraph of a list without empty lines between its items."""
    return node.type == "paragraph" and node.hidden


def _block_lines(node: SyntaxTreeNode, width: int) -> list[Text]:
    match node.type:
        case "paragraph":
            return _wrapped(_inline(node), width)
        case "heading":
            text = _inline(node)
            text.stylize("bold underline" if node.tag == "h1" else "bold")
            return _wrapped(text, width)
        case "fence" | "code_block":
            return _code(node)
        case "bullet_list" | "ordered_list":
            return _list(node, width)
        case "blockquote":
            return [Text.assemble(("▌ ", "dim"), line) for line in _lines_of(node.children, max(width - 2, _NARROWEST))]
        case "hr":
            return [Text("─" * width, "dim")]
        case "table":
            return _table(node, width)
        case _:
            return _wrapped(Text(node.content if not node.children else ""), width)


def _code(node: SyntaxTreeNode) -> list[Text]:
    """Highlights code, but neither indents nor wraps it, so that people can copy it."""
    language = (node.info or "").split()[0] if (node.info or "").strip() else "text"
    text = Syntax("", language, theme=_CODE_THEME).highlight(node.content.rstrip("\n"))
    text.expand_tabs(4)
    return list(text.split("\n", allow_blank=True))[: node.content.rstrip("\n").count("\n") + 1]


def _list(node: SyntaxTreeNode, width: int) -> list[Text]:
    """Shows the items of a list with bullets or numbers; an empty line separates items with paragraphs."""
    number = int(str(node.attrs.get("start", 1)))
    lines: list[Text] = []
    for place, item in enumerate(node.children):
        mark = "• " if node.type == "bullet_list" else f"{number + place}. "
        loose = item.children and not _is_tight(item.children[0])
        if lines and loose:
            lines.append(Text())
        inside = _lines_of(item.children, max(width - len(mark), _NARROWEST)) or [Text()]
        lines.append(Text.assemble((mark, "cyan"), inside[0]))
        lines += [Text.assemble(" " * len(mark), line) if line else line for line in inside[1:]]
    return lines


def _table(node: SyntaxTreeNode, width: int) -> list[Text]:
    """Shows a table with rich, or row by row where its columns would be too narrow."""
    rows = [row.children for part in node.children for row in part.children]
    header, body = rows[0], rows[1:]
    if width < len(header) * _NARROWEST_COLUMN:
        return _row_by_row(header, body, width)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, border_style="dim", header_style="bold")
    for cell in header:
        found = re.search("text-align:(left|right|center)", str(cell.attrs.get("style", "")))
        justified: JustifyMethod = found[1] if found else "left"  # type: ignore[assignment]
        table.add_column(_inline(cell), justify=justified, overflow="fold")
    for row in body:
        table.add_row(*map(_inline, row))
    lines = []
    for segments in _CONSOLE.render_lines(table, _CONSOLE.options.update(width=width), pad=False):
        lines.append(Text.assemble(*((segment.text, segment.style or "") for segment in segments)))
        lines[-1].rstrip()
    return lines


def _row_by_row(header: Sequence[SyntaxTreeNode], body: Sequence[Sequence[SyntaxTreeNode]], width: int) -> list[Text]:
    """Shows a table that is too wide as a list: each cell after the name of its column."""
    lines: list[Text] = []
    for row in body or [header]:
        lines += [Text()] if lines else []
        for name, cell in zip(header, row, strict=False):
            named = Text.assemble(_inline(name), ": ")
            named.stylize("bold")
            lines += _wrapped(Text.assemble(named, _inline(cell)), width)
    return lines


def _inline(node: SyntaxTreeNode, style: str = "") -> Text:
    """The text inside a block with its styles; code, links and nested emphasis included."""
    text = Text()
    for child in node.children:
        match child.type:
            case "text" | "text_special":
                text.append(child.content, style)
            case "softbreak" | "hardbreak":
                text.append("\n")
            case "code_inline":
                text.append(child.content, f"{style} cyan".strip())
            case "link":
                text.append_text(_link(child, style))
            case _:
                text.append_text(_inline(child, f"{style} {_INLINE.get(child.type, '')}".strip()))
    return text


def _link(node: SyntaxTreeNode, style: str) -> Text:
    """The address stays visible: a person should see where a link leads."""
    text, address = _inline(node, f"{style} underline".strip()), str(node.attrs.get("href", ""))
    return text if text.plain in (address, address.removeprefix("mailto:")) else text.append(f" ({address})", "dim")


def _wrapped(text: Text, width: int) -> list[Text]:
    lines = list(text.divide(breaks(text.plain, width)))
    for line in lines:
        line.rstrip()
    return lines


# Only lays tables out and renders styles; `Screen` writes to the terminal.
_CONSOLE = Console(force_terminal=True, color_system="standard", legacy_windows=False, markup=False, emoji=False)


def _ansi(lines: Iterable[Text]) -> list[str]:
    return ["".join(map(_styled, line.render(_CONSOLE))) for line in lines]


def _styled(segment: Segment) -> str:
    return segment.style.render(segment.text, color_system=ColorSystem.STANDARD) if segment.style else segment.text
