"""Hermes: the memory and context system for language-model agents."""

from __future__ import annotations

from hermes.vocabulary.version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hermes.curated.store import MemoryStore

__all__ = ["MemoryStore", "__version__"]

# The public names and where they live; each is loaded when it is first used.
_HOMES = {"MemoryStore": "hermes.curated.store"}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'hermes' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *_HOMES]
