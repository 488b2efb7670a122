"""The gateway as one process: platforms, workers, monitor and status, started together and ended in order."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from typing import TYPE_CHECKING, Any

from hermes.agent import Agent
from hermes.gateway.commands import Commands
from hermes.gateway.conversations import Conversations
from hermes.gateway.directory import Directory
from hermes.gateway.intake import Intake
from hermes.gateway.lanes import Lanes
from hermes.gateway.ledger import FILE, FOLDER, Ledger
from hermes.gateway.monitor import Monitor
from hermes.gateway.platforms.telegram import Telegram, telegram_of
from hermes.gateway.platforms.webhook import webhook_of
from hermes.gateway.reset import ResetPolicy
from hermes.gateway.router import Router
from hermes.session.forgetting import finish_removals
from hermes.session.models import main_model
from hermes.settings.load import load_settings
from hermes.settings.people import People
from hermes.settings.secrets_file import secret
from hermes.storage.files import Folder
from hermes.storage.locks import FileLock, is_held
from hermes.vocabulary.errors import HermesError, NotFound, SettingsError, WrongKey

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hermes.gateway.door import Door
    from hermes.gateway.platforms.base import Platform
    from hermes.settings.home import Home
    from hermes.settings.load import Settings

STATUS = "status.json"
LOCK = "run.lock"
_LOG = logging.getLogger("hermes.gateway")
_QUICK_WORKERS = 2
_STATUS_SECONDS = 5.0
_SWEEP_SECONDS = 60.0
_LARGEST = 1 << 20


class Gateway:
    def __init__(
        self,
        home: Home,
        *,
        clock: Callable[[], float] = time.time,
        open_agent: Callable[..., Agent] = Agent.open,
        port: int | None = None,
    ) -> None:
        settings = self.settings = load_settings(home)
        self.home = home
        self._clock = clock
        self.platforms = platforms_of(home, settings)
        _expect_a_model(settings)
        self.people = People(home)
        self._folder, self._lock = _alone(home)
        self.ledger = Ledger.open(home)
        self.directory = Directory(self.people, settings, self.ledger, clock)
        self.conversations = Conversations(
            self.people.home_of,
            self.ledger,
            ResetPolicy.of(settings),
            clock=clock,
            most=settings.integer("gateway.open_conversations"),
            open_agent=open_agent,
        )
        self.lanes, self._quick = self._make_lanes()
        self.intake = Intake(
            self.platforms,
            self.ledger,
            self.directory,
            lanes=self.lanes,
            quick=self._quick,
            clock=clock,
            profile=home.profile,
        )
        seconds = settings.number("gateway.monitor_interval") if settings.flag("gateway.monitor_enabled") else 0
        self.monitor = Monitor(seconds=seconds, warn_mb=settings.integer("gateway.monitor_warn_mb"))
        self.door = self._make_door(port)
        self._stop = threading.Event()
        self._problems: dict[str, str] = dict.fromkeys(self.platforms, "not connected yet")
        self._started = clock()
        self._receivers: list[threading.Thread] = []

    def start(self) -> None:
        finish_removals(self.home)
        left = self.intake.resume()
        _LOG.info("gateway of %s: %s; %s messages left from before", self.home.path, ", ".join(self.platforms), left)
        if self.door is not None:
            self.door.start()
            _LOG.info("webhooks are taken at http://%s:%s", self.settings.text("gateway.host"), self.door.port)
        self.monitor.start()
        for name, platform in self.platforms.items():
            thread = threading.Thread(
                target=platform.receive,
                args=(self.intake, self._stop.is_set, lambda told, name=name: self._report(name, told)),
                name=f"gateway-{name}",
                daemon=True,
            )
            thread.start()
            self._receivers.append(thread)
        threading.Thread(target=self._look_after, name="gateway-status", daemon=True).start()

    def stop(self) -> bool:
        """Receives nothing more, lets running answers finish, closes; False when some were left for the next start."""
        self._stop.set()
        if self.door is not None:
            self.door.stop()
        for thread in self._receivers:
            thread.join(5)
        self.intake.close()
        drained = self.lanes.close(self.settings.number("gateway.drain_seconds"))
        drained = self._quick.close(1) and drained
        self.monitor.stop()
        if drained:
            self.conversations.close()
        self._write_status(running=False)
        if drained:
            self.ledger.close()
        self._lock.__exit__()
        self._folder.close()
        return drained

    def settle(self, seconds: float) -> bool:
        """Waits until every message that came is answered."""
        return self.lanes.settle(seconds) and self._quick.settle(seconds)

    def status(self, *, running: bool = True) -> dict[str, Any]:
        return {
            "running": running,
            "pid": os.getpid(),
            "started": self._started,
            "written": self._clock(),
            "platforms": {
                name: {"identity": platform.identity(), "problem": self._problems[name]}
                for name, platform in self.platforms.items()
            },
            "answering": self.lanes.running(),
            "open_conversations": len(self.conversations),
            "memory": self.monitor.as_dict(),
        }

    def _make_lanes(self) -> tuple[Lanes, Lanes]:
        """Where messages are answered, and where what must not wait behind an answer is."""
        commands = Commands(self.directory, self.conversations, self.ledger)
        router = Router(
            self.platforms,
            self.ledger,
            self.conversations,
            commands,
            clock=self._clock,
            stream_seconds=self.settings.number("gateway.stream_seconds"),
        )
        lanes = Lanes(router.handle, workers=self.settings.integer("gateway.workers"))
        commands.waiting = lanes.waiting
        return lanes, Lanes(router.handle, workers=_QUICK_WORKERS)

    def _make_door(self, port: int | None) -> Door | None:
        called = [name for name, each in self.platforms.items() if not isinstance(each, Telegram) or each.is_called]
        if not called:
            return None
        from hermes.gateway.door import Door

        host, chosen = self.settings.text("gateway.host"), self.settings.integer("gateway.port")
        return Door(self.platforms, self.intake, host=host, port=chosen if port is None else port)

    def _report(self, platform: str, problem: str) -> None:
        if problem != self._problems[platform]:
            self._problems[platform] = problem
            (_LOG.warning if problem else _LOG.info)("%s: %s", platform, problem or "connected")
            self._write_status()

    def _look_after(self) -> None:
        """Keeps the status fresh, and closes conversations that are over."""
        swept = self._clock()
        while not self._stop.wait(_STATUS_SECONDS):
            self._write_status()
            if self._clock() - swept >= _SWEEP_SECONDS:
                swept = self._clock()
                try:
                    self.conversations.sweep(self.directory.knows)
                except HermesError as error:
                    _LOG.warning("conversations that are over could not be closed: %s", error)

    def _write_status(self, *, running: bool = True) -> None:
        try:
            self._folder.replace(STATUS, json.dumps(self.status(running=running)).encode())
        except HermesError as error:
            _LOG.warning("the status could not be written: %s", error)


def _expect_a_model(settings: Settings) -> None:
    """Without a model every message would be answered with an apology; that is said to the operator, once, now."""
    try:
        main_model(settings)
    except (NotFound, WrongKey) as error:
        raise SettingsError(f"{error} (`hermes setup` chooses a model)") from error


def _alone(home: Home) -> tuple[Folder, FileLock]:
    """The gateway's folder and the lock that keeps a second gateway of the home out."""
    folder = Folder.create(home.join(FOLDER))
    lock = FileLock(folder, LOCK, timeout=0)
    if not lock.try_to_take():
        folder.close()
        raise SettingsError("a gateway runs for this home already; `hermes gateway status` shows it")
    return folder, lock


def platforms_of(home: Home, settings: Settings) -> dict[str, Platform]:
    """The platforms the settings switch on; without one there is nothing to run."""
    found: dict[str, Platform] = {}
    if settings.flag("gateway.telegram.enabled"):
        found["telegram"] = telegram_of(
            secret(home, "TELEGRAM_BOT_TOKEN"),
            mode=settings.text("gateway.telegram.mode"),
            url=settings.text("gateway.telegram.webhook_url"),
            api=settings.text("gateway.telegram.api_url"),
            groups=settings.text("gateway.groups"),
        )
    if settings.flag("gateway.webhook.enabled"):
        found["webhook"] = webhook_of(
            secret(home, "GATEWAY_WEBHOOK_SECRET"), reply_url=settings.text("gateway.webhook.reply_url")
        )
    if not found:
        raise SettingsError(
            "no platform is switched on; `hermes config set gateway.telegram.enabled true` and put "
            "TELEGRAM_BOT_TOKEN=… into .env, or see gateway.webhook.enabled"
        )
    return found


def stored_status(home: Home) -> dict[str, Any]:
    """What the gateway of a home last said about itself, whether it runs, and what waits."""
    nothing: dict[str, Any] = {"running": False, "platforms": {}, "messages": {}, "accounts": []}
    folder = Folder.open(home.join(FOLDER))
    if folder is None:
        return nothing
    with folder:
        told: Mapping[str, Any] = json.loads(folder.read(STATUS, at_most=_LARGEST) or b"{}")
        found = {**nothing, **told, "running": is_held(folder, LOCK)}
        if folder.status(FILE) is None:
            return found
    ledger = Ledger.open(home)
    try:
        directory = Directory(People(home), load_settings(home), ledger, time.time)
        return {**found, "messages": ledger.counts(), "accounts": directory.accounts()}
    finally:
        ledger.database.close()
