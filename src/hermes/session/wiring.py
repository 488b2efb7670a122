"""The one place that chooses: builds what a session needs from the settings of a home."""

from __future__ import annotations

import os

from hermes.curated.approval import Approvals
from hermes.curated.history import Cause
from hermes.curated.store import SWITCHES, MemoryStore
from hermes.settings.home import locate_home
from hermes.tools.memory import MemoryTool
from hermes.tools.registry import Toolbox
from hermes.tools.session_search import SessionSearchTool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hermes.settings.home import Home
    from hermes.settings.load import Settings
    from hermes.storage.sessions import SessionDB

DATABASE = "state.db"


def open_store(home: Home, settings: Settings) -> MemoryStore | None:
    """Curated memory, or None when both files are switched off."""
    if not any(settings.flag(switch) for switch in SWITCHES.values()):
        return None
    return MemoryStore.open(home, settings=settings)


def open_past(home: Home) -> SessionDB | None:
    """The home's conversations, or None when nothing was ever stored; looking does not create the file."""
    path = home.join(DATABASE)
    if not os.path.lexists(path):
        return None
    from hermes.storage.sessions import SessionDB

    return SessionDB.open(path)


def open_toolbox(home: Home, settings: Settings, *, session_id: str = "") -> Toolbox:
    """What a model may call in this home."""
    approvals = Approvals(home) if settings.flag("memory.write_approval") else None
    cause = Cause(origin="agent", session=session_id)

    def past(profile: str) -> SessionDB | None:
        return open_past(locate_home(home.root, profile) if profile else home)

    return Toolbox(
        [
            MemoryTool(open_store(home, settings), cause=cause, approvals=approvals),
            SessionSearchTool(past, current_session=session_id),
        ]
    )
