"""Reads conversations of other programs: exports of chat services, transcripts of coding agents, and Letta's files.

Each reader yields `Conversation`s. The first part of this module is shared by the readers: items of a large JSON
document, lines of JSON, and content blocks of Anthropic's and items of OpenAI's API as messages.
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
from hermes.portability.conversations_import import LONGEST_LINE, moment_of, numbered_lines
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
_NOT_BLANK = re.compile(r"[^ \t\r\n]")


def items(file: Readable, name: str, on_bytes: Callable[[int], None] | None = None) -> Iterator[Any]:
    """The items of the array in the file; an object instead of an array counts as its only item."""
    reader = _Reader(file, on_bytes)
    try:
        first = reader.next_letter()
        if first not in ("[", "{"):
            raise DamagedFile(f"{name} is not a JSON export: it starts with neither [ nor {{; unpack it first")
        if first == "{":
            yield reader.value()
            return
        reader.at += 1
        while (letter := reader.next_letter()) != "]":
            if letter == ",":
                reader.at += 1
            else:
                yield reader.value()
    except EOFError as error:
        raise DamagedFile(f"{name} ends too early ({error}); download or copy it again") from error
    except (OverflowError, RecursionError) as error:
        raise DamagedFile(f"{name} holds an item that is nested too deeply or over {LONGEST_ITEM >> 20} MiB") from error


class _Reader:
    """Reads JSON values from a file piece by piece; EOFError when it ends inside one."""

    def __init__(self, file: Readable, on_bytes: Callable[[int], None] | None) -> None:
        self._file = file
        self._on_bytes = on_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._text = ""
        self.at = 0

    def next_letter(self) -> str:
        while True:
            if found := _NOT_BLANK.search(self._text, self.at):
                self.at = found.start()
                return found[0]
            self.at = len(self._text)
            self._more(_PIECE, "nothing follows")

    def value(self) -> Any:
        """The value that starts here; twice as much text each time it is not complete, so the work stays linear."""
        step = _PIECE
        while True:
            try:
                found, self.at = json.JSONDecoder().raw_decode(self._text, self.at)
            except ValueError as error:
                if len(self._text) - self.at > LONGEST_ITEM:
                    raise OverflowError from error
                self._more(step, str(error))
                step = min(step * 2, LONGEST_ITEM)
            else:
                return found

    def _more(self, count: int, missing: str) -> None:
        data = self._file.read(count)
        self._text, self.at = self._text[self.at :] + self._decoder.decode(data, final=not data), 0
        if self._on_bytes is not None:
            self._on_bytes(len(data))
        if not data:
            raise EOFError(missing)


_decode = json.JSONDecoder().decode  # faster than `json.loads`, which detects the encoding of every line


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """One conversation as another program keeps it: each call of `messages` reads them again.

    `late` is filled while the messages are read, for example with a title from the end of the file.
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
    """The message with its time, if there is one."""
    moment = moment_of(when)
    if moment is not None:
        message["timestamp"] = moment
    return message


def text_of(content: Any) -> str:
    """The text of a message's content: a string, or the texts of its parts."""
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
    """One message from Anthropic's content blocks (text, thinking, tool calls); nothing if they are empty."""
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
    """The objects of a JSONL file; reports other lines, except a last line that is still being written."""
    with open(path, "rb") as file:
        for number, line in numbered_lines(file, on_bytes):
            if line is None:
                told(f"line {number}: it is longer than {LONGEST_LINE >> 20} MiB and is left out")
                continue
            try:
                record = _decode(line.decode().strip())
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
    """The item as a message, or None if it is empty; `names` maps ids of calls to names of tools."""
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
    """The output of a tool; Codex wraps it in JSON together with its duration."""
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
    """A conversation is a tree of messages: yields its current path, then every other path as a branch."""
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
    """The nodes from the first one not taken yet down to the leaf; marks them as taken, which also ends a cycle."""
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
    """The text of a message, with a placeholder for each image or file."""
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
    """A document contains agents with their messages and memory blocks."""
    for agent in filter(mapping, item.get("agents") or [item]):
        fields: dict[str, Any] = {
            "title": agent.get("name"),
            "model": mapping(agent.get("llm_config")).get("model") or agent.get("model"),
            "started_at": agent.get("created_at"),
        }
        name = str(agent.get("id") or agent.get("name") or "agent")
        yield Conversation(id=name, fields=fields, messages=partial(_letta_messages, agent.get("messages")))


def letta_blocks(item: dict[str, Any]) -> list[tuple[str, str]]:
    """Label and text of each memory block, such as `human` and `persona`."""
    found = [*(item.get("core_memory") or ()), *(item.get("blocks") or ())]
    return [
        (str(block.get("label") or ""), block["value"])
        for block in filter(mapping, found)
        if isinstance(block.get("value"), str) and block["value"].strip()
    ]


def _letta_messages(given: Any) -> Iterator[dict[str, Any]]:
    for each in filter(mapping, given if isinstance(given, list) else ()):
        if each.get("role") not in _ROLES or each["role"] == "system":
            continue  # whoever runs the agent builds the system prompt anew
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
_HEAD = 50  # records that describe a session
_LINES = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
# What Codex puts before the person's first message.
_PREAMBLE = re.compile(r"\s*(<environment_context>|<user_instructions>|<permissions|# AGENTS\.md instructions)")
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SESSIONS = "SELECT session_id, min(created_at) FROM agent_messages GROUP BY session_id ORDER BY min(id)"
_ITEMS = "SELECT message_data, created_at FROM agent_messages WHERE session_id = ? ORDER BY id"


def usual_places(program: str) -> list[str]:
    """The folders in which a program keeps its transcripts."""
    names = ("projects",) if program == CLAUDE_CODE else ("sessions", "archived_sessions")
    return [os.path.join(home_of_program(program), name) for name in names]


def home_of_program(program: str) -> str:
    """The folder of Claude Code or Codex."""
    variable, usual = ("CLAUDE_CONFIG_DIR", "~/.claude") if program == CLAUDE_CODE else ("CODEX_HOME", "~/.codex")
    return os.environ.get(variable) or os.path.expanduser(usual)


def is_claude_code(records: list[dict[str, Any]]) -> bool:
    return any(
        (isinstance(record.get("sessionId"), str) and record.get("type") in (*_SPEAKERS, "system", "attachment"))
        or (record.get("type") == "summary" and "leafUuid" in record)
        for record in records
    )


def claude_code(path: str, told: Told, on_bytes: Callable[[int], None] | None = None) -> Iterator[Conversation]:
    """The conversation in the file, then one for each sub-agent in it."""
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
    """The records of the conversation itself; collects its sub-agents and its title on the way."""

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
    """The records as messages, with tool calls, tool results and thinking."""
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
    """SQLite's time stamps are in UTC without a zone; adds it."""
    return f"{given}+00:00" if isinstance(given, str) and "+" not in given else given
