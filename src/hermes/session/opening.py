"""What an agent is made of before its session exists; a delegated task is opened from what its parent was made of."""

from __future__ import annotations

import os
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from hermes.session.models import main_model
from hermes.session.toolsets import check_names, is_enabled, toolsets_of
from hermes.settings.load import load_settings
from hermes.tools.builtin import Kit

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from hermes.llm.client import Model
    from hermes.session.session import MemorySession
    from hermes.settings.home import Home
    from hermes.tools.delegate import Outcome, Task
    from hermes.tools.mcp_servers import McpServers
    from hermes.tools.registry import Tool

# What a delegated task never gets: its result is what counts, and memory is the parent's business.
_NOT_FOR_CHILDREN = frozenset({"memory", "delegation"})
_REMEMBERED = 1_000  # messages in which the list of steps is looked for


class Opening:
    """Settings, model, toolsets and tools; `run_task` runs a delegated task in an agent of its own."""

    def __init__(
        self,
        home: Home,
        source: str,
        *,
        owner: str,
        cwd: str | None,
        model: str | Model,
        ask: Callable[[str], bool] | None,
        toolsets: Collection[str] | None,
        depth: int = 0,
        delegates: bool = True,
        run_task: Callable[[Opening, Task], Outcome],
    ) -> None:
        self.home, self.source, self.owner, self.cwd, self.ask, self.depth = home, source, owner, cwd, ask, depth
        self.settings = load_settings(home)
        self._named = model
        self.model = main_model(self.settings, model) if isinstance(model, str) else _checked(model)
        self.toolsets = toolsets_of(self.settings, source) if toolsets is None else check_names(toolsets)
        self.stop = threading.Event()
        self.session: list[MemorySession] = []  # known once it is open
        self.servers: McpServers | None = None
        self.kit: Kit | None = None
        self.problems: list[str] = []
        self._run_task = run_task
        self._delegates = delegates and depth < self.settings.integer("delegation.max_spawn_depth")

    def makers(self) -> dict[str, Callable[[], Tool]]:
        kit = self.kit = Kit(
            self.settings,
            folder=self.cwd or os.getcwd(),
            home=self.home.above or self.home.root,
            ask=self.ask,
            cancelled=self.stop.is_set,
            history=self._history,
            delegate=partial(self._run_task, self) if self._delegates else None,
            stop=self.stop.set,
        )
        made = {name: make for name, make in kit.makers().items() if is_enabled(name, self.toolsets)}
        if "mcp" in self.toolsets and self.settings.get("mcp_servers"):
            from hermes.tools.mcp_servers import McpServers

            self.servers = McpServers.of(self.settings, self.home, self.stop.is_set)
            made |= self.servers.makers()
            self.problems += self.servers.problems
        return made

    def _history(self) -> list[dict[str, Any]]:
        """The newest messages of the session, oldest first, those that were compacted out of the context included."""
        session = self.session[0]
        found = session.database.messages(session.id, limit=_REMEMBERED, newest=True)
        return [each.message for each in sorted(found, key=lambda each: each.id)]

    def close(self) -> None:
        if self.servers is not None:
            self.servers.close()

    def child(self, task: Task) -> Opening:
        settings = self.settings
        orchestrates = task.role == "orchestrator" and settings.flag("delegation.orchestrator_enabled")
        kept = self.toolsets - (_NOT_FOR_CHILDREN - {"delegation"} if orchestrates else _NOT_FOR_CHILDREN)
        if not settings.flag("delegation.inherit_mcp_toolsets"):
            kept -= {"mcp"}
        return Opening(
            self.home,
            "subagent",
            owner=self.owner,
            cwd=self.cwd,
            # A model over HTTP keeps the bytes of one conversation, so each conversation has its own.
            model=self._named,
            ask=(lambda _question: True) if settings.flag("delegation.subagent_auto_approve") else None,
            toolsets=kept,
            depth=self.depth + 1,
            delegates=orchestrates,
            run_task=self._run_task,
        )

    def child_options(self) -> dict[str, Any]:
        return {
            "parent": self.session[0].id,
            "skip_memory": True,
            "skip_context_files": True,
            "limit": self.settings.integer("delegation.max_iterations"),
        }

    def stopped(self) -> Callable[[], bool]:
        seconds = self.settings.integer("delegation.child_timeout_seconds")
        end = time.monotonic() + seconds if seconds else float("inf")
        return lambda: self.stop.is_set() or time.monotonic() > end


def _checked(model: Model) -> Model:
    """A model that a program hands in is one, or an error says what is one."""
    if missing := [name for name in ("name", "context_length", "stream") if not hasattr(model, name)]:
        raise TypeError(
            f"a model is a name, or an object with name, context_length and stream; {model!r} has no {missing[0]}"
        )
    return model
