"""`hermes trust`: the folders whose files and notes count as the person's own, and what the gate decided."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from hermes.cli import ui
from hermes.settings.home import project_root
from hermes.settings.trust import DecisionLog, TrustedFolders

if TYPE_CHECKING:
    from hermes.settings.home import Home

_DIR = ui.option("dir DIR", "the folder (default: this one)", nargs="?", default=".")
_NOTES = (".hermes.md", "HERMES.md", "AGENTS.md", "agents.md", "CLAUDE.md", "claude.md", ".cursorrules", ".cursor")
_QUESTION = (
    "{folder} is new here. Do you trust what is in it (its files, AGENTS.md and other notes for agents)?\n"
    "If not, they are shown to the model all the same, and what it saves after reading them waits for your approval. "
    "`hermes trust` changes that later."
)


def ask_about(home: Home, cwd: str) -> None:
    """Asks once, at a terminal, about the repository around this folder, or about a folder with notes for agents."""
    folders, here = TrustedFolders(home), os.path.realpath(cwd)
    folder = project_root(here) or here
    if not sys.stdin.isatty() or not sys.stdout.isatty() or folders.decision(folder) is not None:
        return
    if not project_root(here) and not any(os.path.lexists(os.path.join(here, name)) for name in _NOTES):
        return  # nothing in it speaks to a model by itself
    if folder in (os.path.realpath(os.path.expanduser("~")), os.path.dirname(folder)):
        return  # nobody means everything they have
    ui.line(_QUESTION.format(folder=folder))
    folders.add(folder, trusted=ui.said_yes("trust it?"))


def _add(given: ui.Given, context: ui.Context) -> None:
    path = TrustedFolders(context.home).add(given.dir)
    ui.show(given, {"path": path, "trusted": True}, f"{path} is trusted")


def _remove(given: ui.Given, context: ui.Context) -> None:
    path = TrustedFolders(context.home).remove(given.dir)
    ui.show(given, {"path": path, "trusted": None}, f"{path} is no longer on the list; it counts as outside")


def _list(given: ui.Given, context: ui.Context) -> None:
    found = sorted(TrustedFolders(context.home).all().items())
    lines = [f"{'trusted    ' if trusted else 'not trusted'}  {path}" for path, trusted in found]
    document = [{"path": path, "trusted": trusted} for path, trusted in found]
    ui.show(given, document, *(lines or ["no folder is trusted yet; `hermes trust add DIR` adds one"]))


def _log(given: ui.Given, context: ui.Context) -> None:
    found = DecisionLog(context.home).newest(given.count)
    lines = [f"{ui.when(each['at'])}  {each['verdict']:<5}  {each['sink']:<8}  {each['reason']}" for each in found]
    ui.show(given, found, *(lines or ["the gate has not decided anything yet"]))


COMMANDS = {
    "trust add": ui.command(_add, _DIR),
    "trust remove": ui.command(_remove, _DIR),
    "trust list": ui.command(_list),
    "trust log": ui.command(
        _log, ui.option("-n --count N", "how many, the newest last (default: 20)", type=ui.whole_number(1), default=20)
    ),
}
