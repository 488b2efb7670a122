"""`bin/live NAME`: stores, recalls and forgets through a provider against its real service.

`bin/live hosts` connects Claude Code, Codex and Gemini CLI from npm instead; `bin/live clients` runs client programs
against `hermes serve` and writes the table in docs/guides/clients.md.
"""

from __future__ import annotations

import argparse
import os
import pkgutil
import sys
import tempfile
from importlib import import_module

import live
from live.kit import Trial, say

_KIT = {"main", "kit", "servers", "story", "stub"}
_PATIENCE = "how long a step may take until it has failed (as long as the service needs)"
_PAUSE = "how long the service may take to make memories of what it was told, before it is looked what came back (15)"


def main() -> int:
    names = sorted(each.name for each in pkgutil.iter_modules(live.__path__) if each.name not in _KIT)
    parser = argparse.ArgumentParser(prog="bin/live", description=__doc__)
    parser.add_argument("name", choices=names)
    parser.add_argument("--url", default="", help="a service that already runs, instead of one installed here")
    parser.add_argument("--key", default="", help="its key (better: the variable the provider's page names)")
    parser.add_argument("--scratch", default="", metavar="DIR", help="keep the installation here for the next run")
    parser.add_argument("--patience", type=float, default=0.0, metavar="SECONDS", help=_PATIENCE)
    parser.add_argument("--pause", type=float, default=15.0, metavar="SECONDS", help=_PAUSE)
    parser.add_argument("--only", default="", metavar="WORD", help="clients: only rows whose name has this word")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hermes-live-") as folder:
        scratch = os.path.abspath(given.scratch) if given.scratch else os.path.join(folder, "scratch")
        trial = Trial(
            name=given.name,
            url=given.url,
            key=given.key,
            scratch=scratch,
            home=os.path.join(folder, "home"),
            patience=given.patience,
            pause=given.pause,
            only=given.only,
        )
        return int(import_module(f"live.{given.name}").run(trial))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        say("stopped")
        sys.exit(130)
