"""`bin/soak curated`: kills, faults, power cuts, crowds and odd input against MEMORY.md and USER.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

from soak import arguments, faults, kills, obstacles, powercut, rawbytes, sessions_clock, writers

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from soak.common import Options, Outcome

SUMMARY = "MEMORY.md and USER.md"
DESCRIPTION = """Tries to break curated memory (MEMORY.md, USER.md). Without a choice: a short run of everything.
Everything random follows from --seed, so a failure can be repeated."""


def add_choices(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kills", type=int, default=0, metavar="N", help="kill a writer N times at random moments")
    parser.add_argument(
        "--faults", action="store_true", help="every system call of every operation: fail it, kill there (needs cc)"
    )
    parser.add_argument("--power", type=int, default=0, metavar="N", help="N power cuts that take the history's tail")
    parser.add_argument("--writers", type=int, default=0, metavar="N", help="N rounds of many writers and strangers")
    parser.add_argument("--clock", type=int, default=0, metavar="N", help="N histories while the clock jumps by years")
    parser.add_argument("--obstacles", action="store_true", help="links, pipes and devices in place of files; umasks")
    parser.add_argument("--bytes", type=int, default=0, metavar="N", help="odd files, and N adversarial entries")
    parser.add_argument("--arguments", type=int, default=0, metavar="N", help="N argument sets for the memory tool")
    parser.add_argument("--operations", default="", help="with --faults: only these, as in add,undo")
    parser.add_argument("--errors", default="", help="with --faults: only these, as in EIO,ENOSPC")
    parser.add_argument("--stride", type=int, default=1, metavar="N", help="with --faults: every N-th call only")


def run(given: argparse.Namespace, options: Options) -> Iterator[Outcome]:
    numbers = ("kills", "power", "writers", "clock", "bytes", "arguments")
    if not any(getattr(given, name) for name in (*numbers, "faults", "obstacles")):
        given.kills, given.power, given.writers, given.bytes, given.arguments = 500, 200, 2, 1_000, 5_000
        given.clock, given.obstacles, given.faults = 20, True, True
        given.operations = given.operations or "add"
    if given.kills:
        yield kills.run(given.kills, options)
    if given.faults:
        yield from faults.run(options, operations=given.operations, errors=given.errors, stride=given.stride)
    if given.power:
        yield powercut.run(given.power, options)
    if given.writers:
        yield writers.run(given.writers, options)
        yield writers.waits(given.writers, options)
    if given.clock:
        yield sessions_clock.run_memory(given.clock, options)
    if given.obstacles:
        yield obstacles.run(options)
    if given.bytes:
        yield rawbytes.run(given.bytes, options)
    if given.arguments:
        yield arguments.run(given.arguments, options)
