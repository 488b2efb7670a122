"""Finds and loads providers: the bundled ones, and those in `$HERMES_HOME/plugins/<name>/`, here or in a process.

Finding providers runs none of their code; loading runs only that of the named one. A plug-in cannot replace a bundled
provider of the same name.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermes.base.errors import HermesError, NotFound, ProviderError, SettingsError
from hermes.base.values import value
from hermes.providers.base import MemoryProvider, SeparateProcess, tool_error, tool_result
from hermes.providers.manager import home_of_the_caller, inside_a_provider, running_for
from hermes.safety.fence import build_memory_context_block, sanitize_context
from hermes.settings.home import import_plugin
from hermes.settings.yaml_file import parse, plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import ModuleType

    from hermes.settings.config import Settings
    from hermes.settings.home import Home

FOLDER = "plugins"
MANIFEST = "plugin.yaml"
# Bundled providers: each is a module of that name in `services/`.
BUNDLED = {
    "honcho": "a model of each person that grows with every conversation (cloud or self-hosted)",
    "openviking": "a tree of knowledge with tiered reads (self-hosted)",
    "mem0": "facts extracted and found by meaning (cloud, self-hosted or in this process)",
    "hindsight": "a graph of facts, with reflection (cloud or self-hosted)",
    "holographic": "facts with trust and entities in a local file; no network",
    "retaindb": "hybrid search and profiles (cloud or local)",
    "byterover": "a tree of Markdown notes kept by the brv program (local)",
    "supermemory": "semantic recall and profiles (cloud)",
}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
# A folder holds a provider if the beginning of its code mentions one of these names. Reading runs no code, so that
# listing plug-ins is safe.
_LOOKED_AT = 8192  # bytes
_SIGNS = (b"register_memory_provider", b"MemoryProvider")


@value
class ProviderInfo:
    """A provider that can be chosen; `problem` says why it cannot."""

    name: str
    bundled: bool
    folder: str = ""
    description: str = ""
    version: str = ""
    pip_dependencies: tuple[str, ...] = ()
    external_dependencies: tuple[dict[str, Any], ...] = ()
    hooks: tuple[str, ...] = ()
    problem: str = ""


def available_providers(operator_home: str) -> list[ProviderInfo]:
    """All possible values of `memory.provider`, bundled ones first."""
    found = {name: ProviderInfo(name=name, bundled=True, description=text) for name, text in BUNDLED.items()}
    parent = os.path.join(operator_home, FOLDER)
    for name in sorted(os.listdir(parent)) if os.path.isdir(parent) else ():
        folder = os.path.join(parent, name)
        if _NAME.fullmatch(name) and _is_provider(folder) and name not in found:
            found[name] = _described(name, folder)
    return list(found.values())


def find_provider(name: str, operator_home: str) -> ProviderInfo:
    """Looks up a provider by name; raises `NotFound`, which lists the available ones."""
    known = available_providers(operator_home)
    for each in known:
        if each.name == name:
            return each
    names = ", ".join(each.name for each in known) or "none"
    raise NotFound(
        f"there is no memory provider {name!r} (available: {names}); put your own into "
        f"{os.path.join(operator_home, FOLDER, name)}, or choose one with `hermes memory setup`"
    )


def load_provider(name: str, operator_home: str) -> Any:
    """A new instance of the provider; a ProviderError with the reason if its code does not load."""
    info = find_provider(name, operator_home)
    try:
        with running_for(operator_home):
            module = import_module(f"{__package__}.services.{name}") if info.bundled else _imported(name, info.folder)
            provider = _registered(module) or _subclass_in(module)
    except BaseException as error:  # a plug-in may even call sys.exit() while it is imported
        if isinstance(error, KeyboardInterrupt):
            raise
        where = info.folder or "this installation"
        missing = f"; install {', '.join(info.pip_dependencies)}" if info.pip_dependencies else ""
        why = f"{type(error).__name__}: {error}"
        raise ProviderError(f"the provider {name} in {where} does not load: {why}{missing}", kind="absent") from error
    if provider is None:
        raise ProviderError(
            f"{info.folder} registers no memory provider and defines no subclass of MemoryProvider", kind="absent"
        )
    return provider


def load_commands(name: str, operator_home: str) -> Any:
    """The function `register_cli(parser)` of a provider's `cli.py`; None if the provider has no commands."""
    info = find_provider(name, operator_home)
    if info.bundled or not os.path.isfile(os.path.join(info.folder, "cli.py")):
        return None
    with running_for(operator_home):
        package = _imported(name, info.folder)
        return getattr(import_module(f"{package.__name__}.cli"), "register_cli", None)


class RegistrationContext:
    """Passed to a plug-in's `register(ctx)`: records its memory provider and ignores everything else."""

    def __init__(self) -> None:
        self.provider: Any = None

    def register_memory_provider(self, provider: Any) -> None:
        """Accepts the first provider that has all required members; TypeError names those that one lacks."""
        required = ("name", "is_available", "initialize", "get_tool_schemas")
        lacking = [member for member in required if not hasattr(provider, member)]
        if lacking:
            raise TypeError(f"{type(provider).__name__} is not a memory provider: it lacks {', '.join(lacking)}")
        self.provider = self.provider or provider

    # A plug-in of hermes-agent may also register tools, hooks or commands, which we do not have.
    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *_args, **_kwargs: None


def _is_provider(folder: str) -> bool:
    try:
        with open(os.path.join(folder, "__init__.py"), "rb") as file:
            beginning = file.read(_LOOKED_AT)
    except OSError:
        return False
    return any(sign in beginning for sign in _SIGNS)


def _described(name: str, folder: str) -> ProviderInfo:
    try:
        with open(os.path.join(folder, MANIFEST), "rb") as file:
            data = file.read(1 << 20)
    except OSError:
        return ProviderInfo(name=name, bundled=False, folder=folder)
    try:
        tree = plain(parse(os.path.join(folder, MANIFEST), data))
    except SettingsError as error:
        return ProviderInfo(name=name, bundled=False, folder=folder, problem=str(error))
    return ProviderInfo(
        name=name,
        bundled=False,
        folder=folder,
        description=str(tree.get("description") or ""),
        version=str(tree.get("version") or ""),
        pip_dependencies=tuple(map(str, tree.get("pip_dependencies") or ())),
        external_dependencies=tuple(each for each in tree.get("external_dependencies") or () if isinstance(each, dict)),
        hooks=tuple(map(str, tree.get("hooks") or ())),
    )


# Modules that plug-ins for hermes-agent import.
_OFFERED: dict[str, dict[str, Any]] = {
    "agent": {},
    "agent.memory_provider": {"MemoryProvider": MemoryProvider},
    "agent.memory_manager": {
        "build_memory_context_block": build_memory_context_block,
        "sanitize_context": sanitize_context,
    },
    "hermes_constants": {
        "get_hermes_home": lambda: Path(home_of_the_caller()),
        "display_hermes_home": home_of_the_caller,
    },
    "tools": {},
    "tools.registry": {"tool_error": tool_error, "tool_result": tool_result},
}


class _Finder:
    """Comes last in `sys.meta_path`, so that a real module of one of these names is used instead."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Finds the names in `_OFFERED`, as packages where hermes-agent has packages."""
        if fullname not in _OFFERED:
            return None
        return ModuleSpec(fullname, self, is_package=fullname in ("agent", "tools"))  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        """Uses the default kind of module."""

    def exec_module(self, module: ModuleType) -> None:
        """Fills the module with the names that hermes-agent's module of this name offers."""
        vars(module).update(_OFFERED[module.__name__])


def offer_names() -> None:
    """Makes these modules importable, for plug-ins and for what they import later."""
    if not any(isinstance(each, _Finder) for each in sys.meta_path):
        sys.meta_path.append(_Finder())


def _imported(name: str, folder: str) -> ModuleType:
    offer_names()
    return import_plugin("memory_plugin", name, folder)


def _registered(module: ModuleType) -> Any:
    register = getattr(module, "register", None)
    if not callable(register):
        return None
    context = RegistrationContext()
    register(context)
    return context.provider


def _subclass_in(module: ModuleType) -> Any:
    for thing in vars(module).values():
        own = inspect.isclass(thing) and thing.__module__.startswith(module.__name__)
        if own and issubclass(thing, MemoryProvider) and not inspect.isabstract(thing):
            return thing()
    return None


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
        apart: list[str] = []
        here: list[str] = []
        for name in names:
            try:
                bundled = find_provider(name, home.operator).bundled
            except HermesError as error:
                self._problems.append(error)
                continue
            wanted = settings.text("memory.provider_process")
            (apart if wanted == "all" or (wanted == "plugins" and not bundled) else here).append(name)
        # Processes first: they load in parallel while this process imports the others.
        for name in (*apart, *here):
            try:
                if name in apart:
                    from hermes.providers.hosting import in_a_process  # it loads sockets and subprocess

                    self._begun[name] = in_a_process(home, settings, name)
                else:
                    self._begun[name] = load_provider(name, home.operator)
            except HermesError as error:
                self._problems.append(error)

    def finish(self) -> tuple[list[Any], list[HermesError]]:
        """Waits for all; returns the providers that have loaded, in the given order, and the others' errors."""
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
    """Lends a provider for a few calls, then ends its process if it has one."""
    try:
        yield provider
    finally:
        if isinstance(provider, SeparateProcess):
            provider.end_process()
