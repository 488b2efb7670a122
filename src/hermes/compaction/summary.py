"""The text that replaces the middle: asked of a model in prompts that fit its window, or extracted without one.

A middle that does not fit goes in pieces: the first gives notes, each further one brings them up to date.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

from hermes.base.errors import HermesError
from hermes.base.text import counted
from hermes.base.tokens import estimate
from hermes.compaction.facts import by_importance, ends_of, failure_in, fault
from hermes.compaction.messages import (
    at_most,
    calls_of,
    estimate_sampled,
    excerpt,
    one_line,
    prose,
    text_of,
    tool_counts,
)
from hermes.safety.secrets import mask_all

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hermes.compaction.facts import Fact
    from hermes.compaction.messages import Message

    Summariser = Callable[[str, int], str]
    from collections.abc import Iterator

LONGEST = 6_000  # characters of one message that are ever shown
ARGUMENTS = 4  # tool arguments get a quarter of a message's room


class Record:
    """Messages with their ids, as a summariser reads them. Each is read when it is first shown."""

    def __init__(self, messages: Sequence[Message], ids: Sequence[int | None], *, masked: bool = False) -> None:
        """`masked` is for a model that has not seen the conversation."""
        self._messages, self._ids = messages, ids
        self._masked = masked
        self._texts: dict[int, str] = {}
        self._calls: dict[int, list[str]] = {}  # one line for each call, of the messages that have some

    def entries(self, places: Sequence[int], cap: int = LONGEST) -> list[str]:
        """The messages at these places, in about `cap` characters each."""
        self._read([at for at in places if at not in self._texts])
        return [self._entry(at, cap) for at in places]

    def _read(self, places: Sequence[int]) -> None:
        messages = self._messages
        texts = [excerpt(text_of(messages[at]), LONGEST) for at in places]
        calls = {at: _lines(messages[at]) for at in places if messages[at].get("tool_calls")}
        if self._masked:  # all at once: that is much faster
            masked = iter(mask_all([*texts, *chain.from_iterable(calls.values())]))
            texts = list(islice(masked, len(texts)))
            calls = {at: list(islice(masked, len(lines))) for at, lines in calls.items()}
        self._texts.update(zip(places, texts, strict=True))
        self._calls.update(calls)

    def _entry(self, at: int, cap: int) -> str:
        role, name, number = self._messages[at].get("role") or "?", self._messages[at].get("name"), self._ids[at]
        who = str(role).upper() if number is None else f"{str(role).upper()} {number}"
        if role == "tool" and name:
            who = f"{who} {name}"
        shown = f"[{who}] {excerpt(self._texts[at], cap)}".rstrip()
        if at not in self._calls:
            return shown
        return "\n  calls ".join([shown, *(excerpt(call, cap // ARGUMENTS) for call in self._calls[at])])


def _lines(message: Message) -> list[str]:
    return [f"{tool}({excerpt(given, LONGEST // ARGUMENTS)})" for _, tool, given in calls_of(message)]


MOST_PIECES = 8
PROMPT_MARGIN = 0.9  # of a window; token counts are estimates
_CAPS = (LONGEST, 2_000, 600, 200)  # characters shown of one message, from generous to tight
_WORDS_PER_TOKEN = 0.6
_NOTES_IN_WINDOW = 4  # a summary takes no more than such a part of a window
_MEMORY_CONTEXT = 6_000
_SMALLEST_ROOM = 200  # tokens for the conversation in one prompt; with less a summary makes no sense
_FEWEST_CHARACTERS = 0.5  # per token; rare scripts need two tokens for one character
_MOST_CHARACTERS = 8  # per token; prose has four to five
_FRAME = 24  # characters of an entry beside the message's own


class SummaryFailed(HermesError):
    """No usable summary came back; the message says why, `transient` whether it may work later."""

    def __init__(self, message: str, *, transient: bool = False) -> None:
        super().__init__(message)
        self.transient = transient


@dataclass(frozen=True, kw_only=True)
class Task:
    """What is to be summarised and how: the messages with their ids, the notes so far, the room for the result."""

    messages: Sequence[Message]
    ids: Sequence[int | None]
    budget: int
    previous: str = ""
    focus: str = ""
    memory_context: str = ""
    facts: Sequence[Fact] = ()  # what an extract is made of, when no model can summarise
    deadline: float | None = None  # a time of the clock after which no further model call begins
    force: bool = False  # a person asked: models that pause after a failure are asked, too
    record: Record | None = None  # of what is shown to a model that may not see everything

    def masked(self) -> Task:
        """The same for a model that has not seen the conversation: it learns no credentials."""
        previous, focus, memory_context = mask_all((self.previous, self.focus, self.memory_context))
        return replace(
            self,
            previous=previous,
            focus=focus,
            memory_context=memory_context,
            record=Record(self.messages, self.ids, masked=True),
        )

    def within(self, window: int) -> Task:
        """The same for a model with this window: notes stand in the prompt and must leave room for the rest."""
        return replace(self, budget=min(self.budget, window // _NOTES_IN_WINDOW))


def summarise(
    task: Task,
    ask: Summariser,
    window: int,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[str, int]:
    """The summary and the number of calls it took; SummaryFailed when no usable one came back."""
    task = task.within(window)

    def answer(prompt: str) -> str:
        if task.deadline is not None and clock() >= task.deadline:
            raise SummaryFailed("there was no time left", transient=True)
        return _ask(ask, prompt, task.budget)

    record = task.record or Record(task.messages, task.ids)
    if whole := _whole(task, record, round(window * PROMPT_MARGIN) - task.budget):
        return answer(whole), 1
    notes = task.previous
    pieces = cut_in_pieces(task.messages, record, _room(task, window))
    for piece in pieces:
        notes = answer(build_prompt(task, [piece], notes))
    return notes, len(pieces)


def build_prompt(task: Task, entries: Sequence[str], notes: str) -> str:
    parts = [prose("summarise").format(words=f"{round(task.budget * _WORDS_PER_TOKEN):,}")]
    if notes:
        parts += [prose("update"), f"<notes>\n{notes}\n</notes>"]
    if task.focus:
        parts.append(prose("focus").format(topic=task.focus))
    if task.memory_context:
        parts.append(f"<memory>\n{excerpt(task.memory_context, _MEMORY_CONTEXT)}\n</memory>")
    shown = [entry.replace("</session", "</ session") for entry in entries]
    return "\n".join(["\n\n".join(parts), "\n<session>", *shown, "</session>"])


def _room(task: Task, window: int) -> int:
    """Tokens for the conversation in one prompt of a model with this window."""
    # The notes grow to the budget while pieces are folded in, so every prompt keeps room for them.
    notes = max(estimate(task.previous), task.budget)
    room = round(window * PROMPT_MARGIN) - estimate(build_prompt(task, (), "-")) - notes - task.budget
    if room < _SMALLEST_ROOM:
        raise SummaryFailed(f"a window of {window:,} tokens has no room for a summary of {task.budget:,}")
    return room


def _whole(task: Task, record: Record, room: int) -> str:
    """The prompt with all of the conversation; "" when it takes more than `room` tokens."""
    contents = [message.get("content") for message in task.messages]
    if sum([len(content) for content in contents if type(content) is str]) >= room * _MOST_CHARACTERS:
        return ""
    prompt = build_prompt(task, record.entries(range(len(task.messages))), task.previous)
    return prompt if estimate_sampled(prompt) * 1.05 <= room else ""


def cut_in_pieces(messages: Sequence[Message], record: Record, room: int) -> list[str]:
    """The record of the middle as texts of at most `room` tokens each, at most `MOST_PIECES` of them."""
    sizes = list(map(_size, messages))
    filling = 0.8  # estimates of single messages and of the whole differ, so pieces are not filled to the brim
    pieces = _packed(_entries(record, messages, sizes, round(room * filling)), room)
    while len(pieces) > MOST_PIECES:
        filling /= 2
        pieces = _packed(_entries(record, messages, sizes, round(room * filling)), room)
    return pieces


def _ask(ask: Summariser, prompt: str, budget: int) -> str:
    try:
        answer = ask(prompt, budget)
    except (TimeoutError, ConnectionError) as error:
        raise SummaryFailed(f"the model could not be reached: {error}", transient=True) from error
    except Exception as error:  # a model client is other people's code and may raise anything
        raise SummaryFailed(f"the model failed: {type(error).__name__}: {error}") from error
    if not isinstance(answer, str):
        raise SummaryFailed(f"the model returned {type(answer).__name__} instead of a text")
    if wrong := fault(answer, budget, prompt):
        raise SummaryFailed(f"the summary was rejected: {wrong}")
    return answer.strip()


def _entries(record: Record, messages: Sequence[Message], sizes: Sequence[int], room: int) -> list[str]:
    """One text per message. The cap per message falls until all fit into the pieces; then the oldest results go."""
    places = range(len(sizes))
    sample = "\n".join(record.entries(places[:: max(len(places) // 24, 1)]))
    per_token = max(len(sample) / max(estimate(sample), 1), _FEWEST_CHARACTERS)
    space = round(room * per_token * MOST_PIECES)
    cap = next((cap for cap in _CAPS if _fits(sizes, cap, space)), None)
    return record.entries(places, cap) if cap is not None else _sampled(record, messages, space)


def _sampled(record: Record, messages: Sequence[Message], space: int) -> list[str]:
    """Too many messages even when each is short: what people said first, evenly thinned, with the gaps counted."""
    cap = _CAPS[-1]
    most = max(space // (cap + _FRAME), 1)
    places = range(len(messages))
    spoken = [at for at in places if messages[at].get("role") == "user"] or places
    step = -(-len(spoken) // most)
    chosen = set(spoken[::-1][::step])
    chosen.update(islice((at for at in reversed(places) if at not in chosen), most - len(chosen)))
    entries: list[str] = []
    shown = 0  # messages up to here are in the entries, or counted in them
    ordered = sorted(chosen)
    for at, entry in zip(ordered, record.entries(ordered, cap), strict=True):
        if at > shown:
            entries.append(f"[{counted(at - shown, 'message')} not shown]")
        entries.append(entry)
        shown = at + 1
    return entries


def _fits(sizes: Sequence[int], cap: int, space: float) -> bool:
    return sum([min(size, cap) for size in sizes]) + _FRAME * len(sizes) <= space


def _size(message: Message) -> int:
    content = message.get("content")
    size = len(content) if isinstance(content, str) else len(text_of(message))
    if not message.get("tool_calls"):
        return size
    return size + sum(min(len(arguments), LONGEST // ARGUMENTS) + 20 for _, _, arguments in calls_of(message))


def _packed(entries: list[str], room: int) -> list[str]:
    """Entries joined to texts of at most `room` tokens; one that is larger than that is cut.

    They are weighed by their length; when a sample of the result says that this was too little, each is looked at.
    """
    whole = "\n".join(entries)
    per_token = max(min(_bytes(whole) / max(estimate_sampled(whole), 1), 4.5) * 0.9, _FEWEST_CHARACTERS)
    pieces = _filled(entries, room, lambda text: int(_bytes(text) / per_token) + 2)
    if any(estimate_sampled(piece) * 1.05 > room for piece in pieces):
        return _filled(entries, room, _exact)
    return pieces


def _filled(entries: list[str], room: int, weigh: Callable[[str], int]) -> list[str]:
    pieces: list[str] = []
    current: list[str] = []
    filled = 0
    for each in entries:
        shown, cost = each, weigh(each)
        if cost > room:
            shown = excerpt(each, max(len(each) * room // (cost * 2), 40))
            cost = min(_exact(shown), room)
        if current and filled + cost > room:
            pieces.append("\n".join(current))
            current, filled = [], 0
        current.append(shown)
        filled += cost
    return [*pieces, "\n".join(current)] if current else pieces


def _exact(text: str) -> int:
    return estimate(text) + 2


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


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
    """What the messages were about in about `room` tokens; `previous`, the earlier summary, comes first."""
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
    """A call, its outcome, and the position of that message."""

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
