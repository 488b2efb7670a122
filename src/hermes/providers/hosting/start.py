"""The program that a provider's process runs: `python -P start.py ROOT CALLS DELIVERIES LIFE`.

ROOT is where our package lies, the rest are descriptors. It is run as a file, so that the folder a person happens to be
in is never looked through for modules.
"""

from __future__ import annotations

import sys


def main() -> None:
    root, *descriptors = sys.argv[1:]
    sys.path.insert(0, root)
    from hermes.providers.hosting.worker import work

    work(*map(int, descriptors))


if __name__ == "__main__":
    main()
