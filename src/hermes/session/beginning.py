"""How a session comes into being: its prompt is built once and stored, with its tools, before anything is said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hermes.session.announcements import Announcements
from hermes.session.ending import mark_open
from hermes.storage.opened import Opened
from hermes.vocabulary.errors import StorageError
from hermes.vocabulary.values import value

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date

    from hermes.session.wiring import Parts
    from hermes.storage.transcripts import StoredMessage


@value
class About:
    """What is known of a new session; `parent` is the session that delegates to it."""

    source: str
    title: str | None
    model: str
    cwd: str | None
    parent: str | None

    def as_told_to_providers(self, identity: Mapping[str, Any] | None) -> dict[str, Any]:
        """`identity` is what a host knows besides, and better."""
        return {
            "platform": self.source,
            "session_title": self.title,
            "cwd": self.cwd,
            "agent_context": "subagent" if self.parent else "primary",
            "parent_session_id": self.parent,
            **(identity or {}),
        }


@value
class PromptWishes:
    """What a host wants of the prompt; stored, because a compaction builds it again."""

    system_message: str
    skip_memory: bool
    skip_context_files: bool
    today: date | None


def begin(parts: Parts, session_id: str, about: About, wishes: PromptWishes) -> list[StoredMessage]:
    """Stores the row of a new session, in which nothing was said yet."""
    row: dict[str, Any] = {
        "source": about.source,
        "session_id": session_id,
        "title": about.title,
        "model": about.model or None,
        "cwd": about.cwd,
        "project": parts.project or None,
        "parent_session_id": about.parent,
        "kind": "delegate" if about.parent else None,
        **_furniture(parts, about, wishes),
    }
    try:
        _create(parts, row)
    except StorageError as error:  # the session opens all the same
        spare = parts.fall_back(error)
        known = {"parent_session_id": None, "kind": None}  # the session above is not in the spare database
        _create(parts, row | known)
        spare.begun(session_id, parent=about.parent)
        parts.notices.add("storage", spare.in_words())
    return []


def _create(parts: Parts, row: Mapping[str, Any]) -> None:
    with Opened(parts.database).together():
        parts.database.create_session(**row)
        mark_open(parts, row["session_id"])


def go_on(parts: Parts, session_id: str, about: About, wishes: PromptWishes) -> list[StoredMessage]:
    """What the model knows of a session that is resumed; one that was not begun here gets a prompt and tools now."""
    from hermes.storage.compaction import Contexts

    database = parts.readable
    added: dict[str, Any] = {}
    if "tools" not in database.session_details(session_id):
        added = _furniture(parts, about, wishes)
    try:
        mark_open(parts, session_id)
        if added:
            if database.get_session(session_id).cwd is None:
                database.update_session(session_id, cwd=about.cwd)
            Contexts(database).furnish(session_id, **added)
        return Contexts(database).live(session_id)
    except StorageError as error:  # what can still be read goes on in a spare database
        with parts.reading_after(error) as past:
            row, details = past.get_session(session_id), past.session_details(session_id)
            known = Contexts(past).live(session_id)
        spare = parts.fall_back(error)
        spare.carry(row, details | added, ((each.id, each.message) for each in known))
        parts.opened_as = session_id
        parts.notices.add("storage", spare.in_words())
        return Contexts(spare.db).live(session_id)


def _furniture(parts: Parts, about: About, wishes: PromptWishes) -> dict[str, Any]:
    """The prompt and the tools of a session, which stay as they are, and what it takes to build the prompt again."""
    inputs = {**vars(wishes), "platform": about.source}
    prompt = parts.build_prompt(model=about.model, cwd=about.cwd, **inputs)
    for notice in prompt.notices:
        parts.notices.add("context", notice)
    return {
        "system_prompt": prompt.text,
        "prompt_sections": prompt.sizes(),
        "tools": parts.toolbox.schemas(),
        "announced": Announcements(parts.store, "").seen,
        "prompt_inputs": {**inputs, "today": wishes.today.isoformat() if wishes.today else None},
    }
