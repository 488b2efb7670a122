"""What every reader of another program's transcripts yields, and the small conversions they share."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hermes.recall.incoming import moment_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Told = Callable[[str], None]  # a line about something that could not be read

LONGEST_LINE = 64 << 20
_decode = json.JSONDecoder().decode  # `json.loads` looks for the encoding of every line


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """One conversation as another program keeps it: `messages` begins to read them anew each time.

    `late` holds what shows only while the messages are read, such as a title at the end of the file.
    """

    id: str
    messages: Callable[[], Iterator[dict[str, Any]]]
    fields: dict[str, Any] = field(default_factory=dict)
    parent: str | None = None
    kind: str | None = None
    late: dict[str, Any] = field(default_factory=dict)


def mapping(value: Any) -> dict[str, Any]:
    """The value if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def timed(message: dict[str, Any], when: Any) -> dict[str, Any]:
    """The message with its moment, where there is one that can be read."""
    moment = moment_of(when)
    if moment is not None:
        message["timestamp"] = moment
    return message


def text_of(content: Any) -> str:
    """The words of a content: a text, or the texts of its parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        content = [content]
    if not isinstance(content, list):
        return ""
    return "\n".join(filter(None, (_text_of_part(part) for part in content)))


def _text_of_part(part: Any) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        return ""
    text = part.get("text")
    return text if isinstance(text, str) else text_of(part.get("content"))


def tool_call(call_id: Any, name: Any, arguments: Any) -> dict[str, Any]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return {"id": str(call_id), "type": "function", "function": {"name": str(name), "arguments": text}}


def json_lines(path: str, told: Told, on_bytes: Callable[[int], None] | None = None) -> Iterator[dict[str, Any]]:
    """The objects of a JSONL file; a line that is none is reported, unless it is the last and still being written."""
    number = 0
    with open(path, "rb") as file:
        while line := file.readline(LONGEST_LINE):
            number += 1
            if on_bytes is not None:
                on_bytes(len(line))
            if not line.strip():
                continue
            if not line.endswith(b"\n") and len(line) == LONGEST_LINE:
                told(f"line {number}: it is longer than {LONGEST_LINE >> 20} MiB and is left out")
                while line and not line.endswith(b"\n"):
                    line = file.readline(LONGEST_LINE)
                continue
            try:
                record = _decode(line.decode("utf-8-sig" if number == 1 else "utf-8").strip())
            except (ValueError, RecursionError) as error:
                if line.endswith(b"\n"):
                    told(f"line {number}: it is not JSON ({str(error)[:100]})")
                continue
            if isinstance(record, dict):
                yield record
            else:
                told(f"line {number}: it is a {type(record).__name__}, not a JSON object")
