"""`Agent`: a session, a model and tools. It takes a person's message and yields events.

    with Agent.open() as agent:
        for event in agent.turn("what did we decide about auth?"):
            …TextDelta, ToolReturned, Notice…; the last one is TurnFinished…

Everything is stored by the session as it happens. Stopping a turn, by `interrupt`, by closing the iterator or by
Ctrl-C, leaves a conversation that the next turn continues.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
import tomllib
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, Unpack

from hermes.base.errors import HermesError
from hermes.base.events import Continuing, Retrying, TextDelta, ToolReturned, TurnFinished
from hermes.safety.fence import without_private
from hermes.session.lifecycle import Titles
from hermes.session.models import Background, helper, main_model
from hermes.session.parts import SessionOptions
from hermes.session.review import Reviews
from hermes.session.session import MemorySession
from hermes.settings.config import load_settings
from hermes.settings.home import find_home
from hermes.settings.trust import TrustedFolders
from hermes.storage.images import words_of
from hermes.tools.builtin import BuiltinTools, Outcome
from hermes.tools.loop import OutsideFunctions, run_turn
from hermes.tools.registry import check_toolsets, is_enabled, toolsets_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from hermes.base.errors import ContextTooLong
    from hermes.base.events import TurnEvent
    from hermes.llm.client import Model
    from hermes.session.context import Request
    from hermes.session.parts import SessionKeywords
    from hermes.settings.config import Settings
    from hermes.settings.home import Home
    from hermes.storage.images import Content
    from hermes.tools.builtin import Task
    from hermes.tools.mcp import McpServers
    from hermes.tools.registry import Tool

# Toolsets that a delegated task never gets: only its result counts, and the parent decides what is remembered.
_NOT_FOR_CHILDREN = frozenset({"memory", "delegation"})
_REMEMBERED = 1_000  # newest messages in which a resumed session looks for its list of steps


@dataclass(frozen=True, kw_only=True)
class AgentParts:
    """What an agent is made of: what a program asked for, and the settings, model and toolsets derived from it.

    `named` is the model as the program named it. A model over HTTP keeps the bytes of one conversation, so the agent of
    a delegated task opens its own. Without `delegates`, the agent may not delegate tasks.
    """

    home: Home
    source: str
    owner: str = "local"
    cwd: str | None = None
    named: str | Model = ""
    ask: Callable[[str], bool] | None = None
    wanted: Collection[str] | None = None  # toolsets; None for those of the settings
    trusted_folders: Sequence[str] | None = None
    delegates: bool = True
    depth: int = 0
    stop: threading.Event = field(default_factory=threading.Event)

    @cached_property
    def settings(self) -> Settings:
        """The settings of the home, read once for this agent."""
        return load_settings(self.home)

    @cached_property
    def model(self) -> Model:
        """The model that answers: the named one, opened with its fallbacks, or the object that a program handed in."""
        if isinstance(self.named, str):
            return main_model(self.settings, self.named, person=self.person)
        if missing := [name for name in ("name", "context_length", "stream") if not hasattr(self.named, name)]:
            raise TypeError(
                "a model is a name, or an object with name, context_length and stream; "
                f"{self.named!r} has no {missing[0]}"
            )
        return self.named

    @cached_property
    def toolsets(self) -> frozenset[str]:
        """The toolsets that are on: those asked for, otherwise what the settings enable for this source."""
        return toolsets_of(self.settings, self.source) if self.wanted is None else check_toolsets(self.wanted)

    @property
    def person(self) -> str:
        """Identifies whose conversations the model answers; OpenAI groups cached prompts by it."""
        return f"{self.home.path} {self.owner}"

    def kit(self, session: Callable[[], MemorySession]) -> BuiltinTools:
        """Our own tools. `session` returns the conversation; it is first called once the session is open."""
        may_delegate = self.delegates and self.depth < self.settings.integer("delegation.max_spawn_depth")
        return BuiltinTools(
            settings=self.settings,
            folder=self.cwd or os.getcwd(),
            home=self.home.above or self.home.root,
            ask=self.ask,
            cancelled=self.stop.is_set,
            history=lambda: _newest_messages(session()),
            delegate=(lambda task: _run_task(self, session(), task)) if may_delegate else None,
            stop=self.stop.set,
            trusted=TrustedFolders(self.home, self.trusted_folders),
        )

    def servers(self) -> McpServers | None:
        """The MCP servers of the settings; None when their toolset is off or none is configured."""
        if "mcp" not in self.toolsets or not self.settings.get("mcp_servers"):
            return None
        from hermes.tools.mcp import McpServers

        return McpServers.of(self.settings, self.home, self.stop.is_set)

    def child(self, task: Task) -> AgentParts:
        """The parts of the agent that runs a delegated task: fewer toolsets, a stop signal of its own."""
        settings = self.settings
        orchestrates = task.role == "orchestrator" and settings.flag("delegation.orchestrator_enabled")
        kept = self.toolsets - (_NOT_FOR_CHILDREN - {"delegation"} if orchestrates else _NOT_FOR_CHILDREN)
        if not settings.flag("delegation.inherit_mcp_toolsets"):
            kept -= {"mcp"}
        return replace(
            self,
            source="subagent",
            ask=(lambda _question: True) if settings.flag("delegation.subagent_auto_approve") else None,
            wanted=kept,
            delegates=self.delegates and orchestrates,
            depth=self.depth + 1,
            stop=threading.Event(),
        )


def _newest_messages(session: MemorySession) -> list[dict[str, Any]]:
    """The newest stored messages, oldest first, including those that were compacted out of the context."""
    found = session.database.messages(session.id, limit=_REMEMBERED, newest=True)
    return [each.message for each in sorted(found, key=lambda each: each.id)]


_STOPPED = "[Stopped before there was an answer.]"
_MODEL_CALLS = 90
_NOT_SAVED = (
    "nothing was saved to memory in this turn, although the answer reads as if it was; ask again to have it saved"
)
_TITLE_SECONDS = 2  # how long a program that ends waits for the title of its conversation


class Agent:
    """A session, a model and tools: give it a line, and it answers with events."""

    def __init__(
        self,
        session: MemorySession,
        model: Model,
        *,
        settings: Settings | None = None,
        limit: int = _MODEL_CALLS,
        stop: threading.Event | None = None,
        servers: McpServers | None = None,
        open_steps: Callable[[], str] = lambda: "",
        person: str = "",
    ) -> None:
        """Takes parts that a program made itself; `open` makes them from the settings of a home.

        Setting `stop` ends the turn, as `interrupt` does; running tools may check it too. `servers` are closed with
        the agent. `open_steps` renders the open items of the list of steps, which a compaction may remove.
        """
        self.session = session
        self.model = model
        self._settings = settings or session.settings
        self._limit = limit
        self._stop = stop or threading.Event()
        self.reviews = Reviews(session)
        self._servers = servers
        self._person = person
        self._open_steps = open_steps
        self._compactions = session.compactions
        self._titles: Titles | None = None
        self._asked = ""  # the first words of the person, from which the title is made

    @classmethod
    def open(
        cls,
        home: str | os.PathLike[str] | Home | None = None,
        source: str = "cli",
        *,
        resume: str | None = None,
        title: str | None = None,
        model: str | Model = "",
        cwd: str | None = None,
        project: str | None = None,
        system_message: str = "",
        tools: Sequence[Tool] = (),
        options: SessionOptions | None = None,
        **more: Unpack[SessionKeywords],
    ) -> Self:
        """Opens an agent as the settings of a home describe it.

        `ask` is called with a question when a tool needs a person's consent; without it such a tool is refused. `cwd`
        is the folder that tools work in. Without it they work in the folder of the process, and the prompt contains no
        project files. `options` hold everything else; each field of `SessionOptions` is also accepted as a keyword.
        """
        chosen = (options or SessionOptions()).changed(more)
        parts = AgentParts(
            home=find_home(home),
            source=source,
            owner=chosen.owner,
            cwd=cwd,
            named=model,
            ask=chosen.ask,
            wanted=chosen.toolsets,
            trusted_folders=chosen.trusted_folders,
        )
        return cls.opened_from(
            parts,
            chosen,
            resume=resume,
            title=title,
            project=project,
            system_message=system_message,
            tools=tools,
        )

    @classmethod
    def opened_from(cls, parts: AgentParts, options: SessionOptions, *, limit: int | None = None, **given: Any) -> Self:
        """Opens an agent from prepared parts; `given` are further arguments of `MemorySession.open`."""
        model, kit = parts.model, parts.kit(lambda: session)
        ours = {name: make for name, make in kit.makers().items() if is_enabled(name, parts.toolsets)}
        servers = parts.servers()
        makers = {**(options.makers or {}), **ours, **(servers.makers() if servers is not None else {})}
        try:
            session = MemorySession.open(
                parts.home,
                parts.source,
                model=model.name,
                cwd=parts.cwd,
                options=replace(options, owner=parts.owner, toolsets=parts.toolsets, makers=makers),
                **given,
            )
        except BaseException:
            if servers is not None:
                servers.close()
            raise
        for problem in servers.problems if servers is not None else ():
            session.notices.add("tools", problem)
        agent = cls(
            session,
            model,
            settings=parts.settings,
            limit=limit or parts.settings.integer("agent.max_turns"),
            stop=parts.stop,
            servers=servers,
            open_steps=kit.open_steps if is_enabled("todo", parts.toolsets) else lambda: "",
            person=parts.person,
        )
        agent.reviews.tidy_if_due(model)
        return agent

    def turn(
        self,
        text: Content,
        *,
        overlay: str = "",
        attached: str = "",
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Iterator[TurnEvent]:
        """Answers one message of a person, which may contain images as in `MemorySession.prepare_turn`.

        The reply is stored before `TurnFinished`, the last event, is yielded.
        """
        self._begin(text or attached)
        self.session.prepare_turn(text, overlay=overlay, attached=attached)
        yield from self._events(self._run(lambda: self._stop.is_set() or cancelled()), _Saves())

    def go_on(self, *, cancelled: Callable[[], bool] = lambda: False) -> Iterator[TurnEvent]:
        """Answers a turn that a killed process left unanswered; nothing is stored or run a second time."""
        self._begin(None)
        self.session.take_up()
        # No `_Saves`: what the killed process saved is unknown, so a claim in the answer cannot be checked.
        yield from self._events(self._run(lambda: self._stop.is_set() or cancelled()))

    def turn_with(
        self,
        functions: Sequence[Mapping[str, Any]],
        text: Content | None,
        results: Sequence[Mapping[str, Any]] = (),
        *,
        overlay: str = "",
        cancelled: Callable[[], bool] = lambda: False,
        options: Mapping[str, Any] | None = None,
    ) -> Iterator[TurnEvent]:
        """Runs a turn in which the model may also call functions of the caller, in OpenAI's format.

        When the model calls one, the turn ends with the reason tool_calls. Call this again with `results` (tool
        messages) and no text to continue it. Text before such a call is stored with the call. `options` (temperature,
        response_format and so on, as OpenAI names them) are sent with every model call of this turn.
        """
        outside = OutsideFunctions(self.session, functions, self._fit)
        self._begin(text)
        if text is None:
            for result in results:
                self.session.record(result)
        else:
            self.session.prepare_turn(text, overlay=overlay)
        yield from self._events(
            run_turn(
                self.model,
                outside,
                fit=outside.fit,
                counted=self.session.counted,
                limit=self._limit,
                cancelled=lambda: self._stop.is_set() or cancelled(),
                outside=outside.names,
                options=options or {},
            )
        )

    def interrupt(self) -> None:
        """Ends the running turn at the next possible moment; safe from any thread and from a signal handler."""
        self._stop.set()

    def switch_model(self, name: str) -> Model:
        """Uses another model from the next turn on; a name that no provider serves changes nothing."""
        self.model = main_model(self._settings, name, person=self._person)
        return self.model

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Waits a limited time for background work, then ends the session."""
        self._settle_title(_TITLE_SECONDS)
        self.reviews.close()
        self.session.close()
        if self._servers is not None:
            self._servers.close()

    def _begin(self, text: Content | None) -> None:
        self._stop.clear()
        self._settle_title()
        self._asked = self._asked or without_private(words_of(text))
        self.session.use_model(self.model)

    def _run(self, stopped: Callable[[], bool]) -> Any:
        """Runs the tool loop; the session compacts inside it."""
        session = self.session
        return run_turn(
            self.model, session, fit=self._fit, counted=session.counted, limit=self._limit, cancelled=stopped
        )

    def _fit(self, request: Request, too_long: ContextTooLong | None) -> Request:
        """Lets the session compact, then repeats the list of steps, which may have been compacted away."""
        fitted = self.session.fit(request, too_long)
        if self.session.compactions == self._compactions:
            return fitted
        self._compactions = self.session.compactions
        if steps := self._open_steps():
            self.session.record({"role": "user", "content": steps, "synthetic": "todo"})
            return self.session.request()
        return fitted

    def _events(self, running: Any, saves: _Saves | None = None) -> Iterator[TurnEvent]:
        said, kept, answered = "", "", False
        with closing(running) as events:
            try:
                for event in events:
                    said, kept = _said(said, kept, event)
                    if saves is not None and isinstance(event, ToolReturned):
                        saves.called(event)
                    if isinstance(event, TurnFinished):
                        self._finish(event)
                        # An external provider receives every exchange, so with one the claim is true.
                        if saves and saves.are_only_claimed(event.reply) and self.session.external.manager is None:
                            self.session.notices.add("memory", _NOT_SAVED)
                        answered = event.reason not in ("interrupted", "tool_calls")
                    yield from self.session.take_events()
                    yield event
            except GeneratorExit:  # the caller stopped reading: keep the answer so far, marked
                events.close()
                if not isinstance(event, TurnFinished):
                    self.session.finish_turn(said or _STOPPED, interrupted=True, model=self.model.name)
                raise
            finally:
                if answered:  # also when the caller stops reading after the answer
                    self.reviews.after_turn(self.model)

    def _finish(self, end: TurnFinished) -> None:
        if end.reason == "tool_calls":  # stored with its calls; the turn continues once their results are in
            return
        interrupted = end.reason == "interrupted"
        reply = end.reply or (_STOPPED if interrupted else "")
        self.session.finish_turn(reply, interrupted=interrupted, usage=end.usage, model=end.model, message=end.message)
        if self._titles is not None or interrupted:
            return
        about = self.session.about()
        if about.title is None and about.kind != "delegate":
            try:
                budget = Background(self.session.database, self._settings)
                ask = helper(self._settings, "title_generation", own_only=True, budget=budget)
            except HermesError as error:  # the answer is stored; the title is made from its words
                ask = None
                self.session.notices.add("model", f"no helper model for titles: {error}")
            self._titles = Titles(self.session.rename, ask)
            self._titles.start(self._asked, reply)

    def _settle_title(self, seconds: float = 0) -> None:
        if self._titles is not None:
            self._titles.settle(seconds)


class _Saves:
    """Records whether a turn saved something, to compare it with what the answer claims."""

    def __init__(self) -> None:
        self._saved = self._failed = False

    @cached_property
    def _phrases(self) -> dict[str, str]:
        with open(os.path.join(os.path.dirname(__file__), "session", "text", "claims.toml"), "rb") as file:
            return tomllib.load(file)

    def called(self, returned: ToolReturned) -> None:
        """Counts each successful call of a tool that does more than read, and writes that wait for approval."""
        name = returned.call.name
        if name in self._phrases["only-looks"].split():
            return
        try:
            result = json.JSONDecoder().raw_decode(returned.result)[0]
        except ValueError:
            result = None
        worked = not isinstance(result, dict) or (result.get("success") is not False and not result.get("error"))
        self._saved = self._saved or worked
        self._failed = self._failed or (name == "memory" and not worked)

    def are_only_claimed(self, reply: str) -> bool:
        """Whether the reply claims a save although nothing was saved in the turn."""
        if self._saved:
            return False
        phrases = self._phrases
        vague = re.search(phrases["vague"], reply, re.IGNORECASE) if self._failed else None
        if vague is not None and not re.search(phrases["admits"], reply, re.IGNORECASE):
            return True
        return re.search(phrases["claims"], reply, re.IGNORECASE | re.MULTILINE | re.VERBOSE) is not None


def _run_task(parent: AgentParts, session: MemorySession, task: Task) -> Outcome:
    """Runs a task that `session` delegates to its end; an error in it becomes its outcome."""
    settings = parent.settings
    seconds = settings.integer("delegation.child_timeout_seconds")
    end = time.monotonic() + seconds if seconds else float("inf")
    limit = settings.integer("delegation.max_iterations")
    try:
        options = SessionOptions(parent=session.id, skip_memory=True, skip_context_files=True)
        with Agent.opened_from(parent.child(task), options, limit=limit) as agent:
            agent.session.inherit(session)
            outcome = _follow(agent, task, lambda: parent.stop.is_set() or time.monotonic() > end)
    except HermesError as error:
        return Outcome(status="failed", summary=str(error))
    if outcome.status == "completed":
        session.external.on_delegation(task.goal, outcome.summary, child_session_id=outcome.session_id)
    return outcome


def _follow(agent: Agent, task: Task, stopped: Callable[[], bool]) -> Outcome:
    text = f"{task.goal}\n\n{task.context}" if task.context.strip() else task.goal
    tools: list[str] = []
    for event in agent.turn(text, cancelled=stopped):
        if isinstance(event, ToolReturned):
            tools.append(event.call.name)
        elif isinstance(event, TurnFinished):
            end = event
    status = {"interrupted": "interrupted", "limit": "limit"}.get(end.reason, "completed")
    return Outcome(
        status=status,
        summary=end.reply or ("stopped before there was an answer" if status != "completed" else ""),
        session_id=agent.session.id,
        model=end.model,
        model_calls=end.model_calls,
        input_tokens=end.usage.input_tokens,
        output_tokens=end.usage.output_tokens,
        tools=tuple(tools),
        read_outside=bool(agent.session.sources()),
    )


def _said(before: str, kept: str, event: TurnEvent) -> tuple[str, str]:
    """The text of the answer so far, and the part a retry keeps; text before a tool call is stored with it."""
    match event:
        case TextDelta(text=text):
            return before + text, kept
        case Continuing():
            return before, before
        case Retrying():
            return kept, kept
        case ToolReturned():
            return "", ""
        case _:
            return before, kept
