"""`bin/soak servers`: several servers on one PostgreSQL, many people, and neither lives long.

A person stays with a server until it fails, and sometimes moves to another. Each server has a home of its own with
nothing in it but settings. First one server with SQLite answers the load, then all servers do, undisturbed: no errors,
and at the 95th percentile at most three times its overhead. Then servers are killed and started again, and the database
is restarted as after a power cut (`pg_ctl -m immediate`). People repeat what was not answered. At the end each answer
that arrived is stored exactly once and nobody has a word of anybody else. Before the kills the database is asked all
the time how many connections there are and how long their transactions last: none may last as long as the model takes.
Needs PostgreSQL 15 or newer on this machine.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import tempfile
import time
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from benchmarks.measure import hermes_command
from benchmarks.serve import cpu_seconds, free_port, post, until_it_listens
from postgres_server import Server, binaries

from hermes.settings.config import STORAGE_URL, conversations_of
from hermes.settings.home import find_home
from hermes.settings.people import People
from soak.common import Outcome

if TYPE_CHECKING:
    import argparse
    from collections.abc import AsyncIterator, Iterator

    from soak.common import Options

SUMMARY = "four servers on one PostgreSQL: kills, restarts, nothing lost, doubled or shown to another"
DESCRIPTION = __doc__ or ""
MOST = 3.0  # times the overhead of one server with SQLite
LATENCY = 1.0  # seconds the model takes
_SETTINGS = """model:
  default: stub
  provider: custom
  base_url: http://127.0.0.1:{port}/v1
server:
  requests_per_minute: 1000000
"""
# Durable: what is acknowledged must survive the restarts.
_PREPARED = "-c max_connections=100 -c shared_buffers=128MB"
_TOKEN = re.compile(r"token-p\d+-\d+-\d+")
_AGE = """
    SELECT count(*), coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)), 0)::float8
    FROM pg_stat_activity WHERE application_name = 'hermes'
"""
_MOVES = 0.05  # share of turns for which a proxy chooses another server
_TO_END = 60  # seconds
_SETTLED = 5  # seconds after which the longest transaction counts


def add_choices(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--people", type=int, default=200, metavar="N")
    parser.add_argument("--servers", type=int, default=4, metavar="N")
    parser.add_argument("--minutes", type=float, default=5, metavar="T", help="of each of the three parts (default: 5)")
    parser.add_argument("--think", type=float, default=4, metavar="S", help="seconds between two turns of a person")


def run(given: argparse.Namespace, options: Options) -> Iterator[Outcome]:
    found = binaries()
    if found is None:
        raise SystemExit("there is no PostgreSQL 15 or newer in /usr/lib/postgresql (Debian: postgresql-15)")
    load = Load(people=given.people, seconds=given.minutes * 60, think=given.think, seed=options.seed)
    yield trial(found, load, given.servers, options)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    people: int
    seconds: float
    think: float
    seed: int = 1
    kill_every: float = 10.0  # seconds
    restart_every: float = 45.0


@dataclass(slots=True)
class Heard:
    """What the people of one part got: overheads of answered turns after the first, tokens answered, failures."""

    waited: list[float] = field(default_factory=list)
    answered: dict[int, list[str]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)

    @property
    def turns(self) -> int:
        return sum(map(len, self.answered.values()))

    @property
    def p95(self) -> float:
        return statistics.quantiles(self.waited, n=20)[-1] if len(self.waited) > 1 else 0.0


def trial(found: str, load: Load, servers: int, options: Options, *, alone: bool = True) -> Outcome:
    from hermes.storage.postgres.schema import migrate

    outcome = Outcome(name="servers", figures={"people": load.people, "servers": servers})
    database = Server(found, options=_PREPARED)
    before = os.environ.pop(STORAGE_URL, None)
    try:
        migrate(database.address())
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            asyncio.run(_trial(folder, database, load, servers, outcome, alone=alone))
    finally:
        os.environ.pop(STORAGE_URL, None)
        if before is not None:
            os.environ[STORAGE_URL] = before
        database.close()
    return outcome


async def _trial(folder: str, database: Server, load: Load, servers: int, outcome: Outcome, *, alone: bool) -> None:
    model = await asyncio.start_server(_model, "127.0.0.1", 0)
    port = model.sockets[0].getsockname()[1]
    async with model:
        overhead = 0.0
        if alone:
            home, keys = _home(folder, "alone", port), _people(f"{folder}/alone", load.people)
            async with Servers([home]) as one:
                heard = await _talk(load, one, keys, repeats=False)
                _report(outcome, "SQLite", heard, one.cpu_ms / max(1, heard.turns))
            overhead = heard.p95
        os.environ[STORAGE_URL] = database.address()
        homes = [_home(folder, f"server{number}", port) for number in range(servers)]
        keys = _people(homes[0], load.people)
        async with Servers(homes) as several:
            watch = asyncio.create_task(_watch(database.address(), outcome))
            heard = await _talk(load, several, keys, repeats=False)
            _report(outcome, "PostgreSQL", heard, several.cpu_ms / max(1, heard.turns))
            if heard.problems:
                outcome.fail(*(f"undisturbed: {each}" for each in heard.problems[:10]))
            if alone and heard.p95 > MOST * overhead:
                outcome.fail(f"overhead at p95 {heard.p95:.0f} ms; one server with SQLite has {overhead:.0f}")
            watch.cancel()
            _check(heard, load.people, homes[0], outcome)
            enough = asyncio.Event()
            trouble = asyncio.create_task(_trouble(several, database, load, outcome, enough))
            again = await _talk(load, several, keys, repeats=True, part=1)
            enough.set()
            await trouble
            _report(outcome, "with kills", again, several.cpu_ms / max(1, again.turns))
            outcome.figures["turns repeated"] = len(again.problems)
            calm = await _talk(_calm(load), several, keys, repeats=False, part=2)
            if calm.problems:
                outcome.fail(*(f"after the kills: {each}" for each in calm.problems[:10]))
            for each in (again, calm):
                _check(each, load.people, homes[0], outcome)
        outcome.figures["servers that did not end in a minute"] = several.killed_at_the_end
        left = [f"{place}/{name}" for home in homes for place, _, names in os.walk(home) for name in names]
        left = [path for path in left if os.path.basename(path) not in ("config.yaml", "settings.json")]
        outcome.fail(*(f"a server left {name} on its disk" for name in left))


def _calm(load: Load) -> Load:
    """A short while after the trouble, in which nothing may fail: everything has recovered by itself."""
    return Load(people=load.people, seconds=min(20.0, load.seconds), think=load.think, seed=load.seed)


def _report(outcome: Outcome, name: str, heard: Heard, cpu: float) -> None:
    outcome.figures |= {
        f"{name}: turns": heard.turns,
        f"{name}: p95 beyond the model (ms)": heard.p95,
        f"{name}: CPU per turn (ms)": cpu,
    }
    outcome.fail(*heard.others)


def _check(heard: Heard, people: int, home: str, outcome: Outcome) -> None:
    """Each answer that arrived is stored once, in the conversations of its person and of nobody else."""
    from hermes.conversations.database import SessionDB

    known = People(find_home(home))
    for number in range(people):
        with SessionDB.open(**conversations_of(known.home_of(f"p{number}"))) as db:
            told = [
                each.text
                for session in db.list_sessions(limit=-1)
                for each in db.messages(session.id)
                if each.message["role"] == "assistant"
            ]
        counts: dict[str, int] = {}
        for token in _TOKEN.findall("\n".join(told)):
            counts[token] = counts.get(token, 0) + 1
        outcome.count("answers checked", len(heard.answered.get(number, ())))
        for token in heard.answered.get(number, ()):
            if counts.get(token, 0) != 1:
                outcome.fail(f"{token} was answered and is stored {counts.get(token, 0)} times")
        outcome.fail(*(f"p{number} has {token}" for token in counts if not token.startswith(f"token-p{number}-")))


class Servers:
    """Server processes, each with a home and a port of its own."""

    def __init__(self, homes: list[str]) -> None:
        self._homes = homes
        self.ports = [free_port() for _ in homes]
        self._running: list[subprocess.Popen[bytes]] = []
        self._spent = 0.0  # CPU seconds of those that were killed, and what was counted already
        self.killed_at_the_end = 0

    async def __aenter__(self) -> Self:
        self._running = [self._start(number) for number in range(len(self._homes))]
        await asyncio.gather(*map(until_it_listens, self.ports, self._running))
        return self

    async def __aexit__(self, *_: object) -> None:
        for process in self._running:
            process.terminate()
        for process in self._running:
            try:
                await asyncio.to_thread(process.wait, _TO_END)
            except subprocess.TimeoutExpired:  # as a service manager does; nothing may depend on a proper end
                process.kill()
                process.wait()
                self.killed_at_the_end += 1

    @property
    def cpu_ms(self) -> float:
        """CPU of all servers since this was last asked."""
        now = sum(cpu_seconds(process.pid) for process in self._running) + self._spent
        self._spent -= now
        return now * 1000

    async def kill(self, number: int) -> None:
        process = self._running[number]
        self._spent += cpu_seconds(process.pid)
        process.kill()
        await asyncio.to_thread(process.wait)
        self._running[number] = self._start(number)
        await until_it_listens(self.ports[number], self._running[number])

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        command = hermes_command("--home", self._homes[number], "serve", "--port", str(self.ports[number]))
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


async def _trouble(servers: Servers, database: Server, load: Load, outcome: Outcome, enough: asyncio.Event) -> None:
    chance = random.Random(load.seed)
    restart = time.monotonic() + load.restart_every / 2
    while not enough.is_set():
        with suppress(TimeoutError):
            await asyncio.wait_for(enough.wait(), load.kill_every * (0.5 + chance.random()))
        if time.monotonic() > restart:
            await asyncio.to_thread(database.stop, "immediate")
            await asyncio.to_thread(database.start)
            outcome.count("restarts of PostgreSQL")
            restart = time.monotonic() + load.restart_every
        await servers.kill(chance.randrange(len(servers.ports)))
        outcome.count("servers killed")


async def _watch(address: str, outcome: Outcome) -> None:
    """How many connections there are, and how long a transaction lasts."""
    import psycopg

    most, longest, since = 0, 0.0, time.monotonic()
    async with await psycopg.AsyncConnection.connect(address, autocommit=True) as connection:
        while True:
            row = await (await connection.execute(_AGE)).fetchone()
            if row is not None and time.monotonic() - since > _SETTLED:
                most, longest = max(most, row[0]), max(longest, row[1])
            outcome.figures |= {"connections at most": most, "longest transaction (ms)": longest * 1000}
            if longest >= LATENCY:
                outcome.fail(f"a transaction lasted {longest:.2f} s, as long as a model call")
                return
            await asyncio.sleep(0.05)


async def _talk(load: Load, servers: Servers, keys: list[str], *, repeats: bool, part: int = 0) -> Heard:
    heard, end = Heard(), time.monotonic() + load.seconds
    await asyncio.gather(
        *(
            _person(number, keys[number], load, servers, end=end, heard=heard, repeats=repeats, part=part)
            for number in range(load.people)
        )
    )
    return heard


async def _person(
    number: int, key: str, load: Load, servers: Servers, *, end: float, heard: Heard, repeats: bool, part: int
) -> None:
    chance = random.Random(f"{load.seed}/{part}/{number}")
    await asyncio.sleep(chance.random() * min(load.seconds / 5, 20.0))
    history: list[dict[str, str]] = []
    attempt = port = 0
    async with AsyncExitStack() as stack:
        connections: dict[int, Any] = {}
        while time.monotonic() < end:
            attempt += 1
            token = f"token-p{number}-{part}-{attempt}"
            asked = [*history, {"role": "user", "content": f"What does {token} mean?"}]
            if not port or chance.random() < _MOVES:
                port = chance.choice(servers.ports)
            started = time.perf_counter()
            try:
                if port not in connections:
                    connections.clear()  # a server closes a connection that is not used for a while
                    connections[port] = await stack.enter_async_context(_connected(port))
                body = json.dumps({"model": "hermes", "messages": asked}).encode()
                reader, writer = connections[port]
                status, answer = await asyncio.wait_for(post(reader, writer, key, body), 60)
            except (OSError, EOFError, TimeoutError, ValueError, IndexError) as error:
                connections.pop(port, None)
                port = 0
                status, answer = 0, f"{type(error).__name__}: {error}".encode()
            if status == 200:
                if len(history) > 1:
                    heard.waited.append((time.perf_counter() - started - LATENCY) * 1000)
                text = str(json.loads(answer)["choices"][0]["message"]["content"])
                heard.others += [f"p{number} was told {each}" for each in _TOKEN.findall(text) if each != token]
                heard.answered.setdefault(number, []).append(token)
                history = [*asked, {"role": "assistant", "content": text}]
            else:
                heard.problems.append(f"{token}: {status} {answer[:200]!r}")
                if not repeats:
                    return
            await asyncio.sleep(load.think * (0.5 + chance.random()))


@asynccontextmanager
async def _connected(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.close()


async def _model(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Says the first token of what it was asked last, after a second."""
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            asked = await reader.readexactly(int(head.partition(b"content-length:")[2].partition(b"\r\n")[0] or 0))
            await asyncio.sleep(LATENCY)
            said = json.dumps([each for each in json.loads(asked)["messages"] if each["role"] == "user"][-1])
            kept = "".join(
                f" {token}" for token in _TOKEN.findall(said)[:1]
            )  # a review asks for none, and what Hermes adds comes last
            events = [
                {"choices": [{"index": 0, "delta": {"content": f"Kept.{kept}"}, "finish_reason": None}]},
                {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 500}},
            ]
            body = "".join(f"data: {json.dumps(each)}\n\n" for each in events) + "data: [DONE]\n\n"
            about = f"content-type: text/event-stream\r\ncontent-length: {len(body)}"
            writer.write(f"HTTP/1.1 200 OK\r\n{about}\r\n\r\n{body}".encode())
            await writer.drain()
    except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
        writer.close()


def _home(folder: str, name: str, port: int) -> str:
    home = os.path.join(folder, name)
    shutil.rmtree(home, ignore_errors=True)
    os.makedirs(home)
    with open(os.path.join(home, "config.yaml"), "w", encoding="utf-8") as file:
        file.write(_SETTINGS.format(port=port))
    return home


def _people(home: str, count: int) -> list[str]:
    known = People(find_home(home))
    keys = []
    for number in range(count):
        known.add(f"p{number}")
        keys.append(known.make_key(f"p{number}")[1])
    return keys
