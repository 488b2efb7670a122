"""Generated histories of every awkward kind, and what both wire formats demand of one."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

Message = dict[str, Any]

SCRIPTS = (
    "the build failed in src/app.py with E1234, we must never use port 8080 ",
    "我们决定采用方案乙。订单号是 ORD-7781。必须在周五之前完成。",
    "ユーザーは必ず /etc/hosts を変更しないでください。",
    "Мы решили использовать очередь q_42. Почему падает тест? ",
    "🙂 ok? ",
)
PICTURE = {"type": "image_url", "image_url": {"url": "https://example.com/picture.png"}}


@st.composite
def histories(draw: st.DrawFn, most: int = 25) -> list[Message]:
    """Turns with tool groups, parallel calls, missing and stray results, pictures, doubled roles, huge messages."""
    messages: list[Message] = [{"role": "system", "content": "You are Hermes."}] if draw(st.booleans()) else []
    messages.append({"role": "user", "content": draw(texts())})
    kinds = st.sampled_from(("user", "assistant", "calls", "calls", "calls", "picture", "stray", "half"))
    for number, kind in enumerate(draw(st.lists(kinds, min_size=4, max_size=most))):
        messages += draw(turn(kind, number))
    return messages


def texts() -> st.SearchStrategy[str]:
    return st.builds(
        lambda text, times, mark: f"{text * times}{mark}",
        st.sampled_from(SCRIPTS),
        st.sampled_from((1, 1, 2, 6, 40, 200)),
        st.integers(0, 10**6),
    )


@st.composite
def turn(draw: st.DrawFn, kind: str, number: int) -> list[Message]:
    text = draw(texts())
    if kind in ("user", "assistant"):
        return [{"role": kind, "content": text}]
    if kind == "picture":
        return [{"role": "user", "content": [{"type": "text", "text": text}, PICTURE]}]
    if kind == "stray":
        return [{"role": "tool", "tool_call_id": f"nobody-{number}", "content": text}]
    ids = [f"call-{number}-{each}" for each in range(draw(st.integers(1, 3)))]
    results = [{"role": "tool", "tool_call_id": each, "content": draw(texts())} for each in ids]
    if kind == "half":
        results = results[1:]
    said = draw(st.sampled_from((None, text)))
    return [{"role": "assistant", "content": said, "tool_calls": [call(each) for each in ids]}, *results]


def call(number: str) -> Message:
    arguments = json.dumps({"command": f"pytest tests/{number}.py"})
    return {"id": number, "type": "function", "function": {"name": "terminal", "arguments": arguments}}


def openai_faults(messages: list[Message]) -> list[str]:
    """Calls without a result right behind them, and results without such a call."""
    faults: list[str] = []
    open_calls: set[str] = set()
    for at, message in enumerate(messages):
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                faults.append(f"{at}: a result without a call")
            open_calls.discard(message["tool_call_id"])
            continue
        if open_calls:
            faults.append(f"{at}: calls {sorted(open_calls)} have no result")
        open_calls = {each["id"] for each in message.get("tool_calls") or ()}
    return faults + [f"end: calls {sorted(open_calls)} have no result"] * bool(open_calls)


def anthropic_faults(messages: list[Message], given: list[Message]) -> list[str]:
    """The first message is the user's, if it was; nothing of ours stands beside a message of the same role."""
    spoken = [message for message in messages if message["role"] != "system"]
    before = [message for message in given if message["role"] != "system"]
    faults = ["it does not begin with the user"] if spoken[0]["role"] != "user" and before[0]["role"] == "user" else []
    known = [id(message) for message in given]
    for one, other in pairwise(spoken):
        ours = id(one) not in known or id(other) not in known
        wire = [("user" if message["role"] == "tool" else message["role"]) for message in (one, other)]
        if ours and wire[0] == wire[1] and "tool" not in (one["role"], other["role"]):
            faults.append(f"two messages of the {wire[0]} in a row")
    return faults + [f"empty {message['role']}" for message in spoken if message["content"] == ""]


def working_session(turns: int, words: int = 60) -> list[Message]:
    """A plain session with a tool call per turn: about `4 * turns` messages."""
    messages: list[Message] = [{"role": "system", "content": "You are Hermes."}]
    for number in range(turns):
        result = f"{'checked another module and went on ' * (words // 6)}\n{number} passed in 0.{number}s"
        messages += [
            {"role": "user", "content": f"Please repair module_{number} in src/module_{number}.py for me."},
            {"role": "assistant", "content": None, "tool_calls": [call(f"call-{number}")]},
            {"role": "tool", "tool_call_id": f"call-{number}", "content": result},
            {"role": "assistant", "content": f"Repaired module_{number}; the tests pass again."},
        ]
    return messages
