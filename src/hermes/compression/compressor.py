"""`ContextCompressor`: the built-in context engine. Four phases, a ladder of summarisers, and nothing silently dropped.

    compressor = ContextCompressor(context_length=200_000, summarise=helper, main_summarise=main)
    if compressor.should_compress(prompt_tokens):
        done = compressor.compact(messages, ids=ids, counts=counts)
        …archive done.replaced, go on with done.messages, tell the person done.notice, store compressor.breaker…

It reads no clock of its own but the one handed in, keeps nothing but counters, and calls a model only through the
functions it was given.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from hermes.compression.assembly import KEPT_SHARE, Past, assemble, unchanged
from hermes.compression.audit import Held, texts_in
from hermes.compression.block import blocks_in, is_block, join_blocks, parse_block
from hermes.compression.boundaries import find_cut
from hermes.compression.breaker import Breaker
from hermes.compression.engine import ContextEngine
from hermes.compression.extract import wanted_for
from hermes.compression.facts import facts_in, find_facts
from hermes.compression.ladder import EXTRACT, Ladder, Rung
from hermes.compression.reading import Counts
from hermes.compression.summary import Task
from hermes.compression.wanted import Wanted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hermes.compression.assembly import Compaction
    from hermes.compression.boundaries import Cut
    from hermes.compression.facts import Fact
    from hermes.compression.ladder import Attempt
    from hermes.compression.reading import Message
    from hermes.compression.summary import Summariser

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


class ContextCompressor(ContextEngine):
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

    def needs_hygiene(self, messages: Sequence[Message], prompt_tokens: int | None = None) -> bool:
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
        given_cut, cut = cut is not None, cut or self._cut(messages, known)
        said, said_ids = cut.middle(messages), cut.middle(numbers)
        if blocks := blocks_in(said):
            said_ids = [number for number, message in zip(said_ids, said, strict=True) if message not in blocks]
            said = [message for message in said if message not in blocks]
        content, budget = self._content(known, cut)
        if refusal := self._refusal(said, content - budget, before, force=force or fewer):
            return self._not_worth_it(messages, numbers, max(before, current_tokens or 0), refusal)
        previous = join_blocks([parse_block(message) for message in blocks])
        facts = _Facts(said, budget)
        task = Task(
            messages=said,
            ids=said_ids,
            budget=budget,
            previous=previous.summary,
            focus=focus,
            memory_context=memory_context,
        )
        attempt = self.summarised(task, facts.shown, deadline=deadline, force=force)
        self.breaker = attempt.breaker
        if attempt.how == EXTRACT and self.abort_on_summary_failure:
            return unchanged(messages, numbers, before, NO_SUMMARY, attempt.failures)
        held = Held(attempt.text)
        found = [*facts.beside(held, previous.kept), *facts_in(previous.summary)]
        past = Past(attempt=attempt, held=held, previous=previous, facts=found, budget=budget)
        ceiling = before if given_cut else self._tail_ceiling  # what somebody asked for touches nothing else
        done = assemble(messages, numbers, known, cut, past, tail_ceiling=ceiling, tokens_before=before)
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
        said = [message for message in cut.middle(messages) if not is_block(message)]
        content, budget = self._content(known, cut)
        if self._refusal(said, content - budget, known.total(0, len(messages)), force=force or fewer):
            return False
        return any(force or self.breaker.may_ask(rung.who, self._clock()) for rung in self._rungs())

    def summarised(
        self, task: Task, facts: Callable[[], Sequence[Fact]], *, deadline: float | None, force: bool
    ) -> Attempt:
        """Phase 3: the text that stands for the middle, from whoever can make it; an extract asks for `facts`."""
        ladder = Ladder(self._rungs(), self.breaker, clock=self._clock, timer=self._timer)
        return ladder.climb_down(task, facts, deadline=deadline, force=force)

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

    # --- phases ------------------------------------------------------------------------------------------------------

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

    def _content(self, counts: Counts, cut: Cut) -> tuple[int, int]:
        """Tokens of what would be summarised, and how many the summary may take."""
        content = counts.total(cut.head, cut.tail) - (counts[cut.pinned] if cut.pinned is not None else 0)
        return content, self.summary_budget(content)

    def _rungs(self) -> list[Rung]:
        rungs = []
        if self._helper is not None:
            window = self._helper_window or self.context_length
            rungs.append(Rung(who="helper", ask=self._helper, window=window, is_stranger=True))
        if self._main is not None:
            rungs.append(Rung(who="main", ask=self._main, window=self.context_length))
        return rungs

    @staticmethod
    def _refusal(said: Sequence[Message], saved: int, before: int, *, force: bool) -> str:
        if not said:
            return "everything in it is protected"
        return _TOO_LITTLE if not force and saved < before * _PAYS else ""

    def _not_worth_it(
        self, messages: Sequence[dict[str, Any]], ids: Sequence[int | None], tokens: int, why: str
    ) -> Compaction:
        self.breaker = self.breaker.could_not_compact(max(tokens, self.last_prompt_tokens))
        return unchanged(messages, ids, tokens, why)


class _Facts:
    """Facts of the messages that are summarised, found once it is known what there is room for."""

    def __init__(self, said: Sequence[Message], budget: int) -> None:
        self._said, self._budget = said, budget
        self._room = budget * KEPT_SHARE
        self._enough = max(_FEWEST_FACTS, budget // _TOKENS_PER_FACT)
        self._shown: list[Fact] | None = None

    def shown(self) -> list[Fact]:
        """For an extract, and to be kept beside it."""
        self._shown = find_facts(self._said, wanted_for(self._said, self._budget, self._room, self._enough))
        return self._shown

    def beside(self, held: Held, kept: str) -> list[Fact]:
        """To be kept beside a summary that holds some already, as an earlier block keeps some."""
        if self._shown is not None:
            return self._shown
        already = texts_in(kept)
        is_held = held.has if not already else lambda text: text in already or held.has(text)
        return find_facts(self._said, Wanted(self._enough, self._room, is_held=is_held))
