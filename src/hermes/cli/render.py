"""How commands print: plain lines for people, one JSON document for scripts."""

from __future__ import annotations

import sys

from hermes.vocabulary.times import in_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from typing import Any, TextIO, TypeVar

    Thing = TypeVar("Thing")

# What would move the cursor, change colours or answer questions when it reaches a terminal. Bold, which our own lines
# use for found words, is let through: it can do no harm.
_CONTROL = "(?!\x1b\\[[01]m)[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]"


def has_styles(stream: TextIO) -> bool:
    """Whether bold, colours and lines that change may be written: on a terminal, unless NO_COLOR or TERM=dumb."""
    import os

    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def add_json_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of text")


def print_json(document: Any) -> None:
    import json

    print_text(json.dumps(document, ensure_ascii=False, indent=2))


def print_text(text: str) -> None:
    """Prints whatever the terminal can show; a character it cannot show becomes an escape, never an error."""
    encoding = sys.stdout.encoding or "utf-8"
    print(visible(text).encode(encoding, "backslashreplace").decode(encoding))


def print_problem(text: object) -> None:
    """A line on standard error, which may name files and quote texts that others wrote."""
    print(f"hermes: {visible(str(text))}", file=sys.stderr)


def print_failure(error: Exception, code: int, *, as_json: bool) -> None:
    """Why a command failed, on standard error: a line for people, a JSON object in one line for scripts."""
    if not as_json:
        print_problem(error)
        return
    import json

    print(json.dumps({"error": str(error), "kind": type(error).__name__, "exit_code": code}), file=sys.stderr)


def visible(text: str) -> str:
    """The text with control characters as escapes, those of JSON, so that it cannot act on the terminal."""
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text  # nearly always, and then a short command need not compile the expression
    import re

    return re.sub(_CONTROL, lambda found: f"\\u{ord(found[0]):04x}", text.replace("\r\n", "\n"))


def print_all(
    given: argparse.Namespace, things: list[Thing], as_json: Callable[[Thing], Any], in_words: Callable[[Thing], str]
) -> None:
    """One JSON list for scripts, or a line for each."""
    if given.json:
        print_json([as_json(each) for each in things])
    else:
        for each in things:
            print_text(in_words(each))


def when(moment: float) -> str:
    return in_words(moment, "%Y-%m-%d %H:%M:%S")


def indented(text: str, prefix: str) -> str:
    """The text with `prefix` before its first line and the following lines aligned with it."""
    return prefix + text.replace("\n", "\n" + " " * len(prefix))
