"""JSON schemas of what the HTTP API takes and returns, by endpoint."""

from __future__ import annotations

from typing import Any

from hermes.memory.store import ACTIONS
from hermes.server.workspace import DECISIONS, RECEIPT_ACTIONS

Schema = dict[str, Any]
_TEXT: Schema = {"type": "string", "maxLength": 2000}
SOURCE: Schema = {**_TEXT, "description": "Only from there: server, api, cli, telegram, …"}
PROJECT: Schema = {**_TEXT, "description": "Only of this project."}
QUESTION: Schema = {
    **_TEXT,
    "minLength": 1,
    "description": 'Plain words, or "a phrase", AND, OR, NOT, begin*.',
    "examples": ["which tokens do we use?"],
}
SORT: Schema = {
    "type": "string",
    "enum": ["relevance", "newest", "oldest"],
    "description": "What comes first (default: relevance).",
}
# What stands in a path.
PLACES: dict[str, Schema] = {
    "target": {
        "type": "string",
        "minLength": 1,
        "description": "Which file: `memory` (MEMORY.md) or `user` (USER.md).",
        "examples": ["user"],
    },
    "name": {"type": "string", "minLength": 1, "description": "The model's name.", "examples": ["hermes"]},
    "session_id": {
        "type": "string",
        "minLength": 1,
        "description": "Which conversation: its id or its title.",
        "examples": ["Sign-in"],
    },
    "rule_id": {"type": "string", "minLength": 1, "description": "Which rule.", "examples": ["r3f2a"]},
    "reminder_id": {"type": "string", "minLength": 1, "description": "Which reminder.", "examples": ["m81c0"]},
    "receipt_id": {
        "type": "string",
        "minLength": 1,
        "description": "Which receipt: its id, from the header `Hermes-Receipt` of an answer or from the list.",
        "examples": ["20260503_141002_1f3a9c02.5d21e07b"],
    },
    "number": {
        "type": "string",
        "minLength": 1,
        "description": "Which item: its number on the receipt.",
        "examples": ["5"],
    },
    "action": {
        "type": "string",
        "enum": list(RECEIPT_ACTIONS),
        "description": "What to do: `never` keeps the item from every model, `recall` takes that back.",
        "examples": ["never"],
    },
    "pending_id": {
        "type": "string",
        "minLength": 1,
        "description": "Which write: its id, from the list.",
        "examples": ["3ec0c026"],
    },
}
_LINE: Schema = {"type": "string", "maxLength": 200}
_MAYBE: Schema = {"type": ["string", "null"]}
_TEXTS: Schema = {"type": "array", "items": {"type": "string"}}


def whole(low: int, high: int, description: str) -> Schema:
    return {"type": "integer", "minimum": low, "maximum": high, "description": description}


def how_many(most: int, default: int) -> Schema:
    return whole(1, most, f"How many, from 1 to {most:,} (default: {default}).")


def moment(description: str) -> Schema:
    shown = f"{description}: 2026-05-03, May 2026, yesterday, 3 days ago, …"
    return {"type": "string", "maxLength": 100, "description": shown}


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
_OPERATION: dict[str, Schema] = {
    "action": {"type": "string", "enum": list(ACTIONS), "description": "What to do."},
    "content": {"type": "string", "description": "The entry, for add and replace."},
    "old_text": {
        "type": "string",
        "description": "A piece of the entry to replace or remove; only one entry may contain it.",
    },
}
OPERATIONS: Schema = {
    **_object(
        {
            **_OPERATION,
            "action": {**_OPERATION["action"], "description": "What to do; `content` alone is an add."},
            "operations": {
                "type": "array",
                "minItems": 1,
                "maxItems": 100,
                "items": _object(_OPERATION, ["action"]),
                "description": "Instead of these three: several such operations, applied in order, all or nothing.",
            },
        },
        [],
    ),
    "minProperties": 1,
}
UNDO = _object({"change": {**_LINE, "description": "Its id, from the log; the newest if none is named."}}, [])
PENDING = _object(
    {
        "pending": {
            "type": "array",
            "items": _object(
                {
                    "id": {"type": "string"},
                    "target": {"type": "string"},
                    "sink": {"type": "string", "description": "What it would change: memory, user, skills, file, …"},
                    "summary": {"type": "string"},
                    "sources": {
                        "type": "array",
                        "description": "Where the text may come from, the likeliest first.",
                        "items": _object({name: {"type": "string"} for name in ("origin", "name", "passage")}),
                    },
                    "operations": {
                        "type": "array",
                        "description": "Of a change of memory.",
                        "items": _object(_OPERATION, ["action"]),
                    },
                    "call": {"type": "object", "description": "Of another tool: its name and arguments."},
                    "arguments": {"type": "object", "description": "Of a change of a skill."},
                    "origin": {"type": "string"},
                    "session": {"type": "string"},
                    "created_at": {"type": "number"},
                    "reason": {"type": "string"},
                },
                ["id", "target", "sink", "summary", "sources", "origin", "session", "created_at", "reason"],
            ),
        }
    }
)
DECISION = _object(
    {
        "decision": {"type": "string", "enum": list(DECISIONS), "description": "What to do with it."},
        "texts": {
            "type": "array",
            "maxItems": 100,
            "items": {"type": "string"},
            "description": "approve: keep these texts instead, one for each that would be kept, in their order.",
        },
    },
    ["decision"],
)
DECIDED = _object({"message": {"type": "string"}, "change": _MAYBE, "target": {"type": "string"}})
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
        "conversation": {
            "type": "string",
            "minLength": 1,
            "maxLength": 200,
            "description": "A name of your own for it; the same name later adds what is new.",
        },
        "title": {**_LINE, "description": "What people see of it, when it is new."},
        "messages": {
            "type": "array",
            "maxItems": 10_000,
            "description": "All of its messages or the latest, in order: `role` (user, assistant, tool, system) and "
            "`content`, a text.",
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
_NUMBER_OR_NULL: Schema = {"type": ["number", "null"]}
_RECEIPT_ITEM = _object(
    {
        "number": {"type": "integer"},
        "kind": {"type": "string"},
        "source": {"type": "string"},
        "grade": {"type": "string", "enum": ["person", "trusted", "outside"]},
        "why": {"type": "string"},
        "tokens": {"type": "integer"},
        "at": _NUMBER_OR_NULL,
        "text": _MAYBE,
        "target": {"type": "string"},
        "message_id": {"type": ["integer", "null"]},
        "session_id": {"type": "string"},
    }
)
RECEIPT = _object(
    {
        "id": {"type": "string"},
        "session_id": {"type": "string"},
        "message_id": {"type": "integer"},
        "turn": {"type": "integer"},
        "at": {"type": "number"},
        "state": {"type": "string", "enum": ["intact", "tampered", "unsealed", "unknown key"]},
        "problems": _TEXTS,
        "question": {"type": "string"},
        "answer": {"type": "string"},
        "model": {"type": "string"},
        "usage": {"type": "object"},
        "cached_share": _NUMBER_OR_NULL,
        "cost": _NUMBER_OR_NULL,
        "written": {"type": "array", "items": {"type": "object"}},
        "pending": _TEXTS,
        "fired": {"type": "array", "items": {"type": "object"}},
        "items": {"type": "array", "items": _RECEIPT_ITEM},
    }
)
RECEIPT_ACTION = _object(
    {"text": {"type": "string", "maxLength": 20_000, "description": "What is right, for `correct`."}}, []
)
RECEIPT_ACTED = _object({"message": {"type": "string"}, "receipt": {"type": "string"}, "item": {"type": "integer"}})
RULE = _object(
    {
        "id": {"type": "string"},
        "text": {"type": "string"},
        "trigger": {"type": "string", "description": "What it fires on, in words."},
        "when": {"type": "object", "description": "The same for programs: acts, paths, words, times, tools, commands."},
        "enforce": {
            "type": "string",
            "enum": ["tell", "hold", "ask"],
            "description": "What it does to a call: tell the model, hold the call back once, or ask the person.",
        },
        "on": {"type": "boolean", "description": "Whether it fires."},
        "created_at": {"type": "number"},
        "session": {"type": "string"},
    }
)
RULES = _object({"rules": {"type": "array", "items": RULE}})
RULE_CHANGE = _object({name: RULE["properties"][name] for name in ("on", "enforce")}, [])
REMINDER = _object(
    {
        "id": {"type": "string"},
        "text": {"type": "string"},
        "when": {"type": "string", "description": "When it comes up, in words."},
        "due": {"type": "string", "description": "A time in the person's time zone; empty when it waits for a topic."},
        "words": _TEXTS,
        "repeat": {"type": "string", "enum": ["", "daily", "weekly"]},
        "state": {"type": "string", "enum": ["waiting", "fired", "done"]},
        "created_at": {"type": "number"},
        "fired_at": {"type": "number"},
        "session": {"type": "string"},
        "is_due": {"type": "boolean"},
    }
)
REMINDERS = _object({"reminders": {"type": "array", "items": REMINDER}})
REMINDER_CHANGE = _object({"until": {**_LINE, "description": "When it comes up again: `tomorrow at 9`."}}, [])
RECEIPTS = _object({"receipts": {"type": "array", "items": RECEIPT}})
TITLE = _object({"title": {**_LINE, "description": "The new title."}})
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
_ERROR = _object({"message": {"type": "string"}, "type": {"type": "string"}, "param": _MAYBE, "code": _MAYBE})
ERROR: Schema = {  # `type` is there in Anthropic's format
    "type": "object",
    "properties": {"error": _ERROR, "type": {"type": "string", "const": "error"}},
    "required": ["error"],
    "additionalProperties": False,
}
CHAT: Schema = {
    "type": "object",
    "properties": {
        "model": {**_LINE, "description": "hermes, or one of /v1/models."},
        "messages": {
            "type": "array",
            "minItems": 1,
            "items": {"type": "object"},
            "description": "The conversation up to now, as OpenAI has it; its end is what is answered.",
        },
        "stream": {"type": "boolean", "description": "Send the answer piece by piece (default: false)."},
        "tools": {"type": "array", "items": {"type": "object"}, "description": "Functions of your own."},
        "tool_choice": {
            "type": ["string", "object"],
            "description": "auto, none, required, or one of these functions.",
        },
        "parallel_tool_calls": {"type": "boolean", "description": "Whether several calls at once are fine."},
        "response_format": {"type": "object", "description": "What the answer must be: text, or JSON of a schema."},
        "temperature": {"type": "number", "description": "How much chance is in the answer."},
        "top_p": {"type": "number", "description": "The share of likely words that is chosen from."},
        "max_completion_tokens": {"type": "integer", "description": "The answer is cut off there (or: max_tokens)."},
        "stop": {"type": ["string", "array"], "description": "A text or several, at which the answer ends."},
        "seed": {"type": "integer", "description": "The same seed for about the same answer."},
        "user": {"type": "string", "description": "Ignored: the header X-Hermes-Session names a conversation."},
    },
    "required": ["messages"],
}
COMPLETION: Schema = {
    "type": "object",
    "properties": {"id": {"type": "string"}, "choices": {"type": "array"}, "usage": {"type": "object"}},
    "required": ["id", "choices", "usage"],
}
_THEIR_MESSAGES: Schema = {
    "type": "array",
    "minItems": 1,
    "items": {"type": "object"},
    "description": "The conversation up to now, as Anthropic has it; its end is what is answered.",
}
COUNT_BODY: Schema = {"type": "object", "properties": {"messages": _THEIR_MESSAGES}, "required": ["messages"]}
COUNT = _object({"input_tokens": {"type": "integer"}})
MESSAGES_BODY: Schema = {
    "type": "object",
    "properties": {
        "model": {**_LINE, "description": "hermes, or one of /v1/models."},
        "max_tokens": {"type": "integer", "minimum": 1, "description": "The answer is cut off there."},
        "messages": _THEIR_MESSAGES,
        "stream": {"type": "boolean", "description": "Send the answer as events (default: false)."},
        "system": {"type": ["string", "array"], "description": "Instructions, as a text or blocks."},
        "tools": {"type": "array", "items": {"type": "object"}, "description": "Tools of your own."},
        "thinking": {"type": "object", "description": "Whether and how much the model thinks before it answers."},
    },
    "required": ["max_tokens", "messages"],
}
RESPONSES_BODY: Schema = {
    "type": "object",
    "properties": {
        "model": {**_LINE, "description": "hermes, or one of /v1/models."},
        "input": {"type": ["string", "array"], "description": "What the person says, or items of the conversation."},
        "instructions": {"type": "string", "description": "What a system message would say."},
        "previous_response_id": {**_LINE, "description": "Goes on from that answer; only what is new is sent."},
        "stream": {"type": "boolean", "description": "Send the answer as events (default: false)."},
        "tools": {"type": "array", "items": {"type": "object"}, "description": "Functions of your own."},
        "text": {"type": "object", "description": "What the answer must be, such as JSON of a schema."},
        "reasoning": {"type": "object", "description": "How much the model thinks (effort), and whether it is shown."},
    },
    "required": ["input"],
}
RESPONSE: Schema = {
    "type": "object",
    "properties": {"id": {"type": "string"}, "output": {"type": "array"}, "usage": {"type": "object"}},
    "required": ["id", "output", "usage"],
}
EMBEDDINGS_BODY: Schema = {
    "type": "object",
    "properties": {
        "input": {"type": ["string", "array"], "description": "A text or several."},
        "model": {**_LINE, "description": "hermes."},
        "encoding_format": {"type": "string", "enum": ["float", "base64"], "description": "How vectors are written."},
    },
    "required": ["input"],
}
MESSAGE: Schema = {
    "type": "object",
    "properties": {"id": {"type": "string"}, "content": {"type": "array"}, "usage": {"type": "object"}},
    "required": ["id", "content", "usage"],
}
MODEL: Schema = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
MODELS: Schema = {
    "type": "object",
    "properties": {"object": {"type": "string"}, "data": {"type": "array", "items": {"type": "object"}}},
    "required": ["object", "data"],
}
HEALTH = _object({"status": {"type": "string"}})
