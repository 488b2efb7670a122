"""`bin/soak`: tries for a long time to break what the suite tests briefly; one sub-command per part of the product."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict

from soak import (
    agent,
    compaction,
    curated,
    descriptors,
    gateway,
    groups,
    isolation,
    migration,
    operations,
    people,
    power,
    providers,
    rescue,
    server,
    servers,
    sessions,
)
from soak.common import Options

_PARTS = {
    "agent": agent,
    "compaction": compaction,
    "curated": curated,
    "descriptors": descriptors,
    "gateway": gateway,
    "groups": groups,
    "isolation": isolation,
    "migration": migration,
    "operations": operations,
    "people": people,
    "power": power,
    "providers": providers,
    "rescue": rescue,
    "server": server,
    "servers": servers,
    "sessions": sessions,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="bin/soak", description=__doc__)
    parts = parser.add_subparsers(dest="part", required=True, metavar="PART")
    for name, part in _PARTS.items():
        own = parts.add_parser(name, help=part.SUMMARY, description=part.DESCRIPTION)
        part.add_choices(own)
        _add_common(own)
    given = parser.parse_args()
    options = Options(folder=given.folder, seed=given.seed, seconds=given.seconds, quiet=given.quiet)
    outcomes = []
    for outcome in _PARTS[given.part].run(given, options):
        outcomes.append(outcome)
        if not given.json:
            print("\n".join(outcome.lines()), flush=True)
    if given.json:
        print(json.dumps([asdict(outcome) for outcome in outcomes], ensure_ascii=False))
    return 1 if any(outcome.failures for outcome in outcomes) else 0


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0, metavar="T", help="end each choice after T seconds")
    parser.add_argument("--folder", default=tempfile.gettempdir(), help="where to make homes (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of text")
    parser.add_argument("--quiet", action="store_true", help="no progress line")


if __name__ == "__main__":
    sys.exit(main())
