"""What a host's hook tells of a conversation, stored: a whole transcript file, or one turn at a time."""

from __future__ import annotations

import glob
import os
from typing import TYPE_CHECKING, Any

from hermes.settings.home import DATABASE
from hermes.vocabulary.errors import NotFound, SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable

    from hermes.settings.home import Home

    Payload = dict[str, Any]


def record(home: Home, host: str, payload: Payload) -> dict[str, Any]:
    """Stores what is new; telling the same twice adds nothing."""
    if host not in _HOOKS:
        raise NotFound(f"there is no hook for {host!r}; there are {', '.join(_HOOKS)}")
    return _HOOKS[host](home, payload)


def _claude_code(home: Home, payload: Payload) -> dict[str, Any]:
    from hermes.migration.transcripts.claude_code import NAME

    path = os.path.expanduser(_text(payload, "transcript_path"))
    return _bring_in(home, path, NAME)


def _codex(home: Home, payload: Payload) -> dict[str, Any]:
    if payload.get("type") != "agent-turn-complete":
        return {"added": 0}
    from hermes.migration.transcripts.codex import NAME

    thread = str(payload.get("thread-id") or "")
    folder = os.environ.get("CODEX_HOME") or os.path.expanduser(os.path.join("~", ".codex"))
    pattern = os.path.join(glob.escape(folder), "sessions", "**", f"*{glob.escape(thread)}.jsonl")
    found = glob.glob(pattern, recursive=True) if thread else []
    if found:
        return _bring_in(home, found[0], NAME)
    said = payload.get("input-messages")
    messages = [{"role": "user", "content": str(text)} for text in (said if isinstance(said, list) else [])]
    if answer := payload.get("last-assistant-message"):
        messages.append({"role": "assistant", "content": str(answer)})
    return _turn(home, "codex", thread or str(payload.get("turn-id") or "unknown"), messages, payload)


def _cursor(home: Home, payload: Payload) -> dict[str, Any]:
    spoken = {"beforeSubmitPrompt": ("user", "prompt"), "afterAgentResponse": ("assistant", "text")}
    role, field = spoken.get(str(payload.get("hook_event_name")), ("", ""))
    if not role:
        return {"added": 0}
    message = {"role": role, "content": _text(payload, field)}
    return _turn(home, "cursor", _text(payload, "conversation_id"), [message], payload)


def _gemini(home: Home, payload: Payload) -> dict[str, Any]:
    messages = [
        {"role": "user", "content": _text(payload, "prompt")},
        {"role": "assistant", "content": _text(payload, "prompt_response")},
    ]
    return _turn(home, "gemini", _text(payload, "session_id"), messages, payload)


def _turn(home: Home, host: str, key: str, messages: list[dict[str, str]], payload: Payload) -> dict[str, Any]:
    from hermes.server.workspace import Workspace

    cwd = payload.get("cwd") or next(iter(payload.get("workspace_roots") or ()), None)
    folder = cwd if isinstance(cwd, str) and os.path.isdir(cwd) else None
    workspace = Workspace(home, source=host, project=None, cwd=folder)
    try:
        return workspace.record(key, messages, cwd=folder)
    finally:
        workspace.close()


def _bring_in(home: Home, path: str, form: str) -> dict[str, Any]:
    from hermes.migration.transcripts.bring_in import BringIn
    from hermes.migration.transcripts.recognise import sources
    from hermes.storage.sessions import SessionDB

    if not os.path.isfile(path):
        raise NotFound(f"the host named a transcript that is not there: {path}")
    with SessionDB.open(home.join(DATABASE), durability="turn") as db:
        work = BringIn(db)
        for source in sources(path, form):
            work.take(source)
        result = work.finish()
    return {"added": result.messages, "problems": result.problems}


def _text(payload: Payload, field: str) -> str:
    value = payload.get(field)
    if not isinstance(value, str) or not value:
        raise SettingsError(f"the hook's message has no {field}; is this the hook of another program?")
    return value


_HOOKS: dict[str, Callable[[Home, Payload], dict[str, Any]]] = {
    "claude-code": _claude_code,
    "codex": _codex,
    "cursor": _cursor,
    "gemini": _gemini,
}
