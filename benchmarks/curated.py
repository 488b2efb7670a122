"""`hermes bench curated`: memory writes beside the bare system calls, and cold starts beside bare Python."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Any

from benchmarks.measure import cpu_of_process, hermes_command, median, timed
from hermes.memory.entries import render
from hermes.memory.store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable

_ENTRY = "The deploy host runs Debian 12; services restart with systemctl and log to journald, number {}."
_ENTRIES = 10
_ROUNDS = 3
# What adds and removes an entry, each in a process of its own with a home of its own. hermes-agent syncs the file and
# not its folder, and keeps no history; both scan what is added.
_ADDERS = {
    "floor": """
from benchmarks.curated import floor
add = remove = floor(home, b"x" * {size})
call = None
""",
    "ours": """
from hermes.memory.store import MemoryStore
from hermes.session.parts import open_parts
store, parts = MemoryStore.open(home), open_parts(home)
add, remove = (lambda text: store.add("memory", text)), (lambda text: store.remove("memory", text))
call = lambda text: parts.toolbox.call("memory", {{"action": "add", "target": "memory", "content": text}})
take_back = lambda text: parts.store.remove("memory", text)
""",
    "unscreened": """
from hermes.memory.store import MemoryStore
store = MemoryStore.open(home, screen=lambda *_: None)
add, remove = (lambda text: store.add("memory", text)), (lambda text: store.remove("memory", text))
call = None
""",
    "peer": """
from tools.memory_tool import MemoryStore, memory_tool
store = MemoryStore(memory_char_limit=2200, user_char_limit=1375)
store.load_from_disk()
add, remove = (lambda text: store.add("memory", text)), (lambda text: store.remove("memory", text))
call = lambda text: memory_tool(action="add", target="memory", content=text, store=store)
take_back = remove
""",
}
# The same for each of them: prints milliseconds. A median hides what only some writes pay for, so there is also a mean,
# of adding and removing alike: every so many writes one of ours lets go of what they replaced.
_LOOP = """
import json, os, statistics, time
home = os.environ["HERMES_HOME"]
{adder}
def done(result):
    assert not isinstance(result, dict) or result["success"], result
for number in range({entries}):
    done(add({entry!r}.format(number)))
first = {entry!r}.format("99 # 999")  # what is loaded once is loaded before
done(add(first)), done(remove(first))
cpu, wall, calls, writes = [], [], [], []
for number in range(1000, 1000 + {adds}):
    text = {entry!r}.format(number)
    c, w = time.thread_time(), time.perf_counter()
    result = add(text)
    wall.append((time.perf_counter() - w) * 1000); cpu.append((time.thread_time() - c) * 1000)
    done(result)
    c = time.thread_time()
    done(remove(text))
    writes += [cpu[-1], (time.thread_time() - c) * 1000]
for number in range(1000, 1000 + ({adds} if call else 0)):
    text = {entry!r}.format(number)
    c = time.thread_time()
    result = call(text)
    calls.append((time.thread_time() - c) * 1000)
    done(json.loads(result))
    done(take_back(text))
median = statistics.median
shown = dict(add_cpu_ms=median(cpu), write_cpu_mean_ms=statistics.mean(writes), add_ms=median(wall))
print(json.dumps(shown | (dict(tool_call_in_process_cpu_ms=median(calls)) if calls else {{}})))
"""


def run(adds: int = 300, starts: int = 30, peer_python: str | None = None, folder: str | None = None) -> dict[str, Any]:
    """All figures as one document; `folder` is where to write (default: the system's temporary folder)."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        figures: dict[str, Any] = {"adds": adds, "starts": starts, "folder": os.path.dirname(place)}
        figures |= _beside_floor(place, adds)
        figures |= _beside_each_other(place, adds, peer_python)
        figures |= _cold_starts(place, starts)
        figures["modules_loaded_by_import_hermes"] = _foreign_modules()
    return figures


def _beside_floor(place: str, adds: int) -> dict[str, Any]:
    """Wall time of a write and of the bare calls in turns, each over the one before it.

    A disk changes its mood from moment to moment: the medians of both may come from different moods.
    """
    store = MemoryStore.open(os.path.join(place, "home"))
    for number in range(_ENTRIES):
        store.add("memory", _ENTRY.format(number))
    replace = floor(os.path.join(place, "floor"), b"x" * _size())
    floors, writes = [], []
    for number in range(1000, 1000 + adds):
        entry = _ENTRY.format(number)
        floors.append(timed(lambda: replace(""))[0])
        writes.append(timed(lambda entry=entry: store.add("memory", entry))[0])  # type: ignore[misc]
        store.remove("memory", entry)
    return {
        "floor_ms": median(floors),
        "add_ms": median(writes),
        "add_over_floor": median([write / bare for write, bare in zip(writes, floors, strict=True)]),
    }


def _beside_each_other(place: str, adds: int, peer_python: str | None) -> dict[str, Any]:
    """CPU of each way to add, in rounds: the same loop, alone in its process, on the same file system."""
    here = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    measured: dict[str, list[dict[str, float]]] = {name: [] for name in _ADDERS if name != "peer" or peer_python}
    for number in range(_ROUNDS):
        for name, each in measured.items():
            home = os.path.join(place, f"{name}-{number}")
            python, paths = (peer_python or "", {}) if name == "peer" else (sys.executable, here)
            result = _measured(name, home, max(1, adds // _ROUNDS), python, paths)
            if isinstance(result, str):
                return {"not measured": f"{name}: {result}"}
            each.append(result)
    found = {
        f"{name}_{figure}": median([each[figure] for each in rounds])
        for name, rounds in measured.items()
        for figure in rounds[0]
    }
    return found | (_ratios(found) if peer_python else {})


def _ratios(found: dict[str, float]) -> dict[str, float]:
    peer, mean = found["peer_add_cpu_ms"], found["peer_write_cpu_mean_ms"]
    return {
        "tool_call_cpu_over_peer": found["ours_tool_call_in_process_cpu_ms"]
        / found["peer_tool_call_in_process_cpu_ms"],
        "add_cpu_over_peer": found["ours_add_cpu_ms"] / peer,
        "write_cpu_mean_over_peer": found["ours_write_cpu_mean_ms"] / mean,
        "unscreened_add_cpu_over_peer": found["unscreened_add_cpu_ms"] / peer,
        "floor_cpu_over_peer": found["floor_add_cpu_ms"] / peer,
    }


def _measured(name: str, home: str, adds: int, python: str, paths: dict[str, str]) -> dict[str, float] | str:
    """What the loop printed, or why it did not."""
    adder = _ADDERS[name].format(size=_size())
    code = _LOOP.format(adder=adder, adds=adds, entries=_ENTRIES, entry=_ENTRY)
    environment = {**os.environ, **paths, "HERMES_HOME": home}
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, env=environment, check=False)
    if done.returncode != 0:
        return done.stderr.strip()[-200:]
    shown: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return shown


def _size() -> int:
    """Of the file that a write leaves, in bytes."""
    entries = [_ENTRY.format(number) for number in (*range(_ENTRIES), 1000)]
    return len(render(entries).encode())


def floor(folder: str, data: bytes) -> Callable[[str], None]:
    """The least a durable replacement can do: write, fsync, rename, fsync the directory."""
    os.mkdir(folder, 0o700)
    directory = os.open(folder, os.O_RDONLY)

    def replace(_text: str) -> None:
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
