"""Every benchmark: what it measures, beside what, and how to run it short. `hermes bench all` goes through them."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from typing import TYPE_CHECKING, Any

from benchmarks.measure import hermes_command
from hermes.base.values import value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


@value
class Protocol:
    """`quick` are options that make it short; the figures are then rougher."""

    measures: str
    beside: str
    quick: tuple[str, ...] = ()


PROTOCOLS: dict[str, Protocol] = {
    "curated": Protocol(
        measures="memory writes, acknowledged when they would survive a power cut; starts of the program",
        beside="write, fsync, rename, fsync of the folder; `python -c pass`",
        quick=("--adds", "60", "--starts", "6"),
    ),
    "scan": Protocol(measures="the threat scanner on ordinary and hostile texts", beside="texts of twice the length"),
    "rules": Protocol(
        measures="rules and calls that several authors wrote: recognised, fired, and fired wrongly",
        beside='the words "always" and "never", and words shared with the call',
    ),
    "secrets": Protocol(measures="the secret finder on plain and hostile texts", beside="texts of twice the length"),
    "fence": Protocol(
        measures="fences and the stream scrubber, checked on generated texts",
        beside="a bare loop over the pieces",
        quick=("--texts", "300"),
    ),
    "prompt": Protocol(
        measures="assembling prompts, marking cache points, estimating tokens", beside="a deep copy of the history"
    ),
    "prefix": Protocol(
        measures="the share of the prompt that a real server finds in its cache, over ten turns",
        beside="the memory block rebuilt for every turn",
    ),
    "turn": Protocol(
        measures="our own cost of a turn and of a model call, in short and long sessions",
        beside="`json.dumps` of the conversation; bare Python",
    ),
    "compaction": Protocol(
        measures="planted facts that stay reachable, with summarisers that fail in six ways; its own cost",
        beside="`json.dumps` of the history",
    ),
    "recall": Protocol(
        measures="whether questions made from your own conversations find them; with a FILE, a public set",
        beside="the right answer",
        quick=("--limit", "50"),
    ),
    "self": Protocol(
        measures="whether your own past questions are answered with memory, without, and with stale memory",
        beside="questions about other things",
        quick=("--limit", "10"),
    ),
    "facts": Protocol(
        measures="whether search and memory show the current fact after a correction; with a FILE, FactConsolidation",
        beside="pairs of statements that are alike and both hold",
    ),
    "search": Protocol(
        measures="writing in bulk and live, searching and browsing a large made-up corpus",
        beside="raw FTS5 on the same texts",
        quick=("--messages", "5000", "--appends", "500"),
    ),
    "holographic": Protocol(
        measures="right answers of the local facts provider, and the cost of another fact", beside="a hundred facts"
    ),
    "curation": Protocol(
        measures="junk and corrections in a long log, poison through consolidation, exact undo",
        beside="what was planted",
        quick=("--turns", "1000", "--consolidations", "40"),
    ),
    "import": Protocol(
        measures="another program's transcripts, with a kill in the middle",
        beside="`append_many` of the same messages",
        quick=("--messages", "5000"),
    ),
    "serve": Protocol(
        measures="people in conversation over HTTP, a model that takes a second",
        beside="a bare Starlette echo under the same load",
        quick=("--people", "20", "--seconds", "8"),
    ),
}


def machine() -> dict[str, Any]:
    """On which day and kind of machine: what a figure means nothing without."""
    return {
        "day": time.strftime("%Y-%m-%d"),
        "system": platform.system(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "load_average": round(os.getloadavg()[0], 1),
    }


def measure_all(
    names: Iterable[str], home: str, *, quick: bool, told: Callable[[str], None]
) -> Iterator[dict[str, Any]]:
    """Runs each as the command that stands beside its figures, in a process of its own."""
    for name in names:
        protocol = PROTOCOLS[name]
        options = protocol.quick if quick else ()
        told(name)
        command = hermes_command("--home", home, "bench", name, *options, "--json")
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        row: dict[str, Any] = {
            "name": name,
            "command": " ".join(["hermes", "bench", name, *options]),
            "measures": protocol.measures,
            "beside": protocol.beside,
        }
        if done.returncode == 0:
            yield {**row, "figures": json.loads(done.stdout)}
        else:
            yield {**row, "skipped": _why(done.stderr)}


def _why(told: str) -> str:
    """The last line of a command that failed: for scripts that is JSON, unless it broke off in another way."""
    line = (told.strip().splitlines() or ["it failed without a word"])[-1]
    try:
        return str(json.loads(line)["error"])
    except (ValueError, TypeError, KeyError):
        return line


def page(about: dict[str, Any], rows: Iterable[dict[str, Any]]) -> str:
    """Every figure with the command that gives it, as Markdown."""
    where = f"{about['day']}, {about['cores']} cores, {about['system']}, Python {about['python']}"
    parts = [f"# Figures\n\nMeasured on {where}, load average {about['load_average']} at the start.\n"]
    for row in rows:
        parts.append(f"## {row['name']}\n\n`{row['command']}`: {row['measures']}. Beside it: {row['beside']}.\n")
        if "skipped" in row:
            parts.append(f"Not measured: {row['skipped']}\n")
            continue
        shown = [f"| {path} | {figure} |" for path, figure in flat(row["figures"])]
        parts.append("\n".join(["| figure | value |", "|---|---|", *shown]) + "\n")
    return "\n".join(parts)


def flat(figures: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Each figure with the way to it."""
    if isinstance(figures, dict):
        for name, inner in figures.items():
            yield from flat(inner, f"{path} · {name}" if path else str(name))
    elif isinstance(figures, list):
        for at, inner in enumerate(figures, start=1):
            yield from flat(inner, f"{path} {at}")
    else:
        yield path, f"{figures:.4g}" if isinstance(figures, float) else str(figures)
