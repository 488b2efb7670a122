"""`hermes plugins`, and the commands that the active memory provider brings itself."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from hermes.base.errors import NotFound, SettingsError
from hermes.cli.output import OK, REFUSED, add_json_option, print_json, print_text
from hermes.compaction.engine import BUILT_IN
from hermes.operations.checks import examine, examine_engine
from hermes.providers.discovery import FOLDER, available_providers, load_commands
from hermes.providers.manager import running_for
from hermes.session.engines import BUNDLED, engine_folders, known_engines
from hermes.session.external import chosen_providers

if TYPE_CHECKING:
    import argparse

    from hermes.cli.output import Context
    from hermes.providers.discovery import ProviderInfo

PROVIDER, ENGINE = "memory provider", "context engine"


def _list(given: argparse.Namespace, context: Context) -> int:
    rows = _rows(context)
    if given.json:
        print_json(rows)
        return OK
    for row in rows:
        mark = "*" if row["active"] else " "
        where = "bundled" if row["bundled"] else "installed"
        print_text(f"{mark} {row['name']:<14} {row['kind']:<15} {where:<10} {row['description']}")
    return OK


def _rows(context: Context) -> list[dict[str, Any]]:
    active = chosen_providers(context.settings)
    chosen = context.settings.text("context.engine") or BUILT_IN
    providers = [_as_json(each, active) for each in available_providers(context.home.operator)]
    return providers + [
        {
            "name": each.name,
            "kind": ENGINE,
            "bundled": each.name in BUNDLED,
            "active": each.name == chosen,
            "description": each.description,
            "folder": each.folder,
        }
        for each in known_engines(context.home)
    ]


def _show(given: argparse.Namespace, context: Context) -> int:
    found = [row for row in _rows(context) if row["name"] == given.name]
    if not found:
        raise _no_plugin(given.name, context)
    if given.json:
        print_json(found[0])
        return OK
    for row in found:
        for key, each in row.items():
            if each not in ("", [], None):
                print_text(f"{key:<22} {', '.join(map(str, each)) if isinstance(each, list) else each}")
    return OK


def _no_plugin(name: str, context: Context) -> NotFound:
    rows = _rows(context)
    places = [
        os.path.join(each, name)
        for each in (os.path.join(context.home.operator, FOLDER), *engine_folders(context.home))
    ]
    if empty := next((each for each in places if os.path.isdir(each)), None):
        return NotFound(f"{empty} has no __init__.py, so it is no plug-in; put the class, or register(ctx), into one")
    providers, engines = (
        ", ".join(row["name"] for row in rows if row["kind"] == kind) or "none" for kind in (PROVIDER, ENGINE)
    )
    return NotFound(
        f"there is no plug-in {name!r}: no memory provider (there are: {providers}; yours belongs into "
        f"{os.path.join(context.home.operator, FOLDER, name)}) and no context engine (there are: {engines}; yours "
        f"belongs into {os.path.join(engine_folders(context.home)[0], name)})"
    )


def _path(given: argparse.Namespace, context: Context) -> int:
    del given
    print_text(os.path.join(context.home.operator, FOLDER))
    return OK


def _check(given: argparse.Namespace, context: Context) -> int:
    """Loads each plug-in that somebody installed, or the ones that are named, and says what is wrong."""
    chosen = [*chosen_providers(context.settings), context.settings.text("context.engine")]
    installed = [row["name"] for row in _rows(context) if not row["bundled"]]
    names = given.names or [*installed, *(name for name in chosen if name not in ("", BUILT_IN))]
    found = [each for name in dict.fromkeys(names) for each in _checked(name, given, context)]
    for each in found:
        each["ok"] = not each["problem"] and not each.get("missing")
    if given.json:
        print_json(found)
    else:
        for each in found:
            lacking = ", ".join(field["variable"] or field["key"] for field in each.get("missing") or ())
            said = f"not configured yet: {lacking}" if lacking else each.get("connection") or each.get("tried")
            print_text(f"{'ok ' if each['ok'] else '!  '} {each['name']:<14} {each['problem'] or said or 'loads'}")
    return OK if all(each["ok"] for each in found) else REFUSED


def _checked(name: str, given: argparse.Namespace, context: Context) -> list[dict[str, Any]]:
    """Every plug-in of that name; one that is nowhere may still be an engine that a general plug-in registers."""
    kinds = {row["kind"] for row in _rows(context) if row["name"] == name}
    found = []
    if PROVIDER in kinds:
        found.append(examine(context.home, context.settings, name, connect=given.connect) | {"kind": PROVIDER})
    if ENGINE in kinds or not kinds:
        found.append(examine_engine(context.home, context.settings, name))
        if not found[-1]["installed"]:
            found[-1]["problem"] = str(_no_plugin(name, context))
    return found


def _as_json(info: ProviderInfo, active: list[str]) -> dict[str, Any]:
    return {
        "name": info.name,
        "kind": PROVIDER,
        "bundled": info.bundled,
        "active": info.name in active,
        "description": info.description,
        "folder": info.folder,
        "version": info.version,
        "pip_dependencies": list(info.pip_dependencies),
        "external_dependencies": [str(each.get("name", "")) for each in info.external_dependencies],
        "hooks": list(info.hooks),
        "problem": info.problem,
    }


def _configure_show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the plug-in")
    add_json_option(parser)


def _configure_check(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="left out: everything that was installed or is in use")
    parser.add_argument("--connect", action="store_true", help="also ask the backend")
    add_json_option(parser)


def _configure_path(parser: argparse.ArgumentParser) -> None:
    del parser


# Commands that a memory provider brings itself: `hermes NAME …`, for the active provider only.


def is_active(name: str, context: Context) -> bool:
    return name in chosen_providers(context.settings)


def run_provider_command(name: str, words: list[str], context: Context) -> int:
    """Lets the provider parse and carry out its own words."""
    import argparse

    home = context.home
    with running_for(home.path):
        register = load_commands(name, home.operator)
        if register is None:
            raise SettingsError(f"the memory provider {name} has no commands of its own (`hermes memory status`)")
        parser = argparse.ArgumentParser(prog=f"hermes {name}", description=f"Commands of the memory provider {name}.")
        register(parser)
        given = parser.parse_args(words)
        carry_out = getattr(given, "func", None)
        if carry_out is None:
            parser.print_help()
            return OK
        return int(carry_out(given) or OK)


COMMANDS = {
    "list": (add_json_option, _list),
    "show": (_configure_show, _show),
    "path": (_configure_path, _path),
    "check": (_configure_check, _check),
}
