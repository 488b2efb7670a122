"""Claude Code's transcripts: one JSONL file per session below `~/.claude/projects/<folder>/`."""

from __future__ import annotations

import itertools
import os
from functools import partial
from typing import TYPE_CHECKING, Any

from hermes.portability.conversations_import import moment_of
from hermes.portability.transcripts.conversation import Conversation, json_lines, text_of, timed, tool_call

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from hermes.portability.transcripts.conversation import Told

NAME = "claude-code"
_SPOKEN = ("user", "assistant")
_TITLES = {"summary": "summary", "custom-title": "customTitle", "ai-title": "aiTitle"}
_HEAD = 30  # messages that tell what the session is about


def places() -> list[str]:
    root = os.environ.get("CLAUDE_CONFIG_DIR") or os.path.join(os.path.expanduser("~"), ".claude")
    return [os.path.join(root, "projects")]


def recognises(records: list[dict[str, Any]]) -> bool:
    return any(
        (isinstance(record.get("sessionId"), str) and record.get("type") in (*_SPOKEN, "system", "attachment"))
        or (record.get("type") == "summary" and "leafUuid" in record)
        for record in records
    )


def conversations(path: str, told: Told, on_bytes: Callable[[int], None] | None = None) -> Iterator[Conversation]:
    """The conversation of the file, then one for each sub-agent whose words stand in it."""
    head = list(itertools.islice(_spoken(json_lines(path, lambda _: None)), _HEAD))
    if not head:
        return
    session = str(head[0].get("sessionId") or os.path.splitext(os.path.basename(path))[0])
    agents: dict[str, None] = {}
    late: dict[str, Any] = {}
    if not all(record.get("isSidechain") for record in head):
        yield Conversation(
            id=session,
            fields=_fields(head, path),
            messages=lambda: _messages(_main(json_lines(path, told, on_bytes), agents, late)),
            late=late,
        )
    else:
        agents = {_agent(record): None for record in _spoken(json_lines(path, told, on_bytes))}
    for agent in agents:
        first = next((record for record in head if record.get("isSidechain") and _agent(record) == agent), head[0])
        yield Conversation(
            id=f"{session}_{agent}",
            fields={**_fields([first], path), "source": f"{NAME}-agent"},
            messages=partial(_aside, path, agent),
            parent=session,
            kind="delegate",
        )


def _aside(path: str, agent: str) -> Iterator[dict[str, Any]]:
    spoken = _spoken(json_lines(path, lambda _: None))
    return _messages(record for record in spoken if record.get("isSidechain") and _agent(record) == agent)


def _spoken(records: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for record in records:
        if record.get("type") in _SPOKEN and isinstance(record.get("message"), dict) and not record.get("isMeta"):
            yield record


def _main(records: Iterable[dict[str, Any]], agents: dict[str, None], late: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for record in records:
        kind = record.get("type")
        if kind not in _SPOKEN:
            title = record.get(_TITLES[kind]) if kind in _TITLES else None
            if isinstance(title, str) and title.strip():
                late["title"] = title
        elif not isinstance(record.get("message"), dict) or record.get("isMeta"):
            continue
        elif record.get("isSidechain"):
            agents[_agent(record)] = None
        else:
            yield record


def _agent(record: dict[str, Any]) -> str:
    given = record.get("agentId")
    return f"agent-{given}" if isinstance(given, str) and given else "agent"


def _fields(head: list[dict[str, Any]], path: str) -> dict[str, Any]:
    def first(key: str) -> str | None:
        found = (record.get(key) for record in head)
        return next((text for text in found if isinstance(text, str) and text), None)

    models = (record["message"].get("model") for record in head)
    fields = {
        "source": NAME,
        "cwd": first("cwd"),
        "project": first("cwd"),
        "git_branch": first("gitBranch"),
        "model": next((model for model in models if isinstance(model, str) and not model.startswith("<")), None),
        "started_at": moment_of(first("timestamp")),
        "imported_from": path,
    }
    return {key: value for key, value in fields.items() if value is not None}


def _messages(records: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The lines as messages: calls and results of tools as such, thinking beside what was said."""
    names: dict[str, str] = {}
    for record in records:
        content = record["message"].get("content")
        if type(content) is str and content and "isCompactSummary" not in record:  # most of what people say, made fast
            yield timed({"role": record["type"], "content": content}, record.get("timestamp"))
            continue
        parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
        found = _assistant(parts, names) if record["type"] == "assistant" else _user(parts, names)
        extra = {"compact_summary": True} if record.get("isCompactSummary") else {}
        for message in found:
            yield timed({**message, **extra}, record.get("timestamp"))


def _assistant(parts: list[Any], names: dict[str, str]) -> Iterator[dict[str, Any]]:
    message: dict[str, Any] = {"role": "assistant", "content": text_of(_of_kind(parts, "text")) or None}
    thoughts = "\n".join(str(part.get("thinking") or "") for part in _of_kind(parts, "thinking"))
    if thoughts.strip():
        message["reasoning"] = thoughts
    calls = _of_kind(parts, "tool_use")
    if calls:
        names |= {str(call.get("id")): str(call.get("name")) for call in calls}
        message["tool_calls"] = [tool_call(call.get("id"), call.get("name"), call.get("input")) for call in calls]
    if message["content"] or len(message) > 2:  # noqa: PLR2004 - more than its role and an empty content
        yield message


def _user(parts: list[Any], names: dict[str, str]) -> Iterator[dict[str, Any]]:
    for result in _of_kind(parts, "tool_result"):
        call = str(result.get("tool_use_id"))
        message = {"role": "tool", "tool_call_id": call, "content": text_of(result.get("content"))}
        yield {**message, "name": names[call]} if call in names else message
    said = [part for part in parts if not (isinstance(part, dict) and part.get("type") == "tool_result")]
    plain = all(isinstance(part, str) or (isinstance(part, dict) and part.get("type") == "text") for part in said)
    content: Any = text_of(said) if plain else said
    if content:
        yield {"role": "user", "content": content}


def _of_kind(parts: list[Any], kind: str) -> list[dict[str, Any]]:
    return [part for part in parts if isinstance(part, dict) and part.get("type") == kind]
