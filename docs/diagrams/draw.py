"""Draws the diagrams whose text source changed. `bin/docs` runs it before it builds the site."""

from __future__ import annotations

import hashlib
from pathlib import Path

HERE = Path(__file__).parent
COMMON = HERE / "draw.typ"


def sources() -> list[Path]:
    """The text sources, one for each diagram."""
    return sorted(path for path in HERE.glob("*.typ") if path != COMMON)


def is_current(source: Path) -> bool:
    """Whether the SVG beside a source was drawn from it. The fonts of the machine do not count, the source does."""
    drawing = source.with_suffix(".svg")
    return drawing.exists() and drawing.read_text("utf-8").endswith(_stamp(source))


def _stamp(source: Path) -> str:
    return f"<!-- {hashlib.sha256(COMMON.read_bytes() + source.read_bytes()).hexdigest()} -->\n"


def main() -> None:
    """Draw what is missing or out of date."""
    for source in sources():
        if not is_current(source):
            import typst  # only whoever changes a diagram waits for it

            drawing = typst.compile(str(source), format="svg").decode()
            source.with_suffix(".svg").write_text(f"{drawing}\n{_stamp(source)}", "utf-8")


if __name__ == "__main__":
    main()
