"""How a session comes into being: its prompt is built once and stored, with its tools, before anything is said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hermes.session.announcements import Announcements
from hermes.session.ending import mark_open
from hermes.storage.opened import Opened
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
    with Opened(parts.database).together():
        parts.database.create_session(**row)
        mark_open(parts, session_id)
    return []


def go_on(parts: Parts, session_id: str, about: About, wishes: PromptWishes) -> list[StoredMessage]:
    """What the model knows of a session that is resumed; one that was not begun here gets a prompt and tools now."""
    from hermes.storage.compaction import Contexts

    mark_open(parts, session_id)
    contexts = Contexts(parts.database)
    if "tools" not in parts.database.session_details(session_id):
        if parts.database.get_session(session_id).cwd is None:
            parts.database.update_session(session_id, cwd=about.cwd)
        contexts.furnish(session_id, **_furniture(parts, about, wishes))
    return contexts.live(session_id)


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
