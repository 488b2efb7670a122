"""How a session comes into being: its prompt is built once and stored, with its tools, before anything is said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hermes.session.announcements import Announcements
from hermes.session.ending import mark_open
from hermes.storage.opened import Opened

if TYPE_CHECKING:
    from datetime import date

    from hermes.session.wiring import Parts


def begin(
    parts: Parts,
    session_id: str,
    *,
    source: str,
    title: str | None,
    model: str,
    cwd: str | None,
    system_message: str,
    skip_memory: bool,
    skip_context_files: bool,
    today: date | None,
    parent: str | None,
) -> None:
    """Stores the row of a new session; `parent` is the session that delegates to it."""
    prompt = parts.build_prompt(
        model=model,
        cwd=cwd,
        platform=source,
        system_message=system_message,
        skip_memory=skip_memory,
        skip_context_files=skip_context_files,
        today=today,
    )
    row: dict[str, Any] = {
        "source": source,
        "session_id": session_id,
        "title": title,
        "model": model or None,
        "cwd": cwd,
        "project": parts.project or None,
        "system_prompt": prompt.text,
        "prompt_sections": prompt.sizes(),
        "tools": parts.toolbox.schemas(),
        "announced": Announcements(parts.store, "").seen,
        "prompt_inputs": {
            "system_message": system_message,
            "skip_memory": skip_memory,
            "skip_context_files": skip_context_files,
            "today": today.isoformat() if today else None,
        },
        "parent_session_id": parent,
        "kind": "delegate" if parent else None,
    }
    with Opened(parts.database).together():
        parts.database.create_session(**row)
        mark_open(parts, session_id)
