"""retaindb against its recorded wire."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from contract_scenarios import ServiceContract
from retaindb_service import RetainDBService
from service_scenarios import FACT, ServiceScenarios
from wire_server import KEY

from hermes.providers.discovery import load_provider

if TYPE_CHECKING:
    from pathlib import Path

    from wire_server import WireService

    from hermes.providers.manager import MemoryManager


class TestRetainDB(ServiceScenarios):
    name = "retaindb"
    answers_anything = True
    forgets = "deleted 2 memories of ada in the project hermes-home; its files belong to the project and stay"

    def make(self) -> WireService:
        return RetainDBService()

    def configuration(self, service: WireService) -> tuple[dict[str, Any], dict[str, str]]:
        return {"base_url": service.url}, {"RETAINDB_API_KEY": KEY}

    def held(self, service: Any) -> list[str]:
        return [each["content"] for each in service.memories.values()]

    def profile_call(self) -> tuple[str, dict[str, Any]]:
        return "retaindb_profile", {}

    def forget_call(self, service: Any, text: str) -> tuple[str, dict[str, Any]]:
        [memory_id] = [key for key, each in service.memories.items() if text in each["content"]]
        return "retaindb_forget", {"memory_id": memory_id}

    @pytest.mark.proves("retaindb.tools", "retaindb.vectors")
    def test_the_tools_remember_find_and_forget_without_embeddings(self, manager: MemoryManager) -> None:
        stored = call(manager, "retaindb_remember", content=FACT, memory_type="preference", importance=0.9)
        assert stored["memory"]["id"] == "r1"
        found = call(manager, "retaindb_search", query="green parrots", top_k=3)
        assert found == {"results": [{"id": "r1", "content": FACT, "score": 0.8}], "count": 1}
        context = call(manager, "retaindb_context", query="green parrots")
        assert context["context"] == f"## RetainDB Memory\n- {FACT}"
        assert call(manager, "retaindb_profile")["count"] == 1
        assert "0.25" not in json.dumps([stored, found, context, call(manager, "retaindb_profile")])
        assert "one of factual" in call(manager, "retaindb_remember", content="x", memory_type="mood")["error"]
        assert call(manager, "retaindb_forget", memory_id="r1")["result"] == "forgotten"
        assert "404" in call(manager, "retaindb_forget", memory_id="r1")["error"]

    @pytest.mark.proves("retaindb.files")
    def test_files_are_uploaded_read_and_deleted(
        self, manager: MemoryManager, service: Any, tmp_path: Path, home: Path
    ) -> None:
        notes = tmp_path / "notes.txt"
        notes.write_text("about parrots", encoding="utf-8")
        done = call(manager, "retaindb_upload_file", local_path=str(notes), ingest=True)
        assert done == {"file": {"id": "f1", "path": "/notes.txt"}, "ingested": True}
        assert b"about parrots" in service.files["f1"]["content"]
        assert call(manager, "retaindb_list_files")["count"] == 1
        assert call(manager, "retaindb_read_file", file_id="f1")["content"] == "plain text of the file"
        assert call(manager, "retaindb_ingest_file", file_id="f1")["result"] == "ingested"
        assert call(manager, "retaindb_delete_file", file_id="f1")["result"] == "deleted"
        secret = tmp_path / "token.txt"
        secret.write_text("ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2, encoding="utf-8")
        for path, said in ((home / ".env", "private"), (secret, "secret"), (tmp_path / "none", "there is no file")):
            assert said in call(manager, "retaindb_upload_file", local_path=str(path))["error"]
        assert service.files == {}


class TestContract(ServiceContract):
    scenarios = TestRetainDB


@pytest.mark.proves("retaindb.paths")
def test_the_older_paths_are_used_where_the_newer_are_missing(home: Path) -> None:
    home.mkdir()
    with RetainDBService(older=True) as service:
        provider = load_provider("retaindb", str(home))
        provider.save_config({"base_url": service.url}, str(home))
        (home / ".env").write_text(f"RETAINDB_API_KEY={KEY}\n", encoding="utf-8")
        provider.initialize("s1", hermes_home=str(home))
        provider.on_memory_write("add", "user", FACT)
        assert provider.check_connection().startswith("RetainDB answers, 1 memories")
        provider.on_memory_write("remove", "user", "", {"old_text": FACT})
        assert service.memories == {}


@pytest.mark.proves("retaindb.setup")
def test_the_local_edition_needs_no_key_and_bad_arguments_are_said_to_be(home: Path, tmp_path: Path) -> None:
    home.mkdir()
    provider = load_provider("retaindb", str(home))
    assert not provider.is_available()  # the cloud needs one
    provider.save_config({"base_url": "http://127.0.0.1:1"}, str(home))
    assert provider.is_available()
    provider.initialize("s1", hermes_home=str(home))
    plain = tmp_path / "notes.txt"
    plain.write_text("about parrots", encoding="utf-8")
    upload = {"local_path": str(plain), "scope": "WORLD"}
    assert "scope must be one of" in provider.handle_tool_call("retaindb_upload_file", upload)
    nowhere = {"local_path": str(tmp_path / "none" / "notes.txt")}
    assert "there is no file" in provider.handle_tool_call("retaindb_upload_file", nowhere)
    assert "cannot be reached" in provider.handle_tool_call("retaindb_forget", {"memory_id": "r1"})
    assert provider.prefetch("  ") == ""


@pytest.mark.proves("retaindb.setup")
def test_address_and_project_are_kept_and_each_home_has_its_own_project(home: Path, tmp_path: Path) -> None:
    with RetainDBService() as service:
        projects = []
        for place, values in ((home, {"project": "birds"}), (home, {"project": ""}), (tmp_path / ".other", {})):
            place.mkdir(exist_ok=True)
            provider = load_provider("retaindb", str(place))
            provider.save_config({"base_url": service.url, **values}, str(place))
            (place / ".env").write_text(f"RETAINDB_API_KEY={KEY}\n", encoding="utf-8")
            provider.initialize("s1", hermes_home=str(place))
            provider.check_connection()
            projects.append(service.asked[-1].query["project"])
        assert projects == ["birds", "hermes-home", "hermes-other"]


def call(manager: MemoryManager, name: str, **arguments: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(manager.handle_tool_call(name, arguments))
    return found
