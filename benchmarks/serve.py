"""`hermes serve` under load: many people in conversation at once, each over a connection of their own.

Four processes on one machine: the server, a model server on loopback that answers after a fixed time, a bare Starlette
application that waits as long and echoes, and this one, which asks. Overhead is what a person waits beyond the model's
own time. Both applications get the same load, one after the other, in the same run.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from benchmarks.measure import hermes_command
from hermes.settings.home import find_home
from hermes.settings.people import People

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_ANSWER = "That is understood, and it will be remembered for the next time."
_PIECES = 8
_START_SECONDS = 60.0
_ECHO = """import asyncio, sys
import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

async def echo(request):
    body = await request.json()
    await asyncio.sleep({latency})
    return JSONResponse(body)

uvicorn.run(Starlette(routes=[Route("/v1/chat/completions", echo, methods=["POST"])]), port={port},
            log_level="error", access_log=False, timeout_keep_alive=60)
"""
_SETTINGS = """model:
  default: bench
  provider: custom
  base_url: http://127.0.0.1:{port}/v1
server:
  requests_per_minute: 1000000
"""


@dataclass(slots=True)
class Seen:
    """Milliseconds beyond the model's own time: of first turns, which open a conversation, and of later ones."""

    first: list[float] = field(default_factory=list)
    later: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def run(people: int, seconds: float, latency: float, think: float, seed: int = 1) -> dict[str, Any]:
    """The figures; `think` is how long a person takes on average before they go on."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_run(folder, people=people, seconds=seconds, latency=latency, think=think, seed=seed))


async def _run(folder: str, *, people: int, seconds: float, latency: float, think: float, seed: int) -> dict[str, Any]:
    model = await asyncio.start_server(lambda r, w: _model(r, w, latency), "127.0.0.1", 0)
    port = model.sockets[0].getsockname()[1]
    home = os.path.join(folder, "home")
    keys = _people(home, people, port)
    load = _Load(people, seconds, latency, think, seed)
    async with model:
        echoed, plain = await load.against([sys.executable, "-c"], _echo_source(latency), {}, keys)
        served, memory = await load.against(hermes_command("--home", home, "serve", "--port"), None, {}, keys)
    return {
        "people": people,
        "seconds": seconds,
        "model_latency_ms": latency * 1000,
        "think_seconds": think,
        **_figures("echo", echoed),
        **_figures("serve", served),
        "p95_over_echo": round(
            (latency * 1000 + _share(served.later, 95)) / (latency * 1000 + _share(echoed.later, 95)), 3
        ),
        "echo_cpu_ms_per_turn": plain["cpu_ms_per_turn"],
        **{f"serve_{name}": figure for name, figure in memory.items()},
        "errors_seen": served.errors[:5],
    }


def _figures(name: str, seen: Seen) -> dict[str, Any]:
    return {
        f"{name}_turns": len(seen.first) + len(seen.later),
        f"{name}_errors": len(seen.errors),
        f"{name}_overhead_p50_ms": round(_share(seen.later, 50), 1),
        f"{name}_overhead_p95_ms": round(_share(seen.later, 95), 1),
        f"{name}_overhead_p99_ms": round(_share(seen.later, 99), 1),
        f"{name}_first_turn_p95_ms": round(_share(seen.first, 95), 1),
        f"{name}_all_turns_p95_ms": round(_share([*seen.first, *seen.later], 95), 1),
    }


def _share(samples: Sequence[float], percent: int) -> float:
    if len(samples) < 2:  # noqa: PLR2004 - fewer have no quantiles
        return samples[0] if samples else 0.0
    return statistics.quantiles(samples, n=100)[percent - 1]


class _Load:
    def __init__(self, people: int, seconds: float, latency: float, think: float, seed: int) -> None:
        self._people = people
        self._seconds = seconds
        self._latency = latency
        self._think = think
        self._seed = seed

    async def against(
        self, command: list[str], source: Callable[[int], str] | None, more: Mapping[str, str], keys: list[str]
    ) -> tuple[Seen, dict[str, Any]]:
        """Starts a program, lets everybody talk to it for the given time, and stops it again."""
        port = free_port()
        words = [*command, source(port) if source else str(port)]
        process = subprocess.Popen(  # noqa: ASYNC220 - nothing else runs yet
            words, env={**os.environ, **more}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            await until_it_listens(port, process)
            before, started, seen = _memory(process.pid), cpu_seconds(process.pid), Seen()
            end = time.monotonic() + self._seconds
            people = [self._person(number, port, keys[number], end, seen) for number in range(self._people)]
            half = asyncio.create_task(_memory_at(process.pid, self._seconds / 2))
            await asyncio.gather(*people)
            turns = max(1, len(seen.first) + len(seen.later))
            memory = {
                "start_cpu_ms": round(started * 1000),
                "cpu_ms_per_turn": round((cpu_seconds(process.pid) - started) * 1000 / turns, 2),
                "memory_start_mb": before,
                "memory_half_mb": await half,
                "memory_end_mb": _memory(process.pid),
            }
            return seen, memory
        finally:
            process.terminate()
            process.wait(60)

    async def _person(self, number: int, port: int, key: str, end: float, seen: Seen) -> None:
        chance = random.Random(f"{self._seed}/{number}")  # noqa: S311 - when people speak, no secret
        # People arrive over a tenth of the time; nobody's conversation starts in the same moment as all others'.
        await asyncio.sleep(chance.random() * self._seconds / 10)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        history: list[dict[str, str]] = []
        turn = 0
        while time.monotonic() < end:
            history.append({"role": "user", "content": f"Person {number} says for the {turn}th time that it is so."})
            body = json.dumps({"model": "hermes", "messages": history}).encode()
            started = time.perf_counter()
            status, answer = await post(reader, writer, key, body)
            waited = (time.perf_counter() - started - self._latency) * 1000
            if status != 200:  # noqa: PLR2004 - OK
                seen.errors.append(f"{status}: {answer[:200]!r}")
                return
            (seen.later if turn else seen.first).append(waited)
            history.append({"role": "assistant", "content": _said(answer)})
            turn += 1
            await asyncio.sleep(self._think * (0.5 + chance.random()))
        writer.close()


async def post(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, key: str, body: bytes) -> tuple[int, bytes]:
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        f"authorization: Bearer {key}\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body)
    await writer.drain()
    answer = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(answer.partition(b"content-length:")[2].partition(b"\r\n")[0])
    return int(answer.split(b" ", 2)[1]), await reader.readexactly(length)


def _said(answer: bytes) -> str:
    document = json.loads(answer)
    return str(document["choices"][0]["message"]["content"]) if "choices" in document else _ANSWER


async def _model(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, latency: float) -> None:
    """Answers every request on a connection after the fixed time, as a stream of OpenAI's."""
    chunks = [_ANSWER[start : start + _PIECES] for start in range(0, len(_ANSWER), _PIECES)]
    deltas = [{"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]} for text in chunks]
    end = {
        "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 500, "completion_tokens": 20},
    }
    stream = "".join(f"data: {json.dumps(each)}\n\n" for each in [*deltas, end]) + "data: [DONE]\n\n"
    head = f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {len(stream)}\r\n\r\n"
    try:
        while True:
            asked = (await reader.readuntil(b"\r\n\r\n")).lower()
            await reader.readexactly(int(asked.partition(b"content-length:")[2].partition(b"\r\n")[0] or 0))
            await asyncio.sleep(latency)
            writer.write((head + stream).encode())
            await writer.drain()
    except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
        writer.close()  # the other end has gone, or the run is over


def _people(home: str, count: int, port: int) -> list[str]:
    os.makedirs(home)
    with open(os.path.join(home, "config.yaml"), "w", encoding="utf-8") as file:
        file.write(_SETTINGS.format(port=port))
    people = People(find_home(home))
    keys = []
    for number in range(count):
        people.add(f"p{number}")
        keys.append(people.make_key(f"p{number}")[1])
    return keys


def _echo_source(latency: float) -> Callable[[int], str]:
    return lambda port: _ECHO.format(latency=latency, port=port)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


async def until_it_listens(port: int, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.1)
        else:
            writer.close()
            return
    raise RuntimeError(f"the server did not start (exit code {process.poll()})")


def cpu_seconds(process: int) -> float:
    """What the process has used since it started; 0 where the system does not tell."""
    try:
        with open(f"/proc/{process}/stat", encoding="ascii") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def _memory_at(process: int, seconds: float) -> float:
    await asyncio.sleep(seconds)
    return _memory(process)


def _memory(process: int) -> float:
    """Resident megabytes; 0 where the system does not tell."""
    try:
        with open(f"/proc/{process}/status", encoding="ascii") as file:
            line = next(line for line in file if line.startswith("VmRSS:"))
    except (OSError, StopIteration):
        return 0.0
    return round(int(line.split()[1]) / 1024, 1)
