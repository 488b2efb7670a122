"""How long the server waits for a request to begin: a connection that says nothing, or never ends its headers, is shut.

The door sees a request only when its headers are complete, so whoever never completes them would hold a place for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import asyncio


class Impatient(H11Protocol):
    """uvicorn's own protocol, with a time limit for the headers of each request."""

    header_seconds = 20.0
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._expect()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _expect(self) -> None:
        """Starts to wait for headers, or stops when they are there."""
        if self._answers:
            self._stop_waiting()
        elif self._late is None:
            self._late = self.loop.call_later(self.header_seconds, self._give_up)

    @property
    def _answers(self) -> bool:
        cycle: Any = self.cycle  # None before the first request, whatever its type says
        return cycle is not None and not cycle.response_complete

    def _give_up(self) -> None:
        self._late = None
        if not self._answers and not self.transport.is_closing():
            self.transport.close()

    def _stop_waiting(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
