"""Data exports of chat services as JSON documents: ChatGPT, Claude, and Letta's agent files."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from hermes.portability.transcripts.conversation import Conversation, mapping, spoken, text_of, timed, tool_results

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    """The words of any kind of content; what is no text is named, so that one sees something was there."""
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
