"""The context engine in a session: chosen when it is first needed, told what happens, and not trusted to be well.

It also knows how large the model's window is: what the model says of itself, or less when its provider once refused a
request and named what fits. That is kept per model, so that the next process need not run into it again.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeVar

from hermes.compression.assembly import unchanged
from hermes.compression.breaker import Breaker
from hermes.compression.compressor import ContextCompressor
from hermes.session.engine_state import BREAKER
from hermes.session.engines import built_in, summarisers

Answer = TypeVar("Answer")
if TYPE_CHECKING:
    from collections.abc import Callable

    from hermes.compression.assembly import Compaction
    from hermes.compression.engine import ContextEngine
    from hermes.llm.client import Model
    from hermes.session.host import Host
    from hermes.session.wiring import Parts

_WINDOW = "window"


class EngineSeat:
    def __init__(self, host: Host, parts: Parts, window: int, renew: Callable[[], None]) -> None:
        """`window` is what the model is believed to have; `renew` is called before a model is asked for a summary."""
        self._host = host
        self._parts = parts
        self._renew = renew
        self._model: Model | None = None
        self._engine: ContextEngine | None = None
        self._stored = Breaker()
        self._in_its_place = Breaker()  # of the built-in compressor, where it stands in for an engine without one
        self._believe(host.model, window)

    @property
    def engine(self) -> ContextEngine:
        if self._engine is None:
            choice = self._parts.engine
            self._engine = choice.engine
            if choice.problem:
                self._host.notices.add("settings", choice.problem)
            stored = self._parts.database.get_meta(f"{BREAKER}:{self._host.id}")
            self._stored = Breaker.from_dict(json.loads(stored) if stored else None)
            self._fared(self._stored)
            if isinstance(self._engine, ContextCompressor):
                self._engine.use_summarisers(**self.summarisers())
            self.told(self._engine.update_model, self._host.model, self.window)
            self.start()
        return self._engine

    def told(self, call: Callable[..., Answer], *values: Any, **named: Any) -> Answer | None:
        """Tells the engine something; what goes wrong inside it is the person's to know, and ends nothing."""
        try:
            return call(*values, **named)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - an engine is other people's code and may raise anything
            self._note(f"the context engine {self.engine.name} failed: {type(error).__name__}: {error}")
            return None

    def start(self, **boundary: Any) -> None:
        given: dict[str, Any] = {
            "hermes_home": self._parts.home.path,
            "database": self._parts.database,
            "model": self._host.model,
            "context_length": self.window,
            **self.summarisers(),
            **boundary,
        }
        self.told(self.engine.on_session_start, self._host.id, **given)

    def moved(self) -> None:
        """The conversation is in another database now, which an engine of somebody else may read."""
        if self._engine is not None and type(self._engine) is not ContextCompressor:
            self.start()

    def close(self) -> None:
        """The session ends: an engine that was used hears of it, after the providers."""
        if self._engine is not None:
            self.told(self._engine.on_session_end, self._host.id, self._host.context.said())

    # --- models and their windows ------------------------------------------------------------------------------------

    def summarisers(self) -> dict[str, Any]:
        return summarisers(self._parts.settings, self._model, self._renew)

    def use_model(self, model: Model) -> None:
        """From now on this model answers, and may be asked for a summary when the helper cannot."""
        if model is self._model:
            return
        before = self.window
        self._model = model
        self._believe(model.name, model.context_length)
        if self._engine is not None:
            if isinstance(self._engine, ContextCompressor):
                self._engine.use_summarisers(**self.summarisers())
            if self.window != before:
                self.told(self._engine.update_model, model.name, self.window)

    def assume(self, window: int) -> None:
        """The model takes no more than that, as it seems."""
        self.window = window
        self.told(self.engine.update_model, self._host.model, window)

    def learn(self, window: int) -> None:
        """The provider said what fits. It holds as long as the model is believed to have the window it has now."""
        if window < self._believed:
            kept = json.dumps({"tokens": window, "instead_of": self._believed})
            self._parts.database.set_meta(f"{_WINDOW}:{self._name}", kept)

    def _believe(self, name: str, window: int) -> None:
        kept = json.loads(self._parts.database.get_meta(f"{_WINDOW}:{name}") or "{}")
        self._name, self._believed = name, window
        self.window = int(kept["tokens"]) if kept.get("instead_of") == window else window

    # --- the breaker -------------------------------------------------------------------------------------------------

    @property
    def breaker(self) -> Breaker:
        return self.engine.breaker if isinstance(self.engine, ContextCompressor) else self._in_its_place

    def counted(self, counts: dict[str, int]) -> None:
        """What the provider counted for the last request."""
        self.told(self.engine.update_from_response, counts)
        if not isinstance(self.engine, ContextCompressor):
            threshold = self._built_in().threshold_tokens
            self._in_its_place = self._in_its_place.read(counts["prompt_tokens"], threshold)
        self.store_breaker()

    def compact_instead(self, messages: list[dict[str, Any]], **given: Any) -> Compaction:
        """The built-in compressor in the place of the engine: models that failed rest, and what never helps stops."""
        ours = self._built_in(**self.summarisers())
        if not given["force"] and self.breaker.blocks(given["current_tokens"], self.window):
            return unchanged(messages, given["ids"], given["current_tokens"], "it did not help before")
        done = ours.compact(messages, **given)
        self._fared(ours.breaker)
        return done

    def _built_in(self, **summarisers: Any) -> ContextCompressor:
        return built_in(self._parts.settings, self.window, breaker=self.breaker, **summarisers)

    def _fared(self, breaker: Breaker) -> None:
        if isinstance(self._engine, ContextCompressor):
            self._engine.breaker = breaker
        else:
            self._in_its_place = breaker

    def store_breaker(self) -> None:
        now = self.breaker
        if now != self._stored:
            self._parts.database.set_meta(f"{BREAKER}:{self._host.id}", json.dumps(now.as_dict()))
            self._stored = now

    def breaker_was_stored(self) -> None:
        self._stored = self.breaker

    def _note(self, text: str) -> None:
        self._host.notices.add("compaction", text)
