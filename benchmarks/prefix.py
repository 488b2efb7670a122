"""What the frozen prompt is worth, with a real model: a ten-turn conversation beside the same one done the naive way.

The conversation writes memory, searches and is resumed. Frozen, the prompt is built once. Naive, the memory block is
built again for every turn, as programs do that want the model to see its notes at once. Both go to the embedded model;
what its server took from its cache and how long the first token took is what the server says and the clock shows.

The model is too small to call tools, so it is asked as always, and where the conversation wants a call its answer is
replaced by that call. Tokens of both model calls of such a turn are counted. Its template leaves tools out; they are
written before the system prompt, where providers put them.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hermes.base.events import Finished, TurnFinished, Usage
from hermes.llm.client import never
from hermes.llm.embedded import NAME, EmbeddedModel
from hermes.memory.store import MemoryStore
from hermes.session.parts import open_parts
from hermes.session.session import MemorySession
from hermes.tools.loop import run_turn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hermes.base.events import ModelEvent
    from hermes.llm.client import Message, Model

TARGET = 0.95
_LONGEST_ANSWER = 24
_RESUMED_BEFORE = 8  # the turn before which the session is closed and opened again


def _write(text: str, target: str = "memory") -> tuple[str, dict[str, Any]]:
    return "memory", {"action": "add", "target": target, "content": text}


# What is said, and the tool call that the turn makes.
_TURNS: tuple[tuple[str, tuple[str, dict[str, Any]] | None], ...] = (
    ("Good morning. What shall we do first today?", None),
    ("Please remember that the deploy host runs Debian 13.", _write("The deploy host runs Debian 13.")),
    ("And which step comes after that?", None),
    ("Remember that I like short answers.", _write("Likes short answers.", "user")),
    ("What did we say about the backups?", ("session_search", {"query": "backups", "limit": 1})),
    ("Remember: staging is rebuilt on Mondays.", _write("Staging is rebuilt on Mondays.")),
    ("Tell me something about the sea.", None),
    ("I am back. Where were we?", None),
    ("Remember that the tests need Python 3.11.", _write("The tests need Python 3.11.")),
    ("Thank you. What is left for tomorrow?", None),
)
TURNS = 2 * len(_TURNS)


def run(model: str = NAME, told: Callable[[int], None] = lambda _turns: None) -> dict[str, Any]:
    """`told` is called with the number of turns that are done, of `TURNS` in all."""
    embedded = EmbeddedModel(model, longest_answer=_LONGEST_ANSWER)
    embedded.start()
    return {"model": embedded.name, "threads": embedded.threads, **compare(embedded, told)}


def compare(model: Model, told: Callable[[int], None] = lambda _turns: None) -> dict[str, Any]:
    frozen = _conversation(model, told, naive=False)
    naive = _conversation(model, lambda turns: told(turns + len(_TURNS)), naive=True)
    later = [turn["share"] for turn in frozen[1:]]
    return {
        "turns": [
            {"turn": number, "what": _what(number), "frozen": one, "naive": other}
            for number, (one, other) in enumerate(zip(frozen, naive, strict=True), start=1)
        ],
        "smallest_share_after_first_turn": min(later),
        "smallest_share_naive": min(turn["share"] for turn in naive[1:]),
        "target": TARGET,
        "met": min(later) >= TARGET,
        "seconds_to_first_token_after_first_turn": round(sum(turn["seconds"] for turn in frozen[1:]), 2),
        "seconds_to_first_token_naive": round(sum(turn["seconds"] for turn in naive[1:]), 2),
    }


def _what(number: int) -> str:
    call = _TURNS[number - 1][1]
    what = {"memory": "a memory write", "session_search": "a search"}[call[0]] if call else "talk"
    return f"{what}, after a resume" if number == _RESUMED_BEFORE else what


def _conversation(model: Model, told: Callable[[int], None], *, naive: bool) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as place:
        home, project = os.path.join(place, "home"), os.path.join(place, "project")
        _furnish(home, project)
        rebuilt = (lambda: _prompt_now(home, project)) if naive else None
        watched = _Watched(model, rebuilt)
        session = MemorySession.open(home, model=model.name, cwd=project)
        try:
            measured = []
            for number, (said, call) in enumerate(_TURNS, start=1):
                if number == _RESUMED_BEFORE:
                    session.close()
                    session = MemorySession.open(home, resume=session.id)
                measured.append(_turn(session, watched, said, call))
                told(number)
            return measured
        finally:
            session.close()


def _turn(
    session: MemorySession, model: _Watched, said: str, call: tuple[str, dict[str, Any]] | None
) -> dict[str, Any]:
    model.calls, model.asked = ([call] if call else []), []
    session.prepare_turn(said)
    end = list(run_turn(model, session))[-1]
    if not isinstance(end, TurnFinished):
        raise TypeError(f"a turn ended with {end!r}")
    session.finish_turn(end.reply, usage=end.usage, model=end.model)
    tokens = sum((usage for usage, _ in model.asked), start=Usage())
    return {
        "prompt_tokens": tokens.input_tokens,
        "cached_tokens": tokens.cache_read_tokens,
        "share": round(tokens.cached_share, 4),
        "seconds": round(sum(seconds for _, seconds in model.asked), 3),
        "model_calls": len(model.asked),
    }


@dataclass
class _Watched:
    """The embedded model, with calls put in the place of its answers and a clock beside it."""

    inner: Model
    rebuilt: Callable[[], str] | None
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    asked: list[tuple[Usage, float]] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def context_length(self) -> int:
        return self.inner.context_length

    def stream(
        self,
        system: str,
        messages: Sequence[Message],
        tools: Sequence[Message] = (),
        *,
        cancelled: Callable[[], bool] = never,
    ) -> Iterator[ModelEvent]:
        prompt = self.rebuilt() if self.rebuilt is not None else system
        prompt = f"{json.dumps(list(tools))}\n\n{prompt}"
        start = time.perf_counter()
        first, call = 0.0, self.calls.pop() if self.calls else None
        for event in self.inner.stream(prompt, messages, cancelled=cancelled):
            first = first or time.perf_counter() - start
            if isinstance(event, Finished):
                self.asked.append((event.usage, first))
                yield event if call is None else _calling(event, call, f"call_{len(messages)}")
            elif call is None:
                yield event


def _calling(answer: Finished, call: tuple[str, dict[str, Any]], call_id: str) -> Finished:
    function = {"name": call[0], "arguments": json.dumps(call[1])}
    message = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": call_id, "type": "function", "function": function}],
    }
    return Finished(message=message, usage=answer.usage, reason="tool_calls", model=answer.model)


def _prompt_now(home: str, project: str) -> str:
    parts = open_parts(home)
    try:
        return parts.build_prompt(model=NAME, cwd=project, platform="cli").text
    finally:
        parts.close()


def _furnish(home: str, project: str) -> None:
    """A home in use: some notes, a project with a file for agents, an earlier conversation."""
    os.makedirs(project)
    with open(os.path.join(project, "AGENTS.md"), "w", encoding="utf-8") as file:
        file.writelines(f"- Rule {number}: {_RULES[number % len(_RULES)]}\n" for number in range(30))
    store = MemoryStore.open(home)
    for note in ("The team meets on Tuesdays.", "Releases are cut from main.", "The wiki is out of date."):
        store.add("memory", note)
    with MemorySession.open(home, title="backups") as earlier:
        earlier.prepare_turn("How are the backups made?")
        earlier.finish_turn("Every night at three, to the second disk.")


_RULES = (
    "run the tests before every commit and read what they say.",
    "write names that explain themselves, and comments that say why.",
    "keep functions on one screen; split a file before it is long.",
    "never commit a secret; keys belong into the environment.",
    "describe what a change does for the people who use it.",
)
