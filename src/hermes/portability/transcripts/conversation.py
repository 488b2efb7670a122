"""What every reader of another program's transcripts yields, and the conversions they share."""

from __future__ import annotations

import codecs
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hermes.base.errors import DamagedFile
from hermes.portability.conversations_import import moment_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Protocol

    class Readable(Protocol):
        def read(self, count: int, /) -> bytes: ...

    Told = Callable[[str], None]

_PIECE = 1 << 20
LONGEST_ITEM = 256 << 20
_BLANK = " \t\r\n"


def items(file: Readable, name: str, on_bytes: Callable[[int], None] | None = None) -> Iterator[Any]:
    """The items of the array in the file; an object instead of an array counts as its only item."""
    reader = _Reader(file, name, on_bytes)
    first = reader.next_letter()
    if first == "{":
        yield reader.value()
        return
    if first != "[":
        raise DamagedFile(f"{name} begins with neither [ nor {{, so it is no JSON export; unpack or export it again")
    reader.skip()
    while (letter := reader.next_letter()) != "]":
        if letter == ",":
            reader.skip()
            continue
        yield reader.value()


class _Reader:
    def __init__(self, file: Readable, name: str, on_bytes: Callable[[int], None] | None) -> None:
        self._file = file
        self._name = name
        self._on_bytes = on_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._text = ""
        self._at = 0
        self._ended = False

    def next_letter(self) -> str:
        while True:
            while self._at < len(self._text):
                if self._text[self._at] not in _BLANK:
                    return self._text[self._at]
                self._at += 1
            if not self._more(_PIECE):
                raise DamagedFile(f"{self._name} breaks off in the middle; download or copy it again")

    def skip(self) -> None:
        self._at += 1

    def value(self) -> Any:
        """The value that starts here; twice as much text each time it is not complete, so the work stays linear."""
        step = _PIECE
        while True:
            try:
                found, self._at = json.JSONDecoder().raw_decode(self._text, self._at)
            except ValueError as error:
                if len(self._text) - self._at > LONGEST_ITEM:
                    raise DamagedFile(f"{self._name} holds an item over {LONGEST_ITEM >> 20} MiB") from error
                if not self._more(step):
                    raise DamagedFile(f"{self._name} is not complete JSON ({error}); download it again") from error
                step = min(step * 2, LONGEST_ITEM)
            except RecursionError as error:
                raise DamagedFile(f"{self._name} is nested too deeply to be an export") from error
            else:
                return found

    def _more(self, count: int) -> bool:
        if self._ended:
            return False
        self._text, self._at = self._text[self._at :], 0
        data = self._file.read(count)
        self._ended = not data
        self._text += self._decoder.decode(data, final=self._ended)
        if self._on_bytes is not None:
            self._on_bytes(len(data))
        return True


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
    texts = []
    for part in content if isinstance(content, list) else ():
        text = part if isinstance(part, str) else mapping(part).get("text")
        texts.append(text if isinstance(text, str) else text_of(mapping(part).get("content")))
    return "\n".join(filter(None, texts))


def tool_call(call_id: Any, name: Any, arguments: Any) -> dict[str, Any]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return {"id": str(call_id), "type": "function", "function": {"name": str(name), "arguments": text}}


def spoken(role: str, content: str, parts: list[Any], names: dict[str, str]) -> Iterator[dict[str, Any]]:
    """One message of Anthropic's content blocks: what was said, thought and called; none when there is nothing."""
    message: dict[str, Any] = {"role": role, "content": content or None}
    thoughts = "\n".join(str(part.get("thinking") or "") for part in _of_kind(parts, "thinking"))
    if thoughts.strip():
        message["reasoning"] = thoughts
    if calls := [(call.get("id") or call.get("name"), call) for call in _of_kind(parts, "tool_use")]:
        names |= {str(number): str(call.get("name")) for number, call in calls}
        message["tool_calls"] = [tool_call(number, call.get("name"), call.get("input")) for number, call in calls]
    if content or len(message) > 2:  # noqa: PLR2004 - more than its role and an empty content
        yield message


def tool_results(parts: list[Any], names: dict[str, str]) -> Iterator[dict[str, Any]]:
    for part in _of_kind(parts, "tool_result"):
        yield _tool_result(str(part.get("tool_use_id") or part.get("name")), text_of(part.get("content")), names)


def _tool_result(call: str, content: str, names: dict[str, str]) -> dict[str, Any]:
    message = {"role": "tool", "tool_call_id": call, "content": content}
    return {**message, "name": names[call]} if call in names else message


def _of_kind(parts: list[Any], kind: str) -> list[dict[str, Any]]:
    return [part for part in parts if isinstance(part, dict) and part.get("type") == kind]


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


# Items of OpenAI's Responses API as messages; Codex and the Agents SDK both keep their history as such items.

_CALLS = {"function_call": "arguments", "custom_tool_call": "input", "local_shell_call": "action"}
_RESULTS = ("function_call_output", "custom_tool_call_output", "local_shell_call_output", "computer_call_output")
_HOSTED = ("web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call")


def message_of(item: dict[str, Any], names: dict[str, str]) -> dict[str, Any] | None:
    """The item as a message, or None for one that says nothing; `names` remembers which call is whose."""
    kind = item.get("type")
    if isinstance(item.get("role"), str) and kind in (None, "message"):
        return _said(item)
    if kind in _CALLS:
        call, name = str(item.get("call_id") or item.get("id")), str(item.get("name") or kind)
        names[call] = name
        arguments = item.get(_CALLS[str(kind)])
        return {"role": "assistant", "content": None, "tool_calls": [tool_call(call, name, arguments)]}
    if kind in _RESULTS:
        return _tool_result(str(item.get("call_id")), _output(item.get("output")), names)
    if kind in _HOSTED:
        arguments = {key: value for key, value in item.items() if key not in ("type", "id", "status")}
        return {"role": "assistant", "content": None, "tool_calls": [tool_call(item.get("id"), kind, arguments)]}
    if kind == "reasoning":
        thoughts = "\n".join(filter(None, (text_of(item.get("summary")), text_of(item.get("content")))))
        return {"role": "assistant", "content": None, "reasoning": thoughts} if thoughts else None
    return None


def _said(item: dict[str, Any]) -> dict[str, Any] | None:
    role = "system" if item["role"] == "developer" else item["role"]
    content = item.get("content")
    kinds = {part.get("type") for part in content if isinstance(part, dict)} if isinstance(content, list) else set()
    if not kinds - {"input_text", "output_text", "text", "refusal"}:
        content = text_of(content) or "\n".join(
            str(part["refusal"]) for part in content or () if isinstance(part, dict) and part.get("refusal")
        )
    return {"role": role, "content": content} if content else None


def _output(given: Any) -> str:
    """What a tool answered; Codex wraps it in JSON with how long it took."""
    if isinstance(given, str) and given.startswith('{"output"'):
        try:
            inner = json.loads(given).get("output")
        except (ValueError, AttributeError, RecursionError):
            return given
        return inner if isinstance(inner, str) else given
    if isinstance(given, str):
        return given
    return text_of(given) or json.dumps(given, ensure_ascii=False)
