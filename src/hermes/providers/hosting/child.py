"""A provider's process seen from our side: asked within a time, and ended when it does not keep to it."""

from __future__ import annotations

import builtins
import json
import os
import socket
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hermes.providers.hosting.calls import DATA as DATA_CALLS
from hermes.providers.hosting.calls import DELIVERED, TEXTS
from hermes.providers.hosting.frames import CALL, DATA, FAULT, LARGEST, TEXT, Line, LineBroken, LineClosed, TooLate
from hermes.providers.hosting.running import Running
from hermes.vocabulary.errors import ProviderEnded, ProviderError
from hermes.vocabulary.values import value

if TYPE_CHECKING:
    from collections.abc import Mapping

_PLACES = ("calls", "deliveries")
_SECONDS_TO_DIE = 0.2  # between a closed line and the end that closed it
_FAULTS = {FAULT: LARGEST[FAULT]}


@value
class Bounds:
    """What a provider's process may take. A call that is not answered in its seconds ends the process."""

    calls: float = 31.0  # seconds, when somebody waits
    deliveries: float = 120.0
    load: float = 30.0
    megabytes: int = 2048  # of memory it may write to; 0 for no limit


class Child:
    def __init__(self, name: str, operator_home: str, hermes_home: str, bounds: Bounds) -> None:
        """Starts the process, which loads the provider meanwhile; `hooks` waits for that."""
        self._bounds = bounds
        self._why = ""  # it was ended by us, in words after `its process`
        self._leaving = self._over = False
        pairs = [socket.socketpair() for _ in _PLACES]
        try:
            self._running = Running([there.fileno() for _, there in pairs], hermes_home)
        finally:
            for _, there in pairs:
                there.close()
        self._lines = {
            place: (threading.Lock(), Line(here, alive=lambda: self._running.is_alive))
            for place, (here, _) in zip(_PLACES, pairs, strict=True)
        }
        self._loaded_until = time.monotonic() + bounds.load
        told = {
            "name": name,
            "operator": operator_home,
            "home": hermes_home,
            "megabytes": bounds.megabytes,
            "path": _search_path(),
        }
        with suppress(LineBroken):  # it died at once; whoever asks for its hooks hears why
            self._lines["calls"][1].send(CALL, 0, json.dumps(told).encode(), until=self._loaded_until)

    @property
    def ended(self) -> bool:
        return self._over or self._leaving or not self._running.is_alive

    @property
    def pid(self) -> int:
        return self._running.pid

    def hooks(self) -> list[str]:
        """Which hooks the provider has, once it is loaded; the ProviderError that says why it does not load."""
        found = self._heard(self._lines["calls"][1], 0, {DATA: LARGEST[DATA]}, self._loaded_until)
        return [str(hook) for hook in found.get("hooks", ())] if isinstance(found, dict) else []

    def ask(self, hook: str, arguments: list[Any], more: dict[str, Any]) -> Any:
        """What the provider returned, or raises what it raised; a ProviderEnded when it cannot answer any more."""
        delivered = hook in DELIVERED
        seconds = self._bounds.deliveries if delivered else self._bounds.calls
        until = time.monotonic() + seconds
        lock, line = self._lines["deliveries" if delivered else "calls"]
        if not lock.acquire(timeout=seconds):
            raise ProviderError("it is busy with another call", kind="busy")
        try:
            if self.ended:
                self.end("")  # what it may have left behind
                raise ProviderEnded(f"its process {self._end_in_words()}", kind="unreachable")
            return self._asked(line, hook, {"hook": hook, "arguments": arguments, "more": more}, until)
        finally:
            self._running.listen()
            if self._over:
                line.release()
            lock.release()
            if self._leaving:
                self.leave()

    def close(self) -> None:
        """Lets it end by itself for a moment, then ends it."""
        self._over, self._why = True, self._why or "was closed"
        self._hang_up()
        self._running.dismiss()

    def leave(self) -> None:
        """Ends it now, or as soon as what it is doing is done; no call begins after this."""
        self._leaving = True
        if not any(lock.locked() for lock, _ in self._lines.values()):
            self.end("was closed")

    def end(self, why: str) -> None:
        """Ends it and what it started, whatever they are doing."""
        self._over, self._why = True, self._why or why
        self._running.kill()
        self._hang_up()

    # -- how -----------------------------------------------------------------------------------------------------------

    def _asked(self, line: Line, hook: str, request: dict[str, Any], until: float) -> Any:
        number = time.monotonic_ns() & 0xFFFFFFFF
        try:
            line.send(CALL, number, json.dumps(request, default=str).encode(), until=until)
        except (LineBroken, TooLate) as trouble:
            raise self._lost(trouble) from None
        if hook in TEXTS:
            accepted = {TEXT: LARGEST[TEXT]}
        else:
            accepted = {DATA: LARGEST[DATA] if hook in DATA_CALLS else len(b"null")}
        return self._heard(line, number, accepted, until)

    def _heard(self, line: Line, number: int, accepted: Mapping[bytes, int], until: float) -> Any:
        try:
            kind, about, payload = line.receive({**accepted, **_FAULTS}, until=until)
        except (LineBroken, TooLate) as trouble:
            raise self._lost(trouble) from None
        if about != number:
            raise self._lost(LineBroken("answered what nobody had asked"))
        if kind == TEXT:
            return payload.decode("utf-8", "replace")
        try:
            told = json.loads(payload)
        except (ValueError, RecursionError):
            raise self._lost(LineBroken("sent something that is no answer")) from None
        if kind == FAULT:
            raise _raised(told)
        return told

    def _lost(self, trouble: LineBroken | TooLate) -> ProviderEnded:
        """Ends what is left of it; an end of its own accord is told as what it was."""
        if isinstance(trouble, LineClosed) and self._running.ends_within(_SECONDS_TO_DIE):
            self.end("")
        elif isinstance(trouble, TooLate):
            self.end("did not answer for long and was ended")
        else:
            self.end(f"{trouble} and was ended")
        return ProviderEnded(f"its process {self._end_in_words()}", kind="ended")

    def _end_in_words(self) -> str:
        return self._why or self._running.end_in_words()

    def _hang_up(self) -> None:
        for lock, line in self._lines.values():
            line.close()
            if lock.acquire(blocking=False):  # else whoever talks at the moment releases it
                line.release()
                lock.release()


def _search_path() -> list[str]:
    """Where we look for modules; the folder we are in by its name, unless it is gone."""
    try:
        here = [os.getcwd()]
    except OSError:
        here = []
    return [each for place in sys.path for each in ([place] if place else here)]


def _raised(told: Any) -> BaseException:
    """An error like the one in the process: its name, its words, and whether waiting helps."""
    told = told if isinstance(told, dict) else {}
    name, said = str(told.get("type") or ""), str(told.get("said") or "")
    if "kind" in told:
        seconds, status = told.get("seconds"), told.get("status")
        return ProviderError(
            said,
            kind=str(told["kind"]),
            seconds=float(seconds) if isinstance(seconds, int | float) else None,
            status=status if isinstance(status, int) else None,
        )
    known = getattr(builtins, name, None)
    if isinstance(known, type) and issubclass(known, Exception):
        with suppress(TypeError):  # some are not made of words
            return known(said)
    kind: type[Exception] = OSError if told.get("os") else Exception
    alike: type[Exception] = type(name if name.isidentifier() else "Error", (kind,), {})
    return alike(said)
