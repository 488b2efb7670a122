"""The few names that providers written for hermes-agent import from its package, for those who have not installed it.

    from agent.memory_provider import MemoryProvider
    from hermes_constants import get_hermes_home, display_hermes_home
    from tools.registry import tool_error, tool_result
    from agent.memory_manager import build_memory_context_block, sanitize_context

They are found only when nothing else in the process answers to these names: our finder stands last.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

PACKAGES = ("agent", "tools")


def offer_names() -> None:
    """From now on these names can be imported, by plug-ins and by what they import later."""
    if not any(isinstance(each, _Finder) for each in sys.meta_path):
        sys.meta_path.append(_Finder())


class _Finder:
    # No subclass of what importlib.abc has for this: that module costs more than all of ours.
    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        if fullname in PACKAGES:
            return _spec(fullname, dict, is_package=True)
        maker = _MODULES.get(fullname)
        return _spec(fullname, maker) if maker else None


def _spec(name: str, names: Callable[[], dict[str, Any]], *, is_package: bool = False) -> ModuleSpec:
    return ModuleSpec(name, _Loader(names), is_package=is_package)  # type: ignore[arg-type]  # it has what is called


class _Loader:
    def __init__(self, names: Callable[[], dict[str, Any]]) -> None:
        self._names = names

    def create_module(self, spec: ModuleSpec) -> None:
        """The usual kind of module."""

    def exec_module(self, module: ModuleType) -> None:
        vars(module).update(self._names())


def _provider_names() -> dict[str, Any]:
    from hermes.providers.base import MemoryProvider

    return {"MemoryProvider": MemoryProvider}


def _constant_names() -> dict[str, Any]:
    from pathlib import Path

    from hermes.providers.calling import home_of_the_caller

    return {
        "get_hermes_home": lambda: Path(home_of_the_caller()),
        "display_hermes_home": home_of_the_caller,
    }


def _tool_names() -> dict[str, Any]:
    from hermes.providers.base import tool_error, tool_result

    return {"tool_error": tool_error, "tool_result": tool_result}


def _manager_names() -> dict[str, Any]:
    from hermes.safety.fence import build_memory_context_block, sanitize_context

    return {"build_memory_context_block": build_memory_context_block, "sanitize_context": sanitize_context}


_MODULES: dict[str, Callable[[], dict[str, Any]]] = {
    "agent.memory_provider": _provider_names,
    "agent.memory_manager": _manager_names,
    "hermes_constants": _constant_names,
    "tools.registry": _tool_names,
}
