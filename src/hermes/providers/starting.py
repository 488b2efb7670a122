"""Loads the providers that the settings name, in this process or each in its own."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hermes.base.errors import HermesError, ProviderError
from hermes.providers.base import SeparateProcess
from hermes.providers.discovery import find_provider, load_provider
from hermes.providers.manager import inside_a_provider

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hermes.settings.config import Settings
    from hermes.settings.home import Home


class StartingProviders:
    """Providers that are being loaded: their processes start while the caller does something else."""

    def __init__(self, home: Home, settings: Settings, names: Sequence[str]) -> None:
        self._names = names
        self._begun: dict[str, Any] = {}
        self._problems: list[HermesError] = []
        if names and inside_a_provider():
            why = "a memory provider cannot use memory providers itself"
            self._problems.append(ProviderError(why, kind="absent"))
            return
        apart = {name: _runs_apart(home, settings, name) for name in names}
        for name in sorted(names, key=lambda name: not apart[name]):
            try:
                begin = _in_a_process if apart[name] else _in_this_program
                self._begun[name] = begin(home, settings, name)
            except HermesError as error:
                self._problems.append(error)

    def finish(self) -> tuple[list[Any], list[HermesError]]:
        """Waits; returns the providers that have loaded, in order, and the errors of the others."""
        for name, provider in list(self._begun.items()):
            if isinstance(provider, SeparateProcess):
                try:
                    provider.wait_until_loaded()
                except HermesError as error:
                    self._problems.append(error)
                    del self._begun[name]
        return [self._begun[name] for name in self._names if name in self._begun], self._problems


def open_provider(home: Home, settings: Settings, name: str) -> Any:
    """Loads one provider; raises an error that says why it does not load."""
    opened, problems = StartingProviders(home, settings, [name]).finish()
    if problems:
        raise problems[0]
    return opened[0]


@contextmanager
def in_passing(provider: Any) -> Iterator[Any]:
    """A provider for a few calls; if it has its own process, that ends afterwards."""
    try:
        yield provider
    finally:
        if isinstance(provider, SeparateProcess):
            provider.end_process()


def _runs_apart(home: Home, settings: Settings, name: str) -> bool:
    wanted = settings.text("memory.provider_process")
    if wanted != "plugins":
        return wanted == "all"
    try:
        return not find_provider(name, home.operator).bundled
    except HermesError:
        return False  # loading will say what is wrong


def _in_this_program(home: Home, settings: Settings, name: str) -> Any:
    del settings
    return load_provider(name, home.operator)


def _in_a_process(home: Home, settings: Settings, name: str) -> Any:
    from hermes.providers.hosting import (
        in_a_process,
    )  # imported only here, because it loads sockets, subprocess and threads

    return in_a_process(home, settings, name)
