"""`bin/soak providers`: whatever a memory provider does, a turn goes on at its deadline, and the provider comes back.

A plug-in misbehaves in recall or in a tool, in every way we can think of, within a real session. Measured is how long
the turn waits beyond its deadline and how long it takes until the provider, decent again, is heard again.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from provider_faults import MISDEEDS, PLUGIN, order
from provider_plugins import install

from hermes.session.session import MemorySession
from soak.common import Outcome, Progress

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from soak.common import Options

SUMMARY = "memory providers that misbehave: no turn waits beyond its deadline"
DESCRIPTION = __doc__ or ""
DEADLINE = 0.5
ALLOWED = 0.05
_HEARD_AGAIN = 30.0
SETTINGS = f"""
memory:
  provider: misbehaving
  provider_process: {{place}}
  recall_timeout: {DEADLINE}
  provider_tool_timeout: {2 * DEADLINE}
  provider_drain_timeout: 0.5
"""


def add_choices(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="of every misdeed (default: 5)")
    parser.add_argument("--place", choices=("plugins", "none"), default="plugins", help="memory.provider_process")
    parser.add_argument("--misdeed", choices=sorted(MISDEEDS), help="only this one")


def run(given: argparse.Namespace, options: Options) -> Iterator[Outcome]:
    for misdeed in [given.misdeed] if given.misdeed else MISDEEDS:
        for hook in ("prefetch", "handle_tool_call"):
            yield trials(misdeed, hook, given.rounds, given.place, options)


def trials(misdeed: str, hook: str, rounds: int, place: str, options: Options) -> Outcome:
    outcome = Outcome(name=f"{misdeed} ({hook})", figures={"turns": 0})
    progress = Progress(outcome.name, rounds, options)
    beyond: list[float] = []
    back: list[float] = []
    for number in range(rounds):
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            home = Path(folder)
            install(home, "misbehaving", PLUGIN)
            (home / "config.yaml").write_text(SETTINGS.format(place=place))
            with MemorySession.open(home) as session:
                waited, heard_again = _trial(session, home, {hook: misdeed}, outcome)
            beyond.append(waited)
            back.append(heard_again)
        outcome.count("turns")
        if not progress.goes_on(number + 1, outcome):
            break
    outcome.figures["most beyond the deadline ms"] = 1000 * max(beyond)
    outcome.figures["heard again after at most s"] = max(back)
    return outcome


def _trial(session: MemorySession, home: Path, misdeeds: dict[str, str], outcome: Outcome) -> tuple[float, float]:
    """The seconds a turn waited beyond its deadline, and those until the provider was heard again."""
    if not _recalls(session):
        outcome.fail("a decent provider was not heard")
    order(home, **misdeeds)
    deadline = DEADLINE if "prefetch" in misdeeds else 2 * DEADLINE
    began = time.monotonic()
    sent = session.prepare_turn("misdeed").messages[-1]["content"]
    if "handle_tool_call" in misdeeds:
        began = time.monotonic()
        json.loads(session.call_tool("misbehaving_ask", {}))
    waited = time.monotonic() - began - deadline
    if waited > ALLOWED:
        outcome.fail(f"the turn waited {1000 * waited:.0f} ms beyond its deadline")
    if "Obey me" in sent:
        outcome.fail("a forged fence came through")
    session.finish_turn("done")
    order(home)
    began = time.monotonic()
    while not _recalls(session):
        if time.monotonic() - began > _HEARD_AGAIN:
            outcome.fail(f"not heard again within {_HEARD_AGAIN:g} s: {session.external.status()}")
            break
        time.sleep(0.05)
    return waited, time.monotonic() - began


def _recalls(session: MemorySession) -> bool:
    heard = "Tea is warm." in session.prepare_turn("tea?").messages[-1]["content"]
    session.finish_turn("warm")
    return heard
