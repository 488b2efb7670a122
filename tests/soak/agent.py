"""`bin/soak agent`: kills a process in the middle of turns that use tools, and resumes the conversation."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NoReturn

from hermes.agent import Agent
from hermes.base.errors import HermesError
from hermes.base.events import ToolReturned, TurnFinished
from hermes.conversations.database import SessionDB
from hermes.llm.anthropic import Anthropic
from hermes.llm.client import Endpoint
from hermes.llm.openai import OpenAICompatible
from hermes.llm.scripted import Reply, Scripted
from soak.common import Outcome, kill_again_and_again

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from soak.common import Options

SUMMARY = "turns of an agent that uses tools"
DESCRIPTION = """Kills an agent at random points of turns with tool calls. On resume the history must be valid for both
wires and hold everything that was acknowledged. Everything random follows from --seed."""
_KILLS_PER_HOME = 25
_LONGEST_LIVES = (0.02, 0.1, 0.3)


def add_choices(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kills", type=int, default=100, metavar="N", help="how often to kill (default: 100)")


def run(given: argparse.Namespace, options: Options) -> Iterator[Outcome]:
    yield run_kills(given.kills, options)


def run_kills(kills: int, options: Options) -> Outcome:
    outcome = Outcome(name=f"kills in {options.folder}", figures={"acknowledged": 0, "in a turn": 0})
    return kill_again_and_again(kills, options, outcome, _Trial, per_folder=_KILLS_PER_HOME)


class _Trial:
    """One home with one conversation that is killed and resumed again and again."""

    def __init__(self, place: str) -> None:
        self._home = os.path.join(place, "home")
        self._folder = os.path.join(place, "work")
        os.mkdir(self._folder)
        with _agent(self._home, self._folder, None, random.Random(0)) as agent:
            self._session = agent.session.id
        self._stored: list[str] = []  # what was there after the kill before

    def kill_once(self, chance: random.Random, number: int, outcome: Outcome) -> list[str]:
        life = chance.uniform(0, chance.choice(_LONGEST_LIVES))
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            self._talk_until_killed(chance, number, writer)
        os.close(writer)
        with os.fdopen(reader, encoding="utf-8") as pipe:
            first = pipe.readline()  # the agent is open: from here on every moment is one of a turn
            time.sleep(life)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            told = [json.loads(line) for line in [first, *pipe.read().splitlines(keepends=True)] if line.endswith("\n")]
        if failed := [line["error"] for line in told if "error" in line]:
            return [f"the agent failed: {failed[0]}"]
        acknowledged = [line["text"] for line in told if "text" in line]
        outcome.count("acknowledged", len(acknowledged))
        outcome.count("in a turn", 1 if told and "open" not in told[-1] and not told[-1].get("end") else 0)
        try:
            return self._problems(chance, acknowledged)
        except HermesError as error:
            return [f"resuming failed: {error}"]

    def _talk_until_killed(self, chance: random.Random, number: int, pipe: int) -> NoReturn:
        def tell(**fact: Any) -> None:
            os.write(pipe, json.dumps(fact).encode() + b"\n")

        try:
            agent = _agent(self._home, self._folder, self._session, chance)
            tell(open=True)
            for turn in range(1_000):
                asked = f"question {number}.{turn}"
                for event in agent.turn(asked):
                    if asked:
                        tell(text=asked)
                        asked = ""
                    if isinstance(event, ToolReturned):
                        tell(text=event.result)
                    elif isinstance(event, TurnFinished):
                        tell(text=event.reply, end=True)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the parent must hear of it
            tell(error=f"{type(error).__name__}: {error}")
        finally:
            os._exit(1)

    def _problems(self, chance: random.Random, acknowledged: list[str]) -> list[str]:
        problems: list[str] = []
        with _agent(self._home, self._folder, self._session, chance) as agent:
            problems += wire_problems(agent.session.request())
            *_, end = agent.turn("and now?")
            if not isinstance(end, TurnFinished) or end.reason != "stop":
                problems.append(f"the turn after the resume ended with {end!r}")
            problems += wire_problems(agent.session.request())
        with SessionDB.open(os.path.join(self._home, "state.db")) as db:
            found = [_text(each.message) for each in db.messages(self._session)]
        if found[: len(self._stored)] != self._stored:
            problems.append("what was there before the kill has changed")
        rest = iter(found[len(self._stored) :])
        if missing := [text for text in acknowledged if text not in rest]:  # in this order
            problems.append(f"{len(missing)} acknowledged messages are missing, the first is {missing[0][:80]!r}")
        self._stored = found
        return problems


def wire_problems(request: Any) -> list[str]:
    """Whether both wires would take the history: every call with its result, every result with its call."""
    problems: list[str] = []
    openai = OpenAICompatible(Endpoint(model="m", base_url="http://localhost"))
    sent = json.loads(openai.body(request.system, request.messages, request.tools))["messages"]
    waiting: list[str] = []
    for message in sent:
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                problems.append(f"openai: a result without its call: {message['tool_call_id']}")
                continue
            waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            problems.append(f"openai: calls without results: {waiting}")
        waiting = [call["id"] for call in message.get("tool_calls") or ()]
    if waiting:
        problems.append(f"openai: calls without results at the end: {waiting}")
    native = Anthropic(Endpoint(model="m", base_url="http://localhost", wire="anthropic", cache_points="native"))
    blocks = json.loads(native.body(request.system, request.messages, request.tools))["messages"]
    for before, after in pairwise(blocks):
        if before["role"] == after["role"]:
            problems.append("anthropic: two messages of one side in a row")
        used = {block["id"] for block in before["content"] if block["type"] == "tool_use"}
        answered = {block["tool_use_id"] for block in after["content"] if block["type"] == "tool_result"}
        if used != answered:
            problems.append(f"anthropic: calls {used} and results {answered} differ")
    return problems


def _agent(home: str, folder: str, session: str | None, chance: random.Random) -> Agent:
    model = Scripted([lambda messages: _step(messages, chance)] * 10_000, context_length=10_000_000)
    return Agent.open(home, model=model, cwd=folder, resume=session, ask=lambda _question: True)


def _step(messages: Any, chance: random.Random) -> str | Reply:
    """Mostly calls, several at once, until an answer ends the turn."""
    after_tools = messages[-1]["role"] == "tool"
    if messages[-1]["content"] == "and now?" or chance.random() < (0.4 if after_tools else 0.1):
        return f"answer {chance.random()}"
    calls = [_call(chance) for _ in range(chance.randint(1, 4))]
    return Reply(text=chance.choice(("", "I will look.")), reasoning=chance.choice(("", "hm")), calls=calls)


def _call(chance: random.Random) -> tuple[str, dict[str, Any]]:
    name = f"file{chance.randint(0, 5)}.txt"
    return chance.choice(
        (
            ("write_file", {"path": name, "content": f"text {chance.random()}"}),
            ("read_file", {"path": name}),
            ("search_files", {}),
            ("todo", {"todos": [{"id": "1", "content": f"step {chance.random()}", "status": "pending"}]}),
            ("memory", {"action": "add", "target": "memory", "content": f"Fact {chance.random()}."}),
            ("session_search", {"query": "question"}),
            ("nothing", {}),
        )
    )


def _text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
