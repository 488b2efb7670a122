"""Pending writes of a home: changes of memory, tool calls and changes of skills that wait for approval.

Each surface asks in its own way (the chat with a question, Telegram with buttons, HTTP and MCP with their own calls);
this module provides what they show and what a decision does.
"""

from __future__ import annotations

import json
import os
from contextlib import closing
from datetime import datetime
from typing import TYPE_CHECKING, Any

from hermes.base.dates import zone_of
from hermes.base.errors import NotFound, WriteRefused
from hermes.base.text import counted
from hermes.base.values import value
from hermes.memory.approval import SKILL_TOOL, SKILLS, Approvals
from hermes.memory.reminders import Reminders, understood
from hermes.memory.rules import RuleBook
from hermes.safety.trust import SINKS, TurnContext, named_source
from hermes.session.external import store_beside
from hermes.session.parts import SessionOptions, open_parts
from hermes.settings.config import load_settings
from hermes.settings.trust import TrustedFolders
from hermes.tools.builtin import BuiltinTools

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hermes.memory.approval import Pending
    from hermes.memory.store import Written
    from hermes.settings.home import Home

    PendingWrite = Pending

# The gate asks no second time for a call that a person approved, and records the person as its origin.
_AGREED = TurnContext(origin="user", note="approved by the user", approved=True)
_MOST_LINES = 12  # lines of a change that a short description shows
_MOST_PASSAGES = 2  # sources that a short description shows
_FROM_OUTSIDE = "and this is not what the user said"  # how the gate's reason ends if the source is all of it


@value
class Approved:
    """The result of approving a pending write; `written` is set when it was a change of memory."""

    pending: PendingWrite
    message: str
    written: Written | None = None

    def as_dict(self) -> dict[str, Any]:
        """The result as the API and `--json` return it: the message, the id of the change and its target."""
        change = self.written.change if self.written else None
        return {"message": self.message, "change": change.id if change else None, "target": self.pending.target}


class PendingWrites:
    """The pending writes of a home; `platform` is the place of the change that memory providers are given."""

    def __init__(self, home: Home, *, platform: str = "cli") -> None:
        self._home = home
        self._platform = platform
        self._memory = Approvals(home)
        self._skills = Approvals(home, SKILLS)

    def all(self) -> list[PendingWrite]:
        """Lists the pending writes, oldest first; unreadable files are left out."""
        found = [*self._memory.pending()[0], *self._skills.pending()[0]]
        return sorted(found, key=lambda pending: pending.created_at)

    def unreadable(self) -> list[str]:
        """Lists the pending memory writes whose files cannot be read."""
        return self._memory.pending()[1]

    def get(self, pending_id: str) -> PendingWrite:
        """Returns the pending write with this id; NotFound when there is none."""
        for pending in self.all():
            if pending.id == pending_id:
                return pending
        raise NotFound(f"nothing is pending under {pending_id!r}; `hermes memory pending` lists what is")

    def edit(self, pending_id: str, texts: Sequence[str]) -> PendingWrite:
        """Changes the texts that would be saved; the write stays pending."""
        return self._book(self.get(pending_id)).edit(pending_id, texts)

    def _book(self, pending: PendingWrite) -> Approvals:
        return self._skills if pending.target == SKILLS else self._memory

    def approve(self, pending_id: str) -> Approved:
        """Carries out a pending write; if that is refused, the write stays pending."""
        pending = self.get(pending_id)
        if pending.target == SKILLS:
            return Approved(pending=pending, message=self._change_skill(pending))
        if pending.target == "rules":
            rules = [RuleBook(self._home).add(text, session=pending.cause.session) for text in pending.texts]
            self._memory.reject(pending_id)
            return Approved(pending=pending, message=f"Kept as {counted(len(rules), 'rule')}.")
        if pending.target == "reminders":
            zone, book = zone_of(load_settings(self._home).text("timezone")), Reminders(self._home)
            # "tomorrow" means the day after the person said it, not the day after the approval
            then = datetime.fromtimestamp(pending.created_at, zone).replace(tzinfo=None)
            kept = [book.add(understood(text, then), session=pending.cause.session) for text in pending.texts]
            self._memory.reject(pending_id)
            return Approved(pending=pending, message=f"Kept as {counted(len(kept), 'reminder')}.")
        settings = load_settings(self._home)
        store = store_beside(self._home, settings, platform=self._platform, project=pending.project)
        written = self._memory.approve(pending_id, store, lambda call: carry_out(self._home, call))
        return Approved(pending=pending, message=written.message, written=written if pending.call is None else None)

    def reject(self, pending_id: str) -> PendingWrite:
        """Discards a pending write and returns it."""
        pending = self.get(pending_id)
        return self._book(pending).reject(pending_id)

    def _change_skill(self, pending: PendingWrite) -> str:
        with closing(open_parts(self._home)) as parts:
            result = parts.skills.handle(SKILL_TOOL, (pending.call or {})["arguments"])
        if not result["success"]:
            raise WriteRefused(f"{pending.id} stays pending: {result['error']}", kind="refused")
        self._skills.reject(pending.id)
        return str(result["message"])


def described(pending: PendingWrite, *, whole: bool = True) -> str:
    """Describes a pending write to a person: what it would do, where it may come from, and the passage itself.

    Without `whole`, a long change is cut and only the likeliest sources are shown.
    """
    return "\n".join([*changed(pending, whole=whole), *origins(pending, whole=whole)])


def changed(pending: PendingWrite, *, whole: bool = True) -> list[str]:
    """The headline of a pending write and the lines it would add and remove."""
    change = _change(pending)
    cut = 0 if whole else max(0, len(change) - _MOST_LINES)
    lines = [_headline(pending), *(f"  {line}" for line in change[: len(change) - cut])]
    return [*lines, f"  … {counted(cut, 'more line')}"] if cut else lines


def origins(pending: PendingWrite, *, whole: bool = True) -> list[str]:
    """Lists the likely sources with their passages, and any other reason why a person is asked."""
    lines = []
    shown = pending.sources if whole else pending.sources[:_MOST_PASSAGES]
    for source in shown:
        lines.append(f"from {named_source(source.get('origin', ''), source.get('name', ''))}")
        lines += [f"  “{source['passage']}”"] if source.get("passage") else []
    if left := len(pending.sources) - len(shown):
        lines.append(f"and {counted(left, 'other text')} from outside")
    if pending.reason and not (shown and pending.reason.endswith(_FROM_OUTSIDE)):  # the passages already say so
        lines.append(f"because {pending.reason}")
    return lines


def is_cut(pending: PendingWrite) -> bool:
    """Whether `described` shortens this write unless `whole` is set."""
    return len(_change(pending)) > _MOST_LINES or len(pending.sources) > _MOST_PASSAGES


def waiting_in_words(count: int) -> str:
    """Says how many writes wait, as a short phrase for a status line."""
    return f"{counted(count, 'write')} {'waits' if count == 1 else 'wait'} for you"


def _headline(pending: PendingWrite) -> str:
    about = SINKS[pending.sink].about if pending.sink in SINKS else ""
    what = f"{pending.sink} {pending.project}".rstrip()
    if pending.target == SKILLS:
        what = f"skill, {pending.summary}"
    elif pending.call is not None:
        where = pending.call["arguments"].get("path") or pending.call["arguments"].get("action") or ""
        what = f"{pending.call['tool']} {where}".rstrip()
    return f"{what} ({about})" if about else what


def _change(pending: PendingWrite) -> list[str]:
    """The lines that the write would add, each after a plus, and remove, each after a minus."""
    if pending.call is not None:
        given = pending.call["arguments"]
        taken, added = [str(given.get("old_text") or given.get("old_string") or "")], list(pending.texts)
        if not added and pending.target != SKILLS:
            added = [json.dumps(given, ensure_ascii=False)]
    else:
        lines = []
        for each in pending.operations:
            lines += [f"- {line}" for line in each.get("old_text", "").splitlines() if each["action"] != "add"]
            lines += [f"+ {line}" for line in each.get("content", "").splitlines()]
        return lines
    return [
        *(f"- {line}" for text in taken for line in text.splitlines()),
        *(f"+ {line}" for text in added for line in text.splitlines()),
    ]


def carry_out(home: Home, call: Mapping[str, Any]) -> str:
    """Runs an approved tool call as its session would have run it; WriteRefused says why it failed."""
    settings = load_settings(home)
    kit = BuiltinTools(
        settings=settings,
        folder=str(call["cwd"]) or os.getcwd(),
        home=home.above or home.root,
        ask=lambda _question: True,
        cancelled=lambda: False,
        history=tuple,
        trusted=TrustedFolders(home),
    )
    with closing(open_parts(home, settings=settings, options=SessionOptions(makers=kit.makers()))) as parts:
        if parts.toolbox.get(str(call["tool"])) is None:  # a tool of a provider that must start first
            parts.start_external("approval", {"platform": "approval"})
        result = json.loads(parts.toolbox.call(str(call["tool"]), call["arguments"], _AGREED))
        parts.external.close(())
    if isinstance(result, dict) and (result.get("success") is False or result.get("error")):
        raise WriteRefused(f"{call['tool']} failed: {result.get('error')}", kind="refused")
    return f"Done: {call['tool']}."
