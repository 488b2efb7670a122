"""`hermes bench all`: every benchmark as the command it is, and one page that lists every figure."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from hermes.bench.protocols import PROTOCOLS, flat, machine, measure_all, page
from hermes.cli.bench import refuse_unwritable, write_text
from hermes.cli.context import OK
from hermes.cli.render import add_json_option, print_json, print_text
from hermes.vocabulary.errors import SettingsError

if TYPE_CHECKING:
    import argparse

    from hermes.cli.context import Context


def _all(given: argparse.Namespace, context: Context) -> int:
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
        print_json({**about, "benchmarks": rows})
        return OK
    for row in rows:
        print_text(f"{row['command']}\n  {row['measures']}; beside it: {row['beside']}")
        if "skipped" in row:
            print_text(f"  not measured: {row['skipped']}")
        for path, figure in flat(row.get("figures", {})):
            print_text(f"  {path:<60} {figure}")
        print_text("")
    return OK


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="small sizes: minutes instead of an hour, rougher figures")
    parser.add_argument("--only", metavar="NAMES", help="only these, with commas between")
    parser.add_argument("--page", metavar="FILE.md", help="also write a page that lists every figure with its command")
    add_json_option(parser)


COMMANDS = {"all": (_configure, _all)}
