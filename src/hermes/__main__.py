"""The `hermes` command: answers `--version` before anything is imported, hands the rest to `hermes.cli`."""

from __future__ import annotations

import gc
import os
import sys


def main() -> int:
    if sys.argv[1:] in (["--version"], ["-V"]):
        from hermes.vocabulary.version import __version__

        print(f"hermes {__version__}")
        return 0
    gc.disable()  # nothing that loading makes can be thrown away; the command switches it on again
    from hermes.cli.app import run

    return run(sys.argv[1:])


def start() -> None:
    """Runs the command and ends the process, without the tidying that the system does anyway and faster."""
    if None in (sys.stdin, sys.stdout, sys.stderr):
        _open_the_closed()
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    if "threading" in sys.modules:  # somebody may have work to finish
        sys.exit(code)
    os._exit(code)


def _open_the_closed() -> None:
    """Standard streams that whoever started us closed: the first file we open would take the place of one."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free, which is this one
            setattr(sys, name, open(number, mode, encoding="utf-8"))  # noqa: SIM115 - for as long as the process lives


if __name__ == "__main__":
    start()
