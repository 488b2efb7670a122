"""`context_expand` and `context_compact`: bring compacted messages back, or put messages away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hermes.compaction.messages import calls_of, find_folded, format_ranges, parse_ranges, text_of
from hermes.safety.trust import NO_TURN
from hermes.tools.registry import failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from hermes.safety.trust import TurnContext

    Read = Callable[[Sequence[int], str], Iterable[tuple[int, Mapping[str, Any]]]]


class ContextCompact:
    """The tool `context_compact`."""

    in_turn = True
    brings = ""
    sink = ""  # what is put away stays stored, and the block is graded by what was in it
    schema: dict[str, Any] = {  # noqa: RUF012 - shared on purpose: what the model sees never changes
        "name": "context_compact",
        "description": (
            "Replace earlier messages you no longer need in full (finished work, long outputs) by a summary; "
            "context_expand brings them back. Name the range by words of its first and last message (default: all "
            "before this turn) or by ids."
        ),
        "parameters": {
            "type": "object",
            "properties": {
                "first": {"type": "string"},
                "last": {"type": "string"},
                "ids": {"type": "string"},
                "focus": {"type": "string"},
            },
        },
    }

    def call(self, arguments: dict[str, Any], turn: TurnContext = NO_TURN) -> dict[str, Any]:
        if turn.compact is None:
            return failure("there is no running conversation here; context_compact works inside a session")
        return turn.compact(arguments)


MOST_CHARACTERS = 24_000
_AROUND = 400  # characters shown on each side of a hit
_FRAME = 80  # characters of JSON around one message
_LONGEST_NAME = 64


class ContextExpand:
    """`read` gets ids and the current session. It is asked lazily: reading stops when the answer is full."""

    in_turn = True
    sink = ""
    schema: dict[str, Any] = {  # noqa: RUF012 - shared on purpose: what the model sees never changes
        "name": "context_expand",
        "description": (
            "Read compacted messages of this conversation word for word instead of guessing at a detail. The "
            "compacted block names their ids."
        ),
        "parameters": {
            "type": "object",
            "properties": {
                "ids": {"type": "string"},
                "find": {"type": "string", "description": "only messages with this text"},
                "start": {"type": "integer"},
            },
            "required": ["ids"],
        },
    }

    def __init__(self, read: Read, most_characters: int = MOST_CHARACTERS) -> None:
        self._read = read
        self._most = most_characters

    def call(self, arguments: dict[str, Any], turn: TurnContext = NO_TURN) -> dict[str, Any]:
        wanted = parse_ranges(arguments["ids"])
        if not wanted:
            return failure(f"ids must be numbers and ranges such as '4096-4131', not {arguments['ids'][:60]!r}")
        found = ((number, _plain(message)) for ids in wanted for number, message in self._read(ids, turn.session))
        if needle := arguments.get("find", "").strip():
            return self._shown(_hits(found, needle), wanted, 0)
        return self._shown(found, wanted, max(arguments.get("start", 0), 0))

    def origin_of(self, _arguments: dict[str, Any], _result: object, turn: TurnContext) -> str:
        """What comes back is this conversation, and must not be trusted more than it was then."""
        return "recall" if turn.sources() else ""

    def _shown(self, found: Iterator[tuple[int, dict[str, Any]]], wanted: list[range], start: int) -> dict[str, Any]:
        messages: list[dict[str, Any]] = []
        left = self._most
        for number, message in found:
            whole = message["content"]
            content, start = whole[start:], 0
            size = len(content) + _FRAME
            if size > left and messages:
                return {"success": True, "messages": messages, "more": {"ids": _from(wanted, number)}}
            if size > left:
                room = max(left - _FRAME, 1)
                shown = {"id": number, **message, "content": content[:room]}
                more = {"ids": _from(wanted, number), "start": len(whole) - len(content) + room}
                return {"success": True, "messages": [shown], "more": more}
            messages.append({"id": number, **message, "content": content})
            left -= size
        if not messages:
            return failure("none of these messages holds that, or they belong to another conversation")
        return {"success": True, "messages": messages}


def _plain(message: Mapping[str, Any]) -> dict[str, Any]:
    """Role and text; calls become lines of the text, so that an answer can begin and end anywhere in them."""
    calls = [f"[calls {name}({arguments})]" for _, name, arguments in calls_of(message)]
    shown: dict[str, Any] = {
        "role": message.get("role"),
        "content": "\n".join(filter(None, (text_of(message), *calls))),
    }
    if isinstance(message.get("name"), str):
        shown["name"] = message["name"][:_LONGEST_NAME]
    return shown


def _hits(found: Iterator[tuple[int, dict[str, Any]]], needle: str) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, message in found:
        content = message["content"]
        place = find_folded(content, needle)
        if place >= 0:
            low, high = max(place - _AROUND, 0), place + len(needle) + _AROUND
            before, after = "…" if low else "", "…" if high < len(content) else ""
            yield number, {**message, "content": f"{before}{content[low:high]}{after}"}


def _from(wanted: list[range], number: int) -> str:
    """What is left of the wanted ids from this one on, for the next call."""
    at = next(at for at, ids in enumerate(wanted) if number in ids)
    first, *others = wanted[at:]
    return format_ranges([(number, first.stop - 1), *((each.start, each.stop - 1) for each in others)])
