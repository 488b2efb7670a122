"""`ContextEngine`, the interface of what keeps a conversation inside the model's window, and the loading of engines.

Names and signatures are those of hermes-agent, so that an engine written for it runs here unchanged.
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
    """Decides when to compact the context, compacts it, and may offer tools. Each session has one engine."""

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
        """The name that selects the engine in `context.engine`."""

    @abstractmethod
    def update_from_response(self, usage: Mapping[str, Any]) -> None:
        """Takes the token counts that the model's API reported for an answer."""

    @abstractmethod
    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        """Whether to compact now, given the size of the prompt (by default, the last reported one)."""

    @abstractmethod
    def compress(
        self,
        messages: list[dict[str, Any]],
        current_tokens: int | None = None,
        focus_topic: str | None = None,
    ) -> list[dict[str, Any]]:
        """Returns a shorter history in OpenAI's format, or the given one when there is nothing to compact."""

    # --- optional ----------------------------------------------------------------------------------------------------

    def should_compress_preflight(self, messages: list[dict[str, Any]]) -> bool:
        """Whether to compact before the first call of a turn, when no provider has counted yet; may estimate."""
        del messages
        return False

    def should_defer_preflight_to_real_usage(self, rough_tokens: int) -> bool:
        """Whether an estimate above the threshold should wait for the count of the provider."""
        del rough_tokens
        return False

    def has_content_to_compress(self, messages: list[dict[str, Any]]) -> bool:
        """Whether a compaction that a person asks for would take anything out."""
        del messages
        return True

    def on_session_start(self, session_id: str, **kwargs: Any) -> None:  # noqa: B027 - optional
        """Called when a session begins or continues; after a compaction with `boundary_reason="compression"`."""

    def on_session_end(self, session_id: str, messages: list[dict[str, Any]]) -> None:  # noqa: B027 - optional
        """Called when a session ends or its id changes."""

    def on_session_reset(self) -> None:
        """Resets the counters, because the person starts a new conversation."""
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
        """Figures for status displays: how full the window is and how often it was compacted."""
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
        """Called when another model takes over: adopts its window and derives the threshold."""
        del model, base_url, api_key, provider, kwargs
        self.context_length = context_length
        self.threshold_tokens = int(context_length * self.threshold_percent)


# Context engines by other authors: in `plugins/context_engine/<name>/`, or registered by a plug-in.
#
# Only the setting `context.engine` activates one, and the name "compressor" always means the built-in engine.

BUILT_IN = "compressor"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_LONGEST_PLUGIN = 1_000_000  # characters of a plug-in that are searched for the registration call
_DESCRIPTION = re.compile(r"^description:\s*(.+)$", re.MULTILINE)


@value
class EngineInfo:
    """An engine that `context.engine` may name, found without running its code."""

    name: str
    folder: str
    description: str = ""


@value
class Choice:
    """The engine in use; `problem` says why it is not the one that the settings name."""

    engine: ContextEngine
    problem: str = ""


class EngineRegistry:
    """The engines that plug-ins registered; a plug-in gets it as its context object."""

    def __init__(self) -> None:
        self.engines: dict[str, ContextEngine] = {}

    def register_context_engine(self, engine: ContextEngine) -> None:
        """Offers an engine under its name; the first of a name wins, and the built-in one cannot be replaced."""
        missing = [name for name in _REQUIRED if not hasattr(engine, name)]
        if missing:
            raise TypeError(f"{type(engine).__name__} is not a context engine: it has no {', '.join(missing)}")
        if engine.name != BUILT_IN:
            self.engines.setdefault(engine.name, engine)


def available_engines(folders: Sequence[str]) -> list[EngineInfo]:
    """Lists the engines in `<folder>/<name>/__init__.py` without importing them; earlier folders take precedence."""
    found: dict[str, EngineInfo] = {}
    for parent in folders:
        for name in sorted(os.listdir(parent)) if os.path.isdir(parent) else ():
            folder = os.path.join(parent, name)
            if _NAME.fullmatch(name) and os.path.isfile(os.path.join(folder, "__init__.py")):
                found.setdefault(name, EngineInfo(name=name, folder=folder, description=_description(folder)))
    return list(found.values())


def load_engine(name: str, folders: Sequence[str], registry: EngineRegistry | None = None) -> ContextEngine:
    """Loads an engine by name from a folder, else from the registry; NotFound or SettingsError says why not."""
    if not _NAME.fullmatch(name):
        raise SettingsError(f"context.engine: {name!r} is not the name of an engine; write one word such as lcm")
    for parent in folders:
        folder = os.path.join(parent, name)
        if os.path.isfile(os.path.join(folder, "__init__.py")):
            return _from_folder(name, folder)
    offered = registry.engines if registry is not None else {}
    registered = offered.get(name)
    if registered is None:
        known = sorted({BUILT_IN, *offered, *(info.name for info in available_engines(folders))})
        hint = nearest(name, known)
        raise NotFound(f"context.engine: there is no engine {name!r}{hint} (there are: {', '.join(known)})")
    return registered


def register_plugins(registry: EngineRegistry, folders: Sequence[str]) -> None:
    """Collects the engines that general plug-ins in `<folder>/<name>/` offer with `register_context_engine`.

    Only plug-ins that mention this call are run; one that fails is skipped, so its engine is missing.
    """
    for parent in folders:
        for info in available_engines([parent]):
            with contextlib.suppress(SettingsError, OSError):
                if _mentions(info.folder, "register_context_engine"):
                    _from_folder(info.name, info.folder, registry)


_REQUIRED = ("name", "update_from_response", "should_compress", "compress")


class _Context(EngineRegistry):
    """What a plug-in's `register(ctx)` receives: it collects engines and ignores every other registration."""

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
        first = min(context.engines, default="")
        found = context.engines.get(name) or context.engines.get(first) or _subclass_in(module)
    except (Exception, SystemExit) as error:  # a plug-in is other people's code and may raise anything
        raise SettingsError(f"context.engine: {folder} does not load: {type(error).__name__}: {error}") from error
    if registry is not None:
        registry.engines = context.engines | registry.engines  # those that are there already win
    if found is None:
        raise SettingsError(f"context.engine: {folder} registers no engine and defines no subclass of ContextEngine")
    return found


def _answer_to_the_name_plugins_import() -> None:
    """Makes `from agent.context_engine import ContextEngine`, as in engines for hermes-agent, find our class."""
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
