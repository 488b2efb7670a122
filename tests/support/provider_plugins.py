"""Memory providers for tests: a well-behaved one, and plug-in folders written the way hermes-agent's authors do."""

# ruff: noqa: ARG002 - hooks are called with more than a test looks at

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

from hermes.providers.base import MemoryProvider

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hermes.session.session import MemorySession


class Notebook(MemoryProvider):
    """Keeps everything it is told in lists, and recalls every fact that shares a word with the question."""

    name = "notebook"

    def __init__(self, name: str = "notebook") -> None:
        self.name = name
        self.started: list[tuple[str, dict[str, Any]]] = []
        self.turns: list[tuple[str, str, str]] = []
        self.writes: list[tuple[str, str, str, dict[str, Any]]] = []
        self.facts: list[str] = []
        self.calls: list[str] = []
        self.keys: list[str] = []
        self.messages: list[list[dict[str, Any]]] = []
        self.down: BaseException | None = None
        self.in_prefetch: Callable[[], Any] = lambda: None

    def is_available(self) -> bool:
        return True

    def initialize(self, session_id: str, **kwargs: Any) -> None:
        self._fail()
        self.started.append((session_id, kwargs))

    def system_prompt_block(self) -> str:
        return "A notebook remembers what was said."

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        words = {"type": "object", "properties": {"words": {"type": "string"}}, "required": ["words"]}
        return [{"name": f"{self.name}_find", "description": "Find facts.", "parameters": words}]

    def handle_tool_call(self, tool_name: str, args: dict[str, Any], **kwargs: Any) -> str:
        self._fail()
        return json.dumps({"found": self._known(args["words"])})

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        self.calls.append(f"prefetch {session_id}")
        self.in_prefetch()
        self._fail()
        return "\n".join(f"- {fact}" for fact in self._known(query))

    def queue_prefetch(self, query: str, *, session_id: str = "") -> None:
        self.calls.append(f"queue_prefetch {query}")

    def sync_turn(
        self,
        user_content: str,
        assistant_content: str,
        *,
        session_id: str = "",
        messages: list[dict[str, Any]] | None = None,
        idempotency_key: str = "",
    ) -> None:
        self._fail()
        self.turns.append((user_content, assistant_content, session_id))
        self.messages.append(messages or [])
        self.keys.append(idempotency_key)
        self.calls.append(f"sync {user_content}")

    def on_memory_write(self, action: str, target: str, content: str, metadata: Any = None) -> None:
        self._fail()
        self.writes.append((action, target, content, dict(metadata)))

    def on_turn_start(self, turn_number: int, message: str, **kwargs: Any) -> None:
        self.calls.append(f"turn {turn_number}")

    def on_session_end(
        self, messages: list[dict[str, Any]], *, session_id: str = "", idempotency_key: str = ""
    ) -> None:
        self.calls.append(f"end {session_id}")

    def on_session_switch(self, new_session_id: str, **kwargs: Any) -> None:
        self.calls.append(f"switch {kwargs.get('reason')}")

    def on_pre_compress(self, messages: list[dict[str, Any]]) -> str:
        return f"- {len(messages)} messages were about tea"

    def on_delegation(self, task: str, result: str, *, child_session_id: str = "", **kwargs: Any) -> None:
        self.calls.append(f"delegated {task}: {result} ({child_session_id})")

    def shutdown(self) -> None:
        self.calls.append("shutdown")

    def _known(self, words: str) -> list[str]:
        asked = set(words.lower().replace("?", "").split())
        return [fact for fact in self.facts if asked & set(fact.lower().replace(".", "").split())]

    def _fail(self) -> None:
        if self.down is not None:
            raise self.down


class Gate:
    """Somewhere to hang until the test opens it."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self.reached = threading.Event()
        self.left = threading.Event()  # nothing hangs here any more

    def wait(self) -> None:
        self.reached.set()
        self._open.wait(30)
        self.left.set()

    def open(self) -> None:
        self._open.set()


def install(home: Path, name: str, code: str, **files: str) -> Path:
    """A plug-in folder in a home; `plugin_yaml` and `cli_py` become files of that name."""
    folder = home / "plugins" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "__init__.py").write_text(code, encoding="utf-8")
    for file, text in files.items():
        (folder / file.replace("_", ".")).write_text(text, encoding="utf-8")
    return folder


# Registers itself, and imports what such plug-ins import, at the top and later.
REGISTERS = """
import json
from typing import Any, Dict, List

from agent.memory_provider import MemoryProvider
from tools.registry import tool_error


class LedgerProvider(MemoryProvider):
    def __init__(self):
        self._lines: List[str] = []

    @property
    def name(self) -> str:
        return "ledger"

    def is_available(self) -> bool:
        return True

    def initialize(self, session_id: str, **kwargs) -> None:
        from hermes_constants import get_hermes_home
        self._file = get_hermes_home() / "ledger.txt"
        self._lines = self._file.read_text().splitlines() if self._file.exists() else []

    def get_tool_schemas(self) -> List[Dict[str, Any]]:
        return [{"type": "function", "function": {
            "name": "ledger_read", "description": "Read the ledger.",
            "parameters": {"type": "object", "properties": {"line": {"type": "integer"}}}}}]

    def handle_tool_call(self, tool_name: str, args: Dict[str, Any], **kwargs) -> str:
        try:
            return json.dumps({"line": self._lines[args.get("line", 0)]})
        except IndexError:
            return tool_error("no such line")

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        return "\\n".join(self._lines)

    def sync_turn(self, user_content: str, assistant_content: str, *, session_id: str = "") -> None:
        self._lines.append(f"user said: {user_content}")
        self._file.write_text("\\n".join(self._lines))

    def on_memory_write(self, action: str, target: str, content: str) -> None:
        self._lines.append(f"{action} {target}: {content}")
        self._file.write_text("\\n".join(self._lines))

    def get_config_schema(self):
        return [
            {"key": "api_key", "description": "Ledger key", "secret": True, "required": True, "env_var": "LEDGER_KEY",
             "url": "https://ledger.example/keys"},
            {"key": "currency", "description": "Currency", "choices": ["euro", "yen"], "default": "euro"},
            {"key": "rate", "description": "Rate", "type": "number", "default": 1.0, "when": {"currency": "yen"}},
        ]


def register(ctx) -> None:
    ctx.register_tool("unrelated", {})
    ctx.register_memory_provider(LedgerProvider())
"""

# Only a subclass, with a relative import, no hooks but one, and an older signature.
SUBCLASS = """
from agent.memory_provider import MemoryProvider
from .words import greeting


class Greeter(MemoryProvider):
    name = "greeter"

    def is_available(self):
        return True

    def initialize(self, session_id, **kwargs):
        self.session = session_id

    def get_tool_schemas(self):
        return []

    def prefetch(self, query, *, session_id=""):
        return greeting()
"""

# Hands the session a provider that the test holds in its hands.
HANDED = """
import provider_plugins


def register(ctx):
    ctx.register_memory_provider(provider_plugins.handed["{name}"])
"""
handed: dict[str, Any] = {}


def use(home: Path, *providers: Any, **settings: Any) -> None:
    """Makes these objects the providers of a home; `recall_timeout=0.2` and the like are settings of memory.

    They are the test's own objects, so they run in the test's process.
    """
    for each in providers:
        handed[each.name] = each
        install(home, each.name, HANDED.format(name=each.name))
    names = [each.name for each in providers]
    chosen = {"provider": names[0]} if len(names) == 1 else {"providers": names}
    chosen |= {"provider_process": "none"}
    lines = [f"  {key}: {json.dumps(value)}" for key, value in {**chosen, **settings}.items()]
    (home / "config.yaml").write_text("\n".join(["memory:", *lines]) + "\n", encoding="utf-8")


def told(session: MemorySession) -> list[str]:
    """What the person was told about providers since the last look."""
    return [notice.text for notice in session.notices.take() if notice.kind == "provider"]


def tool_names(session: MemorySession) -> list[str]:
    return [tool["function"]["name"] for tool in session.request().tools]


def take_turn(session: MemorySession, text: str) -> None:
    session.prepare_turn(text)
    session.finish_turn(f"answer to {text}")
