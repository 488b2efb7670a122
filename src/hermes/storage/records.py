"""Sessions and messages as records: what every storage engine stores, and how a message becomes a row and back."""

from __future__ import annotations

import json
import os
import re
import time
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

from hermes.base.words import scrub
from hermes.safety.fence import storable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

# Message ids are given out in blocks of 32, each to one session. So an id shows its session and place without a lookup
# per message, and the rows of a session lie together.
BLOCK_BITS = 5
BLOCK = 1 << BLOCK_BITS
LIVE, COMPACTED, REWOUND = 0, 1, 2
STATE_BITS = 3  # the bits of `state` that contain one of these
TIMED = 4  # the message itself carried its timestamp
COLUMNS = "id, role, state, timestamp, content, name, tool_calls, tool_call_id, token_count, extra, checksum"
_JSON_MARK = "\x00json:"  # before content that is not text; no text begins with a NUL, see `_storable`
_OWN_COLUMNS = frozenset(("role", "content", "name", "tool_calls", "tool_call_id", "timestamp", "token_count"))

_ROLES = ("user", "assistant", "tool", "system")
_LOOKING_BACK = frozenset(("session_search", "context_expand", "lcm_grep", "lcm_expand"))  # tools, at what is stored

Row = tuple[int, str, int, float, str | None, str | None, str | None, str | None, int | None, str | None, int]


class StoredMessage(NamedTuple):
    """A message read back; if its checksum fails, it is `damaged`, and `message` has no content at all."""

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
        """The text of the message as a person reads it."""
        return readable(self.message.get("content"))


def encode(message_id: int, message: Mapping[str, Any], timestamp: float, session: int) -> Row:
    """The row of a message; raises TypeError or ValueError if it is not a valid message."""
    role = message.get("role")
    if role not in _ROLES and (not isinstance(role, str) or not role or not _storable(role)):
        raise ValueError(f"a message needs a role (user, assistant, tool, system), not {role!r}")
    content = message.get("content")
    if content is not None and not (isinstance(content, str) and _storable(content)):
        content = _JSON_MARK + _dumps(content)
    known = message.keys() <= _OWN_COLUMNS
    extra = {} if known else {key: value for key, value in message.items() if key not in _OWN_COLUMNS}
    if content is None and "content" in message:
        extra["content"] = None  # keeps an explicit null apart from a missing key
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
    """The message of a row as it was stored, unless its checksum shows damage."""
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
    """The checksum of a row of this session, over its text and its position."""
    return bound(unbound(fields), session)


def bound(checksum_without_session: int, session: int) -> int:
    """Ties a checksum to a session, so that a row in the wrong session fails, and repair can try out lost sessions."""
    return zlib.crc32(b"\x1f%d" % session, checksum_without_session)


def unbound(fields: tuple[Any, ...]) -> int:
    """The checksum of the row alone, before it is tied to a session."""
    # The state is left out: compaction and rewinding change it in place, and it is not part of what was said.
    message_id, role, _, timestamp, content, name, calls, call_id, tokens, extra = fields
    head = f"{message_id}\x1f{role}\x1f{timestamp}\x1f{name}\x1f{call_id}\x1f{tokens}\x1f{calls}\x1f{extra}\x1f"
    return zlib.crc32((content or "").encode("utf-8", "replace"), zlib.crc32(head.encode("utf-8", "replace")))


def unpacked(content: str) -> Any:
    """The content of a message from its column: text, or the parts that were packed as JSON."""
    return _opened(content[len(_JSON_MARK) :]) if content.startswith(_JSON_MARK) else content


def readable(content: Any) -> str:
    """The text of a content: the text itself, or every text part of a list of parts."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    return "\n".join(_strings(content, inside_data=False))


def said(row_content: str | None, name: str | None) -> str:
    """The text of a message for the index of what was said: who speaks, and what."""
    text = readable(unpacked(row_content)) if row_content else ""
    return f"{name}: {text}" if name else text


def called(tool_calls: str | None) -> str:
    """Tool names and arguments as words; arguments are JSON inside JSON, so they are decoded twice.

    The arguments of tools that search the past are left out: an earlier search for a question does not answer it.
    """
    if not tool_calls:
        return ""
    return " ".join(_call_words(_opened(tool_calls)))


def only_looks_back(row: Row) -> bool:
    """Whether a message says nothing and calls only tools that search the past."""
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
    """The texts in parts or arguments; of message parts only what a person reads, not their types and addresses."""
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
    """A text for its own column; any other value of the key goes to `extra`."""
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
    """Decodes what `_dumps` wrote; there is no white space around the value, so none is skipped."""
    return _scan(packed)[0]


def _dumps(value: Any) -> str:
    text = _as_written(value)
    return text if text.isascii() or _storable(text) else _escaped(value)  # no JSON begins with a NUL


def _storable(text: str) -> bool:
    """False for lone surrogates, which UTF-8 cannot encode, and for text that looks like packed JSON."""
    if text.isascii():
        return not text.startswith("\x00")
    return scrub(text) is text and not text.startswith("\x00")


class Prepared(NamedTuple):
    """Messages as rows, with the values that their session counts and shows."""

    rows: list[Row]
    calls: int
    newest: float
    preview: str | None


def prepared(
    ids: Sequence[int], messages: Sequence[Mapping[str, Any]], session: int, *, now: float, preview: str | None
) -> Prepared:
    """Makes rows of messages; `preview` is the one that the session already has, if any."""
    times = [moment(message.get("timestamp"), now) for message in messages]
    messages = [storable(message) for message in messages]
    return Prepared(
        rows=[encode(*each, session) for each in zip(ids, messages, times, strict=True)],
        calls=sum([calls(message) for message in messages]),
        newest=max(times),
        preview=preview_of(messages) if preview is None else preview,
    )


_PREVIEW = 60  # characters
_OF_ONE_WORD = 8  # characters shown of a text that is one long word, which may be a key
_LATEST = 1e12  # seconds; a larger number is not a time


def moment(given: Any, now: float) -> float:
    """A time as given, or `now` if it is not a plausible time."""
    if isinstance(given, int | float) and not isinstance(given, bool) and abs(given) < _LATEST:
        return float(given)
    return now


def calls(message: Mapping[str, Any]) -> int:
    """How many tool calls a message contains."""
    calls = message.get("tool_calls")
    return len(calls) if isinstance(calls, list | tuple) else int(bool(calls))


def preview_of(messages: Sequence[Mapping[str, Any]]) -> str | None:
    """The beginning of the first message of a person, which lists of sessions show."""
    for message in messages:
        if message.get("role") == "user":
            return beginning(scrub(readable(message.get("content"))))
    return None


def beginning(text: str) -> str:
    """The beginning of a text; cuts no word, because a mask does not recognise half a key."""
    shown = " ".join(text.split())
    if len(shown) <= _PREVIEW:
        return shown
    whole, _, begun = shown[: _PREVIEW + 1].rpartition(" ")
    if not begun.isascii():  # scripts without spaces, which keys never use
        whole = shown[:_PREVIEW]
    return f"{whole or shown[:_OF_ONE_WORD]}..."


# Sessions

KINDS = ("compression", "branch", "delegate")
TITLE_LENGTH = 100
COUNTERS = (
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
    "api_call_count",
    "estimated_cost_usd",
    "actual_cost_usd",
)
PLAIN = ("model", "project", "cwd", "ended_at", "end_reason", "archived", *COUNTERS)
# Control and invisible characters: a title is shown in lists and typed again.
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff\ud800-\udfff]")
_NUMBERED = re.compile(r" #(\d+)$")


class Session(NamedTuple):
    """One row of `sessions`; a tuple, because a search or a list makes dozens of them."""

    key: int
    id: str
    source: str
    title: str | None
    model: str | None
    parent: int | None
    root: int
    kind: str | None
    archived: int
    started_at: float
    last_active: float
    ended_at: float | None
    end_reason: str | None
    last_id: int
    message_count: int
    tool_call_count: int
    preview: str | None
    project: str | None
    cwd: str | None
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int
    api_call_count: int
    estimated_cost_usd: float | None
    actual_cost_usd: float | None
    activity: int
    damaged: bool = False  # its checksum failed, so title, preview and source are left out


SESSION_COLUMNS = (*(name for name in Session._fields if name != "damaged"), "listed")


class Created(NamedTuple):
    """A session that was just created."""

    id: str
    key: int
    title: str | None


def runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Numbers in their order as (first, last) of runs that rise by one."""
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found


def clean_title(title: str | None) -> str | None:
    """The title in one line, without invisible characters, and not too long; None if nothing is left."""
    if title is None:
        return None
    return " ".join(_UNSEEN.sub(" ", title).split())[:TITLE_LENGTH].strip() or None


def base_title(clean: str) -> str:
    """The title without its number."""
    return _NUMBERED.sub("", clean)


def numbered_title(base: str, taken: Iterable[str]) -> str:
    """The title with the next free ` #N`."""
    numbers = [int(found[1]) for name in taken if (found := _NUMBERED.search(name))]
    number = f" #{max([1, *numbers]) + 1}"
    if len(base) + len(number) <= TITLE_LENGTH:
        return base + number
    # Shorten the title, not the number: numbers keep titles apart.
    return base[: TITLE_LENGTH - len(number)].rstrip() + number


def new_id(now: float) -> str:
    """An id for a session: a time that people can read, and random digits."""
    return f"{time.strftime('%Y%m%d_%H%M%S', time.localtime(now))}_{os.urandom(4).hex()}"
