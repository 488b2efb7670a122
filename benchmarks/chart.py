"""Draws figures as an SVG: one panel for each group of figures that share a unit, bars on one scale, values beside."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

from hermes.base.values import value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_WIDTH, _LABELS, _ROW, _HEAD, _GAP = 860, 330, 22, 34, 16
_ROOM = _WIDTH - _LABELS - 120
_WIDE = 200  # from the smallest to the largest bar: more than that needs a logarithmic scale
_SMALL = 'font-size="12" fill="#374151"'
_PERCENTILE = re.compile(r"p\d{2}")  # of times, in milliseconds
_UNITS = (
    (" ms", "ms"),
    (" µs", "µs"),
    ("_ms", "ms"),
    ("_seconds", "s"),
    ("_mb", "MB"),
    ("_mb_per_s", "MB/s"),
    ("_per_second", "per second"),
    ("_bytes", "bytes"),
    ("_percent", "%"),
)


@value
class Panel:
    title: str
    unit: str
    bars: tuple[tuple[str, float], ...]


def draw(figures: Mapping[str, Any], title: str) -> str:
    """The whole chart as SVG text."""
    panels = [*_panels(figures, "")]
    height = 50 + sum(_HEAD + len(panel.bars) * _ROW + _GAP for panel in panels)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif">',
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="16" y="28" font-size="18" fill="#20242c">{escape(title)}</text>',
    ]
    top = 50
    for panel in panels:
        parts += _drawn(panel, top)
        top += _HEAD + len(panel.bars) * _ROW + _GAP
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panels(figures: Mapping[str, Any], path: str) -> Iterator[Panel]:
    """Figures that stand side by side and have one unit, from the outside in."""
    by_unit: dict[str, list[tuple[str, float]]] = {}
    inner: list[tuple[str, Mapping[str, Any]]] = []
    for name, figure in figures.items():
        if isinstance(figure, dict):
            inner.append((name, figure))
        elif isinstance(figure, list):
            inner += [(f"{name} {_called(each, at)}", each) for at, each in enumerate(figure) if isinstance(each, dict)]
        elif isinstance(figure, int | float) and not isinstance(figure, bool) and (unit := _unit(name, figure, path)):
            by_unit.setdefault(unit, []).append((name, float(figure)))
    for unit, bars in by_unit.items():
        yield Panel(title=path or "figures", unit=unit, bars=tuple(bars))
    for name, more in inner:
        yield from _panels(more, f"{path} · {name}" if path else name)


def _called(row: Mapping[str, Any], at: int) -> str:
    """What a row of a list is about: its first value."""
    return str(next(iter(row.values()), at))


def _unit(name: str, figure: float, path: str) -> str:
    """The unit a figure's name or its group's tells; empty for mere counts, which no bar should compare."""
    for said in (name, path):
        for ending, unit in reversed(_UNITS):
            if said.endswith(ending):
                return unit
    if _PERCENTILE.fullmatch(name):
        return "ms"
    if "_over_" in name or name.startswith("over_"):
        return "ratio"
    if name.startswith("hit@"):
        return "%"
    return "share" if 0 <= figure <= 1 and figure != int(figure) else ""


def _drawn(panel: Panel, top: int) -> list[str]:
    largest = max(figure for _, figure in panel.bars)
    positive = [figure for _, figure in panel.bars if figure > 0]
    wide = bool(positive) and largest / min(positive) > _WIDE
    scale = f"{panel.unit}{', logarithmic' if wide else ''}"
    parts = [
        (
            f'<text x="16" y="{top + 20}" font-size="13" font-weight="bold" fill="#20242c">{escape(panel.title)} '
            f'<tspan font-weight="normal" fill="#6b7280">({scale})</tspan></text>'
        )
    ]
    for row, (name, figure) in enumerate(panel.bars):
        y = top + _HEAD + row * _ROW
        length = max(1.0, _ROOM * (_logarithmic(figure, min(positive), largest) if wide else _part(figure, largest)))
        parts += [
            f'<text x="{_LABELS - 8}" y="{y + 12}" {_SMALL} text-anchor="end">{escape(name)}</text>',
            f'<rect x="{_LABELS}" y="{y}" width="{length:.1f}" height="{_ROW - 6}" rx="2" fill="#4a7ab0"/>',
            f'<text x="{_LABELS + length + 6:.1f}" y="{y + 12}" {_SMALL}>{figure:.4g}</text>',
        ]
    return parts


def _part(figure: float, largest: float) -> float:
    return max(figure, 0) / largest if largest > 0 else 0.0


def _logarithmic(figure: float, smallest: float, largest: float) -> float:
    if figure <= 0:
        return 0.0
    return (math.log(figure / smallest) + 1) / (math.log(largest / smallest) + 1)
