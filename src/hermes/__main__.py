"""The `hermes` command: answers `--version` before anything is imported, hands the rest to `hermes.cli`."""

from __future__ import annotations

import gc
import os
import sys


def main() -> int:
    if sys.argv[1:] == ["--version"]:
        from hermes.vocabulary.version import __version__

        print(f"hermes {__version__}")
        return 0
    gc.disable()  # nothing that loading makes can be thrown away; the command switches it on again
    from hermes.cli.app import run

    return run(sys.argv[1:])


def start() -> None:
    """Runs the command and ends the process, without the tidying that the system does anyway and faster."""
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    if "threading" in sys.modules:  # somebody may have work to finish
        sys.exit(code)
    os._exit(code)


if __name__ == "__main__":
    start()
