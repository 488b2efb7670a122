"""`hermes bench`: every figure with its floor or peer from the same run, for people and as JSON."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hermes.cli.app import OK
from hermes.cli.progress import Progress
from hermes.cli.render import add_json_option, print_json, print_text

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from hermes.cli.app import Context


def _curated(given: argparse.Namespace, context: Context) -> int:
    del context
    from hermes.bench.curated import run

    figures = run(given.adds, given.starts, given.peer_python, given.folder)
    rows = [
        ("add, wall, over write+fsync+rename+fsync", "add_over_floor", 1.5),
        ("a model's call of the tool, CPU, over hermes-agent's", "tool_call_cpu_over_peer", 0.5),
        ("add, CPU, over hermes-agent's", "add_cpu_over_peer", 0.5),
        ("add without the scan, over hermes-agent's with", "unscreened_add_cpu_over_peer", 0.5),
        ("hermes --version, CPU, over python -c pass", "version_over_python", 2.0),
        ("hermes --help, CPU, over python -c pass", "help_over_python", 4.0),
        ("hermes memory add from a cold process", "memory_write_over_python", 3.0),
        ("hermes tool memory from a cold process", "tool_call_over_python", 3.0),
    ]
    _print(given, figures, rows)
    return OK


def _prefix(given: argparse.Namespace, context: Context) -> int:
    from hermes.bench.prefix import TURNS, run

    progress = Progress("talking", TURNS)
    try:
        figures = run(given.model, context.home.root, progress.update)
    finally:
        progress.close()
    if given.json:
        print_json(figures)
        return OK
    print_text(f"{figures['model']}, threads: {figures['threads']}")
    print_text(f"{'':<29}{'frozen prompt':^32}{'memory block rebuilt each turn':^32}")
    print_text(f"{'turn':<29}" + f"{'prompt':>8}{'cached':>8}{'share':>7}{'first':>8} " * 2)
    for turn in figures["turns"]:
        columns = (
            f"{one['prompt_tokens']:>8,}{one['cached_tokens']:>8,}{one['share']:>7.1%}{one['seconds']:>7.2f}s "
            for one in (turn["frozen"], turn["naive"])
        )
        print_text(f"{turn['turn']:>2} {turn['what']:<26}" + "".join(columns))
    print_text("")
    _print_figures({name: figure for name, figure in figures.items() if name != "turns"}, "")
    return OK


def _print(given: argparse.Namespace, figures: dict[str, Any], rows: list[tuple[str, str, float]]) -> None:
    if given.json:
        print_json(figures)
        return
    for text, name, target in rows:
        shown = f"{figures[name]:.2f}" if name in figures else "not measured"
        print_text(f"{text:<53} {shown:>12}   at most {target:g}")
    print_text("")
    _print_figures(figures, "")


def _print_figures(figures: dict[str, Any], indent: str) -> None:
    for name, figure in figures.items():
        if isinstance(figure, dict):
            print_text(f"{indent}{name}")
            _print_figures(figure, indent + "  ")
        else:
            print_text(
                f"{indent}{name!s:<35} {figure:.4g}" if isinstance(figure, float) else f"{indent}{name!s:<35} {figure}"
            )


def _plain(module: str, *options: str) -> Callable[[argparse.Namespace, Context], int]:
    """A command that runs one benchmark module with some of its options and prints what it returns."""

    def command(given: argparse.Namespace, context: Context) -> int:
        del context
        run = import_module(f"hermes.bench.{module}").run
        _print(given, run(**{option: getattr(given, option) for option in options}), [])
        return OK

    return command


def _configure_curated(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--adds", type=int, default=300, help="memory writes to time (default: 300)")
    parser.add_argument("--starts", type=int, default=30, help="program starts to time (default: 30)")
    parser.add_argument("--folder", metavar="DIR", help="where to write (default: the temporary folder)")
    parser.add_argument("--peer-python", metavar="PATH", help="a Python that has hermes-agent, to measure it too")
    add_json_option(parser)


def _recall(given: argparse.Namespace, context: Context) -> int:
    if given.path is not None:
        return _plain("recall", "path", "limit", "semantic")(given, context)
    from hermes.bench.recall_own import run
    from hermes.session.past import open_past
    from hermes.vocabulary.errors import NotFound

    db = open_past(context.home)
    if db is None:
        raise NotFound("there are no conversations yet; `hermes sessions import` brings some in, or name a FILE")
    with db:
        _print(given, run(db, questions=given.limit or 200), [])
    return OK


def _configure_recall(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "path",
        metavar="FILE",
        nargs="?",
        help="a LoCoMo, LongMemEval or CJK question file (JSON, may be .gz); without one your own conversations",
    )
    parser.add_argument("--limit", type=int, help="only so many questions of each conversation, or in all")
    parser.add_argument("--semantic", action="store_true", help="search by meaning too (needs the extra)")
    add_json_option(parser)


def _configure_search(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--messages", type=int, default=100_000, help="size of the made-up corpus (default: 100,000)")
    parser.add_argument("--peer-python", metavar="PATH", help="a Python that has hermes-agent, to measure it too")
    add_json_option(parser)


def _configure_importing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--messages", type=int, default=100_000, help="messages to import (default: 100,000)")
    parser.add_argument("--folder", metavar="DIR", help="where to work (default: the temporary folder)")
    add_json_option(parser)


def _configure_serve(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--people", type=int, default=200, metavar="N", help="how many talk at once (default: 200)")
    parser.add_argument("--seconds", type=float, default=300, metavar="T", help="for how long (default: 300)")
    parser.add_argument("--latency", type=float, default=1.0, metavar="T", help="the model's own time (default: 1)")
    parser.add_argument("--think", type=float, default=4.0, metavar="T", help="seconds a person thinks (default: 4)")
    _configure_seeded(parser)


def _configure_fence(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--texts", type=int, default=2_000, help="generated texts to check (default: 2,000)")
    parser.add_argument("--seed", type=int, default=0, help="what everything random follows from (default: 0)")
    add_json_option(parser)


def _configure_compaction(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--peer-python", metavar="PATH", help="a Python that has hermes-agent, to measure it too")
    _configure_seeded(parser)


def _configure_curation(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--turns", type=int, default=10_000, help="length of the made-up log (default: 10,000)")
    parser.add_argument("--consolidations", type=int, default=1_000, help="homes to consolidate (default: 1,000)")
    parser.add_argument("--seed", type=int, default=0, help="what everything random follows from (default: 0)")
    add_json_option(parser)


def _configure_seeded(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=int, default=0, help="what everything random follows from (default: 0)")
    add_json_option(parser)


def _configure_prefix(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", default="local", help="the embedded model to measure with (default: local)")
    add_json_option(parser)


COMMANDS = {
    "prefix": (_configure_prefix, _prefix),
    "curated": (_configure_curated, _curated),
    "scan": (_configure_seeded, _plain("scan", "seed")),
    "secrets": (add_json_option, _plain("secrets")),
    "fence": (_configure_fence, _plain("fence", "seed", "texts")),
    "prompt": (_configure_seeded, _plain("prompt", "seed")),
    "compaction": (_configure_compaction, _plain("compaction", "seed", "peer_python")),
    "holographic": (_configure_seeded, _plain("holographic", "seed")),
    "curation": (_configure_curation, _plain("curation", "turns", "consolidations", "seed")),
    "recall": (_configure_recall, _recall),
    "turn": (add_json_option, _plain("whole_turn")),
    "serve": (_configure_serve, _plain("serve", "people", "seconds", "latency", "think", "seed")),
    "search": (_configure_search, _plain("search", "messages", "peer_python")),
    "import": (_configure_importing, _plain("importing", "messages", "folder")),
}
