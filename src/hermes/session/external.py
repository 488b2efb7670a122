"""Other systems in a session: external memory, which recalls before a turn and is notified after it; and tracing.

Without a provider in the settings every method of `External` does nothing and nothing is loaded.
"""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hermes.base.errors import HermesError
from hermes.base.text import read_arguments
from hermes.base.version import __version__
from hermes.memory.store import MemoryStore
from hermes.safety.trust import TABLES
from hermes.settings.config import documents_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hermes.base.values import Notices
    from hermes.memory.store import Written
    from hermes.providers.base import MemoryProvider
    from hermes.providers.manager import MemoryManager
    from hermes.settings.config import Settings
    from hermes.settings.home import Home

    Messages = Sequence[Mapping[str, Any]]


_REVIEW, _CURATOR = "background_review", "curator"


def told(written: Written, **known: str) -> Iterator[dict[str, Any]]:
    """Yields the `on_memory_write` calls for a change, with `known` as further metadata; empty texts are left out.

    An entry that moves to the archive or back is neither forgotten nor new, so providers are not notified; nor are they
    notified of what a review saves.
    """
    change = written.change
    if change is None or change.action == "restore" or change.cause.origin == _REVIEW:
        return
    archived = {each.entry for each in written.archived}
    cause = change.cause
    for edit in change.edits:
        if edit.after is None and edit.before in archived:
            continue
        metadata = {
            "write_origin": cause.origin,
            "execution_context": "background" if cause.origin == _CURATOR else "foreground",
            "session_id": cause.session,
            **known,
            "old_text": edit.before,
        }
        yield {
            "action": "add" if edit.before is None else "remove" if edit.after is None else "replace",
            "target": written.target,
            "content": edit.after or "",
            "metadata": {key: each for key, each in metadata.items() if each},
        }


def leave_for_providers(home: Home, names: Sequence[str], written: Written, *, user: str = "", **known: str) -> None:
    """Puts a change into the outboxes of these providers; their next session delivers it."""
    calls = list(told(written, **known))
    if not calls or not names:
        return
    from hermes.providers.delivery import Outbox

    for name in names:
        outbox = Outbox(documents_of(home), name, user=user)
        for call in calls:
            outbox.put("on_memory_write", call)


def store_beside(home: Home, settings: Settings, *, platform: str, project: str = "") -> MemoryStore:
    """Opens curated memory for a change outside a conversation; providers get the change with the next one."""
    store = MemoryStore.open(home, settings=settings, project=project)
    if names := chosen_providers(settings):
        store.watch(lambda written: leave_for_providers(home, names, written, platform=platform))
    return store


_WORKSPACE = "hermes"  # the workspace name that hermes-agent gives to providers


class External:
    """The memory providers of one session, through which session, compaction and agent notify them."""

    def __init__(self, home: Home, settings: Settings, store: MemoryStore | None, notices: Notices) -> None:
        self._home, self._settings, self._store, self._notices = home, settings, store, notices
        self.manager: MemoryManager | None = None
        self.prompt_block = ""  # the providers' lines for the prompt
        self._session_id = ""
        self._platform = self._parent = self._user = self._call = ""
        self._turns = 0
        self._asked = ""
        self._untold = False  # whether anything was said since the providers were last notified of an end

    def start(
        self,
        *,
        session_id: str,
        owner: str,
        identity: Mapping[str, Any],
        reserved: Sequence[str],
        handed: Sequence[MemoryProvider] = (),
    ) -> None:
        """Loads and starts the providers of the settings and those in `handed`; failures become notices."""
        if not chosen_providers(self._settings) and not handed:
            return
        self._session_id, self._platform = session_id, str(identity.get("platform", ""))
        self._parent = str(identity.get("parent_session_id") or "")
        self._user = "" if owner == "local" else owner
        self.manager = build_manager(
            self._home,
            self._settings,
            notices=self._notices,
            store=self._store,
            reserved=reserved,
            user=self._user,
            handed=handed,
        )
        given = {key: each for key, each in identity.items() if each}
        if person := self._home.person or self._user:
            given.setdefault("user_id", person)
        given = {"agent_identity": self._home.profile or "default", "agent_workspace": _WORKSPACE, **given}
        self.manager.initialize_all(session_id, **given)
        for problem in self.manager.problems:
            self._notices.add("provider", problem)
        self.prompt_block = _harmless(self.manager.build_system_prompt())

    def follow(self, before: External) -> bool:
        """Shares the providers of the earlier conversation, until `take_over` moves them here; False if impossible."""
        if before.manager is None or before._home != self._home:
            return False
        self.manager = before.manager
        self.prompt_block = _harmless(self.manager.build_system_prompt())
        return True

    def take_over(self, before: External, said: Messages, *, session_id: str, reason: str) -> None:
        """Ends the earlier conversation for its providers and continues with them here."""
        if self.manager is None or before.manager is not self.manager:
            return
        before.on_session_end(said)
        parent, before.manager = before._session_id, None
        self.manager.serve(
            tell=lambda text: self._notices.add("provider", text), known=lambda: _in_the_prompt(self._store)
        )
        self._platform, self._user = before._platform, before._user
        lineage = parent if reason == "branch" else ""
        self.on_session_switch(session_id, parent_session_id=lineage, reset=reason in ("new", "reset"), reason=reason)

    # -- a turn -----------------------------------------------------------------------------------------------------

    @property
    def recalled_by(self) -> list[str]:
        """The names of the providers whose text the last recall contains."""
        return self.manager.recalled_by if self.manager is not None else []

    def recall(self, text: str) -> str:
        """Asks the providers what they know about a person's message, within their deadline and token budget."""
        self._asked, self._turns = text, self._turns + 1
        if self.manager is None:
            return ""
        self.manager.on_turn_start(self._turns, text, platform=self._platform, session_id=self._session_id)
        with recall_span(self._session_id):
            return self.manager.prefetch_all(text, session_id=self._session_id)

    def finish(self, reply: str, messages: Messages, *, interrupted: bool) -> None:
        """Passes the exchange to the providers in the background, except interrupted turns; starts the next recall."""
        asked, self._asked = self._asked, ""
        if self.manager is None or interrupted or not asked.strip() or not reply.strip():
            return
        from hermes.safety.fence import sanitize_context

        said = sanitize_context(reply)
        self.manager.sync_all(asked, said, session_id=self._session_id, messages=_turn(messages))
        self.manager.queue_prefetch_all(asked, session_id=self._session_id)
        self._untold = True

    def mirror(self, written: Written) -> None:
        """Passes a change of curated memory on to the providers, each entry with its previous text."""
        names = chosen_providers(self._settings)
        if self.manager is None and not names:
            return

        known = {"platform": self._platform, "parent_session_id": self._parent, "task_id": self._session_id}
        if self._call:
            known |= {"tool_name": "memory", "tool_call_id": self._call}
        if self.manager is None:
            leave_for_providers(self._home, names, written, user=self._user, **known)
            return
        for call in told(written, **known):
            self.manager.on_memory_write(**call)

    def calling(self, call_id: str) -> None:
        """Sets the id of the running tool call, for the metadata of writes; "" after it has returned."""
        self._call = call_id

    # -- the life of a session ----------------------------------------------------------------------------------------

    def on_pre_compress(self, messages: Messages) -> str:
        """Shows the providers messages that will leave the context; returns their text for the summary."""
        return self.manager.on_pre_compress(messages) if self.manager is not None else ""

    def on_session_end(self, messages: Messages) -> None:
        """Notifies the providers of a boundary, such as a compaction or /new; they keep running."""
        if self.manager is not None and self._untold:
            self.manager.on_session_end(messages, session_id=self._session_id)
            self._untold = False

    def on_session_switch(
        self, new_session_id: str, *, parent_session_id: str = "", reset: bool = False, reason: str = "", **more: Any
    ) -> None:
        """Notifies the providers that the conversation continues as another session, and why."""
        self._session_id, self._parent = new_session_id, parent_session_id
        if self.manager is not None:
            self.manager.on_session_switch(
                new_session_id, parent_session_id=parent_session_id, reset=reset, reason=reason, **more
            )

    def on_delegation(self, task: str, result: str, *, child_session_id: str = "", **more: Any) -> None:
        """Notifies the providers of a finished delegated task."""
        if self.manager is not None:
            self.manager.on_delegation(task, result, child_session_id=child_session_id, **more)

    def status(self) -> list[dict[str, Any]]:
        """The state of each provider, for `hermes status`."""
        return self.manager.status() if self.manager is not None else []

    def close(self, messages: Messages) -> None:
        """Notifies the providers of the end and waits a limited time until everything is delivered."""
        if self.manager is not None:
            self.on_session_end(messages)
            self.manager.shutdown_all()
            self.manager = None


class ProviderTool:
    """A provider's tool as a tool of the toolbox; its results count as text from outside."""

    brings = "provider"
    sink = "provider"
    is_foreign = True
    toolset = "memory"

    def __init__(self, manager: MemoryManager, schema: dict[str, Any]) -> None:
        self._manager = manager
        self.schema = schema

    def call(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Runs the tool in its provider; a result that is not an object is wrapped into one."""
        found = json.loads(self._manager.handle_tool_call(self.schema["name"], arguments))
        return found if isinstance(found, dict) else {"result": found}

    def effect(self, arguments: dict[str, Any]) -> dict[str, Any] | None:
        """The texts that a call would store; None if its name and arguments show that it only reads."""
        named = set(str(arguments.get("action") or self.schema["name"]).lower().split("_"))
        if not arguments or (named & _READING and not _CONTENT & arguments.keys()):
            return None
        return {"writes": [str(each) for name, each in arguments.items() if name in _CONTENT] or [str(arguments)]}


_READING, _CONTENT = frozenset(TABLES["provider reads"]), frozenset(TABLES["provider content"])


def chosen_providers(settings: Settings) -> list[str]:
    """`memory.providers` when it names any, else the one of `memory.provider`; each once."""
    named = settings.texts("memory.providers") or (settings.text("memory.provider"),)
    return list(dict.fromkeys(name.strip() for name in named if name.strip() and name.strip() != "builtin"))


def build_manager(
    home: Home,
    settings: Settings,
    *,
    notices: Notices,
    store: MemoryStore | None = None,
    reserved: Sequence[str] = (),
    user: str = "",
    handed: Sequence[MemoryProvider] = (),
) -> MemoryManager:
    """Makes a manager with the providers of the settings and those in `handed`, loaded but not started."""
    from hermes.providers.discovery import StartingProviders

    opening = StartingProviders(home, settings, chosen_providers(settings))
    from hermes.providers.manager import Limits, MemoryManager

    manager = MemoryManager(
        home.path,
        mode=settings.text("memory.provider_mode"),
        limits=Limits(
            recall_tokens=settings.integer("memory.recall_tokens"),
            recall_seconds=settings.number("memory.recall_timeout"),
            tool_seconds=settings.number("memory.provider_tool_timeout"),
            drain_seconds=settings.number("memory.provider_drain_timeout"),
        ),
        several=bool(settings.texts("memory.providers")) or len(handed) > 1,
        reserved=reserved,
        known=lambda: _in_the_prompt(store),
        tell=lambda text: notices.add("provider", text),
        user=user,
        documents=documents_of(home, settings),
    )
    opened, problems = opening.finish()
    for problem in problems:
        notices.add("provider", str(problem))
    for each in handed:
        if isinstance(each, type) or not hasattr(each, "name"):
            hint = f"{each.__name__}()" if isinstance(each, type) else "one, or name it in memory.provider"
            raise TypeError(f"providers are objects of a MemoryProvider, found {each!r}; hand over {hint}")
    for each in (*opened, *handed):
        manager.add_provider(each)
    return manager


def _harmless(block: str) -> str:
    """The providers' text for the prompt; "" if the scanner refuses it."""
    from hermes.safety.scanner import scan

    return "" if block and scan(block, "context").level == "refuse" else block


def _in_the_prompt(store: MemoryStore | None) -> list[str]:
    """Entries of curated memory, which need not be recalled because the prompt already contains them."""
    try:
        return [entry for target in store.targets for entry in store.entries(target)] if store else []
    except HermesError:
        return []


def _turn(messages: Messages) -> list[Mapping[str, Any]]:
    """The messages of the newest turn, from the person's words on."""
    starts = [at for at, message in enumerate(messages) if message.get("role") == "user"]
    return list(messages[starts[-1] :]) if starts else []


# OpenTelemetry spans for programs that have set it up: memory operations by the GenAI conventions, and receipts.
#
# The library is never imported here: a program that traces has imported it already, and for all others this does
# nothing. Spans record the operation, its size and the person, never any content.

_WRITES = {"add": "create_memory", "replace": "update_memory", "remove": "delete_memory"}
_TOKENS = {
    "input_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "cache_read_tokens": "gen_ai.usage.cache_read.input_tokens",
    "cache_write_tokens": "gen_ai.usage.cache_creation.input_tokens",
}


@contextmanager
def recall_span(session: str) -> Iterator[None]:
    """Traces a recall from external memory."""
    with _span("search_memory", "external") as span:
        if span is not None:
            span.set_attribute("gen_ai.conversation.id", session)
        yield


@contextmanager
def tool_span(name: str, arguments: str | Mapping[str, Any] | None, store: str) -> Iterator[list[str]]:
    """Traces a call of one of our tools; append the result to the list, so that the span counts its records."""
    result: list[str] = []
    with _span(_operation(name, arguments) if _trace() else "", store) as span:
        yield result
        count = (read_arguments(result[0])[0] or {}).get("count") if span is not None and result else None
        if isinstance(count, int):
            span.set_attribute("gen_ai.memory.record.count", count)


def receipt_span(receipt: Mapping[str, Any], store: str) -> None:
    """Records a receipt as a span of its own, so that a trace leads to what the model saw."""
    with _span("receipt", store) as span:
        if span is None:
            return
        usage = receipt.get("usage") or {}
        span.set_attributes(
            {
                "hermes.receipt.id": receipt["id"],
                "hermes.receipt.sealed": bool(receipt.get("seal")),
                "hermes.receipt.messages": len(receipt["messages"]),
                "hermes.receipt.written": len(receipt["written"]),
                "hermes.receipt.pending": len(receipt["pending"]),
                "gen_ai.conversation.id": receipt["session"],
                "gen_ai.request.model": receipt["model"],
                **{_TOKENS[name]: count for name, count in usage.items() if name in _TOKENS},
            }
        )


def _trace() -> Any:
    return sys.modules.get("opentelemetry.trace")


@contextmanager
def _span(operation: str, store: str) -> Iterator[Any]:
    trace = _trace()
    if trace is None or not operation:
        yield None
        return
    attributes = {"gen_ai.operation.name": operation, "gen_ai.memory.store.id": store or "owner"}
    tracer = trace.get_tracer("hermes-memory", __version__)
    with tracer.start_as_current_span(operation, attributes=attributes) as span:
        yield span if span.is_recording() else None


def _operation(name: str, arguments: str | Mapping[str, Any] | None) -> str:
    if name == "session_search":
        return "search_memory"
    if name != "memory":
        return ""
    given = read_arguments(arguments)[0] or {}
    first = given if "action" in given else next(iter(given.get("operations") or ()), None)
    return _WRITES.get(str(first.get("action")), "") if isinstance(first, dict) else ""
