"""Checks and cleans what an import reads, so that everything behind it can be stored."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from hermes.recall.noted import rightly_noted
from hermes.safety.private import storable
from hermes.storage.conversations import COUNTERS, KINDS
from hermes.storage.text import scrub
from hermes.storage.transcripts import encode
from hermes.vocabulary.json_texts import change_texts

_MILLISECONDS = 1e11
_LATEST = 1e12
# Columns of a hermes-agent export that say where a row stood, not what was said.
_BOOKKEEPING = frozenset(("id", "session_id", "active", "compacted", "observed"))
_SAID_AT = ("timestamp", "created_at", "create_time", "created", "date", "time")
_BEGUN_AT = ("started_at", *_SAID_AT)
_TEXTS = ("model", "project", "cwd", "end_reason")


class BadLine(Exception):
    """A line that cannot be taken in, with the reason in words."""


def clean_message(message: Any) -> dict[str, Any]:
    """The message as it will be stored; raises BadLine when it is none."""
    if not isinstance(message, dict):
        raise BadLine(f"a message is a {type(message).__name__}, not a JSON object")
    clean = dict(storable(rightly_noted(message)))
    if "session_id" in clean:
        clean = {key: value for key, value in clean.items() if key not in _BOOKKEEPING and value is not None}
        clean.setdefault("content", message.get("content"))
        clean["tool_calls"] = _opened(clean.get("tool_calls"))
        if clean["tool_calls"] is None:
            del clean["tool_calls"]
    at = said_at(clean, _SAID_AT)
    if at is not None:
        clean["timestamp"] = at
    if not isinstance(clean.get("tool_calls"), list | None):
        raise BadLine(f"its tool_calls are a {type(clean['tool_calls']).__name__}, not a list")
    try:
        encode(1, clean, 0.0, 0)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadLine(str(error)) from error
    return clean


def known_id(given: Any) -> int | None:
    """The number that a message had where it comes from; None when the file says none that can be one."""
    return given if type(given) is int and 0 <= given < 1 << 62 else None


def begun_at(record: dict[str, Any]) -> float | None:
    """When a conversation began, as far as it says; programs have different names for it."""
    return said_at(record, _BEGUN_AT)


def said_at(record: dict[str, Any], names: tuple[str, ...]) -> float | None:
    return next((at for name in names if (at := moment_of(record.get(name))) is not None), None)


def session_fields(record: dict[str, Any], source: str) -> dict[str, Any]:
    """Arguments for `create_session`; what has no column goes along as a detail."""
    name = record.get("id")
    if not isinstance(name, str) or not name.strip():
        raise BadLine("its session has no id")
    details = record.get("details") if isinstance(record.get("details"), dict) else {}
    parent = record.get("parent_session_id")
    kind = record.get("kind")
    fields: dict[str, Any] = {
        **{key: value for key, value in rightly_noted(change_texts(details, scrub)).items() if key not in _ARGUMENTS},
        "session_id": scrub(name),
        "source": scrub(record["source"]) if isinstance(record.get("source"), str) and record["source"] else source,
        "title": scrub(record["title"]) if isinstance(record.get("title"), str) else None,
        "started_at": begun_at(record),
        "parent_session_id": scrub(parent) if isinstance(parent, str) and parent else None,
        "kind": kind if kind in KINDS and parent else None,
        "ended_at": moment_of(record.get("ended_at")),
        "archived": 1 if record.get("archived") in (1, True) else None,
    }
    for key in (*_TEXTS, "system_prompt"):
        if isinstance(record.get(key), str):
            fields[key] = scrub(record[key])
    for key in COUNTERS:
        if type(record.get(key)) in (int, float) and abs(record[key]) < _LATEST:
            fields[key] = record[key]
    return fields


def moment_of(given: Any) -> float | None:
    """Seconds since 1970 from a number of seconds or milliseconds, or from an ISO date."""
    if isinstance(given, str):
        try:
            moment = datetime.fromisoformat(given)
            return (moment.astimezone() if moment.tzinfo is None else moment).timestamp()
        except (ValueError, OverflowError):
            return None
    if isinstance(given, bool) or not isinstance(given, int | float) or not abs(given) < _LATEST * 1000:
        return None
    seconds = float(given)
    return seconds / 1000 if abs(seconds) >= _MILLISECONDS else seconds


def _opened(calls: Any) -> Any:
    if not isinstance(calls, str):
        return calls
    try:
        return json.loads(calls)
    except ValueError:
        return calls


_ARGUMENTS = frozenset(("session_id", "source", "title", "started_at", "parent_session_id", "kind"))
