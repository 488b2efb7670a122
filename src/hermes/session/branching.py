"""Going back in a conversation: the last exchange taken out of the context, or another conversation begun beside it.

Nothing is deleted. What was taken back stays in the database, marked, and no search and no resume shows it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hermes.compression.boundaries import last_request
from hermes.session.nudges import Nudges
from hermes.storage.compaction import ORDER, Contexts
from hermes.storage.originals import COPY, WRITTEN, first_id
from hermes.vocabulary.errors import NotFound

if TYPE_CHECKING:
    from hermes.storage.sessions import SessionDB
    from hermes.storage.transcripts import StoredMessage


def take_back(database: SessionDB, session_id: str) -> tuple[str, list[StoredMessage]]:
    """Marks the person's newest message and everything after it as taken back; returns its text and what is left."""
    context = Contexts(database).live(session_id)
    place = next((place for place in reversed(range(len(context))) if _by_a_person(context[place])), None)
    spoken = list(Contexts(database).originals(session_id))
    asked = last_request([each.message for each in spoken])
    if asked is not None and first_id(spoken[asked]) not in map(first_id, context):
        raise NotFound(
            "the last exchange was compacted, and a summary cannot be undone: "
            f"`hermes sessions restore {session_id}` makes a conversation in which it can"
        )
    if place is None:
        raise NotFound("there is nothing to undo in this conversation")
    Contexts(database).take_back(session_id, context[place:])
    database.sync()
    return context[place].text, context[:place]


def branch_off(database: SessionDB, session_id: str, title: str | None = None) -> str:
    """A conversation of its own that begins with everything said so far; returns its id.

    It gets the same prompt and tools, so the provider's cache serves it, too.
    """
    parent = database.get_session(session_id)
    name = title or (f"{parent.title} (branch)" if parent.title else None)
    details: dict[str, Any] = database.session_details(session_id)
    said = [_copied(each) for each in Contexts(database).live(session_id)]
    branch = database.create_session(
        source=parent.source,
        title=name,
        parent_session_id=session_id,
        kind="branch",
        **details | {"model": parent.model, "cwd": parent.cwd, "project": parent.project},
    )
    database.append_many(branch, said)
    Nudges(database, session_id).goes_on_in(branch)
    database.sync()
    return branch


def _copied(original: StoredMessage) -> dict[str, Any]:
    """The message for another session, in the order of the context, with the id of the first that said it."""
    return {COPY: original.id, **{key: part for key, part in original.message.items() if key != ORDER}}


def _by_a_person(message: StoredMessage) -> bool:
    return message.role == "user" and WRITTEN not in message.message
