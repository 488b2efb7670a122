"""`hermes bench`: how well your own history is found again; and, in a checkout, every other figure we publish."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import hermes
from hermes.base.errors import NotFound
from hermes.cli.output import OK, add_json_option, print_json, print_text

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from hermes.cli.output import Context

    Command = tuple[Callable[[argparse.ArgumentParser], None], Callable[[argparse.Namespace, Context], int]]


def _configure_recall(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "path",
        metavar="FILE",
        nargs="?",
        help="a LoCoMo, LongMemEval or CJK question file (JSON, may be .gz); without one your own conversations",
    )
    parser.add_argument("--limit", type=int, help="only so many questions of each conversation, or in all")
    parser.add_argument("--semantic", action="store_true", help="search by meaning too (needs the extra)")
    parser.add_argument("--chart", metavar="FILE.svg", help="also draw the figures (in a checkout)")
    add_json_option(parser)


def _recall(given: argparse.Namespace, context: Context) -> int:
    checkout = _checkout() if given.chart else None
    if checkout:
        checkout.refuse_unwritable("--chart", given.chart)
    figures = _recall_figures(given, context)
    if checkout:
        checkout.draw_chart(given.chart, figures, "recall")
    if given.json:
        print_json(figures)
    else:
        print_figures(figures)
    return OK


def print_figures(figures: dict[str, Any], indent: str = "") -> None:
    for name, figure in figures.items():
        if isinstance(figure, dict):
            print_text(f"{indent}{name}")
            print_figures(figure, indent + "  ")
        else:
            shown = f"{figure:.4g}" if isinstance(figure, float) else figure
            print_text(f"{indent}{name!s:<35} {shown}")


def _recall_figures(given: argparse.Namespace, context: Context) -> dict[str, Any]:
    if given.path is not None:
        from hermes.operations.recall_bench import run

        return dict(run(given.path, limit=given.limit, semantic=given.semantic))
    from hermes.operations.recall_bench import run_own
    from hermes.session.history import open_past

    db = open_past(context.home)
    if db is None:
        raise NotFound("there are no conversations yet; `hermes sessions import` brings some in, or name a FILE")
    with db:
        return run_own(db, questions=given.limit or 200)


def _checkout() -> Any:
    """The benchmarks beside the source; an installed Hermes has none."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(hermes.__file__ or ""))))
    if not os.path.isfile(os.path.join(root, "benchmarks", "command.py")):
        raise NotFound(
            "this benchmark runs from a checkout: clone the project and run `bin/hermes bench` there; "
            "`hermes bench recall` works everywhere"
        )
    if root not in sys.path:
        sys.path.append(root)
    from benchmarks import command

    return command


def _from_checkout(name: str) -> Command:
    def configure(parser: argparse.ArgumentParser) -> None:
        _checkout().COMMANDS[name][0](parser)

    def run(given: argparse.Namespace, context: Context) -> int:
        return int(_checkout().COMMANDS[name][1](given, context))

    return configure, run


_NAMES = (
    *("all", "curated", "scan", "secrets", "fence", "prompt", "prefix", "compaction", "holographic", "curation"),
    *("turn", "serve", "search", "import"),
)
COMMANDS: dict[str, Command] = {"recall": (_configure_recall, _recall)} | {
    name: _from_checkout(name) for name in _NAMES
}
