"""Finds the command a person typed, loads only its module, parses its arguments and runs it."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from importlib import import_module
from shlex import quote
from typing import TYPE_CHECKING, Any, NoReturn

from hermes.base.errors import HermesError, SettingsError
from hermes.base.version import __version__
from hermes.cli import ui
from hermes.cli.catalogue import (
    CHECKOUT,
    DEFAULTS,
    GROUPS,
    GUESSED,
    SINGLES,
    VERBS,
    add_arguments,
    checkout,
    group_help,
    top_help,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_INTERRUPTED = 130  # as shells report Ctrl-C: 128 and the number of SIGINT
_PROGRAM, _SLASH = "hermes ", "/"  # what comes before a command at a shell, and in the chat
_SENTENCE = 3  # with so many words after it, a guessed command looks like a question to the model
_GLOBAL_OPTIONS = ("--home", "--profile", "--user")


def run(arguments: list[str]) -> int:
    """Runs one command and returns its exit code: 0 done, 1 refused or not found, 2 usage or settings."""
    chosen, words = _take_global_options(arguments)
    context = ui.Context(chosen.get("--home"), chosen.get("--profile"), chosen.get("--user"), _run_in_chat)
    try:
        if words[-1:] and words[-1] in _GLOBAL_OPTIONS and "--" not in words:
            raise SettingsError(f"{words[-1]} needs a value (`hermes --help`)")
        command = _find_command(words, _PROGRAM)
        gc.enable()  # __main__ switched it off while modules load
        code = command(context)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as `head`, stopped reading; Python would complain again when it exits
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ui.OK
    except KeyboardInterrupt:
        return _INTERRUPTED
    except OSError as error:
        if error.filename is None:  # standard output: __main__ handles it
            raise
        from hermes.storage.files import explain  # a refusal by the system that no lower layer explained

        code = ui.REFUSED
        ui.failure(explain("use", str(error.filename), error), code, as_json="--json" in words)
    except HermesError as error:
        code = ui.USAGE if isinstance(error, SettingsError) else ui.REFUSED
        before_dashes = words[: words.index("--") if "--" in words else None]
        ui.failure(error, code, as_json="--json" in before_dashes)
    return code


def _take_global_options(arguments: list[str]) -> tuple[dict[str, str], list[str]]:
    """Takes `--home`, `--profile` and `--user` out of the arguments, wherever they are; returns them and the rest."""
    chosen: dict[str, str] = {}
    rest: list[str] = []
    words = iter(arguments)
    for word in words:
        name, separator, given = word.partition("=")
        if word == "--":
            rest += [word, *words]
        elif name not in _GLOBAL_OPTIONS:
            rest.append(word)
        elif separator:
            chosen[name] = given
        elif (following := next(words, None)) is not None:
            chosen[name] = following
        else:
            rest.append(word)  # without a value; `run` reports it
    return chosen, rest


def _run_in_chat(words: list[str], context: ui.Context) -> int:
    """Runs a command that was typed in the chat, on the chat's home; the chat shows its errors."""
    return _find_command(words, _SLASH)(context)


def _find_command(words: list[str], before: str) -> Callable[[ui.Context], int]:
    """Resolves words to a command with parsed arguments; `--help` and `--version` are commands too."""
    if words[:1] in (["-h"], ["--help"]):
        return lambda _: _say(top_help(__version__))
    if words[:1] == ["help"]:
        return _find_command([*words[1:], "--help"], before)
    if words in (["--version"], ["-V"], ["version"]):
        return lambda _: _say(f"hermes {__version__}")
    if not words or words[0].startswith("-"):
        return _parsed("chat", *SINGLES["chat"], words, before)
    name, rest = words[0], words[1:]
    if name in SINGLES:
        return _parsed(name, *SINGLES[name], rest, before)
    if name not in GROUPS:
        return lambda context: _run_for_provider(name, rest, context)
    return _find_in_group(name, rest, before)


def _find_in_group(name: str, rest: list[str], before: str) -> Callable[[ui.Context], int]:
    """Resolves the words after a group: its help, its default command, or a command by name."""
    commands = GROUPS[name][1]
    if name in DEFAULTS and (not rest or (rest[0].startswith("-") and rest[0] not in ("-h", "--help"))):
        rest = [DEFAULTS[name], *rest]
    if rest[:1] == ["help"]:
        rest = [*rest[1:], "--help"]
    if not rest or rest[0] in ("-h", "--help"):
        return lambda _: _say(group_help(name, before), ui.OK if rest else ui.USAGE)
    if rest[0] not in commands:
        hint, _ = _hint(rest, commands, group=name, before=before)
        raise SettingsError(f"there is no command {name} {rest[0]!r}{hint} (`{before}{name} --help`)")
    return _parsed(f"{name} {rest[0]}", *commands[rest[0]], rest[1:], before)


def _parsed(name: str, module: str, summary: str, words: list[str], before: str) -> Callable[[ui.Context], int]:
    """Parses the arguments of a command and finds its function, which has the name of the command."""
    parser = _Parser(
        prog=f"{before}{name}", description=f"{summary[0].upper()}{summary[1:]}.", formatter_class=_formatter
    )
    add_arguments(name, module, parser)
    given = parser.parse_args(words)
    if module == CHECKOUT:
        run = checkout().COMMANDS[name.partition(" ")[2]][1]
    else:
        function = name.replace(" ", "_") if " " in name else f"run_{name}"
        run = getattr(import_module(f"hermes.cli.{module}"), function)
    return lambda context: run(given, context) or ui.OK


def _run_for_provider(name: str, rest: list[str], context: ui.Context) -> int:
    """Runs a command that the memory provider in use brings; for any other word, an error with a hint."""
    try:
        settings = context.settings
        in_use = name in (settings.text("memory.provider"), *settings.texts("memory.providers"))
    except HermesError:
        in_use = False
    if in_use:
        from hermes.cli.commands.plugins import run_provider_command

        return run_provider_command(name, rest, context)
    hint, guessed = _hint([name, *rest], [*GROUPS, *SINGLES])
    is_sentence = guessed and len(rest) >= _SENTENCE and "hermes -q" not in hint
    said, question = " ".join([name, *rest]), ""
    if (not hint or is_sentence) and " " in said and not any(word.startswith("-") for word in rest):
        question = f"; to ask it: hermes -q {quote(said)}"
    raise SettingsError(f"there is no command {name!r}{hint} (`hermes --help`){question}")


def _hint(words: list[str], known: Iterable[str], *, group: str = "", before: str = _PROGRAM) -> tuple[str, bool]:
    """A hint such as "; try `hermes setup`" or "; did you mean list?", and whether it is from commands.txt."""
    from hermes.settings.schema import nearest

    word, rest = words[0].lower(), words[1:]
    if found := _row(GUESSED.get(group, {}), word):
        if "`" in found:
            return f"; {found}", True
        start, _, last = found.rpartition(" ")
        if last.isupper() and rest:  # what was typed replaces the placeholder
            found = f"{start} {quote(' '.join(rest)) if start == '-q' else ' '.join(map(quote, rest))}"
        return f"; try `{before if group and found.startswith(f'{group} ') else _PROGRAM}{found}`", True
    if group and (meant := next((each for each in _row(VERBS, word).split() if each in known), "")):
        return f"; try `{before}{' '.join([group, meant, *map(quote, rest)])}`", True
    return nearest(words[0], known), False


def _row(table: dict[str, str], word: str) -> str:
    return next((found for guesses, found in table.items() if word in guesses.split()), "")


def _say(text: str, code: int = ui.OK) -> int:
    print(text)
    return code


def _formatter(prog: str) -> argparse.HelpFormatter:
    """Makes argparse's formatter with a width: without one, argparse would load shutil for every option."""
    try:
        width = int(os.environ.get("COLUMNS") or os.get_terminal_size().columns)
    except (OSError, ValueError):
        width = 80
    return argparse.HelpFormatter(prog, width=width)


class _Parser(argparse.ArgumentParser):
    """An argparse parser that raises SettingsError for wrong words, with the nearest option, instead of exiting."""

    def parse_args(self, words: Any = None, namespace: Any = None) -> Any:
        given, unknown = self.parse_known_args(words, namespace)
        if unknown:
            self._refuse(unknown)
        return given

    def _refuse(self, unknown: list[str]) -> NoReturn:
        from hermes.settings.schema import nearest

        options = (word.partition("=")[0] for word in unknown if word.startswith("-") and word.strip("-"))
        if mistyped := next(options, ""):
            # Compared without their dashes, which all options share: "--when" is not near "--help".
            known = (each[2:] for each in self._option_string_actions if each.startswith("--"))
            hint = nearest(mistyped.strip("-"), known).replace("mean ", "mean --")
            self.error(f"there is no option {mistyped}{hint}")
        said = " ".join(unknown)
        asks = "--query" in self._option_string_actions
        hint = f"to ask it: hermes -q {quote(said)}" if asks else "put a text of several words in quotes"
        self.error(f"too many words: {said} ({hint})")

    def error(self, message: str) -> NoReturn:
        raise SettingsError(f"{message} (`{self.prog} --help`)\n{self.format_usage().rstrip()}")
