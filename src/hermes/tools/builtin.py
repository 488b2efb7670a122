"""The tools of our own agent, apart from those in `tools/memory`: files, terminal, web, todo, delegated tasks."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import TYPE_CHECKING, Any

from hermes.base.values import value
from hermes.tools.paths import AllowedPaths, Limits
from hermes.tools.registry import SCHEMAS, TOOLSETS, failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Run = Callable[["Task"], "Outcome"]
    from hermes.settings.config import Settings
    from hermes.settings.trust import TrustedFolders
    from hermes.tools.paths import Ask
    from hermes.tools.registry import Tool

STATES = ("pending", "in_progress", "completed", "cancelled")
MOST_ITEMS, LONGEST_ITEM = 256, 4_000  # of a list, and characters of one item
HEADER = "[Your active task list was preserved across context compression]"
# Of the open items, which alone are shown again after a compaction.
_MARKS = {"pending": "[ ]", "in_progress": "[>]"}


class Todo:
    """The tool `todo`: the model's list of steps for the work at hand, kept in the conversation itself."""

    brings = ""
    sink = ""
    schema = SCHEMAS["todo"]

    def __init__(self, history: Callable[[], Iterable[Mapping[str, Any]]] = lambda: ()) -> None:
        """`history` gives the messages of the conversation; a resumed session finds its list in them."""
        self._history = history
        self._items: list[dict[str, str]] | None = None

    def call(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Replaces the list, or merges items into it by id; returns the whole list with a count for each state."""
        items = self._current()
        if "todos" in arguments:
            given = {each["id"]: {key: each[key] for key in ("id", "content", "status")} for each in arguments["todos"]}
            merged = {each["id"]: each for each in items} | given if arguments.get("merge") else given
            if len(merged) > MOST_ITEMS:
                return failure(f"a list may have {MOST_ITEMS} items, this one has {len(merged)}")
            if too_long := [each["id"] for each in merged.values() if len(each["content"]) > LONGEST_ITEM]:
                return failure(f"an item may have {LONGEST_ITEM:,} characters; too long: {', '.join(too_long)}")
            items = self._items = list(merged.values())
        counts = {state: sum(1 for each in items if each["status"] == state) for state in STATES}
        return {"todos": items, "summary": {"total": len(items), **counts}}

    def snapshot(self) -> str:
        """The open items as text, to be shown again after a compaction removed the list; "" when nothing is open."""
        lines = [
            f"- {_MARKS[each['status']]} {each['id']}. {each['content']} ({each['status']})"
            for each in self._current()
            if each["status"] in _MARKS
        ]
        return "\n".join([HEADER, *lines]) if lines else ""

    def _current(self) -> list[dict[str, str]]:
        if self._items is None:
            self._items = _restored(self._history())
        return self._items


def _restored(messages: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    """The list in the newest result of this tool."""
    for message in reversed(list(messages)):
        if message["role"] == "tool" and message.get("name") == Todo.schema["name"]:
            try:
                items = json.loads(str(message.get("content"))).get("todos")
            except (ValueError, AttributeError):
                continue
            if isinstance(items, list):
                return [each for each in items if isinstance(each, dict) and each.keys() >= {"id", "content", "status"}]
    return []


MOST_TASKS = 20  # in one call


@value
class Task:
    """A task for a delegated agent: its goal, what it must know, and its role."""

    goal: str
    context: str = ""
    role: str = "leaf"


@value
class Outcome:
    """How a delegated task ended: `status` is completed, interrupted, limit or failed, `summary` the answer or why."""

    status: str
    summary: str
    session_id: str = ""
    model: str = ""
    model_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    tools: tuple[str, ...] = ()  # what it called, in order
    read_outside: bool = True  # its answer may repeat text from outside


class DelegateTask:
    """Hands pieces of work to other agents, each in its own session, and waits for them."""

    sink = ""  # the other agent's own calls pass the gate, which also counts what this agent has read
    schema = SCHEMAS["delegate_task"]

    def __init__(self, run: Run, *, at_once: int, longest: int, stop: Callable[[], None]) -> None:
        self._run = run
        self._stop = stop
        self._at_once = at_once
        self._longest = longest

    def call(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Runs all tasks to their end, some at the same time, and returns their answers in the order given."""
        given = arguments.get("tasks") or ([arguments] if arguments.get("goal", "").strip() else [])
        fields = ("goal", "context", "role")
        tasks = [Task(**{name: each[name] for name in fields if name in each}) for each in given]
        if not tasks or len(tasks) > MOST_TASKS:
            return failure(f"give a goal, or 1 to {MOST_TASKS} tasks")
        start = time.monotonic()
        with ThreadPoolExecutor(max_workers=min(self._at_once, len(tasks)), thread_name_prefix="delegate") as pool:
            try:
                results = list(pool.map(self._one, range(len(tasks)), tasks))
            except BaseException:  # Ctrl-C: the pool waits for its tasks, so they must end
                self._stop()
                raise
        done = all(each["status"] == "completed" for each in results)
        return {"success": done, "results": results, "total_duration_seconds": round(time.monotonic() - start, 2)}

    def _one(self, number: int, task: Task) -> dict[str, Any]:
        """Runs one task, and describes how it ended and what it used."""
        start = time.monotonic()
        outcome = self._run(task)
        answer = outcome.summary
        if len(answer) > self._longest:
            answer = f"{answer[: self._longest]}\n[… {len(answer) - self._longest:,} more characters …]"
        return {
            "task_index": number,
            "status": outcome.status,
            ("summary" if outcome.status == "completed" else "error"): answer,
            "session_id": outcome.session_id,
            "api_calls": outcome.model_calls,
            "duration_seconds": round(time.monotonic() - start, 2),
            "model": outcome.model,
            "exit_reason": outcome.status,
            "tokens": {"input": outcome.input_tokens, "output": outcome.output_tokens},
            "tool_trace": list(outcome.tools),
            "read_outside": outcome.read_outside,
        }

    def origin_of(self, _arguments: dict[str, Any], result: dict[str, Any], _turn: object) -> str:
        """From outside if one of the agents read text from outside, because its answer may repeat it."""
        return "tool" if any(each["read_outside"] for each in result.get("results", ())) else ""


@value
class BuiltinTools:
    """What the tools of one agent share: the folder they work in, whom to ask, when to stop, who runs delegated tasks.

    Without `delegate`, tasks cannot be delegated. `stop` asks running work to end; it notices through `cancelled`.
    Files in folders that are not `trusted` are text from outside; without that list, all files are.
    """

    settings: Settings
    folder: str
    home: str
    ask: Ask | None
    cancelled: Callable[[], bool]
    history: Callable[[], Iterable[Mapping[str, Any]]]
    delegate: Run | None = None
    stop: Callable[[], None] = lambda: None
    trusted: TrustedFolders | None = None

    def makers(self) -> dict[str, Callable[[], Tool]]:
        """A maker for each tool by name, so that a toolset that is off costs nothing, not even its imports."""
        made: dict[str, Callable[[], Tool]] = {
            **{name: lambda name=name: self._file_tools[name] for name in TOOLSETS["files"]},  # type: ignore[misc]
            "terminal": self._terminal,
            "fetch_url": self._fetch_url,
            "todo": lambda: self._steps,
        }
        if (delegate := self.delegate) is not None:
            made["delegate_task"] = lambda: DelegateTask(
                delegate,
                at_once=self.settings.integer("delegation.max_concurrent_children"),
                longest=self.settings.integer("delegation.max_summary_chars"),
                stop=self.stop,
            )
        return made

    def open_steps(self) -> str:
        """The open items of the todo list as text; "" when nothing is open."""
        return self._steps.snapshot()

    @cached_property
    def _steps(self) -> Todo:
        return Todo(self.history)

    @cached_property
    def _limits(self) -> Limits:
        return Limits.of(self.settings)

    @cached_property
    def _paths(self) -> AllowedPaths:
        return AllowedPaths(
            self.folder,
            home=self.home,
            allowed=self.settings.texts("files.allowed_folders"),
            outside=self.settings.text("files.outside"),
            ask=self.ask,
            trusted=self.trusted,
        )

    @cached_property
    def _file_tools(self) -> dict[str, Tool]:
        from hermes.tools.files import Patch, ReadFile, SearchFiles, WriteFile

        return {
            "read_file": ReadFile(self._paths, self._limits),
            "write_file": WriteFile(self._paths),
            "patch": Patch(self._paths),
            "search_files": SearchFiles(self._paths, self._limits, self.cancelled),
        }

    def _terminal(self) -> Tool:
        from hermes.tools.terminal import Policy, Terminal

        policy = Policy(
            mode=self.settings.text("terminal.policy"),
            allowed=self.settings.texts("command_allowlist"),
            seconds=self.settings.integer("terminal.timeout"),
            passed_on=self.settings.texts("terminal.pass_environment"),
        )
        return Terminal(self._paths, self._limits, policy, self.ask, self.cancelled)

    def _fetch_url(self) -> Tool:
        from hermes.tools.fetch import FetchUrl, WebPolicy

        policy = WebPolicy(
            allow_private=self.settings.flag("web.allow_private_addresses"),
            max_bytes=self.settings.integer("web.max_bytes"),
            seconds=self.settings.number("web.timeout"),
        )
        return FetchUrl(policy, self._limits, self.cancelled)
