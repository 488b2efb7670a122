"""Changes of curated memory reach a provider whoever makes them: the model, a person at the command line, a server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from provider_plugins import Notebook, use

from hermes.memory.entries import Cause
from hermes.server.workspace import Workspace
from hermes.session.session import MemorySession
from hermes.settings.home import find_home
from hermes.settings.trust import SAID, HostReports

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def notebook(home: Path) -> Notebook:
    book = Notebook()
    use(home, book)
    return book


def delivered(home: Path, notebook: Notebook) -> list[tuple[str, str, str]]:
    """What the provider has heard once a session has run."""
    with MemorySession.open(home):
        pass
    return [write[:3] for write in notebook.writes]


@pytest.mark.proves("providers.mirror")
def test_a_write_of_the_model_says_where_it_comes_from(home: Path, notebook: Notebook) -> None:
    with MemorySession.open(home, cwd=str(home)) as parent:
        assert notebook.started[0][1]["agent_workspace"] == "hermes"
        assert notebook.started[0][1]["cwd"] == str(home)
        with MemorySession.open(home, source="delegate", parent=parent.id, toolsets=["memory"]) as session:
            session.prepare_turn("remember")
            added = session.call_tool(
                "memory", {"action": "add", "target": "user", "content": "Tea."}, call_id="call_17"
            )
            assert json.loads(added)["success"]
            assert session.store is not None
            session.store.add("user", "Kept by a review.", cause=Cause(origin="background_review", session=session.id))
            session.store.add("user", "Cake.", cause=Cause(origin="curator"))
    first, second = (write[3] for write in notebook.writes)
    assert first.pop("idempotency_key")
    assert first == {
        "write_origin": "agent",
        "execution_context": "foreground",
        "session_id": session.id,
        "parent_session_id": parent.id,
        "task_id": session.id,
        "platform": "delegate",
        "tool_name": "memory",
        "tool_call_id": "call_17",
    }
    assert second["execution_context"] == "background"
    assert "tool_call_id" not in second


@pytest.mark.proves("providers.mirror.elsewhere")
def test_what_a_person_changes_at_the_command_line_is_handed_over_by_the_next_session(
    home: Path, notebook: Notebook, hermes: Callable[..., Any]
) -> None:
    hermes("memory", "add", "--target", "user", "Drinks tea.")
    hermes("memory", "replace", "--target", "user", "tea", "Drinks green tea.")
    hermes("memory", "add", "Lives in Bonn.")
    hermes("memory", "remove", "Bonn")
    change = hermes("memory", "add", "A mistake.", "--json").json["change"]
    hermes("memory", "undo", change)
    assert notebook.writes == []
    assert "waiting" in hermes("memory", "status").out
    assert delivered(home, notebook) == [
        ("add", "user", "Drinks tea."),
        ("replace", "user", "Drinks green tea."),
        ("add", "memory", "Lives in Bonn."),
        ("remove", "memory", ""),
        ("add", "memory", "A mistake."),
        ("remove", "memory", ""),
    ]
    assert [write[3].get("old_text") for write in notebook.writes] == [
        *(None, "Drinks tea.", None, "Lives in Bonn.", None, "A mistake.")
    ]
    assert {(write[3]["write_origin"], write[3]["platform"]) for write in notebook.writes} == {("user", "cli")}
    assert len(delivered(home, notebook)) == 6


@pytest.mark.proves("providers.mirror.elsewhere")
def test_an_approved_write_is_mirrored_and_a_rejected_one_is_not(
    home: Path, notebook: Notebook, hermes: Callable[..., Any]
) -> None:
    use(home, notebook, write_approval=True)
    with MemorySession.open(home) as session:
        session.prepare_turn("remember")
        for text in ("Drinks tea.", "Eats cake."):
            session.call_tool("memory", {"action": "add", "target": "user", "content": text})
    tea, cake = (each["id"] for each in hermes("memory", "pending", "--json").json)
    hermes("memory", "approve", tea)
    hermes("memory", "reject", cake)
    assert delivered(home, notebook) == [("add", "user", "Drinks tea.")]
    assert notebook.writes[0][3]["session_id"] == session.id


@pytest.mark.proves("providers.mirror.elsewhere")
def test_what_moves_to_the_archive_and_back_is_neither_forgotten_nor_new(
    home: Path, notebook: Notebook, hermes: Callable[..., Any]
) -> None:
    use(home, notebook, user_char_limit=100)
    hermes("memory", "add", "--target", "user", "Likes walks in the rain, " + "and again " * 4)
    hermes("memory", "add", "--target", "user", "Likes walks in the sun, " + "and again " * 4)
    assert "rain" in hermes("memory", "list", "--archived", "--target", "user").out
    assert hermes("memory", "restore", "rain").code == 0
    assert [action for action, _, _ in delivered(home, notebook)] == ["add", "add"]


@pytest.mark.proves("providers.mirror.elsewhere")
def test_what_a_server_changes_is_mirrored(home: Path, notebook: Notebook) -> None:
    workspace = Workspace(find_home(home))
    HostReports(find_home(home)).add("api", "c1", SAID, "", "tidy up")
    workspace.write("user", [{"action": "add", "content": "Drinks tea."}], "over HTTP")
    workspace.call_tool("memory", {"action": "remove", "target": "user", "old_text": "tea"})
    workspace.close()
    assert delivered(home, notebook) == [("add", "user", "Drinks tea."), ("remove", "user", "")]


@pytest.mark.proves("providers.none")
def test_without_a_provider_nothing_is_kept_for_one(home: Path, hermes: Callable[..., Any]) -> None:
    hermes("memory", "add", "Lives in Bonn.")
    assert not (home / "outbox").exists()
