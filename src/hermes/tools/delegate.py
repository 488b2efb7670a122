"""The `delegate_task` tool: hands pieces of work to other agents, each in its own session, and waits for them."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from hermes.tools.registry import failure
from hermes.vocabulary.values import value

if TYPE_CHECKING:
    from collections.abc import Callable

    # Runs one task in a session of its own, to its end.
    Run = Callable[["Task"], "Outcome"]

MOST_TASKS = 20
_ROLES = ("leaf", "orchestrator")


@value
class Task:
    goal: str
    context: str = ""
    role: str = "leaf"


@value
class Outcome:
    """`status` is completed, interrupted, limit or failed; then `summary` says why."""

    status: str
    summary: str
    session_id: str = ""
    model: str = ""
    model_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    tools: tuple[str, ...] = ()  # what it called, in order


class DelegateTask:
    brings = "tool"  # the answer may repeat what the other agent read outside
    schema: dict[str, Any] = {  # noqa: RUF012 - a constant of the class
        "name": "delegate_task",
        "description": (
            "Hand work that reads a lot and reports little, or independent pieces at once (tasks), to other agents."
            " They return only their answer, cannot change memory and know nothing of this conversation: put all they"
            " need into context."
        ),
        "parameters": {
            "type": "object",
            "properties": {
                "goal": {"type": "string"},
                "context": {"type": "string"},
                "role": {"type": "string", "enum": list(_ROLES), "description": "orchestrator may delegate too"},
                "tasks": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "goal": {"type": "string"},
                            "context": {"type": "string"},
                            "role": {"type": "string", "enum": list(_ROLES)},
                        },
                        "required": ["goal"],
                    },
                },
                "background": {"type": "boolean"},
            },
        },
    }

    def __init__(self, run: Run, *, at_once: int, longest: int, stop: Callable[[], None]) -> None:
        self._run = run
        self._stop = stop
        self._at_once = at_once
        self._longest = longest

    def call(self, arguments: dict[str, Any]) -> dict[str, Any]:
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
        }
