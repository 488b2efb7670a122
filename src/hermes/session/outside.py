"""What in a conversation came from outside: a page, a file, a tool's output, a recall.

Each stored result says where its text comes from (`OUTSIDE`), so that a resumed session knows what a running one knew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hermes.compression.block import is_block
from hermes.compression.boundaries import is_synthetic
from hermes.storage.originals import WRITTEN
from hermes.tools.taint import Source

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Protocol

    from hermes.session.nudges import Nudges

    class Window(Protocol):
        """What the model has in front of it; see `Context`."""

        messages: list[dict[str, Any]]
        compacted: bool

        def outside(self) -> list[tuple[int, str, dict[str, Any]]]: ...


OUTSIDE = "outside"
SYNTHETIC = "synthetic"
ENDED = "[This call did not finish: the turn ended before it returned.]"
# Results of these are the conversation's own, where a stored one does not say: imported, or older than the mark.
_OWN_TOOLS = frozenset(
    {"memory", "skills_list", "skill_view", "skill_manage", "context_compact", "todo", "write_file", "patch"}
)
_COMPACTED = "earlier in the conversation"


def origin_of(stored: Mapping[str, Any]) -> str:
    """Where the text of a stored message comes from; "" when the person, the model or this program wrote it."""
    if stored.get("role") == "tool":
        known = stored.get(OUTSIDE)
        if isinstance(known, str):
            return known
        return "" if stored.get("name") in _OWN_TOOLS or stored.get("content") == ENDED else "tool"
    if WRITTEN not in stored and is_block(stored):
        return "recall"  # of another program: nobody knows what its summary was made of
    if stored.get("role") == "user" and is_synthetic(stored):
        return "tool"  # likewise: the output of a process, in the person's name
    additions = [each.get("source") for each in stored.get("additions") or () if isinstance(each, dict)]
    unexplained = "api_content" in stored and not additions  # no session of ours says something else in a person's name
    return "recall" if "recalled" in additions or unexplained else ""


def words_of_person(stored: Mapping[str, Any]) -> str:
    by_program = WRITTEN in stored or SYNTHETIC in stored or is_block(stored) or is_synthetic(stored)
    if stored.get("role") != "user" or by_program:
        return ""
    content = stored.get("content")
    return content if isinstance(content, str) else ""


def sources_in(context: Window, nudges: Nudges, *, since_person: bool = False) -> list[Source]:
    """What the model has in front of it from outside; with `since_person` only what came after the newest words.

    What a compaction put away is told by the conversation's counters; without them it counts as from outside.
    """
    found = context.outside()
    if since_person:
        roles = [message["role"] for message in context.messages]
        newest = len(roles) - 1 - roles[::-1].index("user") if "user" in roles else 0
        found = [each for each in found if each[0] >= newest]
    sources = [
        Source(origin=origin, name=str(message.get("name") or _NAMES.get(origin, "a tool")), text=_text(message))
        for _, origin, message in found
    ]
    if context.compacted and not since_person and (put_away := nudges.taint or nudges.unknown):
        sources.insert(0, Source(origin=put_away, name=_COMPACTED, text=""))
    return sources


_NAMES = {"recall": "memory provider", "tool": "a tool of the host"}


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    return content if isinstance(content, str) else ""
