"""Anthropic's messages API: blocks, cache points, and thinking that is sent back with its signature."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from hermes.base.errors import SettingsError
from hermes.base.events import Usage
from hermes.base.text import read_arguments
from hermes.llm.client import NO_OPTIONS, Answer, HttpModel, encode, ended_early
from hermes.storage.images import text_only

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hermes.base.events import ModelEvent
    from hermes.llm.client import Endpoint, Message, Options, Retries

# Cache points mark how far Anthropic keeps a prefix. A point on each of the newest messages finds what the request
# before has kept, because its newest message is still among them.
ROLLING = 3  # Anthropic allows four points per request; one is the system prompt's


def cache_points(messages: Sequence[Message], *, ttl: str = "5m", native: bool = True) -> dict[int, dict[str, Any]]:
    """The messages that carry a point, as marked copies by their position; looks only at the two ends of the list.

    `native` is Anthropic's own API, whose adapter moves a point on a message into its block. Elsewhere (OpenRouter)
    only a content part can carry one, so messages without text are passed over instead of wasting a point.
    """
    marker = marker_for(ttl)
    marked: dict[int, dict[str, Any]] = {}
    system_at = 0 if messages and messages[0].get("role") == "system" else None
    if system_at is not None and (system := _marked(messages[0], marker, native=native)) is not None:
        marked[system_at] = system
    left = ROLLING
    for position in range(len(messages) - 1, -1 if system_at is None else 0, -1):
        if messages[position].get("role") == "system":
            continue
        copy = _marked(messages[position], marker, native=native)
        if copy is not None:
            marked[position] = copy
            left -= 1
        if left == 0:
            break
    return marked


def marker_for(ttl: str) -> dict[str, str]:
    """The cache point for how long a prefix is kept; five minutes is the default and goes unnamed."""
    match ttl:
        case "5m":
            return {"type": "ephemeral"}
        case "1h":
            return {"type": "ephemeral", "ttl": "1h"}
    raise SettingsError(
        f'prompt_caching.cache_ttl is {ttl!r}; Anthropic keeps a prefix for "5m" or "1h": use one of them'
    )


def _marked(message: Message, marker: dict[str, str], *, native: bool) -> dict[str, Any] | None:
    content = message.get("content")
    if native and message.get("role") == "tool":
        return {**message, "cache_control": dict(marker)}
    if isinstance(content, str) and content:
        return {**message, "content": [{"type": "text", "text": content, "cache_control": dict(marker)}]}
    if isinstance(content, list):
        for position in range(len(content) - 1, -1, -1):
            if _can_carry(content[position]):
                parts = list(content)
                parts[position] = {**content[position], "cache_control": dict(marker)}
                return {**message, "content": parts}
    return {**message, "cache_control": dict(marker)} if native else None


def _can_carry(part: object) -> bool:
    # The API refuses a point on a thinking block and on an empty text block.
    if not isinstance(part, dict) or part.get("type") in ("thinking", "redacted_thinking"):
        return False
    return part.get("type") != "text" or bool(part.get("text"))


# OpenAI-format messages and tools as Anthropic's blocks.

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
    """A tool of OpenAI's format in Anthropic's."""
    function = tool["function"]
    converted = {"name": function["name"], "input_schema": function.get("parameters") or {"type": "object"}}
    if function.get("description"):
        converted["description"] = function["description"]
    if function.get("strict"):
        converted["strict"] = True
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
    if kind == "refusal":  # how OpenAI's models decline
        part, kind = {**part, "text": part.get("refusal")}, "text"
    marker = {"cache_control": part["cache_control"]} if "cache_control" in part else {}
    if kind in _NATIVE:
        return dict(part)
    if kind == "text":
        return {"type": "text", "text": part["text"], **marker} if str(part.get("text") or "").strip() else None
    if kind == "image_url":
        return {"type": "image", "source": _source(part["image_url"]), **marker}
    return {"type": "text", "text": f"[a part of the kind {kind!r} was here; this model cannot read it]", **marker}


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
    if message.get("is_error"):
        result["is_error"] = True
    if "cache_control" in message:
        result["cache_control"] = message["cache_control"]
    return result


def _with_thinking(blocks: list[dict[str, Any]], details: Sequence[Message], model: str) -> list[dict[str, Any]]:
    """Inserts thinking unchanged at its old position; the API refuses that of another model, so it is left out."""
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
    """An id without the characters that Anthropic refuses; ids of other providers may have them."""
    return _ID.sub("_", text) or "call"


VERSION = "2026-10-21"
SAMPLING_VERSION = "2023-06-01"  # the newer one refuses these fields whatever the model
_SAMPLING = {"temperature", "top_p", "top_k"}
_UNCHANGED = (*sorted(_SAMPLING), "max_tokens", "thinking")
DEFAULT_OUTPUT = 32_000
_MISSES = {
    "model_changed": "the model changed",
    "system_changed": "the system prompt changed",
    "tools_changed": "the tools changed",
    "messages_changed": "an earlier message changed",
}
_OPENINGS = {"user": b'{"role":"user","content":[', "assistant": b'{"role":"assistant","content":['}
# The API wants a person's message first; a compacted history may begin with the assistant's.
_FIRST = b'{"role":"user","content":[{"type":"text","text":"(the conversation so far)"}]}'


class Anthropic(HttpModel):
    """Anthropic's Messages API."""

    path = "/v1/messages"

    def __init__(self, endpoint: Endpoint, retries: Retries | None = None) -> None:
        super().__init__(endpoint, retries)
        self._bare: dict[int, tuple[Message, Message]] = {}  # messages with a memory update, and copies without it
        self._previous: str | None = None  # id of the last answer; Anthropic compares the next request with its request

    def body(
        self, system: str, messages: Sequence[Message], tools: Sequence[Message], wishes: Options = NO_OPTIONS
    ) -> bytes:
        """Everything that stays the same comes before the messages, so each request begins with the one before it."""
        messages, notes = self._apart(messages, wishes.get("announcements") or {})
        points = cache_points(messages, ttl=self.endpoint.cache_ttl) if self.endpoint.cache_points else {}
        if points and len(points) < ROLLING and tools:
            # A new session may have another memory, and so another system prompt; a spare point keeps the tools.
            tools = [*tools[:-1], {**tools[-1], "cache_control": marker_for(self.endpoint.cache_ttl)}]
        parts = self._log.parts(messages, points)
        joined: list[bytes] = [self.beginning(system, tools, wishes)]
        before, ended = "", b""  # who spoke last, and what ends their message
        for place, (message, blocks) in enumerate(zip(messages, parts, strict=True)):
            if not blocks:
                continue
            role = "assistant" if message["role"] == "assistant" else "user"
            # Results of parallel calls must be in one message; so must everything else one side says in a row.
            if role == before:
                joined.append(b",")
            else:
                joined.append(ended + b"," if before else _FIRST + b"," if role == "assistant" else b"")
                joined.append(_OPENINGS[role])
            joined.append(blocks)
            before, ended = role, b"]}"
            if note := notes.get(place):
                follows = messages[place + 1]["role"] if place + 1 < len(messages) else "assistant"
                if follows == "assistant":  # the API accepts a system message nowhere else
                    joined.append(b']},{"role":"system","content":[' + note + b"]}")
                    before, ended = "system", b""
                else:
                    joined.append(b"," + note)
        joined.append(ended + b"]" if before else _FIRST + b"]")
        if self.endpoint.diagnoses_cache:  # behind the messages, because it differs with every request
            joined.append(b',"diagnostics":' + encode({"previous_message_id": self._previous}))
        joined.append(b"}")
        return b"".join(joined)

    def _apart(
        self, messages: Sequence[Message], announcements: Mapping[int, str]
    ) -> tuple[Sequence[Message], dict[int, bytes]]:
        """Messages without the memory updates they hold, and the updates as blocks, by their places."""
        if not self.endpoint.system_messages or not announcements:
            return messages, {}
        bare, notes = list(messages), {}
        for place, text in announcements.items():
            whole = messages[place]
            if id(whole) not in self._bare:  # the same object each time, because `WireLog` keeps bytes by object
                self._bare[id(whole)] = (whole, _without(whole, f"\n\n{text}"))
            if (kept := self._bare[id(whole)][1]) is not whole:
                bare[place], notes[place] = kept, encode({"type": "text", "text": text})
        return bare, notes

    def headers(self, wishes: Options = NO_OPTIONS) -> dict[str, str]:
        key = self.endpoint.key
        version = SAMPLING_VERSION if _SAMPLING & wishes.keys() else VERSION
        headers = {"anthropic-version": version} | ({"authorization": f"Bearer {key}"} if key else {})
        if key and self.endpoint.provider != "anthropic":
            headers["x-api-key"] = key  # other servers of this wire expect the key here
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
                self._begin(answer, chunk["message"])
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
        if system:
            point = {"cache_control": marker_for(self.endpoint.cache_ttl)} if self.endpoint.cache_points else {}
            options["system"] = [{"type": "text", "text": system, **point}]
        return options

    def asked(self, wishes: Options) -> dict[str, Any]:
        wanted: dict[str, Any] = {}
        for name, content in wishes.items():
            if name == "announcements":
                continue  # they are messages
            if name in _UNCHANGED:
                wanted[name] = content
            elif name == "stop":
                wanted["stop_sequences"] = [content] if isinstance(content, str) else list(content)
            elif name in ("tool_choice", "parallel_tool_calls"):
                wanted["tool_choice"] = _choice(wishes)
            elif name == "reasoning_effort":
                wanted.setdefault("output_config", {})["effort"] = content
            elif name == "response_format" and content.get("type") == "json_schema":
                shape = {"type": "json_schema", "schema": content["json_schema"].get("schema") or {}}
                wanted.setdefault("output_config", {})["format"] = shape
            else:
                raise self.refuse(name, content["type"] if name == "response_format" else "")
        return wanted

    def _encode(self, message: Message) -> bytes:
        """The blocks of a message without the brackets, so that neighbours can share one message."""
        return encode(blocks_of(message if self._sees else text_only(message), self.name))[1:-1]

    def _begin(self, answer: Answer, message: Mapping[str, Any]) -> None:
        answer.model = str(message.get("model") or answer.model)
        self._previous = message.get("id")
        reason = (message.get("diagnostics") or {}).get("cache_miss_reason") or {}
        answer.cache_miss = _MISSES.get(str(reason.get("type")), "")
        if answer.cache_miss and (tokens := reason.get("cache_missed_input_tokens")):
            answer.cache_miss += f" ({tokens:,} tokens were read again)"

    def _stop_block(self, answer: Answer, index: int, block: Mapping[str, Any]) -> None:
        if block.get("type") in ("thinking", "redacted_thinking"):
            # It must go back to the same position, and only to the model that wrote it.
            answer.add_detail({**block, "index": index, "model": self.name})
        answer.end_text()

    def _read_whole(self, answer: Answer, message: Mapping[str, Any]) -> Iterator[ModelEvent]:
        self._begin(answer, message)
        for index, block in enumerate(message.get("content") or ()):
            yield from _start_block(answer, index, block)
            self._stop_block(answer, index, block)
        answer.reason = message.get("stop_reason") or "stop"


def _without(message: Message, text: str) -> Message:
    """A copy of the message without that part of its text; the message itself if the text is not in it."""
    content = message.get("content")
    if isinstance(content, str):
        start, found, end = content.rpartition(text)
        return {**message, "content": start + end} if found else message
    parts = list(content or ())
    for at, part in enumerate(parts):
        if isinstance(part, dict) and part.get("type") == "text" and text in str(part.get("text")):
            start, _, end = part["text"].rpartition(text)
            parts[at] = {**part, "text": start + end}
            return {**message, "content": parts}
    return message


def _choice(wishes: Options) -> dict[str, Any]:
    chosen = wishes.get("tool_choice", "auto")
    if isinstance(chosen, str):
        choice = {"type": {"required": "any"}.get(chosen, chosen)}
    else:
        choice = {"type": "tool", "name": chosen["function"]["name"]}
    alone = wishes.get("parallel_tool_calls") is False and choice["type"] != "none"
    return choice | ({"disable_parallel_tool_use": True} if alone else {})


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
