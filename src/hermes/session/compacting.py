"""The parts of a session that keep it going: without its database, and inside the model's window."""

from __future__ import annotations

import logging
from datetime import date
from typing import TYPE_CHECKING, Any, TypeVar

from hermes.session.announcements import Announcements
from hermes.session.context import Context
from hermes.session.ending import mark_open
from hermes.session.host import Host
from hermes.session.unsaved import KIND, close_quietly, note_of, store
from hermes.storage.compaction import Contexts
from hermes.storage.database import OPTIONAL_WAIT
from hermes.vocabulary.errors import StorageError
from hermes.vocabulary.usage import Usage
from hermes.vocabulary.words import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hermes.llm.client import Model
    from hermes.prompt.assembly import Prompt
    from hermes.session.compaction import Compactor
    from hermes.session.nudges import Nudges
    from hermes.session.requests import Request
    from hermes.session.wiring import Parts
    from hermes.storage.conversations import Session
    from hermes.storage.transcripts import StoredMessage
    from hermes.vocabulary.errors import ContextTooLong
    from hermes.vocabulary.events import Compacted, Notice

Answer = TypeVar("Answer")
_LOG = logging.getLogger("hermes.session")
_FEWEST = 4  # messages below which nothing is ever compacted


class Storing(Host):
    """The part of a session that goes on when its database does not."""

    id: str
    context: Context
    _parts: Parts
    _row: Session
    _details: dict[str, Any]
    _announcements: Announcements
    _compactor: Compactor | None
    nudges: Nudges

    def _kept(self, act: Callable[[], Answer]) -> Answer:
        """Does `act`; when the database cannot be used, once more with the conversation in a spare one."""
        try:
            return act()
        except StorageError as error:
            self._go_on_without(error)
            return act()

    def _counting(self, act: Callable[[], object]) -> None:
        """Does `act`, which counts something; the counts go along to a spare database."""
        try:
            act()
        except StorageError as error:
            self._go_on_without(error)

    def _go_on_without(self, error: StorageError) -> None:
        spare = self._parts.fall_back(error)
        row = self._row._replace(id=self.id, model=self.model or None)
        details = {**self._details, "system_prompt": self.system_prompt, "announced": self._announcements.seen}
        ids = spare.carry(row, details, self.context.stored())
        self.context.renumbered(ids)
        self.last_id = ids[-1] if ids else 0
        self._moved()
        self.notices.add(KIND, spare.in_words())

    def _store_again(self, *, closing: bool = False) -> None:
        """Adds a conversation from a spare database to `state.db`, if that can be used again, and goes on there.

        One that was compacted meanwhile goes on in the spare database until it is closed: `state.db` gets it as it was
        said, which may not fit the model's window.
        """
        spare = self._parts.spare
        if spare is None or not (closing or spare.worth_trying()):
            return
        if not closing and (self.id != spare.session or Contexts(spare.db).was_compacted(self.id)):
            return
        try:
            database = self._parts.open_again(wait=OPTIONAL_WAIT if closing else 0.0)
        except StorageError:
            return
        try:
            session_id, added = store(spare.db, database, spare.name)
            if not session_id:  # there is nothing in it
                database.close()
                return
            stored = Contexts(database).live(session_id)
            last_id = database.get_session(session_id).last_id
        except StorageError:
            close_quietly(database)
            return
        self._parts.go_back_to(database)
        context = Context((each.id, each.message) for each in stored)
        if context.messages == Context(self.context.stored()).messages:
            self.context.renumbered(context.ids)
        else:  # another process has written to it, too, or it was compacted
            self.context = context
            self.compactions += 1
        self.id, self.last_id = session_id, last_id
        self._parts.bind(session_id)
        self._kept(lambda: self._parts.database.set_meta(note_of(spare.name), None))
        self._kept(lambda: mark_open(self._parts, session_id))
        self._counting(self._moved)
        self.notices.add(KIND, f"state.db can be used again; {counted(added, 'message')} of this conversation stored")

    def _moved(self) -> None:
        """The conversation is in another database now."""
        self.nudges.move(self._parts.database, self.id)
        if self._compactor is not None:
            self._compactor.moved()

    def _tell_unsaved(self) -> None:
        """At the close: what is still not in `state.db` stays where it is, and the operator is told."""
        spare = self._parts.spare
        if spare is None or spare.is_empty():
            return
        told = f"this conversation is not in state.db yet; {spare.db.path} has it, and the next session adds it"
        self.notices.add(KIND, told)
        _LOG.info("%s: %s", told, spare.why)


class Compacting(Storing):
    _real: tuple[int, int] | None

    def start_engine(self) -> None:
        """An engine of somebody else is told at once that a session begins: its tools may be called at any time."""
        if self._parts.settings.text("context.engine") not in ("", "compressor"):
            _ = self.compactor.engine

    def use_model(self, model: Model) -> None:
        """Says which model answers: its window counts, and it may be asked for a summary."""
        self._kept(lambda: self.compactor.use_model(model))

    def counted(self, usage: Usage | Mapping[str, Any]) -> None:
        """Tells what the provider's API counted for the last request; call it before the answer is recorded."""
        self._kept(lambda: self.compactor.counted(Usage.of(usage)))

    def fit(self, request: Request, too_long: ContextTooLong | None = None) -> Request:
        """What to send instead of `request`: itself, or a shorter one after a compaction.

        With `too_long` a model has refused the request, so it is made shorter in any case.
        """
        return self._kept(lambda: self.compactor.fit(request, too_long))

    def compact(self, focus: str = "") -> Compacted | None:
        """Compacts because a person asked for it; None when there is nothing to take out, with a notice that says so.

        `focus` is a subject that gets most of the room. LockTimeout when another process is at it.
        """
        return self.compactor.run("asked", focus=focus, force=True)

    def preflight(self) -> None:
        """The safety net before a message is handled: a history that has nearly outgrown the window is compacted."""
        if len(self.context.messages) >= _FEWEST:
            self._kept(lambda: self.compactor.preflight())  # noqa: PLW0108 - making it reads the database

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
