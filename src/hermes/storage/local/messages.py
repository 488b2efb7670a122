"""Messages as rows: stored with a checksum, read back in order, in pages of bounded size."""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

from hermes.base.errors import DamagedFile
from hermes.base.words import scrub
from hermes.storage.local.database import DAMAGE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hermes.storage.local.database import Database

LIVE, COMPACTED, REWOUND = 0, 1, 2
STATE_BITS = 3
TIMED = 4  # the message itself carried its timestamp
COLUMNS = "id, role, state, timestamp, content, name, tool_calls, tool_call_id, token_count, extra, checksum"
_JSON_MARK = "\x00json:"
_OWN_COLUMNS = frozenset(("role", "content", "name", "tool_calls", "tool_call_id", "timestamp", "token_count"))

_ROLES = ("user", "assistant", "tool", "system")
_LOOKING_BACK = frozenset(("session_search", "context_expand", "lcm_grep", "lcm_expand"))  # tools, at what is stored

Row = tuple[int, str, int, float, str | None, str | None, str | None, str | None, int | None, str | None, int]


class StoredMessage(NamedTuple):
    """A message read back; `damaged` means its checksum failed, and then `message` holds no content at all."""

    id: int
    place: int
    role: str
    timestamp: float
    compacted: bool
    rewound: bool
    damaged: bool
    message: dict[str, Any]

    @property
    def text(self) -> str:
        return readable(self.message.get("content"))


def encode(message_id: int, message: Mapping[str, Any], timestamp: float, session: int) -> Row:
    """The row of a message; raises TypeError or ValueError when it is not a message."""
    role = message.get("role")
    if role not in _ROLES and (not isinstance(role, str) or not role or not _storable(role)):
        raise ValueError(f"a message needs a role (user, assistant, tool, system), not {role!r}")
    content = message.get("content")
    if content is not None and not (isinstance(content, str) and _storable(content)):
        content = _JSON_MARK + _dumps(content)
    known = message.keys() <= _OWN_COLUMNS
    extra = {} if known else {key: value for key, value in message.items() if key not in _OWN_COLUMNS}
    if content is None and "content" in message:
        extra["content"] = None  # a null that was said stays apart from a key that was not there
    calls = message.get("tool_calls")
    if "tool_calls" in message and not calls:
        extra["tool_calls"] = calls
    name, call_id = _text_or_extra(message, "name", extra), _text_or_extra(message, "tool_call_id", extra)
    tokens, state = _count_or_extra(message, extra), _timed_or_extra(message, timestamp, extra)
    packed_calls = _dumps(calls) if calls else None
    packed_extra = _dumps(extra) if extra else None
    fields = (message_id, role, state, timestamp, content, name, packed_calls, call_id, tokens, packed_extra)
    return (*fields, checksum(fields, session))


def decode(row: Row, place: int, session: int) -> StoredMessage:
    message_id, role, state, timestamp, content, name, calls, call_id, tokens, extra, stored = row
    kind = state & STATE_BITS
    if checksum(row[:-1], session) != stored:
        return StoredMessage(message_id, place, "unknown", timestamp, kind == COMPACTED, kind == REWOUND, True, {})
    message: dict[str, Any] = {"role": role}
    if content is not None:
        message["content"] = unpacked(content)
    if name is not None:
        message["name"] = name
    if call_id is not None:
        message["tool_call_id"] = call_id
    if tokens is not None:
        message["token_count"] = tokens
    if calls is not None:
        message["tool_calls"] = _opened(calls)
    if state & TIMED:
        message["timestamp"] = timestamp
    if extra is not None:
        message.update(_opened(extra))
    return StoredMessage(message_id, place, role, timestamp, kind == COMPACTED, kind == REWOUND, False, message)


def checksum(fields: tuple[Any, ...], session: int) -> int:
    return bound(unbound(fields), session)


def bound(checksum_without_session: int, session: int) -> int:
    """Ties a message to its session, so that text under a wrong session fails, and a lost session can be tried out."""
    return zlib.crc32(b"\x1f%d" % session, checksum_without_session)


def unbound(fields: tuple[Any, ...]) -> int:
    # The state is left out: compaction and rewinding change it in place, and it is no part of what was said.
    message_id, role, _, timestamp, content, name, calls, call_id, tokens, extra = fields
    head = f"{message_id}\x1f{role}\x1f{timestamp}\x1f{name}\x1f{call_id}\x1f{tokens}\x1f{calls}\x1f{extra}\x1f"
    return zlib.crc32((content or "").encode("utf-8", "replace"), zlib.crc32(head.encode("utf-8", "replace")))


def unpacked(content: str) -> Any:
    return _opened(content[len(_JSON_MARK) :]) if content.startswith(_JSON_MARK) else content


def readable(content: Any) -> str:
    """The words of a content: the text itself, or every text part of a list of parts."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    return "\n".join(_strings(content, inside_data=False))


def said(row_content: str | None, name: str | None) -> str:
    """What the first index holds of a message: who speaks, and what."""
    text = readable(unpacked(row_content)) if row_content else ""
    return f"{name}: {text}" if name else text


def called(tool_calls: str | None) -> str:
    """Tool names and arguments as words; arguments are JSON inside JSON, so they are opened twice.

    What a tool that looks into the past was asked is left out: a question that was searched for is no answer to it.
    """
    if not tool_calls:
        return ""
    return " ".join(_call_words(_opened(tool_calls)))


def only_looks_back(row: Row) -> bool:
    """Whether a message says nothing and calls nothing but tools that look into the past."""
    content, calls = row[4], row[6]
    return bool(calls) and not content and all(_looks_back(word) for word in called(calls).split())


def _call_words(calls: Any) -> Iterator[str]:
    for call in calls if isinstance(calls, list) else [calls]:
        function = call.get("function", call) if isinstance(call, dict) else call
        if not isinstance(function, dict):
            yield str(function)
            continue
        name = str(function.get("name", ""))
        yield name
        if not _looks_back(name):
            yield from _argument_words(function.get("arguments", function.get("input", "")))


def _looks_back(tool: str) -> bool:
    return tool.rpartition("__")[2] in _LOOKING_BACK  # hosts call a tool of ours mcp__SERVER__NAME


def _argument_words(arguments: Any) -> Iterator[str]:
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            yield arguments
            return
    yield from _strings(arguments, inside_data=True)


def _strings(value: Any, *, inside_data: bool) -> Iterator[str]:
    """Texts inside parts or arguments; of message parts only what a person reads, not their kinds and addresses."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            if inside_data:
                yield str(key)
                yield from _strings(inner, inside_data=True)
            elif key in ("text", "content", "input_text", "output_text", "caption", "refusal"):
                yield from _strings(inner, inside_data=False)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _strings(inner, inside_data=inside_data)
    elif value is not None and inside_data:
        yield str(value)


def _text_or_extra(message: Mapping[str, Any], key: str, extra: dict[str, Any]) -> str | None:
    """A text for its own column; anything else that stands under the key goes to the other keys."""
    value = message.get(key)
    if isinstance(value, str) and _storable(value):
        return value
    if key in message:
        extra[key] = value
    return None


def _count_or_extra(message: Mapping[str, Any], extra: dict[str, Any]) -> int | None:
    value = message.get("token_count")
    if type(value) is int and abs(value) < 1 << 63:
        return value
    if "token_count" in message:
        extra["token_count"] = value
    return None


def _timed_or_extra(message: Mapping[str, Any], timestamp: float, extra: dict[str, Any]) -> int:
    if "timestamp" not in message:
        return LIVE
    if type(message["timestamp"]) is float and message["timestamp"] == timestamp:
        return LIVE | TIMED
    extra["timestamp"] = message["timestamp"]
    return LIVE


# Made once: `json.dumps` with arguments makes an encoder for every call.
_as_written = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_escaped = json.JSONEncoder(separators=(",", ":")).encode


_scan = json.JSONDecoder().raw_decode


def _opened(packed: str) -> Any:
    """What `_dumps` packed: it wrote no white space around the value, so none is looked for."""
    return _scan(packed)[0]


def _dumps(value: Any) -> str:
    text = _as_written(value)
    return text if text.isascii() or _storable(text) else _escaped(value)  # no JSON begins with a NUL


def _storable(text: str) -> bool:
    """False for lone surrogates, which UTF-8 cannot hold, and for what would be mistaken for packed JSON."""
    if text.isascii():
        return not text.startswith("\x00")
    return scrub(text) is text and not text.startswith("\x00")


# How damage is noticed and read around: seals on session rows, and texts whose bytes are no longer text.
#
# Messages carry a checksum of their own (`transcripts.checksum`). A session's row carries a seal of two halves: who
# it is (key, owner, id) and what it shows (source, title, preview). A row that fails the first half is nobody's.

_HALF = 32
_INTEGER: tuple[type, ...] = (int,)
_TEXT: tuple[type, ...] = (str, type(None))
_KINDS = (_INTEGER, (str,), _INTEGER, (float, int), *[_TEXT] * 4, (*_INTEGER, type(None)), _TEXT, _INTEGER)
UNREADABLE = (*DAMAGE, UnicodeDecodeError)


def seal(key: int, owner: int, name: str, *shown: str | None) -> int:
    """What a session's row must carry to be believed; `shown` is its source, title and preview."""
    return _crc(key, owner, name) - (1 << 31) << _HALF | _crc(key, *shown)  # fits SQLite's signed 64 bits


def identity_holds(stored: Any, key: int, owner: int, name: str) -> bool:
    return isinstance(stored, int) and (stored >> _HALF) + (1 << 31) == _crc(key, owner, name)


def texts_hold(stored: Any, key: int, *shown: str | None) -> bool:
    return isinstance(stored, int) and stored & (1 << _HALF) - 1 == _crc(key, *shown)


def details_seal(session: int, system_prompt: str | None, details: str | None) -> int:
    return _crc(session, system_prompt, details)


def select(database: Database, columns: str, rest: str, values: Sequence[Any] | dict[str, Any]) -> list[Any]:
    """`SELECT columns rest`; a text that is no longer UTF-8 comes back with replacement characters, never genuine."""
    try:
        return database.rows(f"SELECT {columns} {rest}", values)
    except DamagedFile as error:
        if not isinstance(error.__cause__, UnicodeDecodeError):
            raise
    return [mended(row) for row in database.rows(f"SELECT {text_as_bytes(columns)} {rest}", values)]


def text_as_bytes(columns: str) -> str:
    """The columns with text as bytes, because damaged text need not be UTF-8."""
    return ", ".join(f"iif(typeof({name}) = 'text', CAST({name} AS BLOB), {name})" for name in columns.split(", "))


def mended(row: Sequence[Any]) -> Any:
    """The row with bytes as text; what cannot be decoded fails every checksum."""
    return tuple(value.decode("utf-8", "replace") if isinstance(value, bytes) else value for value in row)


def careful_row(database: Database, message_id: int) -> Row | None:
    """One message, whatever its bytes; None when it is not there, a row without a text when its page is bad."""
    try:
        row = database.row(f"SELECT {text_as_bytes(COLUMNS)} FROM messages WHERE id = ?", (message_id,))  # noqa: S608
    except DamagedFile:
        return _unreadable(message_id)
    if row is None:
        return None
    whole: Row = mended(row)
    return whole if is_shaped(whole) else _unreadable(message_id)


def is_shaped(row: Sequence[Any]) -> bool:
    """True when each value has a kind it can have in a message, so that nothing stumbles before the checksum speaks."""
    return all(type(value) in kinds for value, kinds in zip(row, _KINDS, strict=True))


def _unreadable(message_id: int) -> Row:
    return (message_id, "unknown", 0, 0.0, None, None, None, None, None, None, -1)  # -1 is no CRC, so it never holds


def _crc(*values: object) -> int:
    return zlib.crc32("\x1f".join(map(str, values)).encode("utf-8", "surrogatepass"))


_PREVIEW = 60
_OF_ONE_WORD = 8
_LATEST = 1e12  # seconds; what is larger is no time


def moment(given: Any, now: float) -> float:
    if isinstance(given, int | float) and not isinstance(given, bool) and abs(given) < _LATEST:
        return float(given)
    return now


def calls(message: Mapping[str, Any]) -> int:
    calls = message.get("tool_calls")
    return len(calls) if isinstance(calls, list | tuple) else int(bool(calls))


def length(message: Mapping[str, Any]) -> int:
    return len(readable(message.get("content")))


def preview_of(messages: Sequence[Mapping[str, Any]]) -> str | None:
    for message in messages:
        if message.get("role") == "user":
            return beginning(scrub(readable(message.get("content"))))
    return None


def beginning(text: str) -> str:
    """How a text begins; no word is cut through, because nobody could tell that half a key was one."""
    shown = " ".join(text.split())
    if len(shown) <= _PREVIEW:
        return shown
    whole, _, begun = shown[: _PREVIEW + 1].rpartition(" ")
    if not begun.isascii():  # scripts without spaces, which no key is written in
        whole = shown[:_PREVIEW]
    return f"{whole or shown[:_OF_ONE_WORD]}..."
