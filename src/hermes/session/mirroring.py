"""Changes of curated memory in the words of memory providers, and how they reach one that is not running."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from hermes.curated.store import Written
    from hermes.settings.home import Home

_REVIEW, _CURATOR = "background_review", "curator"


def told(written: Written, **known: str) -> Iterator[dict[str, Any]]:
    """The calls of `on_memory_write` that stand for a change; `known` is more metadata, empty texts are left out.

    What moves to the archive and back is not forgotten and not new, so nobody hears of it; nor of what a review keeps.
    """
    change = written.change
    if change is None or change.action == "restore" or change.cause.origin == _REVIEW:
        return
    archived = {each.entry for each in written.archived}
    cause = change.cause
    for edit in change.edits:
        if edit.after is None and edit.before in archived:
            continue
        metadata = {
            "write_origin": cause.origin,
            "execution_context": "background" if cause.origin == _CURATOR else "foreground",
            "session_id": cause.session,
            **known,
            "old_text": edit.before,
        }
        yield {
            "action": "add" if edit.before is None else "remove" if edit.after is None else "replace",
            "target": written.target,
            "content": edit.after or "",
            "metadata": {key: each for key, each in metadata.items() if each},
        }


def leave_for_providers(home: Home, names: Sequence[str], written: Written, *, user: str = "", **known: str) -> None:
    """Keeps a change for these providers; their next session hands it over."""
    calls = list(told(written, **known))
    if not calls or not names:
        return
    from hermes.providers.outbox import Outbox

    for name in names:
        outbox = Outbox(home.path, name, user=user)
        for call in calls:
            outbox.put("on_memory_write", call)
