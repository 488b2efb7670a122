"""`ContextEngine`: keeps a conversation inside the model's window; and finding engines that others wrote.

Names and signatures are those of the documents, so that an engine written for hermes-agent runs here unchanged.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import re
import sys
from abc import ABC, abstractmethod
from types import ModuleType
from typing import TYPE_CHECKING, Any

from hermes.base.errors import NotFound, SettingsError
from hermes.base.values import value
from hermes.settings.home import import_plugin
from hermes.settings.schema import nearest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class ContextEngine(ABC):
    """Decides when the context is compacted, does it, and may offer tools. One engine is active per session."""

    last_prompt_tokens: int = 0
    last_completion_tokens: int = 0
    last_total_tokens: int = 0
    threshold_tokens: int = 0
    context_length: int = 0
    compression_count: int = 0
    threshold_percent: float = 0.75
    protect_first_n: int = 3
    protect_last_n: int = 6

    @property
    @abstractmethod
    def name(self) -> str:
        """The name that `context.engine` uses."""

    @abstractmethod
    def update_from_response(self, usage: Mapping[str, Any]) -> None:
        """Takes the token counts of a model's answer."""

    @abstractmethod
    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        """Whether to compact now."""

    @abstractmethod
    def compress(
        self,
        messages: list[dict[str, Any]],
        current_tokens: int | None = None,
        focus_topic: str | None = None,
    ) -> list[dict[str, Any]]:
        """A valid OpenAI-format history that needs less room, or the given one when there is nothing to do."""

    # --- optional ----------------------------------------------------------------------------------------------------

    def should_compress_preflight(self, messages: list[dict[str, Any]]) -> bool:
        """A rough look before the first call of a turn, when no provider has counted yet."""
        del messages
        return False

    def should_defer_preflight_to_real_usage(self, rough_tokens: int) -> bool:
        """Whether a rough figure over the threshold should wait for what the provider counts."""
        del rough_tokens
        return False

    def has_content_to_compress(self, messages: list[dict[str, Any]]) -> bool:
        """Whether a person who asks for compaction would get anything."""
        del messages
        return True

    def on_session_start(self, session_id: str, **kwargs: Any) -> None:  # noqa: B027 - optional
        """A session begins or goes on; after a compaction with `boundary_reason="compression"`."""

    def on_session_end(self, session_id: str, messages: list[dict[str, Any]]) -> None:  # noqa: B027 - optional
        """A session ends, or its id changes."""

    def on_session_reset(self) -> None:
        """The person starts afresh: counters of the old conversation no longer mean anything."""
        self.last_prompt_tokens = self.last_completion_tokens = self.last_total_tokens = 0
        self.compression_count = 0

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        """OpenAI-style functions the engine offers to the model; an empty list for none."""
        return []

    def handle_tool_call(self, name: str, args: dict[str, Any], **kwargs: Any) -> str:
        """Runs one of the engine's tools; the result is JSON text."""
        del args, kwargs
        return json.dumps({"error": f"the context engine {self.name!r} has no tool {name!r}"})

    def get_status(self) -> dict[str, Any]:
        """Figures for people: how full the window is and how often it was compacted."""
        used = min(self.last_prompt_tokens / self.context_length * 100, 100.0) if self.context_length else 0.0
        return {
            "last_prompt_tokens": self.last_prompt_tokens,
            "threshold_tokens": self.threshold_tokens,
            "context_length": self.context_length,
            "usage_percent": used,
            "compression_count": self.compression_count,
        }

    def update_model(
        self,
        model: str,
        context_length: int,
        base_url: str = "",
        api_key: str = "",
        provider: str = "",
        **kwargs: Any,
    ) -> None:
        """Another model with another window takes over."""
        del model, base_url, api_key, provider, kwargs
        self.context_length = context_length
        self.threshold_tokens = int(context_length * self.threshold_percent)


# Finds context engines that others wrote: in `plugins/context_engine/<name>/`, or registered by a plug-in.
#
# None is active by itself: only the name in `context.engine` chooses one, and "compressor" is always the built-in.

BUILT_IN = "compressor"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_LONGEST_PLUGIN = 1_000_000
_DESCRIPTION = re.compile(r"^description:\s*(.+)$", re.MULTILINE)


@value
class EngineInfo:
    """An engine that could be chosen, found without running any of its code."""

    name: str
    folder: str
    description: str = ""


@value
class Choice:
    """The engine in use; `problem` says why it is not the one that was asked for."""

    engine: ContextEngine
    problem: str = ""


class EngineRegistry:
    """What plug-ins registered; handed to them as (part of) their context object."""

    def __init__(self) -> None:
        self._engines: dict[str, ContextEngine] = {}

    def register_context_engine(self, engine: ContextEngine) -> None:
        """Offers an engine under its name. The first of a name stays, and nobody replaces the built-in."""
        missing = [name for name in _REQUIRED if not hasattr(engine, name)]
        if missing:
            raise TypeError(f"{type(engine).__name__} is not a context engine: it has no {', '.join(missing)}")
        if engine.name != BUILT_IN:
            self._engines.setdefault(engine.name, engine)

    def take_over(self, other: EngineRegistry) -> None:
        self._engines = other._engines | self._engines

    def get(self, name: str) -> ContextEngine | None:
        return self._engines.get(name)

    def names(self) -> list[str]:
        return sorted(self._engines)


def available_engines(folders: Sequence[str]) -> list[EngineInfo]:
    """Engines in `<folder>/<name>/__init__.py`, the first folder's before the second's; nothing is imported."""
    found: dict[str, EngineInfo] = {}
    for parent in folders:
        for name in sorted(os.listdir(parent)) if os.path.isdir(parent) else ():
            folder = os.path.join(parent, name)
            if _NAME.fullmatch(name) and os.path.isfile(os.path.join(folder, "__init__.py")):
                found.setdefault(name, EngineInfo(name=name, folder=folder, description=_description(folder)))
    return list(found.values())


def load_engine(name: str, folders: Sequence[str], registry: EngineRegistry | None = None) -> ContextEngine:
    """The engine of that name: from a folder, else from the registry. SettingsError when it does not load."""
    if not _NAME.fullmatch(name):
        raise SettingsError(f"context.engine: {name!r} is not the name of an engine; write one word such as lcm")
    for parent in folders:
        folder = os.path.join(parent, name)
        if os.path.isfile(os.path.join(folder, "__init__.py")):
            return _from_folder(name, folder)
    registered = registry.get(name) if registry is not None else None
    if registered is None:
        offered = registry.names() if registry is not None else []
        known = sorted({BUILT_IN, *offered, *(info.name for info in available_engines(folders))})
        hint = nearest(name, known)
        raise NotFound(f"context.engine: there is no engine {name!r}{hint} (there are: {', '.join(known)})")
    return registered


def register_plugins(registry: EngineRegistry, folders: Sequence[str]) -> None:
    """Takes the engines that general plug-ins, `<folder>/<name>/__init__.py`, offer with `register_context_engine`.

    Only plug-ins that mention the call are run; one that fails is left out, and its engine is then not there.
    """
    for parent in folders:
        for info in available_engines([parent]):
            with contextlib.suppress(SettingsError, OSError):
                if _mentions(info.folder, "register_context_engine"):
                    _from_folder(info.name, info.folder, registry)


_REQUIRED = ("name", "update_from_response", "should_compress", "compress")


class _Context(EngineRegistry):
    """What a plug-in's `register(ctx)` gets here: engines are taken, everything else it offers is not our business."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *_args, **_kwargs: None


def _mentions(folder: str, word: str) -> bool:
    with open(os.path.join(folder, "__init__.py"), encoding="utf-8", errors="replace") as file:
        return word in file.read(_LONGEST_PLUGIN)


def _from_folder(name: str, folder: str, registry: EngineRegistry | None = None) -> ContextEngine:
    try:
        _answer_to_the_name_plugins_import()
        module = import_plugin("context_engine", name, folder)
        context = _Context()
        if callable(register := getattr(module, "register", None)):
            register(context)
        found = context.get(name) or next(map(context.get, context.names()), None) or _subclass_in(module)
    except (Exception, SystemExit) as error:  # a plug-in is other people's code and may raise anything
        raise SettingsError(f"context.engine: {folder} does not load: {type(error).__name__}: {error}") from error
    if registry is not None:
        registry.take_over(context)
    if found is None:
        raise SettingsError(f"context.engine: {folder} registers no engine and defines no subclass of ContextEngine")
    return found


def _answer_to_the_name_plugins_import() -> None:
    """Engines written for hermes-agent say `from agent.context_engine import ContextEngine`; that means ours here."""
    if "agent.context_engine" in sys.modules or "agent" in sys.modules:
        sys.modules.setdefault("agent.context_engine", sys.modules[__name__])
        return
    package = ModuleType("agent")
    package.__path__ = []
    sys.modules["agent"] = package
    sys.modules["agent.context_engine"] = sys.modules[__name__]


def _subclass_in(module: ModuleType) -> ContextEngine | None:
    for thing in vars(module).values():
        if inspect.isclass(thing) and issubclass(thing, ContextEngine) and not inspect.isabstract(thing):
            return thing()
    return None


def _description(folder: str) -> str:
    try:
        with open(os.path.join(folder, "plugin.yaml"), encoding="utf-8", errors="replace") as file:
            found = _DESCRIPTION.search(file.read(10_000))
    except OSError:
        return ""
    return found[1].strip().strip("\"'") if found else ""
