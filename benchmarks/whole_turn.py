"""A whole turn of an agent without its model: from a person's line to the stored reply, in short and long sessions.

The model is the OpenAI wire with a canned stream instead of a network: its requests are encoded and its answer is
parsed as always. CPU time of the process, threads included; the median of several turns.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any, Self

from benchmarks import turn
from benchmarks.measure import median
from hermes.agent import Agent
from hermes.conversations.database import SessionDB
from hermes.llm.client import NO_OPTIONS, Endpoint
from hermes.llm.openai import OpenAICompatible
from hermes.memory.store import MemoryStore
from hermes.session.session import MemorySession

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hermes.base.events import ModelEvent
    from hermes.llm.client import Message, Options

LONG = 10_000
TURNS = 15
_WORDS = 60  # deltas of an answer


class Canned(OpenAICompatible):
    """Encodes each request and reads an answer that is already there; a first call of `tool` may come before it."""

    def __init__(self, *, tool: str = "") -> None:
        super().__init__(Endpoint(model="canned", base_url="http://localhost", context_length=100_000_000))
        self._tool = tool

    def stream(
        self,
        system: str,
        messages: Sequence[Message],
        tools: Sequence[Message] = (),
        *,
        cancelled: Callable[[], bool] = lambda: False,
        options: Options = NO_OPTIONS,
    ) -> Iterator[ModelEvent]:
        self.body(system, messages, tools, options)
        calls = bool(self._tool) and messages[-1]["role"] == "user"
        for event in self.read(json.loads(chunk) for chunk in (_call(self._tool) if calls else _ANSWER)):
            cancelled()
            yield event


def run() -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="hermes-bench-") as place:
        full = os.path.join(place, "full")
        with (
            _Side(os.path.join(place, "empty"), 0) as empty,
            _Side(full, LONG) as long,
            _Side(os.path.join(place, "tools"), 0, tool="todo") as tools,
        ):
            for _ in range(TURNS + 1):  # in turns, so that a busy machine disturbs all alike
                for side in (empty, long, tools):
                    side.turn()
        return {
            "empty_history_ms": empty.figures(),
            f"with_{LONG}_messages_ms": long.figures(),
            "long_over_empty": long.figures()["turn"] / empty.figures()["turn"],
            "with_a_tool_call_ms": tools.figures(),
            "receipt": _receipt(os.path.join(place, "receipt")),
            **_memory(full),
            **turn.run(),
        }


class _Side:
    """One agent in a session of some length, and what its turns took."""

    def __init__(self, home: str, messages: int, *, tool: str = "") -> None:
        session = _history(home, messages)
        start = time.process_time()
        self._agent = Agent.open(home, model=Canned(tool=tool), resume=session)
        self._opened = (time.process_time() - start) * 1_000
        self._taken: list[float] = []

    def turn(self) -> None:
        self._taken.append(_timed(self._agent, len(self._taken)))

    def figures(self) -> dict[str, float]:
        return {"open": self._opened, "first_turn": self._taken[0], "turn": median(self._taken[1:])}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._agent.close()


class _Timed(MemorySession):
    """A session that notes what its receipts take."""

    receipts: list[float]

    def _receipt(self, *given: Any) -> Any:
        start = time.process_time()
        try:
            return super()._receipt(*given)
        finally:
            self.receipts.append((time.process_time() - start) * 1_000)


def _receipt(home: str) -> dict[str, float]:
    """What a receipt takes of the CPU of `finish_turn`: ten entries, every second turn saves one more."""
    store = MemoryStore.open(home)
    for number in range(10):
        store.add("memory", f"Entry {number}: the deploy host number {number} is in rack {number}.")
    finished: list[float] = []
    usage = {"input_tokens": 1_000, "output_tokens": 60, "cache_read_tokens": 900}
    with _Timed.open(home) as session:
        session.receipts = []
        for number in range(2 * TURNS):
            session.prepare_turn(f"question {number}: {'what did we decide about the deploy host? ' * 10}")
            if number % 2:
                content = f"Fact {number}."
                session.call_tool("memory", {"action": "add", "target": "user", "content": content})
            start = time.process_time()
            session.finish_turn("We decided that. " * 30, usage=usage, model="claude-sonnet-4-5")
            finished.append((time.process_time() - start) * 1_000)
        taken = session.receipts
        stored = session.database.messages(session.id, newest=True, limit=1)[0].message["receipt"]
    typical, whole = median(taken[1:]), median(finished[1:])
    return {
        "receipt_ms": typical,
        "first_of_a_home_ms": taken[0],
        "worst_later_ms": max(taken[1:]),
        "finish_turn_ms": whole,
        "share_of_finish_turn": typical / whole,
        "bytes": float(len(json.dumps(stored))),
    }


def _timed(agent: Agent, number: int) -> float:
    start = time.process_time()
    for _ in agent.turn(f"question {number}: what did we decide about the deploy host?"):
        pass
    return (time.process_time() - start) * 1_000


def _history(home: str, messages: int) -> str:
    """A session with so many messages, some of them calls and results."""
    os.mkdir(home)
    with open(os.path.join(home, "config.yaml"), "w", encoding="utf-8") as file:
        # The history stays as long as it is, and no review, which is a conversation of its own, runs beside a turn.
        file.write("compression: {hygiene_hard_message_limit: 1000000}\nmemory: {nudge_interval: 0}\n")
        file.write("skills: {creation_nudge_interval: 0}\n")
    with Agent.open(home, model=Canned()) as agent:
        session = agent.session.id
    history = [turn.message(number) for number in range(messages)]
    if history:  # as a session stores it: what the provider counted stands beside the answer
        history[-1] = {"role": "assistant", "content": "Done.", "prompt_tokens": 60 * messages}
    with SessionDB.open(os.path.join(home, "state.db")) as db:
        db.append_many(session, history)
        db.index()
    return session


def _memory(home: str) -> dict[str, float]:
    """Megabytes a process with the chat loaded takes more than a bare Python, after a turn in the long session."""
    with SessionDB.open(os.path.join(home, "state.db")) as db:
        session = db.list_sessions()[0].id
    script = (
        "import hermes.cli.app, hermes.cli.commands.chat\n"
        "from benchmarks.whole_turn import Canned\nfrom hermes.agent import Agent\n"
        f"with Agent.open({home!r}, model=Canned(), resume={session!r}) as agent:\n"
        "    for _ in agent.turn('hello'): pass\n"
    )
    bare, loaded, ours = _peak("pass"), _peak(script.partition("with ")[0]), _peak(script)
    return {"peak_memory_mb": ours, "chat_loaded_above_python_mb": loaded - bare, "turn_above_python_mb": ours - bare}


def _peak(script: str) -> float:
    """The most memory a process took; asked inside, because outside what its parent had is counted, too."""
    ran = subprocess.run(
        [sys.executable, "-P", "-c", f"{script}\n{_ASK_PEAK}"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        capture_output=True,
        text=True,
        check=True,
    )
    return int(ran.stdout.split()[-1]) / 1_000


_ASK_PEAK = """
import os, resource
if os.path.exists("/proc/self/status"):
    print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
else:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def _call(tool: str) -> list[str]:
    function = {"index": 0, "id": "call_1", "function": {"name": tool, "arguments": "{}"}}
    return [json.dumps({"model": "canned", "choices": [{"delta": {"tool_calls": [function]}}]}), _end("tool_calls")]


def _end(reason: str) -> str:
    usage = {"prompt_tokens": 1_000, "completion_tokens": 60, "prompt_tokens_details": {"cached_tokens": 900}}
    return json.dumps({"choices": [{"delta": {}, "finish_reason": reason}], "usage": usage})


_DELTAS = ({"choices": [{"delta": {"content": f" word{number}"}}]} for number in range(_WORDS))
_ANSWER = [*map(json.dumps, _DELTAS), _end("stop")]
