"""`hermes mcp install` and `hermes mcp record`: into a host's configuration, and what its hooks tell."""

from __future__ import annotations

import difflib
import json
import os
import shutil
import sys
from typing import TYPE_CHECKING, Any

from hermes.cli.context import OK, REFUSED
from hermes.cli.mcp import load_server
from hermes.cli.questions import confirmed
from hermes.cli.render import add_json_option, print_json, print_text
from hermes.server.mcp_hooks import record
from hermes.server.mcp_hosts import HOSTS, Launch, carry_out, plan
from hermes.settings.home import find_home, locate_home
from hermes.vocabulary.errors import SettingsError

if TYPE_CHECKING:
    import argparse

    from hermes.cli.context import Context
    from hermes.server.mcp_hosts import Change
    from hermes.settings.home import Home

_LARGEST = 16 << 20


def _install(given: argparse.Namespace, context: Context) -> int:
    changes = plan(given.host, _launch(context.home), os.path.expanduser("~"), remove=given.remove)
    if not given.remove:
        load_server()  # a host that is told of a server which cannot start only shows an error, later and elsewhere
    host = HOSTS[given.host]
    agreed = bool(changes) and not given.dry_run and (given.yes or _agrees(given, changes))
    backups = carry_out(changes) if agreed else []
    if given.json:
        print_json(
            {
                "host": given.host,
                "done": agreed or not changes,
                "files": [{"path": change.path, "reason": change.reason} for change in changes],
                "backups": backups,
                "records": host.records,
            }
        )
        return OK if agreed or not changes or given.dry_run else REFUSED
    if not changes:
        print_text(f"{host.title}: nothing to change")
    elif agreed:
        for backup in backups:
            print_text(f"the file as it was: {backup}")
        print_text(f"{host.title}: done. Restart it. Conversations: {host.records}." if not given.remove else "removed")
    else:
        if given.dry_run or given.yes:
            _show(changes)
        print_text("nothing was changed" + ("" if given.dry_run else "; --yes does it without asking"))
    return OK if agreed or not changes or given.dry_run else REFUSED


def _agrees(given: argparse.Namespace, changes: list[Change]) -> bool:
    if given.json:
        return False
    _show(changes)
    return confirmed("Write this?")


def _show(changes: list[Change]) -> None:
    for change in changes:
        before = (change.before or b"").decode("utf-8", "replace").splitlines()
        after = change.after.decode("utf-8", "replace").splitlines()
        name = f"{change.path} ({change.reason})"
        lines = difflib.unified_diff(before, after, change.path if change.before else "nothing", name, lineterm="", n=1)
        print_text("\n".join(lines) + "\n")


def _launch(home: Home) -> Launch:
    """How to start this very program for this very home, whatever the host's environment."""
    program = os.path.abspath(sys.argv[0])
    if os.path.basename(program) != "hermes" or not os.access(program, os.X_OK):
        program = shutil.which("hermes") or program
    words: tuple[str, ...] = ()
    usual = find_home(os.path.join("~", ".hermes"))
    operator = find_home(home.operator)
    if operator.path != usual.path:
        words = ("--home", home.root if home.profile else operator.path)
    if home.profile:
        words += ("--profile", home.profile)
    elif not home.above and locate_home(home.root).path != home.path:
        words += ("--profile", "default")
    if home.above:
        words += ("--user", home.person)
    return Launch(program=program, home=words)


def _record(given: argparse.Namespace, context: Context) -> int:
    text = given.payload if given.payload is not None else sys.stdin.buffer.read(_LARGEST)
    try:
        payload: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"a hook tells what happened as JSON, and this is none: {error}") from error
    if not isinstance(payload, dict):
        raise SettingsError("a hook tells what happened as a JSON object")
    result = record(context.home, given.host, payload)
    if given.json:
        print_json(result)
    return OK


def _configure_install(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("host", metavar="HOST", help=", ".join(HOSTS))
    parser.add_argument("--remove", action="store_true", help="take it out again")
    parser.add_argument("--yes", action="store_true", help="write without asking")
    parser.add_argument("--dry-run", action="store_true", help="only show what would change")
    add_json_option(parser)


def _configure_record(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("host", metavar="HOST", help="whose hook this is")
    parser.add_argument("payload", nargs="?", metavar="JSON", help="what it tells (default: from standard input)")
    add_json_option(parser)


COMMANDS = {"install": (_configure_install, _install), "record": (_configure_record, _record)}
