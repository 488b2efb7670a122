"""Opens the past conversations of a home, for the tool and for commands; nothing is loaded until somebody looks."""

from __future__ import annotations

import os

from hermes.settings.home import locate_home
from hermes.tools.session_search import SessionSearchTool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from hermes.settings.home import Home
    from hermes.storage.sessions import SessionDB

DATABASE = "state.db"


def open_past(home: Home) -> SessionDB | None:
    """The home's conversations, or None when nothing was ever stored; looking does not create the file."""
    path = home.join(DATABASE)
    if not os.path.lexists(path):
        return None
    from hermes.storage.sessions import SessionDB

    return SessionDB.open(path)


def session_search_tool(home: Home, current_session: Callable[[], str]) -> SessionSearchTool:
    """The tool for a home; `current_session` says, at each call, in which session the model is ("" for none)."""

    def past(profile: str) -> SessionDB | None:
        return open_past(locate_home(home.root, profile) if profile else home)

    return SessionSearchTool(past, current_session=current_session)
