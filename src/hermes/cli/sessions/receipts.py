"""`hermes receipts`: what each answer was made from, and whether the records of it still hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes.base.errors import NotFound
from hermes.base.text import counted
from hermes.cli import ui
from hermes.cli.sessions.look import named, open_existing
from hermes.cli.sessions.receipt_text import receipt_lines
from hermes.conversations.receipts import INTACT, TAMPERED
from hermes.safety.secrets import mask_secrets
from hermes.session.receipts import Receipts

if TYPE_CHECKING:
    from collections.abc import Callable

    from hermes.session.receipts import Receipt

_SAID = 70


def _list(given: ui.Given, context: ui.Context) -> None:
    with open_existing(context) as db:
        session = named(db, given.session) if given.session else next(iter(db.list_sessions(limit=1, begun=True)), None)
        if session is None:
            raise NotFound("there are no conversations yet, so there are no receipts")
        found = Receipts(context.home, db).of(session.id)
    shown = found[-given.limit :]
    lines = [_line(each) for each in shown] or [f"no answer of {session.id} has a receipt"]
    ui.show(given, [each.as_dict() for each in shown], *lines)


def _show(given: ui.Given, context: ui.Context) -> None:
    with open_existing(context) as db:
        found = Receipts(context.home, db).get(given.receipt)
    ui.show(given, found.as_dict(), *receipt_lines(found, everything=given.all))


def _verify(given: ui.Given, context: ui.Context) -> int:
    with open_existing(context) as db:
        session = named(db, given.session).id if given.session else ""
        found = list(Receipts(context.home, db).verify(session))
    wrong = [each for each in found if each.state != INTACT]
    states = {each.state: 0 for each in found}
    for each in found:
        states[each.state] += 1
    document = {
        "receipts": len(found),
        "states": states,
        "problems": [
            {"id": each.record.get("id"), "state": each.state, "problems": list(each.problems)} for each in wrong
        ],
    }
    lines = [
        f"{each.record.get('id')}  {each.state}: {'; '.join(each.problems) or _HINTS[each.state]}" for each in wrong
    ]
    counts = ", ".join(f"{count:,} {state}" for state, count in states.items())
    ui.show(given, document, *lines, f"{counted(len(found), 'receipt')}{f': {counts}' if counts else ''}")
    return ui.REFUSED if any(each.state == TAMPERED for each in wrong) else ui.OK


def _act(given: ui.Given, context: ui.Context, act: Callable[[Receipts], str]) -> None:
    with open_existing(context) as db:
        done = act(Receipts(context.home, db))
    ui.show(given, {"receipt": given.receipt, "item": given.item, "message": done}, done)


def _correct(given: ui.Given, context: ui.Context) -> None:
    _act(given, context, lambda receipts: receipts.correct(given.receipt, given.item, " ".join(given.text)))


def _forget(given: ui.Given, context: ui.Context) -> None:
    _act(given, context, lambda receipts: receipts.forget(given.receipt, given.item))


def _pin(given: ui.Given, context: ui.Context) -> None:
    _act(given, context, lambda receipts: receipts.pin(given.receipt, given.item))


def _never(given: ui.Given, context: ui.Context) -> None:
    _act(given, context, lambda receipts: receipts.never(given.receipt, given.item, recall=given.undo))


_HINTS = {
    "unsealed": "no key could be written when the answer was given",
    "unknown key": "another home sealed it, and its key is not here",
}


def _line(receipt: Receipt) -> str:
    said = " ".join(ui.visible(mask_secrets(receipt.question)).split())
    return f"{receipt.id}  turn {receipt.turn:<4} {ui.when(receipt.at)[:16]}  {receipt.state:<9} {said[:_SAID]}"


_WHICH = ui.option("receipt ID", "which receipt")
_ITEM = (_WHICH, ui.option("item ITEM", "which item: its number on the receipt", type=ui.whole_number(1)))
COMMANDS = {
    "receipts correct": ui.command(_correct, *_ITEM, ui.option("text TEXT", "what is right", nargs="+")),
    "receipts forget": ui.command(_forget, *_ITEM),
    "receipts pin": ui.command(_pin, *_ITEM),
    "receipts never": ui.command(_never, *_ITEM, ui.option("--undo", "let models see it again")),
    "receipts list": ui.command(
        _list,
        ui.option("session ID|TITLE", "of which conversation (default: the last one used)", nargs="?"),
        ui.option("-n --limit N", "how many, the newest last (default: 20)", type=ui.whole_number(1), default=20),
    ),
    "receipts show": ui.command(_show, _WHICH, ui.option("--all", "each message of the history, too")),
    "receipts verify": ui.command(
        _verify, ui.option("session ID|TITLE", "only of this conversation (default: all)", nargs="?")
    ),
}
