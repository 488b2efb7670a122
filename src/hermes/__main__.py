"""The `hermes` command: answers `--version` before anything is imported, hands the rest to `hermes.cli`."""

from __future__ import annotations

import errno
import gc
import os
import sys

_NOT_WRITTEN = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EPIPE)


def main() -> int:
    if sys.argv[1:] in (["--version"], ["-V"]):
        from hermes.base.version import __version__

        print(f"hermes {__version__}")
        return 0
    gc.disable()  # nothing that loading makes can be thrown away; the command switches it on again
    from hermes.cli.app import run

    return run(sys.argv[1:])


def start() -> None:
    """Runs the command and ends the process, without the tidying that the system does anyway and faster."""
    if None in (sys.stdin, sys.stdout, sys.stderr):
        _open_the_closed()
    try:
        code = main()
        sys.stdout.flush()
    except OSError as error:
        code = _without_output(error)
    sys.stderr.flush()
    if "threading" in sys.modules:  # somebody may have work to finish
        sys.exit(code)
    os._exit(code)


def _without_output(error: OSError) -> int:
    """What a command ends with whose answer cannot be written; whatever else is wrong with a disk has its own error."""
    if error.filename is not None or error.errno not in _NOT_WRITTEN:
        raise error
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left of it goes nowhere
    if error.errno != errno.EPIPE:  # the reader, such as `head`, has seen enough
        print(f"hermes: the answer cannot be written to standard output: {error.strerror}", file=sys.stderr)
    return int(error.errno != errno.EPIPE)


def _open_the_closed() -> None:
    """Standard streams that whoever started us closed: the first file we open would take the place of one."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free, which is this one
            setattr(sys, name, open(number, mode, encoding="utf-8"))  # noqa: SIM115 - for as long as the process lives


if __name__ == "__main__":
    start()
