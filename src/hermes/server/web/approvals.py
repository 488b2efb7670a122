"""The Approvals page: pending writes with the passages they may come from, to accept, change or reject."""

from __future__ import annotations

import json
import re
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any

from hermes.base.errors import HermesError, NotFound
from hermes.base.text import counted
from hermes.memory.store import TARGETS
from hermes.safety.trust import SINKS
from hermes.server.web.memory import TITLES
from hermes.server.web.site import Notice, Page, Redirect, Section, View, address, paged
from hermes.session.approvals import PendingWrites

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hermes.server.web.site import Ask
    from hermes.server.workspace import Workspace
    from hermes.session.approvals import PendingWrite

_EACH = 20  # on a page
# The tags and the note that Hermes puts around recalled text, whole or cut off.
_FENCE = re.compile(r"</?memory-context[^>]*>|(\[System note:|^…)[^\]]*stands inside it\.\]\s*")
_WORD = re.compile(r"\w+|\W+")
_SMALL_WORDS = "a an and are as at be by for from has have i in is it my of on or that the this to was with you"
_SMALL = frozenset(_SMALL_WORDS.split())
_SHORTEST = 2  # characters of a word that is worth marking


def _writes(workspace: Workspace) -> PendingWrites:
    return PendingWrites(workspace.home, platform="web")


def _show(ask: Ask) -> Page:
    waiting = _writes(ask.workspace)
    shown, pages = paged(waiting.all(), ask, _EACH)
    values = {"pending": [_card(each) for each in shown], "unreadable": len(waiting.unreadable()), **pages}
    return Page(template="approvals.html", values=values)


def _card(pending: PendingWrite) -> dict[str, Any]:
    call = getattr(pending, "call", None)
    sink = SINKS.get(pending.sink)
    return {
        "id": pending.id,
        "what": TITLES.get(pending.target) or (call["tool"] if call else pending.target),
        "summary": "" if pending.target in TITLES else pending.summary,
        "project": getattr(pending, "project", ""),
        "about": sink.about if sink else "",
        "texts": pending.texts,
        "removes": [each["old_text"] for each in getattr(pending, "operations", ()) if each.get("old_text")],
        "arguments": json.dumps(call["arguments"], ensure_ascii=False, indent=1) if call and not pending.texts else "",
        "created_at": pending.created_at,
        "session": pending.as_dict()["session"],
        "reason": pending.reason,
        "sources": [_source(each, pending.texts) for each in pending.sources],
    }


def _source(source: Mapping[str, str], texts: Sequence[str]) -> dict[str, Any]:
    passage = highlighted(_FENCE.sub("", source.get("passage", "")), texts)
    nearest = any(marked for marked, _ in passage)
    return {"origin": source.get("origin", ""), "name": source.get("name", ""), "passage": passage, "nearest": nearest}


def highlighted(passage: str, texts: Sequence[str]) -> list[tuple[bool, str]]:
    """Splits a passage into pieces, each marked if its words are also in the texts that would be kept."""
    kept = {word for text in texts for word in _WORD.findall(text.casefold()) if _counts(word)}
    pieces = _WORD.findall(passage)
    found = [place for place, piece in enumerate(pieces) if piece.casefold() in kept]
    marked = set(found)
    for here, after in pairwise(found):  # small words do not interrupt a marked run
        if not any(_counts(piece.casefold()) for piece in pieces[here + 1 : after]):
            marked.update(range(here, after))
    runs = groupby(range(len(pieces)), key=lambda place: place in marked)
    return [(is_marked, "".join(pieces[place] for place in places)) for is_marked, places in runs]


def _counts(word: str) -> bool:
    return word[:1].isalnum() and len(word) >= _SHORTEST and word not in _SMALL


def _decide(ask: Ask) -> Redirect:
    """Decides about one write, with the texts as the person edited them in its form."""
    waiting, wanted = _writes(ask.workspace), ask.path["pending"]
    pending = waiting.get(wanted)
    texts = ask.form.get("text", ())
    if ask.field("decision") == "reject":
        waiting.reject(wanted)
        return _back(Notice(f"Rejected: {pending.summary}"))
    if texts and texts != tuple(text.replace("\r\n", "\n") for text in pending.texts):
        waiting.edit(wanted, texts)
    approved = waiting.approve(wanted)
    return _back(Notice(approved.message, undo=approved.as_dict()["change"] or "" if _can_undo(pending) else ""))


def _decide_several(ask: Ask) -> Redirect:
    waiting, chosen = _writes(ask.workspace), ask.form.get("chosen", ())
    if not chosen:
        return _back(Notice("Choose some first.", wrong=True))
    done, undo, wrong = 0, [], []
    for wanted in chosen:
        try:
            if ask.field("decision") == "reject":
                waiting.reject(wanted)
            else:
                approved = waiting.approve(wanted)
                undo += [approved.as_dict()["change"]] if _can_undo(approved.pending) else []
            done += 1
        except NotFound:
            wrong.append("one was decided elsewhere meanwhile")
        except HermesError as error:
            wrong.append(str(error))
    verb = "Rejected" if ask.field("decision") == "reject" else "Accepted"
    said = ". ".join([f"{verb} {counted(done, 'write')}", *wrong])
    return _back(Notice(f"{said}.", undo=",".join(filter(None, reversed(undo))), wrong=bool(wrong)))


def _can_undo(pending: PendingWrite) -> bool:
    return pending.target in TARGETS  # notes of a project are undone in its history


def _back(notice: Notice) -> Redirect:
    return Redirect(to=address("approvals"), notice=notice)


APPROVALS = Section(
    name="approvals",
    title="Approvals",
    key="a",
    waiting=lambda workspace: len(_writes(workspace).all()),
    views=(
        View(act=_show),
        View(method="POST", act=_decide_several, approves=True),
        View(path="/{pending}", method="POST", act=_decide, approves=True),
    ),
)
