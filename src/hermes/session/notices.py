"""What a session wants to tell the person: collected from any thread, taken by whichever surface talks to them."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections import deque

    from hermes.vocabulary.events import Notice
else:
    from _collections import deque  # `collections` would load half a dozen modules


class Notices:
    def __init__(self) -> None:
        self._waiting: deque[Notice] = deque(maxlen=100)  # a surface that never looks must not fill the memory

    def add(self, kind: str, text: str) -> None:
        from hermes.vocabulary.events import Notice  # loads what a single command has no use for

        self._waiting.append(Notice(kind=kind, text=text))

    def take(self) -> list[Notice]:
        """What came since the last look; each notice is given out once."""
        return [self._waiting.popleft() for _ in range(len(self._waiting))]
