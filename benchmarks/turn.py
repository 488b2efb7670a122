"""Our own cost of a model call: from a long conversation to the bytes of a request, and from a stream to events.

CPU time, best of several runs. Each figure stands beside `json.dumps` of the whole conversation, or `json.loads` of the
stream, in the same run.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from benchmarks.measure import best_cpu
from hermes.llm.anthropic import Anthropic
from hermes.llm.client import Endpoint
from hermes.llm.openai import OpenAICompatible

if TYPE_CHECKING:
    from hermes.llm.client import HttpModel

HISTORIES = (0, 1_000, 10_000)
_SYSTEM = "You are Hermes. " * 500
_DELTAS = 500
_TIMES = 7


def run() -> dict[str, object]:
    here = Endpoint(model="m", base_url="http://localhost", key="k")
    native = Endpoint(model="m", base_url="http://localhost", key="k", wire="anthropic", cache_points="native")
    return {
        f"{name}_{length}_messages": _call(model, length)
        for name, model in (("openai", OpenAICompatible(here)), ("anthropic", Anthropic(native)))
        for length in HISTORIES
    } | {
        "stream_of_500_deltas_ms": best_cpu(lambda: _read(here), _TIMES) * 1_000,
        "json_loads_of_them_ms": best_cpu(_parse, _TIMES) * 1_000,
    }


def _call(model: HttpModel, length: int) -> dict[str, float]:
    """A later call of a session: everything was sent before but the newest message."""
    history = [message(number) for number in range(length)]
    model.body(_SYSTEM, history, _TOOLS)
    whole = {"messages": [{"role": "system", "content": _SYSTEM}, *history], "tools": _TOOLS}
    body = best_cpu(lambda: model.body(_SYSTEM, [*history, message(length)], _TOOLS), _TIMES) * 1_000
    dumps = best_cpu(lambda: json.dumps(whole, ensure_ascii=False).encode(), _TIMES) * 1_000
    size = len(model.body(_SYSTEM, history, _TOOLS))
    return {"request_ms": body, "json_dumps_ms": dumps, "share": body / dumps, "request_kb": size / 1_000}


def message(number: int) -> dict[str, Any]:
    text = f"message {number}: " + "something was said about the deploy host and its backups. " * 4
    if number % 4 == 1:
        call = {
            "id": f"c{number}",
            "type": "function",
            "function": {"name": "memory", "arguments": '{"action": "add"}'},
        }
        return {"role": "assistant", "content": text, "tool_calls": [call]}
    if number % 4 == 2:  # noqa: PLR2004 - the result follows its call
        return {"role": "tool", "tool_call_id": f"c{number - 1}", "content": text}
    return {"role": ("user", "assistant")[number % 4 == 3], "content": text}  # noqa: PLR2004


_TOOLS = [
    {
        "type": "function",
        "function": {
            "name": f"tool_{number}",
            "description": "What this tool is for, in a sentence or two that the model reads. " * 5,
            "parameters": {"type": "object", "properties": {"text": {"type": "string", "description": "A text."}}},
        },
    }
    for number in range(20)
]
_CHUNKS = [
    json.dumps({"model": "m", "choices": [{"index": 0, "delta": {"content": f" word{number}"}}]})
    for number in range(_DELTAS)
] + [json.dumps({"choices": [{"delta": {}, "finish_reason": "stop"}]})]


def _read(endpoint: Endpoint) -> int:
    return sum(1 for _ in OpenAICompatible(endpoint).read(json.loads(chunk) for chunk in _CHUNKS))


def _parse() -> int:
    return sum(1 for _ in map(json.loads, _CHUNKS))
