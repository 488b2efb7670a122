"""Measures how many harmless paragraphs of READMEs, changelogs and agent files the threat scanner refuses.

    python -m benchmarks.readmes FOLDER... [--skip FOLDER]... [--show]

The files are split into halves by a hash of their paths: causes are looked for in the development half only (`--show`
prints its refusals), so the held-out half tells whether a cure works on texts that nobody looked at. What the
classifier learnt from counts in neither half, and what both halves have counts in the development half.
"""

from __future__ import annotations

import argparse
import gzip
import os
import re
import zlib
from typing import TYPE_CHECKING

from benchmarks.training import LONGEST, PARAGRAPHS, SHORTEST, read_prose, with_interval
from hermes.safety.scanner import scan

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NAMES = re.compile(r"(?i)^(?:readme|agents|claude|changelog|contributing|skill)")
NO_TEXT = (".py", ".pyc", ".js", ".ts", ".map", ".png", ".svg", ".jpg", ".gif", ".so", ".pdf", ".html")
LARGEST = 2_000_000  # bytes of a file
MOST = 100  # paragraphs of a file: a compiler's changelog must not be half of the sample


def paragraphs(folders: Sequence[str], skipped: Sequence[str]) -> dict[str, list[str]]:
    """The paragraphs of each half, each of them once."""
    known = {text for text, _, _ in read_prose()}
    halves: dict[str, dict[str, None]] = {"development": {}, "held-out": {}}
    for path in sorted(_files(folders, skipped)):
        half = "held-out" if zlib.crc32(path.encode("utf-8", "surrogateescape")) % 2 else "development"
        parts = [part.strip() for part in PARAGRAPHS.split(_text(path))]
        fitting = [part for part in parts if SHORTEST <= len(part) <= LONGEST and part not in known]
        halves[half].update(dict.fromkeys(fitting[:: len(fitting) // MOST + 1]))
    held_out = [part for part in halves["held-out"] if part not in halves["development"]]
    return {"development": list(halves["development"]), "held-out": held_out}


def _files(folders: Sequence[str], skipped: Sequence[str]) -> Iterator[str]:
    unwanted = {os.path.realpath(folder) for folder in skipped}
    for folder in folders:
        for root, inner, names in os.walk(os.path.realpath(folder)):
            inner[:] = [name for name in inner if os.path.join(root, name) not in unwanted]
            paths = (os.path.join(root, name) for name in names if NAMES.search(name) and not name.endswith(NO_TEXT))
            yield from (path for path in paths if os.path.isfile(path) and not os.path.islink(path))


def _text(path: str) -> str:
    with gzip.open(path) if path.endswith(".gz") else open(path, "rb") as file:
        raw: bytes = file.read(LARGEST)
    try:
        return raw.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError:
        return raw.decode("latin-1").replace("\r\n", "\n")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.readmes")
    parser.add_argument("folder", nargs="+")
    parser.add_argument("--skip", action="append", default=[], metavar="FOLDER")
    parser.add_argument("--show", action="store_true", help="print the refusals of the development half")
    given = parser.parse_args()
    for half, parts in paragraphs(given.folder, given.skip).items():
        verdicts = [scan(part, "context") for part in parts]
        levels = [verdict.level for verdict in verdicts]
        refused, asked = levels.count("refuse"), levels.count("ask")
        print(
            f"{half}: {len(parts):,} paragraphs, refused {refused}: {with_interval(refused, len(parts), 2)} %,", end=""
        )
        print(f" asked about {asked}: {with_interval(asked, len(parts), 2)} %")
        for part, verdict in zip(parts, verdicts, strict=True) if given.show and half == "development" else ():
            if verdict.level == "refuse":
                worst = verdict.findings[0]
                print(f"\n== {worst.threat}, {worst.how}: {worst.excerpt}\n{part}")


if __name__ == "__main__":
    main()
