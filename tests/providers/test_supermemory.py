"""supermemory against the recorded wires of both its generations."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from contract_scenarios import ServiceContract
from service_scenarios import ANSWER, FACT, ServiceScenarios
from wire_server import KEY, WireService, Wrong, fits, shared_words

from hermes import MemorySession
from hermes.providers.config import save_config
from hermes.providers.discovery import load_provider

if TYPE_CHECKING:
    from pathlib import Path

    from wire_server import Asked

    from hermes.providers.manager import MemoryManager

_MODES = {"v4": ("hybrid", "memories", "documents"), "v5": ("hybrid", "memories", "chunks")}


class SupermemoryService(WireService):
    """Each user message of a conversation, and each document, becomes one memory; ids of ours are kept."""

    def __init__(self, generation: str) -> None:
        super().__init__()
        self.generation = generation
        self.memories: dict[str, tuple[str, str]] = {}  # id -> container, text

    def answer(self, asked: Asked) -> tuple[int, Any]:
        if (asked.headers.get("authorization"), asked.headers.get("x-sm-source")) != (f"Bearer {KEY}", "hermes"):
            raise Wrong("the key or the source is missing")
        newer = asked.path.startswith("/ns/")
        if ("v5" if newer else "v4") != self.generation:
            return 404, {"error": "no such route"}
        return self._newer(asked) if newer else self._older(asked)

    def _older(self, asked: Asked) -> tuple[int, Any]:
        match (asked.method, asked.path):
            case ("POST", "/v3/documents"):
                optional = {"customId": str, "entityContext": str}
                body = fits(asked.body, {"content": str, "containerTags": list, "metadata": dict}, optional)
                document = self._keep(body.get("customId", ""), body["containerTags"][0], body["content"])
                return 200, {"id": document, "status": "queued"}
            case ("POST", "/v4/conversations"):
                body = fits(
                    asked.body, {"conversationId": str, "messages": list, "containerTags": list, "metadata": dict}
                )
                said = [message["content"] for message in body["messages"] if message["role"] == "user"]
                for number, text in enumerate(said):
                    self._keep(f"{body['conversationId']}-{number}", body["containerTags"][0], text)
                return 200, {"id": body["conversationId"], "status": "queued"}
            case ("POST", "/v4/search"):
                body = fits(asked.body, {"q": str, "containerTag": str, "limit": int, "searchMode": str})
                return 200, self._search(body["containerTag"], body["q"], body["limit"], body["searchMode"])
            case ("POST", "/v4/profile"):
                body = fits(asked.body, {"containerTag": str}, {"q": str})
                facts = [text for _, text in self._of(body["containerTag"])]
                found = self._search(body["containerTag"], body["q"], 10, "hybrid") if "q" in body else None
                profile = {"static": [text for text in facts if "parrots" in text], "dynamic": []}
                return 200, {"profile": profile, **({"searchResults": found} if found else {})}
            case ("DELETE", "/v4/memories"):
                body = fits(asked.body, {"containerTag": str, "id": str})
                return 200, {"id": body["id"], "forgotten": self.memories.pop(body["id"], None) is not None}
            case ("DELETE", "/v3/documents/bulk"):
                [container] = fits(asked.body, {"containerTags": list})["containerTags"]
                return 200, {"success": True, "deletedCount": self._clear(container)}
            case ("DELETE", path) if path.startswith("/v3/documents/"):
                return (
                    (204, None) if self.memories.pop(path.rpartition("/")[2], None) else (404, {"error": "not found"})
                )
        raise Wrong("there is no such path")

    def _newer(self, asked: Asked) -> tuple[int, Any]:
        found = re.fullmatch("/ns/([^/]+)(?:/(document|search|profile|memories))?", asked.path)
        if found is None:
            raise Wrong("there is no such path")
        match (asked.method, found[2]):
            case ("DELETE", None):
                count = self._clear(found[1])
                return 200, {"status": "deleted", "deletedDocumentsCount": count, "deletedMemoriesCount": count}
            case ("POST", "document"):
                body = fits(asked.body, {"content": str, "metadata": dict}, {"id": str, "supportingContext": str})
                return 200, {"id": self._keep(body.get("id", ""), found[1], body["content"]), "status": "queued"}
            case ("POST", "search"):
                body = fits(asked.body, {"query": str, "searchMode": str, "limit": int})
                return 200, self._search(found[1], body["query"], body["limit"], body["searchMode"])
            case ("POST", "profile"):
                facts = [{"id": key, "memory": text} for key, text in self._of(found[1]) if "parrots" in text]
                return 200, {"profile": {"static": facts, "dynamic": [], "buckets": {}}}
            case ("DELETE", "document" | "memories"):
                for memory_id in fits(asked.body, {"ids": list})["ids"]:
                    self.memories.pop(memory_id, None)
                return 200, {"deleted": 1}
        raise Wrong("there is no such call")

    def _keep(self, memory_id: str, container: str, text: str) -> str:
        memory_id = memory_id or f"d{len(self.memories) + 1}"
        self.memories[memory_id] = (container, text)
        return memory_id

    def _clear(self, container: str) -> int:
        before = len(self.memories)
        self.memories = {key: each for key, each in self.memories.items() if each[0] != container}
        return before - len(self.memories)

    def _of(self, container: str) -> list[tuple[str, str]]:
        return [(key, text) for key, (where, text) in self.memories.items() if where == container]

    def _search(self, container: str, query: str, limit: int, mode: str) -> dict[str, Any]:
        if mode not in _MODES[self.generation]:
            raise Wrong(f"there is no search mode {mode!r}")
        found = [(key, text) for key, text in self._of(container) if shared_words(text, query)]
        rows = [{"id": key, "memory": text, "similarity": 0.7, "metadata": {}} for key, text in found[:limit]]
        return {"results": rows, "timing": 1, "total": len(rows)}


class SupermemoryScenarios(ServiceScenarios):
    name = "supermemory"
    forgets = "deleted 2 documents of the container hermes-ada"

    def configuration(self, service: WireService) -> tuple[dict[str, Any], dict[str, str]]:
        return {"base_url": service.url}, {"SUPERMEMORY_API_KEY": KEY}

    def held(self, service: Any) -> list[str]:
        return [text for _, text in service.memories.values()]

    def profile_call(self) -> tuple[str, dict[str, Any]]:
        return "supermemory_profile", {}

    def forget_call(self, service: Any, text: str) -> tuple[str, dict[str, Any]]:
        del service
        return "supermemory_forget", {"query": FACT if text in FACT else text}

    @pytest.mark.proves("supermemory.tools", "supermemory.generations")
    def test_the_tools_store_search_show_and_forget(self, manager: MemoryManager, service: Any) -> None:
        stored = call(manager, "supermemory_store", content=FACT, metadata={"about": "birds"})
        assert (stored["saved"], stored["preview"]) == (True, FACT)
        found = call(manager, "supermemory_search", query="green parrots")
        assert found == {"results": [{"id": stored["id"], "content": FACT, "similarity": 70}], "count": 1}
        profile = call(manager, "supermemory_profile")
        assert (profile["static_count"], profile["dynamic_count"]) == (1, 0)
        assert FACT in profile["profile"]
        assert call(manager, "supermemory_forget", id=stored["id"])["forgotten"] is True
        assert call(manager, "supermemory_forget", query="green parrots")["success"] is False
        probes = [each for each in service.asked if each.path in ("/v4/profile", "/ns/hermes/profile")]
        assert len(probes) <= 3  # the API is found out once, not with every call


class TestContainerTags(SupermemoryScenarios):
    answers_anything = True

    def make(self) -> WireService:
        return SupermemoryService("v4")

    @pytest.mark.proves("supermemory.capture")
    def test_a_conversation_has_one_id_and_is_not_sent_again_at_the_end(
        self, manager: MemoryManager, service: Any
    ) -> None:
        for number in range(3):
            manager.sync_all(f"question {number} about parrots", "a long answer", session_id="s1")
        manager.sync_all("ok!", "fine", session_id="s1")
        manager.on_session_end([{"role": "user", "content": FACT}], session_id="s1")
        assert manager.flush()
        sent = [each.body for each in service.asked if each.path == "/v4/conversations"]
        assert [len(each["messages"]) for each in sent] == [2, 4, 6]
        assert len({each["conversationId"] for each in sent}) == 1
        assert len(service.memories) == 3

    @pytest.mark.proves("supermemory.profile")
    def test_the_profile_comes_with_the_first_turn_and_then_now_and_again(self, manager: MemoryManager) -> None:
        manager.on_memory_write("add", "user", FACT)
        assert manager.flush()
        recalled = []
        for turn in (1, 2, 50):
            manager.on_turn_start(turn, "parrots?")
            recalled.append(manager.prefetch_all("green parrots?").splitlines()[0])
        assert recalled == ["## Who the person is", "## Supermemory", "## Who the person is"]


class TestNamespaces(SupermemoryScenarios):
    def make(self) -> WireService:
        return SupermemoryService("v5")


class TestContainerTagsContract(ServiceContract):
    scenarios = TestContainerTags


class TestNamespacesContract(ServiceContract):
    scenarios = TestNamespaces


def opened(home: Path, service: SupermemoryService, user_id: str = "", **values: Any) -> Any:
    home.mkdir(exist_ok=True)
    save_config("supermemory", str(home), {"base_url": service.url, **values})
    (home / ".env").write_text(f"SUPERMEMORY_API_KEY={KEY}\n", encoding="utf-8")
    provider = load_provider("supermemory", str(home))
    provider.initialize("s1", hermes_home=str(home), platform="cli", agent_identity="work", user_id=user_id)
    return provider


@pytest.mark.proves("supermemory.capture", "supermemory.stripped")
def test_capture_off_means_off_and_recalled_text_is_stripped(home: Path) -> None:
    with SupermemoryService("v4") as service:
        off = opened(home, service, auto_capture="false", auto_recall="no")
        off.sync_turn(FACT, ANSWER, session_id="s1")
        off.on_session_end([{"role": "user", "content": FACT}], session_id="s1")
        off.shutdown()
        assert off.prefetch("green parrots?") == ""
        assert service.asked == []
        everything = opened(home, service, auto_capture=True, capture_mode="everything", api="v4")
        fenced = "<supermemory-context>\nold parrots\n</supermemory-context>\nok"
        everything.sync_turn(fenced, "fine", session_id="s1", idempotency_key="k1")
        assert [text for _, text in service.memories.values()] == ["ok"]


@pytest.mark.proves("supermemory.containers")
def test_only_containers_that_are_allowed_can_be_chosen(home: Path) -> None:
    with SupermemoryService("v4") as service:
        one = opened(home, service, container_tag="{identity} notes")
        assert "container_tag" not in json.dumps(one.get_tool_schemas())
        assert "there is no container" in one.handle_tool_call(
            "supermemory_store", {"content": FACT, "container_tag": "team"}
        )
        several = opened(home, service, enable_custom_container_tags=True, custom_containers=["team", "home lab"])
        offered = several.get_tool_schemas()[0]["parameters"]["properties"]["container_tag"]["enum"]
        assert offered == ["work-notes", "team", "home-lab"]
        stored = json.loads(several.handle_tool_call("supermemory-save", {"content": FACT, "container_tag": "team"}))
        assert stored["container_tag"] == "team"
        assert [container for container, _ in service.memories.values()] == ["team"]
        elsewhere = {"query": "green parrots", "container_tag": "work-notes"}
        assert json.loads(several.handle_tool_call("supermemory_search", elsewhere))["count"] == 0


@pytest.mark.proves("supermemory.tools", "agent.forgiving-arguments")
def test_a_model_may_store_any_metadata(home: Path) -> None:
    with SupermemoryService("v4") as service:
        opened(home, service, api="v4")
        (home / "config.yaml").write_text("memory: {provider: supermemory}\n")
        with MemorySession.open(home) as session:
            session.prepare_turn("keep this")
            store = {"content": FACT, "metadata": {"about": "birds", "weight": 3}}
            result = json.loads(session.call_tool("supermemory_store", store))
            session.finish_turn("Kept.")
        kept = next(
            each.body for each in service.asked if each.path == "/v3/documents" and FACT in each.body["content"]
        )
    assert result["saved"]
    assert (kept["metadata"]["about"], kept["metadata"]["weight"]) == ("birds", 3)


@pytest.mark.proves("services.forgotten")
def test_what_was_stored_for_everybody_stays_and_is_named(home: Path) -> None:
    with SupermemoryService("v4") as service:
        provider = opened(home, service, enable_custom_container_tags=True, custom_containers="team", user_id="ada")
        provider.handle_tool_call("supermemory_store", {"content": FACT, "container_tag": "team"})
        assert provider.forget_person().endswith("; what is in team belongs to everybody and stays")
        assert [container for container, _ in service.memories.values()] == ["team"]


@pytest.mark.proves("supermemory.generations")
def test_each_generation_is_asked_in_its_own_words(home: Path) -> None:
    for generation in ("v4", "v5"):
        with SupermemoryService(generation) as service:
            provider = opened(home, service, search_mode="documents")
            provider.handle_tool_call("supermemory_search", {"query": "green parrots"})
            assert service.asked[-1].path.endswith("/search")


@pytest.mark.proves("supermemory.generations")
def test_a_server_that_speaks_neither_generation_is_said_to(home: Path) -> None:
    with SupermemoryService("v6") as service, pytest.raises(Exception, match="neither of the two known APIs"):
        opened(home, service).check_connection()


def call(manager: MemoryManager, name: str, **arguments: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(manager.handle_tool_call(name, arguments))
    return found
