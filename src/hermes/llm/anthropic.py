"""Anthropic's messages API: blocks instead of strings, cache points, thinking that is sent back with its signature."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hermes.llm.answer import Answer
from hermes.llm.anthropic_blocks import blocks_of, tool_of
from hermes.llm.cache_points import ROLLING, cache_points, marker_for, system_blocks
from hermes.llm.client import HttpModel, ended_early
from hermes.llm.wire import WireLog, encode
from hermes.storage.images import text_only
from hermes.vocabulary.usage import Usage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hermes.llm.client import Message, Patience
    from hermes.llm.endpoint import Endpoint
    from hermes.vocabulary.events import ModelEvent

VERSION = "2026-10-21"
DEFAULT_OUTPUT = 32_000
_OPENINGS = {"user": b'{"role":"user","content":[', "assistant": b'{"role":"assistant","content":['}
# The API wants a person's message first; a compacted history may begin with the assistant's.
_FIRST = b'{"role":"user","content":[{"type":"text","text":"(the conversation so far)"}]}'


class Anthropic(HttpModel):
    path = "/v1/messages"

    def __init__(self, endpoint: Endpoint, patience: Patience | None = None) -> None:
        super().__init__(endpoint, patience)
        self._log = WireLog(self._encode)

    def _stop_seeing(self) -> None:
        super()._stop_seeing()
        self._log = WireLog(self._encode)

    def body(self, system: str, messages: Sequence[Message], tools: Sequence[Message]) -> bytes:
        """Everything that stays the same stands before the messages, so each request begins with the one before it."""
        points = cache_points(messages, ttl=self.endpoint.cache_ttl) if self.endpoint.cache_points else {}
        if points and len(points) < ROLLING and tools:
            # A new session may have another memory, and so another system prompt; a spare point keeps the tools.
            tools = [*tools[:-1], {**tools[-1], "cache_control": marker_for(self.endpoint.cache_ttl)}]
        parts = self._log.parts(messages, points)
        joined: list[bytes] = [self.beginning(system, tools)]
        before = ""
        for message, blocks in zip(messages, parts, strict=True):
            if not blocks:
                continue
            role = "assistant" if message["role"] == "assistant" else "user"
            # Results of parallel calls must stand in one message; so must everything else one side says in a row.
            if role == before:
                joined.append(b",")
            else:
                joined.append(b"]}," if before else _FIRST + b"," if role == "assistant" else b"")
                joined.append(_OPENINGS[role])
            joined.append(blocks)
            before = role
        joined.append(b"]}]}" if before else _FIRST + b"]}")
        return b"".join(joined)

    def headers(self) -> dict[str, str]:
        key = self.endpoint.key
        headers = {"anthropic-version": VERSION} | ({"authorization": f"Bearer {key}"} if key else {})
        if key and self.endpoint.provider != "anthropic":
            headers["x-api-key"] = key  # what other servers of this wire look for
        return headers | self.endpoint.headers

    def read(self, chunks: Iterable[dict[str, Any]]) -> Iterator[ModelEvent]:
        answer = Answer(self.name)
        counted: dict[str, Any] = {}
        places: dict[int, dict[str, Any]] = {}
        for chunk in chunks:
            kind = chunk.get("type")
            if kind == "message_stop":
                break
            if kind == "message":  # a server that does not stream sends the whole message
                yield from self._read_whole(answer, chunk)
                counted |= chunk.get("usage") or {}
            elif kind == "message_start":
                answer.model = str(chunk["message"].get("model") or answer.model)
                counted |= _numbers(chunk["message"].get("usage"))
            elif kind == "content_block_start":
                places[chunk["index"]] = dict(chunk["content_block"])
                yield from _start_block(answer, chunk["index"], chunk["content_block"])
            elif kind == "content_block_delta":
                block = places.get(chunk["index"], {})
                yield from _read_delta(answer, chunk["index"], block, chunk.get("delta") or {})
            elif kind == "content_block_stop":
                self._stop_block(answer, chunk["index"], places.get(chunk["index"], {}))
            elif kind == "message_delta":
                answer.reason = (chunk.get("delta") or {}).get("stop_reason") or answer.reason
                counted |= _numbers(chunk.get("usage"))
        if not answer.reason:
            raise ended_early(self.endpoint)
        answer.usage = Usage.of_anthropic(counted)
        yield from answer.finish()

    def options(self, system: str, tools: Sequence[Message]) -> dict[str, Any]:
        options: dict[str, Any] = {
            "model": self.endpoint.model,
            "max_tokens": self.endpoint.max_output or DEFAULT_OUTPUT,
            "stream": True,
        }
        if tools:
            options["tools"] = [tool_of(tool) for tool in tools]
        if system and self.endpoint.cache_points:
            options["system"] = system_blocks(system, ttl=self.endpoint.cache_ttl)
        elif system:
            options["system"] = [{"type": "text", "text": system}]
        return options

    def _encode(self, message: Message) -> bytes:
        """The blocks of a message without the brackets, so that neighbours can share one message."""
        return encode(blocks_of(message if self._sees else text_only(message), self.name))[1:-1]

    def _stop_block(self, answer: Answer, index: int, block: Mapping[str, Any]) -> None:
        if block.get("type") in ("thinking", "redacted_thinking"):
            # It must go back to where it stood, and only to the model that thought it.
            answer.add_detail({**block, "index": index, "model": self.name})
        answer.end_text()

    def _read_whole(self, answer: Answer, message: Mapping[str, Any]) -> Iterator[ModelEvent]:
        answer.model = str(message.get("model") or answer.model)
        for index, block in enumerate(message.get("content") or ()):
            yield from _start_block(answer, index, block)
            self._stop_block(answer, index, block)
        answer.reason = message.get("stop_reason") or "stop"


def _start_block(answer: Answer, index: int, block: Mapping[str, Any]) -> Iterator[ModelEvent]:
    match block.get("type"):
        case "text" if block.get("text"):
            yield answer.write(block["text"])
        case "thinking" if block.get("thinking"):
            yield answer.think(block["thinking"])
        case "tool_use":
            given = block.get("input") or ""
            yield from answer.call({"index": index, "id": block.get("id"), "function": {"name": block.get("name")}})
            if given:  # streamed calls begin with an empty input; a few servers send it whole
                yield from answer.call({"index": index, "function": {"arguments": given}})


def _read_delta(answer: Answer, index: int, block: dict[str, Any], delta: Mapping[str, Any]) -> Iterator[ModelEvent]:
    match delta.get("type"):
        case "text_delta" if delta.get("text"):
            yield answer.write(delta["text"])
        case "thinking_delta" if delta.get("thinking"):
            block["thinking"] = block.get("thinking", "") + delta["thinking"]
            yield answer.think(delta["thinking"])
        case "signature_delta":
            block["signature"] = block.get("signature", "") + delta.get("signature", "")
        case "input_json_delta" if delta.get("partial_json"):
            yield from answer.call({"index": index, "function": {"arguments": delta["partial_json"]}})


def _numbers(usage: Mapping[str, Any] | None) -> dict[str, Any]:
    """Later counts replace earlier ones; a count that is missing later does not."""
    return {name: count for name, count in (usage or {}).items() if count is not None}
