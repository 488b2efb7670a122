"""Projects: notes that matter in one repository, above the personal layer; search that prefers it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from hermes.base.errors import NotFound, SettingsError
from hermes.memory.store import MemoryStore
from hermes.session.session import MemorySession
from hermes.settings.home import named_project, project_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran

    Command = Callable[..., Ran]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "Web Shop"
    (folder / ".git").mkdir(parents=True)
    (folder / "src" / "deep").mkdir(parents=True)
    return folder


@pytest.mark.proves("people.projects")
def test_a_repository_is_one_project_from_wherever_inside_it_one_asks(repository: Path, tmp_path: Path) -> None:
    project = project_of(str(repository / "src" / "deep"))
    assert project == project_of(str(repository))
    assert project.startswith("web-shop-")
    other = tmp_path / "elsewhere" / "Web Shop"
    (other / ".git").mkdir(parents=True)
    assert project_of(str(other)) != project
    assert project_of(str(tmp_path)) == ""
    assert named_project("src", str(repository)) == "src"
    assert named_project("./src", str(repository)) == project
    with pytest.raises(NotFound, match="not in a repository"):
        named_project(".", str(tmp_path))
    with pytest.raises(SettingsError):
        named_project("Not a name")


@pytest.mark.proves("people.projects")
def test_notes_of_a_project_are_shown_in_it_after_the_personal_ones_and_nowhere_else(
    hermes: Command, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    hermes("memory", "add", "Prefers pytest.")
    hermes("memory", "add", "Deploys on Fridays.", "--project", str(repository))
    hermes("memory", "add", "Speaks Danish.", "--target", "user", "--project", str(repository))
    inside = hermes("prompt", "--cwd", str(repository / "src")).out
    assert inside.index("Prefers pytest.") < inside.index("PROJECT (notes") < inside.index("Deploys on Fridays.")
    outside = hermes("prompt", "--cwd", str(tmp_path)).out
    assert "Prefers pytest." in outside
    assert "Speaks Danish." in outside
    assert "Deploys" not in outside
    listed = hermes("memory", "list", "--project", str(repository), "--json").json
    assert listed["project"]["entries"] == ["Deploys on Fridays."]
    assert "project" not in hermes("memory", "list", "--json").json
    assert hermes("memory", "add", "x", "--target", "project").code == 1


@pytest.mark.proves("people.projects")
def test_inside_a_repository_the_target_alone_means_its_notes_as_in_a_chat_there(
    hermes: Command, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository / "src")
    assert hermes("memory", "add", "--target", "project", "Deploys", "on", "Fridays.").code == 0
    listed = hermes("memory", "list", "--target", "project", "--json").json
    assert listed["project"]["entries"] == ["Deploys on Fridays."]
    with MemorySession.open(cwd=str(repository)) as session:
        assert "Deploys on Fridays." in session.system_prompt

    hermes("config", "set", "memory.projects", "named")
    refused = hermes("memory", "add", "--target", "project", "Deploys on Mondays.")
    assert (refused.code, "name one (--project)" in refused.err) == (1, True)


@pytest.mark.proves("people.projects")
def test_the_model_writes_notes_for_the_project_of_its_session(home: Path, repository: Path) -> None:
    with MemorySession.open(home, cwd=str(repository)) as session:
        session.prepare_turn("we deploy on Fridays")
        memory = next(tool["function"] for tool in session.request().tools if tool["function"]["name"] == "memory")
        assert memory["parameters"]["properties"]["target"]["enum"] == ["memory", "user", "project"]
        add = {"action": "add", "target": "project", "content": "Deploys on Fridays."}
        assert json.loads(session.call_tool("memory", add))["success"] is True
        session.finish_turn("noted")
        name = session.id
    project = project_of(str(repository))
    assert MemoryStore.open(home, project=project).entries("project") == ("Deploys on Fridays.",)
    with MemorySession.open(home, resume=name) as again:
        add = {"action": "add", "target": "project", "content": "Uses tabs."}
        assert json.loads(again.call_tool("memory", add))["entry_count"] == 2
    with MemorySession.open(home) as elsewhere:
        refused = json.loads(elsewhere.call_tool("memory", {**add, "content": "Uses spaces."}))
        assert refused["success"] is False


@pytest.mark.proves("people.projects")
def test_changes_of_a_project_can_be_looked_at_undone_and_approved(
    home: Path, hermes: Command, repository: Path
) -> None:
    hermes("memory", "add", "Deploys on Fridays.", "--project", "shop")
    change = hermes("memory", "log", "--project", "shop", "--json").json[0]
    assert change["target"] == "project"
    assert hermes("memory", "undo", change["id"], "--project", "shop").code == 0
    hermes("config", "set", "memory.write_approval", "true")
    add = json.dumps({"action": "add", "target": "project", "content": "Uses tabs."})
    staged = hermes("tool", "memory", add, "--project", "shop").json["pending_id"]
    assert hermes("memory", "approve", staged).code == 0, "it goes to the project it was meant for"
    assert "Uses tabs." in hermes("memory", "list", "--project", "shop").out
    assert hermes("memory", "status", "--project", "shop", "--json").code == 0
    assert hermes("memory", "reset", "--yes", "--project", "shop", "--json").json[0]["target"] == "project"
    hermes("memory", "add", "Stays.")
    hermes("memory", "reset", "--yes", "--project", "shop")
    assert hermes("memory", "list", "--json").json["memory"]["entries"] == ["Stays."]


@pytest.mark.proves("people.projects")
def test_search_can_stay_in_a_project_and_prefers_it_inside_a_session(
    home: Path, hermes: Command, repository: Path
) -> None:
    for cwd in (None, str(repository), None):
        with MemorySession.open(home, cwd=cwd) as session:
            session.prepare_turn("how do we rotate the signing keys?")
            session.finish_turn("with the rotate script")
    found = hermes("sessions", "search", "rotate signing keys", "--project", str(repository), "--json").json
    assert [each["project"] for each in found["results"]] == [project_of(str(repository))]
    assert len(hermes("sessions", "list", "--project", str(repository), "--json").json) == 1
    with MemorySession.open(home, cwd=str(repository)) as session:
        session.prepare_turn("search for it")
        answer = json.loads(session.call_tool("session_search", {"query": "rotate signing keys"}))
    projects = [each["project"] for each in answer["results"]]
    assert projects[0] == project_of(str(repository))
    assert len(projects) == 3


@pytest.mark.proves("people.projects")
def test_projects_can_be_switched_off_or_left_to_names(home: Path, hermes: Command, repository: Path) -> None:
    hermes("memory", "add", "Deploys on Fridays.", "--project", str(repository))
    hermes("config", "set", "memory.projects", "named")
    assert "Deploys" not in hermes("prompt", "--cwd", str(repository)).out
    assert "Deploys" in hermes("prompt", "--cwd", str(repository), "--project", str(repository)).out
    hermes("config", "set", "memory.projects", "off")
    assert "Deploys" not in hermes("prompt", "--cwd", str(repository), "--project", str(repository)).out


@pytest.mark.proves("people.projects")
def test_a_folder_outside_of_any_repository_is_refused_before_anything_is_written(
    home: Path, hermes: Command, tmp_path: Path
) -> None:
    note = json.dumps({"action": "add", "target": "memory", "content": "Deploys on Fridays."})
    refused = hermes("tool", "memory", note, "--project", f"{tmp_path}/nowhere")
    assert (refused.code, "is not in a repository; name the project instead" in refused.err) == (1, True)
    assert not (home / "memories").exists()


@pytest.mark.proves("people.projects")
def test_a_repository_that_was_moved_is_told_where_its_notes_are(
    hermes: Command, home: Path, repository: Path, tmp_path: Path
) -> None:
    hermes("memory", "add", "Deploys on Fridays.", "--project", str(repository))
    before, moved = project_of(str(repository)), tmp_path / "elsewhere" / "Web Shop"
    moved.parent.mkdir()
    repository.rename(moved)
    told = hermes("memory", "list", "--project", str(moved)).out
    assert f"there are notes of {before}, which was elsewhere" in told
    (home / "projects" / before).rename(home / "projects" / project_of(str(moved)))
    now = hermes("memory", "list", "--project", str(moved)).out
    assert "Deploys on Fridays." in now
    assert "which was elsewhere" not in now
    assert "which was elsewhere" not in hermes("memory", "list", "--project", "shop").out
