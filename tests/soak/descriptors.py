"""`bin/soak descriptors`: `hermes serve` with few descriptors, and a new conversation for every turn.

Every request must be answered, and descriptors and memory must be flat. After the warm-up, memory is never more than
5 % above what it was then, and descriptors never more than 8, which the clients' connections take. The warm-up is a
tenth of the turns, and at least five times as many as the server keeps conversations.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
from http_service import ALWAYS, prepare

from soak.common import Outcome, Progress

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from soak.common import Options

SUMMARY = "`hermes serve` under `ulimit -n`, a new conversation per turn"
DESCRIPTION = __doc__ or ""
_CLIENTS = 8
_PEOPLE = ("ann", "bob")
_SAMPLES = 200
_KEPT = 100  # conversations that are kept open, so that the plateau comes soon
_MORE_MEMORY, _MORE_FILES = 1.05, _CLIENTS  # after the warm-up
_SETTINGS = f"server:\n  requests_per_minute: 1000000\n  open_conversations: {_KEPT}\n"


def add_choices(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--turns", type=int, default=10_000, metavar="N", help="in all (default: 10,000)")
    parser.add_argument("--limit", type=int, default=256, metavar="N", help="`ulimit -n` of the server (default: 256)")
    parser.add_argument("--per-minute", type=int, default=1000, metavar="N", help="turns a minute (default: 1,000)")


def run(given: argparse.Namespace, options: Options) -> Iterator[Outcome]:
    yield conversations(given.turns, given.limit, options, pause=60 * _CLIENTS / given.per_minute)


def conversations(turns: int, limit: int, options: Options, *, pause: float = 0.0) -> Outcome:
    """`pause` is the time between the beginnings of two turns of one client."""
    outcome = Outcome(name="descriptors", figures={"turns": 0})
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        home = Path(folder) / "home"
        keys = prepare(home, ALWAYS, _SETTINGS, _PEOPLE)
        with _serving(home, limit) as (process, url, log):
            progress = Progress("descriptors", turns, options)
            counted = threading.Lock()
            samples: list[tuple[int, int]] = []  # descriptors and KiB of memory, every so many turns
            every = max(1, turns // _SAMPLES)

            def client(number: int) -> None:
                key = keys[_PEOPLE[number % len(_PEOPLE)]]
                with httpx.Client(base_url=url, headers={"authorization": f"Bearer {key}"}, timeout=60) as http:
                    while True:
                        began = time.monotonic()
                        with counted:
                            turn = outcome.figures["turns"]
                            if turn >= turns or not progress.goes_on(turn, outcome):
                                return
                            outcome.count("turns")
                            if not turn % every:
                                samples.append(_size(process.pid))
                        _say(http, turn, outcome)
                        time.sleep(max(0.0, pause - (time.monotonic() - began)))

            with ThreadPoolExecutor(_CLIENTS) as pool:
                list(pool.map(client, range(_CLIENTS)))
            _judge(samples or [_size(process.pid)], -(-max(turns // 10, 5 * _KEPT) // every), limit, outcome)
        lines = Path(log).read_text(encoding="utf-8").splitlines()
        outcome.figures["log lines"] = len(lines)
        outcome.fail(*(line for line in lines if " ERROR " in line or "Traceback" in line))
    return outcome


def _say(http: httpx.Client, turn: int, outcome: Outcome) -> None:
    """Every third conversation has a name; the others are known by their history, which is new each time."""
    named = {"x-hermes-session": f"conversation {turn}"} if turn % 3 == 0 else {}
    body = {"messages": [{"role": "user", "content": f"This is number {turn}."}]}
    try:
        answer = http.post("/v1/chat/completions", json=body, headers=named)
    except httpx.HTTPError as error:
        outcome.fail(f"turn {turn}: {error!r}")
        return
    if answer.status_code != httpx.codes.OK:
        outcome.fail(f"turn {turn}: {answer.status_code} {answer.text[:200]}")


def _judge(samples: list[tuple[int, int]], warm: int, limit: int, outcome: Outcome) -> None:
    """Compares the samples from the end of the warm-up on, and shows memory over time."""
    after = samples[warm:] or samples[-1:]
    files, memory = after[0]
    most_files, most_memory = (max(sizes) for sizes in zip(*after, strict=True))
    shown = samples[:: max(1, len(samples) // 10)]
    outcome.figures |= {"descriptors after the warm-up": files, "descriptors most": max(samples)[0]}
    outcome.figures |= {"MB after the warm-up": memory / 1024, "MB most": most_memory / 1024}
    outcome.figures["MB over time"] = " ".join(f"{each / 1024:.0f}" for _, each in shown)
    if most_files > min(files + _MORE_FILES, limit / 2):
        outcome.fail(f"{most_files} of {limit} descriptors are open, {files} after the warm-up")
    if most_memory > _MORE_MEMORY * memory:
        outcome.fail(f"memory grew from {memory:,} to {most_memory:,} KiB after the warm-up")


def _size(process: int) -> tuple[int, int]:
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    found = re.search(r"VmRSS:\s+(\d+)", status)
    return len(os.listdir(f"/proc/{process}/fd")), int(found[1]) if found else 0


@contextmanager
def _serving(home: Path, limit: int) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    command = [sys.executable, "-m", "hermes", "--home", str(home), "serve", "--port", "0"]
    log = str(home.parent / "log")
    with open(log, "w", encoding="utf-8") as lines:
        process = subprocess.Popen(
            ["sh", "-c", f'ulimit -n {limit}; exec "$@"', "sh", *command], stderr=lines, stdout=lines, text=True
        )
    try:
        yield process, _address(process, log), log
    finally:
        process.terminate()
        process.wait(60)


def _address(process: subprocess.Popen[str], log: str) -> str:
    """Where it says it listens, once it answers."""
    while process.poll() is None:
        found = re.search(r"http://127\.0\.0\.1:\d+", Path(log).read_text(encoding="utf-8"))
        if found:
            try:
                httpx.get(f"{found[0]}/health", timeout=30)
            except httpx.HTTPError:
                time.sleep(0.05)
            else:
                return found[0]
        time.sleep(0.05)
    raise RuntimeError(f"the server ended: {Path(log).read_text(encoding='utf-8')}")
