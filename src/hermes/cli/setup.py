"""`hermes setup`: chooses the model to talk to in a few questions, tries it, and writes it down."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from getpass import getpass
from typing import TYPE_CHECKING

from hermes.cli.chat_screen import Screen
from hermes.cli.context import OK
from hermes.llm.catalogue import LOCAL, OWN_KEY, PROVIDERS, find_local_server
from hermes.llm.connect import list_models
from hermes.llm.local import DEFAULT, MODELS, installed
from hermes.session.models import answer, main_model
from hermes.settings.load import FILE, load_settings
from hermes.settings.secrets_file import FILE as SECRETS
from hermes.settings.secrets_file import save_secret, secret
from hermes.settings.yaml_file import set_value
from hermes.vocabulary.errors import HermesError, Interrupted, SettingsError

if TYPE_CHECKING:
    import argparse

    from hermes.cli.context import Context
    from hermes.llm.client import Model
    from hermes.settings.home import Home

_SECONDS = 60
# What is offered when nobody says otherwise; any other name of the provider works.
_SUGGESTED = {"anthropic": "claude-sonnet-5", "openai": "gpt-5.5", "openrouter": "anthropic/claude-sonnet-5"}
_TITLES = {"anthropic": "Anthropic", "openai": "OpenAI", "openrouter": "OpenRouter"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    model: str
    provider: str = ""
    base_url: str = ""


def set_up(home: Home, *, reason: str = "") -> Model:
    """Asks until a model is chosen, and returns it; leaving with Ctrl-C or Ctrl-D chooses none."""
    screen = Screen()
    screen.line("Hermes needs a model to talk to. This takes a minute; Ctrl-C leaves.", "bold")
    if reason:
        screen.line(reason, "yellow")
    before = load_settings(home)
    chosen = _Choice(
        model=before.text("model.default"),
        provider=before.text("model.provider"),
        base_url=before.text("model.base_url"),
    )
    try:
        while True:
            model = _written(home, _choose(home, screen))
            if _answers(screen, model):
                return model
    except (EOFError, KeyboardInterrupt):
        _write(home, chosen)  # what was tried and not kept must not be what the next start uses
        screen.line()
        raise Interrupted("left without a model; `hermes setup` asks again, `hermes demo` needs none") from None


def _choose(home: Home, screen: Screen) -> _Choice:
    server = find_local_server(list_models)
    found = f"; {server.name} answers at {server.base_url}" if server else ""
    here = "" if installed() else "; not installed: bin/install local"
    rows = [f"{title} (needs a key{_has_key(home, name)})" for name, title in _TITLES.items()]
    rows.append(f"a server of your own: {', '.join(LOCAL)}, or any OpenAI-compatible one{found}")
    rows.append(f"the embedded model: no key, no network, very small{here}")
    for number, row in enumerate(rows, start=1):
        screen.line(f"  {number}  {row}")
    suggested = "4" if server else "5" if installed() else "1"
    while True:
        said = _ask("Which one?", suggested)
        if said in ("1", "2", "3"):
            return _provider(home, screen, list(_TITLES)[int(said) - 1])
        if said == "4":
            return _own_server(home, screen, server.base_url if server else LOCAL["llama.cpp"])
        if said == "5" and installed():
            screen.line(f"This is {MODELS[DEFAULT].limits}.", "dim")
            return _Choice(model=DEFAULT)
        screen.line("bin/install local brings it" if said == "5" else "a number from 1 to 5, please", "yellow")


def _provider(home: Home, screen: Screen, name: str) -> _Choice:
    key_name = PROVIDERS[name].key_name
    if not os.environ.get(key_name):  # a key that turned out wrong can be typed anew
        keep = "; Enter keeps the one in .env" if secret(home, key_name) else ""
        key = getpass(f"{_TITLES[name]} key (it is not shown{keep}): ").strip()
        if key:
            save_secret(home, key_name, key)
            screen.line(f"saved as {key_name} in {home.join(SECRETS)}, readable by you only", "dim")
    return _Choice(model=_ask("Model", _SUGGESTED[name]), provider=name)


def _own_server(home: Home, screen: Screen, suggested: str) -> _Choice:
    address = _ask("Address", suggested)
    models = list_models(address, secret(home, OWN_KEY) or "")
    if models is None:
        key = getpass("No list of models there. If it wants a key, type it (it is not shown), else Enter: ").strip()
        if key:
            save_secret(home, OWN_KEY, key)
        models = list_models(address, key)
    names = [str(entry["id"]) for entry in models or ()]
    if names:
        screen.line(f"it has {', '.join(names[:20])}", "dim")
    return _Choice(model=_ask("Model", names[0] if names else ""), provider="custom", base_url=address)


def _written(home: Home, choice: _Choice) -> Model:
    """Through the settings, so that what is tried is what the next start will use."""
    _write(home, choice)
    return main_model(load_settings(home))


def _write(home: Home, choice: _Choice) -> None:
    for name, text in (
        ("model.default", choice.model),
        ("model.provider", choice.provider),
        ("model.base_url", choice.base_url),
    ):
        if text != load_settings(home).text(name):
            set_value(home, FILE, name, text)


def _answers(screen: Screen, model: Model) -> bool:
    """Whether the model is to be kept: it answers, or the person says that it will."""
    screen.wait(f"asking {model.name} …")
    try:
        answer(model, "Answer with one word.", "Are you there?", _SECONDS)
    except HermesError as error:
        screen.line(f"it did not answer: {error}", "yellow")
        return _ask("Keep it all the same? (y/n)", "n").lower().startswith("y")
    screen.line(f"{model.name} answers; saved. `hermes setup` changes it.", "green")
    return True


def _ask(question: str, suggested: str) -> str:
    said = input(f"{question}{f' [{suggested}]' if suggested else ''}: ").strip()
    return said or suggested


def _has_key(home: Home, name: str) -> str:
    key_name = PROVIDERS[name].key_name
    if os.environ.get(key_name):
        return f"; {key_name} is in the environment"
    return "; there is one in .env" if secret(home, key_name) else ""


def _setup(given: argparse.Namespace, context: Context) -> int:
    del given
    if not sys.stdin.isatty():
        raise SettingsError(
            "hermes setup asks questions, so it needs a terminal; in a script use `hermes config set model.default"
            f" NAME` and put the key into {context.home.join(SECRETS)}"
        )
    set_up(context.home)
    return OK


COMMANDS = {"setup": (lambda _parser: None, _setup)}
