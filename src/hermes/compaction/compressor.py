"""`ContextCompressor`: the built-in context engine, which replaces the middle of a conversation by a summary block.

    compressor = ContextCompressor(context_length=200_000, summarise=helper, main_summarise=main)
    if compressor.should_compress(prompt_tokens):
        done = compressor.compact(messages, ids=ids, counts=counts)
        …archive done.replaced, continue with done.messages, show done.notice, store compressor.breaker…

It uses only the clock it was given, keeps no state but counters, and calls models only through the functions it was
given.
"""

from __future__ import annotations

import re
import time
from dataclasses import asdict, dataclass, replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple

from hermes.base.errors import HermesError
from hermes.base.text import counted
from hermes.base.tokens import estimate, estimate_message
from hermes.compaction.engine import ContextEngine
from hermes.compaction.facts import (
    NAMES_SHARE,
    Held,
    by_importance,
    count_kept,
    ends_of,
    facts_in,
    failure_in,
    fault,
    find_facts,
    keep_exactly,
    ledger,
)
from hermes.compaction.messages import (
    SYSTEM_NOTE,
    Counts,
    at_most,
    block_messages,
    blocks_in,
    calls_of,
    chapters_of,
    clear_tool_results,
    estimate_sampled,
    excerpt,
    find_cut,
    group_start,
    is_block,
    join_blocks,
    one_line,
    parse_block,
    pointed_in,
    prose,
    render_block,
    render_chapters,
    repair_pairs,
    shorten_results,
    text_of,
    tool_counts,
)
from hermes.safety.secrets import mask_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hermes.compaction.facts import Fact
    from hermes.compaction.messages import Block, Cut, Message

    Messages = Sequence[dict[str, Any]]
    Ids = Sequence[int | None]
    Summariser = Callable[[str, int], str]

EXTRACT = "extract"  # who made a summary, when no model did
# Shares of the summary's budget, for the other sections of the block.
_KEPT_SHARE = 1 / 3
_LEDGER_SHARE = 1 / 5
_POINTERS_SHARE = 1 / 4
SUMMARY_RATIO = 0.20  # size of a summary relative to what it replaces, within these bounds in tokens:
SUMMARY_LEAST = 2_000
SUMMARY_MOST = 12_000
SUMMARY_SHARE_OF_WINDOW = 0.05
HYGIENE_THRESHOLD = 0.85  # share of the window from which on a turn waits for a compaction
HYGIENE_MESSAGES = 4  # with fewer, nothing is compacted before a message is handled
_PAYS = 0.10  # of the tokens; a compaction that saves less costs more than it brings
_FEWEST_FACTS = 200  # facts that are looked for at least
_TOKENS_PER_FACT = 16  # of the summary's budget; that yields about as many facts as the block has room for
_TOO_LITTLE = "it would save less than a tenth"
NO_SUMMARY = "no model could summarise"
_ROUGH_TOLERANCE = 0.05  # by how much an estimate may exceed the threshold before it counts
TRIPS_AFTER = 2  # compactions in a row after which the prompt was still too large
TRANSIENT = (60.0, 300.0, 900.0)  # seconds without the model after the first, second and further failure
OTHER = 60.0  # seconds without the model after an unusable answer or any other failure
REGROWTH = 0.10  # of the window: when the prompt grew by that much, another try may pay


@dataclass(frozen=True, kw_only=True)
class Breaker:
    """A circuit breaker: how the last compactions and summaries went, stored with the session.

    Only a prompt below the threshold resets the compactions, only an answer a model's failures; a restart does not.
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
        """Whether an automatic compaction would be useless now; a person may still ask for one."""
        return self.ineffective >= TRIPS_AFTER and prompt_tokens < self.tokens + context_length * REGROWTH

    def may_ask(self, who: str, now: float) -> bool:
        """Whether the model ("helper" or "main") may be called again after its last failure."""
        until = self.helper_until if who == "helper" else self.main_until
        return not now < until <= now + TRANSIENT[-1]  # later than any pause: the clock was wrong when it was stored

    def compacted(self) -> Breaker:
        """Notes a compaction; `read` decides later whether it helped."""
        return replace(self, waiting=True)

    def could_not_compact(self, prompt_tokens: int) -> Breaker:
        """Notes a pass that found nothing worth taking out."""
        return replace(self, ineffective=self.ineffective + 1, tokens=prompt_tokens, waiting=False)

    def read(self, prompt_tokens: int, threshold: int) -> Breaker:
        """Takes the prompt size a provider counted: the first one after a compaction shows whether it helped."""
        if prompt_tokens < threshold:
            return replace(self, ineffective=0, waiting=False, tokens=0) if self.ineffective or self.waiting else self
        if self.waiting:
            return replace(self, ineffective=self.ineffective + 1, waiting=False, tokens=prompt_tokens)
        return self

    def failed(self, who: str, error: str, now: float, *, transient: bool) -> Breaker:
        """Notes a failed summary; the model is not called for a while, longer each time if the failure is transient."""
        failures = (self.helper_failures if who == "helper" else self.main_failures) + 1
        pause = TRANSIENT[min(failures, len(TRANSIENT)) - 1] if transient else OTHER
        changes: dict[str, Any] = {f"{who}_failures": failures, f"{who}_until": now + pause, "error": error}
        return replace(self, **changes)

    def answered(self, who: str) -> Breaker:
        """Notes that a model wrote a usable summary, which clears its failures."""
        changes: dict[str, Any] = {f"{who}_failures": 0, f"{who}_until": 0.0, "error": ""}
        return replace(self, **changes)

    def as_dict(self) -> dict[str, Any]:
        """The value as it is stored with the session."""
        return asdict(self)

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any] | None) -> Breaker:
        """Reads a stored value; fields that are missing or of another type get their defaults."""
        fresh = cls().as_dict()
        known: dict[str, Any] = {}
        for name, default in fresh.items():
            given = (stored or {}).get(name)
            whole = isinstance(default, float) and type(given) is int
            known[name] = given if type(given) is type(default) or whole else default
        return cls(**known)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """The result of a compaction. `ids` belong to `messages`, in the same order; None for messages it wrote."""

    messages: list[dict[str, Any]]
    ids: list[int | None]
    replaced: list[int]  # ids to archive first: messages that left the context or were shortened
    how: str  # "helper", "main", "helper in 3 pieces", "extract", or "unchanged"
    reason: str = ""  # why nothing was changed
    kept_exactly: int = 0
    failures: tuple[str, ...] = ()
    tokens_before: int = 0
    tokens_after: int = 0

    @property
    def changed(self) -> bool:
        """Whether anything was compacted; if not, `reason` says why."""
        return self.how != "unchanged"

    def followed_by(self, messages: Messages, ids: Sequence[int]) -> Compaction:
        """Appends messages that took no part in the compaction."""
        return replace(self, messages=[*self.messages, *messages], ids=[*self.ids, *ids]) if messages else self

    def extended(self, lines: Sequence[str]) -> Compaction:
        """Adds lines to the "kept exactly" section of the block."""
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
    """A summary of the middle, who made it, and which attempts failed before."""

    text: str
    how: str
    failures: tuple[str, ...] = ()


class _Model(NamedTuple):
    """A model that may be asked: "helper" or "main", the function that asks it, its window in tokens."""

    who: str
    ask: Summariser
    window: int
    knows_all: bool  # has seen the conversation; for another model, credentials are masked


class ContextCompressor(ContextEngine):
    """The built-in context engine: keeps the head and tail of a context and replaces the middle by a block."""

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
    ) -> None:
        """Sets thresholds, models and the `breaker` stored with the session.

        `summarise` calls the helper model with a window of `summary_context_length` tokens (by default as large as the
        main model's), and `main_summarise` calls the main model.
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
        self._clock = clock
        self.update_model("", context_length)

    @property
    def name(self) -> str:
        return "compressor"

    @property
    def tail_token_budget(self) -> int:
        """How many tokens of the newest messages stay as they are."""
        return int(self.threshold_tokens * self.target_ratio)

    @property
    def max_summary_tokens(self) -> int:
        """The longest summary that fits the window: 5 % of it, and at most 12,000 tokens."""
        return max(int(min(self.context_length * SUMMARY_SHARE_OF_WINDOW, SUMMARY_MOST)), 1)

    def use_summarisers(
        self,
        summarise: Summariser | None = None,
        summary_context_length: int | None = None,
        main_summarise: Summariser | None = None,
    ) -> None:
        """Replaces the models that write summaries; see `__init__`."""
        self._helper, self._helper_window, self._main = summarise, summary_context_length, main_summarise

    def summary_budget(self, content_tokens: int) -> int:
        """The size of a summary: a fifth of the content, at least 2,000 tokens and at most `max_summary_tokens`."""
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
        """Compacts as the interface of engines defines it; messages may carry their id as `_id` for the pointers."""
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
        cut: Cut | None = None,
    ) -> Compaction:
        """Compacts the middle, or the `cut` that is given; the result says why nothing was compacted.

        `ids` and `counts` belong to the messages, in the same order. With `force`, because a person asked for it,
        breaker, pauses and the minimum saving are ignored. A `cut` without `force` means that there are too many
        messages: then a smaller number is enough, even if few tokens are saved.
        """
        fewer = cut is not None and not force
        numbers = list(ids) if ids is not None else [None] * len(messages)
        if len(numbers) != len(messages):
            raise ValueError(f"{len(messages)} messages need as many ids, not {len(numbers)}")
        known = Counts(messages, counts)
        before = known.total(0, len(messages))
        ceiling = before if cut is not None else self._tail_ceiling  # with a cut, nothing outside of it is shortened
        cut = cut or self._cut(messages, known)
        budget, refusal = self._worth(messages, known, cut, before, force=force or fewer)
        if refusal:
            return self._not_worth_it(messages, numbers, max(before, current_tokens or 0), refusal)
        said, said_ids, sizes = cut.middle(messages), cut.middle(numbers), known.sizes(cut.middle(range(len(messages))))
        blocks = blocks_in(said)
        pointed = pointed_in(said) if blocks else []
        if blocks:
            places = [at for at in cut.middle(range(len(messages))) if not is_block(messages[at])]
            said, said_ids, sizes = [messages[at] for at in places], [numbers[at] for at in places], known.sizes(places)
        previous = join_blocks([parse_block(message) for message in blocks])
        task = Task(
            messages=said,
            ids=said_ids,
            sizes=sizes,
            budget=budget,
            previous=previous.summary,
            focus=focus,
            memory_context=memory_context,
            facts=find_facts(said, max(_FEWEST_FACTS, budget // _TOKENS_PER_FACT), thorough=bool(self._models())),
            force=force,
        )
        attempt = self.summarised(task)
        if attempt.how == EXTRACT and self.abort_on_summary_failure:
            return unchanged(messages, numbers, before, NO_SUMMARY, attempt.failures)
        done = _assembled(
            messages,
            numbers,
            known,
            cut,
            task=task,
            attempt=attempt,
            previous=previous,
            pointed=pointed,
            tail_ceiling=ceiling,
            tokens_before=before,
        )
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
    ) -> bool:
        """Whether `compact` would call a model: there is enough to take out, and a model may be called now."""
        known = Counts(messages, counts)
        before = known.total(0, len(messages))
        chosen = cut or self._cut(messages, known)
        if self._worth(messages, known, chosen, before, force=force or cut is not None)[1]:
            return False
        return any(force or self.breaker.may_ask(model.who, self._clock()) for model in self._models())

    def summarised(self, task: Task) -> Attempt:
        """Phase 3: gets a summary from the helper model or the main model; when none succeeds, makes an extract."""
        failures: list[str] = []
        for model in self._models() if task.ask else ():
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
        """The most the tail may take: half of the threshold, which leaves room for head, block and growth."""
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
        """The budget of a summary of the middle, and why compacting is not worth it; "" when it is."""
        content = counts.total(cut.head, cut.tail) - (counts[cut.pinned] if cut.pinned is not None else 0)
        budget = self.summary_budget(content)
        if all(map(is_block, cut.middle(messages))):
            return budget, "its beginning and its newest messages always stay, and there is nothing between them"
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
        # The real window of a model may be smaller than stated, so a failure is followed by one try with half of it.
        for window in (model.window, model.window // 2):
            try:
                text, calls = summarise(shown, model.ask, window)
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
    """The result of a compaction that changed nothing, with the reason."""
    return Compaction(
        messages=list(messages), ids=list(ids), replaced=[], how="unchanged", reason=reason, failures=failures,
        tokens_before=tokens, tokens_after=tokens,
    )  # fmt: skip


def _assembled(
    messages: Messages,
    ids: Ids,
    counts: Counts,
    cut: Cut,
    *,
    task: Task,
    attempt: Attempt,
    previous: Block,
    pointed: list[int],
    tail_ceiling: int,
    tokens_before: int,
) -> Compaction:
    """Phase 4: head, block and tail become one valid history.

    `previous` is what earlier blocks in the middle said, `pointed` the ids to which shortened results in it point.
    """
    head = _repaired(_with_note(messages, cut.head), range(cut.head))
    pinned = [(messages[cut.pinned], cut.pinned)] if cut.pinned is not None else []
    shortened = _fitting_tail(messages, ids, counts, cut, tail_ceiling)
    tail = [*pinned, *_repaired(shortened, range(cut.tail, len(messages)))]
    stay = {at for _, at in head + tail}
    unpaired = [at for at in (*range(cut.head), *range(cut.tail, len(messages))) if at not in stay]
    pointed = [*pointed, *pointed_in(messages[at] for at in unpaired)]
    middle = cut.middle(range(len(messages)))
    leaving, left_ids, sizes = task.messages, task.ids, task.sizes
    if unpaired or len(leaving) < len(middle):  # results without a call leave too, and so do earlier blocks
        gone = sorted([*middle, *unpaired])
        leaving, left_ids, sizes = [messages[at] for at in gone], [ids[at] for at in gone], counts.sizes(gone)
    left = chapters_of(leaving, left_ids, pointed, sizes)
    room, facts = round(task.budget * _KEPT_SHARE), [*task.facts, *facts_in(previous.summary)]
    for_names = 0 if attempt.how == EXTRACT else NAMES_SHARE  # an extract already has sections for names
    kept = keep_exactly(previous.kept, facts, Held(attempt.text), room, for_names)
    pointers = render_chapters([*previous.chapters, *left], round(task.budget * _POINTERS_SHARE))
    done = ledger(previous.ledger, leaving, round(task.budget * _LEDGER_SHARE))
    text = render_block(attempt.text, kept, pointers, done)
    before = head[-1][0] if head and head[-1][0].get("role") not in ("system", "developer") else None
    block = block_messages(text, before, tail[0][0] if tail else None)
    placed = [*head, *((message, None) for message in block), *tail]
    # A message that stays under its id is the stored one; one in a shorter form is new, and the stored one is archived.
    new_ids = [ids[at] if at is not None and message is messages[at] else None for message, at in placed]
    still = set(new_ids)
    rewritten = [each for each in (*ids[: cut.head], *ids[cut.tail :]) if each not in still]
    return Compaction(
        messages=[message for message, _ in placed],
        ids=new_ids,
        replaced=[each for each in (*rewritten, *cut.middle(ids)) if each is not None],
        how=attempt.how,
        kept_exactly=count_kept(kept),
        failures=attempt.failures,
        tokens_before=tokens_before,
        tokens_after=sum(_tokens(messages, counts, message, at) for message, at in placed),
    )


def _with_note(messages: Messages, head: int) -> Messages:
    """The head; a system message in it gets a note, at the first compaction, that a block follows."""
    if not head or messages[0].get("role") != "system" or SYSTEM_NOTE in text_of(messages[0]):
        return messages[:head]
    content = messages[0].get("content")
    if isinstance(content, list):
        noted: object = [*content, {"type": "text", "text": SYSTEM_NOTE}]
    else:
        noted = f"{content or ''}\n\n{SYSTEM_NOTE}".strip()
    return [{**messages[0], "content": noted}, *messages[1:head]]


def _fitting_tail(messages: Messages, ids: Ids, counts: Counts, cut: Cut, ceiling: int) -> Messages:
    """The tail unchanged, unless it exceeds its ceiling; then its tool results are cleared, the newest shortened.

    Otherwise the tail alone could overflow the window, and the conversation could not continue.
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


# The text that replaces the middle: requested from a model in prompts that fit its window, or extracted without one. A
# middle that does not fit is sent in pieces: the model writes notes on the first and updates them with each other one.

LONGEST = 6_000  # characters of one message that a summariser sees at most
ARGUMENTS = 4  # the arguments of a call get a quarter of that


class Record:
    """Messages with their ids as a summariser reads them; each is prepared when it is first needed."""

    def __init__(self, task: Task, *, masked: bool = False) -> None:
        """`masked` hides credentials from a model that has not seen the conversation."""
        self.messages, self._ids, self._sizes = task.messages, task.ids, task.sizes
        self._masked = masked
        self._texts: dict[int, str] = {}
        self._calls: dict[int, list[str]] = {}  # by message: one line per call

    def size(self, cap: int) -> int:
        """About how many characters all messages take in at most `cap` characters each."""
        # Without a call of `min` per message, this takes a third of the time.
        return sum([size if size < cap else cap for size in self._sizes]) + _FRAME * len(self._sizes)  # noqa: FURB136

    def entries(self, places: Sequence[int], cap: int = LONGEST) -> list[str]:
        """The messages at these places, in about `cap` characters each."""
        self._read([at for at in places if at not in self._texts])
        return [self._entry(at, cap) for at in places]

    def _read(self, places: Sequence[int]) -> None:
        messages = self.messages
        texts = [excerpt(text_of(messages[at]), LONGEST) for at in places]
        calls = {at: _lines(messages[at]) for at in places if messages[at].get("tool_calls")}
        if self._masked:  # all texts in one call, which is much faster
            masked = iter(mask_all([*texts, *chain.from_iterable(calls.values())]))
            texts = list(islice(masked, len(texts)))
            calls = {at: list(islice(masked, len(lines))) for at, lines in calls.items()}
        self._texts.update(zip(places, texts, strict=True))
        self._calls.update(calls)

    def _entry(self, at: int, cap: int) -> str:
        message, number, text = self.messages[at], self._ids[at], self._texts[at]
        role = message.get("role") or "?"
        who = str(role).upper() if number is None else f"{str(role).upper()} {number}"
        if role == "tool" and message.get("name"):
            who = f"{who} {message['name']}"
        shown = f"[{who}] {text if len(text) <= cap else excerpt(text, cap)}".rstrip()
        if at not in self._calls:
            return shown
        return "\n  calls ".join([shown, *(excerpt(call, cap // ARGUMENTS) for call in self._calls[at])])


def _lines(message: Message) -> list[str]:
    return [f"{tool}({excerpt(given, LONGEST // ARGUMENTS)})" for _, tool, given in calls_of(message)]


MOST_PIECES = 8  # model calls per summary; of a longer middle, the pieces show less of each message
PROMPT_MARGIN = 0.9  # of a window; token counts are estimates
_CAPS = (LONGEST, 2_000, 600, 200)  # characters shown of one message, from generous to tight
_WORDS_PER_TOKEN = 0.6
_NOTES_IN_WINDOW = 4  # a summary takes at most a quarter of the window of the model that writes it
_MEMORY_CONTEXT = 6_000  # characters of what memory providers add to the prompt
_SMALLEST_ROOM = 200  # tokens of the conversation per prompt; with less, a summary is pointless
_FEWEST_CHARACTERS = 0.5  # per token; rare scripts need two tokens for one character
_MOST_CHARACTERS = 8  # per token; prose has four to five
_FRAME = 24  # characters of an entry besides the message: role, id, line break


class SummaryFailed(HermesError):
    """No usable summary came back; the message says why, `transient` whether it may work later."""

    def __init__(self, message: str, *, transient: bool = False) -> None:
        super().__init__(message)
        self.transient = transient


@dataclass(frozen=True, kw_only=True)
class Task:
    """A summary to be written: the messages with ids and sizes, the earlier summary, the budget in tokens."""

    messages: Sequence[Message]
    ids: Sequence[int | None]
    sizes: Sequence[int]  # about how many characters each message has
    budget: int
    previous: str = ""
    focus: str = ""
    memory_context: str = ""
    facts: Sequence[Fact] = ()  # what an extract is made of, when no model can summarise
    ask: bool = True  # False for an extract without any model
    force: bool = False  # a person asked for it: call models even while they pause after a failure
    record: Record | None = None  # the messages with credentials masked, where that is needed

    def masked(self) -> Task:
        """Returns the task with credentials masked, for a model that has not seen the conversation."""
        previous, focus, memory_context = mask_all((self.previous, self.focus, self.memory_context))
        return replace(
            self,
            previous=previous,
            focus=focus,
            memory_context=memory_context,
            record=Record(self, masked=True),
        )


def summarise(task: Task, ask: Summariser, window: int) -> tuple[str, int]:
    """Has a model write the summary; returns it with the number of calls. SummaryFailed when none is usable."""
    # The notes are part of every prompt and must leave room for the rest.
    task = replace(task, budget=min(task.budget, window // _NOTES_IN_WINDOW))
    record = task.record or Record(task)
    if whole := _whole(task, record, round(window * PROMPT_MARGIN) - task.budget):
        return _ask(ask, whole, task.budget), 1
    notes = task.previous
    pieces = cut_in_pieces(record, _room(task, window))
    for piece in pieces:
        notes = _ask(ask, build_prompt(task, [piece], notes), task.budget)
    return notes, len(pieces)


def build_prompt(task: Task, entries: Sequence[str], notes: str) -> str:
    """The prompt for a summary of these entries, which updates `notes` when there are any."""
    parts = [prose("summarise").format(words=f"{round(task.budget * _WORDS_PER_TOKEN):,}")]
    if notes:
        parts += [prose("update"), f"<notes>\n{notes}\n</notes>"]
    if task.focus:
        parts.append(prose("focus").format(topic=task.focus))
    if task.memory_context:
        parts.append(f"<memory>\n{excerpt(task.memory_context, _MEMORY_CONTEXT)}\n</memory>")
    # Text of the conversation must not close the tag it is quoted in.
    shown = "\n".join(entries).replace("</session", "</ session")
    return "\n".join(["\n\n".join(parts), "\n<session>", shown, "</session>"])


def _room(task: Task, window: int) -> int:
    """Tokens for the conversation in one prompt of a model with this window."""
    # The notes grow to the budget while pieces are folded in, so every prompt keeps room for them.
    notes = max(estimate(task.previous), task.budget)
    room = round(window * PROMPT_MARGIN) - estimate(build_prompt(task, (), "-")) - notes - task.budget
    if room < _SMALLEST_ROOM:
        raise SummaryFailed(f"a window of {window:,} tokens has no room for a summary of {task.budget:,}")
    return room


def _whole(task: Task, record: Record, room: int) -> str:
    """The prompt with the whole conversation; "" when it exceeds `room` tokens."""
    if record.size(LONGEST) >= room * _MOST_CHARACTERS:
        return ""
    prompt = build_prompt(task, record.entries(range(len(task.messages))), task.previous)
    return prompt if estimate_sampled(prompt) * 1.05 <= room else ""


def cut_in_pieces(record: Record, room: int) -> list[str]:
    """Cuts the record into at most `MOST_PIECES` texts of at most `room` tokens each, showing less where needed."""
    filling = 0.8  # estimates of messages and of the whole differ, so leave a margin
    pieces = _packed(_entries(record, round(room * filling)), room)
    while len(pieces) > MOST_PIECES:
        filling /= 2
        pieces = _packed(_entries(record, round(room * filling)), room)
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


def _entries(record: Record, room: int) -> list[str]:
    """One text per message, with the largest cap at which all fit into the pieces; else a sample (`_sampled`)."""
    places = range(len(record.messages))
    sample = "\n".join(record.entries(places[:: max(len(places) // 24, 1)]))
    per_token = max(len(sample) / max(estimate(sample), 1), _FEWEST_CHARACTERS)
    space = round(room * per_token * MOST_PIECES)
    cap = next((cap for cap in _CAPS if record.size(cap) <= space), None)
    # Twice as large a sample of an enormous history would say little more and cost twice as much.
    return record.entries(places, cap) if cap is not None else _sampled(record, space // 2)


def _sampled(record: Record, space: int) -> list[str]:
    """A sample of too many messages: an even selection of the person's, then the newest others, with gaps counted."""
    cap = _CAPS[-1]
    most = max(space // (cap + _FRAME), 1)
    places = range(len(record.messages))
    spoken = [at for at in places if record.messages[at].get("role") == "user"] or places
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


def _packed(entries: list[str], room: int) -> list[str]:
    """Joins entries to texts of at most `room` tokens and cuts an entry that is larger than that.

    Sizes are derived from lengths first; if a text became too large, each entry is estimated.
    """
    whole = "\n".join(entries)
    per_token = max(min(_bytes(whole) / max(estimate_sampled(whole), 1), 4.5) * 0.9, _FEWEST_CHARACTERS)
    pieces = _filled(entries, room, lambda text: int(_bytes(text) / per_token) + 2)
    if any(estimate_sampled(piece) * 1.05 > room and estimate(piece) * 1.02 > room for piece in pieces):
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


# Limits of an extract, which stands in for a summary when no model is available.
_ASK = 400  # characters of one request
_SAID = 240  # characters of one answer
_CALL = 90  # characters of a call's arguments, and of its outcome
_MOST = 400  # newest messages whose calls are listed
_ARGUMENTS = 2_000  # characters of a call's arguments in which paths are looked for
_TALLIED = 5_000  # newest messages whose calls are counted by tool
_PATH_ARGUMENT = re.compile(r'"(?:path|file|file_path|filename|target)"\s*:\s*"([^"\\]{1,200})"')
# The sections in the order in which they are shown, with their shares of the room.
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
    """Makes a summary of about `room` tokens from quotes, without a model; the earlier one, `previous`, comes first."""
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
    """The lines of each section, the most important first, generated only while there is room."""
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
    """What the person said: the first request, which says most about the goal, then the newest ones."""
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
    """A call with the last line of its output, where programs usually report how it went."""
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
        # The first line matters most, so it is shortened rather than left out.
        shown = line if chosen or at_most(line) <= room else one_line(line, max(room - 2, 1))
        room -= at_most(shown)
        if room < 0:
            break
        chosen.append(shown)
    return chosen


def _earlier(previous: str, room: int) -> str:
    """The previous summary; if it is too long, lines that no longer fit are dropped."""
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
