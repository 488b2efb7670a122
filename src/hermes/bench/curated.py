"""`hermes bench curated`: memory writes beside the bare system calls, and cold starts beside bare Python."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Any

from hermes.bench.measure import cpu_of_process, hermes_command, median, timed
from hermes.curated.store import MemoryStore
from hermes.session.wiring import open_parts

if TYPE_CHECKING:
    from collections.abc import Callable

_ENTRY = "The deploy host runs Debian 12; services restart with systemctl and log to journald, number {}."
_ENTRIES = 10
# Runs inside another Python, the one hermes-agent is installed in; prints CPU and wall milliseconds per add, and CPU
# milliseconds per call of its tool, which is what a model does.
_PEER = """
import json, statistics, sys, time
from tools.memory_tool import MemoryStore, memory_tool
store = MemoryStore(memory_char_limit=2200, user_char_limit=1375)
store.load_from_disk()
for number in range({entries}):
    store.add("memory", {entry!r}.format(number))
cpu, wall, calls = [], [], []
for number in range({adds}):
    text = {entry!r}.format(1000 + number)
    c, w = time.thread_time(), time.perf_counter()
    result = store.add("memory", text)
    wall.append((time.perf_counter() - w) * 1000); cpu.append((time.thread_time() - c) * 1000)
    assert result["success"], result
    store.remove("memory", text)
    c = time.thread_time()
    result = json.loads(memory_tool(action="add", target="memory", content=text, store=store))
    calls.append((time.thread_time() - c) * 1000)
    assert result["success"], result
    store.remove("memory", text)
print(json.dumps([statistics.median(cpu), statistics.median(wall), statistics.median(calls)]))
"""


def run(adds: int = 300, starts: int = 30, peer_python: str | None = None, folder: str | None = None) -> dict[str, Any]:
    """All figures as one document; `folder` is where to write (default: the system's temporary folder)."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        figures: dict[str, Any] = {"adds": adds, "starts": starts, "folder": os.path.dirname(place)}
        peer = [_peer(os.path.join(place, "peer-before"), adds, peer_python)] if peer_python else []
        figures |= _writes(place, adds)
        peer += [_peer(os.path.join(place, "peer-after"), adds, peer_python)] if peer_python else []
        figures |= _beside_peer(peer, figures)
        figures |= _cold_starts(place, starts)
        figures["modules_loaded_by_import_hermes"] = _foreign_modules()
    return figures


def _writes(place: str, adds: int) -> dict[str, Any]:
    store = MemoryStore.open(os.path.join(place, "home"))
    unscreened = MemoryStore.open(os.path.join(place, "unscreened"), screen=lambda *_: None)
    for number in range(_ENTRIES):
        store.add("memory", _ENTRY.format(number))
        unscreened.add("memory", _ENTRY.format(number))
    size = os.path.getsize(store.path("memory"))
    floor = _floor(os.path.join(place, "floor"), b"x" * (size + len(_ENTRY)))
    floors: list[tuple[float, float]] = []
    writes: list[tuple[float, float]] = []
    bare: list[tuple[float, float]] = []
    calls: list[tuple[float, float]] = []
    toolbox = open_parts(os.path.join(place, "home")).toolbox
    for number in range(1000, 1000 + adds):
        entry = _ENTRY.format(number)
        floors.append(timed(floor))
        writes.append(timed(lambda entry=entry: store.add("memory", entry)))  # type: ignore[misc]
        store.remove("memory", entry)
        call = {"action": "add", "target": "memory", "content": entry}
        calls.append(timed(lambda call=call: toolbox.call("memory", call)))  # type: ignore[misc]
        bare.append(timed(lambda entry=entry: unscreened.add("memory", entry)))  # type: ignore[misc]
        store.remove("memory", entry)
        unscreened.remove("memory", entry)
    floor_ms, floor_cpu_ms = (median(each) for each in zip(*floors, strict=True))
    add_ms, add_cpu_ms = (median(each) for each in zip(*writes, strict=True))
    unscreened_ms, unscreened_cpu_ms = (median(each) for each in zip(*bare, strict=True))
    return {
        "tool_call_in_process_cpu_ms": median([cpu for _, cpu in calls]),
        "unscreened_add_ms": unscreened_ms,
        "unscreened_add_cpu_ms": unscreened_cpu_ms,
        "floor_ms": floor_ms,
        "floor_cpu_ms": floor_cpu_ms,
        "add_ms": add_ms,
        "add_cpu_ms": add_cpu_ms,
        "add_over_floor": add_ms / floor_ms,
    }


def _floor(folder: str, data: bytes) -> Callable[[], None]:
    """The least a durable replacement can do: write, fsync, rename, fsync the directory."""
    os.mkdir(folder, 0o700)
    directory = os.open(folder, os.O_RDONLY)

    def replace() -> None:
        file = os.open("new", os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=directory)
        os.write(file, data)
        os.fsync(file)
        os.close(file)
        os.rename("new", "file", src_dir_fd=directory, dst_dir_fd=directory)
        os.fsync(directory)

    return replace


def _cold_starts(place: str, starts: int) -> dict[str, Any]:
    environment = {**os.environ, "HERMES_HOME": os.path.join(place, "cold")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    samples: dict[str, list[float]] = {}
    for number in range(starts + 1):
        commands = _commands(number)
        for name, command in commands.items():
            samples.setdefault(name, []).append(cpu_of_process(command, environment))
    cpu = {name: median(each[1:]) for name, each in samples.items()}  # the first round compiles the bytecode
    figures: dict[str, Any] = {f"{name}_cpu_ms": each for name, each in cpu.items()}
    return figures | {f"{name}_over_python": cpu[name] / cpu["python"] for name in cpu if name != "python"}


def _commands(number: int) -> dict[str, list[str]]:
    """What is started in one round; each write is a new one."""
    call = {"action": "add", "target": "user", "content": f"Prefers short answers, in {number} words."}
    return {
        "python": [sys.executable, "-c", "pass"],
        "version": hermes_command("--version"),
        "help": hermes_command("--help"),
        "memory_write": hermes_command("memory", "add", f"The deploy host number {number} runs Debian 12."),
        "tool_call": hermes_command("tool", "memory", json.dumps(call)),
    }


def _foreign_modules() -> list[str]:
    code = (
        "import sys; before = set(sys.modules); import hermes;"
        "known = sys.stdlib_module_names | {'hermes'};"
        "print([m for m in set(sys.modules) - before if m.partition('.')[0] not in known])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    return json.loads(shown.replace("'", '"'))  # type: ignore[no-any-return]


def _peer(home: str, adds: int, python: str) -> tuple[float, float, float] | str:
    """CPU and wall milliseconds of hermes-agent's add and CPU of its tool, or why it could not be measured."""
    code = _PEER.format(adds=adds, entries=_ENTRIES, entry=_ENTRY)
    environment = {**os.environ, "HERMES_HOME": home}
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, env=environment, check=False)
    if done.returncode != 0:
        return done.stderr.strip()[-200:]
    cpu_ms, wall_ms, call_ms = json.loads(done.stdout.splitlines()[-1])
    return cpu_ms, wall_ms, call_ms


def _beside_peer(peer: list[tuple[float, float, float] | str], own: dict[str, Any]) -> dict[str, Any]:
    """Measured once before and once after ours, so that a change of the machine's mood shows on both."""
    measured = [each for each in peer if isinstance(each, tuple)]
    if not measured:
        return {"peer": f"not measured: {peer[0]}"} if peer else {}
    cpu_ms, wall_ms, call_ms = (sum(each) / len(measured) for each in zip(*measured, strict=True))
    return {
        "peer_add_cpu_ms": cpu_ms,
        "peer_add_ms": wall_ms,
        "peer_tool_call_cpu_ms": call_ms,
        "tool_call_cpu_over_peer": own["tool_call_in_process_cpu_ms"] / call_ms,
        "add_cpu_over_peer": own["add_cpu_ms"] / cpu_ms,
        "unscreened_add_cpu_over_peer": own["unscreened_add_cpu_ms"] / cpu_ms,
    }
