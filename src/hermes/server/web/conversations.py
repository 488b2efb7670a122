"""The Conversations and Receipts pages: list, search, reader, what the model saw and what answers were made from."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from markdown_it import MarkdownIt
from markupsafe import Markup, escape
from starlette.responses import Response

from hermes.base.errors import NotFound
from hermes.base.text import counted, in_words
from hermes.base.tokens import estimate
from hermes.conversations.context import WRITTEN
from hermes.conversations.database import Pages
from hermes.conversations.retrieval import Criteria
from hermes.portability.conversations_export import HtmlWriter, JsonlWriter, MarkdownWriter, export, tool_calls
from hermes.safety.secrets import mask_secrets
from hermes.server.web.memory import TITLES
from hermes.server.web.site import Notice, Page, Redirect, Section, View, address
from hermes.session.context import OUTSIDE
from hermes.session.lifecycle import branch_off
from hermes.session.receipts import turns

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hermes.conversations.database import SessionDB
    from hermes.conversations.retrieval import Found, Match
    from hermes.server.web.site import Ask
    from hermes.session.receipts import Receipt, ReceiptItem
    from hermes.storage.records import Session, StoredMessage

_LISTED = 25  # conversations on a page
_READ = 60  # messages on a page
_FOUND = 10
_LONG = 20_000  # characters of one message that are shown
_LABEL = 60  # characters of an entry that name it
_MATCH = re.compile(r">>>(.*?)<<<", re.DOTALL)
# Raw HTML is escaped and images become links: a message may show text here, and load nothing.
_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable("image")
_FORMATS = {"markdown": ("md", "text/markdown"), "html": ("html", "text/html"), "jsonl": ("jsonl", "application/jsonl")}
_ORDER = ("prompt", "tools", "memory", "history", "summary", "recalled", "added", "said", "results")


def name_of(session: Session) -> str:
    """The name of a conversation: its title, otherwise its first words."""
    return " ".join(mask_secrets(session.title or session.preview or "").split()) or "Without a title"


def rendered(text: str) -> Markup:
    """A message as HTML; only Markdown produces markup, everything else is escaped."""
    cut = (
        text if len(text) <= _LONG else f"{text[:_LONG]}\n\n… ({len(text) - _LONG:,} characters more; export shows all)"
    )
    return Markup(_MARKDOWN.render(mask_secrets(cut)))  # noqa: S704 - raw HTML is off


def _session(ask: Ask) -> Session:
    session = ask.workspace.past.find_session(ask.path["session"])
    if session is None:
        raise NotFound("there is no such conversation")
    return session


def _list(ask: Ask) -> Page:
    query, page = ask.query.get("q", "").strip(), ask.number("page")
    project, source = ask.query.get("project") or None, ask.query.get("source") or None
    values: dict[str, Any] = {"q": query, "project": project or "", "source": source or "", "page": page}
    if query:
        wanted = Criteria(limit=_FOUND, project=project, source=source)
        return Page(template="search.html", values={**values, **_found(ask.workspace.search(query, wanted))})
    first = (page - 1) * _LISTED
    rows = ask.workspace.past.list_sessions(limit=_LISTED + 1, offset=first, project=project, source=source, begun=True)
    return Page(
        template="conversations.html", values={**values, "rows": _rows(rows[:_LISTED]), "more": len(rows) > _LISTED}
    )


def _rows(sessions: Iterable[Session]) -> list[dict[str, Any]]:
    return [{"session": each, "name": name_of(each)} for each in sessions]


def _found(found: Found) -> dict[str, Any]:
    return {
        "matches": [_match(each) for each in found.matches],
        "weak": found.weak,
        "coverage": found.coverage,
        "notes": found.notes,
        "timeline": _timeline(found.matches),
    }


def _match(match: Match) -> dict[str, Any]:
    at = match.message_id
    link = address("conversations", match.session.id, at=at) + (f"#m{at}" if at else "")
    return {"session": match.session, "name": name_of(match.session), "link": link, "snippet": _marked(match.snippet)}


def _marked(snippet: str) -> Markup:
    """A snippet as HTML with the found words marked; the rest is escaped."""
    pieces = _MATCH.split(mask_secrets(snippet))
    return Markup("").join(
        Markup("<mark>{}</mark>").format(piece) if at % 2 else escape(piece) for at, piece in enumerate(pieces)
    )


def _timeline(matches: Sequence[Match]) -> list[dict[str, Any]]:
    """The months of the found conversations, or the days if all are of one month, with the number in each."""
    moments = sorted(match.session.last_active for match in matches)
    months, days = (Counter(in_words(moment, shape) for moment in moments) for shape in ("%Y-%m", "%Y-%m-%d"))
    counted_by = months if len(months) > 1 else days
    most = max(counted_by.values(), default=1)
    return [{"when": when, "count": count, "share": round(100 * count / most)} for when, count in counted_by.items()]


def _read(ask: Ask) -> Page:
    session, db = _session(ask), ask.workspace.past
    pages = Pages.of_db(db)
    at, before = ask.number("at", 0), ask.number("before", 0)
    if at:
        stored = pages.around(session, at, _READ // 2)
    elif before:
        stored = db.store.read(session, high=before - 1, limit=_READ, newest=True)[::-1]
    else:
        stored = db.store.read(session, low=ask.number("after", 0) + 1, limit=_READ)
    earlier, later = pages.around_any(session, stored[0], stored[-1]) if stored else (0, 0)
    others = [each for each in db.lineage(session.id) if each.id != session.id and each.kind != "delegate"]
    values = {
        "session": session,
        "name": name_of(session),
        "blocks": _blocks(stored),
        "earlier": earlier,
        "later": later,
        "first": stored[0].id if stored else 0,
        "last": stored[-1].id if stored else 0,
        "at": at,
        "others": _rows(others),
        "formats": list(_FORMATS),
    }
    return Page(template="conversation.html", values=values)


def _blocks(stored: Sequence[StoredMessage]) -> list[dict[str, Any]]:
    """Messages in order; consecutive ones that a compaction removed from the context form a block that unfolds."""
    blocks: list[dict[str, Any]] = []
    for each in stored:
        folded = each.compacted
        if not blocks or blocks[-1]["folded"] != folded or not folded:
            blocks.append({"folded": folded, "messages": []})
        blocks[-1]["messages"].append(_message(each))
    return blocks


def _message(stored: StoredMessage) -> dict[str, Any]:
    message = stored.message
    return {
        "id": stored.id,
        "role": stored.role,
        "at": stored.timestamp,
        "damaged": stored.damaged,
        "summary": WRITTEN in message,
        "outside": bool(message.get(OUTSIDE)),
        "name": message.get("name") or "",
        "html": rendered(stored.text) if stored.role != "tool" else "",
        "text": mask_secrets(stored.text[:_LONG]) if stored.role == "tool" else "",
        "calls": [(name, mask_secrets(arguments)) for name, arguments in tool_calls(message)],
    }


def _rename(ask: Ask) -> Redirect:
    session = _session(ask)
    title = ask.workspace.database.rename(session.id, ask.field("title").strip() or None)
    return Redirect(
        to=address("conversations", session.id), notice=Notice(f"It is called {title or name_of(session)!r} now.")
    )


def _branch(ask: Ask) -> Redirect:
    branch = branch_off(ask.workspace.database, _session(ask).id, ask.field("title").strip() or None)
    said = f"A branch. Continue it with `hermes --resume {branch}`; the conversation it came from is unchanged."
    return Redirect(to=address("conversations", branch), notice=Notice(said))


def _export(ask: Ask) -> Response:
    session, db = _session(ask), ask.workspace.past
    kind = ask.query.get("format", "markdown")
    if kind not in _FORMATS:
        raise NotFound("there is no such format")
    ending, media = _FORMATS[kind]
    out = io.StringIO()
    makers = {"markdown": MarkdownWriter, "html": HtmlWriter}
    writer = makers[kind](out.write, mask_secrets) if kind in makers else JsonlWriter(db, out.write, mask_secrets)
    export(db, [each for each in db.lineage(session.id) if each.kind != "delegate"], writer)
    headers = {"content-disposition": f'attachment; filename="{session.id}.{ending}"'}
    return Response(out.getvalue().encode(), media_type=media, headers=headers)


def _delete(ask: Ask) -> Redirect:
    session = _session(ask)
    messages = delete_conversation(ask.workspace.database, session)
    said = f"Deleted {name_of(session)!r} with {counted(messages, 'message')}."
    return Redirect(to=address("conversations"), notice=Notice(said))


def delete_conversation(db: SessionDB, session: Session) -> int:
    """Deletes a conversation with all its sessions and returns the number of messages; its branches stay."""
    parts = db.lineage(session.id)
    for part in reversed(parts):
        if db.find_session(part.id) is not None:  # deleting a session also deletes those it delegated to
            db.delete(part.id)
    db.remove_unused_images()
    return sum(each.message_count for each in parts)


def _context(ask: Ask) -> Page:
    """Shows what the model saw in one turn, the newest by default: a bar of its parts with their tokens."""
    session = _session(ask)
    found = list(turns(ask.workspace.past, session.id))
    if not found:
        raise NotFound("nobody has said anything in this conversation yet")
    number = min(max(1, ask.number("turn", len(found))), len(found))
    turn = found[number - 1]
    parts = _parts(turn, ask.workspace.past.session_details(turn["session_id"]).get("tools") or ())
    total = sum(part["tokens"] for part in parts) or 1
    answer = turn["answer"] or {}
    values = {
        "session": session,
        "name": name_of(session),
        "turn": turn,
        "number": number,
        "count": len(found),
        "parts_of_turn": [{**part, "share": 100 * part["tokens"] / total} for part in parts],
        "total": total,
        "counted_tokens": answer.get("input_tokens"),
        "cached_share": answer.get("cached_share"),
        "broken_by": answer.get("cache_broken_by"),
    }
    return Page(template="context.html", values=values)


def _parts(turn: Mapping[str, Any], tools: Sequence[Any]) -> list[dict[str, Any]]:
    """The parts of the bar in the order in which the model reads them; each memory entry is a part of its own."""
    parts = [part for each in turn["prompt"]["sections"] for part in _of_section(each)]
    if tools:
        parts.append(_part("tools", f"Descriptions of {counted(len(tools), 'tool')}", json.dumps(tools, indent=1)))
    summaries = [
        _part("summary", f"Summary of {counted(each['messages'], 'message')}, by {each['by']}", each["text"])
        for each in turn["summaries"]
    ]
    parts += summaries
    if turn["history"]["messages"]:  # its count includes the summaries, which are among its messages
        many = counted(turn["history"]["messages"], "message")
        rest = max(1, turn["history"]["tokens"] - sum(each["tokens"] for each in summaries))
        parts.append(_part("history", f"History, {many}", None, rest))
    for each in turn["added"]:
        kind = "recalled" if each["source"] == "recalled" else "added"
        came = f" from {', '.join(each['from'])}" if each.get("from") else ""
        parts.append(
            _part(kind, _LABELS.get(each["source"], each["source"]) + came, each.get("text"), each["characters"] // 4)
        )
    parts.append(_part("said", "Your message", turn["said"]))
    results = ((f"Result of {each['tool'] or 'a tool'}", each["characters"] // 4) for each in turn["results"])
    parts += [_part("results", label, None, tokens) for label, tokens in results]
    return sorted((part for part in parts if part["tokens"]), key=lambda part: _ORDER.index(part["kind"]))


_LABELS = {
    "recalled": "Recalled",
    "announcement": "Memory update",
    "folder_notes": "Notes of a folder",
    "rules": "Standing rules",
    "overlay": "Host's text",
}


def _of_section(section: Mapping[str, Any]) -> list[dict[str, Any]]:
    name, text = section["name"], section.get("text")
    if name in TITLES and text:  # the heading of the block is shown with its first entry
        entries = [entry.strip() for entry in text.split("\n§\n")]
        return [_part("memory", f"{TITLES[name]}: {_cut(entry.rpartition(chr(10))[2])}", entry) for entry in entries]
    kind = "memory" if name in TITLES else "prompt"
    return [_part(kind, f"System prompt: {name}", text, section["tokens"])]


def _cut(line: str) -> str:
    shown = mask_secrets(line)
    return shown if len(shown) <= _LABEL else f"{shown[:_LABEL]}…"


def _part(kind: str, label: str, text: str | None, tokens: int | None = None) -> dict[str, Any]:
    size = estimate(text) if text else (tokens or 0)
    return {"kind": kind, "label": label, "text": None if text is None else mask_secrets(text), "tokens": size}


CONVERSATIONS = Section(
    name="conversations",
    title="Conversations",
    key="c",
    views=(
        View(act=_list),
        View(path="/{session}", act=_read),
        View(path="/{session}/context", act=_context),
        View(path="/{session}/export", act=_export),
        View(path="/{session}/rename", method="POST", act=_rename),
        View(path="/{session}/branch", method="POST", act=_branch),
        View(path="/{session}/delete", method="POST", act=_delete),
    ),
)


_LISTED_WITH_RECEIPTS = 8  # the newest, whose receipts the first page lists
_LISTED_OF_EACH = 5
_ACTIONS = ("correct", "forget", "pin", "never", "recall")
_ACTED_ON = ("message", "question", "call", "result", "found")  # kinds that stand for one stored message


def _list_receipts(ask: Ask) -> Page:
    """Lists the newest receipts, or all of one conversation."""
    db, wanted = ask.workspace.past, ask.query.get("conversation", "")
    one = db.find_session(wanted) if wanted else None
    if wanted and one is None:
        raise NotFound("there is no such conversation")
    sessions = [one] if one else db.list_sessions(limit=_LISTED_WITH_RECEIPTS, begun=True)
    groups = []
    for session in sessions:
        found = ask.workspace.receipts.of(session.id)[::-1]
        if found:
            shown = found if one else found[:_LISTED_OF_EACH]
            groups.append(
                {"session": session, "name": name_of(session), "receipts": [_receipt_row(each) for each in shown]}
            )
    return Page(template="receipts.html", values={"groups": groups, "conversation": wanted})


def _receipt_row(receipt: Receipt) -> dict[str, Any]:
    return {
        "receipt": receipt,
        "question": mask_secrets(receipt.question)[:200],
        "answer": mask_secrets(receipt.answer)[:200],
    }


def _show_receipt(ask: Ask) -> Page:
    receipt = ask.workspace.receipts.get(ask.path["receipt"])
    used = [item for item in receipt.items if item.kind in ("entry", "found", "recalled", "announcement", "summary")]
    rest = [item for item in receipt.items if item not in used]
    values = {
        **_receipt_row(receipt),
        "answer": rendered(receipt.answer),
        "groups": [
            ("Memory and recalled text", [_shown_item(each) for each in used]),
            ("Everything else in front of the model", [_shown_item(each) for each in rest]),
        ],
        "tokens": sum(each.tokens for each in receipt.items),
    }
    return Page(template="receipt.html", values=values)


def _shown_item(item: ReceiptItem) -> dict[str, Any]:
    return {
        "item": item,
        "text": None if item.text is None else mask_secrets(item.text),
        "acts": _ACTIONS[:4]
        if item.kind == "entry"
        else ("correct", "forget", "never")
        if item.kind in _ACTED_ON
        else (),
    }


def _act_on_item(ask: Ask) -> Redirect:
    receipt, number, action = ask.path["receipt"], ask.path["number"], ask.path["action"]
    if action not in _ACTIONS or not number.isascii() or not number.isdigit():
        raise NotFound("there is no such action")
    said = ask.workspace.act_on_receipt(receipt, int(number), action, ask.field("text"))
    return Redirect(to=address("receipts", receipt), notice=Notice(said))


RECEIPTS = Section(
    name="receipts",
    title="Receipts",
    key="r",
    views=(
        View(act=_list_receipts),
        View(path="/{receipt}", act=_show_receipt),
        View(path="/{receipt}/{number}/{action}", method="POST", act=_act_on_item),
    ),
)
