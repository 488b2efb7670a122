"""Reads commands.txt: every command with its module, help and arguments, and the words people guess instead.

Reading the table takes 0.4 ms; only the requested command gets a parser.
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

import hermes
from hermes.base.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Callable

_TOP, _ANY, _GROUP, _NO_MODULE = "hermes", "*", "*", "-"
CHECKOUT = "benchmarks"  # the module of commands that need a checkout of the source code
_WITHOUT_JSON = "without --json"
DEFAULTS = {"mcp": "serve"}  # the command of a group that runs when none is named

_sections: dict[str, dict[str, dict[str, tuple[str, str]]]] = {}  # of each group, with their commands
_arguments: dict[str, list[str]] = {}  # of each command, as written in the file
GUESSED: dict[str, dict[str, str]] = {}  # by group: the words people type instead, and what they mean


def _read(path: str) -> None:
    """Reads the tables of a file; the head of commands.txt explains its format."""
    group = title = ""
    arguments: list[str] = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            sign, _, rest = line.rstrip().partition(" ")
            if line[0] == " ":
                arguments.append(line)
            elif sign == "==":
                group = "" if rest == _TOP else rest
                _sections[group], GUESSED[group] = {}, {}
            elif sign == "--":
                title = rest
                _sections[group][title] = {}
            elif sign == "?":
                words, _, meant = rest.partition(": ")
                GUESSED[group][words] = meant
            elif sign not in ("", "#"):
                name, module, text = (each.strip() for each in line.split("  ") if each)
                _sections[group][title][name] = module, text
                arguments = _arguments[f"{group} {name}".strip()] = []


_read(os.path.join(os.path.dirname(__file__), "commands.txt"))
VERBS = GUESSED.pop(_ANY)  # words that mean the same command in every group
del _sections[_ANY]
_COMMANDS = {
    group: {name: row for rows in sections.values() for name, row in rows.items()}
    for group, sections in _sections.items()
}
GROUPS = {name: (text, _COMMANDS[name]) for name, (module, text) in _COMMANDS[""].items() if module == _GROUP}
SINGLES = {name: row for name, row in _COMMANDS[""].items() if row[0] not in (_GROUP, _NO_MODULE)}


def add_arguments(name: str, module: str, parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of a command, as commands.txt describes them, to a parser."""
    if module == CHECKOUT:
        checkout().COMMANDS[name.partition(" ")[2]][0](parser)
        return
    lines = [line.strip() for line in _arguments[name]]
    for line in lines:
        if line != _WITHOUT_JSON:
            _add_argument(parser, line)
    if _WITHOUT_JSON not in lines:
        add_json_option(parser)


def checkout() -> Any:
    """Imports the benchmarks next to the source code; an installed package has none and gets `NotFound`."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(hermes.__file__ or ""))))
    if not os.path.isfile(os.path.join(root, "benchmarks", "command.py")):
        raise NotFound(
            "this benchmark runs from a checkout: clone the project and run `bin/hermes bench` there; "
            "`hermes bench recall` and `bench self` on your own conversations work everywhere"
        )
    if root not in sys.path:
        sys.path.append(root)
    from benchmarks import command

    return command


def add_json_option(parser: argparse.ArgumentParser) -> None:
    """Adds `--json`, which every command has unless commands.txt says otherwise."""
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of text")


def _add_argument(parser: argparse.ArgumentParser, line: str) -> None:
    """Adds an argument from its line, such as `--limit N (from 1, default 10)  most results`."""
    typed, _, text = line.partition("  ")
    typed, _, details = typed.removesuffix(")").partition(" (")
    words = typed.split()
    names = [word for word in words if word[0] == "-"] or words[:1]
    value = " ".join(words[len(names) :])
    spec: dict[str, Any] = {"help": text.strip()}
    if value and value[-1] in "?*+":
        value, spec["nargs"] = value[:-1], value[-1]
    value, brace, choices = value.partition("{")
    if brace:
        spec["choices"] = _choices(choices.removesuffix("}"))
    if value:
        spec["metavar"] = value.strip()
    elif not brace:
        spec["action"] = "store_true"
    for detail in filter(None, details.split(", ")):
        kind, _, given = detail.partition(" ")
        spec |= _DETAILS[kind](given)
    parser.add_argument(*names, **spec)


def _choices(listed: str) -> list[str]:
    module, colon, name = listed.partition(":")
    return list(getattr(import_module(module), name)) if colon else listed.split(",")


def _whole_number(low: str) -> Callable[[str], int]:
    """An argparse type: a whole number from `low` up."""

    def read(text: str) -> int:
        if not text.strip().lstrip("-").isdigit() or int(text) < int(low):
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {low} up")
        return int(text)

    return read


_DETAILS: dict[str, Callable[[str], dict[str, Any]]] = {
    "from": lambda low: {"type": _whole_number(low)},
    "float": lambda _: {"type": float},
    "default": lambda given: {"default": given.strip('"')},
    "as": lambda name: {"dest": name},
    "alone": lambda given: {"const": int(given)},
    "repeatable": lambda _: {"action": "append"},
}


def top_help(version: str) -> str:
    """Writes the text of `hermes --help`."""
    return (
        f"hermes {version}: memory and context for language-model agents\n\n"
        "usage: hermes [--home DIR] [--profile NAME] [--user NAME] COMMAND …\n"
        "       hermes [-q TEXT] [--continue] [--model NAME]      talk to a model (`hermes chat --help`)\n\n"
        f"{_listed('')}\n\n"
        "options:\n"
        "  --home DIR      where everything is kept (default: $HERMES_HOME, else ~/.hermes)\n"
        "  --profile NAME  the profile to use (default: the chosen one)\n"
        "  --user NAME     the person whose home to use (`hermes users list`; default: your own)\n"
        "  -V, --version   print the version\n\n"
        "`hermes COMMAND --help` describes a command."
    )


def group_help(group: str, before: str = "hermes ") -> str:
    """Writes the help of a group of commands; `before` is what comes before a command, `/` in the chat."""
    summary = GROUPS[group][0]
    return (
        f"usage: {before}{group} COMMAND …\n\n{summary[0].upper()}{summary[1:]}.\n\n{_listed(group)}\n\n"
        f"`{before}{group} COMMAND --help` describes a command."
    )


def _listed(group: str) -> str:
    width = max(map(len, _COMMANDS[group]))
    return "\n\n".join(
        "\n".join([f"{title}:", *(f"  {name:<{width}}  {text}" for name, (_, text) in rows.items())])
        for title, rows in _sections[group].items()
    )
