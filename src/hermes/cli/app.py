"""Finds the command that was asked for and loads only that."""

from __future__ import annotations

import gc
import os
import sys

from hermes.base.errors import HermesError, SettingsError
from hermes.base.version import __version__
from hermes.cli.arguments import parse
from hermes.cli.catalogue import DEFAULTS, GROUPS, SINGLES, group_help, top_help
from hermes.cli.output import OK, REFUSED, USAGE, Context

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_INTERRUPTED = 130
_PROGRAM, _SLASH = "hermes ", "/"  # what stands before a command at a shell, and in the chat
_SENTENCE = 3  # words after a guessed command that make it look like a question to the model
_OF_ALL = ("--home", "--profile", "--user")


def run(arguments: list[str]) -> int:
    """Runs one command and returns its exit code: 0 done, 1 refused or not found, 2 usage or settings."""
    chosen, words = _take_options(arguments)
    context = Context(chosen.get("--home"), chosen.get("--profile"), chosen.get("--user"), _run_in_chat)
    try:
        if words[-1:] and words[-1] in _OF_ALL and "--" not in words:
            raise SettingsError(f"{words[-1]} needs a value (`hermes --help`)")
        command = _find_command(words, _PROGRAM)
        gc.enable()
        code = command(context)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except KeyboardInterrupt:
        return _INTERRUPTED
    except HermesError as error:
        from hermes.cli.output import print_failure

        code = USAGE if isinstance(error, SettingsError) else REFUSED
        print_failure(error, code, as_json=_before_dashes(words, "--json"))
    return code


def _run_in_chat(words: list[str], context: Context) -> int:
    """Runs one command on a home that is known already; the chat shows its errors as its own."""
    return _find_command(words, _SLASH)(context)


def _find_command(words: list[str], before: str) -> Callable[[Context], int]:
    """What the words ask for, with its options parsed; help texts are commands too."""
    if words[:1] in (["-h"], ["--help"]):
        return lambda _: _say(top_help(__version__))
    if words[:1] == ["help"]:
        return _find_command([*words[1:], "--help"], before)
    if words in (["--version"], ["-V"], ["version"]):
        return lambda _: _say(f"hermes {__version__}")
    if not words or words[0].startswith("-"):
        return _parsed(f"{before}chat", *SINGLES["chat"], words)
    name, rest = words[0], words[1:]
    if name in SINGLES:
        return _parsed(f"{before}{name}", *SINGLES[name], rest)
    if name not in GROUPS:
        return lambda context: _of_a_provider(name, rest, context)
    return _in_group(name, rest, before)


def _in_group(name: str, rest: list[str], before: str) -> Callable[[Context], int]:
    commands = GROUPS[name][1]
    if name in DEFAULTS and (not rest or (rest[0].startswith("-") and rest[0] not in ("-h", "--help"))):
        rest = [DEFAULTS[name], *rest]
    if rest[:1] == ["help"]:
        rest = [*rest[1:], "--help"]
    if not rest or rest[0] in ("-h", "--help"):
        return lambda _: _say(group_help(name, before), OK if rest else USAGE)
    if rest[0] not in commands:
        hint, _ = _hint(rest, list(commands), group=name, before=before)
        raise SettingsError(f"there is no command {name} {rest[0]!r}{hint} (`{before}{name} --help`)")
    return _parsed(f"{before}{name} {rest[0]}", *commands[rest[0]], rest[1:])


def _of_a_provider(name: str, rest: list[str], context: Context) -> int:
    """A word that is no command of ours may be one of the memory provider in use."""
    try:
        settings = context.settings
        in_use = name in (settings.text("memory.provider"), *settings.texts("memory.providers"))
    except HermesError:
        in_use = False
    if not in_use:
        hint, guessed = _hint([name, *rest], [*GROUPS, *SINGLES])
        sentence = guessed and len(rest) >= _SENTENCE and "hermes -q" not in hint
        asked = _as_a_question([name, *rest]) if not hint or sentence else ""
        raise SettingsError(f"there is no command {name!r}{hint} (`hermes --help`){asked}")
    return int(_loaded("commands.plugins").run_provider_command(name, rest, context))


def _as_a_question(words: list[str]) -> str:
    """Whoever types a sentence wants to ask it."""
    said = " ".join(words)
    if " " not in said or any(word.startswith("-") for word in words):
        return ""
    import shlex

    return f"; to ask it: hermes -q {shlex.quote(said)}"


def _hint(words: list[str], known: list[str], **more: str) -> tuple[str, bool]:
    from hermes.cli.parser import command_hint

    return command_hint(words, known, **more)


def _parsed(full_name: str, module: str, summary: str, rest: list[str]) -> Callable[[Context], int]:
    configure, command = _loaded(module).COMMANDS[full_name.lstrip(_SLASH).rsplit(" ", maxsplit=1)[-1]]
    description = f"{summary[0].upper()}{summary[1:]}."
    given = parse(configure, rest, name=full_name, description=description, width=_columns())
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


def _before_dashes(words: list[str], option: str) -> bool:
    return option in words[: words.index("--") if "--" in words else None]


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
