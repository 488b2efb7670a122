"""Phase 4: head, block and tail become one valid history, and the record of what happened."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hermes.compression.audit import count_kept, keep_exactly
from hermes.compression.block import SYSTEM_NOTE, render_block
from hermes.compression.boundaries import (
    block_messages,
    clear_tool_results,
    group_start,
    repair_pairs,
    shorten_results,
    shortened_ids,
)
from hermes.compression.ladder import EXTRACT
from hermes.compression.pointers import chapters_of, render_chapters
from hermes.compression.reading import Counts, estimate_sampled, text_of
from hermes.compression.wanted import NAMES_SHARE
from hermes.vocabulary.tokens import estimate_message
from hermes.vocabulary.words import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermes.compression.audit import Held
    from hermes.compression.block import Block
    from hermes.compression.boundaries import Cut
    from hermes.compression.facts import Fact
    from hermes.compression.ladder import Attempt
    from hermes.compression.pointers import Chapter

    Messages = Sequence[dict[str, Any]]
    Ids = Sequence[int | None]

KEPT_SHARE = 1 / 3  # of the summary's budget
POINTERS_SHARE = 1 / 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """What a compaction made of a history. `ids` stand beside `messages`: None for what was written just now."""

    messages: list[dict[str, Any]]
    ids: list[int | None]
    replaced: list[int]  # messages that left the context, or stayed in a shorter form: archive these first
    how: str  # "helper", "main", "helper in 3 pieces", "extract", or "unchanged"
    reason: str = ""  # why nothing was changed
    summary: str = ""
    kept_exactly: int = 0
    failures: tuple[str, ...] = ()
    tokens_before: int = 0
    tokens_after: int = 0

    @property
    def changed(self) -> bool:
        return self.how != "unchanged"

    def followed_by(self, messages: Messages, ids: Sequence[int]) -> Compaction:
        """The same with messages behind it that took no part."""
        return replace(self, messages=[*self.messages, *messages], ids=[*self.ids, *ids]) if messages else self

    @property
    def notice(self) -> str:
        """One sentence for the person."""
        if not self.changed:
            return f"Nothing was compacted: {self.reason}."
        made = "without a model"
        if self.how.startswith(("helper", "main")):
            made = f"by the {self.how.replace('main', 'main model', 1)}"
        elif self.how != "extract":
            made = f"by the context engine {self.how}"
        messages = counted(len(self.replaced), "message was", "messages were")
        return (
            f"{messages} compacted {made} (about {self.tokens_before:,} to {self.tokens_after:,} tokens); "
            f"kept word for word: {counted(self.kept_exactly, 'detail')}. Every original can be read again."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What stands for the middle: its summary, what an earlier block said, the facts neither may lose."""

    attempt: Attempt
    held: Held  # by the summary
    previous: Block
    facts: Sequence[Fact]
    budget: int

    def render(self, chapters: Sequence[Chapter]) -> tuple[str, str]:
        """What is kept exactly, and the text of the whole block."""
        room = round(self.budget * KEPT_SHARE)
        for_names = 0 if self.attempt.how == EXTRACT else NAMES_SHARE  # an extract has sections for them
        kept = keep_exactly(self.previous.kept, self.facts, self.held, room, for_names)
        return kept, render_block(
            self.attempt.text, kept, render_chapters(chapters, round(self.budget * POINTERS_SHARE))
        )


def unchanged(messages: Messages, ids: Ids, tokens: int, reason: str, failures: tuple[str, ...] = ()) -> Compaction:
    return Compaction(
        messages=list(messages), ids=list(ids), replaced=[], how="unchanged", reason=reason, failures=failures,
        tokens_before=tokens, tokens_after=tokens,
    )  # fmt: skip


def assemble(
    messages: Messages,
    ids: Ids,
    counts: Counts,
    cut: Cut,
    past: Past,
    *,
    tail_ceiling: int,
    tokens_before: int,
) -> Compaction:
    head = _repaired(_with_note(messages, cut.head), range(cut.head))
    pinned = [(messages[cut.pinned], cut.pinned)] if cut.pinned is not None else []
    shortened = _fitting_tail(messages, ids, counts, cut, tail_ceiling)
    tail = [*pinned, *_repaired(shortened, range(cut.tail, len(messages)))]
    stay = {at for _, at in head + tail}
    gone = [at for at in range(len(messages)) if at not in stay]
    leaving = [messages[at] for at in gone]
    left = chapters_of(leaving, [ids[at] for at in gone], shortened_ids(leaving), counts.sizes(gone))
    chapters = [*past.previous.chapters, *left]
    kept, text = past.render(chapters)
    block = block_messages(text, _last_spoken(head), tail[0][0] if tail else None)
    placed = [*head, *((message, None) for message in block), *tail]
    # A message that stays under its id is the stored one; one in a shorter form is new, and the stored one is archived.
    new_ids = [ids[at] if at is not None and message is messages[at] else None for message, at in placed]
    still = set(new_ids)
    return Compaction(
        messages=[message for message, _ in placed],
        ids=new_ids,
        replaced=[each for each in ids if each is not None and each not in still],
        how=past.attempt.how,
        summary=past.attempt.text,
        kept_exactly=count_kept(kept),
        failures=past.attempt.failures,
        tokens_before=tokens_before,
        tokens_after=sum(_tokens(messages, counts, message, at) for message, at in placed),
    )


def _with_note(messages: Messages, head: int) -> Messages:
    """The head; a system message says from the first compaction on that there is a block."""
    if not head or messages[0].get("role") != "system" or SYSTEM_NOTE in text_of(messages[0]):
        return messages[:head]
    content = messages[0].get("content")
    if isinstance(content, list):
        noted: object = [*content, {"type": "text", "text": SYSTEM_NOTE}]
    else:
        noted = f"{content or ''}\n\n{SYSTEM_NOTE}".strip()
    return [{**messages[0], "content": noted}, *messages[1:head]]


def _fitting_tail(messages: Messages, ids: Ids, counts: Counts, cut: Cut, ceiling: int) -> Messages:
    """The tail as it is, unless it alone would fill the window.

    Then its older tool results are cleared and the newest shortened: an overflow would end the conversation.
    """
    tail = messages[cut.tail :]
    if sum(counts[at] for at in range(cut.tail, len(messages))) <= ceiling:
        return tail
    numbers = ids[cut.tail :]
    last = group_start(messages, len(messages) - 1) - cut.tail
    cleared = clear_tool_results(tail, max(last, 0), numbers)
    return shorten_results(cleared, numbers, Counts(cleared), ceiling)


def _repaired(messages: Messages, places: Sequence[int]) -> list[tuple[dict[str, Any], int | None]]:
    repaired, origin = repair_pairs(messages)
    return [(message, None if at is None else places[at]) for message, at in zip(repaired, origin, strict=True)]


def _last_spoken(head: list[tuple[dict[str, Any], int | None]]) -> dict[str, Any] | None:
    last = head[-1][0] if head else None
    return last if last is not None and last.get("role") not in ("system", "developer") else None


def _tokens(messages: Messages, counts: Counts, message: dict[str, Any], at: int | None) -> int:
    if at is not None and message is messages[at]:
        return counts[at]
    content = message.get("content")
    return estimate_sampled(content) if isinstance(content, str) else estimate_message(message)
