"""When a conversation counts as ended: from the moment nobody has it open until somebody resumes it.

Only ended conversations are ever pruned. One whose process was killed is ended by the next that opens any. A chat on a
platform goes on when a program stops; the gateway ends it. A reason that says what the conversation became stays.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hermes.storage.opened import Opened
from hermes.vocabulary.errors import NotFound

if TYPE_CHECKING:
    from hermes.session.compaction import Compactor
    from hermes.session.wiring import Parts

CHAT = "gateway_session_key"  # what a gateway tells about a chat of its own
CLOSED = "agent_close"
_FOR_GOOD = frozenset({"compression", "branched"})


def end(parts: Parts, session_id: str, compactor: Compactor | None, said: list[dict[str, Any]]) -> None:
    """Closes a session in the documents' order: providers hear of the end and shut down, then the engine hears."""
    parts.external.close(said)
    if compactor is not None:
        compactor.close()
    if not parts.goes_on:
        opened = Opened(parts.database)
        with opened.together():
            with suppress(NotFound):  # deleted meanwhile, because nobody had said anything or by somebody else
                parts.database.end_session(session_id, CLOSED)
            opened.clear(parts.opened_as)
    parts.close()


def mark_open(parts: Parts, session_id: str) -> None:
    """Notes that this process has the session open, and that a conversation that had ended goes on."""
    parts.opened_as = session_id
    opened = Opened(parts.database)
    with opened.together():
        if not parts.goes_on:
            opened.mark(session_id)  # which may end this very session, when the process before was killed
        session = parts.database.get_session(session_id)
        if session.ended_at is not None and session.end_reason not in _FOR_GOOD:
            parts.database.update_session(session_id, ended_at=None, end_reason=None)
