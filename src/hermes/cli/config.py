"""`hermes config`: what the settings are, where each value comes from, and changing one."""

from __future__ import annotations

import os

from hermes.cli.context import OK, USAGE
from hermes.cli.render import add_json_option, print_json, print_problem, print_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

    from hermes.cli.context import Context
    from hermes.settings.load import Settings


def _show(given: argparse.Namespace, context: Context) -> int:
    settings = context.settings
    names = [name for name in settings.names() if not given.changed or settings.origin(name) != "default"]
    return _print_all(given, settings, names)


def _print_all(given: argparse.Namespace, settings: Settings, names: list[str]) -> int:
    if given.json:
        print_json({name: {"value": settings.get(name), "origin": settings.origin(name)} for name in names})
        return OK
    if not names:
        print_text("nothing is set; every setting has its default (`hermes config show` prints them)")
    width = max(map(len, names), default=0)
    for name in names:
        print_text(f"{name:<{width}}  {_in_words(settings.get(name))}  ({settings.origin(name)})")
    return OK


def _get(given: argparse.Namespace, context: Context) -> int:
    settings = context.settings
    below = [name for name in settings.names() if name.startswith(f"{given.name}.")]
    if below and given.name not in settings.names():
        return _print_all(given, settings, below)
    found, origin = settings.get(given.name), settings.origin(given.name)
    if given.json:
        print_json({"key": given.name, "value": found, "origin": origin})
    else:
        print_text(_in_words(found))
    return OK


def _set(given: argparse.Namespace, context: Context) -> int:
    from hermes.settings.load import FILE
    from hermes.settings.yaml_file import set_value

    chosen, path = set_value(context.home, FILE, given.name, given.value)
    warning = _engine_problem(context) if given.name == "context.engine" else ""
    if given.json:
        print_json({"key": given.name, "value": chosen, "file": path, **({"warning": warning} if warning else {})})
    else:
        print_text(f"{given.name} is now {_in_words(chosen)} (in {path})")
        if warning:
            print_problem(warning)
    return OK


def _engine_problem(context: Context) -> str:
    """Why the engine that was just chosen will not be used; it may come later, so it is a warning."""
    from hermes.session.engines import chosen_engine
    from hermes.settings.load import load_settings

    return chosen_engine(context.home, load_settings(context.home)).problem


def _unset(given: argparse.Namespace, context: Context) -> int:
    from hermes.settings.load import FILE, load_settings
    from hermes.settings.yaml_file import unset_value

    path, was_set = unset_value(context.home, FILE, given.name)
    now = load_settings(context.home).get(given.name)
    if given.json:
        print_json({"key": given.name, "value": now, "file": path, "was_set": was_set})
    elif was_set:
        state = "not set any more" if now in ("", None) else f"{_in_words(now)} by default again"
        print_text(f"{given.name} is {state} (taken out of {path})")
    else:
        state = "not set" if now in ("", None) else f"{_in_words(now)} by default"
        print_text(f"{given.name} does not stand in {path}; it is {state}")
    return OK


def _path(given: argparse.Namespace, context: Context) -> int:
    from hermes.curated.places import FOLDER
    from hermes.settings.load import FILE
    from hermes.settings.secrets_file import FILE as SECRETS

    home = context.home
    places = {
        "home": home.path,
        "profile": home.profile or "default",
        "settings": os.path.join(home.operator, FILE),
        "secrets": os.path.join(home.operator, SECRETS),
        "memories": home.join(FOLDER),
    }
    if given.json:
        print_json(places)
    else:
        for name, place in places.items():
            print_text(f"{name:<9} {place}")
    return OK


def _check(given: argparse.Namespace, context: Context) -> int:
    from hermes.settings.load import load_settings, quoted_items
    from hermes.settings.secrets_file import read_secrets
    from hermes.vocabulary.errors import SettingsError

    problems: list[str] = []
    try:
        problems += [f"{what}; {remedy}" for what, remedy in quoted_items(load_settings(context.home))]
    except SettingsError as error:
        problems += str(error).split("\n")
    try:
        read_secrets(context.home)
    except SettingsError as error:
        problems += str(error).split("\n")
    if given.json:
        print_json({"ok": not problems, "problems": problems})
    else:
        print_text("\n".join(problems) or "config.yaml and .env are fine")
    return USAGE if problems else OK


def _in_words(found: Any) -> str:
    import json

    if isinstance(found, str):
        return found
    return json.dumps(list(found) if isinstance(found, tuple) else found, ensure_ascii=False)


def _configure_show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--changed", action="store_true", help="only those that stand in the file")
    add_json_option(parser)


def _configure_get(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="KEY", help="such as memory.nudge_interval, or a heading such as memory")
    add_json_option(parser)


def _configure_unset(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="KEY", help="such as memory.nudge_interval; `hermes config show` lists them")
    add_json_option(parser)


def _configure_set(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="KEY", help="such as memory.nudge_interval; `hermes config show` lists them")
    parser.add_argument("value", metavar="VALUE", help="as it would stand in config.yaml; JSON works too")
    add_json_option(parser)


COMMANDS = {
    "show": (_configure_show, _show),
    "get": (_configure_get, _get),
    "set": (_configure_set, _set),
    "unset": (_configure_unset, _unset),
    "path": (add_json_option, _path),
    "check": (add_json_option, _check),
}
