"""Letta's agent files (`.af`): one JSON document with agents, their messages and their memory blocks."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from hermes.portability.conversations_import import moment_of
from hermes.portability.transcripts.conversation import Conversation, mapping, text_of, timed

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "letta"
_ROLES = ("user", "assistant", "system", "tool")


def recognises(item: Any) -> bool:
    if not isinstance(item, dict):
        return False
    first = isinstance(item.get("messages"), list) and ("agent_type" in item or "core_memory" in item)
    return first or (isinstance(item.get("agents"), list) and isinstance(item.get("blocks"), list))


def conversations(item: dict[str, Any], origin: str) -> Iterator[Conversation]:
    for agent in _agents(item):
        name = str(agent.get("id") or agent.get("name") or "agent")
        model = mapping(agent.get("llm_config"))
        fields: dict[str, Any] = {
            "source": NAME,
            "title": agent.get("name"),
            "model": model.get("model") or agent.get("model"),
            "started_at": moment_of(agent.get("created_at")),
            "imported_from": origin,
        }
        fields = {key: value for key, value in fields.items() if isinstance(value, str | float)}
        yield Conversation(id=name, fields=fields, messages=partial(_messages, agent.get("messages")))


def blocks(item: dict[str, Any]) -> list[tuple[str, str]]:
    """Label and text of each memory block: what the agent knew about itself and about the person."""
    found = [*(item.get("core_memory") or ()), *(item.get("blocks") or ())]
    return [
        (str(block.get("label") or ""), block["value"])
        for block in found
        if isinstance(block, dict) and isinstance(block.get("value"), str) and block["value"].strip()
    ]


def _agents(item: dict[str, Any]) -> list[dict[str, Any]]:
    return [agent for agent in item.get("agents") or [item] if isinstance(agent, dict)]


def _messages(given: Any) -> Iterator[dict[str, Any]]:
    for each in given if isinstance(given, list) else ():
        if not isinstance(each, dict) or each.get("role") not in _ROLES or each["role"] == "system":
            continue  # the system prompt is rebuilt by whoever runs the agent
        message: dict[str, Any] = {"role": each["role"], "content": text_of(each.get("content") or each.get("text"))}
        if isinstance(each.get("tool_calls"), list) and each["tool_calls"]:
            message["tool_calls"] = each["tool_calls"]
        if each["role"] == "tool":
            returned = each.get("tool_returns")
            message["content"] = message["content"] or text_of(returned)
            message |= {key: each[key] for key in ("tool_call_id", "name") if isinstance(each.get(key), str)}
        if message["content"] or "tool_calls" in message:
            yield timed(message, each.get("created_at"))
