"""`bin/soak people`: one person tries, over every surface, to get at what is another's. 0 bytes may come through.

Every person has secrets that nobody else knows or types. An intruder knows everything but those: names, session ids,
titles, message ids, the words around each secret. Whatever comes back to them is searched for all secrets that are not
their own; what is somebody else's must look exactly like what does not exist; at the end everybody's data is as it was.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import re
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from http_service import listening, prepare

from hermes.cli.app import run as run_command
from hermes.memory.store import MemoryStore
from hermes.session.parts import open_parts
from hermes.session.session import MemorySession
from hermes.settings.home import find_home, person_home
from soak.common import Outcome, Progress

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    import httpx
    from http_service import Running

    from hermes.session.parts import SessionParts
    from hermes.settings.home import Home
    from soak.common import Options

SUMMARY = "people in one home: nothing of one reaches another"
DESCRIPTION = __doc__ or ""
NAMES = ("ann", "bob", "cem", "dee")
STEPS = [
    {"when": "look it up", "calls": [{"name": "session_search", "arguments": {"query": "secret project falcon"}}]},
    {
        "when": "who am I",
        "calls": [{"name": "memory", "arguments": {"action": "add", "target": "user", "content": "Asks."}}],
    },
    {"when": "", "text": "Done."},
]
SETTINGS = "server:\n  requests_per_minute: 1000000\n"
_SKILL = "---\nname: {name}\ndescription: The falcon procedure {secret}.\n---\n\n# Steps\n1. {secret}\n"
_RPC = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18"}


@dataclass
class Person:
    name: str
    home: Home
    secrets: list[str]
    sessions: list[str] = field(default_factory=list)
    messages: list[int] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)
    parts: SessionParts | None = None
    http: httpx.Client | None = None
    before: str = ""


def add_choices(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--trials", type=int, default=1000, metavar="N", help="attempts in all (default: 1000)")


def run(given: argparse.Namespace, options: Options) -> Iterator[Outcome]:
    yield trials(given.trials, options)


def trials(count: int, options: Options) -> Outcome:
    outcome = Outcome(name="people", figures={"trials": 0, "bytes seen": 0, "same answers": 0})
    chance = random.Random(options.seed)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        home = Path(folder) / "home"
        keys = prepare(home, STEPS, SETTINGS, NAMES)
        people = [_furnished(home, name, chance) for name in NAMES]
        with listening(home, keys) as up, contextlib.ExitStack() as stack:
            for person in people:
                person.http = stack.enter_context(up.client(person.name))
                person.parts = open_parts(person.home, owner="local")
                stack.callback(person.parts.close)
                person.before = _everything(person)
            progress = Progress("people", count, options)
            for number in range(count):
                _trial(up, people, chance, outcome)
                if not progress.goes_on(number + 1, outcome):
                    break
            for person in people:
                if _everything(person) != person.before:
                    outcome.fail(f"what {person.name} has was changed by somebody else")
    return outcome


def _trial(up: Running, people: list[Person], chance: random.Random, outcome: Outcome) -> None:
    intruder, victim = chance.sample(people, 2)
    name, attempt = chance.choice(list(ATTEMPTS.items()))
    target, absent = _target(victim, chance)
    seen = attempt(up, intruder, target)
    outcome.count("trials")
    outcome.count(name.partition(" ")[0])
    outcome.count("bytes seen", len(seen))
    for person in people:
        if person is not intruder:
            found = [secret for secret in person.secrets if secret in seen]
            if found:
                outcome.fail(f"{name}: {intruder.name} saw {found[0]} of {person.name} ({target})")
    for session in _nearest(seen):
        if intruder.parts is None or intruder.parts.database.find_session(session) is None:
            outcome.fail(f"{name}: {intruder.name} was told of {session}, which is not theirs")
    if name in COMPARED:
        nothing = attempt(up, intruder, absent)
        if _plain(seen, target) != _plain(nothing, absent):
            outcome.fail(f"{name}: {target!r} and {absent!r} differ: {seen[:200]!r} / {nothing[:200]!r}")
        outcome.count("same answers")


def _target(victim: Person, chance: random.Random) -> tuple[str, str]:
    """Something of the victim's, and something of the same form that does not exist."""
    session = chance.choice(victim.sessions)
    choices = [
        (session, session[:-3] + "zzz"),
        (f"{victim.name} plans", "nobody plans"),
        (f"../{victim.name}", "../nobody"),
        (f"users/{victim.name}", "users/nobody"),
        (victim.name, "nobody"),
        (f"{victim.name}/{session}", f"nobody/{session[:-3]}zzz"),
    ]
    return chance.choice(choices)


def _furnished(home: Path, name: str, chance: random.Random) -> Person:
    """A person with secrets in every place a person has."""
    secrets = [f"{name}{chance.getrandbits(48):012x}" for _ in range(8)]
    own = person_home(find_home(home), name)
    person = Person(name=name, home=own, secrets=secrets)
    store = MemoryStore.open(own, project="falcon")
    for target, secret in (("memory", secrets[0]), ("user", secrets[1]), ("project", secrets[2])):
        change = store.add(target, f"The secret falcon project is called {secret}.").change
        person.changes.append(change.id if change else "")
    for number, secret in enumerate(secrets[3:6]):
        title = f"{name} plans" if number == 0 else None
        with MemorySession.open(own, title=title, project="falcon" if number else "") as session:
            session.prepare_turn(f"Remember the secret of project falcon: {secret}.")
            session.finish_turn(f"I will remember {secret} for project falcon.")
            person.sessions.append(session.id)
            person.messages.append(session.last_id)
    folder = os.path.join(own.path, "skills", "ops", f"falcon-{name}")
    os.makedirs(folder)
    with open(os.path.join(folder, "SKILL.md"), "w", encoding="utf-8") as file:
        file.write(_SKILL.format(name=f"falcon-{name}", secret=secrets[6]))
    return person


def _everything(person: Person) -> str:
    """What a person has, apart from what they themselves do in their own trials."""
    store = MemoryStore.open(person.home, project="falcon")
    entries = [store.entries(target) for target in ("memory", "project")]
    assert person.parts is not None
    texts = [[each.message for each in person.parts.database.messages(name)] for name in person.sessions]
    titles = [person.parts.database.get_session(name).title for name in person.sessions]
    return json.dumps([entries, texts, titles], default=str, sort_keys=True)


def _nearest(seen: str) -> list[str]:
    """The ids of the conversations that were offered instead of one that is not there."""
    return re.findall(r"\(([^()]+)\)", seen.partition("; the nearest: ")[2])


# Which of one's own conversations is most like a name depends on the name.
_NEAREST = re.compile(r"; (the nearest: |`hermes sessions list` ).*")


def _plain(seen: str, target: str) -> str:
    for form in (target, target.partition("/")[0]):  # a message may name a part of it only
        if form not in ("", ".."):
            seen = seen.replace(form, "X")
    return _NEAREST.sub("", seen)


def _command(*words: str) -> Callable[[Running, Person, str], str]:
    def attempt(up: Running, intruder: Person, target: str) -> str:
        out, err = io.StringIO(), io.StringIO()
        arguments = ["--home", str(up.home), "--user", intruder.name, *(word.replace("@", target) for word in words)]
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), contextlib.suppress(SystemExit):
            run_command(arguments)
        return out.getvalue() + err.getvalue()

    return attempt


def _tool(tool: str, /, **arguments: Any) -> Callable[[Running, Person, str], str]:
    def attempt(_up: Running, intruder: Person, target: str) -> str:
        assert intruder.parts is not None
        given = {
            key: value.replace("@", target) if isinstance(value, str) else value for key, value in arguments.items()
        }
        return intruder.parts.toolbox.call(tool, given)

    return attempt


def _http(method: str, path: str, body: Any = None) -> Callable[[Running, Person, str], str]:
    def attempt(_up: Running, intruder: Person, target: str) -> str:
        assert intruder.http is not None
        text = json.dumps(body).replace("@", json.dumps(target)[1:-1]) if body is not None else None
        answer = intruder.http.request(method, path.replace("@", target), content=text)
        return answer.text

    return attempt


def _mcp(tool: str, /, **arguments: Any) -> Callable[[Running, Person, str], str]:
    def attempt(_up: Running, intruder: Person, target: str) -> str:
        assert intruder.http is not None
        call = {"name": tool, "arguments": arguments}
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        text = json.dumps(request).replace("@", json.dumps(target)[1:-1])
        return intruder.http.post("/mcp", content=text, headers={**_RPC, "content-type": "application/json"}).text

    return attempt


def _chat(up: Running, intruder: Person, target: str) -> str:
    """A conversation under the victim's name; what the model was given is in the intruder's own transcript."""
    del up
    assert intruder.http is not None
    body = {"messages": [{"role": "user", "content": "look it up"}], "user": target}
    answer = intruder.http.post("/v1/chat/completions", json=body)
    session = answer.headers.get("x-hermes-session", "none")
    return answer.text + intruder.http.get(f"/api/v1/sessions/{session}/messages").text


ATTEMPTS: dict[str, Callable[[Running, Person, str], str]] = {
    "tool search": _tool("session_search", query="secret project falcon"),
    "tool read": _tool("session_search", session_id="@"),
    "tool profile": _tool("session_search", query="secret project falcon", profile="@"),
    "tool skill": _tool("skill_view", name="@"),
    "tool skill file": _tool("skill_view", name="falcon-@", file_path="../../../@/memories/MEMORY.md"),
    "tool memory": _tool("memory", action="remove", target="memory", old_text="@ has no such entry"),
    "cli show": _command("sessions", "show", "@"),
    "cli search": _command("sessions", "search", "secret project falcon", "--json"),
    "cli list": _command("sessions", "list", "--all", "--json"),
    "cli memory": _command("memory", "list", "--json"),
    "cli log": _command("memory", "log", "--json"),
    "cli prompt": _command("prompt", "--cwd", "/"),
    "cli delete": _command("sessions", "delete", "@", "--yes"),
    "cli skill": _command("skills", "show", "@"),
    "http session": _http("GET", "/api/v1/sessions/@"),
    "http messages": _http("GET", "/api/v1/sessions/@/messages"),
    "http rename": _http("PATCH", "/api/v1/sessions/@", {"title": "taken"}),
    "http delete": _http("DELETE", "/api/v1/sessions/@"),
    "http search": _http("GET", "/api/v1/search?q=secret+project+falcon&limit=50"),
    "http memory": _http("GET", "/api/v1/memory"),
    "http log": _http("GET", "/api/v1/memory/@/log"),
    "http sessions": _http("GET", "/api/v1/sessions?limit=200"),
    "mcp search": _mcp("session_search", query="secret project falcon"),
    "mcp read": _mcp("session_search", session_id="@"),
    "mcp memory": _mcp("memory", action="list"),
    "mcp skill": _mcp("skills", action="view", name="@"),
    "mcp record": _mcp("record_conversation", conversation="@", messages=[{"role": "user", "content": "mine"}]),
    "chat": _chat,
}
COMPARED = {"tool read", "tool skill", "cli show", "cli delete", "cli skill", "http session", "http messages"}
COMPARED |= {"http rename", "http delete", "mcp read", "mcp skill"}
