"""What coding agents keep of a session: files of Claude Code and Codex, and the database of OpenAI's Agents SDK."""

from __future__ import annotations

import itertools
import json
import os
import re
import tempfile
from functools import partial
from typing import TYPE_CHECKING, Any

from hermes.base.errors import DamagedFile
from hermes.portability.sources import merged
from hermes.portability.transcripts.conversation import (
    Conversation,
    json_lines,
    mapping,
    message_of,
    spoken,
    text_of,
    timed,
    tool_results,
)
from hermes.storage.local.database import all_rows
from hermes.storage.local.repair.salvage import open_unchanged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import apsw

    from hermes.portability.transcripts.conversation import Told

    Records = Iterable[dict[str, Any]]

CLAUDE_CODE, CODEX, AGENTS_SDK = "claude-code", "codex", "openai-agents"
AGENTS_TABLE = "agent_messages"
_SPOKEN = ("user", "assistant")
_TITLES = {"summary": "summary", "custom-title": "customTitle", "ai-title": "aiTitle"}
_HEAD = 50  # records that tell what a session is about
_LINES = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
# What Codex itself puts before a person's first words.
_PREAMBLE = re.compile(r"\s*(<environment_context>|<user_instructions>|<permissions|# AGENTS\.md instructions)")
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SESSIONS = "SELECT session_id, min(created_at) FROM agent_messages GROUP BY session_id ORDER BY min(id)"
_ITEMS = "SELECT message_data, created_at FROM agent_messages WHERE session_id = ? ORDER BY id"


def usual_places(program: str) -> list[str]:
    """Where a program keeps its transcripts."""
    if program == CLAUDE_CODE:
        return [os.path.join(os.environ.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~/.claude"), "projects")]
    root = os.environ.get("CODEX_HOME") or os.path.expanduser("~/.codex")
    return [os.path.join(root, "sessions"), os.path.join(root, "archived_sessions")]


def is_claude_code(records: list[dict[str, Any]]) -> bool:
    return any(
        (isinstance(record.get("sessionId"), str) and record.get("type") in (*_SPOKEN, "system", "attachment"))
        or (record.get("type") == "summary" and "leafUuid" in record)
        for record in records
    )


def claude_code(path: str, told: Told, on_bytes: Callable[[int], None] | None = None) -> Iterator[Conversation]:
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
            fields=_claude_code_fields(head),
            messages=lambda: _claude_code_messages(_main(json_lines(path, told, on_bytes), agents, late)),
            late=late,
        )
    else:
        agents = {_agent(record): None for record in _spoken(json_lines(path, told, on_bytes))}
    for agent in agents:
        first = next((record for record in head if record.get("isSidechain") and _agent(record) == agent), head[0])
        yield Conversation(
            id=f"{session}_{agent}",
            fields={**_claude_code_fields([first]), "source": f"{CLAUDE_CODE}-agent"},
            messages=partial(_aside, path, agent),
            parent=session,
            kind="delegate",
        )


def _aside(path: str, agent: str) -> Iterator[dict[str, Any]]:
    said = _spoken(json_lines(path, lambda _: None))
    return _claude_code_messages(each for each in said if each.get("isSidechain") and _agent(each) == agent)


def _spoken(records: Records) -> Iterator[dict[str, Any]]:
    for record in records:
        if record.get("type") in _SPOKEN and isinstance(record.get("message"), dict) and not record.get("isMeta"):
            yield record


def _main(records: Records, agents: dict[str, None], late: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What was said in the conversation itself; notes its sub-agents and its title on the way."""

    def without_titles() -> Iterator[dict[str, Any]]:
        for record in records:
            title = record.get(_TITLES.get(str(record.get("type")), ""))
            if isinstance(title, str) and title.strip():
                late["title"] = title
            yield record

    for record in _spoken(without_titles()):
        if record.get("isSidechain"):
            agents[_agent(record)] = None
        else:
            yield record


def _agent(record: dict[str, Any]) -> str:
    given = record.get("agentId")
    return f"agent-{given}" if isinstance(given, str) and given else "agent"


def _claude_code_fields(head: list[dict[str, Any]]) -> dict[str, Any]:
    def first(key: str) -> str | None:
        found = (record.get(key) for record in head)
        return next((text for text in found if isinstance(text, str) and text), None)

    models = (record["message"].get("model") for record in head)
    return {
        "cwd": first("cwd"),
        "project": first("cwd"),
        "git_branch": first("gitBranch"),
        "model": next((model for model in models if isinstance(model, str) and not model.startswith("<")), None),
        "started_at": first("timestamp"),
    }


def _claude_code_messages(records: Records) -> Iterator[dict[str, Any]]:
    """The lines as messages: calls and results of tools as such, thinking beside what was said."""
    names: dict[str, str] = {}
    for record in records:
        content = record["message"].get("content")
        parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
        if record["type"] == "assistant":
            text = text_of([part for part in parts if isinstance(part, dict) and part.get("type") == "text"])
            found = spoken("assistant", text, parts, names)
        else:
            found = _from_user(parts, names)
        extra = {"compact_summary": True} if record.get("isCompactSummary") else {}
        for message in found:
            yield timed({**message, **extra}, record.get("timestamp"))


def _from_user(parts: list[Any], names: dict[str, str]) -> Iterator[dict[str, Any]]:
    yield from tool_results(parts, names)
    said = [part for part in parts if mapping(part).get("type") != "tool_result"]
    plain = all(isinstance(part, str) or mapping(part).get("type") == "text" for part in said)
    if content := text_of(said) if plain else said:
        yield {"role": "user", "content": content}


def is_codex(records: list[dict[str, Any]]) -> bool:
    if any(record.get("type") in _LINES and isinstance(record.get("payload"), dict) for record in records):
        return True
    first = records[0] if records else {}
    return "type" not in first and {"id", "timestamp", "instructions"} <= first.keys()


def codex(path: str, told: Told, on_bytes: Callable[[int], None] | None = None) -> Iterator[Conversation]:
    head = list(itertools.islice(json_lines(path, lambda _: None), _HEAD))
    begun, turns = (
        [record["payload"] for record in head if record.get("type") == kind and mapping(record.get("payload"))]
        for kind in ("session_meta", "turn_context")
    )
    about: dict[str, Any] = next(iter([*begun, *head]), {})
    cwd = about.get("cwd") or next((turn.get("cwd") for turn in turns), None)
    fields = {
        "cwd": cwd,
        "project": cwd,
        "git_branch": mapping(about.get("git")).get("branch"),
        "model": next((turn.get("model") for turn in turns), None),
        "started_at": about.get("timestamp"),
    }
    named = _ID.search(os.path.basename(path))
    name = about.get("id") or (named[0] if named else os.path.splitext(os.path.basename(path))[0])
    said = partial(_codex_messages, path, told, on_bytes)
    yield Conversation(id=str(name), fields=fields, messages=said)


def _codex_messages(path: str, told: Told, on_bytes: Callable[[int], None] | None) -> Iterator[dict[str, Any]]:
    names: dict[str, str] = {}
    for record in json_lines(path, told, on_bytes):
        item = record
        if record.get("type") in _LINES:
            item = mapping(record.get("payload")) if record["type"] in ("response_item", "compacted") else {}
            if record["type"] == "compacted":
                item = {"role": "system", "content": item.get("message")}
        message = message_of(item, names)
        said = message.get("content") if message is not None and message["role"] in ("user", "system") else None
        if message is not None and not (isinstance(said, str) and _PREAMBLE.match(said)):
            yield timed(message, record.get("timestamp"))


def agents_sdk(path: str, told: Told, on_bytes: Callable[[int], None] | None = None) -> Iterator[Conversation]:
    """Tables `agent_sessions` and `agent_messages`."""
    del on_bytes
    with tempfile.TemporaryDirectory(prefix="hermes-import-") as place:
        connection = open_unchanged(merged(path, place))
        if connection is None:
            raise DamagedFile(f"{path} cannot be read as a database; copy it anew from where it came")
        try:
            for name, started in all_rows(connection, _SESSIONS):
                said = partial(_agents_sdk_messages, connection, name, told)
                yield Conversation(id=str(name), fields={"started_at": _as_utc(started)}, messages=said)
        finally:
            connection.close()


def _agents_sdk_messages(connection: apsw.Connection, session: Any, told: Told) -> Iterator[dict[str, Any]]:
    names: dict[str, str] = {}
    for data, created in connection.execute(_ITEMS, (session,)):
        try:
            item = json.loads(data)
        except (TypeError, ValueError, RecursionError) as error:
            told(f"session {session!r}: an item is not JSON ({str(error)[:100]})")
            continue
        if (message := message_of(mapping(item), names)) is not None:
            yield timed(message, _as_utc(created))


def _as_utc(given: Any) -> Any:
    """SQLite's own time stamps are in UTC and do not say so."""
    return f"{given}+00:00" if isinstance(given, str) and "+" not in given else given
