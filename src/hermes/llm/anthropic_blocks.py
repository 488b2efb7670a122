"""OpenAI-format messages and tools as Anthropic's blocks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from hermes.vocabulary.json_repair import read_arguments

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Message = Mapping[str, Any]

_ID = re.compile(r"[^a-zA-Z0-9_-]")
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,", re.ASCII)
# Blocks that already are Anthropic's own, from a message that was made for it.
_NATIVE = {"image", "document", "search_result", "tool_use", "tool_result"}
_THINKING = {"thinking", "redacted_thinking"}


def blocks_of(message: Message, model: str) -> list[dict[str, Any]]:
    """The blocks of one message; none for an empty one of the assistant, which the API would refuse."""
    match message["role"]:
        case "tool":
            return [_tool_result(message)]
        case "assistant":
            blocks = _content(message.get("content"))
            blocks += [_tool_use(call) for call in message.get("tool_calls") or ()]
            blocks = _with_thinking(blocks, message.get("reasoning_details") or (), model)
        case _:
            blocks = _content(message.get("content")) or [{"type": "text", "text": "(no text)"}]
    if "cache_control" in message:
        _mark_last(blocks, message["cache_control"])
    return blocks


def tool_of(tool: Message) -> dict[str, Any]:
    function = tool["function"]
    converted = {"name": function["name"], "input_schema": function.get("parameters") or {"type": "object"}}
    if function.get("description"):
        converted["description"] = function["description"]
    return converted | ({"cache_control": tool["cache_control"]} if "cache_control" in tool else {})


def _content(content: Any) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content.strip() else []
    blocks = [_part(part) for part in content or ()]
    return [block for block in blocks if block is not None]


def _part(part: Any) -> dict[str, Any] | None:
    if isinstance(part, str):
        part = {"type": "text", "text": part}
    kind = part.get("type")
    if kind == "refusal":  # as OpenAI's models say no
        part, kind = {**part, "text": part.get("refusal")}, "text"
    marker = {"cache_control": part["cache_control"]} if "cache_control" in part else {}
    if kind in _NATIVE:
        return dict(part)
    if kind == "text":
        return {"type": "text", "text": part["text"], **marker} if str(part.get("text") or "").strip() else None
    if kind == "image_url":
        return {"type": "image", "source": _source(part["image_url"]), **marker}
    return {"type": "text", "text": f"[a part of the kind {kind!r} stood here; this model cannot read it]", **marker}


def _source(image: Any) -> dict[str, str]:
    url = image["url"] if isinstance(image, dict) else str(image)
    inline = _DATA_URL.match(url)
    if inline:
        return {"type": "base64", "media_type": inline.group(1), "data": url[inline.end() :]}
    return {"type": "url", "url": url}


def _tool_use(call: Message) -> dict[str, Any]:
    function = call["function"]
    given, _ = read_arguments(function.get("arguments"))  # the API takes an object only
    return {"type": "tool_use", "id": _id(call["id"]), "name": function["name"], "input": given or {}}


def _tool_result(message: Message) -> dict[str, Any]:
    content = message.get("content")
    result: dict[str, Any] = {"type": "tool_result", "tool_use_id": _id(message.get("tool_call_id") or "")}
    blocks = _content(content)
    if blocks:
        result["content"] = blocks
    if "cache_control" in message:
        result["cache_control"] = message["cache_control"]
    return result


def _with_thinking(blocks: list[dict[str, Any]], details: Sequence[Message], model: str) -> list[dict[str, Any]]:
    """Thinking goes back unchanged and to where it stood; what another model thought, the API would refuse."""
    for detail in details:
        signed = detail.get("signature") or detail.get("data")
        if detail.get("type") in _THINKING and signed and detail.get("model") == model:
            thought = {key: part for key, part in detail.items() if key not in ("index", "model")}
            blocks.insert(detail.get("index", 0), thought)
    return blocks


def _mark_last(blocks: list[dict[str, Any]], marker: Mapping[str, str]) -> None:
    for block in reversed(blocks):
        if block["type"] not in _THINKING:
            block["cache_control"] = dict(marker)
            return


def _id(text: str) -> str:
    """Ids of other providers may hold characters that Anthropic refuses."""
    return _ID.sub("_", text) or "call"
