"""Reads the conversations that other programs keep: chat services' exports, coding agents' files, and Letta's.

Each reader yields `Conversation`s; what they have in common (items of a large JSON document, lines of JSON, content
blocks of Anthropic's and items of OpenAI's API as messages) stands first.
"""

from __future__ import annotations

import codecs
import itertools
import json
import os
import re
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from hermes.base.errors import DamagedFile
from hermes.portability.archive import opened_unchanged
from hermes.portability.conversations_import import moment_of
from hermes.storage.local.database import all_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Protocol

    class Readable(Protocol):
        def read(self, count: int, /) -> bytes: ...

    Told = Callable[[str], None]
    from collections.abc import Callable, Iterable

    import apsw

    Records = Iterable[dict[str, Any]]


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


CHATGPT, CLAUDE, LETTA = "chatgpt", "claude", "letta"
_ROLES = ("user", "assistant", "system", "tool")
_CLAUDE_ROLES = {"human": "user", "assistant": "assistant"}
_Nodes = dict[str, dict[str, Any]]


def is_chatgpt(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(item.get("mapping"), dict)


def chatgpt(item: dict[str, Any]) -> Iterator[Conversation]:
    """A conversation is a tree of messages: its current path, then every path that was left as a branch."""
    nodes: _Nodes = {name: node for name, node in item["mapping"].items() if isinstance(node, dict)}
    name = str(item.get("conversation_id") or item.get("id") or item.get("title") or "conversation")
    leaves = [leaf for leaf, node in nodes.items() if not _has_children(node, nodes)]
    current = item.get("current_node")
    main = str(current) if current in nodes else (leaves[-1] if leaves else "")
    title = item.get("title")
    fields: dict[str, Any] = {
        "title": title if isinstance(title, str) and title.strip() else None,
        "started_at": item.get("create_time"),
        "model": item.get("default_model_slug"),
        "project": item.get("gizmo_id"),
    }
    taken: set[str] = set()
    said = partial(_chatgpt_messages, nodes, _path(nodes, main, taken))
    yield Conversation(id=name, fields=fields, messages=said)
    for leaf in leaves:
        said = partial(_chatgpt_messages, nodes, _path(nodes, leaf, taken))
        yield Conversation(id=f"{name}_{leaf}", fields=fields, messages=said, parent=name, kind="branch")


def _has_children(node: dict[str, Any], nodes: _Nodes) -> bool:
    children = node.get("children")
    return isinstance(children, list) and any(child in nodes for child in children)


def _path(nodes: _Nodes, leaf: str, taken: set[str]) -> list[str]:
    """From the first node not taken yet down to the leaf; the nodes are taken now, so a ring ends too."""
    path: list[str] = []
    at: Any = leaf
    while isinstance(at, str) and at in nodes and at not in taken:
        taken.add(at)
        path.append(at)
        at = nodes[at].get("parent")
    return path[::-1]


def _chatgpt_messages(nodes: _Nodes, path: list[str]) -> Iterator[dict[str, Any]]:
    for message in (mapping(nodes[name].get("message")) for name in path):
        author, text = mapping(message.get("author")), _chatgpt_text(mapping(message.get("content")))
        hidden = mapping(message.get("metadata")).get("is_visually_hidden_from_conversation")
        if author.get("role") in _ROLES and text.strip() and not hidden:
            said: dict[str, Any] = {"role": author["role"], "content": text}
            if said["role"] == "tool" and isinstance(author.get("name"), str):
                said["name"] = author["name"]
            yield timed(said, message.get("create_time"))


def _chatgpt_text(content: dict[str, Any]) -> str:
    """The text of a message; an image or a file is named in its place, so that a reader sees it was there."""
    found = [text_of(content.get("text")), text_of(content.get("result"))]
    for part in content.get("parts") or ():
        if isinstance(part, dict) and "asset_pointer" in part:
            found.append(f"[{part.get('content_type', 'attachment')}: {part['asset_pointer']}]")
        else:
            found.append(text_of(part))
    found += [text_of(thought) for thought in content.get("thoughts") or ()]
    return "\n".join(filter(None, found))


def is_claude(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(item.get("chat_messages"), list)


def claude(item: dict[str, Any]) -> Iterator[Conversation]:
    fields: dict[str, Any] = {
        "title": item.get("name"),
        "started_at": item.get("created_at"),
        "model": item.get("model"),
        "project": mapping(item.get("project")).get("name"),
    }
    name = str(item.get("uuid") or item.get("name") or "conversation")
    yield Conversation(id=name, fields=fields, messages=partial(_claude_messages, item["chat_messages"]))


def _claude_messages(given: list[Any]) -> Iterator[dict[str, Any]]:
    names: dict[str, str] = {}
    for each in filter(mapping, given):
        if role := _CLAUDE_ROLES.get(str(each.get("sender"))):
            parts = [part for part in each.get("content") or () if isinstance(part, dict)]
            text = text_of([part for part in parts if part.get("type") == "text"]) or text_of(each.get("text"))
            content = "\n\n".join(filter(None, [text, *_attached(each)]))
            for message in (*spoken(role, content, parts, names), *tool_results(parts, names)):
                yield timed(message, each.get("created_at"))


def _attached(each: dict[str, Any]) -> Iterator[str]:
    for attachment in filter(mapping, each.get("attachments") or ()):
        yield f"[{attachment.get('file_name') or 'attachment'}]\n{text_of(attachment.get('extracted_content'))}"
    for file in filter(mapping, each.get("files") or ()):
        if file.get("file_name"):
            yield f"[{file['file_name']}]"


def is_letta(item: Any) -> bool:
    if not isinstance(item, dict):
        return False
    first = isinstance(item.get("messages"), list) and ("agent_type" in item or "core_memory" in item)
    return first or (isinstance(item.get("agents"), list) and isinstance(item.get("blocks"), list))


def letta(item: dict[str, Any]) -> Iterator[Conversation]:
    """One document holds agents with their messages and memory blocks."""
    for agent in filter(mapping, item.get("agents") or [item]):
        fields: dict[str, Any] = {
            "title": agent.get("name"),
            "model": mapping(agent.get("llm_config")).get("model") or agent.get("model"),
            "started_at": agent.get("created_at"),
        }
        name = str(agent.get("id") or agent.get("name") or "agent")
        yield Conversation(id=name, fields=fields, messages=partial(_letta_messages, agent.get("messages")))


def letta_blocks(item: dict[str, Any]) -> list[tuple[str, str]]:
    """Label and text of each memory block: what the agent knew about itself and about the person."""
    found = [*(item.get("core_memory") or ()), *(item.get("blocks") or ())]
    return [
        (str(block.get("label") or ""), block["value"])
        for block in filter(mapping, found)
        if isinstance(block.get("value"), str) and block["value"].strip()
    ]


def _letta_messages(given: Any) -> Iterator[dict[str, Any]]:
    for each in filter(mapping, given if isinstance(given, list) else ()):
        if each.get("role") not in _ROLES or each["role"] == "system":
            continue  # the system prompt is rebuilt by whoever runs the agent
        message: dict[str, Any] = {"role": each["role"], "content": text_of(each.get("content") or each.get("text"))}
        if isinstance(each.get("tool_calls"), list) and each["tool_calls"]:
            message["tool_calls"] = each["tool_calls"]
        if each["role"] == "tool":
            message["content"] = message["content"] or text_of(each.get("tool_returns"))
            message |= {key: each[key] for key in ("tool_call_id", "name") if isinstance(each.get(key), str)}
        if message["content"] or "tool_calls" in message:
            yield timed(message, each.get("created_at"))


CLAUDE_CODE, CODEX, AGENTS_SDK = "claude-code", "codex", "openai-agents"
AGENTS_TABLE = "agent_messages"
_SPEAKERS = ("user", "assistant")
_TITLES = {"summary": "summary", "custom-title": "customTitle", "ai-title": "aiTitle"}
_HEAD = 50  # records that tell what a session is about
_LINES = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
# What Codex itself puts before a person's first words.
_PREAMBLE = re.compile(r"\s*(<environment_context>|<user_instructions>|<permissions|# AGENTS\.md instructions)")
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SESSIONS = "SELECT session_id, min(created_at) FROM agent_messages GROUP BY session_id ORDER BY min(id)"
_ITEMS = "SELECT message_data, created_at FROM agent_messages WHERE session_id = ? ORDER BY id"


def usual_places(program: str) -> list[str]:
    """Where a program keeps its transcripts."""
    if program == CLAUDE_CODE:
        return [os.path.join(os.environ.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~/.claude"), "projects")]
    root = os.environ.get("CODEX_HOME") or os.path.expanduser("~/.codex")
    return [os.path.join(root, "sessions"), os.path.join(root, "archived_sessions")]


def is_claude_code(records: list[dict[str, Any]]) -> bool:
    return any(
        (isinstance(record.get("sessionId"), str) and record.get("type") in (*_SPEAKERS, "system", "attachment"))
        or (record.get("type") == "summary" and "leafUuid" in record)
        for record in records
    )


def claude_code(path: str, told: Told, on_bytes: Callable[[int], None] | None = None) -> Iterator[Conversation]:
    """The conversation of the file, then one for each sub-agent whose words stand in it."""
    head = list(itertools.islice(_said_in(json_lines(path, lambda _: None)), _HEAD))
    if not head:
        return
    session = str(head[0].get("sessionId") or os.path.splitext(os.path.basename(path))[0])
    agents: dict[str, None] = {}
    late: dict[str, Any] = {}
    if not all(record.get("isSidechain") for record in head):
        yield Conversation(
            id=session,
            fields=_claude_code_fields(head),
            messages=lambda: _claude_code_messages(_main(json_lines(path, told, on_bytes), agents, late)),
            late=late,
        )
    else:
        agents = {_agent(record): None for record in _said_in(json_lines(path, told, on_bytes))}
    for agent in agents:
        first = next((record for record in head if record.get("isSidechain") and _agent(record) == agent), head[0])
        yield Conversation(
            id=f"{session}_{agent}",
            fields={**_claude_code_fields([first]), "source": f"{CLAUDE_CODE}-agent"},
            messages=partial(_aside, path, agent),
            parent=session,
            kind="delegate",
        )


def _aside(path: str, agent: str) -> Iterator[dict[str, Any]]:
    said = _said_in(json_lines(path, lambda _: None))
    return _claude_code_messages(each for each in said if each.get("isSidechain") and _agent(each) == agent)


def _said_in(records: Records) -> Iterator[dict[str, Any]]:
    for record in records:
        if record.get("type") in _SPEAKERS and isinstance(record.get("message"), dict) and not record.get("isMeta"):
            yield record


def _main(records: Records, agents: dict[str, None], late: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What was said in the conversation itself; notes its sub-agents and its title on the way."""

    def without_titles() -> Iterator[dict[str, Any]]:
        for record in records:
            title = record.get(_TITLES.get(str(record.get("type")), ""))
            if isinstance(title, str) and title.strip():
                late["title"] = title
            yield record

    for record in _said_in(without_titles()):
        if record.get("isSidechain"):
            agents[_agent(record)] = None
        else:
            yield record


def _agent(record: dict[str, Any]) -> str:
    given = record.get("agentId")
    return f"agent-{given}" if isinstance(given, str) and given else "agent"


def _claude_code_fields(head: list[dict[str, Any]]) -> dict[str, Any]:
    def first(key: str) -> str | None:
        found = (record.get(key) for record in head)
        return next((text for text in found if isinstance(text, str) and text), None)

    models = (record["message"].get("model") for record in head)
    return {
        "cwd": first("cwd"),
        "project": first("cwd"),
        "git_branch": first("gitBranch"),
        "model": next((model for model in models if isinstance(model, str) and not model.startswith("<")), None),
        "started_at": first("timestamp"),
    }


def _claude_code_messages(records: Records) -> Iterator[dict[str, Any]]:
    """The lines as messages: calls and results of tools as such, thinking beside what was said."""
    names: dict[str, str] = {}
    for record in records:
        content = record["message"].get("content")
        parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
        if record["type"] == "assistant":
            text = text_of([part for part in parts if isinstance(part, dict) and part.get("type") == "text"])
            found = spoken("assistant", text, parts, names)
        else:
            found = _from_user(parts, names)
        extra = {"compact_summary": True} if record.get("isCompactSummary") else {}
        for message in found:
            yield timed({**message, **extra}, record.get("timestamp"))


def _from_user(parts: list[Any], names: dict[str, str]) -> Iterator[dict[str, Any]]:
    yield from tool_results(parts, names)
    said = [part for part in parts if mapping(part).get("type") != "tool_result"]
    plain = all(isinstance(part, str) or mapping(part).get("type") == "text" for part in said)
    if content := text_of(said) if plain else said:
        yield {"role": "user", "content": content}


def is_codex(records: list[dict[str, Any]]) -> bool:
    if any(record.get("type") in _LINES and isinstance(record.get("payload"), dict) for record in records):
        return True
    first = records[0] if records else {}
    return "type" not in first and {"id", "timestamp", "instructions"} <= first.keys()


def codex(path: str, told: Told, on_bytes: Callable[[int], None] | None = None) -> Iterator[Conversation]:
    head = list(itertools.islice(json_lines(path, lambda _: None), _HEAD))
    begun, turns = (
        [record["payload"] for record in head if record.get("type") == kind and mapping(record.get("payload"))]
        for kind in ("session_meta", "turn_context")
    )
    about: dict[str, Any] = next(iter([*begun, *head]), {})
    cwd = about.get("cwd") or next((turn.get("cwd") for turn in turns), None)
    fields = {
        "cwd": cwd,
        "project": cwd,
        "git_branch": mapping(about.get("git")).get("branch"),
        "model": next((turn.get("model") for turn in turns), None),
        "started_at": about.get("timestamp"),
    }
    named = _ID.search(os.path.basename(path))
    name = about.get("id") or (named[0] if named else os.path.splitext(os.path.basename(path))[0])
    said = partial(_codex_messages, path, told, on_bytes)
    yield Conversation(id=str(name), fields=fields, messages=said)


def _codex_messages(path: str, told: Told, on_bytes: Callable[[int], None] | None) -> Iterator[dict[str, Any]]:
    names: dict[str, str] = {}
    for record in json_lines(path, told, on_bytes):
        item = record
        if record.get("type") in _LINES:
            item = mapping(record.get("payload")) if record["type"] in ("response_item", "compacted") else {}
            if record["type"] == "compacted":
                item = {"role": "system", "content": item.get("message")}
        message = message_of(item, names)
        said = message.get("content") if message is not None and message["role"] in ("user", "system") else None
        if message is not None and not (isinstance(said, str) and _PREAMBLE.match(said)):
            yield timed(message, record.get("timestamp"))


def agents_sdk(path: str, told: Told, on_bytes: Callable[[int], None] | None = None) -> Iterator[Conversation]:
    """Tables `agent_sessions` and `agent_messages`."""
    del on_bytes
    with opened_unchanged(path) as connection:
        for name, started in all_rows(connection, _SESSIONS):
            said = partial(_agents_sdk_messages, connection, name, told)
            yield Conversation(id=str(name), fields={"started_at": _as_utc(started)}, messages=said)


def _agents_sdk_messages(connection: apsw.Connection, session: Any, told: Told) -> Iterator[dict[str, Any]]:
    names: dict[str, str] = {}
    for data, created in connection.execute(_ITEMS, (session,)):
        try:
            item = json.loads(data)
        except (TypeError, ValueError, RecursionError) as error:
            told(f"session {session!r}: an item is not JSON ({str(error)[:100]})")
            continue
        if (message := message_of(mapping(item), names)) is not None:
            yield timed(message, _as_utc(created))


def _as_utc(given: Any) -> Any:
    """SQLite's own time stamps are in UTC and do not say so."""
    return f"{given}+00:00" if isinstance(given, str) and "+" not in given else given
