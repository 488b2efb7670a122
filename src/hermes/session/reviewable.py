"""What a review or the curator may see of a session: parts to read from and to write through, nothing to speak with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hermes.session.outside import sources_in
from hermes.session.requests import Request
from hermes.vocabulary.errors import HermesError

if TYPE_CHECKING:
    from collections.abc import Callable

    from hermes.curated.store import MemoryStore
    from hermes.session.nudges import Nudges
    from hermes.session.wiring import Parts
    from hermes.settings.home import Home
    from hermes.settings.load import Settings
    from hermes.storage.sessions import SessionDB
    from hermes.tools.registry import Tool
    from hermes.tools.taint import Source, Taint


class Reviewable:
    """A part of `MemorySession`."""

    id: str
    system_prompt: str
    context: Any
    nudges: Nudges
    _parts: Parts
    _tools: list[dict[str, Any]]
    _prefill: list[dict[str, Any]]

    @property
    def home(self) -> Home:
        return self._parts.home

    @property
    def settings(self) -> Settings:
        return self._parts.settings

    @property
    def store(self) -> MemoryStore | None:
        """Curated memory; None when it is switched off."""
        return self._parts.store

    @property
    def database(self) -> SessionDB:
        """Where this conversation is stored, with all others of the same person."""
        return self._parts.database

    @property
    def tool_names(self) -> list[str]:
        """The tools the model of this session was offered."""
        return [str(tool["function"]["name"]) for tool in self._tools]

    def snapshot_request(self) -> Request:
        """The request as it stands now, without private parts, for somebody who will not send it as this session."""
        messages = [*self._prefill, *self.context.to_send(self.database.images.read, to_others=True)]
        return Request(system=self.system_prompt, messages=messages, tools=list(self._tools))

    def sources(self, *, since_person: bool = False) -> list[Source]:
        """What the model has in front of it that came from outside; see `sources_in`."""
        return sources_in(self.context, self.nudges, since_person=since_person)

    def said(self) -> list[str]:
        """What the person said, as far as the model has it in front of it."""
        words: list[str] = self.context.of_person()
        return words

    def inherit(self, parent: Reviewable) -> None:
        """A task that another session delegates may have been worded by whatever that session has read."""
        self._parts.taint.inherit(parent._parts.taint.everything())

    def capture(self, said: str) -> None:
        """Keeps the plain statements of a person's message, when the settings want that."""
        how = self.settings.text("memory.capture")
        if how == "off" or self.store is None or not said:
            return
        from hermes.curated.approval import Approvals
        from hermes.session.capturing import STAGE, capture_turn

        capture_turn(said, self.store, self._parts.memory, Approvals(self.home) if how == STAGE else None)

    def write_note(self) -> None:
        """Keeps a dated note of what this conversation came to, when something was said since the last one."""
        how = self.settings.text("sessions.notes")
        if how == "off" or not self.nudges.answered:
            return
        self.nudges.answered = 0
        from hermes.session.episodes import end_of_session

        messages = [each.message for each in self.database.messages(self.id)]
        end_of_session(self.database, self.id, messages, self.store, self._note_helper() if how == "model" else None)

    def _note_helper(self) -> Callable[[str, str], str] | None:
        """The helper that writes notes; an end is not delayed for longer than a review may delay it."""
        from hermes.session.models import answer, helper_model

        try:
            model = helper_model(self.settings, "compression")
        except HermesError:
            return None
        seconds = self.settings.number("review.close_seconds")
        return None if model is None else lambda system, text: answer(model, system, text, seconds)

    def review_skill_tool(self, name: str, taint: Taint) -> Tool:
        """A skill tool whose changes are stamped as a review's, and wait when text from outside may be behind them."""
        from hermes.curated.history import Cause

        return self._parts.skill_tool(name, taint, lambda: Cause(origin="background_review", session=self.id))
