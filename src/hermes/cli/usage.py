"""argparse as the commands use it: what is wrong with the words is one error, with the nearest option by its side."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hermes.settings.check import nearest
from hermes.vocabulary.errors import SettingsError

if TYPE_CHECKING:
    from typing import Any, NoReturn


class Parser(argparse.ArgumentParser):
    def __init__(self, name: str, description: str, width: int) -> None:
        """`name` is what a person types: `hermes memory add`, or `/memory add` in the chat."""
        super().__init__(
            prog=name,
            description=description,
            formatter_class=lambda prog: argparse.HelpFormatter(prog, width=width),
        )

    def parse_args(self, words: Any = None, namespace: Any = None) -> Any:
        given, unknown = self.parse_known_args(words, namespace)
        if unknown:
            mistyped = next((word.partition("=")[0] for word in unknown if word.startswith("--")), "")
            if mistyped:
                self.error(f"there is no option {mistyped}{nearest(mistyped, self._option_string_actions)}")
            from shlex import quote

            said = " ".join(unknown)
            asks = "--query" in self._option_string_actions
            hint = f"to ask it: hermes -q {quote(said)}" if asks else "a text of several words stands in quotes"
            self.error(f"too many words: {said} ({hint})")
        return given

    def error(self, message: str) -> NoReturn:
        raise SettingsError(f"{message} (`{self.prog} --help`)\n{self.format_usage().rstrip()}")
