"""What a program that runs for long writes to standard error, for whoever operates it."""

from __future__ import annotations

import logging

# The lines of the first two hold addresses, and Telegram's hold the token; the third has one for every request.
_QUIET = ("httpx", "httpcore", "mcp")


def log_with_times() -> None:
    """Each line with its time, level and source."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
