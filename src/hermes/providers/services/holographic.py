"""`holographic`: facts on this machine that are recalled, reasoned over and rated; no network, no model."""

from __future__ import annotations

import os
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

from hermes.base.errors import HermesError, ProviderError, WriteRefused
from hermes.providers.base import MemoryProvider, tool_error, tool_result
from hermes.providers.config import TEXTS, described, home_of, typed
from hermes.providers.facts.claims import statements_in
from hermes.providers.facts.reasoning import FactTools, Reasoner
from hermes.providers.facts.store import FactStore, adopt
from hermes.safety.fence import sanitize_context
from hermes.safety.scanner import scan
from hermes.safety.secrets import find_secrets
from hermes.settings.config import load_settings
from hermes.settings.home import find_home
from hermes.settings.yaml_file import set_plugin

if TYPE_CHECKING:
    from collections.abc import Mapping

FILE = "memory_store.db"
SECTION = "hermes-memory-store"  # of `plugins` in config.yaml
RECALLED = 5
_SHORTEST_QUERY = 2
_NEAR_THE_BEST = 0.4  # of the best score; what only shares a common word is not worth a line


class HolographicProvider(MemoryProvider):
    """External memory in a local fact store."""

    name = "holographic"
    FIELDS, TOOLS = described(name)

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a turn that waits and what is delivered come from two threads
        self._store: FactStore | None = None
        self._reasoner: Reasoner | None = None
        self._tools: FactTools | None = None
        self._config: dict[str, Any] = {}
        self._home = ""
        self._session_id = ""
        self._writes = True

    def is_available(self) -> bool:
        return True

    def forget_person(self) -> str:
        return "keeps its facts in the home, and they go with it"

    def initialize(self, session_id: str, **kwargs: Any) -> None:
        home = find_home(kwargs.get("hermes_home")).path
        config = read_settings(home)
        path = os.path.expanduser(str(config["db_path"]).replace("${HERMES_HOME}", home).replace("$HERMES_HOME", home))
        if home_of(home).person:  # one file for all would show each what the others said
            path = os.path.basename(path)
        with self._lock:
            self.shutdown()
            self._config = {**config, "db_path": os.path.join(home, path)}
            self._home = home
            self._session_id = session_id
            # Work that nobody talks to (cron, flush, delegated) reads memory and does not write it.
            self._writes = kwargs.get("agent_context", "primary") in ("", "primary", None)
            trust, dimensions = _share(config["default_trust"]), max(int(config["hrr_dim"]), 64)
            opened = partial(FactStore.open, default_trust=trust, dimensions=dimensions)
            adopt(self._config["db_path"], opened)
            self._store = opened(self._config["db_path"])
            half_life = max(float(config["temporal_decay_half_life"]), 0.0)
            self._reasoner = Reasoner(self._store, hrr_weight=_share(config["hrr_weight"]), half_life_days=half_life)
            self._tools = FactTools(
                self._store,
                self._reasoner,
                screen=screen,
                min_trust=_share(config["min_trust_threshold"]),
                session=lambda: self._session_id,
            )

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        return [dict(schema) for schema in self.TOOLS]

    def handle_tool_call(self, tool_name: str, args: dict[str, Any], **kwargs: Any) -> str:
        with self._lock:
            tools = self._tools
            if tools is None:
                return tool_error("holographic memory is not open; start a session first")
            calls = {"fact_store": tools.fact_store, "fact_feedback": tools.fact_feedback}
            if tool_name not in calls:
                return tool_error(f"holographic has no tool {tool_name!r}; its tools are {', '.join(calls)}")
            try:
                return tool_result(calls[tool_name](args))
            except WriteRefused as refused:
                return tool_error(refused, **refused.details)
            except (HermesError, TypeError, ValueError) as error:
                return tool_error(error)

    def system_prompt_block(self) -> str:
        with self._lock:
            count = self._opened()[0].count()
        with open(os.path.join(TEXTS, "holographic.md"), encoding="utf-8") as file:
            return file.read().strip().format(count=f"{count:,}" if count else "none")

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        if len(query.strip()) < _SHORTEST_QUERY:
            return ""
        with self._lock:
            store, reasoner = self._opened()
            found = reasoner.search(query, min_trust=_share(self._config["min_trust_threshold"]), limit=RECALLED)
            found = [each for each in found if each.score >= _NEAR_THE_BEST * found[0].score]
            if not found:
                return ""
            store.note_retrieved(each.fact.fact_id for each in found)
        lines = (f"- [{each.fact.trust:.2f}] {' '.join(each.fact.content.split())}" for each in found)
        return "\n".join(["## Holographic Memory", *lines])

    def on_memory_write(
        self, action: str, target: str, content: str, metadata: Mapping[str, Any] | None = None
    ) -> None:
        if not self._writes:
            return
        content = sanitize_context(content).strip()
        old_text = str((metadata or {}).get("old_text") or "")
        with self._lock:
            store, _ = self._opened()
            old = store.mirrored(target, old_text) if old_text else None
            if action == "remove":
                if old is not None:
                    store.remove(old)
            elif action in ("add", "replace") and content:
                category = "user_pref" if target == "user" else "general"
                source = f"mirror:{target}"
                store.add(content, category=category, source=source, session=self._session_id, supersedes=old)

    def on_session_end(
        self, messages: list[dict[str, Any]], *, session_id: str = "", idempotency_key: str = ""
    ) -> None:
        if not (self._writes and self._config.get("auto_extract")):
            return
        for statement in statements_in(messages):
            try:
                screen(statement.text)
            except WriteRefused:
                continue  # nobody is there to be told; what looks like a threat or a secret is simply not kept
            with self._lock:
                store, _ = self._opened()
                session = session_id or self._session_id
                store.add(statement.text, category=statement.category, source="extracted", session=session)

    def on_session_switch(self, new_session_id: str, **kwargs: Any) -> None:
        self._session_id = new_session_id

    def shutdown(self) -> None:
        with self._lock:
            if self._store is not None:
                self._store.close()
            self._store = self._reasoner = self._tools = None

    def get_config_schema(self) -> list[dict[str, Any]]:
        return [dict(field) for field in self.FIELDS]

    def save_config(self, values: dict[str, Any], hermes_home: str) -> None:
        known = {field["key"]: field for field in self.FIELDS}
        typed_values = {key: typed(known[key], value, key) for key, value in values.items() if key in known}
        set_plugin(home_of(hermes_home), SECTION, typed_values)

    def check_connection(self) -> str:
        with self._lock:
            store, _ = self._opened()
            count = store.count()
            return f"{count:,} {'fact' if count == 1 else 'facts'} in {self._config['db_path']}"

    def get_status_config(self, provider_config: dict[str, Any]) -> dict[str, Any]:
        return self._config or provider_config

    def backup_paths(self) -> list[str]:
        path = str(self._config.get("db_path", ""))
        return [path] if path and not path.startswith(self._home + os.sep) else []

    def _opened(self) -> tuple[FactStore, Reasoner]:
        if self._store is None or self._reasoner is None:
            raise ProviderError("holographic memory is not open; start a session first", kind="absent")
        return self._store, self._reasoner


def read_settings(home: str) -> dict[str, Any]:
    """The settings under `plugins.hermes-memory-store`, with defaults; words such as "false" mean what they say."""
    given = (load_settings(home_of(home)).get("plugins") or {}).get(SECTION) or {}
    return {
        field["key"]: typed(field, given.get(field["key"], field["default"]), f"plugins.{SECTION}.{field['key']}")
        for field in HolographicProvider.FIELDS
    }


def screen(text: str) -> None:
    """Refuses what must not come back into a prompt: secrets, and text that would command the model."""
    if found := find_secrets(text):
        kinds = ", ".join(dict.fromkeys(secret.kind for secret in found))
        raise WriteRefused(f"the fact holds a secret ({kinds}); keep it in .env and store where it is", kind="secret")
    verdict = scan(text, "memory")
    if verdict.level == "refuse":
        raise WriteRefused(f"the fact looks like {', '.join(verdict.classes)}: {verdict.excerpt!r}", kind="threat")


def _share(number: Any) -> float:
    return min(max(float(number), 0.0), 1.0)
