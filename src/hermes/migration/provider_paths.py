"""What the active memory providers keep outside the home, as they say themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes.session.provider_places import in_passing, open_provider
from hermes.settings.load import load_settings
from hermes.vocabulary.errors import HermesError

if TYPE_CHECKING:
    from hermes.settings.home import Home
    from hermes.settings.load import Settings


def provider_paths(home: Home) -> tuple[list[str], str]:
    """The paths, and why some could not be asked for."""
    problems: list[str] = []
    found: list[str] = []
    settings = load_settings(home)
    for name in _active(settings):
        try:
            with in_passing(open_provider(home, settings, name)) as provider:
                ask = getattr(provider, "backup_paths", None)
                found += [str(path) for path in (ask() if ask is not None else ())]
        except HermesError as error:
            problems.append(str(error))
        except Exception as error:  # noqa: BLE001 - other people's code
            problems.append(f"the provider {name} could not say what it keeps elsewhere: {error}")
    return found, "; ".join(problems)


def _active(settings: Settings) -> list[str]:
    names = [settings.text("memory.provider")]
    if "memory.providers" in settings.names():
        names += settings.texts("memory.providers")
    return list(dict.fromkeys(filter(None, names)))
