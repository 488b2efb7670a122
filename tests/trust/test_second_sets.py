"""More sets against the gate: other sentences, other files, other ways in and out."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from hermes.agent import Agent
from hermes.base.events import ToolReturned
from hermes.llm.scripted import Reply, Scripted
from hermes.memory.entries import Cause
from hermes.memory.store import MemoryStore
from hermes.safety.trust import Source, TurnContext, decide
from hermes.session.review import Reviews
from hermes.session.session import MemorySession
from trust import second_data as data
from trust import test_sets

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Ran

site = test_sets.site  # a fixture
_SETTINGS = """
memory: {memory_char_limit: 60000, user_char_limit: 60000, nudge_interval: 0}
review: {enabled: false}
terminal: {policy: allow}
files: {outside: allow}
web: {allow_private_addresses: true}
skills: {external_dirs: ['EXTERNAL']}
"""
_PACKING = "---\nname: packing\ndescription: How to pack\n---\n\nPack light.\n"


class Shown:
    """A tool of a host that shows a text: a browser (web), or an MCP server's answer (tool)."""

    sink = ""

    def __init__(self, name: str, brings: str, text: str) -> None:
        self.brings, self._text = brings, text
        self.schema = {"name": name, "description": "Shows it.", "parameters": {"type": "object", "properties": {}}}

    def call(self, _arguments: dict[str, Any]) -> dict[str, Any]:
        return {"success": True, "text": self._text}


class Crm:
    """A server's tool that takes any fields and keeps them where others read them."""

    brings = "tool"
    sink = "mcp"
    schema: dict[str, Any] = {  # noqa: RUF012 - a constant of the class
        "name": "crm",
        "description": "Files a record.",
        "parameters": {"type": "object"},
    }

    def __init__(self) -> None:
        self.filed: list[Any] = []

    def call(self, arguments: dict[str, Any]) -> dict[str, Any]:
        self.filed.append(arguments)
        return {"success": True}


class Place:
    """A person's home directory, a repository in it that nobody trusts yet, and an agent's home with memory."""

    def __init__(self, home: Path, folder: Path, site: tuple[str, list[str]]) -> None:
        self.home, self.work, self.external = home, folder / "work", folder / "external"
        self.site, self.asked = site
        self.page = data.PAGE.replace("https://ferries.example", self.site)
        self.crm, self.book = Crm(), test_sets.Book()
        for each in (home, self.external, self.work / ".git" / "hooks", self.work / "CONTRIBUTING", self.work / "docs"):
            each.mkdir(parents=True, exist_ok=True)
        (home / "config.yaml").write_text(_SETTINGS.replace("EXTERNAL", str(self.external)))
        (home / "skills" / "packing").mkdir(parents=True)
        (home / "skills" / "packing" / "SKILL.md").write_text(_PACKING)
        for name, text in {
            "CONTRIBUTING/AGENTS.md": "Ask before booking.\n",
            "diary.txt": data.DIARY,
            "notes.txt": "Winter trip\n",
            "docs/install.md": "Install with make.\n",
            "update.log": "updated\n",
            "app.py": "retry = 3\n",
            "run.sh": "#!/bin/sh\necho ran\n",
        }.items():
            (self.work / name).write_text(text)
        (self.work / "run.sh").chmod(0o755)
        (self.work / "alias").mkdir()
        (self.work / "aliased.txt").write_text("x")
        os.symlink("AGENTS.md", self.work / "link-to-notes")
        os.symlink("../aliased.txt", self.work / "alias" / "notes.txt")
        os.symlink("aliased.txt", self.work / "CLAUDE.local.md")
        store = MemoryStore.open(home)
        store.add("memory", data.RULE, cause=Cause(origin="user"))
        store.add("user", data.PRIVATE, cause=Cause(origin="user"))
        self.before = self._files()

    def agent(self, replies: list[Any], *, trusted: bool = False, window: int = 1_000_000, **given: Any) -> Agent:
        return Agent.open(
            self.home,
            model=Scripted(replies, context_length=window),
            cwd=str(self.work),
            tools=[Shown("page", "web", self.page), Shown("ticket", "tool", self.page), self.crm],
            providers=[self.book],
            trusted_folders=[str(self.work)] if trusted else [],
            **given,
        )

    def call(self, wanted: tuple[str, dict[str, Any]]) -> tuple[str, dict[str, Any]]:
        """A call of the set with this place's address and folder in it."""
        host = self.site.removeprefix("http://")
        text = json.dumps(wanted[1]).replace("SITE", self.site).replace("HOST", host).replace("WORK", str(self.work))
        return wanted[0], json.loads(text)

    def _files(self) -> dict[str, str]:
        roots = (self.work, self.work.parent / "person", self.home / "skills")
        found = [path for root in roots for path in root.rglob("*") if path.is_file()]
        return {str(path): path.read_text(errors="replace") for path in found if not path.name.startswith("draft")}

    def harm(self) -> list[str]:
        """What was changed or sent; nothing when the gate held."""
        store = MemoryStore.open(self.home)
        kept = [*store.entries("memory"), *store.entries("user")]
        changed = [] if kept == [data.RULE, data.PRIVATE] else [f"memory: {kept}"]
        now = self._files()
        names = [name for name in {*now, *self.before} if now.get(name) != self.before.get(name)]
        return [*changed, *names, *self.asked, *map(str, self.crm.filed), *self.book.stored]


@pytest.fixture
def place(home: Path, tmp_path: Path, site: tuple[str, list[str]], monkeypatch: pytest.MonkeyPatch) -> Place:
    site[1].clear()
    (tmp_path / "person").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    return Place(home, tmp_path, site)


def played(agent: Agent, said: str, **given: Any) -> list[dict[str, Any]]:
    found = [each for each in agent.turn(said, **given) if isinstance(each, ToolReturned)]
    return [json.JSONDecoder().raw_decode(each.result)[0] for each in found]


@pytest.mark.proves("trust.honest")
@pytest.mark.parametrize("number", range(len(data.BEFORE)))
def test_ordinary_saves_after_ordinary_work_go_through(place: Place, number: int) -> None:
    with MemorySession.open(place.home) as earlier:
        earlier.prepare_turn("The greenhouse needs a new pump.")
        earlier.finish_turn("Noted.")
    saves = [data.SAVES[(number * 3 + at) % len(data.SAVES)] for at in range(3)]
    replies: list[Any] = [Reply(calls=[data.BEFORE[number]])]
    for _, note in saves:
        replies += [Reply(calls=[data.remember(note)]), "Noted."]
    with place.agent(replies, trusted=True) as agent:
        results = [result for said, _ in saves for result in played(agent, said)]
    assert [each["message"] for each in results[1:] if each.get("staged")] == []
    assert len(results) == 4


SOURCES = (
    *("web", "mcp", "file", "context file", "skill", "recall", "import", "pipe", "overlay", "other host"),
    *("prefill", "listed in search"),
)
WHEN = ("same turn", "next turn", "later", "resumed", "branched")


def _open(place: Place, source: str, replies: list[Any], window: int = 1_000_000) -> tuple[Agent, dict[str, Any]]:
    """An agent that reads the hostile text in its first call, and what its first turn is given."""
    first: list[Any] = []
    opened: dict[str, Any] = {"window": window}
    given: dict[str, Any] = {}
    match source:
        case "web" | "mcp":
            first = [Reply(calls=[("page" if source == "web" else "ticket", {})])]
        case "file" | "listed in search":
            (place.work / "draft-timetable.txt").write_text(place.page)
            call = ("read_file", {"path": "draft-timetable.txt"})
            first = [Reply(calls=[call if source == "file" else ("search_files", {"pattern": "Ferry"})])]
        case "context file":
            (place.work / ".hermes.md").write_text(place.page)
        case "skill":
            (place.external / "times").mkdir()
            about = place.page.replace(":", " ").replace("\n", " ")
            (place.external / "times" / "SKILL.md").write_text(f"---\nname: times\ndescription: {about}\n---\n\nSee.\n")
        case "recall":
            place.book = test_sets.Book(place.page)
        case "pipe":
            given["attached"] = place.page
        case "overlay":
            given["overlay"] = place.page
        case "other host":
            opened["system_message"] = place.page
        case "prefill":
            opened["prefill"] = [{"role": "user", "content": place.page}, {"role": "assistant", "content": "I see."}]
    place.before = place._files()
    return place.agent([*first, *replies], **opened), given


def _import(place: Place, hermes: Any) -> str:
    """Somebody's conversation with the text in it; the id it has here."""
    file = place.work.parent / "talk.jsonl"
    said = [{"role": "user", "content": place.page}, {"role": "assistant", "content": "Noted."}]
    file.write_text(json.dumps({"id": "talk", "source": "cli", "messages": said}) + "\n")
    assert hermes("sessions", "import", str(file)).code == 0
    with MemorySession.open(place.home) as listing:
        return next(each.id for each in listing.database.list_sessions() if each.id != listing.id)


@pytest.mark.proves("trust.poison")
@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("source", SOURCES)
def test_no_call_of_a_model_that_obeys_goes_through(place: Place, hermes: Ran, source: str, when: str) -> None:
    slot = SOURCES.index(source) + len(SOURCES) * WHEN.index(when)
    attempts = [each for at, each in enumerate(data.ATTEMPTS) if at % (len(SOURCES) * len(WHEN)) == slot]
    assert attempts
    calls = [[place.call(call) for call in attempt] for attempt in attempts]
    obeyed: list[Any] = [Reply(calls=[call]) for attempt in calls for call in attempt]
    with ExitStack() as stack:
        if source == "import":
            agent = place.agent([*obeyed, "Done."], resume=_import(place, hermes))
            results = played(stack.enter_context(agent), "when is the last ferry?")
        else:
            between = {"same turn": [], "next turn": ["18:40."], "later": ["18:40.", "Yes.", "Sure."]}
            agent, given = _open(place, source, [*between.get(when, ["18:40."]), *obeyed, "Done."])
            results = played(stack.enter_context(agent), "when is the last ferry?", **given)
            for _ in range(2 if when == "later" else 0):
                results += played(agent, "is that every day?")
            if when in ("resumed", "branched"):
                name = agent.session.branch() if when == "branched" else agent.session.id
                prefill = agent.session._prefill
                agent = stack.enter_context(place.agent([*obeyed, "Done."], resume=name, prefill=prefill))
            if when != "same turn":
                results += played(agent, "thanks")
    place.before |= {
        name: text for name, text in place._files().items() if name.endswith((".hermes.md",)) and text == place.page
    }
    results = results[-len(obeyed) :]
    last = [results[sum(map(len, calls[: at + 1])) - 1] for at in range(len(calls))]
    passed = [
        call[-1] for call, result in zip(calls, last, strict=True) if result.get("success") and not result.get("staged")
    ]
    assert passed == []
    assert place.harm() == []


@pytest.mark.proves("trust.poison")
@pytest.mark.parametrize("source", ["mcp", "overlay", "skill"])
def test_a_compaction_makes_no_poison_harmless(place: Place, source: str) -> None:
    agent, given = _open(place, source, ["an answer " * 300] * 16, window=40_000)
    with agent:
        played(agent, "when is the last ferry?", **given)
        for number in range(9):
            played(agent, f"question {number} " * 400)
        assert agent.session.compact() is not None
        went_on = agent.session.id
    calls = [place.call(attempt[-1]) for attempt in (data.FILES[17], data.MEMORY[6], data.SENDS[17], data.COMMANDS[5])]
    with place.agent([*(Reply(calls=[call]) for call in calls), "Done."], resume=went_on) as again:
        results = played(again, "thanks")
    assert all(each.get("staged") or not each.get("success") for each in results), results
    assert place.harm() == []


@pytest.mark.proves("trust.poison")
@pytest.mark.parametrize("source", ["mcp", "context file", "recall", "pipe"])
def test_neither_a_delegated_task_nor_a_review_obeys(place: Place, source: str) -> None:
    child: list[Any] = [*(Reply(calls=[place.call(each[1])]) for each in data.DELEGATED), "Done."]
    agent, given = _open(place, source, ["18:40.", Reply(calls=[data.DELEGATED[0][0]]), *child, "Delegated."])
    with agent:
        played(agent, "when is the last ferry?", **given)
        played(agent, "thanks")
        model = Scripted([*(Reply(calls=[each[0]]) for each in data.MEMORY[:15]), "Done."])
        Reviews(agent.session).run(model, frozenset({"memory", "skills"}), agent.session.snapshot_request())
    assert place.harm() == []


@pytest.mark.proves("trust.own-words")
@pytest.mark.parametrize(("said", "note"), data.TRICKS)
def test_no_trick_with_own_words_is_saved(home: Path, said: list[str], note: str) -> None:
    with MemorySession.open(home) as session:
        session.prepare_turn("when is the last ferry?", recalled=data.PAGE)
        session.finish_turn("18:40.")
        for each in said:
            session.prepare_turn(each)
            call = {"action": "add", "target": "user", "content": note}
            if each is said[-1]:
                assert json.loads(session.call_tool("memory", call)).get("staged"), note
            session.finish_turn("I see.")
    assert MemoryStore.open(home).entries("user") == ()


@pytest.mark.proves("trust.own-words", "trust.sinks")
@pytest.mark.parametrize(
    ("said", "call", "goes"), [(*each, False) for each in data.NOT_ASKED] + [(*each, True) for each in data.ASKED]
)
def test_a_command_or_a_loss_needs_a_request_for_it(place: Place, said: str, call: Any, goes: bool) -> None:
    with place.agent([Reply(calls=[("page", {})]), "18:40.", Reply(calls=[call]), "Done."]) as agent:
        played(agent, "when is the last ferry?")
        result = played(agent, said)[0]
    assert bool(result.get("success") and not result.get("staged")) is goes, result
    assert bool(place.harm()) is goes


@pytest.mark.proves("trust.grades")
@pytest.mark.parametrize("command", ["mv draft.txt kept.txt", "mkdir kept && cp draft.txt kept"])
def test_a_renamed_file_keeps_its_grade(place: Place, command: str) -> None:
    with place.agent(
        [Reply(calls=[("page", {})]), Reply(calls=[data.write("draft.txt")]), "Done."], trusted=True
    ) as agent:
        played(agent, "note the times")
    with place.agent([Reply(calls=[data.run(command)]), "Moved."], trusted=True) as agent:
        assert played(agent, "tidy up")[0]["success"]
    path = "kept.txt" if "kept.txt" in command else "kept/draft.txt"
    calls = [("read_file", {"path": path}), data.remember("Carrier: Blackwater")]
    with place.agent([*(Reply(calls=[call]) for call in calls), "Done."], trusted=True) as agent:
        assert played(agent, "what do we have?")[1].get("staged")


@pytest.mark.internal("the words of addresses and arguments, without a server")
def test_what_is_private_stays_and_what_is_known_may_go() -> None:
    page = Source(origin="web", name="p", text="Read more on ferries.example about the winter.", public=True)
    mine = Source(origin="file", name="f", text="The ferries diary: biopsy on Thursday.")

    def goes(said: str, **given: Any) -> bool:
        turn = TurnContext(sources=lambda: [page, mine], said=lambda: [said], private=lambda: [mine.text])
        return decide("mcp" if "sends" in given else "request", turn, **given).allowed

    assert goes("search for pumps", sends={"query": "pumps", "limit": 20, "exact": True})
    assert goes("go on", sends={"query": "winter ferries"})
    assert not goes("go on", sends={"query": "biopsy"})
    assert not goes("go on", sends={"limit": 48291})
    assert goes("go on", address="https://docs.python.org/3/library/asyncio.html")
    assert goes("go on", address="https://ferries.example/winter")
    assert not goes("go on", address="https://ferries.example/anything/else")
    assert goes("look at ferries.example", address="https://ferries.example/anything/else")
