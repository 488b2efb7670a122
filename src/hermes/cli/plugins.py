"""`hermes plugins`: what others have written for Hermes, and whether it works."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from hermes.cli.context import OK, REFUSED
from hermes.cli.render import add_json_option, print_json, print_text
from hermes.compression.discovery import FOLDER as ENGINES
from hermes.compression.discovery import available_engines
from hermes.providers.discovery import FOLDER, available_providers, find_provider
from hermes.session.external import chosen_providers
from hermes.session.provider_checks import examine

if TYPE_CHECKING:
    import argparse

    from hermes.cli.context import Context
    from hermes.providers.discovery import ProviderInfo


def _list(given: argparse.Namespace, context: Context) -> int:
    home = context.home.operator
    active = chosen_providers(context.settings)
    rows = [_as_json(each, active) for each in available_providers(home)]
    engine = context.settings.text("context.engine")
    rows += [
        {
            "name": each.name,
            "kind": "context engine",
            "bundled": False,
            "active": each.name == engine,
            "description": each.description,
            "folder": each.folder,
        }
        for each in available_engines([os.path.join(home, ENGINES)])
    ]
    if given.json:
        print_json(rows)
        return OK
    for row in rows:
        mark = "*" if row["active"] else " "
        where = "bundled" if row["bundled"] else "installed"
        print_text(f"{mark} {row['name']:<14} {row['kind']:<15} {where:<10} {row['description']}")
    return OK


def _show(given: argparse.Namespace, context: Context) -> int:
    info = find_provider(given.name, context.home.operator)
    row = _as_json(info, chosen_providers(context.settings))
    if given.json:
        print_json(row)
        return OK
    for key, each in row.items():
        if each not in ("", [], None):
            print_text(f"{key:<22} {', '.join(map(str, each)) if isinstance(each, list) else each}")
    return OK


def _path(given: argparse.Namespace, context: Context) -> int:
    del given
    print_text(os.path.join(context.home.operator, FOLDER))
    return OK


def _check(given: argparse.Namespace, context: Context) -> int:
    """Loads each plug-in that somebody installed, or the ones that are named, and says what is wrong."""
    home = context.home
    names = given.names or [each.name for each in available_providers(home.operator) if not each.bundled]
    names = list(dict.fromkeys([*names, *([] if given.names else chosen_providers(context.settings))]))
    found = [examine(home, context.settings, name, connect=given.connect) for name in names]
    for each in found:
        each["ok"] = not each["problem"] and not each.get("missing")
    if given.json:
        print_json(found)
    else:
        for each in found:
            lacking = ", ".join(field["variable"] or field["key"] for field in each.get("missing") or ())
            said = each["problem"] or (f"not configured yet: {lacking}" if lacking else each["connection"] or "loads")
            print_text(f"{'ok ' if each['ok'] else '!  '} {each['name']:<14} {said}")
    return OK if all(each["ok"] for each in found) else REFUSED


def _as_json(info: ProviderInfo, active: list[str]) -> dict[str, Any]:
    return {
        "name": info.name,
        "kind": "memory provider",
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


COMMANDS = {
    "list": (add_json_option, _list),
    "show": (_configure_show, _show),
    "path": (_configure_path, _path),
    "check": (_configure_check, _check),
}
