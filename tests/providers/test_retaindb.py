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
def test_the_local_edition_needs_no_key_and_an_outage_is_said_to_be_one(home: Path) -> None:
    home.mkdir()
    provider = load_provider("retaindb", str(home))
    assert not provider.is_available()  # the cloud needs one
    provider.save_config({"base_url": "http://127.0.0.1:1"}, str(home))
    assert provider.is_available()
    provider.initialize("s1", hermes_home=str(home))
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
