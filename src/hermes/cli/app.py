"""Finds the command that was asked for and loads only that."""

from __future__ import annotations

import gc
import os
import sys

from hermes.cli.arguments import parse
from hermes.cli.catalogue import DEFAULTS, GROUPS, SINGLES, group_help, top_help
from hermes.cli.context import OK, REFUSED, USAGE, Context
from hermes.vocabulary.errors import HermesError, SettingsError
from hermes.vocabulary.version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_INTERRUPTED = 130
_OF_ALL = ("--home", "--profile", "--user")


def run(arguments: list[str]) -> int:
    """Runs one command and returns its exit code: 0 done, 1 refused or not found, 2 usage or settings."""
    chosen, words = _take_options(arguments)
    if words[-1:] and words[-1] in _OF_ALL and "--" not in words:
        from hermes.cli.render import print_problem

        print_problem(f"{words[-1]} needs a value (`hermes --help`)")
        return USAGE
    return run_words(words, Context(chosen.get("--home"), chosen.get("--profile"), chosen.get("--user"), run_words))


def run_words(words: list[str], context: Context) -> int:
    """Runs one command on a home that is known already, as the chat does."""
    try:
        command = _find_command(words)
        gc.enable()
        code = command(context)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except KeyboardInterrupt:
        return _INTERRUPTED
    except HermesError as error:
        from hermes.cli.render import print_problem

        print_problem(error)
        return USAGE if isinstance(error, SettingsError) else REFUSED
    return code


def _find_command(words: list[str]) -> Callable[[Context], int]:
    """What the words ask for, with its options parsed; help texts are commands too."""
    if words[:1] in (["-h"], ["--help"]):
        return lambda _: _say(top_help(__version__))
    if words[:1] == ["help"]:
        return _find_command([*words[1:], "--help"])
    if words in (["--version"], ["version"]):
        return lambda _: _say(f"hermes {__version__}")
    if not words or words[0].startswith("-"):
        return _parsed("chat", *SINGLES["chat"], words)
    name, rest = words[0], words[1:]
    if name in SINGLES:
        return _parsed(name, *SINGLES[name], rest)
    if name not in GROUPS:
        return lambda context: _of_a_provider(name, rest, context)
    commands = GROUPS[name][1]
    if name in DEFAULTS and (not rest or (rest[0].startswith("-") and rest[0] not in ("-h", "--help"))):
        rest = [DEFAULTS[name], *rest]
    if not rest or rest[0] in ("-h", "--help"):
        return lambda _: _say(group_help(name), OK if rest else USAGE)
    if rest[0] not in commands:
        hint = _nearest(rest[0], list(commands))
        raise SettingsError(f"there is no command {name} {rest[0]!r}{hint} (`hermes {name} --help`)")
    return _parsed(f"{name} {rest[0]}", *commands[rest[0]], rest[1:])


def _of_a_provider(name: str, rest: list[str], context: Context) -> int:
    """A word that is no command of ours may be one of the memory provider in use."""
    try:
        settings = context.settings
        in_use = name in (settings.text("memory.provider"), *settings.texts("memory.providers"))
    except HermesError:
        in_use = False
    if not in_use:
        hint = _nearest(name, [*GROUPS, *SINGLES])
        raise SettingsError(f"there is no command {name!r}{hint} (`hermes --help`)")
    return int(_loaded("provider_command").run_provider_command(name, rest, context))


def _nearest(word: str, words: list[str]) -> str:
    from hermes.settings.check import nearest

    return nearest(word, words)


def _parsed(full_name: str, module: str, summary: str, rest: list[str]) -> Callable[[Context], int]:
    configure, command = _loaded(module).COMMANDS[full_name.rsplit(" ", maxsplit=1)[-1]]
    description = f"{summary[0].upper()}{summary[1:]}."
    given = parse(configure, rest, name=f"hermes {full_name}", description=description, width=_columns())
    return lambda context: int(command(given, context))


def _loaded(module: str) -> Any:
    name = f"hermes.cli.{module}"
    __import__(name)  # importlib would cost a short command more than most modules do
    return sys.modules[name]


def _columns() -> int:
    try:
        return int(os.environ.get("COLUMNS") or os.get_terminal_size().columns)
    except (OSError, ValueError):
        return 80


def _say(text: str, code: int = OK) -> int:
    print(text)
    return code


def _take_options(arguments: list[str]) -> tuple[dict[str, str], list[str]]:
    """`--home`, `--profile` and `--user` with their values, wherever they stand, and the other arguments."""
    chosen: dict[str, str] = {}
    rest: list[str] = []
    words = iter(arguments)
    for word in words:
        name, separator, given = word.partition("=")
        if word == "--":
            rest += [word, *words]
        elif name not in _OF_ALL:
            rest.append(word)
        elif separator:
            chosen[name] = given
        elif (following := next(words, None)) is not None:
            chosen[name] = following
        else:
            rest.append(word)  # without a value: who runs it says what is missing
    return chosen, rest
