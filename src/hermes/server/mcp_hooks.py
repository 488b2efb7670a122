"""Stores what a host's hook reports of a conversation: a whole transcript file, or one turn at a time."""

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
    """Stores what is new: the same report twice adds nothing, and neither does one in which nothing was said."""
    if host not in _HOOKS:
        raise NotFound(f"there is no hook for {host!r}; there are {', '.join(_HOOKS)}")
    return _HOOKS[host](home, payload)


def _claude_code(home: Home, payload: Payload) -> dict[str, Any]:
    from hermes.migration.transcripts.claude_code import NAME

    return _bring_in(home, os.path.expanduser(str(payload.get("transcript_path") or "")), NAME)


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
    return _turn(
        home, "cursor", payload.get("conversation_id"), [{"role": role, "content": payload.get(field)}], payload
    )


def _gemini(home: Home, payload: Payload) -> dict[str, Any]:
    messages = [
        {"role": "user", "content": payload.get("prompt")},
        {"role": "assistant", "content": payload.get("prompt_response")},
    ]
    return _turn(home, "gemini", payload.get("session_id"), messages, payload)


def _turn(home: Home, host: str, key: Any, messages: list[dict[str, Any]], payload: Payload) -> dict[str, Any]:
    said = [message for message in messages if message["content"]]
    if not said:
        return {"added": 0}
    if not isinstance(key, str) or not key or not all(isinstance(message["content"], str) for message in said):
        raise SettingsError(f"the hook's message is not one of {host}; is this the hook of another program?")
    from hermes.server.workspace import Workspace

    cwd = payload.get("cwd") or next(iter(payload.get("workspace_roots") or ()), None)
    folder = cwd if isinstance(cwd, str) and os.path.isdir(cwd) else None
    workspace = Workspace(home, source=host, project=None, cwd=folder)
    try:
        return workspace.record(key, said, cwd=folder)
    finally:
        workspace.close()


def _bring_in(home: Home, path: str, form: str) -> dict[str, Any]:
    from hermes.migration.transcripts.bring_in import BringIn
    from hermes.migration.transcripts.recognise import sources
    from hermes.storage.sessions import SessionDB

    if not os.path.isfile(path) or os.path.getsize(path) == 0:
        return {"added": 0}  # a host names the transcript of a session in which nothing was said
    with SessionDB.open(home.join(DATABASE), durability="turn") as db:
        work = BringIn(db)
        for source in sources(path, form):
            work.take(source)
        result = work.finish()
    return {"added": result.messages, "problems": result.problems}


_HOOKS: dict[str, Callable[[Home, Payload], dict[str, Any]]] = {
    "claude-code": _claude_code,
    "codex": _codex,
    "cursor": _cursor,
    "gemini": _gemini,
}
