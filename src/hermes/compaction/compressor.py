"""`ContextCompressor`: the built-in context engine. Four phases, several summarisers, nothing dropped silently.

    compressor = ContextCompressor(context_length=200_000, summarise=helper, main_summarise=main)
    if compressor.should_compress(prompt_tokens):
        done = compressor.compact(messages, ids=ids, counts=counts)
        …archive done.replaced, go on with done.messages, tell the person done.notice, store compressor.breaker…

It reads no clock of its own but the one handed in, keeps nothing but counters, and calls a model only through the
functions it was given.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from hermes.base.text import counted
from hermes.base.tokens import estimate_message
from hermes.compaction.engine import ContextEngine
from hermes.compaction.facts import NAMES_SHARE, Held, count_kept, facts_in, find_facts, keep_exactly, ledger
from hermes.compaction.messages import (
    SYSTEM_NOTE,
    Counts,
    block_messages,
    blocks_in,
    chapters_of,
    clear_tool_results,
    estimate_sampled,
    find_cut,
    group_start,
    is_block,
    join_blocks,
    parse_block,
    render_block,
    render_chapters,
    repair_pairs,
    shorten_results,
    shortened_ids,
    text_of,
)
from hermes.compaction.summary import SummaryFailed, Task, extract, summarise

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hermes.compaction.facts import Fact
    from hermes.compaction.messages import Block, Chapter, Cut
    from hermes.compaction.summary import Summariser

    Messages = Sequence[dict[str, Any]]
    Ids = Sequence[int | None]

EXTRACT = "extract"
_KEPT_SHARE = 1 / 3  # of the summary's budget
_LEDGER_SHARE = 1 / 5
_POINTERS_SHARE = 1 / 4
SUMMARY_RATIO = 0.20
SUMMARY_LEAST = 2_000
SUMMARY_MOST = 12_000
SUMMARY_SHARE_OF_WINDOW = 0.05
HYGIENE_THRESHOLD = 0.85
HYGIENE_MESSAGES = 4
_PAYS = 0.10  # of the tokens; a compaction that saves less costs more than it brings
_FEWEST_FACTS = 200
_TOKENS_PER_FACT = 16  # of the summary's budget: about as many as the block can keep word for word
_TOO_LITTLE = "it would save less than a tenth"
NO_SUMMARY = "no model could summarise"
_ROUGH_TOLERANCE = 0.05
TRIPS_AFTER = 2  # compactions in a row after which the prompt was still too large
TRANSIENT = (60.0, 300.0, 900.0)  # seconds without the model after the first, second and further failure
OTHER = 60.0
REGROWTH = 0.10  # of the window: when the prompt grew by that much, another try may pay


@dataclass(frozen=True, kw_only=True)
class Breaker:
    """How the last compactions and summaries went.

    Nothing but a prompt below the threshold clears it: no end of a session, no restart.
    """

    ineffective: int = 0
    waiting: bool = False  # a compaction happened and no real prompt size has been seen since
    tokens: int = 0  # the prompt size at which the last ineffective compaction was noticed
    helper_failures: int = 0
    helper_until: float = 0.0  # seconds since the epoch
    main_failures: int = 0
    main_until: float = 0.0
    error: str = ""

    def blocks(self, prompt_tokens: int, context_length: int) -> bool:
        """Whether compaction by itself would only thrash now; a person may still ask for it."""
        return self.ineffective >= TRIPS_AFTER and prompt_tokens < self.tokens + context_length * REGROWTH

    def may_ask(self, who: str, now: float) -> bool:
        until = self.helper_until if who == "helper" else self.main_until
        return not now < until <= now + TRANSIENT[-1]  # further ahead: the clock was wrong when it was stored

    def compacted(self) -> Breaker:
        return replace(self, waiting=True)

    def could_not_compact(self, prompt_tokens: int) -> Breaker:
        """A pass found nothing worth taking out."""
        return replace(self, ineffective=self.ineffective + 1, tokens=prompt_tokens, waiting=False)

    def read(self, prompt_tokens: int, threshold: int) -> Breaker:
        """What the provider counted: the first figure after a compaction tells whether it helped."""
        if prompt_tokens < threshold:
            return replace(self, ineffective=0, waiting=False, tokens=0) if self.ineffective or self.waiting else self
        if self.waiting:
            return replace(self, ineffective=self.ineffective + 1, waiting=False, tokens=prompt_tokens)
        return self

    def failed(self, who: str, error: str, now: float, *, transient: bool) -> Breaker:
        failures = (self.helper_failures if who == "helper" else self.main_failures) + 1
        pause = TRANSIENT[min(failures, len(TRANSIENT)) - 1] if transient else OTHER
        changes: dict[str, Any] = {f"{who}_failures": failures, f"{who}_until": now + pause, "error": error}
        return replace(self, **changes)

    def answered(self, who: str) -> Breaker:
        changes: dict[str, Any] = {f"{who}_failures": 0, f"{who}_until": 0.0, "error": ""}
        return replace(self, **changes)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any] | None) -> Breaker:
        """The stored value; fields that are missing or of another kind start fresh."""
        fresh = cls().as_dict()
        known: dict[str, Any] = {}
        for name, default in fresh.items():
            given = (stored or {}).get(name)
            whole = isinstance(default, float) and type(given) is int
            known[name] = given if type(given) is type(default) or whole else default
        return cls(**known)


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

    def extended(self, lines: Sequence[str]) -> Compaction:
        """The same with these lines among what its block keeps exactly."""
        at = next((at for at, message in enumerate(self.messages) if is_block(message)), None)
        if at is None or not lines:
            return self
        block = parse_block(self.messages[at])
        pointers = "\n".join(chapter.line for chapter in block.chapters)
        text = render_block(block.summary, "\n".join(filter(None, (block.kept, *lines))), pointers, block.ledger)
        return replace(
            self, messages=[*self.messages[:at], {**self.messages[at], "content": text}, *self.messages[at + 1 :]]
        )

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
class Attempt:
    """The text that replaces the middle, who made it, and what failed before."""

    text: str
    how: str
    failures: tuple[str, ...] = ()


class _Model(NamedTuple):
    """A model that may be asked: "helper" or "main", the function that asks it, its window in tokens."""

    who: str
    ask: Summariser
    window: int
    knows_all: bool  # has seen the conversation; one that has not may be somebody else's service


@dataclass(frozen=True, slots=True, kw_only=True)
class _Past:
    """What replaces the middle: its summary, what an earlier block said, the facts neither may lose."""

    attempt: Attempt
    previous: Block
    facts: Sequence[Fact]
    budget: int

    def render(self, chapters: Sequence[Chapter], leaving: Messages) -> tuple[str, str]:
        """What is kept exactly, and the text of the whole block that replaces the messages that leave."""
        held = Held(self.attempt.text)
        room = round(self.budget * _KEPT_SHARE)
        for_names = 0 if self.attempt.how == EXTRACT else NAMES_SHARE  # an extract has sections for them
        kept = keep_exactly(self.previous.kept, self.facts, held, room, for_names)
        pointers = render_chapters(chapters, round(self.budget * _POINTERS_SHARE))
        done = ledger(self.previous.ledger, leaving, round(self.budget * _LEDGER_SHARE))
        return kept, render_block(self.attempt.text, kept, pointers, done)


class ContextCompressor(ContextEngine):
    """The built-in context engine: head, summary block, tail."""

    def __init__(
        self,
        context_length: int = 200_000,
        *,
        enabled: bool = True,
        threshold: float = 0.50,
        target_ratio: float = 0.20,
        protect_last_n: int = 20,
        protect_first_n: int = 3,
        abort_on_summary_failure: bool = False,
        summarise: Summariser | None = None,
        summary_context_length: int | None = None,
        main_summarise: Summariser | None = None,
        breaker: Breaker | None = None,
        clock: Callable[[], float] = time.time,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        """`breaker` is the one stored with the session.

        `summarise` is the helper model with a window of `summary_context_length` tokens (the main model's when left
        out), `main_summarise` the main model.
        """
        self.enabled = enabled
        self.threshold_percent = min(max(threshold, 0.0), 1.0)
        self.target_ratio = min(max(target_ratio, 0.10), 0.80)
        self.protect_last_n = max(protect_last_n, 1)
        self.protect_first_n = max(protect_first_n, 0)
        self.abort_on_summary_failure = abort_on_summary_failure
        self.breaker = breaker or Breaker()
        self._helper, self._helper_window = summarise, summary_context_length
        self._main = main_summarise
        self._clock, self._timer = clock, timer
        self.update_model("", context_length)

    @property
    def name(self) -> str:
        return "compressor"

    @property
    def tail_token_budget(self) -> int:
        return int(self.threshold_tokens * self.target_ratio)

    @property
    def max_summary_tokens(self) -> int:
        return max(int(min(self.context_length * SUMMARY_SHARE_OF_WINDOW, SUMMARY_MOST)), 1)

    def use_summarisers(
        self,
        summarise: Summariser | None = None,
        summary_context_length: int | None = None,
        main_summarise: Summariser | None = None,
    ) -> None:
        self._helper, self._helper_window, self._main = summarise, summary_context_length, main_summarise

    def summary_budget(self, content_tokens: int) -> int:
        """A fifth of what is summarised, from 2,000 tokens up to 5 % of the window and 12,000."""
        return min(max(int(content_tokens * SUMMARY_RATIO), SUMMARY_LEAST), self.max_summary_tokens)

    def update_from_response(self, usage: Mapping[str, Any]) -> None:
        self.last_prompt_tokens = int(usage.get("prompt_tokens") or 0)
        self.last_completion_tokens = int(usage.get("completion_tokens") or 0)
        total = self.last_prompt_tokens + self.last_completion_tokens
        self.last_total_tokens = int(usage.get("total_tokens") or total)
        if self.last_prompt_tokens:
            self.breaker = self.breaker.read(self.last_prompt_tokens, self.threshold_tokens)

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        tokens = self.last_prompt_tokens if prompt_tokens is None else prompt_tokens
        if not self.enabled or tokens < self.threshold_tokens or tokens <= 0:
            return False
        return not self.breaker.blocks(tokens, self.context_length)

    def should_compress_preflight(self, messages: list[dict[str, Any]]) -> bool:
        return self.should_compress(Counts(messages).total(0, len(messages)))

    def should_defer_preflight_to_real_usage(self, rough_tokens: int) -> bool:
        """An estimate just over the threshold waits when the provider's last figure was below it."""
        tolerance = max(4_096, int(self.threshold_tokens * _ROUGH_TOLERANCE))
        return 0 < self.last_prompt_tokens < self.threshold_tokens and rough_tokens < self.threshold_tokens + tolerance

    def needs_hygiene(self, messages: Messages, prompt_tokens: int | None = None) -> bool:
        """The safety net before a message is handled: 85 % of the window, four messages or more."""
        if not self.enabled or len(messages) < HYGIENE_MESSAGES:
            return False
        tokens = prompt_tokens or Counts(messages).total(0, len(messages))
        return tokens >= self.context_length * HYGIENE_THRESHOLD

    def has_content_to_compress(self, messages: list[dict[str, Any]]) -> bool:
        return not all(map(is_block, self._cut(messages, Counts(messages)).middle(messages)))

    def compress(
        self,
        messages: list[dict[str, Any]],
        current_tokens: int | None = None,
        focus_topic: str | None = None,
        *,
        force: bool = False,
        memory_context: str | None = None,
    ) -> list[dict[str, Any]]:
        """The documents' call. Messages may carry their id as `_id`, so that the block can point to them."""
        given = [message.get("_id") for message in messages]
        ids = [each if isinstance(each, int) else None for each in given]
        done = self.compact(
            messages, ids=ids, current_tokens=current_tokens, focus=focus_topic or "", force=force,
            memory_context=memory_context or "",
        )  # fmt: skip
        return done.messages

    def compact(
        self,
        messages: Sequence[dict[str, Any]],
        *,
        ids: Sequence[int | None] | None = None,
        counts: Sequence[int | None] | None = None,
        current_tokens: int | None = None,
        focus: str = "",
        force: bool = False,
        memory_context: str = "",
        deadline: float | None = None,
        cut: Cut | None = None,
        fewer: bool = False,
    ) -> Compaction:
        """Compacts, or says why not; with `cut` exactly what it says.

        `ids` and `counts` stand beside the messages; `deadline` is a time of the timer after which no further model
        call begins. With `force` a person asked for it: breaker, cooldowns and thrift are off. With `fewer` there are
        too many messages, and it is their number that has to become smaller.
        """
        numbers = list(ids) if ids is not None else [None] * len(messages)
        if len(numbers) != len(messages):
            raise ValueError(f"{len(messages)} messages need as many ids, not {len(numbers)}")
        known = Counts(messages, counts)
        before = known.total(0, len(messages))
        ceiling = before if cut is not None else self._tail_ceiling  # what somebody asked for touches nothing else
        cut = cut or self._cut(messages, known)
        budget, refusal = self._worth(messages, known, cut, before, force=force or fewer)
        if refusal:
            return self._not_worth_it(messages, numbers, max(before, current_tokens or 0), refusal)
        said, said_ids = cut.middle(messages), cut.middle(numbers)
        if blocks := blocks_in(said):
            said_ids = [number for number, message in zip(said_ids, said, strict=True) if not is_block(message)]
            said = [message for message in said if not is_block(message)]
        previous = join_blocks([parse_block(message) for message in blocks])
        task = Task(
            messages=said,
            ids=said_ids,
            budget=budget,
            previous=previous.summary,
            focus=focus,
            memory_context=memory_context,
            facts=find_facts(said, max(_FEWEST_FACTS, budget // _TOKENS_PER_FACT)),
            deadline=deadline,
            force=force,
        )
        attempt = self.summarised(task)
        if attempt.how == EXTRACT and self.abort_on_summary_failure:
            return unchanged(messages, numbers, before, NO_SUMMARY, attempt.failures)
        facts = [*task.facts, *facts_in(previous.summary)]
        past = _Past(attempt=attempt, previous=previous, facts=facts, budget=budget)
        done = _assembled(messages, numbers, known, cut, past, tail_ceiling=ceiling, tokens_before=before)
        if fewer and done.tokens_after < max(before, self.threshold_tokens):
            return self._compacted(done)
        if not force and done.tokens_after > before * (1 - _PAYS):
            return self._not_worth_it(messages, numbers, max(before, current_tokens or 0), _TOO_LITTLE)
        if done.tokens_after >= before:
            return unchanged(messages, numbers, before, "it would not become smaller", attempt.failures)
        return self._compacted(done)

    def would_ask(
        self,
        messages: Sequence[dict[str, Any]],
        counts: Sequence[int | None] | None = None,
        *,
        force: bool = False,
        cut: Cut | None = None,
        fewer: bool = False,
    ) -> bool:
        """Whether `compact` would ask a model for a summary of something whose removal pays; asks none itself."""
        known = Counts(messages, counts)
        cut = cut or self._cut(messages, known)
        before = known.total(0, len(messages))
        if self._worth(messages, known, cut, before, force=force or fewer)[1]:
            return False
        return any(force or self.breaker.may_ask(model.who, self._clock()) for model in self._models())

    def summarised(self, task: Task) -> Attempt:
        """Phase 3: a summary by the helper model, the helper in smaller pieces or the main model; else an extract."""
        failures: list[str] = []
        for model in self._models():
            if not task.force and not self.breaker.may_ask(model.who, self._clock()):
                failures.append(f"{model.who}: rests after {self.breaker.error or 'a failure'}")
            elif (found := self._ask(model, task, failures)) is not None:
                return found
        text = extract(task.messages, task.ids, task.facts, task.budget, task.previous)
        return Attempt(text=text, how=EXTRACT, failures=tuple(failures))

    def on_session_reset(self) -> None:
        super().on_session_reset()
        self.breaker = Breaker()

    def get_status(self) -> dict[str, Any]:
        tripped = self.breaker.blocks(self.last_prompt_tokens, self.context_length)
        return super().get_status() | {"tripped": tripped, "last_error": self.breaker.error}

    @property
    def _tail_ceiling(self) -> int:
        """What the tail may take at most: half of the threshold, so that head, block and growth find room."""
        return max(self.tail_token_budget, self.threshold_tokens // 2)

    def _compacted(self, done: Compaction) -> Compaction:
        self.compression_count += 1
        self.breaker = self.breaker.compacted()
        return done

    def _cut(self, messages: Sequence[dict[str, Any]], counts: Counts) -> Cut:
        return find_cut(
            messages,
            counts,
            protect_first_n=self.protect_first_n,
            protect_last_n=self.protect_last_n,
            tail_budget=self.tail_token_budget,
            head_ceiling=self.threshold_tokens // 4,
            tail_ceiling=self._tail_ceiling,
        )

    def _worth(self, messages: Messages, counts: Counts, cut: Cut, before: int, *, force: bool) -> tuple[int, str]:
        """How many tokens a summary of the middle may take, and why it is not worth asking for one; "" when it is."""
        content = counts.total(cut.head, cut.tail) - (counts[cut.pinned] if cut.pinned is not None else 0)
        budget = self.summary_budget(content)
        if all(map(is_block, cut.middle(messages))):
            return budget, "everything in it is protected"
        return budget, "" if force or content - budget >= before * _PAYS else _TOO_LITTLE

    def _models(self) -> list[_Model]:
        models = []
        if self._helper is not None:
            models.append(_Model("helper", self._helper, self._helper_window or self.context_length, knows_all=False))
        if self._main is not None:
            models.append(_Model("main", self._main, self.context_length, knows_all=True))
        return models

    def _ask(self, model: _Model, task: Task, failures: list[str]) -> Attempt | None:
        shown = task if model.knows_all else task.masked()
        transient = False
        # A model that failed on the whole may be smaller than it says: half its window is tried once.
        for window in (model.window, model.window // 2):
            try:
                text, calls = summarise(shown, model.ask, window, self._timer)
            except SummaryFailed as failure:
                failures.append(f"{model.who}: {failure}")
                transient = failure.transient
                if transient:
                    break
                continue
            self.breaker = self.breaker.answered(model.who)
            how = model.who if calls == 1 else f"{model.who} in {calls} pieces"
            return Attempt(text=text, how=how, failures=tuple(failures))
        self.breaker = self.breaker.failed(model.who, failures[-1], self._clock(), transient=transient)
        return None

    def _not_worth_it(
        self, messages: Sequence[dict[str, Any]], ids: Sequence[int | None], tokens: int, why: str
    ) -> Compaction:
        self.breaker = self.breaker.could_not_compact(max(tokens, self.last_prompt_tokens))
        return unchanged(messages, ids, tokens, why)


def unchanged(messages: Messages, ids: Ids, tokens: int, reason: str, failures: tuple[str, ...] = ()) -> Compaction:
    return Compaction(
        messages=list(messages), ids=list(ids), replaced=[], how="unchanged", reason=reason, failures=failures,
        tokens_before=tokens, tokens_after=tokens,
    )  # fmt: skip


def _assembled(
    messages: Messages,
    ids: Ids,
    counts: Counts,
    cut: Cut,
    past: _Past,
    *,
    tail_ceiling: int,
    tokens_before: int,
) -> Compaction:
    """Phase 4: head, block and tail become one valid history."""
    head = _repaired(_with_note(messages, cut.head), range(cut.head))
    pinned = [(messages[cut.pinned], cut.pinned)] if cut.pinned is not None else []
    shortened = _fitting_tail(messages, ids, counts, cut, tail_ceiling)
    tail = [*pinned, *_repaired(shortened, range(cut.tail, len(messages)))]
    stay = {at for _, at in head + tail}
    gone = [at for at in range(len(messages)) if at not in stay]
    leaving = [messages[at] for at in gone]
    left = chapters_of(leaving, [ids[at] for at in gone], shortened_ids(leaving), counts.sizes(gone))
    chapters = [*past.previous.chapters, *left]
    kept, text = past.render(chapters, leaving)
    before = head[-1][0] if head and head[-1][0].get("role") not in ("system", "developer") else None
    block = block_messages(text, before, tail[0][0] if tail else None)
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


def _tokens(messages: Messages, counts: Counts, message: dict[str, Any], at: int | None) -> int:
    if at is not None and message is messages[at]:
        return counts[at]
    content = message.get("content")
    return estimate_sampled(content) if isinstance(content, str) else estimate_message(message)
