"""Reads a command's arguments without loading argparse when they are right, and with it when they are not.

argparse costs half of what starting Python does. `Recorder` takes the same `add_argument` calls; if the words fit them
in the plainest way, the answer is ready. Anything else (help, a mistake, an abbreviation) is for argparse to judge.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import SimpleNamespace
    from typing import Any
else:
    SimpleNamespace = type(sys.implementation)  # as `types` has it, without loading that


def parse(configure: Callable[[Any], None], words: list[str], *, name: str, description: str, width: int) -> Any:
    """The arguments as a namespace; a `SettingsError` says what is wrong with them, `--help` ends the program."""
    recorder = Recorder()
    configure(recorder)
    given = recorder.parse(words)
    if given is not None:
        return given
    from hermes.cli.parser import Parser

    parser = Parser(name, description, width)
    configure(parser)
    return parser.parse_args(words)


def wrong_argument(message: str) -> ValueError:
    """What a conversion raises so that argparse says `message`, and the quick reading leaves it to argparse."""
    import argparse

    class WrongArgument(argparse.ArgumentTypeError, ValueError):
        pass

    return WrongArgument(message)


class Recorder:
    def __init__(self) -> None:
        self._options: dict[str, tuple[str, dict[str, Any]]] = {}
        self._positionals: list[tuple[str, dict[str, Any]]] = []

    def add_argument(self, *names: str, **spec: Any) -> None:
        if not names[0].startswith("-"):
            self._positionals.append((names[0], spec))
            return
        long = next((name for name in names if name.startswith("--")), names[0])
        field = spec.get("dest") or long.lstrip("-").replace("-", "_")
        self._options |= dict.fromkeys(names, (field, spec))

    def parse(self, words: list[str]) -> SimpleNamespace | None:
        """The namespace argparse would give, or None when it should look itself."""
        given = {field: _default(spec) for field, spec in (*self._options.values(), *self._positionals)}
        loose: list[str] = []
        interrupted = False
        left = iter(words)
        try:
            for word in left:
                if not word.startswith("-") or word == "-":
                    if interrupted:
                        return None  # argparse has rules of its own for options between positionals
                    loose.append(word)
                    continue
                interrupted = bool(loose)
                name, equals, text = word.partition("=")
                field, spec = self._options[name]
                if spec.get("action") == "store_true":
                    given[field] = _only_without(equals)
                else:
                    given[field] = _converted(spec, text if equals else _value(next(left)))
            self._place(loose, given)
        except (LookupError, ValueError, StopIteration):
            return None
        return SimpleNamespace(**given)

    def _place(self, loose: list[str], given: dict[str, Any]) -> None:
        for field, spec in self._positionals:
            count = spec.get("nargs")
            if count not in (None, "?", "*", "+") or (count == "+" and not loose):
                raise ValueError
            if count in ("*", "+"):
                given[field], loose = [_converted(spec, word) for word in loose], []
            elif loose or count is None:
                given[field], loose = _converted(spec, loose[0]), loose[1:]
        if loose:
            raise ValueError


def _default(spec: dict[str, Any]) -> Any:
    return spec.get("default", False if spec.get("action") == "store_true" else None)


def _only_without(equals: str) -> bool:
    if equals:
        raise ValueError
    return True


def _value(word: str) -> str:
    if word.startswith("-") and word != "-":
        raise ValueError
    return word


def _converted(spec: dict[str, Any], word: str) -> Any:
    if "action" in spec:
        raise ValueError
    value = spec.get("type", str)(word)
    if "choices" in spec and value not in spec["choices"]:
        raise ValueError
    return value
