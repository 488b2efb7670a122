"""What live appends cost at the end of a store of any size: one message at a time, as conversations make them.

Each durability appends the same new conversations through `SessionDB.append`, one message to a call, then closes the
store. Bytes are the kernel's own account of this process (`/proc/self/io`), the final checkpoint included:
`write_bytes` is what goes to the disk, where a page of the log that is synced half full counts again when it is
filled; `wchar` is what was handed to the kernel, which depends on no file system. Then eight processes append to the
store at once, each append synced. Bare writes of two pages with a sync, right before, say what this disk can do now.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

from benchmarks.corpus import Corpus
from hermes.conversations.database import SessionDB
from hermes.storage.local.database import PAGE

if TYPE_CHECKING:
    from hermes.storage.ports import Durability

WRITERS = 8
_BARE = 500
_BY_EACH = 250
_WRITER = """
import json, sys, time
from hermes.conversations.database import SessionDB
with SessionDB.open(sys.argv[1]) as db:
    session = db.create_session()
    print("ready", flush=True)
    sys.stdin.readline()
    taken = []
    for number in range(int(sys.argv[2])):
        started = time.perf_counter()
        db.append(session, {"role": "user", "content": f"{session} says number {number} while others write"})
        taken.append((time.perf_counter() - started) * 1000)
print(json.dumps(taken))
"""


def measure(path: str, *, messages: int, seed: int) -> dict[str, Any]:
    """Figures of both durabilities and of many writers; the store keeps what was appended."""
    figures: dict[str, Any] = {"bare_write_and_sync": _bare(path + ".bare")} | {
        f"synced_by_{durability}": _append(path, durability, messages, seed) for durability in ("message", "turn")
    }
    figures[f"{WRITERS}_writers"] = _together(path)
    return figures


def content_bytes(message: dict[str, Any]) -> int:
    """What a person, a model or a tool wrote: texts, names of tools and their arguments."""
    called = sum(
        len(call["function"]["name"]) + len(call["function"]["arguments"].encode())
        for call in message.get("tool_calls") or ()
    )
    return len((message["content"] or "").encode()) + called


def _append(path: str, durability: Durability, messages: int, seed: int) -> dict[str, float]:
    planned = list(Corpus(seed).sessions(messages))
    content = sum(content_bytes(message) for session in planned for message in session.messages)
    taken: list[float] = []
    longest = 0.0
    with SessionDB.open(path, durability=durability) as db:
        before, cpu = _written(), time.process_time()
        for session in planned:
            name = db.create_session(session.source, session.title, session.started_at)
            for message in session.messages:
                started, busy = time.perf_counter(), time.thread_time()
                db.append(name, message)
                longest = max(longest, (time.thread_time() - busy) * 1000)
                taken.append((time.perf_counter() - started) * 1000)
        db.sync()
        used = time.process_time() - cpu
    after = _written()
    return {
        "messages_per_second": round(messages / (sum(taken) / 1000)),
        "messages_per_cpu_second": round(messages / used),
        **_spread(taken),
        "longest_cpu_ms": round(longest, 1),
        **{name: round((after[name] - before[name]) / content, 1) for name in before},
    }


def _bare(path: str) -> dict[str, float]:
    """The floor: as many bytes as the pages of one append, appended to a file and synced."""
    data, taken = bytes(2 * PAGE), []
    file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        for _ in range(_BARE):
            started = time.perf_counter()
            os.write(file, data)
            os.fsync(file)
            taken.append((time.perf_counter() - started) * 1000)
    finally:
        os.close(file)
        os.unlink(path)
    return _spread(taken)


def _together(path: str) -> dict[str, float]:
    command = [sys.executable, "-c", _WRITER, path, str(_BY_EACH)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(part for part in sys.path if part)}
    writers = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        for _ in range(WRITERS)
    ]
    for writer in writers:
        assert writer.stdout is not None  # noqa: S101 - a pipe, as asked for
        writer.stdout.readline()
    started = time.perf_counter()
    for writer in writers:
        assert writer.stdin is not None  # noqa: S101 - a pipe, as asked for
        writer.stdin.write("go\n")
        writer.stdin.flush()
    told = [writer.communicate()[0] for writer in writers]
    lasted = time.perf_counter() - started
    taken = [one for text in told for one in json.loads(text)]
    return {"messages_per_second": round(len(taken) / lasted), **_spread(taken)}


def _spread(taken: list[float]) -> dict[str, float]:
    ordered = sorted(taken)
    return {
        "p50_ms": round(ordered[len(ordered) // 2], 3),
        "p99_ms": round(ordered[len(ordered) * 99 // 100], 3),
        "longest_ms": round(ordered[-1], 1),
    }


def _written() -> dict[str, int]:
    """By this process until now; nothing on a system that does not say."""
    try:
        with open("/proc/self/io", encoding="ascii") as file:
            account = dict(line.split(": ") for line in file.read().splitlines())
    except OSError:
        return {}
    return {
        "written_per_content_byte": int(account["write_bytes"]),
        "handed_over_per_content_byte": int(account["wchar"]),
    }
