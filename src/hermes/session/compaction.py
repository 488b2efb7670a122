"""Compaction of a session, whoever asks for it, is one function: `Compactor.run`.

    the lease is taken → providers: on_pre_compress, unless there is nothing to take out → compress →
    providers and engine: on_session_end → archive, and rotate or replace, in one transaction →
    engine: on_session_start → providers: on_session_switch →
    a `Compacted` event, and one notice for the person

The model is told nothing about a filling window; it finds the block.
"""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

from hermes.compression.block import SYSTEM_NOTE
from hermes.compression.boundaries import newest
from hermes.compression.compressor import HYGIENE_MESSAGES, HYGIENE_THRESHOLD, NO_SUMMARY, ContextCompressor
from hermes.session.compaction_rows import by_gap, by_id, with_gaps, written_messages
from hermes.session.engine_seat import EngineSeat
from hermes.session.engine_state import BREAKER
from hermes.session.foreign_engine import NotBelieved, compressed_by
from hermes.session.requests import settled_until
from hermes.storage.compaction import Contexts, NewContext, holder_name, refuse_held
from hermes.vocabulary.errors import StorageError
from hermes.vocabulary.events import Compacted
from hermes.vocabulary.tokens import estimate

if TYPE_CHECKING:
    from hermes.compression.assembly import Compaction
    from hermes.compression.boundaries import Cut
    from hermes.compression.engine import ContextEngine
    from hermes.llm.client import Model
    from hermes.session.host import Host
    from hermes.session.requests import Request
    from hermes.session.wiring import Parts
    from hermes.vocabulary.errors import ContextTooLong
    from hermes.vocabulary.usage import Usage

_LAST_EXCHANGE = 2  # messages that stay, however few may
_ABORTED = (
    "and compression.abort_on_summary_failure is set, so the conversation stays as it is. `/compress` tries again;"
    " set it to false to go on with an extract of the conversation's own words."
)
_PASSES = 3  # attempts to fit after a model said that it was too much
_STEPS = (256_000, 128_000, 64_000, 32_000, 16_000, 8_000)  # windows to assume when it does not say how much is


class Compactor:
    def __init__(self, host: Host, parts: Parts, window: int, real: tuple[int, int] | None = None) -> None:
        """`real` is what a provider last counted, and for how many messages."""
        self.happened: list[Compacted] = []
        self._host = host
        self._parts = parts
        self._contexts = Contexts(parts.database)
        self._holder = holder_name()
        self._seat = EngineSeat(host, parts, window, self._renew)
        self._real = real
        self._problems: set[str] = set()

    # --- what the loop and the session ask ---------------------------------------------------------------------------

    @property
    def engine(self) -> ContextEngine:
        return self._seat.engine

    def use_model(self, model: Model) -> None:
        self._seat.use_model(model)

    def close(self) -> None:
        self._seat.close()

    def moved(self) -> None:
        """The conversation is in another database now."""
        self._contexts = Contexts(self._parts.database)
        self._seat.moved()

    def counted(self, usage: Usage) -> None:
        """What the provider counted for the request that ended with the newest message."""
        if not usage.input_tokens:
            return
        self._real = (usage.input_tokens, len(self._host.context.messages))
        prompt, completion = usage.input_tokens, usage.output_tokens
        counts = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
        self._seat.counted(counts | usage.as_dict())

    @property
    def real_tokens(self) -> int:
        return self._real[0] if self._real else 0

    def tokens(self) -> int:
        """Size of the next request: what was counted, and an estimate of what came since."""
        if self._real is not None:
            tokens, messages = self._real
            return tokens + self._host.context.tokens(messages)
        return self._host.overhead() + estimate(self._host.system_prompt) + self._host.context.tokens()

    def fit(self, request: Request, too_long: ContextTooLong | None) -> Request:
        """The request itself, or a shorter one; a failure here leaves it as it is."""
        before = len(self.happened)
        if too_long is not None:
            self._make_it_fit(too_long)
        elif self._seat.told(self.engine.should_compress, self.tokens()):
            self._try("threshold")
        return self._host.request() if len(self.happened) > before else request

    def preflight(self) -> None:
        """The safety net before a message is handled."""
        settings, messages = self._parts.settings, len(self._host.context.messages)
        if messages < HYGIENE_MESSAGES or not settings.flag("compression.enabled"):
            return
        most = settings.integer("compression.hygiene_hard_message_limit")
        full = self.tokens() >= self._seat.window * HYGIENE_THRESHOLD
        if not full and messages < most:
            return
        engine = self.engine
        if not isinstance(engine, ContextCompressor) or not engine.breaker.blocks(self.tokens(), self._seat.window):
            # Too many messages may be few tokens: then it is their number that decides what stays, and half as many do.
            first = engine.protect_first_n
            last = max(most // 2 - first - 1, _LAST_EXCHANGE)
            cut = None if full else newest(self._host.context.said(), first, last)
            self._try("hygiene", in_place=True, cut=cut, fewer=not full)

    # --- one compaction ----------------------------------------------------------------------------------------------

    def run(
        self,
        why: str,
        *,
        focus: str = "",
        force: bool = False,
        in_place: bool | None = None,
        cut: Cut | None = None,
        fewer: bool = False,
    ) -> Compacted | None:
        """Compacts, or says in a notice why not; StorageError when another process is at it.

        With `fewer` it is the number of messages that has to become smaller, not their size.
        """
        host = self._host
        if not self._contexts.lease(host.id, self._holder):
            raise refuse_held(host.id)
        held = host.id
        try:
            if self._went_on_elsewhere():
                self._note("the session went on in another process; its newest state was loaded")
                return None
            wanted: dict[str, Any] = {"force": force, "cut": cut, "fewer": fewer}
            told = self._will_be_asked(**wanted)
            recalled = host.boundary.on_pre_compress(host.context.said()) if told else ""
            done = self._compress(focus=focus, memory_context=recalled, **wanted)
            if done.changed:
                if not told:
                    host.boundary.on_pre_compress(host.context.said())
                return self._commit(done, why, in_place=in_place)
            self._seat.store_breaker()
            if done.reason == NO_SUMMARY:
                (self._note if force else self._note_once)(f"{done.notice[:-1]} {_ABORTED}")
            elif force:
                self._note(done.notice)
            return None
        finally:
            self._contexts.release(held, self._holder)

    def _will_be_asked(self, *, force: bool, cut: Cut | None, fewer: bool) -> bool:
        """Whether somebody will summarise with what providers say; without a model they are told when it is certain."""
        engine, context = self.engine, self._host.context
        messages = context.said()
        settled = settled_until(messages)
        if isinstance(engine, ContextCompressor):
            sizes = context.sizes()[:settled]
            return engine.would_ask(messages[:settled], sizes, force=force, cut=cut, fewer=fewer)
        return self._seat.told(engine.has_content_to_compress, copy.deepcopy(messages[:settled])) is not False

    def _compress(self, *, focus: str, force: bool, memory_context: str, cut: Cut | None, fewer: bool) -> Compaction:
        engine, context, tokens = self.engine, self._host.context, self.tokens()
        messages, ids, sizes = context.said(), context.ids, context.sizes()
        # Calls that run right now have no results yet: they wait outside, or they would get made-up ones.
        settled = settled_until(messages)
        running = messages[settled:], ids[settled:]
        messages, ids, sizes = messages[:settled], ids[:settled], sizes[:settled]
        ours = engine if isinstance(engine, ContextCompressor) else None
        refused = "" if ours else "it cannot be told which messages to take out"
        if type(engine) is not ContextCompressor and cut is None:
            more = {"force": force, "memory_context": memory_context}
            try:
                done = compressed_by(engine, messages, ids, tokens=tokens, focus=focus, **more)
                return done.followed_by(*running)
            except NotBelieved as error:
                refused, ours = str(error), None
        compact = self._seat.compact_instead if ours is None else ours.compact
        done = compact(
            messages, ids=ids, counts=sizes, current_tokens=tokens, focus=focus, force=force,
            memory_context=memory_context, cut=cut, fewer=fewer,
        )  # fmt: skip
        if refused:
            did = "did" if done.changed else "found nothing to take out"
            self._note_once(
                f"the context engine {engine.name} could not compact; the built-in compressor {did} ({refused})"
            )
        return done.followed_by(*running)

    def _commit(self, done: Compaction, why: str, *, in_place: bool | None) -> Compacted:
        host, old = self._host, self._host.id
        host.boundary.on_session_end(host.context.said())
        self._seat.told(self.engine.on_session_end, old, host.context.said())
        prompt = host.rebuilt_prompt().followed_by("compaction_note", SYSTEM_NOTE)
        seen = host.announced()
        changed = prompt if prompt.text != host.system_prompt else None
        new = NewContext(
            messages=written_messages(done, seen, host.compactions + 1, why, changed),
            ids=done.ids,
            archive=done.replaced,
            last_id=host.last_id,
            system_prompt=changed.text if changed else None,
            meta={BREAKER: json.dumps(self._seat.breaker.as_dict())},
        )
        if self._parts.settings.flag("compression.in_place") if in_place is None else in_place:
            session_id, ids = old, self._contexts.replace(old, new)
            kept = host.context.replaced(ids, by_id(ids, new))
        else:
            session_id, ids = self._contexts.split(old, new)
            kept = host.context.replaced(with_gaps(done.ids), by_gap(new))
            kept.renumbered(ids)
        self._seat.breaker_was_stored()
        self._real = None
        host.go_on(session_id, kept, max(ids), system_prompt=prompt.text, seen=seen)
        self._seat.start(boundary_reason="compression", old_session_id=old)
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

    # --- parts -------------------------------------------------------------------------------------------------------

    def _try(self, why: str, **more: Any) -> None:
        try:
            self.run(why, **more)
        except StorageError as error:  # the turn goes on with what is there
            self._note_once(f"nothing was compacted: {error}")

    def _make_it_fit(self, too_long: ContextTooLong) -> None:
        sent = self.tokens()
        limit = too_long.limit or next((step for step in _STEPS if step < sent), _STEPS[-1])
        if too_long.limit:
            self._seat.learn(too_long.limit)
        for _ in range(_PASSES):
            self._real = None
            self._seat.assume(limit)
            self._try("too long", force=True)
            if self.tokens() < limit:
                return
            limit = limit * 3 // 4

    def _went_on_elsewhere(self) -> bool:
        row = self._parts.database.get_session(self._host.id)
        if row.last_id == self._host.last_id and row.end_reason != "compression":
            return False
        self._host.reload()
        self._real = None
        return True

    def _renew(self) -> None:
        self._contexts.lease(self._host.id, self._holder)

    def _note_once(self, text: str) -> None:
        """What would come again at every model call is said once."""
        if text not in self._problems:
            self._problems.add(text)
            self._note(text)

    def _note(self, text: str) -> None:
        self._host.notices.add("compaction", text)
