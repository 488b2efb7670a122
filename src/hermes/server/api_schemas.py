"""JSON schemas of what the HTTP API takes and gives."""

from __future__ import annotations

from typing import Any

from hermes.curated.operations import ACTIONS

Schema = dict[str, Any]
TEXT: Schema = {"type": "string", "maxLength": 2000}
MOMENT: Schema = {"type": "string", "maxLength": 100, "description": "2026-05-03, May 2026, yesterday, 3 days ago, …"}
_LINE: Schema = {"type": "string", "maxLength": 200}
_MAYBE: Schema = {"type": ["string", "null"]}
_TEXTS: Schema = {"type": "array", "items": {"type": "string"}}


def whole(low: int, high: int) -> Schema:
    return {"type": "integer", "minimum": low, "maximum": high}


def _object(properties: dict[str, Schema], required: list[str] | None = None) -> Schema:
    needed = list(properties) if required is None else required
    return {"type": "object", "properties": properties, "required": needed, "additionalProperties": False}


MEMORY = _object(
    {
        "target": {"type": "string"},
        "entries": _TEXTS,
        "usage": {"type": "string"},
        "limit": {"type": "integer"},
        "problem": _MAYBE,
    }
)
ALL_MEMORY: Schema = {"type": "object", "additionalProperties": MEMORY}
CHANGED = _object({"message": {"type": "string"}, "change": _MAYBE, **MEMORY["properties"]})
CHANGES = _object(
    {
        "changes": {
            "type": "array",
            "items": _object(
                {
                    "id": {"type": "string"},
                    "at": {"type": "number"},
                    "action": {"type": "string"},
                    "origin": {"type": "string"},
                    "session": {"type": "string"},
                    "added": _TEXTS,
                    "removed": _TEXTS,
                }
            ),
        }
    }
)
OPERATIONS = _object(
    {
        "operations": {
            "type": "array",
            "minItems": 1,
            "maxItems": 100,
            "items": _object(
                {
                    "action": {"type": "string", "enum": list(ACTIONS)},
                    "content": {"type": "string"},
                    "old_text": {"type": "string"},
                },
                ["action"],
            ),
        }
    }
)
UNDO = _object({"change": _LINE})
SESSION = _object(
    {
        "session_id": {"type": "string"},
        "title": _MAYBE,
        "source": {"type": "string"},
        "model": _MAYBE,
        "project": _MAYBE,
        "started_at": {"type": "number"},
        "last_active": {"type": "number"},
        "message_count": {"type": "integer"},
        "preview": _MAYBE,
    }
)
SESSIONS = _object({"sessions": {"type": "array", "items": SESSION}})
RECORD = _object(
    {
        "conversation": {"type": "string", "minLength": 1, "maxLength": 200},
        "title": _LINE,
        "messages": {
            "type": "array",
            "maxItems": 10_000,
            "items": _object(
                {
                    "role": {"type": "string", "enum": ["user", "assistant", "tool", "system"]},
                    "content": {"type": "string"},
                }
            ),
        },
    },
    ["conversation", "messages"],
)
RECORDED = _object({"session_id": {"type": "string"}, "added": {"type": "integer"}, "messages": {"type": "integer"}})
MESSAGES = _object(
    {
        "session_id": {"type": "string"},
        "messages": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "id": {"type": "integer"},
                    "at": {"type": "number"},
                    "role": {"type": "string"},
                    "content": {},
                },
                "required": ["id", "at", "role", "content"],
            },
        },
    }
)
TITLE = _object({"title": _LINE})
DELETED = _object({"deleted": {"type": "string"}})
FOUND = _object(
    {
        "results": {
            "type": "array",
            "items": _object(
                {
                    **SESSION["properties"],
                    "message_id": {"type": ["integer", "null"]},
                    "role": _MAYBE,
                    "snippet": {"type": "string"},
                    "score": {"type": "number"},
                }
            ),
        },
        "notes": _TEXTS,
    }
)
STATUS: Schema = {
    "type": "object",
    "properties": {"version": {"type": "string"}, "person": {"type": "string"}, "memory": {"type": "object"}},
    "required": ["version", "person", "memory"],
}
ERROR = _object(
    {"error": _object({"message": {"type": "string"}, "type": {"type": "string"}, "param": _MAYBE, "code": _MAYBE})}
)
CHAT: Schema = {
    "type": "object",
    "properties": {
        "model": {**_LINE, "description": "hermes, or one of /v1/models."},
        "messages": {"type": "array", "minItems": 1, "items": {"type": "object"}},
        "stream": {"type": "boolean"},
        "tools": {"type": "array", "items": {"type": "object"}, "description": "Functions of your own."},
        "user": {**_LINE, "description": "Names the conversation, unless the header X-Hermes-Session does."},
    },
    "required": ["messages"],
}
COMPLETION: Schema = {
    "type": "object",
    "properties": {"id": {"type": "string"}, "choices": {"type": "array"}, "usage": {"type": "object"}},
    "required": ["id", "choices", "usage"],
}
MODELS: Schema = {
    "type": "object",
    "properties": {"object": {"type": "string"}, "data": {"type": "array", "items": {"type": "object"}}},
    "required": ["object", "data"],
}
HEALTH = _object({"status": {"type": "string"}})
