"""The `hermes` command: answers `--version` before anything is imported, hands the rest to `hermes.cli`."""

from __future__ import annotations

import sys


def main() -> int:
    if sys.argv[1:] == ["--version"]:
        from hermes.vocabulary.version import __version__

        print(f"hermes {__version__}")
        return 0
    from hermes.cli.app import run

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
