"""When to look back: turns and tool calls of a conversation, counted in the database so that a restart keeps them.

A model that saves memory or skills by itself needs no reminder: its own call starts the count anew.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hermes.curated.provenance import least_trusted

if TYPE_CHECKING:
    from hermes.settings.load import Settings
    from hermes.storage.sessions import SessionDB

MEMORY, SKILLS = "memory", "skills"


class Nudges:
    """The counters of one conversation, whichever of its sessions is running."""

    def __init__(self, database: SessionDB, session_id: str) -> None:
        self._database = database
        self._key = f"nudges:{database.get_session(session_id).root}"
        kept = _read(database.get_meta(self._key))
        self.unknown = "" if kept else "recall"  # what to think of text that was put away when nothing is known of it
        self.turns = int(kept.get("turns", 0))
        self.calls = int(kept.get("calls", 0))
        self.taint = str(kept.get("taint", ""))
        self._saved_memory = False
        self.answered = 0  # turns of this process, for the note at its end

    def move(self, database: SessionDB, session_id: str) -> None:
        """The conversation is in another database now; its counts go along."""
        self._database = database
        self._key = f"nudges:{database.get_session(session_id).root}"
        self._save()

    def called(self, name: str) -> None:
        """A tool was called in the conversation."""
        self.calls += 1
        if name == "memory":
            self.turns, self._saved_memory = 0, True
        elif name == "skill_manage":
            self.calls = 0

    def tainted(self, origin: str) -> None:
        """Text from outside entered the conversation; whatever is learnt from it later may come from there."""
        worse = least_trusted([origin, self.taint]) if origin and self.taint else origin or self.taint
        if worse != self.taint:
            self.taint = worse
            self._save()  # at once: a turn that is broken off or interrupted has read it, too

    def turn_finished(self) -> None:
        """A person was answered; the counts are kept with the conversation."""
        self.turns = 0 if self._saved_memory else self.turns + 1
        self._saved_memory = False
        self.answered += 1
        self._save()

    def due(self, settings: Settings, tools: frozenset[str]) -> frozenset[str]:
        """What should be looked back for now: memory, skills, both or nothing."""
        counts = {
            MEMORY: (self.turns, settings.integer("memory.nudge_interval"), "memory" in tools),
            SKILLS: (self.calls, settings.integer("skills.creation_nudge_interval"), "skill_manage" in tools),
        }
        return frozenset(kind for kind, (count, every, offered) in counts.items() if offered and 0 < every <= count)

    def looked_back(self, kinds: frozenset[str]) -> None:
        """A review begins: what it is for starts from zero, so that a failing one is not tried after every turn."""
        self.turns = 0 if MEMORY in kinds else self.turns
        self.calls = 0 if SKILLS in kinds else self.calls
        self._save()

    def goes_on_in(self, session_id: str) -> None:
        """A conversation that begins with this one has read what this one read."""
        if self.taint:
            Nudges(self._database, session_id).tainted(self.taint)

    def _save(self) -> None:
        kept = {"turns": self.turns, "calls": self.calls, "taint": self.taint}
        self._database.set_meta(self._key, json.dumps(kept))


def _read(stored: object) -> dict[str, Any]:
    try:
        found = json.loads(stored) if isinstance(stored, str) else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
