"""Reads conversations of other programs: exports of chat services, transcripts of coding agents, and Letta's files.

`sources` finds files and recognises their formats, `read` yields their `Conversation`s. The first part of this module
is shared by the readers: items of a large JSON document, lines of JSON, and content blocks of Anthropic's and items of
OpenAI's API as messages.
"""

from __future__ import annotations

import codecs
import contextlib
import gzip
import itertools
import json
import os
import re
import stat
import zipfile
import zlib
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import apsw

from hermes.base.errors import DamagedFile, NotFound, SettingsError, StorageError
from hermes.portability.archive import check_limits, opened_unchanged
from hermes.storage.local.database import HERMES_AGENT, all_rows, foreign_program
from hermes.storage.local.repair.salvage import open_unchanged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import IO, BinaryIO, Protocol

    class Readable(Protocol):
        def read(self, count: int, /) -> bytes: ...

    Told = Callable[[str], None]
    Records = Iterable[dict[str, Any]]


LONGEST_LINE = 64 << 20  # bytes; longer lines are reported, not read
LATEST = 1e12  # seconds since 1970; larger numbers are not times
_MILLISECONDS = 1e11  # a larger number is one of milliseconds: as seconds, it would be after the year 5000
_PIECE = 1 << 20
LONGEST_ITEM = 256 << 20  # a whole conversation in an export of a chat service
_DECODER = json.JSONDecoder()  # faster than `json.loads`, which detects the encoding of every line
_NOT_BETWEEN = re.compile(r"[^ \t\r\n,]")


def items(file: Readable, name: str, on_bytes: Callable[[int], None] | None = None) -> Iterator[Any]:
    """The items of the array in the file, or the objects that follow each other in it, read piece by piece.

    An export of a chat service is one JSON array of a few gigabytes, and the standard library reads JSON only as a
    whole. So this decodes one item at a time, and reads more of the file when an item is incomplete.
    """
    decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
    text, at, step, problem = "", 0, _PIECE, ""
    begun = in_array = False
    while True:
        found = _NOT_BETWEEN.search(text, at)
        at, letter = (found.start(), found[0]) if found else (len(text), "")
        if not begun and letter == "[":
            begun, in_array, at = True, True, at + 1
            continue
        if in_array and letter == "]":
            return
        if letter and (begun or letter == "{"):
            item, at, problem = _decoded(text, at, name)
            if not problem:
                yield item
                begun, step = True, _PIECE
                continue
        elif letter:
            raise DamagedFile(f"{name} is not a JSON export: it starts with neither [ nor {{; unpack it first")
        data = file.read(step)
        if not data and begun and not letter and not in_array:
            return
        if not data:
            missing = problem if letter else "nothing follows"
            raise DamagedFile(f"{name} ends too early ({missing}); download or copy it again")
        text, at = text[at:] + decoder.decode(data), 0
        step = min(step * 2, LONGEST_ITEM)  # so that the work stays linear when an item is long
        if on_bytes is not None:
            on_bytes(len(data))


def _decoded(text: str, at: int, name: str) -> tuple[Any, int, str]:
    """The value that starts at `at`, where it ends, and why it is not complete yet (empty if it is)."""
    try:
        return *_DECODER.raw_decode(text, at), ""
    except ValueError as error:
        if len(text) - at <= LONGEST_ITEM:
            return None, at, str(error)
        raise DamagedFile(f"{name} holds an item over {LONGEST_ITEM >> 20} MiB ({error})") from error
    except RecursionError as error:
        raise DamagedFile(f"{name} holds an item that is nested too deeply") from error


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


def moment_of(given: Any) -> float | None:
    """Seconds since 1970 from a number of seconds or milliseconds, or from an ISO date."""
    if isinstance(given, str):
        try:
            moment = datetime.fromisoformat(given)
            return (moment.astimezone() if moment.tzinfo is None else moment).timestamp()
        except (ValueError, OverflowError):
            return None
    if isinstance(given, bool) or not isinstance(given, int | float) or not abs(given) < LATEST * 1000:
        return None
    seconds = float(given)
    return seconds / 1000 if abs(seconds) >= _MILLISECONDS else seconds


def at(tree: Any, path: str) -> Any:
    """The value at a path such as `session.reset.mode` in nested JSON objects; None if there is none."""
    for name in path.split("."):
        tree = mapping(tree).get(name)
    return tree


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
    """A tool call in OpenAI's format, whose arguments are JSON in a string."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return {"id": str(call_id), "type": "function", "function": {"name": str(name), "arguments": text}}


def spoken(role: str, content: str, parts: list[Any], names: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Yields one message from Anthropic's content blocks (text, thinking, tool calls), or nothing if they are empty.

    `names` collects the tool of each call, because Anthropic's results refer to a call only by its id.
    """
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
    """Yields a message for each tool result in Anthropic's content blocks; `names` says which tool a call ran."""
    for part in _of_kind(parts, "tool_result"):
        yield _tool_result(str(part.get("tool_use_id") or part.get("name")), text_of(part.get("content")), names)


def _tool_result(call: str, content: str, names: dict[str, str]) -> dict[str, Any]:
    message = {"role": "tool", "tool_call_id": call, "content": content}
    return {**message, "name": names[call]} if call in names else message


def _of_kind(parts: list[Any], kind: str) -> list[dict[str, Any]]:
    return [part for part in parts if isinstance(part, dict) and part.get("type") == kind]


def numbered_lines(
    file: BinaryIO, on_bytes: Callable[[int], object] | None = None
) -> Iterator[tuple[int, bytes | None]]:
    """Lines that are not blank, with their numbers; None for one that is too long to hold.

    `on_bytes` receives the size of each line, including its end.
    """
    number = 0
    while line := file.readline(LONGEST_LINE):
        number += 1
        whole, size = True, len(line)
        while not line.endswith(b"\n") and (line_end := file.readline(LONGEST_LINE)):
            whole, line = False, line_end
            size += len(line_end)
        if on_bytes is not None:
            on_bytes(size)
        if not whole:
            yield number, None
        elif line.strip():
            yield number, line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line  # a mark that Windows adds


def json_lines(path: str, told: Told, on_bytes: Callable[[int], None] | None = None) -> Iterator[dict[str, Any]]:
    """The objects of a JSONL file; passes complaints about other lines to `told`.

    An incomplete last line is ignored, because the program may still be writing it.
    """
    with open(path, "rb") as file:
        for number, line in numbered_lines(file, on_bytes):
            if line is None:
                told(f"line {number}: it is longer than {LONGEST_LINE >> 20} MiB and is left out")
                continue
            try:
                record = _DECODER.decode(line.decode().strip())
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
# Tools that OpenAI's servers run: the call has no separate arguments or result, so all its fields are kept.
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
    # Content with anything other than text, such as an image, is kept as it is.
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


# Exports of chat services (one JSON document of conversations), and Letta's agent files.

CHATGPT, CLAUDE, LETTA = "chatgpt", "claude", "letta"
_ROLES = ("user", "assistant", "system", "tool")
_CLAUDE_ROLES = {"human": "user", "assistant": "assistant"}
# Where each format keeps what we record about a conversation.
_PLACES = {
    CHATGPT: {"title": "title", "started_at": "create_time", "model": "default_model_slug", "project": "gizmo_id"},
    CLAUDE: {"title": "name", "started_at": "created_at", "model": "model", "project": "project.name"},
    LETTA: {"title": "name", "started_at": "created_at", "model": "llm_config.model"},
}
_Nodes = dict[str, dict[str, Any]]


def _fields(form: str, item: dict[str, Any]) -> dict[str, Any]:
    return {name: at(item, path) for name, path in _PLACES[form].items()}


def is_chatgpt(item: Any) -> bool:
    """Recognises a conversation of ChatGPT's export by its tree of messages."""
    return isinstance(item, dict) and isinstance(item.get("mapping"), dict)


def chatgpt(item: dict[str, Any]) -> Iterator[Conversation]:
    """Reads a conversation of ChatGPT's export, a tree of messages: the current path, then other paths as branches.

    Each edit of a message starts a new path. A branch begins where it leaves a path that was yielded before.
    """
    nodes: _Nodes = {name: node for name, node in item["mapping"].items() if isinstance(node, dict)}
    name = str(item.get("conversation_id") or item.get("id") or item.get("title") or "conversation")
    leaves = [leaf for leaf, node in nodes.items() if not _has_children(node, nodes)]
    current = item.get("current_node")
    main = str(current) if current in nodes else (leaves[-1] if leaves else "")
    fields = _fields(CHATGPT, item)
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
    """Recognises a conversation of Claude's export."""
    return isinstance(item, dict) and isinstance(item.get("chat_messages"), list)


def claude(item: dict[str, Any]) -> Iterator[Conversation]:
    """Reads one conversation of Claude's export, with the texts of attached files."""
    name = str(item.get("uuid") or item.get("name") or "conversation")
    yield Conversation(id=name, fields=_fields(CLAUDE, item), messages=partial(_claude_messages, item["chat_messages"]))


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
    """Recognises an agent file of Letta, in its old form (one agent) or its new one (agents and blocks)."""
    if not isinstance(item, dict):
        return False
    first = isinstance(item.get("messages"), list) and ("agent_type" in item or "core_memory" in item)
    return first or (isinstance(item.get("agents"), list) and isinstance(item.get("blocks"), list))


def letta(item: dict[str, Any]) -> Iterator[Conversation]:
    """Reads an agent file of Letta: one conversation for each agent in it."""
    for agent in filter(mapping, item.get("agents") or [item]):
        fields = _fields(LETTA, agent)
        fields["model"] = fields["model"] or agent.get("model")
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
            continue  # the program that runs the agent builds its own system prompt
        message: dict[str, Any] = {"role": each["role"], "content": text_of(each.get("content") or each.get("text"))}
        if isinstance(each.get("tool_calls"), list) and each["tool_calls"]:
            message["tool_calls"] = each["tool_calls"]
        if each["role"] == "tool":
            message["content"] = message["content"] or text_of(each.get("tool_returns"))
            message |= {key: each[key] for key in ("tool_call_id", "name") if isinstance(each.get(key), str)}
        if message["content"] or "tool_calls" in message:
            yield timed(message, each.get("created_at"))


# Transcripts of coding agents, one file per session, and databases of the Agents SDK.

CLAUDE_CODE, CODEX, AGENTS_SDK = "claude-code", "codex", "openai-agents"
AGENTS_TABLE = "agent_messages"
_SPEAKERS = ("user", "assistant")
# Kinds of records that hold a title of the session, and the field it is in.
_TITLES = {"summary": "summary", "custom-title": "customTitle", "ai-title": "aiTitle"}
_HEAD = 50  # records at the beginning in which folder, model and time of a session are looked up
_LINES = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
# What Codex puts before the person's first message.
_PREAMBLE = re.compile(r"\s*(<environment_context>|<user_instructions>|<permissions|# AGENTS\.md instructions)")
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")  # a UUID, which Codex puts into its file names
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
    """Recognises a transcript of Claude Code by its first records."""
    return any(
        (isinstance(record.get("sessionId"), str) and record.get("type") in (*_SPEAKERS, "system", "attachment"))
        or (record.get("type") == "summary" and "leafUuid" in record)
        for record in records
    )


def claude_code(path: str, told: Told, on_bytes: Callable[[int], None] | None = None) -> Iterator[Conversation]:
    """Reads a transcript of Claude Code: the conversation, then one for each sub-agent in the file.

    All sub-agents are known only after the whole file has been read, which the messages of the main conversation do.
    """
    agents: dict[str, None] = {}
    late: dict[str, Any] = {}

    def said(agent: str | None, told: Told = lambda _: None, on_bytes: Callable[[int], None] | None = None) -> Records:
        """Yields the records of `agent` ("" is the main one, None means all), and collects agents and titles."""
        for record in json_lines(path, told, on_bytes):
            title = record.get(_TITLES.get(str(record.get("type")), ""))
            if isinstance(title, str) and title.strip():
                late["title"] = title
            if _is_message(record):
                name = _agent(record)
                agents.setdefault(name)
                if agent in (None, name):
                    yield record

    head = list(itertools.islice(said(None), _HEAD))
    if not head:
        return
    session = str(head[0].get("sessionId") or os.path.splitext(os.path.basename(path))[0])
    if not all(map(_agent, head)):
        yield Conversation(
            id=session,
            fields=_claude_code_fields(head),
            messages=lambda: _claude_code_messages(said("", told, on_bytes)),
            late=late,
        )
    else:
        for _ in said(None, told, on_bytes):
            pass  # finds every agent
    for agent in filter(None, tuple(agents)):
        first = next((record for record in head if _agent(record) == agent), head[0])
        yield Conversation(
            id=f"{session}_{agent}",
            fields={**_claude_code_fields([first]), "source": f"{CLAUDE_CODE}-agent"},
            messages=lambda agent=agent: _claude_code_messages(said(agent)),  # type: ignore[misc] # a default binds it
            parent=session,
            kind="delegate",
        )


def _is_message(record: dict[str, Any]) -> bool:
    return record.get("type") in _SPEAKERS and isinstance(record.get("message"), dict) and not record.get("isMeta")


def _agent(record: dict[str, Any]) -> str:
    """The sub-agent that a record belongs to; "" for the main conversation."""
    given = record.get("agentId")
    name = f"agent-{given}" if isinstance(given, str) and given else "agent"
    return name if record.get("isSidechain") else ""


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
    """Recognises a transcript of Codex by its first records; the oldest versions wrote items without a wrapper."""
    if any(record.get("type") in _LINES and isinstance(record.get("payload"), dict) for record in records):
        return True
    first = records[0] if records else {}
    return "type" not in first and {"id", "timestamp", "instructions"} <= first.keys()


def codex(path: str, told: Told, on_bytes: Callable[[int], None] | None = None) -> Iterator[Conversation]:
    """Reads the conversation in a transcript of Codex."""
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
            # Events repeat what the items say, for Codex's own screen.
            item = mapping(record.get("payload")) if record["type"] in ("response_item", "compacted") else {}
            if record["type"] == "compacted":
                item = {"role": "system", "content": item.get("message")}
        message = message_of(item, names)
        said = message.get("content") if message is not None and message["role"] in ("user", "system") else None
        if message is not None and not (isinstance(said, str) and _PREAMBLE.match(said)):
            yield timed(message, record.get("timestamp"))


def agents_sdk(path: str, told: Told, on_bytes: Callable[[int], None] | None = None) -> Iterator[Conversation]:
    """Reads the sessions in a database of OpenAI's Agents SDK (`SQLiteSession`)."""
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
    """Adds the zone to a time stamp of SQLite, which is in UTC and does not say so."""
    return f"{given}+00:00" if isinstance(given, str) and "+" not in given else given


JSONL = "jsonl"
# For each format: how to recognise it by the first lines, or the first item of a document, and how to read it.
_BY_LINE: dict[str, tuple[Any, Any]] = {
    CLAUDE_CODE: (is_claude_code, claude_code),
    CODEX: (is_codex, codex),
    AGENTS_SDK: (lambda _records: False, agents_sdk),
}
_BY_ITEM: dict[str, tuple[Any, Any]] = {
    CHATGPT: (is_chatgpt, chatgpt),
    CLAUDE: (is_claude, claude),
    LETTA: (is_letta, letta),
}
FORMATS = (*_BY_LINE, *_BY_ITEM, HERMES_AGENT, JSONL)
PROGRAMS = (CLAUDE_CODE, CODEX)  # keep their transcripts in a place of their own
SUFFIXES = (".jsonl", ".json", ".af", ".zip", ".db", ".sqlite", ".sqlite3")
_DATABASE = b"SQLite format 3\x00"
_BEGINNING = 1 << 18  # bytes that are read to recognise a format
_FIRST_LINES = 20
_LARGEST_DOCUMENT = 64 << 30  # as much as an archive may hold
# ChatGPT splits a large export into conversations-000.json and so on.
_INSIDE = re.compile(r"(^|/)conversations(-\d+)?\.json$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One transcript file and its format."""

    path: str
    format: str

    def fingerprint(self) -> str:
        """A text that changes whenever the file or its log changes."""
        parts = []
        for path in (self.path, f"{self.path}-wal"):
            try:
                status = os.stat(path)
            except OSError:
                continue
            parts.append(f"{status.st_size}:{status.st_mtime_ns}:{status.st_ino}")
        return "/".join(parts)

    def size(self) -> int:
        """Bytes of the file, to show progress through many files."""
        return os.stat(self.path).st_size


def sources(given: str, form: str | None = None) -> list[Source]:
    """Finds every transcript at a path, in a folder, or in a program's usual places; NotFound if nothing exists."""
    if os.path.isdir(given):
        return sorted(_below(given, form), key=lambda source: source.path)
    if os.path.exists(given):
        return [Source(path=os.path.abspath(given), format=form or _named(given))]
    if given in PROGRAMS:
        places = usual_places(given)
        if found := [source for place in places if os.path.isdir(place) for source in sources(place, given)]:
            return found
        raise NotFound(
            f"no transcripts of {given} were found in {' and '.join(places)}; name their folder if they are elsewhere"
        )
    check_name(given)
    return []


def check_name(given: str) -> None:
    """Refuses a name that is neither an existing path nor a known program."""
    if not os.path.exists(given) and given not in PROGRAMS:
        raise NotFound(f"there is no file {given}; name a file, a folder, or one of {', '.join(PROGRAMS)}")


def read(source: Source, told: Told, on_bytes: Callable[[int], None] | None = None) -> Iterator[Conversation]:
    """Reads the conversations of one file; `told` receives a sentence about each part that cannot be read."""
    if source.format in _BY_LINE:
        yield from _BY_LINE[source.format][1](source.path, told, on_bytes)
    else:
        is_one, conversations = _BY_ITEM[source.format]
        for item in json_items(source.path, on_bytes):
            if is_one(item):
                yield from conversations(item)
            else:
                told("an item is not a conversation in this format and is left out")


def recognised(path: str) -> str | None:
    """Recognises the format of a file by its content; None if it is unknown, or the path is a link or a device."""
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return None
        with open(path, "rb") as file:
            head = file.read(_BEGINNING)
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}") from error
    if head.startswith(_DATABASE):
        return _database(path)
    with contextlib.suppress(DamagedFile):
        item = next(json_items(path), None)
        if found := next((name for name, (is_one, _) in _BY_ITEM.items() if is_one(item)), None):
            return found
    return _by_line(head)


def _named(path: str) -> str:
    real = os.path.realpath(path)
    found = recognised(real)
    if found is None:
        with open(real, "rb") as file:
            if file.read(len(_DATABASE)) == _DATABASE:
                raise StorageError(
                    f"{path} is a database, but neither one of hermes-agent nor a session store of the Agents SDK; "
                    "to move a Hermes home, use `hermes export` and `hermes import`"
                )
        raise SettingsError(f"{path} is in no format Hermes recognises; name it with --format ({', '.join(FORMATS)})")
    return found


def _below(folder: str, form: str | None) -> Iterator[Source]:
    for place, folders, names in os.walk(folder):
        folders.sort()
        for name in names:
            path = os.path.join(place, name)
            if name.endswith(SUFFIXES) and not os.path.islink(path):
                found = recognised(path)
                if found is not None and form in (None, found):
                    yield Source(path=os.path.abspath(path), format=found)


def _by_line(head: bytes) -> str | None:
    records = []
    for line in head.removeprefix(b"\xef\xbb\xbf").split(b"\n")[:_FIRST_LINES]:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict):
            records.append(record)
    for name, (is_one, _) in _BY_LINE.items():
        if is_one(records):
            return name
    wanted = ("role", "messages", "segments")
    if any(any(key in record for key in wanted) or record.get("type") in ("session", "message") for record in records):
        return JSONL
    return None


def json_items(
    path: str,
    on_bytes: Callable[[int], None] | None = None,
    inside: re.Pattern[str] = _INSIDE,
    most: int = _LARGEST_DOCUMENT,
) -> Iterator[Any]:
    """The items of a JSON document, or of those in a zip archive whose names match `inside`; `.gz` is unpacked.

    A document with more than `most` bytes is refused.
    """
    if not zipfile.is_zipfile(path):
        with open(path, "rb") as file:
            yield from items(_Bounded(file, path, most), path, on_bytes)
        return
    try:
        with zipfile.ZipFile(path) as archive:
            found = [info for info in archive.infolist() if inside.search(info.filename)]
            check_limits(path, [info.file_size for info in found], os.stat(path).st_size)
            for info in found:
                if info.flag_bits & 1:
                    raise DamagedFile(f"{info.filename} in {path} is encrypted; unpack it first")
                with archive.open(info) as file:
                    name = f"{path}:{info.filename}"
                    announced = most if name.endswith(".gz") else min(most, info.file_size)
                    yield from items(_Bounded(file, name, announced), name)
                if on_bytes is not None:
                    on_bytes(info.compress_size)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise DamagedFile(f"{path} is not a complete zip archive ({error}); download it again") from error


class _Bounded:
    """Refuses a document with more bytes than its archive announced, or than its reader expects."""

    def __init__(self, file: IO[bytes], name: str, most: int) -> None:
        self._file = gzip.GzipFile(fileobj=file) if name.endswith(".gz") else file
        self._name = name
        self._most = self._left = most

    def read(self, count: int, /) -> bytes:
        data = self._file.read(min(count, self._left + 1))
        self._left -= len(data)
        if self._left < 0:
            raise DamagedFile(f"{self._name} has more than {self._most:,} bytes; it was not read")
        return data


def _database(path: str) -> str | None:
    try:
        if foreign_program(path) == HERMES_AGENT:
            return HERMES_AGENT
        connection = open_unchanged(path)
        if connection is None:
            return None
        with contextlib.closing(connection):
            found = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (AGENTS_TABLE,)).fetchall()
    except (apsw.Error, StorageError):
        return None
    return AGENTS_SDK if found else None
