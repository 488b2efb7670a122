"""The gateway as one process: platforms, workers, monitor and status, started together and ended in order."""

from __future__ import annotations

import gc
import heapq
import json
import logging
import os
import resource
import sys
import threading
import time
from collections import OrderedDict, deque
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from hermes.agent import Agent
from hermes.base.dates import zone_of
from hermes.base.errors import HermesError, NotFound, SettingsError, StorageError, WrongKey
from hermes.gateway.conversations import Conversations, ResetPolicy, chat_key, place_of, private_chat
from hermes.gateway.ledger import FOLDER, Directory, Ledger, has_ledger
from hermes.gateway.platforms.base import Later, Never
from hermes.gateway.platforms.discord import Discord
from hermes.gateway.platforms.mail import Mail
from hermes.gateway.platforms.slack import Slack
from hermes.gateway.platforms.telegram import Telegram
from hermes.gateway.platforms.webhook import Webhook, webhook_server
from hermes.gateway.router import Commands, Router, is_stop
from hermes.http_server import descriptor_limit
from hermes.memory.reminders import Reminders
from hermes.operations.forget import finish_removals
from hermes.session.models import main_model
from hermes.settings.config import documents_of, load_settings
from hermes.settings.people import People
from hermes.storage.documents import LocalDocuments

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hermes.gateway.ledger import Entry
    from hermes.gateway.platforms.base import Incoming, Platform
    from hermes.http_server import HttpServer
    from hermes.settings.config import Settings
    from hermes.settings.home import Home
    from hermes.storage.ports import Documents

Item = TypeVar("Item")
STATUS = "status.json"
_PLATFORMS: tuple[type[Platform], ...] = (Telegram, Discord, Slack, Mail, Webhook)
LOCK = "run.lock"
_LEASE_SECONDS = 20.0  # in a database, after which a gateway that has not renewed its lease counts as gone
_SURE_SECONDS = 15.0  # after its last renewal, during which a gateway writes, well within the lease
_LOOK_SECONDS = 2.0  # between two attempts of a waiting gateway to take over
_QUICK_WORKERS = 2
_STATUS_SECONDS = 5.0  # between two writes of the status, and two renewals of the lease
_SWEEP_SECONDS = 60.0  # between two looks for finished conversations and due reminders
_LARGEST = 1 << 20  # bytes of the status
_DESCRIPTORS_EACH = 8  # an open conversation has six
_LOG = logging.getLogger("hermes.gateway")
_REMEMBERED = 10_000  # strangers who have been answered once
_WAITING = 1_000  # strangers in the queue; a flood of them must not fill the memory
_PAIRING = ("/pair", "/start")
_NO_ACCESS = (
    "I do not know you, so I keep nothing of what you write. Ask whoever runs this bot for access: they make a code "
    "with `hermes gateway pair NAME`, and you send me /pair CODE. Your account here is {user}."
)
_DAY = 86_400
_LOOKED_AFTER = 50  # chats whose missed messages are read after an interruption
_MEMORY_LOG = logging.getLogger("hermes.gateway.memory")
_MEGABYTE = 1 << 20


class Gateway:
    """The service: receives on all platforms, answers in worker threads, stops cleanly.

    The constructor checks the settings and waits for its turn; nothing is received before `start`.
    """

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
        try:
            main_model(settings)
        except (NotFound, WrongKey) as error:  # else every message would be answered with an apology
            raise SettingsError(f"{error} (`hermes setup` chooses a model)") from error
        self.people = People(home)
        self.turn = Turn(documents_of(home).below(FOLDER))
        self.turn.await_it()
        self.ledger = Ledger.open(home, check=self.turn.check)
        self.directory = Directory(self.people, settings, self.ledger, clock)
        self.conversations = Conversations(
            self.people.home_of,
            self.ledger,
            ResetPolicy.of(settings),
            clock=clock,
            most=min(settings.integer("gateway.open_conversations"), descriptor_limit() // _DESCRIPTORS_EACH),
            open_agent=open_agent,
        )
        commands = Commands(
            directory=self.directory,
            conversations=self.conversations,
            ledger=self.ledger,
            messages_waiting=lambda chat: self.workers.waiting(chat),  # noqa: PLW0108 - the workers are made below
        )
        router = Router(
            platforms=self.platforms,
            ledger=self.ledger,
            conversations=self.conversations,
            commands=commands,
            clock=clock,
            stream_seconds=settings.number("gateway.stream_seconds"),
        )
        self.workers = Workers(router.handle, most=settings.integer("gateway.workers"))
        self._quick = Workers(router.handle, most=_QUICK_WORKERS)  # for what must not wait behind an answer
        self.receiver = Receiver(
            self.platforms,
            self.ledger,
            self.directory,
            workers=self.workers,
            quick=self._quick,
            clock=clock,
            profile=home.profile,
        )
        seconds = settings.number("gateway.monitor_interval") if settings.flag("gateway.monitor_enabled") else 0
        self.monitor = Monitor(seconds=seconds, warn_mb=settings.integer("gateway.monitor_warn_mb"))
        self._port = settings.integer("gateway.port") if port is None else port
        self.webhooks: HttpServer | None = None  # while the gateway runs, if a platform calls us
        self._stop = threading.Event()
        self._problems: dict[str, str] = dict.fromkeys(self.platforms, "not connected yet")
        self._started = clock()
        self._receivers: list[threading.Thread] = []

    def start(self) -> None:
        """Finishes what an earlier run left, then begins to receive on every platform."""
        self.turn.hold()
        finish_removals(self.home)
        left = self.receiver.resume()
        _LOG.info(
            "gateway of %s: %s; %s unanswered messages from the last run",
            self.home.path,
            ", ".join(self.platforms),
            left,
        )
        if any(each.is_called for each in self.platforms.values()):
            host = self.settings.text("gateway.host")
            self.webhooks = webhook_server(self.platforms, self.receiver, host=host, port=self._port)
            self.webhooks.start()
            _LOG.info("listening for webhooks at http://%s:%s", host, self.webhooks.port)
        self.monitor.start()
        for name, platform in self.platforms.items():
            thread = threading.Thread(
                target=platform.receive,
                args=(self.receiver, self._stop.is_set, lambda told, name=name: self._report(name, told)),
                name=f"gateway-{name}",
                daemon=True,
            )
            thread.start()
            self._receivers.append(thread)
        threading.Thread(target=self._watch, name="gateway-status", daemon=True).start()

    def stop(self) -> bool:
        """Stops receiving, lets running answers finish, closes; False if some answers are left for the next start."""
        self._stop.set()
        if self.webhooks is not None:
            self.webhooks.stop()
        for thread in self._receivers:
            thread.join(5)
        self.receiver.close()
        drained = self.workers.close(self.settings.number("gateway.drain_seconds"))
        drained = self._quick.close(1) and drained
        self.monitor.stop()
        if drained:
            self.conversations.close()
        self._write_status(running=False)
        if drained:
            self.ledger.close()
        self.turn.give_back()
        return drained

    def settle(self, seconds: float) -> bool:
        """Waits until every received message is answered; False if that takes longer than `seconds`."""
        return self.workers.settle(seconds) and self._quick.settle(seconds)

    def status(self, *, running: bool = True) -> dict[str, Any]:
        """The state of each platform, the work under way and the memory in use, as stored in `status.json`."""
        return {
            "running": running,
            "pid": os.getpid(),
            "started": self._started,
            "written": self._clock(),
            "platforms": {
                name: {"identity": platform.identity(), "problem": self._problems[name]}
                for name, platform in self.platforms.items()
            },
            "answering": self.workers.running(),
            "open_conversations": len(self.conversations),
            "memory": self.monitor.last,
        }

    def remind(self) -> int:
        """Sends due reminders to the private chat that each person used last; returns how many.

        A reminder that cannot be sent is tried again at the next look, and the person's next turn also shows it.
        """
        sent, seen = 0, set[str]()
        for chat in self.ledger.chats():  # the most recent first
            place = private_chat(chat.key)
            if place is None or chat.person in seen or place.platform not in self.platforms:
                continue
            seen.add(chat.person)
            try:
                sent += self._remind(chat.person, place)
            except (HermesError, Later, Never) as error:
                _LOG.warning("reminders of %s could not be sent and will be tried again: %s", chat.person, error)
        return sent

    def _remind(self, person: str, place: Incoming) -> int:
        home = self.people.home_of(person)
        settings = load_settings(home)
        if not settings.flag("reminders.enabled"):
            return 0
        reminders, zone = Reminders(home), zone_of(settings.text("timezone"))
        now = datetime.fromtimestamp(self._clock(), zone).replace(tzinfo=None)
        due = reminders.due(now)
        for each in due:
            text = f"Reminder: {each.text}"
            # Send first: a crash in between repeats the reminder with the same `delivery`, instead of losing it.
            self.platforms[place.platform].send(place, text, delivery=f"reminder.{each.id}.{each.due}")
            reminders.fire([each.id], now)
        return len(due)

    def _report(self, platform: str, problem: str) -> None:
        if problem != self._problems[platform]:
            self._problems[platform] = problem
            (_LOG.warning if problem else _LOG.info)("%s: %s", platform, problem or "connected")
            self._write_status()

    def _watch(self) -> None:
        """Writes the status from time to time, closes conversations that are over, and sends reminders."""
        swept = self._clock()
        while not self._stop.wait(_STATUS_SECONDS):
            self._write_status()
            if self._clock() - swept >= _SWEEP_SECONDS:
                swept = self._clock()
                try:
                    self.conversations.close_finished(self.directory.knows)
                except HermesError as error:
                    _LOG.warning("finished conversations could not be closed: %s", error)
                self.remind()

    def _write_status(self, *, running: bool = True) -> None:
        try:
            self.turn.folder.replace(STATUS, json.dumps(self.status(running=running)).encode())
        except HermesError as error:
            _LOG.warning("the status could not be written: %s", error)


class Turn:
    """The right to be the one gateway of a home.

    With files it is a lock, which ends with the process. In a database it is a lease: further gateways wait, on any
    machine, and the first of them takes over when this one is gone.
    """

    def __init__(self, documents: Documents, clock: Callable[[], float] = time.monotonic) -> None:
        self.folder = documents.create()
        self._clock = clock
        self._waits = not isinstance(documents, LocalDocuments)
        self._lease = self.folder.lease(LOCK, seconds=_LEASE_SECONDS)
        self._kept = 0.0
        self._over = threading.Event()
        self._holder = threading.Thread(target=self._hold, name="gateway-turn", daemon=True)
        self.lost = threading.Event()  # set once another gateway has taken over

    def await_it(self) -> None:
        """Waits until no other gateway answers; with files, raises a SettingsError if one is running."""
        if self.keep():
            return
        if not self._waits:
            self.folder.close()
            raise SettingsError("a gateway is already running for this home; see `hermes gateway status`")
        _LOG.info("another gateway answers; this one waits until it ends")
        while not self.keep():
            time.sleep(_LOOK_SECONDS)

    def hold(self) -> None:
        """Keeps it until it is given back, whatever else takes long meanwhile."""
        self._holder.start()

    def _hold(self) -> None:
        while not self._over.wait(_STATUS_SECONDS):
            if not self.keep():
                _LOG.error("another gateway took over while this one was unresponsive; this one ends")
                self.lost.set()
                return

    def keep(self) -> bool:
        """Takes or renews the right; False if another gateway has it."""
        now = self._clock()
        try:
            if not self._lease.take():
                return False
        except StorageError as error:
            if not self._kept:
                raise
            _LOG.warning("the database does not answer: %s", error)
        else:
            self._kept = now
        return True

    def check(self) -> None:
        """Raises before a write if the lease was not renewed in time, because another gateway may answer by now."""
        if self._waits and self._clock() - self._kept > _SURE_SECONDS:
            raise StorageError("another gateway may have taken over; this one waits until it has renewed its lease")

    def give_back(self) -> None:
        """Ends the right, so that a waiting gateway can take over at once."""
        self._over.set()
        if self._holder.is_alive():
            self._holder.join()  # else it might take the lease again
        self._kept = float("-inf")  # whatever still runs writes nothing more
        try:
            self._lease.give_back()
        except StorageError as error:
            _LOG.warning("the next gateway takes over only in %s s: %s", _LEASE_SECONDS, error)
        self.folder.close()


def platforms_of(home: Home, settings: Settings) -> dict[str, Platform]:
    """The platforms that the settings switch on; raises a SettingsError if there is none."""
    found = {each.name: each.of(home, settings) for each in _PLATFORMS if settings.flag(f"gateway.{each.name}.enabled")}
    if not found:
        raise SettingsError(
            "no platform is switched on; `hermes config set gateway.telegram.enabled true` and put "
            "TELEGRAM_BOT_TOKEN=… into .env, or see gateway.discord, gateway.slack, gateway.email and gateway.webhook"
        )
    return found


def stored_status(home: Home) -> dict[str, Any]:
    """The last status of a home's gateway, whether it runs, its messages by state, and known accounts."""
    nothing: dict[str, Any] = {"running": False, "platforms": {}, "messages": {}, "accounts": []}
    folder = documents_of(home).below(FOLDER).open()
    if folder is None:
        return nothing
    with folder:
        told: Mapping[str, Any] = json.loads(folder.read(STATUS, at_most=_LARGEST) or b"{}")
        found = {**nothing, **told, "running": folder.lease(LOCK, seconds=_LEASE_SECONDS).is_taken()}
    if not has_ledger(home):
        return found
    ledger = Ledger.open(home)
    try:
        directory = Directory(People(home), load_settings(home), ledger, time.time)
        return {**found, "messages": ledger.counts(), "accounts": directory.accounts()}
    finally:
        ledger.database.close()


class Monitor:
    """Measures the process from time to time and warns when it grows too large."""

    def __init__(self, *, seconds: float, warn_mb: int = 0, resident: Callable[[], int] | None = None) -> None:
        self._seconds = seconds
        self._warn_mb = warn_mb
        self._resident = resident or resident_bytes
        self._started = time.monotonic()
        self._over = threading.Event()
        self.last: dict[str, Any] = {}  # rss_mb, peak_mb, gc, threads and uptime

    def start(self) -> None:
        """Begins to measure, unless the interval is 0."""
        if self._seconds:
            threading.Thread(target=self._run, name="gateway-memory", daemon=True).start()

    def stop(self) -> None:
        """Logs the figures a last time and ends the thread."""
        if self._seconds and not self._over.is_set():
            self.look()
        self._over.set()

    def look(self) -> None:
        """Measures memory and threads, logs the figures and keeps them in `last`."""
        used = self._resident() / _MEGABYTE
        self.last = {
            "rss_mb": round(used, 1),
            "peak_mb": max(self.last.get("peak_mb", 0.0), round(used, 1)),
            "gc": gc.get_count(),
            "threads": threading.active_count(),
            "uptime": int(time.monotonic() - self._started),
        }
        too_much = bool(self._warn_mb) and used > self._warn_mb
        line = "[MEMORY] rss={rss_mb:.1f}MB peak={peak_mb:.1f}MB gc={gc} threads={threads} uptime={uptime}s"
        _MEMORY_LOG.log(logging.WARNING if too_much else logging.INFO, "%s", line.format(**self.last))
        if too_much:
            _MEMORY_LOG.warning("the gateway uses more than gateway.monitor_warn_mb (%s MB)", self._warn_mb)

    def _run(self) -> None:
        self.look()
        while not self._over.wait(self._seconds):
            self.look()


def resident_bytes() -> int:
    """The memory of this process in RAM, in bytes; where the system does not report it, the maximum so far."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most << 10  # bytes on macOS, kilobytes elsewhere


class Workers(Generic[Item]):
    """Threads for many chats: one item at a time in each chat, and at most `most` at once in all of them.

    `work` handles an item; it returns None when that is finished, or the seconds until it should be tried again. The
    threads are daemons: every item is stored, so a program that has to end need not wait for the slowest answer.
    """

    def __init__(self, work: Callable[[Item], float | None], *, most: int) -> None:
        self._work = work
        self._most = most
        self._queues: dict[str, deque[Item]] = {}
        self._ready: deque[str] = deque()
        self._later: list[tuple[float, str]] = []
        self._running: dict[str, Item] = {}
        self._changed = threading.Condition()
        self._threads = 0
        self._idle = 0
        self._closing = False

    def add(self, key: str, item: Item) -> None:
        """Queues an item behind the others of its key, and starts a thread if none is free."""
        with self._changed:
            if key in self._queues:
                self._queues[key].append(item)
                return
            self._queues[key] = deque([item])
            self._ready.append(key)
            if self._idle < len(self._ready) and self._threads < self._most:  # a thread that wakes up is still idle
                self._threads += 1
                threading.Thread(target=self._serve, name=f"gateway-{self._threads}", daemon=True).start()
            self._changed.notify_all()  # if only one were woken, it could be `settle`, and the item would wait

    def waiting(self, key: str = "") -> int:
        """How many items wait, without those that are being handled."""
        with self._changed:
            queues = [self._queues.get(key, deque())] if key else list(self._queues.values())
            handled = [each for each in self._running if not key or each == key]
            return sum(map(len, queues)) - len(handled)

    def running(self) -> int:
        """How many items are being handled."""
        with self._changed:
            return len(self._running)

    def settle(self, seconds: float) -> bool:
        """Waits until every queue is empty; False if that takes longer than `seconds`."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._queues, seconds)

    def close(self, seconds: float) -> bool:
        """Begins no more items and waits for the running ones; False if that takes longer than `seconds`."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            return self._changed.wait_for(lambda: not self._running, seconds)

    def _serve(self) -> None:
        while (key := self._next()) is not None:
            pause = self._work(self._running[key])
            with self._changed:
                del self._running[key]
                queue = self._queues[key]
                if pause is None:
                    queue.popleft()
                if pause is not None:
                    heapq.heappush(self._later, (time.monotonic() + pause, key))
                elif queue:
                    self._ready.append(key)
                else:
                    del self._queues[key]
                self._changed.notify_all()

    def _next(self) -> str | None:
        """Waits for a key with an item to handle; None once the workers are closing."""
        with self._changed:
            self._idle += 1
            try:
                while not self._closing:
                    while self._later and self._later[0][0] <= time.monotonic():
                        self._ready.append(heapq.heappop(self._later)[1])
                    if self._ready:
                        key = self._ready.popleft()
                        self._running[key] = self._queues[key][0]
                        return key
                    wait = self._later[0][0] - time.monotonic() if self._later else None
                    self._changed.wait(wait)
                return None
            finally:
                self._idle -= 1


class Receiver:
    """Takes what platforms receive: stores and queues messages of known people, tells strangers how to get access."""

    def __init__(
        self,
        platforms: Mapping[str, Platform],
        ledger: Ledger,
        directory: Directory,
        *,
        workers: Workers[int],
        quick: Workers[int],
        clock: Callable[[], float],
        profile: str = "",
    ) -> None:
        self._platforms, self._ledger, self._directory = platforms, ledger, directory
        self._workers, self._quick = workers, quick  # quick: for what must not wait behind an answer
        self._clock, self._profile = clock, profile
        self._answered: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._greeter = Workers(self._greet, most=1)  # people with access do not wait for strangers

    def cursor(self, platform: str) -> str:
        """How far a platform was read, in the platform's own terms; empty at the beginning."""
        return self._ledger.cursor(platform)

    def chats(self, platform: str) -> list[tuple[str, str, float]]:
        """Where known people wrote within the last day, and when they last did."""
        recent = [each for each in self._ledger.chats() if each.active > self._clock() - _DAY]
        places = {place_of(each.key): each.active for each in reversed(recent)}
        found = [(chat, kind, active) for (where, kind, chat), active in places.items() if where == platform]
        return found[-_LOOKED_AFTER:]

    def take(self, platform: str, messages: Sequence[Incoming], *, cursor: str = "") -> None:
        """Stores messages and the platform's cursor in one transaction, and only then queues or answers them."""
        known: list[tuple[str, str, Incoming]] = []
        strangers: list[Incoming] = []
        for message in messages:
            person, kept = self._person(message)
            if person and kept.kind == "group":  # its messages belong to the group, which knows no private memory
                kept = replace(kept, speaker=person, to=self._directory.person(platform, kept.to))
                person = self._directory.group(kept)
            if not person:
                strangers.append(message)
            elif not kept.pressed or self._ledger.was_asked(person, kept.text.rpartition(" ")[2]):
                # A press by anybody else would replace the question in front of the person who was asked.
                known.append((chat_key(kept, person, self._profile), person, kept))
        for entry in self._ledger.store(known, self._clock(), platform=platform, cursor=cursor):
            self.queue(entry)
        for stranger in strangers:
            self._answer_stranger(stranger)

    def queue(self, entry: Entry) -> None:
        """Queues a stored message; a press or `/stop` goes to workers that no answer occupies."""
        quick = entry.message.pressed or is_stop(entry.message.text)
        (self._quick if quick else self._workers).add(entry.chat_key or str(entry.id), entry.id)

    def resume(self) -> int:
        """Queues the messages that an earlier process has not finished; returns how many."""
        left = [each for each in self._ledger.open_entries() if each.message.platform in self._platforms]
        for entry in left:
            self.queue(entry)
        return len(left)

    def close(self) -> None:
        """Stops answering strangers."""
        self._greeter.close(5)

    def _person(self, message: Incoming) -> tuple[str, Incoming]:
        """The person who wrote a message, and the message to store: a code that paired an account becomes /start."""
        person = self._directory.person(message.platform, message.user)
        if person:
            return person, message
        word, _, code = message.text.strip().partition(" ")
        if word.lower() in _PAIRING and code and message.kind == "dm":
            person = self._directory.pair(code, message.platform, message.user)
        return person, replace(message, text="/start")

    def _answer_stranger(self, stranger: Incoming) -> None:
        """Answers each stranger once in the life of this process; nothing about them is stored."""
        who = (stranger.platform, stranger.user)
        if who in self._answered or not stranger.addressed:
            return
        self._answered[who] = None
        if len(self._answered) > _REMEMBERED:
            self._answered.popitem(last=False)
        if self._greeter.waiting() < _WAITING:
            self._greeter.add(stranger.platform, stranger)

    def _greet(self, stranger: Incoming) -> None:
        try:
            text = _NO_ACCESS.format(user=stranger.user)
            self._platforms[stranger.platform].send(stranger, text, delivery=f"stranger.{stranger.update}")
        except (Later, Never) as error:
            _LOG.warning("a stranger could not be told how to get access: %s", error)
