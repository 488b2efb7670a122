"""`bin/live NAME`: stores, recalls and forgets through a provider against its real service."""

from __future__ import annotations

import argparse
import os
import pkgutil
import sys
import tempfile
from importlib import import_module

import live
from live.kit import Trial, say

_KIT = {"main", "kit", "stub", "inside", "servers"}


def main() -> int:
    names = sorted(each.name for each in pkgutil.iter_modules(live.__path__) if each.name not in _KIT)
    parser = argparse.ArgumentParser(prog="bin/live", description=__doc__)
    parser.add_argument("name", choices=names)
    parser.add_argument("--url", default="", help="a service that already runs, instead of one installed here")
    parser.add_argument("--key", default="", help="its key (better: the variable the provider's page names)")
    parser.add_argument("--scratch", default="", metavar="DIR", help="keep the installation here for the next run")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hermes-live-") as folder:
        scratch = os.path.abspath(given.scratch) if given.scratch else os.path.join(folder, "scratch")
        trial = Trial(name=given.name, url=given.url, key=given.key, scratch=scratch, home=os.path.join(folder, "home"))
        return int(import_module(f"live.{given.name}").run(trial))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        say("stopped")
        sys.exit(130)
