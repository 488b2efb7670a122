"""What a host sends to its model: the frozen system prompt, the messages, the tools."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hermes.storage.images import text_only
from hermes.vocabulary.json_repair import read_arguments, valid_arguments

if TYPE_CHECKING:
    from collections.abc import Mapping

# What a request is made of; everything else in a stored message is for us. `reasoning_model` tells our clients whose
# reasoning it is, and they do not send it.
WIRE_KEYS = (
    *("role", "content", "name", "tool_calls", "tool_call_id"),
    *("reasoning_content", "reasoning_details", "reasoning_model"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Each request of a session extends the one before it; nothing in it may be changed in place.

    Only a compaction moves the prefix: the request after it has a higher number of `compactions`.
    """

    system: str
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    compactions: int = 0

    def text_only(self) -> Request:
        """The same for a model without vision: a short placeholder stands for each image."""
        return replace(self, messages=[dict(text_only(message)) for message in self.messages])


def wire_message(stored: dict[str, Any]) -> dict[str, Any]:
    """A stored message as it was sent: the text with what was added at request time, where that differs."""
    message = {key: stored[key] for key in WIRE_KEYS if key in stored}
    if message["role"] == "developer":
        message["role"] = "system"  # what it was called before; not every model knows the newer name
    if "api_content" in stored:
        message["content"] = stored["api_content"]
    if message["role"] == "assistant" and not message.get("content") and not message.get("tool_calls"):
        refusal = stored.get("refusal")  # as OpenAI's models say no
        # No API takes a message that has neither words nor calls.
        message["content"] = refusal if isinstance(refusal, str) else ""
    return with_valid_calls(message)


def reply_message(reply: str, answered: Mapping[str, Any]) -> dict[str, Any]:
    """The last message of a turn: the text the person saw, with the model's reasoning and, where equal, its blocks."""
    content = answered.get("content")
    whole = "".join(part.get("text", "") for part in content) if isinstance(content, list) else content
    kept = {key: part for key, part in answered.items() if key.startswith("reasoning")}
    return {"role": "assistant", "content": content if content and whole == reply else reply, **kept}


def parsed(arguments: str | Mapping[str, Any] | None) -> dict[str, Any]:
    """The arguments of a call as an object; empty when they are none."""
    return read_arguments(arguments)[0] or {}


def with_valid_calls(message: dict[str, Any]) -> dict[str, Any]:
    """The message with the arguments of its calls as JSON, which a model does not always write and servers insist on.

    The same arguments always become the same text, so a message that was sent once is sent like that again.
    """
    calls = message.get("tool_calls") or ()
    functions = [call.get("function") if isinstance(call, dict) else None for call in calls]
    texts = [valid_arguments(each.get("arguments")) if isinstance(each, dict) else None for each in functions]
    if all(each is None or each.get("arguments") is text for each, text in zip(functions, texts, strict=True)):
        return message
    valid = [
        call if text is None else {**call, "function": {**call["function"], "arguments": text}}
        for call, text in zip(calls, texts, strict=True)
    ]
    return {**message, "tool_calls": valid}


def is_answer(message: Mapping[str, Any]) -> bool:
    """Whether a turn ends with this message: the model's words, without a call."""
    return message.get("role") == "assistant" and not message.get("tool_calls")


def unanswered_calls(messages: list[dict[str, Any]]) -> list[str]:
    """Ids of tool calls of the newest assistant message that have no result yet."""
    answered: set[str] = set()
    for message in reversed(messages):
        if message["role"] == "tool":
            answered.add(str(message.get("tool_call_id")))
        elif message["role"] == "assistant":
            return [call["id"] for call in message.get("tool_calls") or () if call["id"] not in answered]
        else:
            break
    return []


def settled_until(messages: list[dict[str, Any]]) -> int:
    """How many messages stand before a group of calls that still runs; all of them when none does."""
    if not unanswered_calls(messages):
        return len(messages)
    return next(at for at in range(len(messages) - 1, -1, -1) if messages[at]["role"] == "assistant")


def noted(notes: str) -> dict[str, Any]:
    return {"additions": sizes_of(folder_notes=notes)} if notes else {}


def sizes_of(**parts: str) -> list[dict[str, Any]]:
    """What was added to a message, for `hermes sessions show`: its source and size, never its text."""
    return [{"source": source, "characters": len(text)} for source, text in parts.items() if text]
