"""Asks a person in plain lines; for commands that also work without one."""

from __future__ import annotations

import sys

from hermes.cli.render import print_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


_LOOK_EVERY = 0.1  # seconds


def read_line(prompt: str) -> str:
    """A line that a person types; Ctrl-C ends it whenever it is pressed.

    `input` misses one that comes when the prompt stands there and it does not yet wait for a key.
    """
    import select

    print(prompt, end="", flush=True)
    while not select.select([sys.stdin], [], [], _LOOK_EVERY)[0]:
        continue  # what was pressed meanwhile is noticed here
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.rstrip("\n")


def confirmed(question: str) -> bool:
    """Whether a person says yes; where nobody sits at a terminal, nobody does."""
    return sys.stdin.isatty() and said_yes(question)


def said_yes(question: str) -> bool:
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:  # Ctrl-D
        print_text("")
        return False


def ask(question: str, suggested: str = "") -> str:
    said = input(f"{question}{f' [{suggested}]' if suggested else ''}: ").strip()
    return said or suggested


def ask_secret(question: str, *, kept: bool) -> str:
    """What is typed is not shown; Enter keeps what there is."""
    from getpass import getpass

    return getpass(f"{question} (not shown{'; Enter keeps the one there is' if kept else ''}): ").strip()


def choose(question: str, rows: Sequence[str], suggested: int = 0) -> int:
    """The place of the chosen row."""
    for number, row in enumerate(rows, start=1):
        print_text(f"  {number}  {row}")
    while True:
        said = ask(question, str(suggested + 1))
        if said.isdecimal() and 1 <= int(said) <= len(rows):
            return int(said) - 1
        if said in rows:
            return list(rows).index(said)
        print_text(f"a number from 1 to {len(rows)}, please")
