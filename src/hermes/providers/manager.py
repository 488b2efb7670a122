"""`MemoryManager`: drives external memory so that a turn never has to think about it.

It owns every thread and every deadline. Whatever a provider does (fail, hang, lie, return gigabytes, call back), the
turn goes on after the deadline at the latest; what the provider should have stored waits on disk until it takes it.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from hermes.providers.attached import Attached
from hermes.providers.base import RESERVED_TOOLS, tool_error
from hermes.providers.calling import inside_a_provider
from hermes.providers.health import RECALL, in_words
from hermes.providers.lane import Lane, NotInTime
from hermes.providers.messages import for_providers
from hermes.providers.recall import clean, merge
from hermes.providers.signatures import implements, prefetching, starting, switching, turn_starting, warming
from hermes.providers.tool_calls import usable_result, usable_schema
from hermes.vocabulary.values import value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from hermes.providers.health import Patience
    from hermes.providers.lane import Job

    Messages = Sequence[Mapping[str, Any]]

BUILT_IN = "builtin"
MODES = ("hybrid", "context", "tools")
_MOST_TOOLS = 64
_LEAST_SECONDS = 0.1
_RECALLING = frozenset({"session_search", "context_expand"})  # what they return was stored before
_log = logging.getLogger(__name__)
_log.addHandler(logging.NullHandler())  # a library does not print by itself


@value
class Limits:
    """What external memory may cost, together."""

    recall_tokens: int = 2000
    recall_seconds: float = 3.0
    tool_seconds: float = 30.0
    drain_seconds: float = 5.0
    prompt_tokens: int = 1500


class MemoryManager:
    """One session's providers. `mode` is hybrid, context (recall, no tools) or tools (no recall)."""

    def __init__(
        self,
        hermes_home: str = "",
        *,
        mode: str = "hybrid",
        limits: Limits | None = None,
        several: bool = False,
        reserved: Iterable[str] = RESERVED_TOOLS,
        known: Callable[[], Iterable[str]] = tuple,
        tell: Callable[[str], None] = lambda _: None,
        patience: Patience | None = None,
        user: str = "",
        lane: Callable[[str], Lane] = Lane,
    ) -> None:
        self._home = hermes_home
        self._mode = mode
        self.limits = limits or Limits()
        self._several = several
        self._reserved = frozenset(reserved) | RESERVED_TOOLS
        self.known = known  # what the model reads anyway
        self.tell = tell  # the person
        self._attach: dict[str, Any] = {
            "tell": self._say,
            "patience": patience,
            "user": user,
            "lane": lane,
        }
        self._attached: list[Attached] = []
        self._tools: dict[str, tuple[Attached, dict[str, Any]]] = {}
        self._switches = 0
        self._identity: dict[str, Any] = {}  # what a provider is told when it starts
        self.recalled_by: list[str] = []  # whose words the last recall holds
        self.problems: list[str] = []  # what was not taken up, and why

    # -- the providers -------------------------------------------------------------------------------------------------

    def add_provider(self, provider: Any) -> bool:
        """Takes a provider up; the built-in one stands first, and a second external one needs `several`."""
        name = str(provider.name)
        if name in self.names():
            return self._not_taken(f"the provider {name} is there already; the second one is left out")
        external = [each for each in self._attached if each.name != BUILT_IN]
        if external and name != BUILT_IN and not self._several:
            return self._not_taken(
                f"{name} is left out, because {external[0].name} is in use and one external provider is the rule; "
                "list both under memory.providers to use them together"
            )
        attached = Attached(provider, hermes_home=self._home, mode=self._mode, **self._attach)
        self._attached.insert(0 if name == BUILT_IN else len(self._attached), attached)
        return True

    def names(self) -> list[str]:
        return [each.name for each in self._attached]

    def get_provider(self, name: str) -> Any:
        return next((each.provider for each in self._attached if each.name == name), None)

    def initialize_all(self, session_id: str, **kwargs: Any) -> None:
        """Starts every provider at once and waits no longer than a recall may take; one that is late goes on alone."""
        kwargs.setdefault("hermes_home", self._home)
        self._identity = kwargs
        end = time.monotonic() + self.limits.recall_seconds
        self._keep_available(end)
        started = [each.start(starting(each.provider, session_id, kwargs)) for each in self._attached]
        for attached, job in zip(self._attached, started, strict=True):
            self._settled(attached, job, end)
        self._collect_tools(end)

    def shutdown_all(self) -> None:
        """Lets providers take what waits, last one first, within the time to drain; the rest is kept on disk."""
        end = time.monotonic() + self.limits.drain_seconds
        for attached, job in [(each, each.drain()) for each in self._attached]:
            self._settled(attached, job, end)
        for attached in reversed(self._attached):
            self._settled(attached, attached.close(), end)
            attached.stop()

    def flush(self, timeout: float | None = None) -> bool:
        """Tries to hand over everything now; True when nothing is left waiting."""
        end = time.monotonic() + (self.limits.drain_seconds if timeout is None else timeout)
        for attached, job in [(each, each.flush()) for each in self._attached]:
            self._settled(attached, job, end)
        return not any(each.outbox.names() for each in self._attached)

    def take_back(self) -> int:
        """Puts what providers had refused back into the queue; for a person who has mended the cause."""
        return sum(each.outbox.take_back() for each in self._attached)

    def status(self) -> list[dict[str, Any]]:
        return [each.report() for each in self._attached]

    # -- recall --------------------------------------------------------------------------------------------------------

    def build_system_prompt(self) -> str:
        """The providers' static blocks, for a prompt that is built once."""
        found = self._ask_all(
            [each for each in self._attached if each.ready and implements(each.provider, "system_prompt_block")],
            lambda each: each.provider.system_prompt_block,
        )
        return merge([text for _, text in found], budget=self.limits.prompt_tokens)

    def on_turn_start(self, turn_number: int, message: str, **kwargs: Any) -> None:
        for each in self._usable("on_turn_start"):
            if not each.calls.busy:
                each.begin(turn_starting(each.provider, turn_number, message, kwargs))

    def prefetch_all(self, query: str, *, session_id: str = "") -> str:
        """What the providers know about the query, within the deadline and the budget."""
        began = time.monotonic()
        patient_until = began + self.limits.recall_seconds / 4
        switches = self._switches
        asked = [
            each
            for each in self._usable("prefetch")
            if each.mode != "tools" and each.heard.wait(max(0, patient_until - time.monotonic()))
        ]
        found = self._ask_all(asked, lambda each: prefetching(each.provider, query, session_id), began)
        if self._switches != switches:
            return ""  # the session changed while we waited: this is somebody else's now
        self.recalled_by = [each.name for each, text in found if text]
        return merge([text for _, text in found], budget=self.limits.recall_tokens, known=self.known())

    def queue_prefetch_all(self, query: str, *, session_id: str = "") -> None:
        """Lets providers prepare the next turn's recall in the background."""
        for each in self._usable("queue_prefetch"):
            if each.mode != "tools":
                each.warm(warming(each.provider, query, session_id))

    # -- tools ---------------------------------------------------------------------------------------------------------

    def get_all_tool_schemas(self) -> list[dict[str, Any]]:
        return [schema for _, schema in self._tools.values()]

    def has_tool(self, name: str) -> bool:
        return name in self._tools

    def handle_tool_call(self, tool_name: str, args: Mapping[str, Any], **kwargs: Any) -> str:
        """Carries out a provider's tool; always JSON text, never an exception."""
        if tool_name not in self._tools:
            return tool_error(f"no memory provider has a tool {tool_name!r}")
        if inside_a_provider():
            return tool_error("a provider may not call tools of providers")
        attached = self._tools[tool_name][0]
        if not attached.ready:
            return tool_error(f"{attached.name} is not ready: {attached.problem or 'it is still starting'}")
        if attached.health.rests or attached.stuck:
            why = attached.health.last_error
            return tool_error(f"{attached.name} does not work at the moment ({why}); go on without it")
        given = dict(args)
        try:
            returned = attached.ask(
                lambda: attached.provider.handle_tool_call(tool_name, given, **kwargs), self.limits.tool_seconds
            )
        except NotInTime:
            attached.gave_up = True
            attached.health.missed(RECALL, self.limits.tool_seconds)
            return tool_error(f"{attached.name} did not answer within {self.limits.tool_seconds:g} s; go on without it")
        except BaseException as error:  # noqa: BLE001 - a provider may raise anything
            attached.health.last_error = in_words(error)
            return tool_error(in_words(error))
        return usable_result(returned)

    # -- storing -------------------------------------------------------------------------------------------------------

    def sync_all(self, user: str, assistant: str, *, session_id: str = "", messages: Messages = ()) -> None:
        """Stores a finished exchange, in the background and in order; without words on both sides it is none."""
        if user.strip() and assistant.strip():
            turn = {"user": user, "assistant": assistant, "session_id": session_id, "messages": self._plain(messages)}
            self._put_all("sync_turn", turn)

    def on_memory_write(
        self, action: str, target: str, content: str, metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Mirrors one write to curated memory."""
        write = {"action": action, "target": target, "content": content, "metadata": dict(metadata or {})}
        self._put_all("on_memory_write", write)

    def on_delegation(self, task: str, result: str, *, child_session_id: str = "", **kwargs: Any) -> None:
        done = {"task": task, "result": result, "child_session_id": child_session_id, "more": kwargs}
        self._put_all("on_delegation", done)

    # -- the life of a session -----------------------------------------------------------------------------------------

    def on_session_end(self, messages: Messages, *, session_id: str = "") -> None:
        self._put_all("on_session_end", {"messages": self._plain(messages), "session_id": session_id})

    def on_session_switch(self, new_session_id: str, *, reason: str = "", **kwargs: Any) -> None:
        """`reason` is resume, branch, reset, new or compression; no recall until a provider has heard of it."""
        if inside_a_provider():
            return
        self._switches += 1
        known = {"parent_session_id": "", "reset": reason in ("reset", "new"), "rewound": False, "reason": reason}
        self._identity = {**self._identity, "parent_session_id": (known | kwargs)["parent_session_id"]}
        for each in self._attached:
            each.switch(
                self._switches,
                switching(each.provider, new_session_id, known | kwargs),
                starting(each.provider, new_session_id, self._identity),
            )

    def on_pre_compress(self, messages: Messages) -> str:
        """What providers want the summary of these messages to keep."""
        given = self._plain(messages)
        asked = self._usable("on_pre_compress")
        found = self._ask_all(asked, lambda each: lambda: each.provider.on_pre_compress(given) or "")
        return merge([text for _, text in found], budget=self.limits.recall_tokens)

    # -- how -----------------------------------------------------------------------------------------------------------

    def _ask_all(
        self, asked: Iterable[Attached], work: Callable[[Attached], Callable[[], object]], began: float | None = None
    ) -> list[tuple[Attached, str]]:
        """Asks providers at the same time and waits for all of them until one deadline."""
        if inside_a_provider():
            return []
        count = began is not None
        began = time.monotonic() if began is None else began
        end = began + self.limits.recall_seconds
        jobs: list[tuple[Attached, Job[str]]] = []
        for each in asked:
            if each.stuck:
                each.health.missed(RECALL, self.limits.recall_seconds)
            else:
                jobs.append((each, each.begin(_cleaned(work(each), self.limits.recall_tokens))))
        found = []
        for each, job in jobs:
            try:
                text = job.wait(end - time.monotonic())
            except NotInTime:
                each.gave_up = True
                each.health.missed(RECALL, self.limits.recall_seconds)
            except BaseException as error:  # noqa: BLE001 - a provider may raise anything
                each.health.failed(RECALL, error)
            else:
                if count:
                    each.health.worked(RECALL, time.monotonic() - began)
                found.append((each, text))
        return found

    def _usable(self, hook: str) -> Iterator[Attached]:
        if inside_a_provider():
            return
        for each in self._attached:
            if each.ready and not each.health.rests and implements(each.provider, hook):
                yield each

    def _put_all(self, hook: str, arguments: dict[str, Any]) -> None:
        if not inside_a_provider():
            for each in self._attached:
                each.put(hook, arguments)

    def _plain(self, messages: Messages) -> list[dict[str, Any]]:
        return for_providers(messages, _RECALLING | self._tools.keys())

    def _keep_available(self, end: float) -> None:
        asked = [(each, each.begin(each.provider.is_available)) for each in self._attached]
        for attached, job in asked:
            if not self._settled(attached, job, end):
                said = str(getattr(attached.provider, "unavailable_because", "") or "")
                why = attached.health.last_error or said or "its packages or settings are missing"
                self._not_taken(f"{attached.name} is not available: {why}; `hermes memory status` tells more")
                self._attached.remove(attached)
                attached.stop()

    def _collect_tools(self, end: float) -> None:
        for each in self._attached:
            try:
                own_mode, offered = each.ask(
                    _mode_and_tools(each.provider), max(end - time.monotonic(), _LEAST_SECONDS)
                )
                each.mode = own_mode if own_mode in MODES else self._mode
                schemas = list(offered or ()) if each.mode != "context" else []
            except BaseException as error:  # noqa: BLE001 - a provider may raise anything
                self._not_taken(f"{each.name} could not describe its tools: {in_words(error)}")
                continue
            for schema in schemas[:_MOST_TOOLS]:
                self._offer(each, schema)

    def _offer(self, attached: Attached, offered: object) -> None:
        try:
            schema = usable_schema(offered)
        except ValueError as error:
            self._not_taken(f"{attached.name}: {error}")
            return
        name = schema["name"]
        if name in self._reserved:
            self._not_taken(f"{attached.name}: the tool {name} is left out, because Hermes has a tool of that name")
        elif name in self._tools:
            other = self._tools[name][0].name
            self._not_taken(f"{attached.name}: the tool {name} is left out, because {other} offers one of that name")
        else:
            self._tools[name] = (attached, schema)
            attached.tools.append(name)

    def _settled(self, attached: Attached, job: Job[Any], end: float) -> Any:
        try:
            return job.wait(end - time.monotonic())
        except NotInTime:
            attached.health.last_error = "it did not return in time"
        except BaseException as error:  # noqa: BLE001 - a provider may raise anything
            attached.health.last_error = in_words(error)
        return None

    def _say(self, text: str) -> None:
        self.tell(text)  # looked up when there is something to say: another session may have taken over

    def _not_taken(self, why: str) -> bool:
        self.problems.append(why)
        _log.warning("%s", why)
        return False


def _cleaned(work: Callable[[], object], budget: int) -> Callable[[], str]:
    """Cleaning is part of the call, so that the deadline covers it however hostile the text is."""
    return lambda: clean(work(), budget)


def _mode_and_tools(provider: Any) -> Callable[[], tuple[object, Any]]:
    return lambda: (getattr(provider, "recall_mode", ""), provider.get_tool_schemas())
