"""Compacts the stretch of messages that a model named: by words of its first and last message, or by ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hermes.compression.boundaries import Cut, group_start, last_request
from hermes.compression.pointers import parse_ranges
from hermes.compression.reading import calls_of, text_of
from hermes.tools.registry import failure
from hermes.vocabulary.errors import NotFound, StorageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hermes.session.compaction import Compactor
    from hermes.session.context import Context

    Messages = Sequence[dict[str, Any]]


def compact_range(compactor: Compactor, context: Context, wanted: Mapping[str, str]) -> dict[str, Any]:
    """The result the model sees: what was put away, or why not."""
    try:
        cut = find_range(context.said(), context.ids, wanted)
        done = compactor.run("model", focus=wanted.get("focus", ""), force=True, cut=cut)
    except (NotFound, StorageError) as error:
        return failure(str(error))
    if done is None:
        return failure("these messages are too few or too short: a summary would not make the context smaller")
    return {
        "success": True,
        "messages_put_away": done.messages,
        "details_kept_exactly": done.kept_exactly,
        "tokens": {"before": done.tokens_before, "after": done.tokens_after},
        "note": "context_expand brings any of them back; the block in your context names their ids",
    }


def find_range(messages: Messages, ids: Sequence[int], wanted: Mapping[str, str]) -> Cut:
    """Whole groups that hold the named messages, at most up to the current turn."""
    turn = last_request(messages)
    end = len(messages) if turn is None else turn
    if wanted.get("ids"):
        inside = parse_ranges(wanted["ids"])
        places = [at for at in range(end) if any(ids[at] in span for span in inside)]
        if not places:
            raise NotFound(f"none of the ids {wanted['ids'][:60]!r} is in your context before the current turn")
        start, stop = places[0], places[-1] + 1
    else:
        start = _place(messages, range(end), wanted["first"]) if wanted.get("first") else 0
        backwards = range(end - 1, start - 1, -1)
        stop = _place(messages, backwards, wanted["last"]) + 1 if wanted.get("last") else end
    start = group_start(messages, start)
    while stop < end and messages[stop].get("role") == "tool":
        stop += 1
    if start >= stop:
        raise NotFound("there is nothing before the current turn to put away")
    return Cut(head=start, tail=stop)


def _place(messages: Messages, places: range, words: str) -> int:
    wanted = " ".join(words.casefold().split())
    for at in places:
        calls = (f"{name} {arguments}" for _, name, arguments in calls_of(messages[at]))
        if wanted in " ".join(" ".join((text_of(messages[at]), *calls)).casefold().split()):
            return at
    raise NotFound(f"no message before the current turn holds {words[:60]!r}; quote a few words exactly")
