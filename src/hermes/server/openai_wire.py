"""OpenAI's chat wire: what a client sends, checked once, and what it gets back."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hermes.base.errors import ImageRefused
from hermes.base.words import scrub
from hermes.safety.fence import storable
from hermes.storage.images import IMAGES, own_parts, taken_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermes.base.events import Usage
    from hermes.storage.images import Content, Entry

_ROLES = ("system", "developer", "user", "assistant", "tool")
_IMAGES = ("image_url", "input_image", "image")  # parts of a user's message besides text
_LONGEST_NAME = 200
_MOST_MESSAGES = 20_000


class BadRequest(Exception):
    """The client's mistake; `param` names the field."""

    def __init__(self, message: str, param: str | None = None, *, status: int = 400, code: str | None = None) -> None:
        super().__init__(message)
        self.message, self.param, self.status, self.code = message, param, status, code


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """`history` ends with the last answer the client has; `fresh` is what came after it."""

    model: str
    system: str
    history: list[dict[str, Any]]
    fresh: list[dict[str, Any]]
    functions: list[dict[str, Any]]
    stream: bool
    with_usage: bool
    user: str

    @property
    def results(self) -> list[dict[str, Any]]:
        return [message for message in self.fresh if message["role"] == "tool"]

    @property
    def said(self) -> list[Content]:
        return [
            own_parts(message["content"], message[IMAGES]) if IMAGES in message else message["content"]
            for message in self.fresh
            if message["role"] == "user"
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    text: str
    calls: list[dict[str, Any]] = field(default_factory=list)
    usage: Usage
    reason: str
    model: str
    session: str

    @property
    def message(self) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": self.text or None}
        return {**message, "tool_calls": self.calls} if self.calls else message

    @property
    def finish_reason(self) -> str:
        return (
            self.reason if self.reason in ("stop", "tool_calls", "content_filter") else "length"
        )  # cut off, by whatever


def parse(data: bytes) -> ChatRequest:
    try:
        body = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"the body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise BadRequest("the body must be a JSON object")
    if body.get("n") not in (None, 1):
        raise BadRequest("only one answer at a time: leave n out", "n")
    shape = body.get("response_format")
    if shape is not None and (not isinstance(shape, dict) or shape.get("type") != "text"):
        raise BadRequest("only plain text answers are supported here", "response_format")
    system, rest = _messages(body.get("messages"))
    last = max((place for place, message in enumerate(rest) if message["role"] == "assistant"), default=-1)
    history, fresh = rest[: last + 1], rest[last + 1 :]
    if not fresh:
        raise BadRequest("the last message must be the user's or a tool's", "messages")
    options = body.get("stream_options")
    return ChatRequest(
        model=_text(body, "model"),
        system=system,
        history=history,
        fresh=fresh,
        functions=_functions(body.get("tools")),
        stream=_flag(body, "stream"),
        with_usage=isinstance(options, dict) and options.get("include_usage") is True,
        user=_text(body, "user"),
    )


def digest(messages: Sequence[dict[str, Any]]) -> str:
    """Recognises a conversation by what was said in it, however a client formats it."""
    gist = [
        [
            message["role"],
            (storable(message).get("content") or "").strip(),
            [[call["id"], call["function"]["name"]] for call in message.get("tool_calls") or ()],
            *(image.get("file") or image.get("url") for image in message.get(IMAGES) or ()),
        ]
        for message in messages
    ]
    return hashlib.sha256(json.dumps(gist, ensure_ascii=False).encode("utf-8", "replace")).hexdigest()


def whole_answer(answer: Answer, name: str, number: str, created: int) -> dict[str, Any]:
    choice = {"index": 0, "message": {**answer.message, "refusal": None}, "finish_reason": answer.finish_reason}
    return {
        "id": number,
        "object": "chat.completion",
        "created": created,
        "model": name,
        "choices": [{**choice, "logprobs": None}],
        "usage": usage(answer.usage),
    }


def piece(delta: dict[str, Any], name: str, number: str, created: int, finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
    return {"id": number, "object": "chat.completion.chunk", "created": created, "model": name, "choices": [choice]}


def calls_delta(calls: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {"tool_calls": [{"index": place, **call} for place, call in enumerate(calls)]}


def usage(counted: Usage) -> dict[str, Any]:
    sent, written = counted.input_tokens, counted.output_tokens
    details = {"cached_tokens": counted.cache_read_tokens}
    return {
        "prompt_tokens": sent,
        "completion_tokens": written,
        "total_tokens": sent + written,
        "prompt_tokens_details": details,
    }


def error_body(
    message: str, kind: str = "invalid_request_error", param: str | None = None, code: str | None = None
) -> Any:
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def _messages(given: Any) -> tuple[str, list[dict[str, Any]]]:
    if not isinstance(given, list) or not given:
        raise BadRequest("messages must be a list with at least one message", "messages")
    if len(given) > _MOST_MESSAGES:
        raise BadRequest(f"more than {_MOST_MESSAGES:,} messages", "messages")
    system: list[str] = []
    rest: list[dict[str, Any]] = []
    for place, message in enumerate(given):
        where = f"messages[{place}]"
        role = message.get("role") if isinstance(message, dict) else None
        if role not in _ROLES:
            raise BadRequest(f"{where}.role must be one of {', '.join(_ROLES)}", where)
        content, images = _content(message.get("content"), where, role)
        if role in ("system", "developer"):
            system.append(content)
        else:
            rest.append(_message(message, role, content, where) | ({IMAGES: images} if images else {}))
    return "\n\n".join(part for part in system if part), rest


def _message(message: dict[str, Any], role: str, content: str, where: str) -> dict[str, Any]:
    clean: dict[str, Any] = {"role": role, "content": content}
    if role == "tool":
        if not isinstance(message.get("tool_call_id"), str) or not message["tool_call_id"]:
            raise BadRequest(f"{where}.tool_call_id is missing", where)
        clean["tool_call_id"] = scrub(message["tool_call_id"])
    if role == "assistant" and message.get("tool_calls"):
        clean["tool_calls"] = [_call(call, where) for call in _list(message["tool_calls"], f"{where}.tool_calls")]
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
    for part in _list(content, f"{where}.content"):
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
    for place, tool in enumerate(_list(given or [], "tools")):
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


def _list(given: Any, param: str) -> list[Any]:
    if not isinstance(given, list):
        raise BadRequest(f"{param} must be a list", param)
    return given


def _text(body: dict[str, Any], name: str) -> str:
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
