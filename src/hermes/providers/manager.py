"""`MemoryManager`: drives external memory so that a turn never waits for it or fails because of it.

It owns all threads and deadlines. Whatever a provider does (fail, hang, lie, return gigabytes, call back), the turn
continues after the deadline at the latest; what the provider should store waits on disk until the provider accepts it.
"""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from hermes.base.errors import ProviderEnded, StorageError
from hermes.base.tokens import estimate
from hermes.base.values import value
from hermes.providers.base import (
    RESERVED_TOOLS,
    SeparateProcess,
    call,
    for_providers,
    hand_over,
    implements,
    tool_error,
    usable_result,
    usable_schema,
)
from hermes.providers.delivery import (
    DELIVERY,
    RECALL,
    START,
    DeliveryResult,
    Health,
    Outbox,
    TimedOut,
    Worker,
    in_words,
)
from hermes.safety.fence import sanitize_context
from hermes.storage.documents import LocalDocuments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from hermes.providers.delivery import Backoff, Job
    from hermes.storage.ports import Documents

    Messages = Sequence[Mapping[str, Any]]

_current = threading.local()  # depth and home of the provider code that runs in a thread
_everywhere = [False]


def everything_is_a_provider() -> None:
    """Marks this process as a provider's, so that code in every thread counts as the provider's."""
    _everywhere[0] = True


def inside_a_provider() -> bool:
    """Whether the caller runs inside a provider, whose calls to the manager are refused."""
    return _everywhere[0] or getattr(_current, "depth", 0) > 0


def home_of_the_caller() -> str:
    """The home that the running provider works for; outside a provider, the default home."""
    found = getattr(_current, "home", "") or os.environ.get("HERMES_HOME") or os.path.join("~", ".hermes")
    return os.path.realpath(os.path.expanduser(found))


@contextmanager
def running_for(home: str) -> Iterator[None]:
    """Runs provider code in this thread for a home: marks the calls it makes, and answers `home_of_the_caller`."""
    before = getattr(_current, "home", "")
    _current.depth = getattr(_current, "depth", 0) + 1
    _current.home = home
    try:
        yield
    finally:
        _current.depth -= 1
        _current.home = before


CUT = "[… more was recalled than fits]"
_CHARACTERS_PER_TOKEN = 12  # more than any script needs; limits what is counted exactly
_SHORTEST_REPEATED = 8  # characters of a line; shorter ones may recur without being the same fact
# What providers put before a fact: indentation, bullets, a number, a short label in brackets such as a score.
_LEADING = re.compile(r"^[\s\-*•>]*(?:\d{1,3}[.)]\s+)?(?:\[[^\]\n]{0,24}\]\s*)?")
_NO_WORD = re.compile(r"[\W_]+")


def clean(text: object, budget: int) -> str:
    """A provider's text without fences and lone surrogates; TypeError if it is not text."""
    if not isinstance(text, str):
        raise TypeError(f"expected text, got {type(text).__name__}")
    plain = str.__getitem__(text, slice(0, budget * _CHARACTERS_PER_TOKEN))  # even if a subclass of str overrides it
    whole = plain.encode("utf-8", "replace").decode("utf-8").replace("\x00", "")
    return sanitize_context(whole).strip()


def merge(texts: Sequence[str], *, budget: int, known: Iterable[str] = ()) -> str:
    """Joins the texts, without duplicate lines and lines that are `known`, within `budget` tokens.

    Each text has the same share of the budget; what one does not need goes to the others.
    """
    seen = {_key(each) for each in known}
    kept = [_without_repetition(text, seen) for text in texts]
    kept = [text for text in kept if text]
    shares = _shares([estimate(text) for text in kept], budget - 2 * len(kept))
    return "\n\n".join(filter(None, map(_cut, kept, shares)))


def _without_repetition(text: str, seen: set[str]) -> str:
    lines = []
    for line in text.split("\n"):
        key = _key(line)
        if len(key) >= _SHORTEST_REPEATED:
            if key in seen:
                continue
            seen.add(key)
        lines.append(line)
    left = "\n".join(lines).strip()
    # Drop headings without facts.
    return left if any(line.strip() and not line.lstrip().startswith("#") for line in lines) else ""


def _key(line: str) -> str:
    return _NO_WORD.sub("", _LEADING.sub("", line)).casefold()


def _shares(costs: list[int], budget: int) -> list[int]:
    # From the smallest text to the largest, so that each leaves what it does not need to those that come after it.
    shares, left = [0] * len(costs), max(budget, 0)
    for position, index in enumerate(sorted(range(len(costs)), key=costs.__getitem__)):
        shares[index] = min(costs[index], left // (len(costs) - position))
        left -= shares[index]
    return shares


def _cut(text: str, budget: int) -> str:
    if estimate(text) <= budget:
        return text
    room = budget - estimate(CUT) - 1
    kept: list[str] = []
    for line in text.split("\n"):
        cost = estimate(line) + 1
        if cost > room:
            break
        kept.append(line)
        room -= cost
    if not "".join(kept).strip():  # the first line alone is too long
        first = text.split("\n", 1)[0]
        kept = [first[: max(0, len(first) * room // max(estimate(first), 1))].rstrip()]
    body = "\n".join(kept).rstrip()
    return f"{body}\n{CUT}" if body else ""


Answer = TypeVar("Answer")
_OTHERS_DELIVER = 2.0  # seconds until we check again whether another process has delivered


class ProviderHandle:
    """One provider of the manager, with its two workers, its outbox and its health.

    The worker `calls` answers a turn that waits; `deliveries` starts the provider, stores, and switches sessions, in
    order. Two workers, so that a slow delivery does not delay a recall. No failure of the provider leaves them.
    """

    def __init__(
        self,
        provider: Any,
        *,
        hermes_home: str,
        user: str = "",
        mode: str = "hybrid",
        backoff: Backoff | None = None,
        tell: Callable[[str], None] = lambda _: None,
        worker: Callable[[str], Worker] = Worker,
        documents: Documents | None = None,
    ) -> None:
        self.provider = provider
        self._home = hermes_home
        self.name = str(provider.name)
        self.mode = mode
        self._tell = tell
        self.health = Health(self.name, backoff=backoff, tell=self._told)
        self.outbox = Outbox(documents or LocalDocuments(hermes_home), self.name, user=user)
        self.calls = worker(f"hermes-{self.name}-calls")
        self.deliveries = worker(f"hermes-{self.name}-deliveries")
        self.ready = False
        self.problem = ""
        self.tools: list[str] = []
        self._switch = 0
        self.heard = threading.Event()  # set once the provider knows the current session
        self.heard.set()
        self.gave_up = False
        self._start: Callable[[], object] | None = None
        self._closing = False

    def hook(self, name: str, *arguments: Any, optional: dict[str, Any]) -> Callable[[], Any]:
        """Returns a function that calls a hook with the optional arguments that its signature names."""
        if not implements(self.provider, name):
            return lambda: None
        return lambda: call(getattr(self.provider, name), *arguments, optional=optional)

    def mode_and_tools(self) -> tuple[object, Any]:
        """The provider's own recall mode and its tools, both as yet unchecked."""
        return getattr(self.provider, "recall_mode", ""), self.provider.get_tool_schemas()

    # -- asking: somebody waits ---------------------------------------------------------------------------------------

    @property
    def stuck(self) -> bool:
        """Whether an abandoned call is still running; until it returns, no other call is made."""
        self.gave_up = self.gave_up and self.calls.busy
        return self.gave_up

    def begin(self, work: Callable[[], Answer]) -> Job[Answer]:
        """Starts a call for which a turn waits."""
        return self.calls.begin(self._guarded(work))

    def ask(self, work: Callable[[], Answer], timeout: float) -> Answer:
        """Makes a call and waits for it; raises `TimedOut`, or what the provider raised."""
        return self.begin(work).wait(timeout)

    # -- delivering: nobody waits -------------------------------------------------------------------------------------

    def start(self, initialize: Callable[[], object]) -> Job[None]:
        """Queues the start; a start that fails is repeated after the pause that the health asks for."""
        self._start = initialize
        return self.deliveries.begin(self._work)

    def put(self, hook: str, arguments: dict[str, Any]) -> None:
        """Queues a call on disk and delivers it as soon as the provider accepts it."""
        if not implements(self.provider, hook):
            return
        try:
            self.outbox.put(hook, arguments)
        except StorageError as error:  # a full disk: try once without the queue
            self.health.failed(DELIVERY, error)
            self.deliveries.post(lambda: self._quietly(lambda: self._hand_over(hook, arguments, "")))
            return
        self.deliveries.post(self._work)

    def warm(self, work: Callable[[], object]) -> None:
        """Runs something in the background, unless the provider is not ready or paused; nothing repeats it."""
        self.deliveries.post(lambda: self._quietly(work) if self.ready and not self.health.rests else None)

    def switch(self, number: int, work: Callable[[], object], initialize: Callable[[], object]) -> None:
        """Announces another session to the provider, which is not asked to recall before it knows it.

        A later start uses that session too (`initialize`). A recall that is still running could leave results of the
        old session in the provider, so the session is announced again afterwards.
        """
        self._switch = number
        self._start = initialize if self._start is not None else None
        self.heard.clear()

        def heard() -> None:
            if number == self._switch:
                self.heard.set()

        def tell() -> None:
            under_way = self.calls.busy
            self._quietly(work)
            if under_way:
                self.calls.post(lambda: self.deliveries.post(tell_again))
            else:
                heard()

        def tell_again() -> None:
            self._quietly(work)
            heard()

        self.deliveries.post(tell)

    def flush(self) -> Job[None]:
        """Tries to deliver everything now, even during a pause."""
        return self.deliveries.begin(lambda: self._work(forced=True))

    def drain(self) -> Job[None]:
        """Makes the last attempt to deliver what waits; nothing is retried afterwards."""
        self._closing = True
        return self.flush()

    def close(self) -> Job[None]:
        """Lets the provider close its connections."""
        return self.deliveries.begin(lambda: self._quietly(self.provider.shutdown))

    def stop(self) -> None:
        """Stops both workers and ends the provider's process, if it has one."""
        self.calls.close()
        self.deliveries.close()
        if isinstance(self.provider, SeparateProcess):
            self.provider.end_process()

    def report(self) -> dict[str, Any]:
        """The state, queue and process of the provider, as status commands show them."""
        found = {"name": self.name, "mode": self.mode, "ready": self.ready, "tools": self.tools}
        waiting, aside = len(self.outbox.names()), self.outbox.set_aside()
        problem = {"problem": self.problem} if self.problem else {}
        process = self.provider.describe() if isinstance(self.provider, SeparateProcess) else {}
        return {**found, **self.health.report(), "waiting": waiting, "refused": aside, **problem, **process}

    # -- in the worker `deliveries` -----------------------------------------------------------------------------------

    def _work(self, *, forced: bool = False) -> None:
        if not forced and time.monotonic() < self.health.next_attempt and self.health.failing(DELIVERY, START):
            self.deliveries.wake_at(self.health.next_attempt, self._work)
            return
        if not self._is_started():
            self._again(self.health.next_attempt)
            return
        try:
            result = self.outbox.deliver(self._hand_over)
        except StorageError as error:
            result = DeliveryResult(error=error)
        if result.error is not None:
            self.health.failed(DELIVERY, result.error)
            self._again(self.health.next_attempt)
        elif result.waiting:
            self._again(time.monotonic() + _OTHERS_DELIVER)
        elif result.delivered:
            self.health.worked(DELIVERY)

    def _again(self, moment: float) -> None:
        if not self._closing:
            self.deliveries.wake_at(moment, self._work)

    def _is_started(self) -> bool:
        if not self.ready and self._start is not None:
            try:
                self._guarded(self._start)()
            except BaseException as error:  # noqa: BLE001 - a provider may raise anything
                self.problem = f"did not start: {in_words(error)}"
                self.health.failed(START, error)
                return False
            self.ready, self.problem = True, ""
            self.health.worked(START)
        return self.ready

    def _hand_over(self, hook: str, arguments: dict[str, Any], key: str) -> None:
        self._guarded(lambda: hand_over(self.provider, hook, arguments, key))()

    def _told(self, text: str) -> None:
        self._tell(text)
        self.deliveries.post(lambda: self._remember(text))  # not in the turn, because it waits for the disk

    def _remember(self, text: str) -> None:
        try:
            self.outbox.remember_state(text)
        except StorageError as error:  # only status commands of other processes miss it
            self.health.last_error = in_words(error)

    def _quietly(self, work: Callable[[], object]) -> None:
        try:
            self._guarded(work)()
        except BaseException as error:  # noqa: BLE001 - a provider may raise anything
            self.health.last_error = in_words(error)

    def _guarded(self, work: Callable[[], Answer]) -> Callable[[], Answer]:
        def run() -> Answer:
            with running_for(self._home):
                try:
                    return work()
                except ProviderEnded as error:
                    self._lost(error)
                    raise

        return run

    def _lost(self, error: ProviderEnded) -> None:
        """Its process has ended: schedules a restart, at the time that its health allows."""
        if self.ready:
            self.ready, self.problem = False, in_words(error)
            self.health.failed(START, error)
            self._again(self.health.next_attempt)


BUILT_IN = "builtin"
MODES = ("hybrid", "context", "tools")
_MOST_TOOLS = 64  # of one provider
_LEAST_SECONDS = 0.1  # to describe its tools, even if starting took all the time
_RECALLING = frozenset({"session_search", "context_expand"})  # they return what is stored already
_log = logging.getLogger(__name__)
_log.addHandler(logging.NullHandler())  # a library must not print by itself


@value
class Limits:
    """What all external memory together may cost."""

    recall_tokens: int = 2000  # of the text recalled for one turn
    recall_seconds: float = 3.0  # that a turn waits for recall, and a session for the providers to start
    tool_seconds: float = 30.0  # of one tool call
    drain_seconds: float = 5.0  # for the last deliveries when the program ends
    prompt_tokens: int = 1500  # of the providers' static texts in the system prompt


class MemoryManager:
    """Drives one session's providers; `mode` is hybrid, context (recall, no tools) or tools (no recall)."""

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
        backoff: Backoff | None = None,
        user: str = "",
        worker: Callable[[str], Worker] = Worker,
        documents: Documents | None = None,
    ) -> None:
        self._home = hermes_home
        self._mode = mode
        self.limits = limits or Limits()
        self._several = several
        self._reserved = frozenset(reserved) | RESERVED_TOOLS
        self._known = known  # texts that the model reads anyway
        self._tell = tell  # the person
        self._attach: dict[str, Any] = {"tell": self._say, "backoff": backoff, "user": user, "worker": worker}
        self._attach["documents"] = documents  # where the outboxes are; by default files in the home
        self._handles: list[ProviderHandle] = []
        self._tools: dict[str, tuple[ProviderHandle, dict[str, Any]]] = {}
        self._switches = 0
        self._identity: dict[str, Any] = {}  # the arguments of `initialize`
        self.recalled_by: list[str] = []  # names of the providers in the last recall
        self.problems: list[str] = []  # what is not used, and why

    # -- the providers -------------------------------------------------------------------------------------------------

    def add_provider(self, provider: Any) -> bool:
        """Adds a provider; the built-in one comes first, and a second external one needs `several`."""
        name = str(provider.name)
        if name in self.names():
            return self._not_taken(f"the provider {name} is listed twice; it is used once")
        external = [each for each in self._handles if each.name != BUILT_IN]
        if external and name != BUILT_IN and not self._several:
            return self._not_taken(
                f"{name} is not used, because {external[0].name} is in use; to use them together, list both under "
                "memory.providers"
            )
        handle = ProviderHandle(provider, hermes_home=self._home, mode=self._mode, **self._attach)
        self._handles.insert(0 if name == BUILT_IN else len(self._handles), handle)
        return True

    def serve(self, *, tell: Callable[[str], None], known: Callable[[], Iterable[str]]) -> None:
        """Hands the providers to another session, which has its own notices (`tell`) and prompt (`known`)."""
        self._tell, self._known = tell, known

    def names(self) -> list[str]:
        """The providers' names, the built-in one first."""
        return [each.name for each in self._handles]

    def get_provider(self, name: str) -> Any:
        """The provider of that name; None if this session does not use it."""
        return next((each.provider for each in self._handles if each.name == name), None)

    def initialize_all(self, session_id: str, **kwargs: Any) -> None:
        """Starts all providers at once and waits as long as a recall may take; slower ones start in the background."""
        kwargs.setdefault("hermes_home", self._home)
        self._identity = kwargs
        end = time.monotonic() + self.limits.recall_seconds
        self._keep_available(end)
        started = [each.start(each.hook("initialize", session_id, optional=kwargs)) for each in self._handles]
        for handle, job in zip(self._handles, started, strict=True):
            self._settled(handle, job, end)
        self._collect_tools(end)

    def shutdown_all(self) -> None:
        """Delivers what it can in the time to drain, keeps the rest on disk, and closes providers in reverse order."""
        end = time.monotonic() + self.limits.drain_seconds
        for handle, job in [(each, each.drain()) for each in self._handles]:
            self._settled(handle, job, end)
        for handle in reversed(self._handles):
            self._settled(handle, handle.close(), end)
            handle.stop()

    def flush(self, timeout: float | None = None) -> bool:
        """Tries to deliver everything now; True if nothing is left."""
        end = time.monotonic() + (self.limits.drain_seconds if timeout is None else timeout)
        for handle, job in [(each, each.flush()) for each in self._handles]:
            self._settled(handle, job, end)
        return not any(each.outbox.names() for each in self._handles)

    def take_back(self) -> int:
        """Puts refused calls back into the queue, once a person has fixed the cause."""
        return sum(each.outbox.take_back() for each in self._handles)

    def status(self) -> list[dict[str, Any]]:
        """One report for each provider, for status commands."""
        return [each.report() for each in self._handles]

    # -- recall --------------------------------------------------------------------------------------------------------

    def build_system_prompt(self) -> str:
        """The providers' static texts for the system prompt."""
        found = self._ask_all(
            [each for each in self._handles if each.ready and implements(each.provider, "system_prompt_block")],
            lambda each: each.provider.system_prompt_block,
        )
        return merge([text for _, text in found], budget=self.limits.prompt_tokens)

    def on_turn_start(self, turn_number: int, message: str, **kwargs: Any) -> None:
        """Announces a person's message to the providers and waits for none of them."""
        for each in self._usable("on_turn_start"):
            if not each.calls.busy:
                each.begin(each.hook("on_turn_start", turn_number, message, optional=kwargs))

    def prefetch_all(self, query: str, *, session_id: str = "") -> str:
        """What the providers know about the query, within the deadline and the budget."""
        began = time.monotonic()
        # Wait a moment for a provider that does not know the current session yet, but leave time for the recall itself.
        patient_until = began + self.limits.recall_seconds / 4
        switches = self._switches
        asked = [
            each
            for each in self._usable("prefetch")
            if each.mode != "tools" and each.heard.wait(max(0, patient_until - time.monotonic()))
        ]
        optional = {"session_id": session_id}
        found = self._ask_all(asked, lambda each: each.hook("prefetch", query, optional=optional), began)
        if self._switches != switches:
            return ""  # the session changed meanwhile, so the results belong to another one
        self.recalled_by = [each.name for each, text in found if text]
        return merge([text for _, text in found], budget=self.limits.recall_tokens, known=self._known())

    def queue_prefetch_all(self, query: str, *, session_id: str = "") -> None:
        """Lets providers prepare the next turn's recall in the background."""
        for each in self._usable("queue_prefetch"):
            if each.mode != "tools":
                each.warm(each.hook("queue_prefetch", query, optional={"session_id": session_id}))

    # -- tools ---------------------------------------------------------------------------------------------------------

    def get_all_tool_schemas(self) -> list[dict[str, Any]]:
        """The tools that may be offered to a model, as bare function descriptions."""
        return [schema for _, schema in self._tools.values()]

    def handle_tool_call(self, tool_name: str, args: Mapping[str, Any], **kwargs: Any) -> str:
        """Runs a provider's tool; always returns JSON text and never raises."""
        if tool_name not in self._tools:
            return tool_error(f"no memory provider has a tool {tool_name!r}")
        if inside_a_provider():
            return tool_error("a provider may not call tools of providers")
        handle = self._tools[tool_name][0]
        if not handle.ready:
            return tool_error(f"{handle.name} is not ready: {handle.problem or 'it is still starting'}")
        if handle.health.rests or handle.stuck:
            why = handle.health.last_error
            return tool_error(f"{handle.name} does not work at the moment ({why}); continue without it")
        given = dict(args)
        try:
            returned = handle.ask(
                lambda: handle.provider.handle_tool_call(tool_name, given, **kwargs), self.limits.tool_seconds
            )
        except TimedOut:
            handle.gave_up = True
            handle.health.missed(RECALL, self.limits.tool_seconds)
            return tool_error(
                f"{handle.name} did not answer within {self.limits.tool_seconds:g} s; continue without it"
            )
        except BaseException as error:  # noqa: BLE001 - a provider may raise anything
            handle.health.last_error = in_words(error)
            return tool_error(in_words(error))
        return usable_result(returned)

    # -- storing -------------------------------------------------------------------------------------------------------

    def sync_all(self, user: str, assistant: str, *, session_id: str = "", messages: Messages = ()) -> None:
        """Stores a finished exchange in the background and in order; skips it if either side said nothing."""
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
        """Reports the result of a delegated task, through the outbox."""
        done = {"task": task, "result": result, "child_session_id": child_session_id, "more": kwargs}
        self._put_all("on_delegation", done)

    # -- the life of a session -----------------------------------------------------------------------------------------

    def on_session_end(self, messages: Messages, *, session_id: str = "") -> None:
        """Gives the messages of a session that ends to the providers, through the outbox."""
        self._put_all("on_session_end", {"messages": self._plain(messages), "session_id": session_id})

    def on_session_switch(self, new_session_id: str, *, reason: str = "", **kwargs: Any) -> None:
        """Announces a new session id to all; `reason` is resume, branch, reset, new or compression."""
        if inside_a_provider():
            return
        self._switches += 1
        known = {"parent_session_id": "", "reset": reason in ("reset", "new"), "rewound": False, "reason": reason}
        self._identity = {**self._identity, "parent_session_id": (known | kwargs)["parent_session_id"]}
        for each in self._handles:
            each.switch(
                self._switches,
                each.hook("on_session_switch", new_session_id, optional=known | kwargs),
                each.hook("initialize", new_session_id, optional=self._identity),
            )

    def on_pre_compress(self, messages: Messages) -> str:
        """Asks the providers what the summary of these messages should keep."""
        given = self._plain(messages)
        asked = self._usable("on_pre_compress")
        found = self._ask_all(asked, lambda each: lambda: each.provider.on_pre_compress(given))
        return merge([text for _, text in found], budget=self.limits.recall_tokens)

    # -- how -----------------------------------------------------------------------------------------------------------

    def _ask_all(
        self,
        asked: Iterable[ProviderHandle],
        work: Callable[[ProviderHandle], Callable[[], object]],
        began: float | None = None,
    ) -> list[tuple[ProviderHandle, str]]:
        """Asks all providers at the same time, with one deadline; only a recall (`began`) counts as a success."""
        if inside_a_provider():
            return []
        count = began is not None
        began = time.monotonic() if began is None else began
        end = began + self.limits.recall_seconds
        jobs: list[tuple[ProviderHandle, Job[str]]] = []
        for each in asked:
            if each.stuck:
                each.health.missed(RECALL, self.limits.recall_seconds)
            else:
                jobs.append((each, each.begin(_cleaned(work(each), self.limits.recall_tokens))))
        found = []
        for each, job in jobs:
            try:
                text = job.wait(end - time.monotonic())
            except TimedOut:
                each.gave_up = True
                each.health.missed(RECALL, self.limits.recall_seconds)
            except BaseException as error:  # noqa: BLE001 - a provider may raise anything
                each.health.failed(RECALL, error)
            else:
                if count:
                    each.health.worked(RECALL, time.monotonic() - began)
                found.append((each, text))
        return found

    def _usable(self, hook: str) -> Iterator[ProviderHandle]:
        if inside_a_provider():
            return
        for each in self._handles:
            if each.ready and not each.health.rests and implements(each.provider, hook):
                yield each

    def _put_all(self, hook: str, arguments: dict[str, Any]) -> None:
        if not inside_a_provider():
            for each in self._handles:
                each.put(hook, arguments)

    def _plain(self, messages: Messages) -> list[dict[str, Any]]:
        return for_providers(messages, _RECALLING | self._tools.keys())

    def _keep_available(self, end: float) -> None:
        asked = [(each, each.begin(each.provider.is_available)) for each in self._handles]
        for handle, job in asked:
            if not self._settled(handle, job, end):
                said = str(getattr(handle.provider, "unavailable_because", "") or "")
                why = handle.health.last_error or said or "its packages or settings are missing"
                self._not_taken(f"{handle.name} is not available: {why}; `hermes memory status` says more")
                self._handles.remove(handle)
                handle.stop()

    def _collect_tools(self, end: float) -> None:
        for each in self._handles:
            try:
                own_mode, offered = each.ask(each.mode_and_tools, max(end - time.monotonic(), _LEAST_SECONDS))
                each.mode = own_mode if own_mode in MODES else self._mode
                schemas = list(offered or ()) if each.mode != "context" else []
            except BaseException as error:  # noqa: BLE001 - a provider may raise anything
                self._not_taken(f"{each.name} could not describe its tools: {in_words(error)}")
                continue
            for schema in schemas[:_MOST_TOOLS]:
                self._offer(each, schema)

    def _offer(self, handle: ProviderHandle, offered: object) -> None:
        try:
            schema = usable_schema(offered)
        except ValueError as error:
            self._not_taken(f"{handle.name}: {error}")
            return
        name = schema["name"]
        if name in self._reserved:
            self._not_taken(f"{handle.name}: the tool {name} is not offered, because Hermes has a tool of that name")
        elif name in self._tools:
            other = self._tools[name][0].name
            self._not_taken(f"{handle.name}: the tool {name} is not offered, because {other} has one of that name")
        else:
            self._tools[name] = (handle, schema)
            handle.tools.append(name)

    def _settled(self, handle: ProviderHandle, job: Job[Any], end: float) -> Any:
        try:
            return job.wait(end - time.monotonic())
        except TimedOut:
            handle.health.last_error = "it did not return in time"
        except BaseException as error:  # noqa: BLE001 - a provider may raise anything
            handle.health.last_error = in_words(error)
        return None

    def _say(self, text: str) -> None:
        self._tell(text)  # looked up late, because another session may have taken over

    def _not_taken(self, why: str) -> bool:
        self.problems.append(why)
        _log.warning("%s", why)
        return False


def _cleaned(work: Callable[[], object], budget: int) -> Callable[[], str]:
    """Makes cleaning part of the call, so that the deadline also covers a hostile text."""
    return lambda: clean(work() or "", budget)
