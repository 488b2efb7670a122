"""`bin/soak`: tries for a long time to break what the suite tests briefly; one sub-command per part of the product."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict
from typing import TYPE_CHECKING

from soak import arguments, faults, kills, obstacles, powercut, rawbytes, writers
from soak.common import Options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from soak.common import Outcome

_CURATED = """Tries to break curated memory (MEMORY.md, USER.md). Without a choice: a short run of everything.
Everything random follows from --seed, so a failure can be repeated."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="bin/soak", description=__doc__)
    parts = parser.add_subparsers(dest="part", required=True, metavar="PART")
    _add_curated(parts.add_parser("curated", help="MEMORY.md and USER.md", description=_CURATED))
    given = parser.parse_args()
    options = Options(folder=given.folder, seed=given.seed, seconds=given.seconds, quiet=given.quiet)
    outcomes = []
    for outcome in _curated(given, options):
        outcomes.append(outcome)
        if not given.json:
            print("\n".join(outcome.lines()), flush=True)
    if given.json:
        print(json.dumps([asdict(outcome) for outcome in outcomes], ensure_ascii=False))
    return 1 if any(outcome.failures for outcome in outcomes) else 0


def _add_curated(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kills", type=int, default=0, metavar="N", help="kill a writer N times at random moments")
    parser.add_argument(
        "--faults", action="store_true", help="every system call of every operation: fail it, kill there (needs cc)"
    )
    parser.add_argument("--power", type=int, default=0, metavar="N", help="N power cuts that take the history's tail")
    parser.add_argument("--writers", type=int, default=0, metavar="N", help="N rounds of many writers and strangers")
    parser.add_argument("--obstacles", action="store_true", help="links, pipes and devices in place of files; umasks")
    parser.add_argument("--bytes", type=int, default=0, metavar="N", help="odd files, and N adversarial entries")
    parser.add_argument("--arguments", type=int, default=0, metavar="N", help="N argument sets for the memory tool")
    parser.add_argument("--operations", default="", help="with --faults: only these, as in add,undo")
    parser.add_argument("--errors", default="", help="with --faults: only these, as in EIO,ENOSPC")
    parser.add_argument("--stride", type=int, default=1, metavar="N", help="with --faults: every N-th call only")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0, metavar="T", help="end each choice after T seconds")
    parser.add_argument("--folder", default=tempfile.gettempdir(), help="where to make homes (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of text")
    parser.add_argument("--quiet", action="store_true", help="no progress line")


def _curated(given: argparse.Namespace, options: Options) -> Iterator[Outcome]:
    numbers = ("kills", "power", "writers", "bytes", "arguments")
    if not any(getattr(given, name) for name in (*numbers, "faults", "obstacles")):
        given.kills, given.power, given.writers, given.bytes, given.arguments = 500, 200, 2, 1_000, 5_000
        given.obstacles = given.faults = True
        given.operations = given.operations or "add"
    if given.kills:
        yield kills.run(given.kills, options)
    if given.faults:
        yield from faults.run(options, operations=given.operations, errors=given.errors, stride=given.stride)
    if given.power:
        yield powercut.run(given.power, options)
    if given.writers:
        yield writers.run(given.writers, options)
    if given.obstacles:
        yield obstacles.run(options)
    if given.bytes:
        yield rawbytes.run(given.bytes, options)
    if given.arguments:
        yield arguments.run(given.arguments, options)


if __name__ == "__main__":
    sys.exit(main())
