"""Commands that a memory provider brings itself: `hermes NAME …`, for the active provider only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes.cli.context import OK
from hermes.providers.calling import running_for
from hermes.providers.discovery import load_commands
from hermes.session.external import chosen_providers
from hermes.vocabulary.errors import SettingsError

if TYPE_CHECKING:
    from hermes.cli.context import Context


def is_active(name: str, context: Context) -> bool:
    return name in chosen_providers(context.settings)


def run_provider_command(name: str, words: list[str], context: Context) -> int:
    """Lets the provider parse and carry out its own words."""
    import argparse

    home = context.home
    with running_for(home.path):
        register = load_commands(name, home.operator)
        if register is None:
            raise SettingsError(f"the memory provider {name} has no commands of its own (`hermes memory status`)")
        parser = argparse.ArgumentParser(prog=f"hermes {name}", description=f"Commands of the memory provider {name}.")
        register(parser)
        given = parser.parse_args(words)
        carry_out = getattr(given, "func", None)
        if carry_out is None:
            parser.print_help()
            return OK
        return int(carry_out(given) or OK)
