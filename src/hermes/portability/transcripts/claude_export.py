"""Claude's data export: `conversations.json`, a list of conversations with their messages in order."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from hermes.portability.conversations_import import moment_of
from hermes.portability.transcripts.conversation import Conversation, mapping, text_of, timed, tool_call

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "claude"
_ROLES = {"human": "user", "assistant": "assistant"}


def recognises(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(item.get("chat_messages"), list)


def conversations(item: dict[str, Any], origin: str) -> Iterator[Conversation]:
    name = str(item.get("uuid") or item.get("name") or "conversation")
    project = mapping(item.get("project"))
    fields: dict[str, Any] = {
        "source": NAME,
        "title": item.get("name") or None,
        "started_at": moment_of(item.get("created_at")),
        "model": item.get("model"),
        "project": project.get("name"),
        "imported_from": origin,
    }
    fields = {key: value for key, value in fields.items() if isinstance(value, str | float)}
    yield Conversation(id=name, fields=fields, messages=partial(_messages, item["chat_messages"]))


def _messages(given: list[Any]) -> Iterator[dict[str, Any]]:
    names: dict[str, str] = {}
    for each in given:
        role = _ROLES.get(str(each.get("sender"))) if isinstance(each, dict) else None
        if role is not None:
            for message in _parts(each, role, names):
                yield timed(message, each.get("created_at"))


def _parts(each: dict[str, Any], role: str, names: dict[str, str]) -> Iterator[dict[str, Any]]:
    parts = [part for part in each.get("content") or () if isinstance(part, dict)]
    spoken = [part for part in parts if part.get("type") == "text"]
    said = [text_of(spoken) or text_of(each.get("text")), *_attached(each)]
    calls = [part for part in parts if part.get("type") == "tool_use"]
    message: dict[str, Any] = {"role": role, "content": "\n\n".join(filter(None, said)) or None}
    thoughts = "\n".join(str(part.get("thinking") or "") for part in parts if part.get("type") == "thinking")
    if thoughts.strip():
        message["reasoning"] = thoughts
    if calls:
        names |= {str(call.get("id") or call.get("name")): str(call.get("name")) for call in calls}
        message["tool_calls"] = [
            tool_call(call.get("id") or call.get("name"), call.get("name"), call.get("input")) for call in calls
        ]
    if message["content"] or len(message) > 2:  # noqa: PLR2004 - more than its role and an empty content
        yield message
    for part in parts:
        if part.get("type") == "tool_result":
            call = str(part.get("tool_use_id") or part.get("name"))
            result = {"role": "tool", "tool_call_id": call, "content": text_of(part.get("content"))}
            yield {**result, "name": names[call]} if call in names else result


def _attached(each: dict[str, Any]) -> Iterator[str]:
    for attachment in each.get("attachments") or ():
        if isinstance(attachment, dict):
            yield f"[{attachment.get('file_name') or 'attachment'}]\n{text_of(attachment.get('extracted_content'))}"
    for file in each.get("files") or ():
        if isinstance(file, dict) and file.get("file_name"):
            yield f"[{file['file_name']}]"
