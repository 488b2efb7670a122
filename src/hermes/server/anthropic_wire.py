"""Anthropic's messages wire: translates requests to chat completions, and answers to blocks and events."""

from __future__ import annotations

import json
import os
from itertools import groupby
from typing import TYPE_CHECKING, Any

from hermes.base.events import TextDelta
from hermes.base.text import read_arguments
from hermes.base.tokens import estimate, estimate_message
from hermes.server.openai_wire import BadRequest, checked, event, list_of, loaded, refuse_others

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hermes.base.events import Usage
    from hermes.server.openai_wire import Answer, ChatRequest, Piece

_KNOWN = {
    *("model", "messages", "system", "stream", "max_tokens", "temperature", "top_p", "top_k", "stop_sequences"),
    *("tools", "tool_choice", "thinking", "output_config"),
}
# Notes and hints for the vendor; we manage the cache and the length of the context ourselves.
_IGNORED = {"metadata", "service_tier", "cache_control", "diagnostics", "context_management", "user_profile_id"}
_TOOL_KEYS = {"type", "name", "description", "input_schema", "strict", "cache_control", "eager_input_streaming"}
_CHOICES = {"auto": "auto", "any": "required", "none": "none"}
_BILLING = "x-anthropic-billing-header"  # Claude Code's note for the vendor, which differs in every request
_SIGNATURE = "hermes"  # thinking is stored on the server; what a client sends back is ignored
_THINKING = ("thinking", "redacted_thinking")
_REASONS = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "content_filter": "refusal"}
_KINDS = {404: "not_found_error", 413: "request_too_large", 429: "rate_limit_error", 503: "overloaded_error"}


def parse(data: bytes) -> ChatRequest:
    """Reads a request of the Messages API."""
    body = loaded(data)
    if not isinstance(body.get("max_tokens"), int):
        raise BadRequest("max_tokens: a number is needed", "max_tokens")
    return _translated(body)


def count(data: bytes) -> int:
    """Estimates the tokens of a request, without what memory adds to it."""
    asked = _translated(loaded(data))
    written = [*asked.history, *asked.fresh]
    return estimate(f"{asked.system}{json.dumps(asked.functions)}") + sum(map(estimate_message, written))


def error(message: str, kind: str, param: str | None, code: str | None, status: int) -> dict[str, Any]:
    """An error in Anthropic's form; the status decides its type."""
    named = _KINDS.get(status) or ("api_error" if kind == "server_error" else kind)
    return {"type": "error", "error": {"type": named, "message": message, "param": param, "code": code}}


def _translated(body: dict[str, Any]) -> ChatRequest:
    refuse_others(body, _KNOWN | _IGNORED, {"speed": "standard", "container": None, "mcp_servers": []})
    thinking = body.get("thinking") or {}
    if not isinstance(thinking, dict) or not isinstance(thinking.get("budget_tokens", 0), int):
        raise BadRequest("thinking must be an object with a type", "thinking")
    same = ("model", "stream", "max_tokens", "temperature", "top_p", "top_k")
    request = {name: body[name] for name in same if name in body}
    request["messages"] = [*_system(body.get("system")), *_messages(body.get("messages"))]
    request["tools"] = [_tool(each, place) for place, each in enumerate(list_of(body.get("tools") or [], "tools"))]
    request |= {"stop": body.get("stop_sequences") or None, "thinking": thinking or None}
    request |= _choice(body.get("tool_choice")) | _output(body.get("output_config"))
    shown = thinking.get("type", "disabled") != "disabled" and thinking.get("display") != "omitted"
    return checked(request, shows_thinking=shown)


def _system(given: Any) -> list[dict[str, Any]]:
    blocks = [{"type": "text", "text": given}] if isinstance(given, str) else list_of(given or [], "system")
    texts = [each.get("text") if isinstance(each, dict) else None for each in blocks]
    if not all(isinstance(text, str) for text in texts):
        raise BadRequest("system: blocks of text are expected", "system")
    return [{"role": "system", "content": text} for text in texts if not str(text).startswith(_BILLING)]


def _messages(given: Any) -> Iterator[dict[str, Any]]:
    for place, message in enumerate(list_of(given, "messages")):
        role, content = (message.get("role"), message.get("content")) if isinstance(message, dict) else (None, None)
        if role not in ("user", "assistant", "system"):
            raise BadRequest(f"messages.{place}: role must be user, assistant or system", "messages")
        if not isinstance(content, list):
            yield {"role": role, "content": content}
        elif not all(isinstance(block, dict) for block in content):
            raise BadRequest(f"messages.{place}: content must be a text or blocks", "messages")
        elif role == "assistant":
            yield _answer(content)
        else:
            yield from _said(role, content)


def _said(role: str, blocks: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Tool results first, then the person's message, with the images of the results: OpenAI allows none in results."""
    rest = [block for block in blocks if block.get("type") != "tool_result"]
    shown: list[dict[str, Any]] = []
    for block in blocks:
        if block.get("type") != "tool_result":
            continue
        given = block.get("content")
        parts = list_of(
            [] if given is None else [{"type": "text", "text": given}] if isinstance(given, str) else given, "messages"
        )
        images = [part for part in parts if isinstance(part, dict) and part.get("type") == "image"]
        shown += images
        texts = [part for part in parts if part not in images]
        more = {"is_error": True} if block.get("is_error") else {}
        yield {"role": "tool", "tool_call_id": block.get("tool_use_id"), "content": texts, **more}
    if rest or shown:
        yield {"role": role, "content": [*shown, *rest]}


def _answer(blocks: list[dict[str, Any]]) -> dict[str, Any]:
    said = [block for block in blocks if block.get("type") not in (*_THINKING, "tool_use")]
    text = "".join(str(block.get("text") or "") for block in said if block.get("type") == "text")
    others = [block for block in said if block.get("type") != "text"]  # `checked` refuses them
    calls = [
        {
            "id": block.get("id"),
            "function": {"name": block.get("name"), "arguments": json.dumps(block.get("input"), ensure_ascii=False)},
        }
        for block in blocks
        if block.get("type") == "tool_use"
    ]
    return {"role": "assistant", "content": others or text, "tool_calls": calls}


def _tool(tool: Any, place: int) -> dict[str, Any]:
    if not isinstance(tool, dict) or tool.get("type", "custom") != "custom":
        kind = tool.get("type") if isinstance(tool, dict) else tool
        raise BadRequest(f"tools.{place}: only tools of your own are supported here, not {kind!r:.60}", "tools")
    refuse_others({f"tools.{place}.{name}": tool[name] for name in tool if name not in _TOOL_KEYS}, (), {})
    kept = {name: tool[name] for name in ("name", "description", "strict") if tool.get(name) is not None}
    return {"type": "function", "function": {**kept, "parameters": tool.get("input_schema") or {"type": "object"}}}


def _choice(given: Any) -> dict[str, Any]:
    if given is None:
        return {}
    kind = given.get("type") if isinstance(given, dict) else None
    if kind != "tool" and kind not in _CHOICES:
        raise BadRequest("tool_choice: type must be auto, any, tool or none", "tool_choice")
    named = {"type": "function", "function": {"name": given.get("name")}}
    alone = {"parallel_tool_calls": False} if given.get("disable_parallel_tool_use") else {}
    return {"tool_choice": named if kind == "tool" else _CHOICES[kind], **alone}


def _output(given: Any) -> dict[str, Any]:
    if not isinstance(given or {}, dict):
        raise BadRequest("output_config must be an object", "output_config")
    given = given or {}
    refuse_others(
        {f"output_config.{name}": given[name] for name in given}, ("output_config.effort", "output_config.format"), {}
    )
    shape = given.get("format")
    if shape is not None and (not isinstance(shape, dict) or shape.get("type") != "json_schema"):
        raise BadRequest("output_config.format: only json_schema is supported", "output_config")
    schema = {"name": "answer", "strict": True, "schema": shape.get("schema")} if shape else {}
    wanted = {"response_format": {"type": "json_schema", "json_schema": schema}} if shape else {}
    return {"reasoning_effort": given.get("effort"), **wanted}


class MessageWriter:
    """Writes answers as blocks of text and, if the client asked for it, of thinking, in their order."""

    def __init__(self, asked: ChatRequest, name: str) -> None:
        self.id = f"msg_{os.urandom(12).hex()}"
        self._asked, self._name = asked, name
        self._blocks = 0
        self._open = ""  # the kind of the block that is being written

    def whole(self, pieces: Sequence[Piece], answer: Answer) -> dict[str, Any]:
        content = [
            _block(kind, "".join(each.text for each in group))
            for kind, group in groupby(pieces, _kind)
            if kind == "text" or self._asked.shows_thinking
        ]
        calls = [
            {**_use(call), "input": read_arguments(call["function"]["arguments"])[0] or {}} for call in answer.calls
        ]
        reason = {"stop_reason": _REASONS[answer.finish_reason], "stop_sequence": None}
        return self._message([*content, *calls], reason, usage(answer.usage))

    def opening(self) -> str:
        nothing = {"input_tokens": 0, "output_tokens": 0}
        started = self._message([], {"stop_reason": None, "stop_sequence": None}, nothing)
        return event({"type": "message_start", "message": started})

    def piece(self, piece: Piece) -> str:
        kind = _kind(piece)
        if kind == "thinking" and not self._asked.shows_thinking:
            return ""
        begun = "" if kind == self._open else self._close() + self._begin(kind, _block(kind, ""))
        return begun + self._delta({"type": f"{kind}_delta", kind: piece.text})

    def ending(self, answer: Answer) -> str:
        events = [self._close()]
        for call in answer.calls:
            written = {"type": "input_json_delta", "partial_json": call["function"]["arguments"]}
            events += [self._begin("tool_use", {**_use(call), "input": {}}), self._delta(written), self._close()]
        reason = {"stop_reason": _REASONS[answer.finish_reason], "stop_sequence": None}
        events.append(event({"type": "message_delta", "delta": reason, "usage": usage(answer.usage)}))
        return "".join(events) + event({"type": "message_stop"})

    def failure(self, error: dict[str, Any]) -> str:
        return event(error)

    def _message(self, content: list[Any], reason: dict[str, Any], counted: dict[str, Any]) -> dict[str, Any]:
        head = {"id": self.id, "type": "message", "role": "assistant", "model": self._name}
        return {**head, "content": content, **reason, "usage": counted}

    def _begin(self, kind: str, block: dict[str, Any]) -> str:
        self._open = kind
        empty = {**block, "signature": ""} if kind == "thinking" else block
        return event({"type": "content_block_start", "index": self._blocks, "content_block": empty})

    def _delta(self, delta: dict[str, Any]) -> str:
        return event({"type": "content_block_delta", "index": self._blocks, "delta": delta})

    def _close(self) -> str:
        if not self._open:
            return ""
        signed = self._delta({"type": "signature_delta", "signature": _SIGNATURE}) if self._open == "thinking" else ""
        ended = event({"type": "content_block_stop", "index": self._blocks})
        self._open, self._blocks = "", self._blocks + 1
        return signed + ended


def usage(counted: Usage) -> dict[str, Any]:
    """The token counts in Anthropic's form, where the input excludes what the cache read and wrote."""
    read, written = counted.cache_read_tokens, counted.cache_write_tokens
    return {
        "input_tokens": max(0, counted.input_tokens - read - written),
        "output_tokens": counted.output_tokens,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written,
    }


def _kind(piece: Piece) -> str:
    return "text" if isinstance(piece, TextDelta) else "thinking"


def _block(kind: str, text: str) -> dict[str, Any]:
    return {"type": kind, kind: text} | ({"signature": _SIGNATURE} if kind == "thinking" else {})


def _use(call: dict[str, Any]) -> dict[str, Any]:
    return {"type": "tool_use", "id": call["id"], "name": call["function"]["name"]}
