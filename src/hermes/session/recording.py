"""What a host may record of its own loop: messages that a model can be sent, and results of calls that wait for one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hermes.session.outside import ENDED
from hermes.session.requests import unanswered_calls
from hermes.session.soundness import ROLES
from hermes.vocabulary.errors import OutOfOrder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hermes.session.host import Host
    from hermes.storage.sessions import SessionDB


def refuse_strange_role(message: Mapping[str, Any]) -> None:
    if message.get("role") not in ROLES:
        raise ValueError(f"a message has the role {message.get('role')!r}; it must be one of {', '.join(ROLES)}")


def expect_result(host: Host, database: SessionDB, call_id: str, content: object) -> None:
    """Sees to it that a call waits for this result; TypeError when it is no text, OutOfOrder when none does.

    A resume gives open calls a result that says that they did not finish. While that is the newest there is, the real
    one takes its place.
    """
    if not isinstance(content, str):
        raise TypeError(f"the result of {call_id} is {type(content).__name__}, not a text; json.dumps makes one")
    if call_id in unanswered_calls(host.context.messages) or call_id in _waiting(host):
        return
    closed = _closed_at_the_end(host, call_id)
    if closed is None:
        raise OutOfOrder(
            f"no call {call_id!r} waits for a result: record the model's message with its tool_calls first, and then "
            "one result for each, under the id of the call"
        )
    database.set_rewound(host.id, [closed])
    host.reload()


def _waiting(host: Host) -> set[str]:
    """Calls without a result, also those behind which something else was recorded."""
    waiting: set[str] = set()
    for message in host.context.messages:
        waiting.update(call["id"] for call in message.get("tool_calls") or ())
        waiting.discard(str(message.get("tool_call_id")))
    return waiting


def _closed_at_the_end(host: Host, call_id: str) -> int | None:
    """The id of the message that closed this call, when nothing but results stands behind it."""
    for number, message in zip(reversed(host.context.ids), reversed(host.context.messages), strict=True):
        if message["role"] != "tool":
            return None
        if message.get("tool_call_id") == call_id:
            return number if message.get("content") == ENDED else None
    return None
