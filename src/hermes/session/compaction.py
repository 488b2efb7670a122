"""Keeps a session inside the model's window: decides when to compact, runs the context engine, stores the result.

    take the lease → providers: on_pre_compress, unless there is nothing to take out → compress →
    providers and engine: on_session_end → archive, and rotate or replace, in one transaction →
    engine: on_session_start → providers: on_session_switch →
    a `Compacted` event, and one notice for the person

If a model writes the summary, a thread asks it before the summary is needed (`Preparation`), so that no turn waits for
it unless the window is full. The conversation's model gets no warning about a filling window; it only sees the block.
"""

from __future__ import annotations

import copy
import inspect
import json
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from hermes.base.errors import HermesError, ModelError, NotFound, StorageError
from hermes.base.events import Compacted
from hermes.base.tokens import estimate
from hermes.compaction.compressor import (
    HYGIENE_MESSAGES,
    HYGIENE_THRESHOLD,
    NO_SUMMARY,
    TRIPS_AFTER,
    Breaker,
    Compaction,
    ContextCompressor,
    unchanged,
)
from hermes.compaction.facts import count_kept, used_again
from hermes.compaction.messages import (
    SYSTEM_NOTE,
    Counts,
    Cut,
    calls_of,
    group_start,
    is_block,
    last_request,
    newest,
    parse_block,
    parse_ranges,
    prose,
    repair_pairs,
    text_of,
)
from hermes.conversations.context import Contexts, NewContext, holder_name, refuse_held
from hermes.session.context import OUTSIDE, WIRE_KEYS, outside_as_dicts, settled_until
from hermes.session.models import COMPACTION, Background, answer, helper_model
from hermes.session.parts import built_in
from hermes.tools.registry import failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hermes.base.errors import ContextTooLong
    from hermes.base.events import Usage
    from hermes.compaction.compressor import Summariser
    from hermes.compaction.engine import ContextEngine
    from hermes.conversations.database import SessionDB
    from hermes.llm.client import Model
    from hermes.prompt.assembly import Prompt
    from hermes.session.context import Context, Host, Request
    from hermes.session.parts import SessionParts
    from hermes.settings.config import Settings
    from hermes.storage.records import Session

    Messages = Sequence[dict[str, Any]]

Answer = TypeVar("Answer")

BREAKER = "breaker"  # key prefix of a session's breaker in the database
_WINDOW = "window"  # key prefix of the window that a provider stated when it refused a request


_LAST_EXCHANGE = 2  # newest messages that always stay
_ABORTED = (
    "and compression.abort_on_summary_failure is set, so the conversation stays as it is. `/compress` tries again;"
    " set it to false to continue with an extract of the conversation's own words."
)
_USED_AGAIN = 24  # names used meanwhile that are added to a prepared block; with more, the block is out of date
_PASSES = 3  # compactions tried after a model refused a request as too long
_STEPS = (256_000, 128_000, 64_000, 32_000, 16_000, 8_000)  # windows to assume when it does not state its limit


def written_messages(
    done: Compaction, announced: dict[str, int], number: int, why: str, *, prompt: Prompt | None, outside: str
) -> list[dict[str, Any]]:
    """The messages of the new context; those the compaction wrote are marked with the source of text from `outside`.

    The first of these records the number of compactions, what was replaced and why, and which changes of memory the
    rebuilt prompt contains.
    """
    messages = [
        {**message, OUTSIDE: outside} if number is None else dict(message)
        for message, number in zip(done.messages, done.ids, strict=True)
    ]
    first = messages[done.ids.index(None)]
    first["compactions"] = number
    size = sum(len(str(each.get("content"))) for each, at in zip(messages, done.ids, strict=True) if at is None)
    about = {"by": done.how, "why": why, "messages": len(done.replaced)}
    first["additions"] = [{"source": "summary", "characters": size, **about}]
    if prompt is not None:
        first["prompt_sections"] = prompt.sizes()
        first["prompt_outside"] = outside_as_dicts(prompt.outside)
    first["announced"] = announced
    return messages


class Preparation:
    """A compaction of the current messages, prepared in a thread while the conversation continues.

    It stores nothing: `Compactor` commits it when it is needed and still fits. If the process is killed before that,
    nothing has changed.
    """

    def __init__(self, host: Host, ours: ContextCompressor, tokens: int, cut: Cut | None) -> None:
        messages = host.context.said()
        settled = settled_until(messages)
        self.ids, self.messages = host.context.ids[:settled], messages[:settled]
        self.done: Compaction | None = None
        self.error = ""
        self.recalled = ""
        self.ours = ours
        self._boundary = host.boundary
        self._given: dict[str, Any] = {"counts": host.context.sizes()[:settled], "current_tokens": tokens, "cut": cut}
        self._thread = threading.Thread(target=self._run, name="hermes-compaction", daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        """Whether the thread is still at work."""
        return self._thread.is_alive()

    def wait(self) -> None:
        """Waits until the compaction is prepared or has failed."""
        self._thread.join()

    def stands_for(self, context: Context, window: int) -> bool:
        """Whether the context still begins with the prepared messages and the window is the same."""
        return context.ids[: len(self.ids)] == self.ids and window == self.ours.context_length

    def result(self, context: Context) -> tuple[Compaction, int]:
        """The compaction followed by all messages since, and how many names used since then its block lacks."""
        assert self.done is not None  # noqa: S101 - callers check `done` first
        since, numbers = context.said()[len(self.ids) :], context.ids[len(self.ids) :]
        numbered = dict(zip(self.ids, self.messages, strict=True))
        lines = used_again(since, {number: numbered[number] for number in self.done.replaced}, self.done.messages)
        more = context.tokens(len(self.ids))
        done = replace(
            self.done, tokens_before=self.done.tokens_before + more, tokens_after=self.done.tokens_after + more
        )
        return done.extended(lines[:_USED_AGAIN]).followed_by(since, numbers), len(lines)

    def _run(self) -> None:
        try:
            self.recalled = self._boundary.on_pre_compress(self.messages)
            self.done = self.ours.compact(self.messages, ids=self.ids, memory_context=self.recalled, **self._given)
        except Exception as error:  # noqa: BLE001 - models and providers are other people's code; the turn must go on
            self.error = f"{type(error).__name__}: {error}"


class Compactor:
    """Decides when a session is compacted, compacts it, and stores the result in one transaction."""

    def __init__(self, host: Host, parts: SessionParts, window: int, real: tuple[int, int] | None = None) -> None:
        """`window` is the assumed window of the model; `real` is a provider's last count, and for how many messages."""
        self.happened: list[Compacted] = []
        self._host = host
        self._parts = parts
        self._contexts = Contexts(parts.database)
        self._holder = holder_name()
        self._real = real
        self._ahead: Preparation | None = None
        self._problems: set[str] = set()
        self._model: Model | None = None
        self._engine: ContextEngine | None = None
        self._stored = Breaker()
        self._stand_in_breaker = Breaker()  # for the built-in compressor when it replaces an engine without a breaker
        self._believe(host.model, window)

    # --- calls of the loop and the session ---------------------------------------------------------------------------

    @property
    def engine(self) -> ContextEngine:
        """The context engine, started on first use with the stored breaker and the models for summaries."""
        if self._engine is None:
            choice = self._parts.engine
            self._engine = choice.engine
            if choice.problem:
                self._host.notices.add("settings", choice.problem)
            stored = self._parts.database.get_meta(f"{BREAKER}:{self._host.id}")
            self._stored = Breaker.from_dict(json.loads(stored) if stored else None)
            self._set_breaker(self._stored)
            if isinstance(self._engine, ContextCompressor):
                self._engine.use_summarisers(**self._summarisers())
            self._call(self._engine.update_model, self._host.model, self.window)
            self._start()
        return self._engine

    def use_model(self, model: Model) -> None:
        """Switches to the model that answers from now on; it also writes summaries when the helper cannot."""
        if model is self._model:
            return
        before = self.window
        self._model = model
        self._believe(model.name, model.context_length)
        if self._engine is not None:
            if isinstance(self._engine, ContextCompressor):
                self._engine.use_summarisers(**self._summarisers())
            if self.window != before:
                self._call(self._engine.update_model, model.name, self.window)

    def counted(self, usage: Usage) -> None:
        """Takes the provider's count for the request that ended with the newest message."""
        if not usage.input_tokens:
            return
        self._real = (usage.input_tokens, len(self._host.context.messages))
        prompt, completion = usage.input_tokens, usage.output_tokens
        counts = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
        self._call(self.engine.update_from_response, counts | usage.as_dict())
        if not isinstance(self.engine, ContextCompressor):
            self._stand_in_breaker = self._stand_in_breaker.read(prompt, self._built_in().threshold_tokens)
        self._store_breaker()

    def moved(self) -> None:
        """Uses the database to which the conversation moved; engines that read the database are started again."""
        self._contexts = Contexts(self._parts.database)
        if self._engine is not None and type(self._engine) is not ContextCompressor:
            self._start()

    def close(self) -> None:
        """Notifies the engine, if it was used, of the end of the session; call it after the providers are closed."""
        if self._engine is not None:
            self._call(self._engine.on_session_end, self._host.id, self._host.context.said())

    @property
    def real_tokens(self) -> int:
        """The size of the last request as the provider counted it; 0 if it has not since the last compaction."""
        return self._real[0] if self._real else 0

    def tokens(self) -> int:
        """The size of the next request: the provider's last count plus an estimate of what was added since."""
        if self._real is not None:
            tokens, messages = self._real
            return tokens + self._host.context.tokens(messages)
        return self._host.overhead() + estimate(self._host.system_prompt) + self._host.context.tokens()

    def fit(self, request: Request, too_long: ContextTooLong | None) -> Request:
        """Returns the request, or a shorter one after a compaction; a failed compaction leaves it unchanged."""
        before = len(self.happened)
        if too_long is not None:
            self._make_it_fit(too_long)
        elif self._call(self.engine.should_compress, tokens := self.tokens()):
            self._make_room("threshold", tokens)
        elif isinstance(self.engine, ContextCompressor):
            self._prepare_from(self.engine.threshold_tokens, tokens)
        return self._host.request() if len(self.happened) > before else request

    def preflight(self) -> None:
        """Compacts before a message is handled if the window is nearly full or there are too many messages."""
        settings, messages = self._parts.settings, len(self._host.context.messages)
        if messages < HYGIENE_MESSAGES or not settings.flag("compression.enabled"):
            return
        most = settings.integer("compression.hygiene_hard_message_limit")
        tokens, window = self.tokens(), self.window
        full = tokens >= window * HYGIENE_THRESHOLD
        if not full and messages < most:
            self._prepare_from(window * HYGIENE_THRESHOLD, tokens)
            return
        engine = self.engine
        if not isinstance(engine, ContextCompressor) or not engine.breaker.blocks(tokens, window):
            # Many messages may be few tokens, so here the cut goes by their number: half of the limit stays.
            first = engine.protect_first_n
            last = max(most // 2 - first - 1, _LAST_EXCHANGE)
            cut = None if full else newest(self._host.context.said(), first, last)
            self._make_room("hygiene", tokens, in_place=True, cut=cut)

    # --- a prepared compaction ----------------------------------------------------------------------------------------

    def wait(self) -> None:
        """Waits for a compaction that is being prepared; it is only committed when it is needed."""
        if self._ahead is not None:
            self._ahead.wait()

    def commit_if_ready(self) -> None:
        """Commits a prepared compaction that is due; called at the end of a session, so that it is not lost."""
        if self._ahead is not None and self.engine.should_compress(self.tokens()):
            self._commit_ahead("threshold", in_place=None, full=False)

    def _make_room(self, why: str, tokens: int, *, in_place: bool | None = None, cut: Cut | None = None) -> None:
        """Commits a prepared compaction or prepares one; compacts at once if the window is full or no model is used."""
        full = tokens >= self.window * HYGIENE_THRESHOLD
        if full:
            self.wait()
        if self._commit_ahead(why, in_place=in_place, full=full):
            return
        if full or not self._prepare(tokens, cut):
            self._try(why, in_place=in_place, cut=cut)

    def _prepare_from(self, limit: float, tokens: int) -> None:
        near = tokens >= limit * self._parts.settings.number("compression.prepare_at")
        if near and not self.breaker.blocks(tokens, self.window):
            self._prepare(tokens)

    def _prepare(self, tokens: int, cut: Cut | None = None) -> bool:
        """Starts to prepare a compaction unless one is ready or running; False when no model would be called."""
        if self._ahead is not None:
            if self._ahead.running or self._ahead.stands_for(self._host.context, self.window):
                return True
            self._ahead = None
        if not self._parts.settings.number("compression.prepare_at") or type(self.engine) is not ContextCompressor:
            return False
        if not self.engine.enabled or not self._will_be_asked(force=False, cut=cut):
            return False
        if (ours := self._beside()) is None:
            return False
        self._ahead = Preparation(self._host, ours, tokens, cut)
        return True

    def _commit_ahead(self, why: str, *, in_place: bool | None, full: bool) -> bool:
        """Commits the prepared compaction; False when there is none or it no longer fits, so that another is needed."""
        ahead = self._ahead
        if ahead is None or ahead.running:
            return False
        self._ahead = None
        if ahead.error:
            self._note_once(f"a compaction could not be prepared: {ahead.error}")
        fits = ahead.done is not None and ahead.stands_for(self._host.context, self.window)
        done, used = ahead.result(self._host.context) if fits else (None, 0)
        if used > _USED_AGAIN and not full:
            done = None  # the topic changed meanwhile, so a new summary is better
        self._take_over(done, ahead.ours.breaker)
        if done is None or not done.changed:
            self._store_breaker()
            if done is not None and done.reason == NO_SUMMARY:
                self._note_once(f"{done.notice[:-1]} {_ABORTED}")
            return done is not None and not full
        try:
            with self._leased():
                if not self._went_on_elsewhere(done.replaced):
                    self._commit(done, why, in_place=in_place, recalled=bool(ahead.recalled))
        except StorageError as error:
            self._note_once(f"nothing was compacted: {error}")
        return True

    # --- one compaction ----------------------------------------------------------------------------------------------

    def run(
        self,
        why: str,
        *,
        focus: str = "",
        force: bool = False,
        in_place: bool | None = None,
        cut: Cut | None = None,
    ) -> Compacted | None:
        """Compacts now, or says in a notice why not; StorageError if another process is compacting the session."""
        host = self._host
        with self._leased():
            if self._went_on_elsewhere():
                return None
            # Providers get the messages before they leave the context, because their answer goes into the summary.
            told = self._will_be_asked(force=force, cut=cut)
            recalled = host.boundary.on_pre_compress(host.context.said()) if told else ""
            done = self._compress(focus=focus, force=force, memory_context=recalled, cut=cut)
            if done.changed:
                if not told:
                    host.boundary.on_pre_compress(host.context.said())
                return self._commit(done, why, in_place=in_place, recalled=bool(recalled))
            self._store_breaker()
            if done.reason == NO_SUMMARY:
                (self._note if force else self._note_once)(f"{done.notice[:-1]} {_ABORTED}")
            elif force:
                self._note(done.notice)
            return None

    def _will_be_asked(self, *, force: bool, cut: Cut | None) -> bool:
        """Whether a summary will use what providers return; otherwise they are notified once something is taken out."""
        engine, context = self.engine, self._host.context
        messages = context.said()
        settled = settled_until(messages)
        if isinstance(engine, ContextCompressor):
            sizes = context.sizes()[:settled]
            return engine.would_ask(messages[:settled], sizes, force=force, cut=cut)
        return self._call(engine.has_content_to_compress, copy.deepcopy(messages[:settled])) is not False

    def _compress(self, *, focus: str, force: bool, memory_context: str, cut: Cut | None) -> Compaction:
        engine, context, tokens = self.engine, self._host.context, self.tokens()
        messages, ids, sizes = context.said(), context.ids, context.sizes()
        # Calls that are still running have no results yet. They are left out here, or they would get made-up results.
        settled = settled_until(messages)
        running = messages[settled:], ids[settled:]
        messages, ids, sizes = messages[:settled], ids[:settled], sizes[:settled]
        ours = engine if isinstance(engine, ContextCompressor) else None
        refused = "" if ours else "it is unclear which messages to take out"
        if type(engine) is not ContextCompressor and cut is None:
            more = {"force": force, "memory_context": memory_context}
            try:
                done = compress_with(engine, messages, ids, tokens=tokens, focus=focus, **more)
                return done.followed_by(*running)
            except UnusableResult as error:
                refused, ours = str(error), None
        compact = self._compact_with_built_in if ours is None else ours.compact
        done = compact(
            messages, ids=ids, counts=sizes, current_tokens=tokens, focus=focus, force=force,
            memory_context=memory_context, cut=cut,
        )  # fmt: skip
        if refused:
            did = "did" if done.changed else "found nothing to take out"
            self._note_once(
                f"the context engine {engine.name} could not compact; the built-in compressor {did} ({refused})"
            )
        return done.followed_by(*running)

    def _commit(self, done: Compaction, why: str, *, in_place: bool | None, recalled: bool) -> Compacted:
        host, old = self._host, self._host.id
        # Providers and engine see the full context as the end of a stretch before it is archived.
        host.boundary.on_session_end(host.context.said())
        self._call(self.engine.on_session_end, old, host.context.said())
        outside = next((source.origin for source in host.sources()), "recall" if recalled else "")
        prompt = host.rebuilt_prompt().followed_by("compaction_note", SYSTEM_NOTE)
        seen = host.announced()
        changed = prompt if prompt.text != host.system_prompt else None
        new = NewContext(
            messages=written_messages(done, seen, host.compactions + 1, why, prompt=changed, outside=outside),
            ids=done.ids,
            archive=done.replaced,
            last_id=host.last_id,
            system_prompt=changed.text if changed else None,
            meta={BREAKER: json.dumps(self.breaker.as_dict())},
        )
        if self._parts.settings.flag("compression.in_place") if in_place is None else in_place:
            session_id, ids = old, self._contexts.replace(old, new)
        else:
            session_id, ids = self._contexts.split(old, new)
        # A split gives every message a new id, so until then the written ones are identified by negative numbers.
        numbers = [-1 - at if number is None else number for at, number in enumerate(done.ids)]
        kept = host.context.replaced(numbers, {number: new.messages[-1 - number] for number in numbers if number < 0})
        kept.renumbered(ids)
        self._stored = self.breaker
        self._real = None
        host.go_on(session_id, kept, max(ids), system_prompt=prompt.text, seen=seen)
        self._start(boundary_reason="compression", old_session_id=old)
        host.boundary.on_session_switch(session_id, parent_session_id=old, reset=False, reason="compression")
        return self._tell(done, why, old)

    def _tell(self, done: Compaction, why: str, old: str) -> Compacted:
        event = Compacted(
            session_id=self._host.id,
            parent_session_id=old,
            why=why,
            how=done.how,
            messages=len(done.replaced),
            kept_exactly=done.kept_exactly,
            tokens_before=done.tokens_before,
            tokens_after=done.tokens_after,
            failures=done.failures,
        )
        self.happened.append(event)
        self._note(done.notice)
        return event

    # --- the engine, its models and their windows ---------------------------------------------------------------------

    def _call(self, hook: Callable[..., Answer], *values: Any, **named: Any) -> Answer | None:
        """Calls a hook of the engine; an error in it becomes a notice and does not stop the turn."""
        try:
            return hook(*values, **named)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - an engine is other people's code and may raise anything
            self._note(f"the context engine {self.engine.name} failed: {type(error).__name__}: {error}")
            return None

    def _start(self, **boundary: Any) -> None:
        given: dict[str, Any] = {
            "hermes_home": self._parts.home.path,
            "database": self._parts.database,
            "model": self._host.model,
            "context_length": self.window,
            **self._summarisers(),
            **boundary,
        }
        self._call(self.engine.on_session_start, self._host.id, **given)

    def _summarisers(self) -> dict[str, Any]:
        budget = Background(self._parts.database, self._parts.settings)
        return summarisers(
            self._parts.settings, self._model, lambda: self._contexts.lease(self._host.id, self._holder), budget
        )

    def _beside(self) -> ContextCompressor | None:
        """A separate compressor for the thread that prepares; it shares no state and renews no lease.

        None when no model can be called next to a turn: one that answers one request at a time would delay the turn.
        """
        budget = Background(self._parts.database, self._parts.settings)
        main = None if getattr(self._model, "one_at_a_time", False) else self._model
        asked = summarisers(self._parts.settings, main, budget=budget)
        return self._built_in(**asked) if asked else None

    def _believe(self, name: str, window: int) -> None:
        kept = json.loads(self._parts.database.get_meta(f"{_WINDOW}:{name}") or "{}")
        self._name, self._believed = name, window
        self.window = int(kept["tokens"]) if kept.get("instead_of") == window else window

    # --- the breaker -------------------------------------------------------------------------------------------------

    @property
    def breaker(self) -> Breaker:
        """The circuit breaker in use: that of the built-in engine, or of the compressor that stands in for another."""
        return self.engine.breaker if isinstance(self.engine, ContextCompressor) else self._stand_in_breaker

    def _set_breaker(self, breaker: Breaker) -> None:
        if isinstance(self._engine, ContextCompressor):
            self._engine.breaker = breaker
        else:
            self._stand_in_breaker = breaker

    def _store_breaker(self) -> None:
        now = self.breaker
        if now != self._stored:
            self._parts.database.set_meta(f"{BREAKER}:{self._host.id}", json.dumps(now.as_dict()))
            self._stored = now

    def _take_over(self, done: Compaction | None, models: Breaker) -> None:
        """Adopts what the preparing thread learnt: which models failed, and whether there was enough to compact."""
        told = {name: left for name, left in models.as_dict().items() if name.startswith(("helper", "main", "error"))}
        breaker = replace(self.breaker, **told)
        if done is not None and done.changed:
            breaker = breaker.compacted()
        elif done is not None and done.reason != NO_SUMMARY:
            breaker = breaker.could_not_compact(done.tokens_before)
        self._set_breaker(breaker)

    def _compact_with_built_in(self, messages: list[dict[str, Any]], **given: Any) -> Compaction:
        """Compacts with the built-in compressor when the engine cannot, subject to the same circuit breaker."""
        ours = self._built_in(**self._summarisers())
        if not given["force"] and self.breaker.blocks(given["current_tokens"], self.window):
            return unchanged(messages, given["ids"], given["current_tokens"], "it did not help before")
        done = ours.compact(messages, **given)
        self._set_breaker(ours.breaker)
        return done

    def _built_in(self, **summarisers: Any) -> ContextCompressor:
        return built_in(self._parts.settings, self.window, breaker=self.breaker, **summarisers)

    # --- parts -------------------------------------------------------------------------------------------------------

    def _try(self, why: str, **more: Any) -> None:
        try:
            self.run(why, **more)
        except StorageError as error:  # the turn continues with the context as it is
            self._note_once(f"nothing was compacted: {error}")

    def _make_it_fit(self, too_long: ContextTooLong) -> None:
        sent = self.tokens()
        limit = too_long.limit or next((step for step in _STEPS if step < sent), _STEPS[-1])
        if too_long.limit and too_long.limit < self._believed:
            # Used until Hermes assumes another window for this model.
            kept = json.dumps({"tokens": too_long.limit, "instead_of": self._believed})
            self._parts.database.set_meta(f"{_WINDOW}:{self._name}", kept)
        for _ in range(_PASSES):
            self._real = None
            self.window = limit  # for this process only
            self._call(self.engine.update_model, self._host.model, limit)
            self._try("too long", force=True)
            if self.tokens() < limit:
                return
            limit = limit * 3 // 4

    def _went_on_elsewhere(self, replaced: Sequence[int] = ()) -> bool:
        """Whether another process wrote to the session or compacted a `replaced` message; if so, loads its state."""
        row = self._parts.database.get_session(self._host.id)
        if row.last_id == self._host.last_id and row.end_reason != "compression":
            live = {each.id for each in self._contexts.live(row.id)} if replaced else set()
            if live.issuperset(replaced):
                return False
        self._host.reload()
        self._real = None
        self._note("the session continued in another process; its newest state was loaded")
        return True

    @contextmanager
    def _leased(self) -> Iterator[None]:
        held = self._host.id
        if not self._contexts.lease(held, self._holder):
            raise refuse_held(held)
        try:
            yield
        finally:
            self._contexts.release(held, self._holder)

    def _note_once(self, text: str) -> None:
        """Adds a notice once; otherwise it would come up again at every model call."""
        if text not in self._problems:
            self._problems.add(text)
            self._note(text)

    def _note(self, text: str) -> None:
        self._host.notices.add("compaction", text)


def compact_range(compactor: Compactor, context: Context, wanted: Mapping[str, str]) -> dict[str, Any]:
    """Compacts a range that the model named with `context_compact`; returns the result for the model."""
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
    """The range of whole groups that contains the named messages, ending before the current turn."""
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


# The state of context engines, the models that summarise for them, and the check of what an engine returns.


def engine_state(settings: Settings, database: SessionDB | None, recent: Sequence[Session]) -> dict[str, Any]:
    """The chosen engine, and the recent sessions in which the breaker holds it back, for `hermes status`."""
    held: list[dict[str, str]] = []
    compacted = 0
    for session in recent:
        if database is None or (stored := database.get_meta(f"{BREAKER}:{session.id}")) is None:
            continue
        compacted += Contexts(database).was_compacted(session.id)  # a breaker is also kept when nothing was taken out
        if why := _held_back(Breaker.from_dict(json.loads(stored)), time.time()):
            held.append({"session_id": session.id, "why": why})
    return {
        "name": settings.text("context.engine") or "compressor",
        "enabled": settings.flag("compression.enabled"),
        "threshold": settings.number("compression.threshold"),
        "recent_sessions_compacted": compacted,
        "breaker": "open" if held else "closed",
        "held_back": held,
    }


def _held_back(breaker: Breaker, now: float) -> str:
    if breaker.ineffective >= TRIPS_AFTER:
        return f"{breaker.ineffective} compactions in a row did not help; `/compress` still tries"
    for who in ("helper", "main"):
        if not breaker.may_ask(who, now):
            seconds = round(getattr(breaker, f"{who}_until") - now)
            return f"the {who} model is not asked for {seconds} s after it failed: {breaker.error}"
    return ""


def summarisers(
    settings: Settings, main: Model | None, renew: Callable[[], object] = lambda: None, budget: Background | None = None
) -> dict[str, Any]:
    """The models that may write a summary: the helper of `auxiliary.compression`, then the conversation's model.

    Their calls are counted in the budget but never limited by it, because the conversation depends on them.
    """
    given: dict[str, Any] = {}
    seconds = settings.number("auxiliary.compression.timeout")
    try:
        own = helper_model(settings, "compression", own_only=True)
    except HermesError:  # not available now; the main model or an extract is used instead
        own = None
    if own is not None:
        given |= {"summarise": _asking(own, seconds, renew, budget), "summary_context_length": own.context_length}
    if main is not None and settings.flag("auxiliary.compression.enabled"):
        given["main_summarise"] = _asking(main, seconds, renew, budget)
    return given


def _asking(model: Model, seconds: float, renew: Callable[[], object], budget: Background | None) -> Summariser:
    def ask(prompt: str, max_tokens: int) -> str:
        del max_tokens  # the prompt states the length; a hard limit would cut the summary off, and it would be rejected
        renew()
        try:
            return answer(model, prose("system"), prompt, seconds, task=COMPACTION, budget=budget, limited=False)
        except ModelError as error:
            if error.passing:
                raise ConnectionError(str(error)) from error
            raise

    return ask


# The result of an engine by another author, checked before it replaces the context.

_ROLES = ("user", "assistant", "tool", "system", "developer")


class UnusableResult(Exception):
    """The result of an engine cannot replace the context; the message says why."""


def compress_with(
    engine: ContextEngine,
    messages: Sequence[dict[str, Any]],
    ids: Sequence[int],
    *,
    tokens: int,
    focus: str = "",
    **more: Any,
) -> Compaction:
    """Compacts with an engine of another author; UnusableResult when it fails or its result cannot replace the history.

    `tokens` is the size of the whole request, as for `should_compress`; the figures of the result count messages only.
    `more` are arguments that newer engines accept; an engine gets those that its signature has.
    """
    # Deep copies: an engine may shorten arguments in place, and the originals are needed for comparison.
    numbered = [{**message, "_id": number} for message, number in zip(copy.deepcopy(list(messages)), ids, strict=True)]
    try:
        taken = inspect.signature(engine.compress).parameters
        more = {name: given for name, given in more.items() if name in taken}
        made: Any = engine.compress(numbered, current_tokens=tokens, focus_topic=focus or None, **more)
    except (Exception, SystemExit) as error:  # an engine is other people's code and may raise anything
        raise UnusableResult(f"it raised {type(error).__name__}: {error}") from error
    if not isinstance(made, list) or not all(isinstance(each, dict) and each.get("role") in _ROLES for each in made):
        raise UnusableResult("it did not return a list of messages with a role")
    if why := _cannot_be_stored(made):
        raise UnusableResult(f"what it returned cannot be stored: {why}")
    placed = _placed(made, dict(zip(ids, messages, strict=True)))
    repaired, origin = repair_pairs([message for message, _ in placed])
    kept = [None if at is None else placed[at][1] for at in origin]
    still, before = set(kept), Counts(messages).total(0, len(messages))
    replaced = [number for number in ids if number not in still]
    if not replaced:  # even if it added a message: that alone would only make the context longer
        return unchanged(messages, list(ids), before, "the engine found nothing to take out")
    last = last_request(messages)
    if last is not None and ids[last] not in still:
        raise UnusableResult("it dropped the person's last request")
    # Results that `repair_pairs` added do not count as a summary.
    if all(placed[at][1] is not None for at in origin if at is not None):
        raise UnusableResult("it put nothing in the place of what it took out")
    after = Counts(repaired).total(0, len(repaired))
    if after >= before:
        raise UnusableResult(f"about {before:,} tokens of messages would become {after:,}")
    return Compaction(
        messages=repaired,
        ids=kept,
        replaced=replaced,
        how=engine.name,
        kept_exactly=sum(count_kept(parse_block(message).kept) for message in repaired if is_block(message)),
        tokens_before=before,
        tokens_after=after,
    )


def _placed(made: list[dict[str, Any]], known: Mapping[int, dict[str, Any]]) -> list[tuple[dict[str, Any], int | None]]:
    """Matches returned messages with ours, by id and content; new ones keep only the fields that a model gets."""
    placed: list[tuple[dict[str, Any], int | None]] = []
    seen: set[int] = set()
    for message in made:
        bare = {key: part for key, part in message.items() if not key.startswith("_")}
        number = message.get("_id")
        if isinstance(number, int) and known.get(number) == bare:
            if number in seen:
                raise UnusableResult("it returned a message twice")
            seen.add(number)
            placed.append((known[number], number))
        elif text_of(bare).strip() or bare.get("tool_calls"):
            placed.append(({key: part for key, part in bare.items() if key in WIRE_KEYS}, None))
    return placed


def _cannot_be_stored(made: list[dict[str, Any]]) -> str:
    """Why these messages cannot be stored as JSON or read back; "" when they can."""
    try:
        json.dumps(made)
    except (TypeError, ValueError, RecursionError) as error:
        return str(error)
    if not all(isinstance(key, str) for message in made for key in message):
        return "the name of a field is not text"
    odd = [message["content"] for message in made if not isinstance(message.get("content"), str | list | None)]
    return f"content is {type(odd[0]).__name__}" if odd else ""
