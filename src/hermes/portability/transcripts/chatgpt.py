"""ChatGPT's data export: `conversations.json`, where each conversation is a tree of messages."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from hermes.portability.conversations_import import moment_of
from hermes.portability.transcripts.conversation import Conversation, mapping, text_of, timed

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "chatgpt"
_ROLES = ("user", "assistant", "system", "tool")
_Nodes = dict[str, dict[str, Any]]


def recognises(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(item.get("mapping"), dict)


def conversations(item: dict[str, Any], origin: str) -> Iterator[Conversation]:
    nodes: _Nodes = {name: node for name, node in item["mapping"].items() if isinstance(node, dict)}
    name = str(item.get("conversation_id") or item.get("id") or item.get("title") or "conversation")
    leaves = [leaf for leaf in nodes if not _children(nodes, leaf)]
    current = item.get("current_node")
    main = str(current) if current in nodes else (leaves[-1] if leaves else "")
    fields: dict[str, Any] = {"source": NAME, "title": _title(item), "imported_from": origin}
    fields |= {"started_at": moment_of(item.get("create_time")), "model": item.get("default_model_slug")}
    fields |= {"project": item.get("gizmo_id")}
    fields = {key: value for key, value in fields.items() if isinstance(value, str | float)}
    taken: set[str] = set()
    path = _path(nodes, main, taken)
    yield Conversation(id=name, fields=fields, messages=partial(_messages, nodes, path))
    for leaf in leaves:
        said = partial(_messages, nodes, _path(nodes, leaf, taken))
        yield Conversation(id=f"{name}_{leaf}", fields=fields, messages=said, parent=name, kind="branch")


def _title(item: dict[str, Any]) -> str | None:
    title = item.get("title")
    return title if isinstance(title, str) and title.strip() else None


def _children(nodes: _Nodes, name: str) -> list[str]:
    children = nodes[name].get("children")
    return [child for child in children if child in nodes] if isinstance(children, list) else []


def _path(nodes: _Nodes, leaf: str, taken: set[str]) -> list[str]:
    """From the first node not taken yet down to the leaf; the nodes are taken now, so a ring ends too."""
    path: list[str] = []
    at: Any = leaf
    while isinstance(at, str) and at in nodes and at not in taken:
        taken.add(at)
        path.append(at)
        at = nodes[at].get("parent")
    return path[::-1]


def _messages(nodes: _Nodes, path: list[str]) -> Iterator[dict[str, Any]]:
    for name in path:
        message = nodes[name].get("message")
        if isinstance(message, dict) and (said := _message(message)) is not None:
            yield timed(said, message.get("create_time"))


def _message(message: dict[str, Any]) -> dict[str, Any] | None:
    author = mapping(message.get("author"))
    about = mapping(message.get("metadata"))
    role = author.get("role")
    text = _text(message.get("content"))
    if role not in _ROLES or not text.strip() or about.get("is_visually_hidden_from_conversation"):
        return None
    said: dict[str, Any] = {"role": role, "content": text}
    if role == "tool" and isinstance(author.get("name"), str):
        said["name"] = author["name"]
    return said


def _text(content: Any) -> str:
    """The words of any kind of content; what is no text is named, so that one sees something was there."""
    if not isinstance(content, dict):
        return ""
    found = [text_of(content.get("text")), text_of(content.get("result"))]
    for part in content.get("parts") or ():
        if isinstance(part, dict) and "asset_pointer" in part:
            found.append(f"[{part.get('content_type', 'attachment')}: {part['asset_pointer']}]")
        else:
            found.append(text_of(part))
    found += [text_of(thought) for thought in content.get("thoughts") or ()]
    return "\n".join(filter(None, found))
