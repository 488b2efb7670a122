"""A terminal's screen as an SVG: one line of text per row, one run per colour, on a grid that no font can bend."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyte.screens import Char

CELL, LINE, SIZE, MARGIN, BAR = 8.4, 19, 14, 14, 26
_PLAIN, _GROUND, _DIM = "#d8dee9", "#1b1f27", "#8892a2"
_COLOURS = {
    "black": "#3b4252",
    "red": "#d0707a",
    "green": "#9bbf85",
    "brown": "#e2c27f",
    "blue": "#7fa3cc",
    "magenta": "#b493b8",
    "cyan": "#84bdc9",
    "white": "#e5e9f0",
    "brightblack": _DIM,
    "brightred": "#e08a92",
    "brightgreen": "#b1d29c",
    "brightbrown": "#efd59b",
    "brightblue": "#9cbbe0",
    "brightmagenta": "#cbb0cf",
    "brightcyan": "#a3d5df",
    "brightwhite": "#ffffff",
}


def as_svg(rows: Sequence[Sequence[Char]], title: str) -> str:
    while rows and not "".join(cell.data for cell in rows[-1]).strip():
        rows = rows[:-1]
    columns = max(map(len, rows), default=80)
    width, height = round(columns * CELL + 2 * MARGIN), BAR + len(rows) * LINE + 2 * MARGIN
    lines = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="{SIZE}">'
        ),
        f"<title>{escape(title)}</title>",
        f'<rect width="{width}" height="{height}" rx="8" fill="{_GROUND}"/>',
        f'<text x="{width / 2:g}" y="18" text-anchor="middle" font-size="12" fill="{_DIM}">{escape(title)}</text>',
    ]
    for number, row in enumerate(rows):
        lines += _row(row, BAR + MARGIN + (number + 0.75) * LINE)
    return "\n".join([*lines, "</svg>"]) + "\n"


def _row(row: Sequence[Char], y: float) -> list[str]:
    runs, at = [], 0
    for look, group in groupby(row, key=_look):
        text = "".join(cell.data for cell in group)
        if text.strip():
            stripped = text.strip(" ")
            x = MARGIN + (at + len(text) - len(text.lstrip(" "))) * CELL
            runs.append(
                f'<text x="{x:g}" y="{y:g}" textLength="{len(stripped) * CELL:g}" xml:space="preserve"{look}>'
                f"{escape(stripped)}</text>"
            )
        at += len(text)
    return runs


def _look(cell: Char) -> str:
    colour = cell.bg if cell.reverse else cell.fg
    fill = _COLOURS.get(colour) or (f"#{colour}" if len(colour) == len("rrggbb") and colour.isalnum() else _PLAIN)
    fill = _PLAIN if colour == "default" else fill
    return f' fill="{fill}"{" font-weight=" + chr(34) + "bold" + chr(34) if cell.bold else ""}'
