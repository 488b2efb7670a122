"""The Receipts pages: what each answer was made from, whether the record is intact, and what to do about an item."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hermes.base.errors import NotFound
from hermes.safety.secrets import mask_secrets
from hermes.server.web.conversations import name_of, rendered
from hermes.server.web.sessions import Notice
from hermes.server.web.site import Page, Redirect, Section, View, address

if TYPE_CHECKING:
    from hermes.server.web.site import Ask
    from hermes.session.receipts import Receipt, ReceiptItem

_CONVERSATIONS = 8  # the newest, whose receipts the first page lists
_EACH = 5
_ACTIONS = ("correct", "forget", "pin", "never", "recall")
_ACTED_ON = ("message", "question", "call", "result", "found")  # kinds that stand for one stored message


def _list(ask: Ask) -> Page:
    """The newest receipts, or all of one conversation."""
    db, wanted = ask.workspace.past, ask.query.get("conversation", "")
    one = db.find_session(wanted) if wanted else None
    if wanted and one is None:
        raise NotFound("there is no such conversation")
    sessions = [one] if one else db.list_sessions(limit=_CONVERSATIONS, begun=True)
    groups = []
    for session in sessions:
        found = ask.workspace.receipts.of(session.id)[::-1]
        if found:
            shown = found if one else found[:_EACH]
            groups.append({"session": session, "name": name_of(session), "receipts": [_row(each) for each in shown]})
    return Page(template="receipts.html", values={"groups": groups, "conversation": wanted})


def _row(receipt: Receipt) -> dict[str, Any]:
    return {
        "receipt": receipt,
        "question": mask_secrets(receipt.question)[:200],
        "answer": mask_secrets(receipt.answer)[:200],
    }


def _show(ask: Ask) -> Page:
    receipt = ask.workspace.receipts.get(ask.path["receipt"])
    used = [item for item in receipt.items if item.kind in ("entry", "found", "recalled", "announcement", "summary")]
    rest = [item for item in receipt.items if item not in used]
    values = {
        **_row(receipt),
        "answer": rendered(receipt.answer),
        "groups": [
            ("Memory and recalled text", [_item(each) for each in used]),
            ("Everything else in front of the model", [_item(each) for each in rest]),
        ],
        "tokens": sum(each.tokens for each in receipt.items),
    }
    return Page(template="receipt.html", values=values)


def _item(item: ReceiptItem) -> dict[str, Any]:
    return {
        "item": item,
        "text": None if item.text is None else mask_secrets(item.text),
        "acts": _ACTIONS[:4]
        if item.kind == "entry"
        else ("correct", "forget", "never")
        if item.kind in _ACTED_ON
        else (),
    }


def _act(ask: Ask) -> Redirect:
    receipt, number, action = ask.path["receipt"], ask.path["number"], ask.path["action"]
    if action not in _ACTIONS or not number.isascii() or not number.isdigit():
        raise NotFound("there is no such action")
    said = ask.workspace.act_on_receipt(receipt, int(number), action, ask.field("text"))
    return Redirect(to=address("receipts", receipt), notice=Notice(said))


SECTION = Section(
    name="receipts",
    title="Receipts",
    key="r",
    views=(
        View(act=_list),
        View(path="/{receipt}", act=_show),
        View(path="/{receipt}/{number}/{action}", method="POST", act=_act),
    ),
)
