"""`hermes doctor`: tries everything for real and says what to do; `--fix` does what is safe."""

from __future__ import annotations

from hermes.cli.context import OK, REFUSED
from hermes.cli.progress import Stages
from hermes.cli.render import add_json_option, print_json, print_text
from hermes.session.doctor import Options, examine
from hermes.vocabulary.checks import PROBLEM

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from hermes.cli.context import Context
    from hermes.vocabulary.checks import Check

_SIGNS = {"ok": "✓", "warning": "!", "problem": "✗"}


def _doctor(given: argparse.Namespace, context: Context) -> int:
    stages = Stages()
    options = Options(fix=given.fix, connect=not given.offline, progress=stages.show)
    checks = []
    for check in examine(context.home, options):
        checks.append(check)
        if not given.json:
            stages.clear()
            _print(check)
    healthy = not any(check.state == PROBLEM for check in checks)
    if given.json:
        print_json({"healthy": healthy, "checks": [check.as_json() for check in checks]})
    elif healthy:
        print_text("Everything that must work works.")
    else:
        print_text("Something needs you: see the lines marked ✗.")
    return OK if healthy else REFUSED


def _print(check: Check) -> None:
    print_text(f"{_SIGNS[check.state]} {check.name}: {check.found}{' (fixed)' if check.fixed else ''}")
    if check.remedy:
        print_text(f"    → {check.remedy}")


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--fix", action="store_true", help="do what is safe: privacy, leftovers, index, log")
    parser.add_argument("--offline", action="store_true", help="do not ask models and providers whether they answer")
    add_json_option(parser)


COMMANDS = {"doctor": (_configure, _doctor)}
