"""JSON schemas of what the HTTP API takes and returns, by endpoint."""

from __future__ import annotations

from typing import Any

from hermes.memory.store import ACTIONS
from hermes.server.workspace import DECISIONS, RECEIPT_ACTIONS, ROLES

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
_LINE: Schema = {"type": "string", "maxLength": 200}
_TEXTS: Schema = {"type": "array", "items": {"type": "string"}}
_OBJECTS: Schema = {"type": "array", "items": {"type": "object"}}


def whole(low: int, high: int, description: str) -> Schema:
    return {"type": "integer", "minimum": low, "maximum": high, "description": description}


def how_many(most: int, default: int) -> Schema:
    return whole(1, most, f"How many, from 1 to {most:,} (default: {default}).")


def moment(description: str) -> Schema:
    shown = f"{description}: 2026-05-03, May 2026, yesterday, 3 days ago, …"
    return {"type": "string", "maxLength": 100, "description": shown}


def _typed(fields: str) -> dict[str, Schema]:
    """Fields that need no description, as `name:type`: a text without a type, and maybe null with `?` at the end."""
    lists = {"texts": _TEXTS, "objects": _OBJECTS}
    found: dict[str, Schema] = {}
    for word in fields.split():
        name, _, kind = word.rstrip("?").partition(":")
        found[name] = lists.get(kind) or {"type": [kind or "string", "null"] if word[-1] == "?" else kind or "string"}
    return found


def _object(properties: dict[str, Schema], required: list[str] | None = None) -> Schema:
    return {**_some(properties, required), "additionalProperties": False}


def _some(properties: dict[str, Schema], required: list[str] | None = None) -> Schema:
    """An object that may have other fields besides."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties) if required is None else required,
    }


def _list(name: str, items: Schema) -> Schema:
    return _object({name: {"type": "array", "items": items}})


def _place(description: str, example: str) -> Schema:
    return {"type": "string", "minLength": 1, "description": description, "examples": [example]}


# What stands in a path.
PLACES: dict[str, Schema] = {
    "target": _place("Which file: `memory` (MEMORY.md) or `user` (USER.md).", "user"),
    "name": _place("The model's name.", "hermes"),
    "session_id": _place("Which conversation: its id or its title.", "Sign-in"),
    "rule_id": _place("Which rule.", "r3f2a"),
    "reminder_id": _place("Which reminder.", "m81c0"),
    "receipt_id": _place(
        "Which receipt: its id, from the header `Hermes-Receipt` of an answer or from the list.",
        "20260503_141002_1f3a9c02.5d21e07b",
    ),
    "number": _place("Which item: its number on the receipt.", "5"),
    "action": {
        "type": "string",
        "enum": list(RECEIPT_ACTIONS),
        "description": "What to do: `never` keeps the item from every model, `recall` takes that back.",
        "examples": ["never"],
    },
    "pending_id": _place("Which write: its id, from the list.", "3ec0c026"),
}
MEMORY = _object(_typed("target entries:texts usage limit:integer problem?"))
ALL_MEMORY: Schema = {"type": "object", "additionalProperties": MEMORY}
CHANGED = _object({**_typed("message change?"), **MEMORY["properties"]})
CHANGES = _list("changes", _object(_typed("id at:number action origin session added:texts removed:texts")))
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
_PENDING = {
    **_typed("id target"),
    "sink": {"type": "string", "description": "What it would change: memory, user, skills, file, …"},
    "summary": {"type": "string"},
    "sources": {
        "type": "array",
        "description": "Where the text may come from, the likeliest first.",
        "items": _object(_typed("origin name passage")),
    },
    **_typed("origin session created_at:number reason"),
}
_PENDING_CALLS: dict[str, Schema] = {
    "operations": {
        "type": "array",
        "description": "Of a change of memory.",
        "items": _object(_OPERATION, ["action"]),
    },
    "call": {"type": "object", "description": "Of another tool: its name and arguments."},
    "arguments": {"type": "object", "description": "Of a change of a skill."},
}
PENDING = _list("pending", _object(_PENDING | _PENDING_CALLS, list(_PENDING)))
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
DECIDED = _object(_typed("message change? target"))
SESSION = _object(
    _typed(
        "session_id title? source model? project? started_at:number last_active:number message_count:integer preview?"
    )
)
SESSIONS = _list("sessions", SESSION)
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
                    "role": {"type": "string", "enum": list(ROLES)},
                    "content": {"type": "string"},
                }
            ),
        },
    },
    ["conversation", "messages"],
)
RECORDED = _object(_typed("session_id added:integer messages:integer"))
MESSAGES = _object(
    {
        "session_id": {"type": "string"},
        "messages": {"type": "array", "items": _some({**_typed("id:integer at:number role"), "content": {}})},
    }
)
_ITEM = {
    **_typed("number:integer kind source"),
    "grade": {"type": "string", "enum": ["person", "trusted", "outside"]},
    **_typed("why tokens:integer at:number? text? target message_id:integer? session_id"),
}
RECEIPT = _object(
    {
        **_typed("id session_id message_id:integer turn:integer at:number"),
        "state": {"type": "string", "enum": ["intact", "tampered", "unsealed", "unknown key"]},
        **_typed("problems:texts question answer model usage:object cached_share:number? cost:number?"),
        **_typed("written:objects pending:texts fired:objects"),
        "items": {"type": "array", "items": _object(_ITEM)},
    }
)
RECEIPTS = _list("receipts", RECEIPT)
RECEIPT_ACTION = _object(
    {"text": {"type": "string", "maxLength": 20_000, "description": "What is right, for `correct`."}}, []
)
RECEIPT_ACTED = _object(_typed("message receipt item:integer"))
RULE = _object(
    {
        **_typed("id text"),
        "trigger": {"type": "string", "description": "What it fires on, in words."},
        "when": {"type": "object", "description": "The same for programs: acts, paths, words, times, tools, commands."},
        "enforce": {
            "type": "string",
            "enum": ["tell", "hold", "ask"],
            "description": "What it does to a call: tell the model, hold the call back once, or ask the person.",
        },
        "on": {"type": "boolean", "description": "Whether it fires."},
        **_typed("created_at:number session"),
    }
)
RULES = _list("rules", RULE)
RULE_CHANGE = _object({name: RULE["properties"][name] for name in ("on", "enforce")}, [])
REMINDER = _object(
    {
        **_typed("id text"),
        "when": {"type": "string", "description": "When it comes up, in words."},
        "due": {"type": "string", "description": "A time in the person's time zone; empty when it waits for a topic."},
        "words": _TEXTS,
        "repeat": {"type": "string", "enum": ["", "daily", "weekly"]},
        "state": {"type": "string", "enum": ["waiting", "fired", "done"]},
        **_typed("created_at:number fired_at:number session is_due:boolean"),
    }
)
REMINDERS = _list("reminders", REMINDER)
REMINDER_CHANGE = _object({"until": {**_LINE, "description": "When it comes up again: `tomorrow at 9`."}}, [])
TITLE = _object({"title": {**_LINE, "description": "The new title."}})
DELETED = _object(_typed("deleted"))
_MATCH = _object({**SESSION["properties"], **_typed("message_id:integer? role? snippet score:number")})
FOUND = _object({"results": {"type": "array", "items": _MATCH}, "notes": _TEXTS})
STATUS = _some(_typed("version person memory:object"))
ERROR: Schema = {  # `type` is there in Anthropic's format
    **_object({"error": _object(_typed("message type param? code?")), "type": {"type": "string", "const": "error"}}),
    "required": ["error"],
}
_MODEL: Schema = {**_LINE, "description": "hermes, or one of /v1/models."}
_FUNCTIONS: Schema = {**_OBJECTS, "description": "Functions of your own."}
_EVENTS: Schema = {"type": "boolean", "description": "Send the answer as events (default: false)."}


def _turns(whose: str) -> Schema:
    said = f"The conversation up to now, as {whose} has it; its end is what is answered."
    return {**_OBJECTS, "minItems": 1, "description": said}


CHAT = _some(
    {
        "model": _MODEL,
        "messages": _turns("OpenAI"),
        "stream": {"type": "boolean", "description": "Send the answer piece by piece (default: false)."},
        "tools": _FUNCTIONS,
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
    ["messages"],
)
COMPLETION = _some(_typed("id choices:array usage:object"))
COUNT_BODY = _some({"messages": _turns("Anthropic")})
COUNT = _object(_typed("input_tokens:integer"))
MESSAGES_BODY = _some(
    {
        "model": _MODEL,
        "max_tokens": {"type": "integer", "minimum": 1, "description": "The answer is cut off there."},
        "messages": _turns("Anthropic"),
        "stream": _EVENTS,
        "system": {"type": ["string", "array"], "description": "Instructions, as a text or blocks."},
        "tools": {**_OBJECTS, "description": "Tools of your own."},
        "thinking": {"type": "object", "description": "Whether and how much the model thinks before it answers."},
    },
    ["max_tokens", "messages"],
)
RESPONSES_BODY = _some(
    {
        "model": _MODEL,
        "input": {"type": ["string", "array"], "description": "What the person says, or items of the conversation."},
        "instructions": {"type": "string", "description": "What a system message would say."},
        "previous_response_id": {**_LINE, "description": "Goes on from that answer; only what is new is sent."},
        "stream": _EVENTS,
        "tools": _FUNCTIONS,
        "text": {"type": "object", "description": "What the answer must be, such as JSON of a schema."},
        "reasoning": {"type": "object", "description": "How much the model thinks (effort), and whether it is shown."},
    },
    ["input"],
)
RESPONSE = _some(_typed("id output:array usage:object"))
EMBEDDINGS_BODY = _some(
    {
        "input": {"type": ["string", "array"], "description": "A text or several."},
        "model": {**_LINE, "description": "hermes."},
        "encoding_format": {"type": "string", "enum": ["float", "base64"], "description": "How vectors are written."},
    },
    ["input"],
)
MESSAGE = _some(_typed("id content:array usage:object"))
MODEL = _some(_typed("id"))
MODELS = _some(_typed("object data:objects"))
HEALTH = _object(_typed("status"))
