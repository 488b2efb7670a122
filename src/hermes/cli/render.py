"""How commands print: plain lines for people, one JSON document for scripts."""

from __future__ import annotations

import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from typing import Any, TypeVar

    Thing = TypeVar("Thing")


def add_json_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of text")


def print_json(document: Any) -> None:
    import json

    print_text(json.dumps(document, ensure_ascii=False, indent=2))


def print_text(text: str) -> None:
    """Prints whatever the terminal can show; a character it cannot show becomes an escape, never an error."""
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding))


def print_all(
    given: argparse.Namespace, things: list[Thing], as_json: Callable[[Thing], Any], in_words: Callable[[Thing], str]
) -> None:
    """One JSON list for scripts, or a line for each."""
    if given.json:
        print_json([as_json(each) for each in things])
    else:
        for each in things:
            print_text(in_words(each))


def counted(number: int, one: str, many: str = "") -> str:
    """`1 entry`, `2 entries`; without `many`, an s is added."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def when(moment: float) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment))
    except (ValueError, OverflowError, OSError):
        return "unknown time"


def indented(text: str, prefix: str) -> str:
    """The text with `prefix` before its first line and the following lines aligned with it."""
    return prefix + text.replace("\n", "\n" + " " * len(prefix))
