"""What a threat scan says about a text. The scan itself is handed to whoever needs one."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Protocol

    class Verdict(Protocol):
        """`level` is "clean", "ask" (a person should look) or "refuse"; `classes` name what was found."""

        @property
        def level(self) -> str: ...
        @property
        def classes(self) -> Sequence[str]: ...
        @property
        def excerpt(self) -> str: ...

    Scan = Callable[[str], Verdict]
