"""What compaction sees of the session it works for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from hermes.prompt.assembly import Prompt
    from hermes.session.context import Context
    from hermes.session.notices import Notices
    from hermes.session.requests import Request


class Boundary(Protocol):
    """What external memory is told at a compaction; the provider manager has these methods."""

    def on_pre_compress(self, messages: list[dict[str, Any]]) -> str: ...
    def on_session_end(self, messages: list[dict[str, Any]]) -> None: ...
    def on_session_switch(
        self, new_session_id: str, *, parent_session_id: str = "", reset: bool = False, **kwargs: Any
    ) -> None: ...


class Host(Protocol):
    """The session, as compaction sees it."""

    id: str
    system_prompt: str
    context: Context
    last_id: int
    compactions: int
    boundary: Boundary
    notices: Notices
    model: str

    def request(self) -> Request: ...
    def overhead(self) -> int: ...
    def rebuilt_prompt(self) -> Prompt: ...
    def announced(self) -> dict[str, int]: ...
    def go_on(
        self,
        session_id: str,
        context: Context,
        last_id: int,
        *,
        system_prompt: str,
        seen: dict[str, int],
    ) -> None: ...
    def reload(self) -> None: ...
