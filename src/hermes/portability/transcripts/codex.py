"""Codex CLI's rollouts: one JSONL file per session below `~/.codex/sessions/YYYY/MM/DD/`."""

from __future__ import annotations

import itertools
import os
import re
from typing import TYPE_CHECKING, Any

from hermes.portability.conversations_import import moment_of
from hermes.portability.transcripts.conversation import Conversation, json_lines, mapping, message_of, timed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from hermes.portability.transcripts.conversation import Told

NAME = "codex"
_LINES = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
# What the program itself puts before a person's first words.
_PREAMBLE = re.compile(r"\s*(<environment_context>|<user_instructions>|<permissions|# AGENTS\.md instructions)")
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_HEAD = 50


def places() -> list[str]:
    root = os.environ.get("CODEX_HOME") or os.path.join(os.path.expanduser("~"), ".codex")
    return [os.path.join(root, "sessions"), os.path.join(root, "archived_sessions")]


def recognises(records: list[dict[str, Any]]) -> bool:
    if any(record.get("type") in _LINES and isinstance(record.get("payload"), dict) for record in records):
        return True
    first = records[0] if records else {}
    return "type" not in first and {"id", "timestamp", "instructions"} <= first.keys()


def conversations(path: str, told: Told, on_bytes: Callable[[int], None] | None = None) -> Iterator[Conversation]:
    head = list(itertools.islice(json_lines(path, lambda _: None), _HEAD))
    about = next((r["payload"] for r in head if r.get("type") == "session_meta" and _has_payload(r)), None)
    about = about or (head[0] if head else {})
    found = _ID.search(os.path.basename(path))
    name = about.get("id") or (found[0] if found else os.path.splitext(os.path.basename(path))[0])
    yield Conversation(
        id=str(name),
        fields=_fields(about, head, path),
        messages=lambda: _messages(json_lines(path, told, on_bytes)),
    )


def _has_payload(record: dict[str, Any]) -> bool:
    return isinstance(record.get("payload"), dict)


def _fields(about: dict[str, Any], head: list[dict[str, Any]], path: str) -> dict[str, Any]:
    turns = [record["payload"] for record in head if record.get("type") == "turn_context" and _has_payload(record)]
    cwd = about.get("cwd") or next((turn.get("cwd") for turn in turns), None)
    git = mapping(about.get("git"))
    fields = {
        "source": NAME,
        "cwd": cwd,
        "project": cwd,
        "git_branch": git.get("branch"),
        "model": next((turn.get("model") for turn in turns), None),
        "imported_from": path,
    }
    texts = {key: value for key, value in fields.items() if isinstance(value, str) and value}
    started = moment_of(about.get("timestamp"))
    return texts if started is None else {**texts, "started_at": started}


def _messages(records: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    names: dict[str, str] = {}
    for record in records:
        item = record
        if record.get("type") in _LINES:
            if not _has_payload(record) or record["type"] not in ("response_item", "compacted"):
                continue
            item = record["payload"]
            if record["type"] == "compacted":
                item = {"role": "system", "content": item.get("message")}
        message = message_of(item, names)
        if message is None or _is_preamble(message):
            continue
        yield timed(message, record.get("timestamp"))


def _is_preamble(message: dict[str, Any]) -> bool:
    said = message.get("content")
    return message["role"] in ("user", "system") and isinstance(said, str) and _PREAMBLE.match(said) is not None
