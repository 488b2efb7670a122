"""`hermes bench` in a checkout: every figure with its floor or peer from the same run, as text, JSON or a chart."""

from __future__ import annotations

import os
import shutil
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from benchmarks.protocols import PROTOCOLS, flat, machine, measure_all, page
from hermes.base.errors import NotFound, SettingsError
from hermes.cli import ui
from hermes.cli.catalogue import add_json_option
from hermes.cli.commands.inspect import figure_lines

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    Figures = dict[str, Any]
    Measure = Callable[[argparse.Namespace, ui.Context], Figures]
    Command = Callable[[argparse.Namespace, ui.Context], int]

_PEER = "hermes-agent"
_CURATED = (
    ("add, wall, over write+fsync+rename+fsync", "add_over_floor", 1.5),
    ("a model's call of the tool, CPU, over hermes-agent's", "tool_call_cpu_over_peer", 0.5),
    ("add, CPU, over hermes-agent's", "add_cpu_over_peer", 0.5),
    ("add without the scan, over hermes-agent's with", "unscreened_add_cpu_over_peer", 0.5),
    ("only write+fsync+rename+fsync, over hermes-agent's add", "floor_cpu_over_peer", 0.5),
    ("hermes --version, CPU, over python -c pass", "version_over_python", 2.0),
    ("hermes --help, CPU, over python -c pass", "help_over_python", 4.0),
    ("hermes memory add from a cold process", "memory_write_over_python", 3.0),
    ("hermes tool memory from a cold process", "tool_call_over_python", 3.0),
)


def _curated(given: argparse.Namespace, context: ui.Context) -> Figures:
    del context
    from benchmarks.curated import run

    return run(given.adds, given.starts, _peer(given), given.folder)


def _prefix(given: argparse.Namespace, context: ui.Context) -> Figures:
    del context
    from benchmarks.prefix import TURNS, run

    progress = ui.Progress("talking", TURNS)
    progress.update(0)  # the first turn alone may take minutes
    try:
        return run(given.model, progress.update)
    finally:
        progress.close()


def _plain(module: str, *options: str) -> Measure:
    """What one benchmark module gives, run with some of the options."""

    def measure(given: argparse.Namespace, context: ui.Context) -> Figures:
        del context
        chosen = {option: _peer(given) if option == "peer_python" else getattr(given, option) for option in options}
        return dict(import_module(f"benchmarks.{module}").run(**chosen))

    return measure


def _peer(given: argparse.Namespace) -> str | None:
    """The Python to measure hermes-agent with; both programs are called `hermes`, so it has one of its own."""
    name, _, python = (given.peer or "").partition("=")
    if given.peer_python or not name:
        return given.peer_python or None
    if name != _PEER:
        raise SettingsError(f"--peer: {name!r} cannot be measured; the peer is {_PEER}, as {_PEER}=PATH-OF-ITS-PYTHON")
    found = python or os.environ.get("HERMES_AGENT_PYTHON")
    if not found:
        raise SettingsError(f"--peer: say which Python has it, as --peer {_PEER}=PATH or in $HERMES_AGENT_PYTHON")
    return found


def _command(name: str, measure: Measure, show: Callable[[Figures], None]) -> Command:
    def command(given: argparse.Namespace, context: ui.Context) -> int:
        _refuse_wrong_paths(given)
        figures = measure(given, context)
        if given.chart:
            draw_chart(given.chart, figures, name)
        ui.print_json(figures) if given.json else show(figures)
        return ui.OK

    return command


def _refuse_wrong_paths(given: argparse.Namespace) -> None:
    """What a benchmark would stumble over after minutes is said before it begins."""
    folder, python = getattr(given, "folder", None), _peer(given) if hasattr(given, "peer") else None
    if folder and not os.path.isdir(folder):
        raise SettingsError(f"--folder: {folder} is no folder")
    if python and not shutil.which(python):
        raise SettingsError(f"--peer: {python} is no program; name the Python that has {_PEER}")
    refuse_unwritable("--chart", given.chart)


def refuse_unwritable(option: str, path: str | None) -> None:
    parent = os.path.dirname(os.path.abspath(path)) if path else ""
    if path and (os.path.isdir(path) or not os.access(parent, os.W_OK)):
        why = "it is a folder" if os.path.isdir(path) else f"{parent} is not there, or you may not write to it"
        raise NotFound(f"{option}: {path} cannot be written: {why}")


def write_text(path: str, text: str) -> None:
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise NotFound(f"{path} cannot be written: {error.strerror}") from error
    print(f"hermes: written to {path}", file=sys.stderr)


def _all(given: argparse.Namespace, context: ui.Context) -> int:
    names = given.only.replace(",", " ").split() if given.only else list(PROTOCOLS)
    for name in names:
        if name not in PROTOCOLS:
            raise SettingsError(f"--only: there is no benchmark {name!r}; there are {', '.join(PROTOCOLS)}")
    refuse_unwritable("--page", given.page)
    about = machine()
    told = (lambda name: print(f"hermes: bench {name} …", file=sys.stderr)) if sys.stderr.isatty() else lambda _: None
    rows = list(measure_all(names, context.home.path, quick=given.quick, told=told))
    if given.page:
        write_text(given.page, page(about, rows))
    if given.json:
        ui.print_json({**about, "benchmarks": rows})
        return ui.OK
    for row in rows:
        ui.line(f"{row['command']}\n  {row['measures']}; beside it: {row['beside']}")
        if "skipped" in row:
            ui.line(f"  not measured: {row['skipped']}")
        for path, figure in flat(row.get("figures", {})):
            ui.line(f"  {path:<60} {figure}")
        ui.line("")
    return ui.OK


def recall(path: str, **how: Any) -> Figures:
    from benchmarks.recall import run

    return run(path, **how)


def draw_chart(path: str, figures: Figures, name: str) -> None:
    from benchmarks.chart import draw

    write_text(path, draw(figures, f"hermes bench {name}"))


def _show(figures: Figures) -> None:
    for line in figure_lines(figures):
        ui.line(line)


def _show_curated(figures: Figures) -> None:
    for text, name, target in _CURATED:
        shown = f"{figures[name]:.2f}" if name in figures else "not measured"
        ui.line(f"{text:<55} {shown:>12}   at most {target:g}")
    ui.line("")
    _show(figures)


def _show_prefix(figures: Figures) -> None:
    ui.line(f"{figures['model']}, threads: {figures['threads']}")
    ui.line(f"{'':<29}{'frozen prompt':^32}{'memory block rebuilt each turn':^32}")
    ui.line(f"{'turn':<29}" + f"{'prompt':>8}{'cached':>8}{'share':>7}{'first':>8} " * 2)
    for turn in figures["turns"]:
        columns = (
            f"{one['prompt_tokens']:>8,}{one['cached_tokens']:>8,}{one['share']:>7.1%}{one['seconds']:>7.2f}s "
            for one in (turn["frozen"], turn["naive"])
        )
        ui.line(f"{turn['turn']:>2} {turn['what']:<26}" + "".join(columns))
    ui.line("")
    _show({name: figure for name, figure in figures.items() if name != "turns"})


def _configure_curated(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--adds", type=int, default=300, help="memory writes to time (default: 300)")
    parser.add_argument("--starts", type=int, default=30, help="program starts to time (default: 30)")
    parser.add_argument("--folder", metavar="DIR", help="where to write (default: the temporary folder)")
    _add_peer(parser)
    _add_output(parser)


def _configure_search(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--messages", type=int, default=100_000, help="size of the made-up corpus (default: 100,000)")
    parser.add_argument(
        "--appends",
        type=int,
        default=4_000,
        help="live appends at its end, synced one by one and again once a turn; bytes as the kernel counts them, "
        "those that go to the disk and those handed over to it (default: 4,000)",
    )
    parser.add_argument("--only-writing", action="store_true", help="fill the store and append to it, but ask nothing")
    _add_peer(parser)
    _add_output(parser)


def _configure_importing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--messages", type=int, default=100_000, help="messages to import (default: 100,000)")
    parser.add_argument("--folder", metavar="DIR", help="where to work (default: the temporary folder)")
    _add_output(parser)


def _configure_serve(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--people", type=int, default=200, metavar="N", help="how many talk at once (default: 200)")
    parser.add_argument("--seconds", type=float, default=300, metavar="T", help="for how long (default: 300)")
    parser.add_argument("--latency", type=float, default=1.0, metavar="T", help="the model's own time (default: 1)")
    parser.add_argument("--think", type=float, default=4.0, metavar="T", help="seconds a person thinks (default: 4)")
    _configure_seeded(parser)


def _configure_fence(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--texts", type=int, default=2_000, help="generated texts to check (default: 2,000)")
    parser.add_argument("--seed", type=int, default=0, help="what everything random follows from (default: 0)")
    _add_output(parser)


def _configure_compaction(parser: argparse.ArgumentParser) -> None:
    _add_peer(parser)
    _configure_seeded(parser)


def _configure_curation(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--turns", type=int, default=10_000, help="length of the made-up log (default: 10,000)")
    parser.add_argument("--consolidations", type=int, default=1_000, help="homes to consolidate (default: 1,000)")
    parser.add_argument("--seed", type=int, default=0, help="what everything random follows from (default: 0)")
    _add_output(parser)


def _configure_facts(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "path",
        metavar="FILE",
        nargs="?",
        help="FactConsolidation (JSON, may be .gz) or corrections (JSON lines); without one those of the checkout",
    )
    _add_output(parser)


def _configure_seeded(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=int, default=0, help="what everything random follows from (default: 0)")
    _add_output(parser)


def _configure_prefix(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", default="local", help="the embedded model to measure with (default: local)")
    _add_output(parser)


def _add_peer(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--peer", metavar="NAME[=PYTHON]", help="measure it in the same run: hermes-agent, in a Python of its own"
    )
    parser.add_argument("--peer-python", metavar="PATH", help="the same as --peer hermes-agent=PATH")


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--chart", metavar="FILE.svg", help="also draw the figures")
    add_json_option(parser)


def _configure_all(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="small sizes: minutes instead of an hour, rougher figures")
    parser.add_argument("--only", metavar="NAMES", help="only these, with commas between")
    parser.add_argument("--page", metavar="FILE.md", help="also write a page that lists every figure with its command")
    add_json_option(parser)


_MEASURES: dict[str, tuple[Callable[[argparse.ArgumentParser], None], Measure]] = {
    "prefix": (_configure_prefix, _prefix),
    "curated": (_configure_curated, _curated),
    "scan": (_configure_seeded, _plain("scan", "seed")),
    "secrets": (_add_output, _plain("secrets")),
    "fence": (_configure_fence, _plain("fence", "seed", "texts")),
    "prompt": (_configure_seeded, _plain("prompt", "seed")),
    "compaction": (_configure_compaction, _plain("compaction", "seed", "peer_python")),
    "holographic": (_configure_seeded, _plain("holographic", "seed")),
    "curation": (_configure_curation, _plain("curation", "turns", "consolidations", "seed")),
    "rules": (_add_output, _plain("rules")),
    "facts": (_configure_facts, _plain("facts", "path")),
    "turn": (_add_output, _plain("whole_turn")),
    "serve": (_configure_serve, _plain("serve", "people", "seconds", "latency", "think", "seed")),
    "search": (_configure_search, _plain("search", "messages", "appends", "only_writing", "peer_python")),
    "import": (_configure_importing, _plain("importing", "messages", "folder")),
}
_SHOWN = {"curated": _show_curated, "prefix": _show_prefix}
COMMANDS = {
    name: (configure, _command(name, measure, _SHOWN.get(name, _show)))
    for name, (configure, measure) in _MEASURES.items()
} | {"all": (_configure_all, _all)}
