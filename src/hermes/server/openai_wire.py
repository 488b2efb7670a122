"""OpenAI's chat wire, and what all wires of the server share: a request, checked once, an answer, and its events.

The other wires (`anthropic_wire`, `responses_wire`) translate requests into this form before they are checked.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
import time
from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from hermes.base.errors import ImageRefused
from hermes.base.events import TextDelta
from hermes.base.tokens import estimate
from hermes.base.words import scrub
from hermes.safety.fence import storable
from hermes.storage.images import IMAGES, own_parts, taken_in

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from hermes.base.events import ReasoningDelta, Usage
    from hermes.storage.images import Content, Entry

    Piece = TextDelta | ReasoningDelta

_ROLES = ("system", "developer", "user", "assistant", "tool")
_IMAGES = ("image_url", "input_image", "image")  # parts of a user's message besides text
_LONGEST_NAME = 200
_MOST_STOPS = 64
_MOST_TEXTS = 2048
_OWN = {"model", "messages", "tools", "stream", "stream_options"}
_LONGEST = {"max_tokens", "max_completion_tokens"}
# Fields that do not change the answer: notes for the vendor, and hints for its speed and its cache, which we manage.
IGNORED = {
    *("user", "metadata", "store", "safety_identifier", "service_tier", "prediction"),
    *("prompt_cache_key", "prompt_cache_retention", "prompt_cache_options"),
}
_EMPTY = {"n": 1, "logprobs": False, "top_logprobs": 0, "modalities": ["text"]}
_MOST_MESSAGES = 20_000


class BadRequest(Exception):
    """A mistake of the client; `param` names the field."""

    def __init__(self, message: str, param: str | None = None, *, status: int = 400, code: str | None = None) -> None:
        super().__init__(message)
        self.message, self.param, self.status, self.code = message, param, status, code


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """`history` ends with the last answer the client has; `fresh` is what came after it."""

    model: str
    instructions: tuple[str, ...]  # system messages, each as it was sent
    history: list[dict[str, Any]]
    fresh: list[dict[str, Any]]
    functions: list[dict[str, Any]]
    options: dict[str, Any]  # further options for the model, as `llm.client` names them
    stream: bool
    with_usage: bool
    previous: str = ""  # the id of the answer that this request continues
    answer_id: str = ""  # by which the client may continue this answer
    shows_thinking: bool = False
    echo: dict[str, Any] = field(default_factory=dict)  # what a whole answer repeats of the request

    @property
    def system(self) -> str:
        """All system messages as one text."""
        return "\n\n".join(self.instructions)

    @property
    def is_structured(self) -> bool:
        """Whether the answer must fit a schema."""
        return "response_format" in self.options

    @property
    def results(self) -> list[dict[str, Any]]:
        """The new results of the client's tools."""
        return [message for message in self.fresh if message["role"] == "tool"]

    @property
    def said(self) -> list[Content]:
        """The new messages of the person, with their images."""
        return [
            own_parts(message["content"], message[IMAGES]) if IMAGES in message else message["content"]
            for message in self.fresh
            if message["role"] == "user"
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A finished answer on its way to a client."""

    text: str
    calls: list[dict[str, Any]] = field(default_factory=list)
    usage: Usage
    reason: str
    model: str
    session: str
    receipt: str = ""  # of the answer; "" when the turn goes on with the client's tools

    @property
    def message(self) -> dict[str, Any]:
        """The answer as a message of OpenAI's format."""
        return as_message(self.text, self.calls)

    @property
    def finish_reason(self) -> str:
        """The reason in OpenAI's terms; everything unknown cut the answer off and is `length`."""
        return (
            self.reason if self.reason in ("stop", "tool_calls", "content_filter") else "length"
        )  # cut off, by whatever


def as_message(text: str, calls: list[dict[str, Any]]) -> dict[str, Any]:
    """An answer as a message of OpenAI's format."""
    message: dict[str, Any] = {"role": "assistant", "content": text or None}
    return {**message, "tool_calls": calls} if calls else message


def parse(data: bytes) -> ChatRequest:
    """Reads a request of the Chat Completions API; raises BadRequest for fields that would change the answer."""
    body = loaded(data)
    if body.get("n") not in (None, 1):
        raise BadRequest("only one answer at a time: leave n out", "n")
    refuse_others(body, {*_PASSED, *_LONGEST, *_OWN, *IGNORED}, _EMPTY)
    if _LONGEST & body.keys():
        body["max_tokens"] = body.get("max_completion_tokens") or body.get("max_tokens")
    return checked(body)


def loaded(data: bytes) -> dict[str, Any]:
    """Reads a body as a JSON object."""
    try:
        body = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"the body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise BadRequest("the body must be a JSON object")
    return body


def refuse_others(body: dict[str, Any], known: Collection[str], empty: Mapping[str, Any]) -> None:
    """Refuses unknown fields, because one that changes the answer must not be ignored; `empty` values are fine."""
    for name, content in body.items():
        if content is None or name in known or (name in empty and content == empty[name]):
            continue
        said = f"{name:.100} is not supported here; leave it out"
        raise BadRequest(said, name[:_LONGEST_NAME], code="unsupported_parameter")


def checked(body: dict[str, Any], **more: Any) -> ChatRequest:
    """Checks a request in the form of chat completions; `more` are fields that only other wires have."""
    instructions, rest = _messages(body.get("messages"))
    last = max((place for place, message in enumerate(rest) if message["role"] == "assistant"), default=-1)
    history, fresh = rest[: last + 1], rest[last + 1 :]
    if not fresh:
        raise BadRequest("the last message must be the user's or a tool's", "messages")
    options = body.get("stream_options")
    functions = _functions(body.get("tools"))
    return ChatRequest(
        model=text_of(body, "model"),
        instructions=instructions,
        history=history,
        fresh=fresh,
        functions=functions,
        options=_options(body, {each["function"]["name"] for each in functions}),
        stream=_flag(body, "stream"),
        with_usage=isinstance(options, dict) and options.get("include_usage") is True,
        **more,
    )


def _options(body: dict[str, Any], functions: Collection[str]) -> dict[str, Any]:
    options = {name: body[name] for name in _PASSED if body.get(name) is not None}
    for name, content in options.items():
        if not _PASSED[name](content):
            raise BadRequest(f"{name} is not what the API takes there: {json.dumps(content)[:100]}", name)
    if options.get("response_format", {}).get("type") == "text":
        del options["response_format"]
    choice = options.get("tool_choice")
    named = choice["function"]["name"] if isinstance(choice, dict) else ""
    if (choice == "required" and not functions) or (named and named not in functions):
        raise BadRequest(f"tool_choice wants a function that tools does not have: {named or 'any'}", "tool_choice")
    return options


def _is_number(content: Any) -> bool:
    return isinstance(content, int | float) and not isinstance(content, bool)


def _is_count(content: Any) -> bool:
    return isinstance(content, int) and not isinstance(content, bool)


def _is_text(content: Any) -> bool:
    return isinstance(content, str) and 0 < len(content) <= _LONGEST_NAME


def _is_stop(content: Any) -> bool:
    return _is_text(content) or (
        isinstance(content, list) and 0 < len(content) <= _MOST_STOPS and all(map(_is_text, content))
    )


def _is_shape(content: Any) -> bool:
    kind = content.get("type") if isinstance(content, dict) else None
    schema = content.get("json_schema") if kind == "json_schema" else {"name": "-"}
    return kind in ("text", "json_object", "json_schema") and isinstance(schema, dict) and _is_text(schema.get("name"))


def _is_choice(content: Any) -> bool:
    if not isinstance(content, dict):
        return content in ("auto", "none", "required")
    function = content.get("function") if content.get("type") == "function" else None
    return isinstance(function, dict) and _is_text(function.get("name"))


def _is_object(content: Any) -> bool:
    return isinstance(content, dict)


# The options that are passed to the model, and how each is checked. All others are ignored or refused by name.
_PASSED: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("temperature", "top_p", "frequency_penalty", "presence_penalty"), _is_number),
    **dict.fromkeys(("min_p", "repetition_penalty"), _is_number),
    **dict.fromkeys(("max_tokens", "seed", "top_k"), _is_count),
    **dict.fromkeys(("reasoning_effort", "verbosity"), _is_text),
    **dict.fromkeys(("logit_bias", "thinking"), _is_object),
    "stop": _is_stop,
    "response_format": _is_shape,
    "tool_choice": _is_choice,
    "parallel_tool_calls": lambda content: isinstance(content, bool),
}


class Digest:
    """Identifies a conversation by its messages, regardless of how a client formats them."""

    def __init__(self, messages: Sequence[dict[str, Any]]) -> None:
        self._hash = hashlib.sha256(b"[" + _gist(messages))
        self._has_some = bool(messages)

    def and_then(self, messages: Sequence[dict[str, Any]]) -> Digest:
        """The digest of the same conversation with more messages at its end."""
        longer = Digest(())
        longer._hash, longer._has_some = self._hash.copy(), self._has_some or bool(messages)
        longer._hash.update((b", " if self._has_some and messages else b"") + _gist(messages))
        return longer

    def __str__(self) -> str:
        whole = self._hash.copy()
        whole.update(b"]")
        return whole.hexdigest()


def _gist(messages: Sequence[dict[str, Any]]) -> bytes:
    gist = [
        [
            message["role"],
            (storable(message).get("content") or "").strip(),
            [[call["id"], call["function"]["name"]] for call in message.get("tool_calls") or ()],
            *(image.get("file") or image.get("url") for image in message.get(IMAGES) or ()),
        ]
        for message in messages
    ]
    return json.dumps(gist, ensure_ascii=False)[1:-1].encode("utf-8", "replace")


class Writer(Protocol):
    """Writes one answer in the form of a wire: whole, or as events of a stream."""

    id: str  # what the client may call the answer later

    def whole(self, pieces: Sequence[Piece], answer: Answer) -> dict[str, Any]:
        """The document of an answer that is not streamed."""

    def opening(self) -> str:
        """The events before the first piece."""

    def piece(self, piece: Piece) -> str:
        """The events for a piece; "" if the client does not want it."""

    def ending(self, answer: Answer) -> str:
        """The events after the last piece: tool calls, the reason, the token counts."""

    def failure(self, error: dict[str, Any]) -> str:
        """The event for an error in the middle of a stream; `error` is the document of the error."""


def event(document: dict[str, Any], *, named: bool = True) -> str:
    """One server-sent event; `named` adds the line that repeats its type."""
    name = f"event: {document['type']}\n" if named else ""
    return f"{name}data: {json.dumps(document, ensure_ascii=False)}\n\n"


class ChatWriter:
    """Writes answers in the form of Chat Completions."""

    def __init__(self, asked: ChatRequest, name: str) -> None:
        self.id = f"chatcmpl-{os.urandom(12).hex()}"
        self._with_usage = asked.with_usage
        self._head = {"id": self.id, "created": int(time.time()), "model": name}

    def whole(self, pieces: Sequence[Piece], answer: Answer) -> dict[str, Any]:
        del pieces  # the answer has the text
        choice = {"index": 0, "message": {**answer.message, "refusal": None}, "finish_reason": answer.finish_reason}
        choices = [{**choice, "logprobs": None}]
        return {**self._head, "object": "chat.completion", "choices": choices, "usage": usage(answer.usage)}

    def opening(self) -> str:
        return self._delta({"role": "assistant", "content": ""})

    def piece(self, piece: Piece) -> str:
        return self._delta({"content": piece.text}) if isinstance(piece, TextDelta) else ""

    def ending(self, answer: Answer) -> str:
        calls = [{"index": place, **call} for place, call in enumerate(answer.calls)]
        events = [self._delta({"tool_calls": calls})] if calls else []
        receipt = {"receipt": answer.receipt} if answer.receipt else {}
        events.append(self._delta({}, answer.finish_reason, session_id=answer.session, **receipt))
        if self._with_usage:
            events.append(self._chunk([], usage=usage(answer.usage)))
        return "".join(events) + "data: [DONE]\n\n"

    def failure(self, error: dict[str, Any]) -> str:
        return event(error, named=False)

    def _delta(self, delta: dict[str, Any], finish: str | None = None, **more: Any) -> str:
        return self._chunk([{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}], **more)

    def _chunk(self, choices: list[dict[str, Any]], **more: Any) -> str:
        return event({**self._head, "object": "chat.completion.chunk", "choices": choices, **more}, named=False)


def usage(counted: Usage) -> dict[str, Any]:
    """The token counts in the form of Chat Completions."""
    sent, written = counted.input_tokens, counted.output_tokens
    details = {"cached_tokens": counted.cache_read_tokens}
    return {
        "prompt_tokens": sent,
        "completion_tokens": written,
        "total_tokens": sent + written,
        "prompt_tokens_details": details,
    }


def texts_to_embed(data: bytes) -> tuple[list[str], bool, dict[str, Any]]:
    """The texts of a request for embeddings, whether vectors are wanted as base64, and the request."""
    body = loaded(data)
    refuse_others(body, {"input", "model", "encoding_format", "dimensions", "user"}, {})
    given = body.get("input")
    texts = [given] if isinstance(given, str) else list_of(given, "input")
    if not 0 < len(texts) <= _MOST_TEXTS or not all(isinstance(text, str) and text for text in texts):
        raise BadRequest(f"input must be a text or up to {_MOST_TEXTS:,} of them; tokens are not taken here", "input")
    if body.get("encoding_format", "float") not in ("float", "base64"):
        raise BadRequest("encoding_format must be float or base64", "encoding_format")
    return list(map(scrub, texts)), body.get("encoding_format") == "base64", {**body, "model": text_of(body, "model")}


def embedded(rows: Any, texts: Sequence[str], name: str, *, packed: bool) -> dict[str, Any]:
    """The answer to a request for embeddings: vectors of length 1, as OpenAI's are; zeros stay zeros."""
    listed = []
    for place, row in enumerate(rows):
        size = math.sqrt(sum(float(each) ** 2 for each in row)) or 1.0
        vector = array("f", (float(each) / size for each in row))
        told = base64.b64encode(vector.tobytes()).decode() if packed else vector.tolist()
        listed.append({"object": "embedding", "index": place, "embedding": told})
    tokens = sum(map(estimate, texts))
    return {
        "object": "list",
        "data": listed,
        "model": name,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }


def error_body(
    message: str, kind: str = "invalid_request_error", param: str | None = None, code: str | None = None
) -> Any:
    """An error in OpenAI's form, which all routes but Anthropic's use."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def _messages(given: Any) -> tuple[tuple[str, ...], list[dict[str, Any]]]:
    if not isinstance(given, list) or not given:
        raise BadRequest("messages must be a list with at least one message", "messages")
    if len(given) > _MOST_MESSAGES:
        raise BadRequest(f"more than {_MOST_MESSAGES:,} messages", "messages")
    system: list[str] = []
    rest: list[dict[str, Any]] = []
    names: set[Any] = set()
    for place, message in enumerate(given):
        where = f"messages[{place}]"
        role = message.get("role") if isinstance(message, dict) else None
        if role not in _ROLES:
            raise BadRequest(f"{where}.role must be one of {', '.join(_ROLES)}", where)
        content, images = _content(message.get("content"), where, role)
        names |= {message.get("name")} if role == "user" else set()
        if role in ("system", "developer"):
            system.append(content)
        else:
            rest.append(_message(message, role, content, where) | ({IMAGES: images} if images else {}))
    if len(names) > 1:
        raise BadRequest("several speakers (name) in one conversation are not supported here", "messages")
    return tuple(part for part in system if part), rest


def _message(message: dict[str, Any], role: str, content: str, where: str) -> dict[str, Any]:
    clean: dict[str, Any] = {"role": role, "content": content}
    if role == "tool":
        if not isinstance(message.get("tool_call_id"), str) or not message["tool_call_id"]:
            raise BadRequest(f"{where}.tool_call_id is missing", where)
        clean["tool_call_id"] = scrub(message["tool_call_id"])
        if message.get("is_error") is True:
            clean["is_error"] = True
    if role == "assistant" and message.get("tool_calls"):
        clean["tool_calls"] = [_call(call, where) for call in list_of(message["tool_calls"], f"{where}.tool_calls")]
        clean["content"] = content or None
    return clean


def _call(call: Any, where: str) -> dict[str, Any]:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(call.get("id"), str):
        raise BadRequest(f"{where}.tool_calls: each call needs an id and a function", where)
    name, arguments = function.get("name"), function.get("arguments")
    if not isinstance(name, str) or not isinstance(arguments, str):
        raise BadRequest(f"{where}.tool_calls: name and arguments must be texts", where)
    return {
        "id": scrub(call["id"]),
        "type": "function",
        "function": {"name": scrub(name), "arguments": scrub(arguments)},
    }


def _content(content: Any, where: str, role: str) -> tuple[str, list[Entry]]:
    """The text, and the images of a user's message; each has a placeholder in the text."""
    if content is None:
        return "", []
    if isinstance(content, str):
        return scrub(content), []
    parts: list[dict[str, Any]] = []
    for part in list_of(content, f"{where}.content"):
        kind = part.get("type") if isinstance(part, dict) else None
        if role == "user" and kind in _IMAGES:
            parts.append({"type": kind, **{key: part[key] for key in ("image_url", "detail", "source") if key in part}})
            continue
        text = part.get({"text": "text", "refusal": "refusal"}.get(str(kind), ""), None) if kind else None
        if not isinstance(text, str):
            taken = "text and images are" if role == "user" else "only text is"
            raise BadRequest(f"{where}.content: {taken} supported here, not {kind!r:.40}", where)
        parts.append({"type": "text", "text": scrub(text)})
    try:
        return taken_in(parts)
    except ImageRefused as error:
        raise BadRequest(f"{where}.content: {error}", where) from error


def _functions(given: Any) -> list[dict[str, Any]]:
    functions = []
    for place, tool in enumerate(list_of(given or [], "tools")):
        function = (
            tool.get("function") if isinstance(tool, dict) and tool.get("type", "function") == "function" else None
        )
        name = function.get("name") if isinstance(function, dict) else None
        if not isinstance(function, dict) or not isinstance(name, str) or not 0 < len(name) <= _LONGEST_NAME:
            raise BadRequest(f"tools[{place}] must be a function with a name", "tools")
        if not isinstance(function.get("parameters", {}), dict):
            raise BadRequest(f"tools[{place}].function.parameters must be a JSON schema", "tools")
        functions.append({"type": "function", "function": function})
    return functions


def list_of(given: Any, param: str) -> list[Any]:
    """The value if it is a list; otherwise BadRequest names the field."""
    if not isinstance(given, list):
        raise BadRequest(f"{param} must be a list", param)
    return given


def text_of(body: dict[str, Any], name: str) -> str:
    """A short text field; "" if it is missing."""
    value = body.get(name)
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > _LONGEST_NAME:
        raise BadRequest(f"{name} must be a text of at most {_LONGEST_NAME} characters", name)
    return scrub(value)


def _flag(body: dict[str, Any], name: str) -> bool:
    if body.get(name) not in (None, True, False):
        raise BadRequest(f"{name} must be true or false", name)
    return body.get(name) is True
