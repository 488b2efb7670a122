"""The one place that chooses: builds what a session needs from the settings of a home."""

from __future__ import annotations

from hermes.curated.approval import Approvals
from hermes.curated.history import Cause
from hermes.curated.store import SWITCHES, MemoryStore
from hermes.tools.memory import MemoryTool
from hermes.tools.registry import Toolbox
from hermes.tools.taint import Taint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermes.settings.home import Home
    from hermes.settings.load import Settings
    from hermes.tools.registry import Tool


def open_store(home: Home, settings: Settings) -> MemoryStore | None:
    """Curated memory, or None when both files are switched off."""
    if not any(settings.flag(switch) for switch in SWITCHES.values()):
        return None
    return MemoryStore.open(home, settings=settings)


def open_toolbox(home: Home, settings: Settings, *, session_id: str = "", extra: Sequence[Tool] = ()) -> Toolbox:
    """What a model may call in this home, with the tools a host adds."""
    taint = Taint()
    memory = MemoryTool(
        open_store(home, settings),
        cause=Cause(origin="agent", session=session_id),
        approvals=Approvals(home),
        taint=taint,
        approve_all=settings.flag("memory.write_approval"),
        untrusted=settings.text("memory.untrusted_writes"),
    )
    return Toolbox([memory, *extra], taint)
