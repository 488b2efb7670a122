"""`MemoryProvider`: the interface of external memory. Four members are required; every hook is optional.

    class Mine(MemoryProvider):
        name = "mine"
        def is_available(self) -> bool: ...                    # fast, no network
        def initialize(self, session_id, **kwargs) -> None: ...
        def get_tool_schemas(self) -> list[dict]: ...

Names and signatures are those of hermes-agent's providers. The manager owns all threads and deadlines, and repeats
failed calls later. So a provider starts no threads, does not retry for long, and raises when it failed (preferably a
`ProviderError`, which says whether waiting helps). Two threads may call it at once: one delivers in order
(`initialize`, `sync_turn`, `on_memory_write`, the session hooks, `queue_prefetch`), the other answers a turn that waits
(`prefetch`, `handle_tool_call`, `on_turn_start`, `on_pre_compress`).

Arguments that hermes-agent does not have (`session_id` of `on_session_end`, `idempotency_key`) are passed only to
providers whose signature names them.
"""

# ruff: noqa: B027 - hooks that do nothing by default are what makes them optional

from __future__ import annotations

import inspect
import json
import re
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from hermes.base.text import change_texts
from hermes.providers.config import save_config
from hermes.safety.fence import sanitize_context

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    Messages = list[dict[str, Any]]

RECALLED = "[recalled from memory]"  # replaces the results of tools that recall
# Other keys, such as a model's reasoning or our own metadata, do not leave Hermes.
_KEYS = ("role", "content", "name", "tool_calls", "tool_call_id")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")  # what the APIs of models accept as the name of a function
_LARGEST_SCHEMA = 20_000  # characters; each request to the model carries it
_LARGEST_RESULT = 100_000  # characters
# Names of hermes-agent's own tools and of ours: a provider's tool with such a name is never offered.
RESERVED_TOOLS = frozenset(
    {
        *("memory", "session_search", "todo", "delegate_task", "clarify"),
        *("skills_list", "skill_view", "skill_manage", "context_expand", "context_compact"),
    }
)


class MemoryProvider(ABC):
    """The interface of an external memory; hooks have hermes-agent's names and signatures."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The id people write into `memory.provider`, such as `mem0`."""

    unavailable_because = ""  # what a person should do when `is_available` is false

    @abstractmethod
    def is_available(self) -> bool:
        """Whether the needed packages, programs and settings exist. Fast, and makes no network call."""

    @abstractmethod
    def initialize(self, session_id: str, **kwargs: Any) -> None:
        """Connects and creates what is needed for a session. Called once, and again if it failed.

        Keywords: hermes_home, platform, agent_context (primary, subagent, cron, flush), agent_identity (the profile),
        agent_workspace (a name, "hermes"), cwd, session_title, parent_session_id, user_id, user_id_alt, user_name,
        chat_id, chat_name, chat_type, thread_id, gateway_session_key. Any but the first two may be missing.
        """

    @abstractmethod
    def get_tool_schemas(self) -> list[dict[str, Any]]:
        """OpenAI-style functions, bare or as {"type": "function", "function": …}; an empty list for none."""

    def handle_tool_call(self, tool_name: str, args: dict[str, Any], **kwargs: Any) -> str:
        """Runs one of the provider's tools and returns JSON text."""
        return tool_error(f"{self.name} has no tool {tool_name!r}")

    # -- recall ---------------------------------------------------------------------------------------------------

    def system_prompt_block(self) -> str:
        """A few static lines for the system prompt, which is built once per session."""
        return ""

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        """What is known about the query, as text for this turn; the manager fences, limits and scrubs it."""
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

        Called in the background and in order. If it raises, it is called again later with the same key.
        """

    def on_memory_write(
        self, action: str, target: str, content: str, metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Mirrors a write to curated memory: `action` is add, replace or remove, `target` memory or user.

        Metadata, if known: old_text (the whole entry that was replaced or removed), write_origin,
        execution_context (foreground, background), session_id, parent_session_id, platform, tool_name, tool_call_id,
        task_id (the conversation that runs), idempotency_key. For remove, `content` is empty.
        """

    def on_delegation(self, task: str, result: str, *, child_session_id: str = "", **kwargs: Any) -> None:
        """Receives the task that was delegated to a subagent, and its result."""

    # -- the life of a session --------------------------------------------------------------------------------------

    def on_turn_start(self, turn_number: int, message: str, **kwargs: Any) -> None:
        """Announces a person's message, before `prefetch`; `turn_number` counts the turns of the session."""

    def on_session_end(self, messages: Messages, *, session_id: str = "", idempotency_key: str = "") -> None:
        """Called when a session ends or is committed: the last chance to extract facts from its messages."""

    def on_session_switch(
        self,
        new_session_id: str,
        *,
        parent_session_id: str = "",
        reset: bool = False,
        rewound: bool = False,
        **kwargs: Any,
    ) -> None:
        """Called when the session id changes (reason=resume, branch, reset, new, compression): drop the old caches."""

    def on_pre_compress(self, messages: Messages) -> str:
        """Receives messages that are about to leave the context; the summary's author sees the returned text."""
        return ""

    def shutdown(self) -> None:
        """Closes connections; no call follows. Hermes keeps undelivered calls for the next start."""

    # -- set-up -----------------------------------------------------------------------------------------------------

    def get_config_schema(self) -> list[dict[str, Any]]:
        """The fields `hermes memory setup` asks for.

        Each has a key and may have description, secret, required, default, choices, env_var, url, type (text, flag,
        integer, number), when {field: value} and default_from {field, map}.
        """
        return []

    def save_config(self, values: dict[str, Any], hermes_home: str) -> None:
        """Saves the answers that are not secrets; by default in `<name>.json` in the home."""
        save_config(self.name, hermes_home, values)

    def get_status_config(self, provider_config: dict[str, Any]) -> dict[str, Any]:
        """What `hermes memory status` shows of the configuration."""
        return provider_config

    def check_connection(self) -> str:
        """Contacts the backend, after `initialize`; returns one line about what it found, or raises a ProviderError."""
        return ""

    def backup_paths(self) -> list[str]:
        """Files and folders outside the home that a backup must include."""
        return []

    def forget_person(self) -> str:
        """Deletes everything the backend keeps about the person given to `initialize`; returns one line about it.

        The line also says what the backend keeps anyway, and why. Empty if the backend cannot delete anything;
        raises if deleting failed. Files in the person's home are deleted with the home, not here.
        """
        return ""

    # `post_setup(hermes_home, config)` is deliberately missing here: a provider that has it runs its own set-up.

    @property
    def recall_mode(self) -> str:
        """hybrid, context or tools if the provider's own configuration says so; empty to use the common setting."""
        return ""


class SeparateProcess(MemoryProvider):
    """A provider in a process of its own (`hosting`), as the manager sees it."""

    @abstractmethod
    def wait_until_loaded(self) -> None:
        """Raises the ProviderError that says why it does not load."""

    @abstractmethod
    def end_process(self) -> None:
        """No more calls: ends the process, now or when its current call returns."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """For status commands: the process id, and how often the process was restarted."""


def tool_error(message: object, **extra: Any) -> str:
    """The JSON text of a failed tool call, as hermes-agent's providers write it."""
    return json.dumps({"error": str(message), **extra}, ensure_ascii=False)


def tool_result(data: Any = None, **extra: Any) -> str:
    """The JSON text of a successful tool call."""
    return json.dumps(extra if data is None else data, ensure_ascii=False, default=str)


def for_providers(messages: Sequence[Mapping[str, Any]], recalling: Collection[str]) -> list[dict[str, Any]]:
    """Copies messages without fences, and without the results of tools that recall (`recalling`).

    Otherwise a provider would store its own recalled facts again, as if the person had just said them.
    """
    callers = {
        str(each.get("id")): each.get("function", {}).get("name", "")
        for message in messages
        for each in message.get("tool_calls") or ()
    }
    return [_copied(message, callers, recalling) for message in messages]


def _copied(message: Mapping[str, Any], callers: Mapping[str, str], recalling: Collection[str]) -> dict[str, Any]:
    copy = {key: message[key] for key in _KEYS if message.get(key) is not None}
    if message.get("role") == "tool":
        name = str(message.get("name") or callers.get(str(message.get("tool_call_id")), ""))
        if name in recalling:
            return copy | {"content": RECALLED}
    return copy | {"content": _clean(message.get("content"))}


def _clean(content: Any) -> Any:
    if isinstance(content, str):
        return sanitize_context(content)
    if isinstance(content, list):
        return [
            part | {"text": sanitize_context(part["text"])}
            if isinstance(part, dict) and isinstance(part.get("text"), str)
            else part
            for part in content
        ]
    return "" if content is None else content


def implements(provider: object, hook: str) -> bool:
    """Whether a provider implements a hook itself; hooks that it only inherits are never called."""
    if hook in getattr(provider, "__dict__", {}):
        return True
    own = getattr(type(provider), hook, None)
    return own is not None and own is not getattr(MemoryProvider, hook, None)


def call(method: Callable[..., Any], *arguments: Any, optional: dict[str, Any]) -> Any:
    """Calls the method with these arguments, and with the optional ones that its signature names."""
    # Older plug-ins lack the newer arguments, and would fail if they were given.
    try:
        parameters = inspect.signature(method).parameters.values()
    except (TypeError, ValueError):  # such as a method written in C
        return method(*arguments)
    if any(each.kind is each.VAR_KEYWORD for each in parameters):
        return method(*arguments, **optional)
    named = {each.name for each in parameters if each.kind in (each.KEYWORD_ONLY, each.POSITIONAL_OR_KEYWORD)}
    return method(*arguments, **{name: given for name, given in optional.items() if name in named})


def hand_over(provider: Any, hook: str, given: dict[str, Any], key: str) -> None:
    """Makes a call that was queued in the outbox; the same `key` accompanies every attempt."""
    method = getattr(provider, hook, None)
    if method is None:
        return
    match hook:
        case "sync_turn":
            optional = {"session_id": given["session_id"], "messages": given["messages"], "idempotency_key": key}
            call(method, given["user"], given["assistant"], optional=optional)
        case "on_memory_write":
            metadata = {**given["metadata"], "idempotency_key": key}
            call(method, given["action"], given["target"], given["content"], optional={"metadata": metadata})
        case "on_delegation":
            optional = {"child_session_id": given["child_session_id"], **given["more"], "idempotency_key": key}
            call(method, given["task"], given["result"], optional=optional)
        case "on_session_end":
            call(method, given["messages"], optional={"session_id": given["session_id"], "idempotency_key": key})
        case _:
            raise ValueError(f"no hook {hook!r} is delivered")


def usable_schema(offered: object) -> dict[str, Any]:
    """A provider's tool as a bare function description; ValueError says why it cannot be offered to a model."""
    function = offered.get("function", offered) if isinstance(offered, dict) else offered
    if not isinstance(function, dict):
        raise ValueError(f"a tool must be described by an object, not {type(function).__name__}")  # noqa: TRY004
    name = function.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"{str(name)[:80]!r} cannot be the name of a tool")
    parameters = function.get("parameters") or {"type": "object", "properties": {}}
    if not isinstance(parameters, dict) or parameters.get("type", "object") != "object":
        raise ValueError(f"the parameters of {name} must be a schema of an object")
    described = {
        "name": name,
        "description": sanitize_context(str(function.get("description") or "")),
        "parameters": {"type": "object", "properties": {}, **parameters},
    }
    try:
        size = len(json.dumps(described))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"the description of {name} is not JSON: {error}") from error
    if size > _LARGEST_SCHEMA:
        raise ValueError(f"the description of {name} has {size:,} characters; {_LARGEST_SCHEMA:,} are allowed")
    return described


def usable_result(returned: object) -> str:
    """A provider's result as JSON text, without fences and limited in size."""
    if isinstance(returned, dict | list):
        found: Any = returned
    elif not isinstance(returned, str):
        return tool_error(f"the provider returned {type(returned).__name__} instead of JSON text")
    elif len(returned) > _LARGEST_RESULT:
        text = str.__getitem__(returned, slice(0, _LARGEST_RESULT))  # a subclass of str may override slicing
        cut = f"[cut: {len(returned):,} characters; ask for less]"
        found = {"result": text, "note": cut}
    else:
        try:
            found = json.loads(returned)
        except (ValueError, RecursionError):
            found = {"result": str.__str__(returned)}
    try:
        plain = json.loads(json.dumps(found, default=str))  # whatever else it contains is text now
        text = json.dumps(change_texts(plain, sanitize_context), ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        return tool_error(f"the provider returned something that is not JSON: {error}")
    # A text of the largest size is longer once it is escaped.
    return text if len(text) <= 2 * _LARGEST_RESULT else tool_error("the result is too large; ask for less")
