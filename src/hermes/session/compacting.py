"""The part of a session that keeps it inside the model's window: what hosts and the loop call."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

from hermes.session.announcements import Announcements
from hermes.session.context import Context
from hermes.session.host import Host
from hermes.vocabulary.usage import Usage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hermes.llm.client import Model
    from hermes.prompt.assembly import Prompt
    from hermes.session.compaction import Compactor
    from hermes.session.requests import Request
    from hermes.session.wiring import Parts
    from hermes.storage.transcripts import StoredMessage
    from hermes.vocabulary.errors import ContextTooLong
    from hermes.vocabulary.events import Compacted, Notice

_FEWEST = 4  # messages below which nothing is ever compacted


class Compacting(Host):
    _parts: Parts
    _announcements: Announcements
    _real: tuple[int, int] | None
    _compactor: Compactor | None

    def start_engine(self) -> None:
        """An engine of somebody else is told at once that a session begins: its tools may be called at any time."""
        if self._parts.settings.text("context.engine") not in ("", "compressor"):
            _ = self.compactor.engine

    def use_model(self, model: Model) -> None:
        """Says which model answers: its window counts, and it may be asked for a summary."""
        self.compactor.use_model(model)

    def counted(self, usage: Usage | Mapping[str, Any]) -> None:
        """Tells what the provider's API counted for the last request; call it before the answer is recorded."""
        self.compactor.counted(Usage.of(usage))

    def fit(self, request: Request, too_long: ContextTooLong | None = None) -> Request:
        """What to send instead of `request`: itself, or a shorter one after a compaction.

        With `too_long` a model has refused the request, so it is made shorter in any case.
        """
        return self.compactor.fit(request, too_long)

    def compact(self, focus: str = "") -> Compacted | None:
        """Compacts because a person asked for it; None when there is nothing to take out, with a notice that says so.

        `focus` is a subject that gets most of the room. LockTimeout when another process is at it.
        """
        return self.compactor.run("asked", focus=focus, force=True)

    def preflight(self) -> None:
        """The safety net before a message is handled: a history that has nearly outgrown the window is compacted."""
        if len(self.context.messages) >= _FEWEST:
            self.compactor.preflight()

    def compact_range(self, wanted: Mapping[str, str]) -> dict[str, Any]:
        """Puts away what a model no longer needs; see the tool `context_compact`."""
        from hermes.session.ranges import compact_range

        return compact_range(self.compactor, self.context, wanted)

    def take_events(self) -> list[Compacted | Notice]:
        """What happened since the last look: compactions, then what the person should know."""
        happened: list[Compacted | Notice] = []
        if self._compactor is not None:
            happened += self._compactor.happened
            self._compactor.happened.clear()
        return happened + self.notices.take()

    @property
    def compactor(self) -> Compactor:
        if self._compactor is None:
            from hermes.llm.catalogue import UNKNOWN_CONTEXT, known_context
            from hermes.session.compaction import Compactor

            told = self._parts.context_length or self._parts.settings.get("model.context_length")
            window = told or known_context(self.model) or UNKNOWN_CONTEXT
            self._compactor = Compactor(self, self._parts, window, self._real)
        return self._compactor

    # --- what compaction does to the session -------------------------------------------------------------------------

    def rebuilt_prompt(self) -> Prompt:
        """The system prompt from its sources as they are now; one that cannot be read says so in it."""
        row = self._parts.database.get_session(self.id)
        given = {"platform": row.source, **self._parts.database.session_details(self.id).get("prompt_inputs", {})}
        if given.get("today"):
            given["today"] = date.fromisoformat(given["today"])
        if self._parts.store is not None:
            self._parts.store.freeze()
        return self._parts.build_prompt(model=row.model or "", cwd=row.cwd, **given)

    def announced(self) -> dict[str, int]:
        """Changes of memory up to now, all of which a prompt that is built now holds."""
        return Announcements(self._parts.store, self.id).seen

    def go_on(
        self, session_id: str, context: Context, last_id: int, *, system_prompt: str, seen: dict[str, int]
    ) -> None:
        """The conversation goes on with another context, and perhaps as another session.

        `seen` are the changes of memory that the prompt, built again, already holds.
        """
        self.system_prompt = system_prompt
        self._announcements = Announcements(self._parts.store, session_id, seen)
        self.id, self.context, self.last_id = session_id, context, last_id
        self.compactions += 1
        self._parts.bind(session_id)

    def reload(self) -> None:
        """Takes over what another process made of this session."""
        from hermes.storage.compaction import Contexts

        tip = self._parts.database.tip(self.id)
        stored = Contexts(self._parts.database).live(tip.id)
        self.system_prompt = self._parts.database.session_details(tip.id).get("system_prompt", self.system_prompt)
        self.id, self.last_id = tip.id, tip.last_id
        self.context = Context(((each.id, each.message) for each in stored), private=self.context.private)
        self.compactions += 1
        self._parts.bind(tip.id)


def last_count(stored: list[StoredMessage]) -> tuple[int, int] | None:
    """What a provider last counted, and for how many messages; None when the context was compacted since."""
    from hermes.storage.originals import WRITTEN

    for position in range(len(stored) - 1, -1, -1):
        message = stored[position].message
        if "prompt_tokens" in message:
            newest = max((each.id for each in stored if WRITTEN in each.message), default=0)
            return (message["prompt_tokens"], position) if stored[position].id > newest else None
    return None


def seen_changes(stored: list[StoredMessage], at_first: Mapping[str, int]) -> dict[str, int]:
    """Up to which change of each memory file the model has been told."""
    seen = dict(at_first)
    for each in stored:
        for target, number in each.message.get("announced", {}).items():
            seen[target] = max(number, seen.get(target, 0))
    return seen
