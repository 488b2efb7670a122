"""Conversations of every kind, as our messages and by hand as Anthropic's, for the tests of both wires."""

from __future__ import annotations

from typing import Any

SYSTEM = "You are Hermes. 你好 — “quotes” and \\ backslashes."
TOOL = {
    "type": "function",
    "function": {
        "name": "memory",
        "description": "Keep a fact.",
        "parameters": {"type": "object", "properties": {"content": {"type": "string"}}, "required": ["content"]},
    },
}
CLAUDE_TOOL = {
    "name": "memory",
    "description": "Keep a fact.",
    "input_schema": {"type": "object", "properties": {"content": {"type": "string"}}, "required": ["content"]},
}
PNG = "iVBORw0KGgo="


def call(call_id: str, arguments: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "memory", "arguments": arguments}}


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "text": content}


def use(call_id: str, given: dict[str, Any]) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "memory", "input": given}


def result(call_id: str, content: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": [text(content)]}


PLAIN: list[dict[str, Any]] = [
    {"role": "user", "content": "hello 世界"},
    {"role": "assistant", "content": "hi"},
    {"role": "user", "content": "more\n\ttext \u2028 here"},
]
CALLS: list[dict[str, Any]] = [
    {"role": "user", "content": "remember two things"},
    {"role": "assistant", "content": "Sure.", "tool_calls": [call("c1", '{"content": "茶"}'), call("c2", "{}")]},
    {"role": "tool", "tool_call_id": "c1", "content": '{"success": true}'},
    {"role": "tool", "tool_call_id": "c2", "content": '{"success": false}'},
    {"role": "assistant", "content": None, "tool_calls": [call("c3", '{"content": "again"}')]},
    {"role": "tool", "tool_call_id": "c3", "content": "done"},
]
IMAGES: list[dict[str, Any]] = [
    {
        "role": "user",
        "content": [
            text("what is this?"),
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
            {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
        ],
    },
]
THINKING: list[dict[str, Any]] = [
    {"role": "user", "content": "think"},
    {
        "role": "assistant",
        "content": [text("First."), text("Second.")],
        "tool_calls": [call("c1", "{}")],
        "reasoning": "hm so",
        "reasoning_details": [
            {"type": "thinking", "thinking": "hm", "signature": "s1", "index": 0, "model": "m"},
            {"type": "redacted_thinking", "data": "xyz", "index": 2, "model": "m"},
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "ok"},
]

CONVERSATIONS: dict[str, list[dict[str, Any]]] = {
    "plain": PLAIN,
    "calls": CALLS,
    "images": IMAGES,
    "thinking": THINKING,
}
AS_CLAUDE: dict[str, list[dict[str, Any]]] = {
    "plain": [
        {"role": "user", "content": [text("hello 世界")]},
        {"role": "assistant", "content": [text("hi")]},
        {"role": "user", "content": [text("more\n\ttext \u2028 here")]},
    ],
    "calls": [
        {"role": "user", "content": [text("remember two things")]},
        {"role": "assistant", "content": [text("Sure."), use("c1", {"content": "茶"}), use("c2", {})]},
        {"role": "user", "content": [result("c1", '{"success": true}'), result("c2", '{"success": false}')]},
        {"role": "assistant", "content": [use("c3", {"content": "again"})]},
        {"role": "user", "content": [result("c3", "done")]},
    ],
    "images": [
        {
            "role": "user",
            "content": [
                text("what is this?"),
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
                {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
            ],
        },
    ],
    "thinking": [
        {"role": "user", "content": [text("think")]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s1"},
                text("First."),
                {"type": "redacted_thinking", "data": "xyz"},
                text("Second."),
                use("c1", {}),
            ],
        },
        {"role": "user", "content": [result("c1", "ok")]},
    ],
}
