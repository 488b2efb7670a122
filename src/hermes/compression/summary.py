"""Asks a model for the summary of the middle: a prompt that fits the model's window whatever the history is.

A middle that does not fit goes in pieces: the first gives notes, each further one brings them up to date.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from hermes.compression.audit import fault
from hermes.compression.block import is_block, prose
from hermes.compression.masks import ARGUMENTS, LONGEST, plain
from hermes.compression.reading import calls_of, estimate_sampled, excerpt, text_of
from hermes.vocabulary.errors import HermesError
from hermes.vocabulary.tokens import estimate
from hermes.vocabulary.values import value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hermes.compression.masks import Masks
    from hermes.compression.reading import Message

    Summariser = Callable[[str, int], str]

MOST_PIECES = 8
PROMPT_MARGIN = 0.9  # of a window; token counts are estimates
_CAPS = (LONGEST, 2_000, 600, 200)  # characters shown of one message, from generous to tight
_WORDS_PER_TOKEN = 0.6
_MEMORY_CONTEXT = 6_000
_SMALLEST_ROOM = 200  # tokens for the conversation in one prompt; with less a summary makes no sense
_SAMPLED = 1_024  # characters of one place of a text that tell how many make a token
_FEWEST_CHARACTERS = 0.5  # per token; rare scripts need two tokens for one character


class SummaryFailed(HermesError):
    """No usable summary came back; the message says why, `transient` whether it may work later."""

    def __init__(self, message: str, *, transient: bool = False) -> None:
        super().__init__(message)
        self.transient = transient


@value
class Task:
    """What is to be summarised and how: the messages with their ids, the notes so far, the room for the result."""

    messages: Sequence[Message]
    ids: Sequence[int | None]
    budget: int
    previous: str = ""
    focus: str = ""
    memory_context: str = ""
    masks: Masks | None = None  # for a model that has not seen the conversation: it learns no credentials

    def masked(self, masks: Masks) -> Task:
        return Task(
            messages=self.messages,
            ids=self.ids,
            budget=self.budget,
            previous=masks.text(self.previous),
            focus=self.focus,
            memory_context=self.memory_context,
            masks=masks,
        )


def summarise(
    task: Task,
    ask: Summariser,
    window: int,
    deadline: float | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[str, int]:
    """The summary and the number of calls it took; SummaryFailed when no usable one came back."""
    pieces = cut_in_pieces(task, window)
    notes = task.previous
    for piece in pieces:
        if deadline is not None and clock() >= deadline:
            raise SummaryFailed("there was no time left", transient=True)
        notes = _ask(ask, build_prompt(task, piece, notes), task.budget, piece + notes + task.memory_context)
    return notes, len(pieces)


def build_prompt(task: Task, record: str, notes: str) -> str:
    parts = [prose("summarise").format(words=f"{round(task.budget * _WORDS_PER_TOKEN):,}")]
    if notes:
        parts += [prose("update"), f"<notes>\n{notes}\n</notes>"]
    if task.focus:
        parts.append(prose("focus").format(topic=task.focus))
    if task.memory_context:
        parts.append(f"<memory>\n{excerpt(task.memory_context, _MEMORY_CONTEXT)}\n</memory>")
    return "\n\n".join([*parts, f"<session>\n{record.replace('</session', '</ session')}\n</session>"])


def cut_in_pieces(task: Task, window: int) -> list[str]:
    """The record of the middle as texts that each fit one prompt with its answer, at most `MOST_PIECES` of them."""
    # The notes grow to the budget while pieces are folded in, so every prompt keeps room for them.
    notes = max(estimate(task.previous), task.budget)
    room = round(window * PROMPT_MARGIN) - estimate(build_prompt(task, "", "-")) - notes - task.budget
    if room < _SMALLEST_ROOM:
        raise SummaryFailed(f"a window of {window:,} tokens has no room for a summary of {task.budget:,}")
    filling = 0.8  # estimates of single messages and of the whole differ, so pieces are not filled to the brim
    pieces = _packed(_entries(task, room, filling), room)
    while len(pieces) > MOST_PIECES:
        filling /= 2
        pieces = _packed(_entries(task, room, filling), room)
    return pieces


def _ask(ask: Summariser, prompt: str, budget: int, source: str) -> str:
    try:
        answer = ask(prompt, budget)
    except (TimeoutError, ConnectionError) as error:
        raise SummaryFailed(f"the model could not be reached: {error}", transient=True) from error
    except Exception as error:  # a model client is other people's code and may raise anything
        raise SummaryFailed(f"the model failed: {type(error).__name__}: {error}") from error
    if not isinstance(answer, str):
        raise SummaryFailed(f"the model returned {type(answer).__name__} instead of a text")
    if wrong := fault(answer, budget, source):
        raise SummaryFailed(f"the summary was rejected: {wrong}")
    return answer.strip()


def _entries(task: Task, room: int, filling: float) -> list[str]:
    """One text per message. The cap per message falls until all fit into the pieces; then the oldest results go."""
    places = [at for at, message in enumerate(task.messages) if not is_block(message)]
    sample = "\n".join(_entry(task, at, _CAPS[0]) for at in places[:: max(len(places) // 24, 1)])
    per_token = max(len(sample) / max(estimate(sample), 1), _FEWEST_CHARACTERS)
    space = round(room * per_token * MOST_PIECES * filling)
    sizes = [_size(task.messages[at]) for at in places]
    cap = next((cap for cap in _CAPS if sum(min(size, cap) + 24 for size in sizes) <= space), None)
    if cap is not None:
        return [_entry(task, at, cap) for at in places]
    return _sampled(task, places, space)


def _sampled(task: Task, places: list[int], space: int) -> list[str]:
    """Too many messages even when each is short: what people said first, evenly thinned, with the gaps counted."""
    cap = _CAPS[-1]
    most = max(space // (cap + 24), 1)
    spoken = [at for at in places if task.messages[at].get("role") == "user"] or places
    step = -(-len(spoken) // most)
    chosen = set(spoken[::-1][::step])
    for at in reversed(places):
        if len(chosen) >= most:
            break
        chosen.add(at)
    entries: list[str] = []
    skipped = 0
    for at in places:
        if at not in chosen:
            skipped += 1
            continue
        if skipped:
            entries.append(f"[{skipped:,} messages not shown]")
            skipped = 0
        entries.append(_entry(task, at, cap))
    return entries


def _entry(task: Task, at: int, cap: int) -> str:
    message, number = task.messages[at], task.ids[at]
    text, calls = plain(message) if task.masks is None else task.masks.of(message, number)
    role = str(message.get("role") or "?").upper()
    if number is not None:
        role = f"{role} {number}"
    if role.startswith("TOOL") and message.get("name"):
        role = f"{role} {message['name']}"
    shown = f"[{role}] {text if len(text) <= cap else excerpt(text, cap)}".rstrip()
    if calls:
        shown = "\n  calls ".join((shown, *(excerpt(call, cap // ARGUMENTS) for call in calls)))
    return shown


def _size(message: Message) -> int:
    content = message.get("content")
    size = len(content) if isinstance(content, str) else len(text_of(message))
    if not message.get("tool_calls"):
        return size
    return size + sum(min(len(arguments), _CAPS[0] // ARGUMENTS) + 20 for _, _, arguments in calls_of(message))


def _packed(entries: list[str], room: int) -> list[str]:
    """Entries joined to texts of at most `room` tokens; one that is larger than that is cut.

    Plain text is weighed by its length; when a sample of the result says that this was too little, each is looked at.
    """
    per_token = _characters_per_token(entries)
    pieces = _filled(entries, room, lambda entry: int(len(entry) / per_token) + 2 if entry.isascii() else _exact(entry))
    if any(estimate_sampled(piece) * 1.05 > room for piece in pieces):
        return _filled(entries, room, _exact)
    return pieces


def _filled(entries: list[str], room: int, weigh: Callable[[str], int]) -> list[str]:
    pieces: list[str] = []
    current: list[str] = []
    filled = 0
    for entry in entries:
        cost = weigh(entry)
        if cost > room:
            entry = excerpt(entry, max(len(entry) * room // (cost * 2), 40))  # noqa: PLW2901 - the shorter form
            cost = min(_exact(entry), room)
        if current and filled + cost > room:
            pieces.append("\n".join(current))
            current, filled = [], 0
        current.append(entry)
        filled += cost
    return [*pieces, "\n".join(current)] if current else pieces


def _exact(entry: str) -> int:
    return estimate(entry) + 2


def _characters_per_token(entries: list[str]) -> float:
    """Of a sample, rounded against us."""
    sample = "\n".join(entry[:_SAMPLED] for entry in entries[:: max(len(entries) // 16, 1)])
    return max(min(len(sample) / max(estimate(sample), 1), 4.5) * 0.9, _FEWEST_CHARACTERS)
