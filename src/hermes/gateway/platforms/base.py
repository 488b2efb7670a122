"""What a chat platform is to the gateway: it gives messages, takes answers, and says who somebody is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from hermes.vocabulary.errors import HermesError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

DRAFT = "…"  # what stands in a chat until the answer does


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """One message of a person. `update` is the platform's own number for it: the same message has the same one."""

    platform: str
    update: str
    chat: str
    user: str
    text: str
    kind: str = "dm"  # dm, or group
    thread: str = ""
    message: str = ""  # what an answer in a group refers to
    user_name: str = ""
    chat_name: str = ""
    addressed: bool = True  # meant for us, and not only said where we can hear it


class Later(HermesError):
    """The platform cannot take this now; it may in `seconds`."""

    def __init__(self, message: str, *, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


class Never(HermesError):
    """The platform will not take this, however often it is tried. `gone`: the message to edit is not there."""

    def __init__(self, message: str, *, gone: bool = False) -> None:
        super().__init__(message)
        self.gone = gone


class Inbox(Protocol):
    """Where a platform puts what it received. When `take` returns, everything is stored and may be acknowledged."""

    def take(self, platform: str, messages: Sequence[Incoming], *, cursor: str = "") -> None: ...
    def cursor(self, platform: str) -> str: ...


class Platform(Protocol):
    """One platform. `edits` says whether a message that was sent can be changed afterwards.

    `send` returns the platform's name for what was sent; `delivery` is the same for each attempt at one piece of an
    answer, so that a platform that cannot edit can recognise a repetition. Errors are `Later` and `Never`.
    """

    name: str
    edits: bool

    def receive(self, inbox: Inbox, stop: Callable[[], bool], report: Callable[[str], None]) -> None:
        """Receives until `stop`; a platform that is called from outside prepares that and returns."""

    def identity(self) -> str:
        """Who we are on this platform."""

    def send(self, to: Incoming, text: str, *, delivery: str) -> str: ...
    def edit(self, to: Incoming, sent: str, text: str) -> None: ...
    def typing(self, to: Incoming) -> None: ...
    def split(self, text: str) -> list[str]: ...
