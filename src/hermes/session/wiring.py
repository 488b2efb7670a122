"""The one place that chooses: builds what a session needs from the settings of a home."""

from __future__ import annotations

from hermes.curated.approval import Approvals
from hermes.curated.history import Cause
from hermes.curated.store import SWITCHES, MemoryStore
from hermes.session.past import session_search_tool
from hermes.tools.memory import MemoryTool
from hermes.tools.registry import Toolbox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hermes.settings.home import Home
    from hermes.settings.load import Settings


def open_store(home: Home, settings: Settings) -> MemoryStore | None:
    """Curated memory, or None when both files are switched off."""
    if not any(settings.flag(switch) for switch in SWITCHES.values()):
        return None
    return MemoryStore.open(home, settings=settings)


def open_toolbox(home: Home, settings: Settings, *, session_id: str = "") -> Toolbox:
    """What a model may call in this home."""
    approvals = Approvals(home) if settings.flag("memory.write_approval") else None
    cause = Cause(origin="agent", session=session_id)
    return Toolbox(
        [
            MemoryTool(open_store(home, settings), cause=cause, approvals=approvals),
            session_search_tool(home, lambda: session_id),
        ]
    )
