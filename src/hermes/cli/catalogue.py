"""Reads commands.txt: every command with its module and its help, and the commands people guess.

A module has `COMMANDS`: for each of its commands a function that adds its options to a parser, and one that runs it.
"""

from __future__ import annotations

import os

_TOP, _ANY, _GROUP, _NO_MODULE = "hermes", "*", "*", "-"
DEFAULTS = {"mcp": "serve"}  # what a group does when no command is named


def _read(path: str) -> tuple[dict[str, dict[str, dict[str, tuple[str, str]]]], dict[str, dict[str, str]]]:
    """By group: the sections with their commands, and the words people guess."""
    sections: dict[str, dict[str, dict[str, tuple[str, str]]]] = {}
    guesses: dict[str, dict[str, str]] = {}
    group = title = ""
    with open(path, encoding="utf-8") as file:
        for line in filter(None, map(str.strip, file)):
            sign, _, rest = line.partition(" ")
            if sign == "==":
                group = rest
                sections[group], guesses[group] = {}, {}
            elif sign == "--":
                title = rest
                sections[group][title] = {}
            elif sign == "?":
                words, _, meant = rest.partition(": ")
                guesses[group][words] = meant
            elif sign != "#":
                name, module, text = (each.strip() for each in line.split("  ") if each)
                sections[group][title][name] = module, text
    return sections, guesses


_SECTIONS, GUESSED = _read(os.path.join(os.path.dirname(__file__), "commands.txt"))
VERBS = GUESSED.pop(_ANY)
GUESSED[""] = GUESSED.pop(_TOP)
del _SECTIONS[_ANY]
_COMMANDS = {
    group: {name: row for rows in sections.values() for name, row in rows.items()}
    for group, sections in _SECTIONS.items()
}
GROUPS = {name: (text, _COMMANDS[name]) for name, (module, text) in _COMMANDS[_TOP].items() if module == _GROUP}
SINGLES = {name: row for name, row in _COMMANDS[_TOP].items() if row[0] not in (_GROUP, _NO_MODULE)}


def top_help(version: str) -> str:
    return (
        f"hermes {version}: memory and context for language-model agents\n\n"
        "usage: hermes [--home DIR] [--profile NAME] [--user NAME] COMMAND …\n"
        "       hermes [-q TEXT] [--continue] [--model NAME]      talk to a model (`hermes chat --help`)\n\n"
        f"{_sections(_TOP)}\n\n"
        "options:\n"
        "  --home DIR      where everything is kept (default: $HERMES_HOME, else ~/.hermes)\n"
        "  --profile NAME  which profile of the home (default: the chosen one)\n"
        "  --user NAME     whose home below it (`hermes users list`; default: your own)\n"
        "  -V, --version   print the version\n\n"
        "`hermes COMMAND --help` describes each."
    )


def group_help(group: str, before: str = "hermes ") -> str:
    summary = GROUPS[group][0]
    return (
        f"usage: {before}{group} COMMAND …\n\n{summary[0].upper()}{summary[1:]}.\n\n{_sections(group)}\n\n"
        f"`{before}{group} COMMAND --help` describes each."
    )


def _sections(group: str) -> str:
    width = max(map(len, _COMMANDS[group]))
    return "\n\n".join(
        "\n".join([f"{title}:", *(f"  {name:<{width}}  {text}" for name, (_, text) in rows.items())])
        for title, rows in _SECTIONS[group].items()
    )
