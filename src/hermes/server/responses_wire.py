"""OpenAI's responses wire: translates items to messages of chat completions, and answers to items and events."""

from __future__ import annotations

import os
import time
from itertools import groupby
from typing import TYPE_CHECKING, Any

from hermes.base.events import TextDelta
from hermes.server.openai_wire import IGNORED, BadRequest, checked, event, list_of, loaded, refuse_others, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hermes.base.events import Usage
    from hermes.server.openai_wire import Answer, ChatRequest, Piece

_SAME = ("model", "stream", "temperature", "top_p", "parallel_tool_calls")
_KNOWN = {
    *(*_SAME, "input", "instructions", "previous_response_id", "stream_options", "include", "tools", "tool_choice"),
    *("max_output_tokens", "text", "reasoning", "truncation", "context_management"),  # contexts are compacted here
}
_NOTES = {"client_metadata"}  # Codex's, for the vendor
_EMPTY = {"background": False, "top_logprobs": 0}
_LOGPROBS = "message.output_text.logprobs"
_ECHOED = ("instructions", "metadata", "temperature", "top_p", "max_output_tokens", "previous_response_id", "reasoning")
_IN = "__"  # between the name of a namespace and that of a function
_PARTS = {"input_text": "text", "output_text": "text", "text": "text"}
_NOT_TOLD = ("reasoning",)  # of the model; it is stored here and sent back from here


def parse(data: bytes) -> ChatRequest:
    """Reads a request of the Responses API."""
    body = loaded(data)
    refuse_others(body, _KNOWN | _NOTES | IGNORED, _EMPTY)
    if _LOGPROBS in (body.get("include") or ()):
        raise BadRequest(f"include: {_LOGPROBS} is not supported here", "include")
    request = {name: body[name] for name in _SAME if name in body}
    reasoning, text = _object(body, "reasoning"), _object(body, "text")
    instructions = [{"role": "system", "content": body["instructions"]}] if body.get("instructions") else []
    request |= {
        "messages": [*instructions, *_messages(body.get("input"))],
        "tools": [
            function
            for place, each in enumerate(list_of(body.get("tools") or [], "tools"))
            for function in _functions(each, place)
        ],
        "tool_choice": _choice(body.get("tool_choice")),
        "max_tokens": body.get("max_output_tokens"),
        "reasoning_effort": reasoning.get("effort"),
        "verbosity": text.get("verbosity"),
        "response_format": _shape(text.get("format")),
    }
    echo = {name: body.get(name) for name in _ECHOED}
    echo |= {"tools": body.get("tools") or [], "tool_choice": body.get("tool_choice") or "auto"}
    echo |= {"parallel_tool_calls": body.get("parallel_tool_calls") is not False, "text": text or None}
    return checked(
        request,
        previous=text_of(body, "previous_response_id"),
        answer_id=f"resp_{os.urandom(16).hex()}",
        shows_thinking=reasoning.get("summary") is not None,
        echo=echo,
    )


def _object(body: dict[str, Any], name: str) -> dict[str, Any]:
    given = body.get(name) or {}
    if not isinstance(given, dict):
        raise BadRequest(f"{name} must be an object", name)
    return given


def _messages(given: Any) -> list[dict[str, Any]]:
    """The messages of the items; consecutive calls, and those after an answer, are one message in chat completions."""
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    messages: list[dict[str, Any]] = []
    for place, item in enumerate(list_of(given, "input")):
        if not isinstance(item, dict):
            raise BadRequest(f"input[{place}] must be an object", "input")
        kind = item.get("type") or "message"
        if kind == "message":
            messages.append({"role": item.get("role"), "content": _content(item.get("content"))})
        elif kind == "function_call":
            if not messages or messages[-1]["role"] != "assistant":
                messages.append({"role": "assistant", "content": None})
            name = f"{item['namespace']}{_IN}{item.get('name')}" if item.get("namespace") else item.get("name")
            function = {"name": name, "arguments": item.get("arguments")}
            messages[-1].setdefault("tool_calls", []).append({"id": item.get("call_id"), "function": function})
        elif kind == "function_call_output":
            content = _content(item.get("output"))
            messages.append({"role": "tool", "tool_call_id": item.get("call_id"), "content": content})
        elif kind not in _NOT_TOLD:
            raise BadRequest(f"input[{place}]: items of the type {kind!r:.60} are not supported here", "input")
    return messages


def _content(given: Any) -> Any:
    if not isinstance(given, list):
        return given
    return [
        {**part, "type": _PARTS[part["type"]]} if isinstance(part, dict) and part.get("type") in _PARTS else part
        for part in given
    ]


def _functions(tool: Any, place: int) -> list[dict[str, Any]]:
    """A function, or those of a namespace, prefixed by its name: chat completions have no namespaces."""
    if not isinstance(tool, dict) or tool.get("type") != "namespace":
        return [_tool(tool, place)]
    found = [_tool(each, place) for each in list_of(tool.get("tools"), "tools")]
    for each in found:
        each["function"]["name"] = f"{tool.get('name')}{_IN}{each['function'].get('name')}"
    return found


def _tool(tool: Any, place: int) -> dict[str, Any]:
    if not isinstance(tool, dict) or tool.get("type") != "function":
        kind = tool.get("type") if isinstance(tool, dict) else tool
        raise BadRequest(f"tools[{place}]: only functions of your own are supported here, not {kind!r:.60}", "tools")
    names = ("name", "description", "parameters", "strict")
    return {"type": "function", "function": {name: tool[name] for name in names if tool.get(name) is not None}}


def _choice(given: Any) -> Any:
    named = isinstance(given, dict) and given.get("type") == "function"
    return {"type": "function", "function": {"name": given.get("name")}} if named else given


def _shape(given: Any) -> Any:
    if not isinstance(given, dict) or given.get("type") != "json_schema":
        return given
    return {"type": "json_schema", "json_schema": {name: given[name] for name in given if name != "type"}}


class ResponseWriter:
    """Writes answers in the form of the Responses API."""

    def __init__(self, asked: ChatRequest, name: str) -> None:
        self.id = asked.answer_id
        self._asked = asked
        self._head = {"id": self.id, "object": "response", "created_at": int(time.time()), "model": name, **asked.echo}
        self._output: list[dict[str, Any]] = []  # items that are complete
        self._number = 0
        self._open: dict[str, Any] = {}  # the item that is being written
        self._written = ""

    def whole(self, pieces: Sequence[Piece], answer: Answer) -> dict[str, Any]:
        for kind, group in groupby(pieces, _kind):
            if kind == "message" or self._asked.shows_thinking:
                self._output.append(_filled(_item(kind), "".join(each.text for each in group)))
        self._output += [self._call_item(call) for call in answer.calls]
        return self._ended(answer)

    def opening(self) -> str:
        begun = {**self._head, "status": "in_progress", "output": [], "error": None, "incomplete_details": None}
        return self._event("response.created", response=begun) + self._event("response.in_progress", response=begun)

    def piece(self, piece: Piece) -> str:
        kind = _kind(piece)
        if kind == "reasoning" and not self._asked.shows_thinking:
            return ""
        begun = "" if kind == self._open.get("type") else "".join([*self._close(), *self._begin(kind)])
        self._written += piece.text
        return begun + self._part_event(f"{_STREAMED[kind]}.delta", delta=piece.text)

    def ending(self, answer: Answer) -> str:
        events = list(self._close())
        for call in answer.calls:
            item, place = self._call_item(call), len(self._output)
            where = {"item_id": item["id"], "output_index": place}
            empty = {**item, "arguments": "", "status": "in_progress"}
            said = "response.function_call_arguments"
            events += [
                self._event("response.output_item.added", output_index=place, item=empty),
                self._event(f"{said}.delta", **where, delta=item["arguments"]),
                self._event(f"{said}.done", **where, arguments=item["arguments"], name=item["name"]),
                self._event("response.output_item.done", output_index=place, item=item),
            ]
            self._output.append(item)
        whole = self._ended(answer)
        return "".join(events) + self._event(f"response.{whole['status']}", response=whole)

    def failure(self, error: dict[str, Any]) -> str:
        about = error["error"]
        return self._event("error", message=about["message"], code=about["code"], param=about["param"])

    def _call_item(self, call: dict[str, Any]) -> dict[str, Any]:
        head = {"id": f"fc_{os.urandom(12).hex()}", "type": "function_call", "status": "completed"}
        called = {**head, "call_id": call["id"], **call["function"]}
        for tool in self._asked.echo["tools"]:
            begins = f"{tool.get('name')}{_IN}"
            if tool.get("type") == "namespace" and called["name"].startswith(begins):
                return {**called, "name": called["name"].removeprefix(begins), "namespace": tool["name"]}
        return called

    def _ended(self, answer: Answer) -> dict[str, Any]:
        cut = {"length": "max_output_tokens", "content_filter": "content_filter"}.get(answer.finish_reason)
        status = {"status": "incomplete" if cut else "completed", "error": None}
        details = {"incomplete_details": {"reason": cut} if cut else None, "usage": usage(answer.usage)}
        return {**self._head, **status, **details, "output": self._output}

    def _begin(self, kind: str) -> Iterator[str]:
        self._open, self._written = _item(kind), ""
        yield self._event("response.output_item.added", output_index=len(self._output), item=self._open)
        yield self._part_event(f"{_PART_OF[kind]}.added", part=_part(kind, ""))

    def _close(self) -> Iterator[str]:
        if not self._open:
            return
        kind, item = self._open["type"], _filled(self._open, self._written)
        yield self._part_event(f"{_STREAMED[kind]}.done", text=self._written)
        yield self._part_event(f"{_PART_OF[kind]}.done", part=_part(kind, self._written))
        yield self._event("response.output_item.done", output_index=len(self._output), item=item)
        self._output.append(item)
        self._open = {}

    def _part_event(self, name: str, /, **more: Any) -> str:
        place = {"item_id": self._open["id"], "output_index": len(self._output)}
        index = {"content_index": 0} if self._open["type"] == "message" else {"summary_index": 0}
        logprobs: dict[str, Any] = {"logprobs": []} if name.startswith(_STREAMED["message"]) else {}
        return self._event(name, **place, **index, **logprobs, **more)

    def _event(self, kind: str, /, **fields: Any) -> str:
        self._number += 1
        return event({"type": kind, "sequence_number": self._number - 1, **fields})


_STREAMED = {"message": "response.output_text", "reasoning": "response.reasoning_summary_text"}
_PART_OF = {"message": "response.content_part", "reasoning": "response.reasoning_summary_part"}


def usage(counted: Usage) -> dict[str, Any]:
    """The token counts in the form of the Responses API."""
    sent, written = counted.input_tokens, counted.output_tokens
    cached = {"cached_tokens": counted.cache_read_tokens, "cache_write_tokens": counted.cache_write_tokens}
    return {
        "input_tokens": sent,
        "input_tokens_details": cached,
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": counted.reasoning_tokens},
        "total_tokens": sent + written,
    }


def _kind(piece: Piece) -> str:
    return "message" if isinstance(piece, TextDelta) else "reasoning"


def _item(kind: str) -> dict[str, Any]:
    more = {"role": "assistant", "content": []} if kind == "message" else {"summary": []}
    return {"id": f"{kind[:2]}_{os.urandom(12).hex()}", "type": kind, "status": "in_progress", **more}


def _filled(item: dict[str, Any], text: str) -> dict[str, Any]:
    part = _part(item["type"], text)
    return {**item, "status": "completed", "content" if item["type"] == "message" else "summary": [part]}


def _part(kind: str, text: str) -> dict[str, Any]:
    if kind == "reasoning":
        return {"type": "summary_text", "text": text}
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
