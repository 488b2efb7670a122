"""One provider as the manager holds it: its two lanes, its outbox and its health.

In the lane `calls` it answers a turn that waits; in the lane `deliveries` it starts, stores and changes sessions, in
order. Whatever it does there, or fails to do, ends there.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, TypeVar

from hermes.providers.base import InAProcess
from hermes.providers.calling import running_for
from hermes.providers.health import DELIVERY, START, Health, in_words
from hermes.providers.lane import Lane
from hermes.providers.outbox import Outbox, Parcel, Round
from hermes.providers.signatures import hand_over, implements
from hermes.vocabulary.errors import ProviderEnded, ProviderError, StorageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from hermes.providers.health import Patience
    from hermes.providers.lane import Job

Answer = TypeVar("Answer")
_OTHERS_DELIVER = 2.0  # seconds until we look again whether another process has delivered
_HANGS_AFTER = 60.0


class Attached:
    def __init__(
        self,
        provider: Any,
        *,
        hermes_home: str,
        user: str = "",
        mode: str = "hybrid",
        patience: Patience | None = None,
        tell: Callable[[str], None] = lambda _: None,
        lane: Callable[[str], Lane] = Lane,
    ) -> None:
        self.provider = provider
        self._home = hermes_home
        self.name = str(provider.name)
        self.mode = mode
        self._tell = tell
        self.health = Health(self.name, patience=patience, tell=self._told)
        self.outbox = Outbox(hermes_home, self.name, user=user)
        self.calls = lane(f"hermes-{self.name}-calls")
        self.deliveries = lane(f"hermes-{self.name}-deliveries")
        self.ready = False
        self.problem = ""
        self.tools: list[str] = []
        self._switch = 0
        self.heard = threading.Event()  # of the session that is current
        self.heard.set()
        self.gave_up = False
        self._start: Callable[[], object] | None = None
        self._handing_over_since: float | None = None
        self._closing = False

    # -- asking: somebody waits ---------------------------------------------------------------------------------------

    @property
    def stuck(self) -> bool:
        """Whether a call that was given up has still not returned: then nothing else is asked."""
        self.gave_up = self.gave_up and self.calls.busy
        return self.gave_up

    def begin(self, work: Callable[[], Answer]) -> Job[Answer]:
        return self.calls.begin(self._guarded(work))

    def ask(self, work: Callable[[], Answer], timeout: float) -> Answer:
        return self.begin(work).wait(timeout)

    # -- delivering: nobody waits -------------------------------------------------------------------------------------

    def start(self, initialize: Callable[[], object]) -> Job[None]:
        self._start = initialize
        return self.deliveries.begin(self._work)

    def put(self, hook: str, arguments: dict[str, Any]) -> None:
        """Keeps a call on disk and hands it over as soon as the provider takes it."""
        if not implements(self.provider, hook):
            return
        try:
            self.outbox.put(hook, arguments)
        except StorageError as error:  # a full disk: better once now than never
            self.health.failed(DELIVERY, error)
            parcel = Parcel(name="", hook=hook, arguments=arguments, key="")
            self.deliveries.post(lambda: self._quietly(lambda: self._hand_over(parcel)))
            return
        self._notice_hanging()
        self.deliveries.post(self._work)

    def warm(self, work: Callable[[], object]) -> None:
        """Something useful in the background that may as well be left out."""
        self.deliveries.post(lambda: self._quietly(work) if self.ready and not self.health.rests else None)

    def switch(self, number: int, work: Callable[[], object], initialize: Callable[[], object]) -> None:
        """Tells the provider of another session; it recalls nothing until it has heard of it.

        When it has to be started after this, it is for that session (`initialize`). A recall that was under way could
        leave its findings in the provider after it heard, so then it is told again.
        """
        self._switch = number
        self._start = initialize if self._start is not None else None
        self.heard.clear()

        def heard() -> None:
            if number == self._switch:
                self.heard.set()

        def tell() -> None:
            under_way = self.calls.busy
            self._quietly(work)
            if under_way:
                self.calls.post(lambda: self.deliveries.post(tell_again))
            else:
                heard()

        def tell_again() -> None:
            self._quietly(work)
            heard()

        self.deliveries.post(tell)

    def flush(self) -> Job[None]:
        """Tries to hand over everything now, whatever the pauses say."""
        return self.deliveries.begin(lambda: self._work(forced=True))

    def drain(self) -> Job[None]:
        """The last attempt to hand over what waits; nothing is tried again after it."""
        self._closing = True
        return self.flush()

    def close(self) -> Job[None]:
        """Lets the provider close its connections."""
        return self.deliveries.begin(lambda: self._quietly(self.provider.shutdown))

    def stop(self) -> None:
        self.calls.close()
        self.deliveries.close()
        if isinstance(self.provider, InAProcess):
            self.provider.end_process()

    def report(self) -> dict[str, Any]:
        found = {"name": self.name, "mode": self.mode, "ready": self.ready, "tools": self.tools}
        waiting, aside = len(self.outbox.names()), self.outbox.set_aside()
        problem = {"problem": self.problem} if self.problem else {}
        process = self.provider.describe() if isinstance(self.provider, InAProcess) else {}
        return {**found, **self.health.report(), "waiting": waiting, "refused": aside, **problem, **process}

    # -- in the lane of deliveries ------------------------------------------------------------------------------------

    def _work(self, *, forced: bool = False) -> None:
        if not forced and time.monotonic() < self.health.next_attempt and self.health.failing(DELIVERY, START):
            self.deliveries.wake_at(self.health.next_attempt, self._work)
            return
        if not self._is_started():
            self._again(self.health.next_attempt)
            return
        try:
            round_ = self.outbox.deliver(self._hand_over)
        except StorageError as error:
            round_ = Round(error=error)
        if round_.error is not None:
            self.health.failed(DELIVERY, round_.error)
            self._again(self.health.next_attempt)
        elif round_.waiting:
            self._again(time.monotonic() + _OTHERS_DELIVER)
        elif round_.delivered:
            self.health.worked(DELIVERY)

    def _notice_hanging(self) -> None:
        since = self._handing_over_since
        if since is not None and time.monotonic() - since > _HANGS_AFTER:
            self.health.failed(
                DELIVERY, ProviderError("it has not taken what it was given for a long time", kind="slow")
            )

    def _again(self, moment: float) -> None:
        if not self._closing:
            self.deliveries.wake_at(moment, self._work)

    def _is_started(self) -> bool:
        if not self.ready and self._start is not None:
            try:
                self._guarded(self._start)()
            except BaseException as error:  # noqa: BLE001 - a provider may raise anything
                self.problem = f"did not start: {in_words(error)}"
                self.health.failed(START, error)
                return False
            self.ready, self.problem = True, ""
            self.health.worked(START)
        return self.ready

    def _hand_over(self, parcel: Parcel) -> None:
        self._handing_over_since = time.monotonic()
        try:
            self._guarded(lambda: hand_over(self.provider, parcel.hook, parcel.arguments, parcel.key))()
        finally:
            self._handing_over_since = None

    def _told(self, text: str) -> None:
        self._tell(text)
        self.deliveries.post(lambda: self._remember(text))  # off the turn's path: it waits for the disk

    def _remember(self, text: str) -> None:
        try:
            self.outbox.remember_state(text)
        except StorageError as error:  # status commands of other processes will not know; nothing else is lost
            self.health.last_error = in_words(error)

    def _quietly(self, work: Callable[[], object]) -> None:
        try:
            self._guarded(work)()
        except BaseException as error:  # noqa: BLE001 - a provider may raise anything
            self.health.last_error = in_words(error)

    def _guarded(self, work: Callable[[], Answer]) -> Callable[[], Answer]:
        def run() -> Answer:
            with running_for(self._home):
                try:
                    return work()
                except ProviderEnded as error:
                    self._lost(error)
                    raise

        return run

    def _lost(self, error: ProviderEnded) -> None:
        """Its process is gone: it is started again, sooner or later as its health says."""
        if self.ready:
            self.ready, self.problem = False, in_words(error)
            self.health.failed(START, error)
            self._again(self.health.next_attempt)
