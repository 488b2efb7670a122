"""`hermes bench`: every figure with its floor or peer from the same run, for people and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hermes.cli.app import OK
from hermes.cli.render import add_json_option, print_json, print_text

if TYPE_CHECKING:
    import argparse

    from hermes.cli.app import Context


def _curated(given: argparse.Namespace, context: Context) -> int:
    del context
    from hermes.bench.curated import run

    figures = run(given.adds, given.starts, given.peer_python, given.folder)
    rows = [
        ("add, wall, over write+fsync+rename+fsync", "add_over_floor", 1.5),
        ("add, CPU, over hermes-agent's", "add_cpu_over_peer", 0.5),
        ("hermes --version, CPU, over python -c pass", "version_over_python", 2.0),
        ("hermes --help, CPU, over python -c pass", "help_over_python", 4.0),
        ("hermes memory add from a cold process", "memory_write_over_python", 3.0),
        ("hermes tool memory from a cold process", "tool_call_over_python", 3.0),
    ]
    _print(given, figures, rows)
    return OK


def _print(given: argparse.Namespace, figures: dict[str, Any], rows: list[tuple[str, str, float]]) -> None:
    if given.json:
        print_json(figures)
        return
    for text, name, target in rows:
        shown = f"{figures[name]:.2f}" if name in figures else "not measured"
        print_text(f"{text:<45} {shown:>12}   at most {target:g}")
    print_text("")
    for name, figure in figures.items():
        print_text(f"{name:<35} {figure:.3f}" if isinstance(figure, float) else f"{name:<35} {figure}")


def _configure_curated(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--adds", type=int, default=300, help="memory writes to time (default: 300)")
    parser.add_argument("--starts", type=int, default=30, help="program starts to time (default: 30)")
    parser.add_argument("--folder", metavar="DIR", help="where to write (default: the temporary folder)")
    parser.add_argument("--peer-python", metavar="PATH", help="a Python that has hermes-agent, to measure it too")
    add_json_option(parser)


COMMANDS = {"curated": (_configure_curated, _curated)}
