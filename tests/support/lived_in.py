"""A home that the product itself has lived in: whatever any part of it keeps there, written by that part."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from compacted import configure, talk
from curation_home import curator
from openclaw_home import skill

from hermes.conversations.context import SummaryGraph
from hermes.gateway.ledger import Chat, Ledger
from hermes.gateway.platforms.base import Incoming
from hermes.memory.approval import Approvals
from hermes.memory.entries import PIN, Cause
from hermes.memory.store import MemoryStore
from hermes.providers.config import save_config
from hermes.providers.delivery import Outbox
from hermes.session.session import MemorySession
from hermes.settings.config import documents_of
from hermes.settings.home import SHARED, find_home
from hermes.settings.people import People
from hermes.skills import files

if TYPE_CHECKING:
    from pathlib import Path

_USER, _WEB = Cause(origin="user"), Cause(origin="web", session="s1")
_SETTINGS = "context:\n  engine: lcm\nmemory:\n  memory_char_limit: 220\n"


def live_in(home: Path) -> None:
    configure(home, _SETTINGS)
    _memory(home)
    _conversations(home)
    _waiting(home)
    _skills(home)
    _people_and_gateway(home)
    _files(home)


def _memory(home: Path) -> None:
    """Entries that left for the archive, marks, an undone change, contradictions, and what the curator did."""
    store = MemoryStore.open(home)
    for number in range(8):
        store.add("memory", f"The host number {number} runs Debian {number} in the cellar.", cause=_USER)
    store.add("memory", "Kept for good.", cause=_USER)
    store.marks_file("memory").add(PIN, ["Kept for good."])
    slip = store.add("user", "A slip of the pen.", cause=_USER).change
    assert slip is not None
    store.undo(slip.id, cause=_USER)
    store.add("user", "Works on the release until today.", cause=_USER)
    curator(home, hours=200).run()


def _conversations(home: Path) -> None:
    """Compacted ones with a graph of summaries, the record of what was injected, a branch and what was taken back."""
    with MemorySession.open(home, title="Long") as session:
        talk(session, 12, words=40)
        session.compact()
        talk(session, 12, start=12, words=40)
        session.compact()
        graph = SummaryGraph(session.database, session.id)
        leaves = [graph.add(depth=0, ids=f"{n}", messages=1, text="a leaf", made_by="extract") for n in (1, 2)]
        graph.add(depth=1, ids="1-2", messages=2, text="both", made_by="extract", children=leaves)
        session.branch("Another way")
        session.undo()
        session.database.set_meta("note:of:a:part", "kept")


def _waiting(home: Path) -> None:
    """Writes and changes of skills that wait for a person, and calls that wait for a provider."""
    place = find_home(home)
    added = {"action": "add", "content": "From the web."}
    Approvals(place).stage("memory", [added], _WEB, "it came from outside")
    create = {"tool": "skill_manage", "arguments": {"action": "create", "name": "new"}, "cwd": ""}
    Approvals(place, "skills").stage("skills", (), Cause(origin="agent", session="s1"), "approval", call=create)
    outbox = Outbox(documents_of(place), "honcho")
    outbox.put("sync_turn", {"user": "asked", "assistant": "answered"})
    outbox.remember_state("2 calls failed")
    save_config("honcho", place.path, {"base_url": "http://127.0.0.1:1"})


def _skills(home: Path) -> None:
    root = home / "skills"
    for name in ("weather", "retired"):
        skill(root / "ops" / name, f"{name} it is")
    files.count(str(root), "ops/weather", "use", time.time())
    files.pin(str(root), "weather", pinned=True)
    files.archive(str(root), "retired", time.time())


def _people_and_gateway(home: Path) -> None:
    place = find_home(home)
    people = People(place)
    people.add("eve", note="from the office")
    people.make_key("eve", "phone")
    MemoryStore.open(people.home_of("eve")).add("user", "Is called Eve.", cause=_USER)
    ledger = Ledger.open(place)
    said = Incoming(platform="telegram", update="7", chat="1", user="11", text="are you there? 桂林")
    (entry,) = ledger.store([("telegram:1", "eve", said)], time.time(), platform="telegram", cursor="8")
    ledger.answered(entry.id, ["yes", "I am"], "answered", session="s1")
    ledger.move("", Chat(key="telegram:1", person="eve", session="s1", active=1.5))
    ledger.close()


def _files(home: Path) -> None:
    plugin = home / "plugins" / "memory" / "mine"
    for path, text in (
        (home / SHARED, "All of us know this.\n"),
        (home / "active_profile", "default\n"),
        (plugin / "plugin.yaml", "name: mine\n"),
        (plugin / "__init__.py", "def register(context):\n    pass\n"),
        (home / "migration" / "openclaw" / "20260101T000000" / "archive" / "IDENTITY.md", "Name: Molty\n"),
        (home / "restored" / "providers" / "0" / "x.json", "{}"),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
