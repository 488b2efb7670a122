"""`hermes bench import`: transcripts of another program, at what share of the rate of `append_many`, in what memory.

The same messages are stored once by `append_many` in batches of a thousand inside `bulk` (the fastest way our own code
has) and once by `hermes sessions import` from Claude Code's format, each in a process of its own, so that peak memory
is its own. A third process is killed halfway and a fourth completes its work.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from typing import Any

_SESSION_LENGTH = 500
_WORDS = (
    *("the", "deploy", "host", "restarts", "its", "queue", "when", "a", "worker", "stops", "answering", "and", "log"),
    *("says", "which", "shard", "was", "left", "behind", "while", "somebody", "asked", "for", "invoice", "of", "last"),
    *("March", "in", "small", "office", "near", "river"),
)
_APPEND = """
import json, resource, sys, time
from hermes.conversations.database import SessionDB
source, target = sys.argv[1:]
start, count, at = time.perf_counter(), 0, None
cpu = time.process_time()
with SessionDB.open(target, durability="turn") as db:
    batch = []
    def flush():
        with db.bulk():
            db.append_many(session, batch)
        batch.clear()
    session = None
    with open(source, encoding="utf-8") as file:
        for line in file:
            name, role, content, moment = json.loads(line)
            if name != session:
                if batch: flush()
                session = db.create_session(session_id=name)
            batch.append({"role": role, "content": content, "timestamp": moment})
            count += 1
            if len(batch) == 1000: flush()
    flush()
    db.index()
    db.sync()
print(json.dumps([count, time.perf_counter() - start, time.process_time() - cpu,
    resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""
_IMPORT = """
import json, os, resource, sys, time
from hermes.portability.conversations_import import TranscriptImport
from hermes.portability.transcripts import sources
from hermes.conversations.database import SessionDB
folder, target, most = sys.argv[1], sys.argv[2], int(sys.argv[3])
start, cpu = time.perf_counter(), time.process_time()
with SessionDB.open(target, durability="turn") as db, db.importing(10):
    work = TranscriptImport(db)
    for source in sources(folder):
        work.take(source)
        if most and work.result.messages >= most: os._exit(9)
    result = work.finish()
    db.index()
print(json.dumps([result.messages, time.perf_counter() - start, time.process_time() - cpu,
    resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""


def run(messages: int = 100_000, folder: str | None = None) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="hermes-bench-", dir=folder) as place:
        plain, transcripts = os.path.join(place, "plain.jsonl"), os.path.join(place, "projects")
        _write(messages, plain, transcripts)
        floor = _measured(_APPEND, plain, os.path.join(place, "floor.db"))
        ours = _measured(_IMPORT, transcripts, os.path.join(place, "ours.db"), "0")
        killed = os.path.join(place, "killed.db")
        subprocess.run([sys.executable, "-c", _IMPORT, transcripts, killed, str(messages // 2)], check=False)
        before = _count(killed)
        resumed = _measured(_IMPORT, transcripts, killed, "0")
    return {
        "messages": ours[0],
        "append_many_per_second": floor[0] / floor[1],
        "append_many_cpu_per_second": floor[0] / floor[2],
        "append_many_peak_mb": floor[3],
        "claude_code_per_second": ours[0] / ours[1],
        "claude_code_cpu_per_second": ours[0] / ours[2],
        "claude_code_peak_mb": ours[3],
        "claude_code_over_append_many": (ours[0] / ours[1]) / (floor[0] / floor[1]),
        "claude_code_cpu_over_append_many": (ours[0] / ours[2]) / (floor[0] / floor[2]),
        "before_the_kill": before,
        "resumed_messages": resumed[0],
        "resumed_peak_mb": resumed[3],
    }


def _measured(code: str, *arguments: str) -> list[float]:
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    figures: list[float] = json.loads(done.stdout)
    return figures


def _count(path: str) -> int:
    from hermes.conversations.database import SessionDB

    with SessionDB.open(path) as db:
        return db.counts()["messages"]


def _write(messages: int, plain: str, transcripts: str) -> None:
    """The same made-up conversations in both forms, from a fixed rule, so that every run has the same."""
    os.makedirs(transcripts)
    with open(plain, "w", encoding="utf-8") as bare:
        for first in range(0, messages, _SESSION_LENGTH):
            name = f"bench-{first:09}"
            with open(os.path.join(transcripts, f"{name}.jsonl"), "w", encoding="utf-8") as file:
                for number in range(first, min(first + _SESSION_LENGTH, messages)):
                    role = ("user", "assistant")[number % 2]
                    content = _text(number)
                    bare.write(json.dumps([name, role, content, 1.7e9 + number]) + "\n")
                    file.write(json.dumps(_line(name, role, content, number)) + "\n")


def _text(number: int) -> str:
    length = 12 + number * 7919 % 30
    return " ".join(_WORDS[(number * 31 + at * at) % len(_WORDS)] for at in range(length)) + f" (case {number})"


def _line(name: str, role: str, content: str, number: int) -> dict[str, Any]:
    said: Any = content if role == "user" else [{"type": "text", "text": content}]
    return {
        "type": role,
        "sessionId": name,
        "uuid": f"{name}-{number}",
        "parentUuid": f"{name}-{number - 1}",
        "cwd": "/srv/project",
        "version": "2.0.0",
        "isSidechain": False,
        "timestamp": 1.7e9 + number,
        "message": {"role": role, "content": said, "model": "claude-sonnet"},
    }
