"""A receipt as a person reads it: in a footer, and as a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes.base.text import counted
from hermes.cli import ui
from hermes.safety.secrets import mask_secrets

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hermes.session.receipts import Receipt, ReceiptItem

_TEXT = 90
_FEW = 8  # messages of the history that are listed one by one


def one_line(receipt: Receipt) -> str:
    """A receipt in a footer: what was written, what waits, the share from the cache, the cost."""
    parts = [f"receipt {receipt.id}", "" if receipt.intact else receipt.state.upper(), *_figures(receipt)]
    if receipt.written:
        parts.append(counted(len(receipt.written), "write"))
    if receipt.pending:
        parts.append(f"{len(receipt.pending)} pending")
    if receipt.fired:
        parts.append(", ".join(f"{each['kind']} {each['name']}" for each in receipt.fired))
    return " · ".join(filter(None, parts))


def receipt_lines(receipt: Receipt, *, everything: bool = False) -> Iterator[str]:
    """A receipt for a person; a long history is one line, unless everything is wanted."""
    yield f"receipt {receipt.id}  {receipt.state}"
    for problem in receipt.problems:
        yield f"  problem    {problem}"
    yield f"  turn       {receipt.turn} of {receipt.session_id}, {ui.when(receipt.at)[:16]}"
    yield f"  question   {_cut(receipt.question)}"
    yield f"  answer     {_cut(receipt.answer)}"
    yield f"  model      {'; '.join(filter(None, [ui.visible(receipt.model), *_figures(receipt)])) or 'not told'}"
    for each in receipt.written:
        what = f"{each['change']} ({each['action']}, {each['target']})" if "change" in each else each.get("tool", "")
        yield f"  written    {each['kind']}: {ui.visible(str(what))}"
    for pending in receipt.pending:
        yield f"  pending    {pending} (`hermes memory approve {pending}` or reject)"
    for fired in receipt.fired:
        yield f"  {fired['kind']:<10} {ui.visible(str(fired['name']))}: {_cut(str(fired['text']))} ({fired['trigger']})"
    yield f"in front of the model ({sum(each.tokens for each in receipt.items):,} tokens, by estimate):"
    for group in _grouped(receipt.items, everything=everything):
        yield _items_line(group, receipt.at)


def _figures(receipt: Receipt) -> list[str]:
    usage = receipt.usage
    tokens = f"{usage.get('input_tokens', 0):,} tokens read, {usage.get('output_tokens', 0):,} written" if usage else ""
    cached = f"{receipt.cached_share:.0%} cached" if receipt.cached_share is not None else ""
    return list(filter(None, [tokens, cached, f"${receipt.cost:.4f}" if receipt.cost is not None else ""]))


def _grouped(items: Sequence[ReceiptItem], *, everything: bool) -> list[Sequence[ReceiptItem]]:
    history = [each for each in items if each.kind == "message"]
    if everything or len(history) <= _FEW:
        return [[each] for each in items]
    first = items.index(history[0])
    return [*([each] for each in items[:first]), history, *([each] for each in items[first + len(history) :])]


def _items_line(group: Sequence[ReceiptItem], at: float) -> str:
    one = group[0]
    tokens = sum(each.tokens for each in group)
    if len(group) > 1:
        return (
            f"  {one.number}-{group[-1].number}  {len(group)} messages, {tokens:,} tokens: {one.why} (--all lists them)"
        )
    age = f", {_age(at - one.at)}" if one.at is not None and at - one.at >= 1 else ""
    about = f"{one.kind} from {ui.visible(one.source)}, {one.grade}{age}, {tokens:,} tokens: {ui.visible(one.why)}"
    text = _cut(one.text) if one.text is not None else "(its text was not kept)"
    return f"{one.number:>4}  {about}\n      {text}"


def _age(seconds: float) -> str:
    for name, size in (("day", 86_400), ("hour", 3600), ("minute", 60)):
        if seconds >= size:
            return f"{counted(int(seconds // size), name)} old"
    return f"{counted(int(seconds), 'second')} old"


def _cut(text: str) -> str:
    said = " ".join(ui.visible(mask_secrets(text)).split())
    return f"{said[:_TEXT]}…" if len(said) > _TEXT else said
