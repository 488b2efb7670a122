"""`MemoryProvider`: what external memory implements. Four members are required; every hook is optional.

    class Mine(MemoryProvider):
        name = "mine"
        def is_available(self) -> bool: ...                    # quick, no network
        def initialize(self, session_id, **kwargs) -> None: ...
        def get_tool_schemas(self) -> list[dict]: ...

Names and signatures are those that providers for hermes-agent already have. The manager owns all threads and
deadlines, keeps what could not be delivered and delivers it later: a provider starts no thread, retries nothing for
long, and raises when it failed (best a `ProviderError`, which says whether waiting helps). It may be called from two
threads at once: one delivers (`initialize`, `sync_turn`, `on_memory_write`, the session hooks, `queue_prefetch`, in
order), the other answers a turn that waits (`prefetch`, `handle_tool_call`, `on_turn_start`, `on_pre_compress`).

Arguments that the documents do not name (`session_id` of `on_session_end`, `idempotency_key`) are handed over only to
providers whose signature has them.
"""

# ruff: noqa: B027 - hooks that do nothing by default are what makes them optional

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    Messages = list[dict[str, Any]]

# What hermes-agent's own tools are called, and ours: a provider's tool of that name is never offered.
RESERVED_TOOLS = frozenset(
    {
        *("memory", "session_search", "todo", "delegate_task", "clarify"),
        *("skills_list", "skill_view", "skill_manage", "context_expand", "context_compact"),
    }
)


class MemoryProvider(ABC):
    @property
    @abstractmethod
    def name(self) -> str:
        """The id people write into `memory.provider`, such as `mem0`."""

    unavailable_because = ""  # what a person should do about it, when `is_available` said no

    @abstractmethod
    def is_available(self) -> bool:
        """Whether packages, programs and settings are there. Quick, and without any network call."""

    @abstractmethod
    def initialize(self, session_id: str, **kwargs: Any) -> None:
        """Connects and makes what is needed, for one session. Called once, and again after it failed.

        Keywords: hermes_home, platform, agent_context (primary, subagent, cron, flush), agent_identity (the profile),
        agent_workspace (a name, "hermes"), cwd, session_title, parent_session_id, user_id, user_id_alt, user_name,
        chat_id, chat_name, chat_type, thread_id, gateway_session_key. All but the first two may be missing.
        """

    @abstractmethod
    def get_tool_schemas(self) -> list[dict[str, Any]]:
        """OpenAI-style functions, bare or as {"type": "function", "function": …}; an empty list for none."""

    def handle_tool_call(self, tool_name: str, args: dict[str, Any], **kwargs: Any) -> str:
        """Carries out one of the provider's tools and returns JSON text."""
        del args, kwargs
        return tool_error(f"{self.name} has no tool {tool_name!r}")

    # -- recall ---------------------------------------------------------------------------------------------------

    def system_prompt_block(self) -> str:
        """A few static lines for the system prompt, which is built once per session."""
        return ""

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        """What is known about the query, as text for this turn; the manager fences, limits and scrubs it."""
        del query, session_id
        return ""

    def queue_prefetch(self, query: str, *, session_id: str = "") -> None:
        """Called in the background after a turn: may prepare what the next `prefetch` will return."""

    # -- storing --------------------------------------------------------------------------------------------------

    def sync_turn(
        self,
        user_content: str,
        assistant_content: str,
        *,
        session_id: str = "",
        messages: Messages | None = None,
        idempotency_key: str = "",
    ) -> None:
        """Stores one finished exchange; `messages` is the turn with its tool calls and results.

        Called in the background and in order. When it raises, it is called again later with the same key.
        """

    def on_memory_write(
        self, action: str, target: str, content: str, metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Mirrors a write to curated memory: `action` is add, replace or remove, `target` memory or user.

        Metadata, each where it is known: old_text (the whole entry that was replaced or removed), write_origin,
        execution_context (foreground, background), session_id, parent_session_id, platform, tool_name, tool_call_id,
        task_id (the conversation that runs), idempotency_key. For remove, `content` is empty.
        """

    def on_delegation(self, task: str, result: str, *, child_session_id: str = "", **kwargs: Any) -> None:
        """A delegated task has come back with its result."""

    # -- the life of a session --------------------------------------------------------------------------------------

    def on_turn_start(self, turn_number: int, message: str, **kwargs: Any) -> None:
        """A person spoke; called before `prefetch`."""

    def on_session_end(self, messages: Messages, *, session_id: str = "", idempotency_key: str = "") -> None:
        """A session ends or is committed: the last chance to extract from its messages."""

    def on_session_switch(
        self,
        new_session_id: str,
        *,
        parent_session_id: str = "",
        reset: bool = False,
        rewound: bool = False,
        **kwargs: Any,
    ) -> None:
        """The session id changes (reason=resume, branch, reset, new, compression): drop what was cached for the old."""

    def on_pre_compress(self, messages: Messages) -> str:
        """These messages are about to leave the context; what is returned is handed to the summary."""
        del messages
        return ""

    def shutdown(self) -> None:
        """The last call: close connections. What was to be delivered has been, or is kept for the next start."""

    # -- set-up -----------------------------------------------------------------------------------------------------

    def get_config_schema(self) -> list[dict[str, Any]]:
        """The fields `hermes memory setup` asks for.

        Each has a key and may have description, secret, required, default, choices, env_var, url, type (text, flag,
        integer, number), when {field: value} and default_from {field, map}.
        """
        return []

    def save_config(self, values: dict[str, Any], hermes_home: str) -> None:
        """Keeps the answers that are no secrets; by default in `<name>.json` in the home."""
        from hermes.providers.config import save_config

        save_config(self.name, hermes_home, values)

    def get_status_config(self, provider_config: dict[str, Any]) -> dict[str, Any]:
        """What `hermes memory status` shows of the configuration."""
        return provider_config

    def check_connection(self) -> str:
        """Really asks the backend, after `initialize`; says in one line what was found, or raises a ProviderError."""
        return ""

    def backup_paths(self) -> list[str]:
        """Files and folders outside the home that belong to a backup."""
        return []

    def forget_person(self) -> str:
        """Deletes everything the backend keeps about the person given to `initialize`; says in one line what was done.

        The line also says what stays there all the same, and why. Empty when the backend cannot delete anything; it
        raises when it could and did not. What lies in the person's home is removed with it and is no concern of this.
        """
        return ""

    # `post_setup(hermes_home, config)` is not defined here on purpose: a provider that has it runs its set-up itself.

    @property
    def recall_mode(self) -> str:
        """hybrid, context or tools when the provider's own configuration says so; empty for the common setting."""
        return ""


class InAProcess(MemoryProvider):
    """What the manager sees of a provider that lives in a process of its own (`hosting`)."""

    @abstractmethod
    def wait_until_loaded(self) -> None:
        """Raises the ProviderError that says why it does not load."""

    @abstractmethod
    def end_process(self) -> None:
        """Nobody will ask any more: the process ends now, or when it is done with what it is at."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """For status commands: the process, and how often it had to be started again."""


def tool_error(message: object, **extra: Any) -> str:
    """The JSON text of a failed tool call, in the words of providers written for hermes-agent."""
    return json.dumps({"error": str(message), **extra}, ensure_ascii=False)


def tool_result(data: Any = None, **extra: Any) -> str:
    """The JSON text of a tool call that worked."""
    return json.dumps(extra if data is None else data, ensure_ascii=False, default=str)
