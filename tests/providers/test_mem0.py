"""mem0 against its recorded wire: the platform and a server of one's own."""

from __future__ import annotations

import json
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from contract_scenarios import ServiceContract
from mem0_service import Mem0Service
from service_scenarios import FACT, ServiceScenarios
from wire_server import KEY, shared_words

from hermes.providers.config import save_config
from hermes.providers.discovery import load_provider
from hermes.providers.services.mem0 import InProcess, Platform

if TYPE_CHECKING:
    from pathlib import Path

    from wire_server import WireService


class Mem0Scenarios(ServiceScenarios):
    name = "mem0"

    def held(self, service: Any) -> list[str]:
        return [each["memory"] for each in service.memories.values()]

    def profile_call(self) -> tuple[str, dict[str, Any]]:
        return "mem0_profile", {}

    def forget_call(self, service: Any, text: str) -> tuple[str, dict[str, Any]]:
        [memory_id] = [key for key, each in service.memories.items() if text in each["memory"]]
        return "mem0_delete", {"memory_id": memory_id}


class TestPlatform(Mem0Scenarios):
    forgets = "deleted 2 memories of ada"

    def make(self) -> WireService:
        return Mem0Service(hosted=False)

    def configuration(self, service: WireService) -> tuple[dict[str, Any], dict[str, str]]:
        return {"base_url": service.url, "rerank": "false"}, {"MEM0_API_KEY": KEY}

    @pytest.mark.proves("mem0.tools")
    def test_the_tools_search_store_change_and_delete(self, manager: Any, service: Any) -> None:
        def call(name: str, **arguments: Any) -> dict[str, Any]:
            found: dict[str, Any] = json.loads(manager.handle_tool_call(name, arguments))
            return found

        assert call("mem0_search", query="parrots")["count"] == 0
        assert call("mem0_conclude", conclusion=FACT) == {"result": "stored", "event_id": "e1"}
        assert call("mem0_add", content="Bob sails boats.")["result"] == "stored"
        assert all(each.body["infer"] is False for each in service.asked if "infer" in (each.body or {}))
        [found] = call("mem0_search", query="green parrots", top_k=3)["results"]
        assert found == {"id": "m1", "memory": FACT, "score": 0.9}
        assert call("mem0_update", memory_id="m1", text="Ada has two parrots.")["memory_id"] == "m1"
        assert [each["memory"] for each in call("mem0_profile")["results"]] == [
            "Ada has two parrots.",
            "Bob sails boats.",
        ]
        assert "not found" in call("mem0_delete", memory_id="m9")["error"]
        assert "needs query" in call("mem0_search")["error"]


class TestSelfHosted(Mem0Scenarios):
    forgets = "deleted 2 memories of ada; the server's history"

    def make(self) -> WireService:
        return Mem0Service(hosted=True)

    def configuration(self, service: WireService) -> tuple[dict[str, Any], dict[str, str]]:
        return {"mode": "selfhosted"}, {"MEM0_API_KEY": KEY, "MEM0_HOST": service.url}


class TestPlatformContract(ServiceContract):
    scenarios = TestPlatform


class TestSelfHostedContract(ServiceContract):
    scenarios = TestSelfHosted


class FakeLibrary:
    """The calls of mem0ai that the in-process mode makes."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.rows: list[dict[str, Any]] = []

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> FakeLibrary:
        return cls(config)

    def add(self, messages: list[dict[str, str]], **given: Any) -> dict[str, Any]:
        row = {"id": f"m{len(self.rows)}", "memory": messages[0]["content"], **given}
        self.rows.append(row)
        return {"results": [row]}

    def search(self, query: str, *, filters: dict[str, str], top_k: int) -> dict[str, Any]:
        found = [
            row for row in self.rows if shared_words(row["memory"], query) and row["user_id"] == filters["user_id"]
        ]
        return {"results": found[:top_k]}

    def get_all(self, *, filters: dict[str, str], top_k: int) -> dict[str, Any]:
        return {"results": [row for row in self.rows if row["user_id"] == filters["user_id"]][:top_k]}

    def update(self, memory_id: str, text: str) -> None:
        next(row for row in self.rows if row["id"] == memory_id)["memory"] = text

    def delete(self, memory_id: str) -> None:
        if memory_id not in [row["id"] for row in self.rows]:
            raise ValueError(f"Memory with id {memory_id} not found")
        self.rows = [row for row in self.rows if row["id"] != memory_id]


@pytest.mark.proves("mem0.modes")
def test_in_process_the_library_is_called_with_files_below_the_home(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = ModuleType("mem0")
    library.Memory = FakeLibrary  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mem0", library)
    home.mkdir()
    save_config("mem0", str(home), {"mode": "oss", "user_id": "ada"})
    provider = load_provider("mem0", str(home))
    provider.initialize("s1", hermes_home=str(home), platform="cli")
    provider.sync_turn(FACT, "ok", session_id="s1", idempotency_key="k1")
    assert provider.prefetch("green parrots?") == f"## Mem0 Memory\n- {FACT}"
    provider.on_memory_write("replace", "user", "Ada has two parrots.", {"old_text": FACT})
    assert provider.check_connection().startswith("Mem0 runs in this process, 1 memories of ada")
    assert "not found" in json.loads(provider.handle_tool_call("mem0_delete", {"memory_id": "m7"}))["error"]
    provider.on_memory_write("remove", "user", "", {"old_text": "Ada has two parrots."})
    assert provider.prefetch("parrots?") == ""
    config = provider._api._memory.config
    assert config["vector_store"]["config"]["path"].startswith(str(home))
    assert config["history_db_path"].startswith(str(home))
    provider.shutdown()


@pytest.mark.proves("mem0.modes")
@pytest.mark.parametrize(
    ("store", "made"),
    [
        ({"provider": "faiss", "config": {}}, {"path": "mem0/faiss", "collection_name": "hermes"}),
        ({"provider": "qdrant", "config": {"host": "q.example"}}, {"host": "q.example"}),
        ({"provider": "pgvector", "config": {"dbname": "d"}}, {"dbname": "d"}),
    ],
)
def test_a_store_of_ones_own_is_left_as_it_is_and_files_are_below_the_home(
    home: Path, monkeypatch: pytest.MonkeyPatch, store: dict[str, Any], made: dict[str, str]
) -> None:
    library = ModuleType("mem0")
    library.Memory = FakeLibrary  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mem0", library)
    backend = InProcess({"vector_store": store}, str(home), "ada", "hermes")
    backend.check()
    given = {
        key: text.removeprefix(f"{home}/") for key, text in backend._memory.config["vector_store"]["config"].items()
    }
    assert given == made
    backend.close()


@pytest.mark.proves("mem0.modes")
def test_the_platform_is_read_page_by_page() -> None:
    with Mem0Service(hosted=False) as service:
        for number in range(250):
            service._store({"user_id": "ada", "messages": [{"role": "user", "content": f"fact {number}"}]})
        backend = Platform(KEY, "ada", "hermes", host=service.url)
        assert [len(backend.all()), len(backend.all(120))] == [250, 120]
        assert [each.query["page"] for each in service.asked] == ["1", "2", "3", "1", "2"]


@pytest.mark.proves("mem0.modes")
def test_without_key_address_or_package_it_is_not_available(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home.mkdir()
    monkeypatch.setitem(sys.modules, "mem0", None)
    for values, available in (
        ({"mode": "platform"}, False),
        ({"mode": "selfhosted"}, False),
        ({"mode": "selfhosted", "host": "http://localhost:1"}, True),
        ({"mode": "platform", "host": "http://localhost:1"}, True),
    ):
        save_config("mem0", str(home), {"host": None, **values})
        assert load_provider("mem0", str(home)).is_available() is available, values
    save_config("mem0", str(home), {"mode": "platform", "host": None})
    with pytest.raises(Exception, match="MEM0_API_KEY"):
        load_provider("mem0", str(home)).initialize("s1", hermes_home=str(home))
