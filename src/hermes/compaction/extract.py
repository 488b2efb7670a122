"""The deterministic extract that replaces the middle when no model can summarise it."""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from hermes.base.tokens import estimate
from hermes.compaction.facts import by_importance, ends_of, failure_in
from hermes.compaction.messages import at_most, calls_of, one_line, text_of, tool_counts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hermes.compaction.facts import Fact
    from hermes.compaction.messages import Message

_ASK = 400  # characters of one request
_SAID = 240  # characters of one answer
_CALL = 90  # characters of a call's arguments, and of its outcome
_MOST = 400  # messages whose calls are looked at one by one; the newest
_ARGUMENTS = 2_000
_TALLIED = 5_000  # messages whose calls are counted by tool; the newest
_PATH_ARGUMENT = re.compile(r'"(?:path|file|file_path|filename|target)"\s*:\s*"([^"\\]{1,200})"')
# Section and its share of the room, in the order in which they are shown.
_SHARES = (
    ("## Goal", 0.20),
    ("## Constraints & Preferences", 0.14),
    ("### Done", 0.22),
    ("### In Progress", 0.10),
    ("### Blocked", 0.08),
    ("## Key Decisions", 0.10),
    ("## Relevant Files", 0.06),
    ("## Next Steps", 0.05),
    ("## Critical Context", 0.05),
)
_NOTE = "(Put together without a model, from the conversation's own words.)"


def extract(
    messages: Sequence[Message],
    ids: Sequence[int | None],
    facts: Sequence[Fact],
    room: int,
    previous: str = "",
) -> str:
    """What the messages were about in about `room` tokens; `previous`, the summary before, stands first."""
    earlier = _earlier(previous, room // 2)
    room -= estimate(earlier) if earlier else 0
    lines = _sections(messages, ids, facts)
    shown: list[str] = [earlier] if earlier else []
    for heading, share in _SHARES:
        chosen = _first_that_fit(lines[heading], round(room * share))
        if heading == "### Done":
            shown.append("## Progress")
        if chosen:
            shown.append("\n".join([heading, *reversed(chosen)]))
    return "\n\n".join([*shown, _NOTE])


def _sections(
    messages: Sequence[Message], ids: Sequence[int | None], facts: Sequence[Fact]
) -> dict[str, Iterator[str]]:
    """The lines of each section, the most important first; none is made before there is room for it."""
    ranked = by_importance(facts)
    calls = _recent_calls(messages)
    return {
        "## Goal": _asks(messages, ids),
        "## Constraints & Preferences": _of_kind(ranked, ids, "constraint"),
        "### Done": chain(_tally(messages), (_outcome_line(call, ids) for call in calls)),
        "### In Progress": _said(messages, ids),
        "### Blocked": (_outcome_line(call, ids) for call in calls if failure_in(ends_of(call.outcome))),
        "## Key Decisions": _of_kind(ranked, ids, "decision"),
        "## Relevant Files": (f"- {path}" for path in _files(calls, ranked)),
        "## Next Steps": _of_kind(ranked, ids, "open", "question"),
        "## Critical Context": (f"- {fact.text}" for fact in ranked if fact.kind in ("identifier", "url", "number")),
    }


class _Call(NamedTuple):
    """A call, what came of it, and where that stands."""

    tool: str
    arguments: str
    outcome: str
    position: int


def _asks(messages: Sequence[Message], ids: Sequence[int | None]) -> Iterator[str]:
    """What the person said: the first request says most about the goal, then the newest ones."""
    first = next((at for at, each in enumerate(messages) if each.get("role") == "user"), len(messages))
    newest = (at for at in range(len(messages) - 1, first, -1) if messages[at].get("role") == "user")
    for at in chain([first] if first < len(messages) else [], newest):
        yield f"- asked: {one_line(text_of(messages[at]), _ASK)}{_at(ids[at])}"


def _tally(messages: Sequence[Message]) -> Iterator[str]:
    """The number of calls per tool."""
    tally = tool_counts(messages[-_TALLIED:])
    if tally:
        yield "- calls: " + ", ".join(f"{name} {times}" for name, times in tally.most_common(12))


def _recent_calls(messages: Sequence[Message]) -> list[_Call]:
    """The calls of the newest messages with their outcomes, the newest first."""
    found: list[_Call] = []
    results: dict[str, int] = {}
    for at in range(len(messages) - 1, max(len(messages) - _MOST, 0) - 1, -1):
        message = messages[at]
        if message.get("role") == "tool":
            results[str(message.get("tool_call_id"))] = at
        elif message.get("tool_calls"):
            for number, tool, arguments in reversed(calls_of(message)):
                place = results.get(number)
                outcome = text_of(messages[place]) if place is not None else "no result"
                found.append(_Call(tool, arguments, outcome, at if place is None else place))
            results.clear()
    return found


def _outcome_line(call: _Call, ids: Sequence[int | None]) -> str:
    """A call with the end of its output, where programs say how it went."""
    lines = [line for line in call.outcome[-4 * _CALL :].splitlines() if line.strip()]
    outcome = one_line(lines[-1], _CALL) if lines else "nothing"
    return f"- {call.tool}({one_line(call.arguments, _CALL)}) → {outcome}{_at(ids[call.position])}"


def _of_kind(ranked: Sequence[Fact], ids: Sequence[int | None], *kinds: str) -> Iterator[str]:
    return (f"- {fact.text}{_at(ids[fact.position])}" for fact in ranked if fact.kind in kinds)


def _files(calls: Sequence[_Call], ranked: Sequence[Fact]) -> Iterator[str]:
    given = (path for call in calls for path in _PATH_ARGUMENT.findall(call.arguments[:_ARGUMENTS]))
    named = (fact.text for fact in ranked if fact.kind == "path")
    return iter(dict.fromkeys(chain(given, named)))


def _said(messages: Sequence[Message], ids: Sequence[int | None]) -> Iterator[str]:
    for at in range(len(messages) - 1, -1, -1):
        message = messages[at]
        if message.get("role") == "assistant" and (text := text_of(message).strip()):
            yield f"- said: {one_line(text, _SAID)}{_at(ids[at])}"


def _first_that_fit(lines: Iterator[str], room: int) -> list[str]:
    chosen: list[str] = []
    for line in lines:
        # The first line says most: rather its beginning than nothing.
        shown = line if chosen or at_most(line) <= room else one_line(line, max(room - 2, 1))
        room -= at_most(shown)
        if room < 0:
            break
        chosen.append(shown)
    return chosen


def _earlier(previous: str, room: int) -> str:
    """The previous summary; when it is too long its lines go from the end of each section, headings stay."""
    text = previous.replace(_NOTE, "").strip()
    if estimate(text) <= room:
        return text
    kept: list[str] = []
    for line in text.splitlines():
        cost = at_most(line)
        if cost <= room:
            room -= cost
            kept.append(line)
    return "\n".join(kept)


def _at(number: int | None) -> str:
    return "" if number is None else f" [{number}]"
