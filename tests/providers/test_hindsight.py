"""hindsight against its recorded wire."""

from __future__ import annotations

import json
import re
import uuid
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pytest
from contract_scenarios import ServiceContract
from service_scenarios import ANSWER, FACT, ServiceScenarios, configure
from wire_server import KEY, WireService, Wrong, fits, shared_words

from hermes.providers.discovery import load_provider

if TYPE_CHECKING:
    from pathlib import Path

    from wire_server import Asked

    from hermes.providers.manager import MemoryManager

_ITEM = {
    "context": str,
    "metadata": dict,
    "document_id": str,
    "tags": list,
    "observation_scopes": str,
    "update_mode": str,
}
_FILTER = {"tags": list, "tags_match": str}
_MISSIONS = {"reflect_mission": str, "retain_mission": str}
_BUDGETS = ("low", "mid", "high")


class HindsightService(WireService):
    """A document is one fact; `consolidate` makes an observation of every fact."""

    def __init__(self) -> None:
        super().__init__()
        self.documents: dict[tuple[str, str], dict[str, Any]] = {}
        self.missions: dict[str, dict[str, str]] = {}
        self.consolidated: set[str] = set()

    def answer(self, asked: Asked) -> tuple[int, Any]:
        if asked.headers.get("authorization") != f"Bearer {KEY}":
            raise Wrong("there is no key")
        if (asked.method, asked.path) == ("GET", "/version"):
            return 200, {"api_version": "1.1.0", "features": {}}
        found = re.fullmatch("/v1/default/banks/([^/]+)(/.*)?", asked.path)
        if found is None:
            raise Wrong("there is no such path")
        return self._in_bank(asked, unquote(found[1]), found[2] or "")

    def _in_bank(self, asked: Asked, bank: str, rest: str) -> tuple[int, Any]:
        match (asked.method, rest):
            case ("PUT", ""):
                self.missions[bank] = fits(asked.body, {}, _MISSIONS)
                return 200, {"bank_id": bank, "name": bank, "disposition": {}, "mission": ""}
            case ("DELETE", ""):
                mine = [key for key in self.documents if key[0] == bank]
                for key in mine:
                    del self.documents[key]
                return 200, {"success": True, "deleted_count": len(mine)}
            case ("POST", "/memories"):
                return self._retain(asked, bank)
            case ("POST", "/memories/recall"):
                wanted = {"query": str, "types": list, "prefer_observations": bool, "budget": str, "max_tokens": int}
                body = fits(asked.body, wanted, _FILTER)
                if body["budget"] not in _BUDGETS or len(body["query"]) > 800:
                    raise Wrong("the budget or the query")
                return 200, {"results": self._found(bank, body)}
            case ("POST", "/reflect"):
                body = fits(asked.body, {"query": str, "budget": str}, _FILTER)
                found = self._found(bank, {**body, "types": ["world"]})
                return 200, {"text": f"It seems that {found[0]['text']}" if found else "", "based_on": None}
        return self._one(asked, bank, rest)

    def _one(self, asked: Asked, bank: str, rest: str) -> tuple[int, Any]:
        kind, _, name = rest.removeprefix("/").partition("/")
        match (asked.method, kind, name):
            case ("GET", "documents", ""):
                mine = [key for key in self.documents if key[0] == bank]
                return 200, {"items": [], "total": len(mine), "limit": 1, "offset": 0}
            case ("DELETE", "documents", _):
                gone = self.documents.pop((bank, unquote(name)), None)
                if gone is None:
                    return 404, {"detail": "no such document"}
                return 200, {"success": True, "message": "", "document_id": name, "memory_units_deleted": 1}
            case ("GET", "memories", _):
                return self._memory(bank, name)
        raise Wrong("there is no such call")

    def _retain(self, asked: Asked, bank: str) -> tuple[int, Any]:
        body = fits(asked.body, {"items": list, "async": bool}, {"operation_id": str})
        if "operation_id" in body:
            uuid.UUID(body["operation_id"])
        for item in body["items"]:
            fits(item, {"content": str}, _ITEM)
            if not all(isinstance(text, str) for text in [*item.get("metadata", {}).values(), *item["tags"]]):
                raise Wrong("metadata and tags are texts")
            self.documents[bank, item["document_id"]] = item
        return 200, {"success": True, "bank_id": bank, "items_count": len(body["items"]), "async": body["async"]}

    def _memory(self, bank: str, name: str) -> tuple[int, Any]:
        if name.startswith("o-"):
            return 200, {"id": name, "type": "observation", "document_id": None, "source_memory_ids": [name[2:]]}
        if (bank, name) not in self.documents:
            return 404, {"detail": "no such memory"}
        return 200, {"id": name, "type": "world", "document_id": name}

    def _found(self, bank: str, body: dict[str, Any]) -> list[dict[str, Any]]:
        found = []
        for (owner, name), item in self.documents.items():
            said = _said(item["content"])
            tagged = not body.get("tags") or set(body["tags"]) & set(item["tags"])
            if owner != bank or not tagged or not shared_words(said, body["query"]):
                continue
            if name in self.consolidated and "observation" in body["types"]:
                found.append({"id": f"o-{name}", "text": said, "type": "observation"})
            elif "world" in body["types"]:
                found.append({"id": name, "text": said, "type": "world", "document_id": name})
        return found


def _said(content: str) -> str:
    """What a document says: of a conversation, what the user said."""
    if not content.startswith("["):
        return content
    return " ".join(each["content"] for each in json.loads(content) if each["role"] == "user")


class TestHindsight(ServiceScenarios):
    name = "hindsight"
    forgets = "deleted the bank hermes-ada with 2 memories"

    def make(self) -> WireService:
        return HindsightService()

    def configuration(self, service: WireService) -> tuple[dict[str, Any], dict[str, str]]:
        return {"mode": "local_external", "api_url": service.url}, {"HINDSIGHT_API_KEY": KEY}

    def held(self, service: Any) -> list[str]:
        return [item["content"] for item in service.documents.values()]

    def profile_call(self) -> tuple[str, dict[str, Any]]:
        return "hindsight_recall", {"query": "Who keeps parrots?"}

    def forget_call(self, service: Any, text: str) -> tuple[str, dict[str, Any]]:
        [name] = [name for (_, name), item in service.documents.items() if text in item["content"]]
        return "hindsight_forget", {"memory_id": name}

    @pytest.mark.proves("hindsight.tools")
    def test_the_tools_retain_recall_reflect_and_forget(self, manager: MemoryManager, service: Any) -> None:
        kept = call(manager, "hindsight_retain", content=FACT, context="birds", tags=["pets"])
        assert kept["result"] == "stored"
        [item] = service.documents.values()
        assert (item["context"], item["tags"]) == ("birds", ["pets", "session:s1"])
        found = call(manager, "hindsight_recall", query="green parrots")
        assert found["result"] == f"1. {FACT}"
        assert call(manager, "hindsight_reflect", query="green parrots?") == {"result": f"It seems that {FACT}"}
        service.consolidated.add(kept["document_id"])
        [observed] = call(manager, "hindsight_recall", query="green parrots")["memories"]
        assert observed["id"].startswith("o-")
        gone = call(manager, "hindsight_forget", memory_id=observed["id"])
        assert (gone["memories_deleted"], service.documents) == (1, {})
        assert "404" in call(manager, "hindsight_forget", memory_id="nobody")["error"]
        assert call(manager, "hindsight_reflect", query="green parrots?")["result"].startswith("nothing")

    @pytest.mark.proves("hindsight.fresh")
    @pytest.mark.parametrize("types", [None, "observation"])
    def test_what_was_just_said_is_recalled_before_it_is_an_observation(
        self, service: Any, home: Path, types: str | None
    ) -> None:
        provider = opened(service, home, recall_types=types)
        provider.sync_turn(FACT, ANSWER, session_id="s1", idempotency_key=KEY_1)
        assert FACT in provider.prefetch("green parrots?", session_id="s1")
        service.consolidated.update(name for _, name in service.documents)
        assert provider.prefetch("green parrots?", session_id="s1").count(FACT) == 1

    @pytest.mark.proves("hindsight.delta")
    def test_each_turn_is_sent_once_also_over_a_switch(self, manager: MemoryManager, service: Any) -> None:
        for number in range(3):
            manager.sync_all(f"question {number}", f"answer {number}", session_id="s1")
        manager.on_session_switch("s2", parent_session_id="s1", reason="compression")
        assert manager.flush()
        manager.sync_all("question 3", "answer 3", session_id="s2")
        assert manager.flush()
        manager.on_session_switch("s1", reason="resume")
        manager.sync_all("question 4", "answer 4", session_id="s1")
        assert manager.flush()
        sent = [each.body["items"] for each in service.asked if each.path.endswith("/memories")]
        said = [json.loads(item["content"])[0]["content"] for items in sent for item in items]
        assert said == [f"User: question {number}" for number in range(5)]
        tags = [item["tags"] for items in sent for item in items]
        assert tags == [["session:s1"]] * 3 + [["session:s2", "parent:s1"]] + [["session:s1"]]

    @pytest.mark.proves("hindsight.mission")
    def test_the_missions_of_the_bank_are_sent_once(self, service: Any, home: Path) -> None:
        provider = opened(service, home, bank_mission="Help with birds.", bank_retain_mission="Look for birds.")
        for number in range(3):
            provider.sync_turn(f"turn {number}", ANSWER, session_id="s1", idempotency_key=f"{number:032x}")
        sent = {"reflect_mission": "Help with birds.", "retain_mission": "Look for birds."}
        assert service.missions == {"hermes": sent}
        assert sum(each.method == "PUT" for each in service.asked) == 1

    @pytest.mark.proves("hindsight.tags")
    def test_tags_and_budgets_reach_the_service(self, service: Any, home: Path) -> None:
        settings: dict[str, Any] = {"retain_tags": "home, work", "observation_scopes": "per_tag"}
        settings |= {"recall_tags": ["work"], "recall_tags_match": "any_strict", "recall_max_tokens": 300}
        settings |= {"recall_budget": "high"}
        provider = opened(service, home, **settings, recall_max_input_chars=20)
        provider.sync_turn(FACT, ANSWER, session_id="s1", idempotency_key=KEY_1)
        [item] = service.documents.values()
        assert (item["tags"], item["observation_scopes"]) == (["home", "work", "session:s1"], "per_tag")
        provider.prefetch("green parrots? " * 100)
        asked = service.asked[-1].body
        assert (asked["tags"], asked["tags_match"], asked["budget"]) == (["work"], "any_strict", "high")
        assert (asked["max_tokens"], len(asked["query"])) == (300, 20)

    @pytest.mark.proves("hindsight.together")
    def test_turns_that_are_stored_together_survive_an_end_in_between(self, service: Any, home: Path) -> None:
        provider = opened(service, home, retain_every_n_turns=3)
        for number in range(4):
            provider.sync_turn(f"turn {number}", ANSWER, session_id="s1", idempotency_key=f"{number:032x}")
        assert len(service.documents) == 1
        again = opened(service, home, retain_every_n_turns=3)  # the program was killed and started again
        again.sync_turn("a turn elsewhere", ANSWER, session_id="s2", idempotency_key="9" * 32)
        again.on_session_end([], session_id="s2")
        said = [json.loads(content)[0]["content"] for content in self.held(service)]
        assert said == ["User: turn 0", "User: turn 3", "User: a turn elsewhere"]

    @pytest.mark.proves("hindsight.reflect")
    def test_a_reflection_is_prepared_for_the_next_turn_of_the_same_session(self, service: Any, home: Path) -> None:
        provider = opened(service, home, recall_prefetch_method="reflect")
        provider.sync_turn(FACT, ANSWER, session_id="s1", idempotency_key=KEY_1)
        provider.queue_prefetch("green parrots?", session_id="s1")
        assert provider.prefetch("and now?", session_id="s1") == f"## Hindsight Memory\nIt seems that User: {FACT}"
        provider.queue_prefetch("green parrots?", session_id="s1")
        provider.on_session_switch("s2", reason="new")
        assert provider.prefetch("and now?", session_id="s2") == ""

    @pytest.mark.proves("services.forgotten")
    def test_where_each_session_has_a_bank_it_says_what_to_delete_by_hand(self, service: Any, home: Path) -> None:
        provider = opened(service, home, user_id="ada", bank_id_template="h-{user}-{session}")
        with pytest.raises(Exception, match="delete those of ada in Hindsight"):
            provider.forget_person()


class TestContract(ServiceContract):
    scenarios = TestHindsight


KEY_1 = "1" * 32


def opened(service: Any, home: Path, user_id: str = "", **settings: Any) -> Any:
    configure(TestHindsight(), service, str(home))
    provider = load_provider("hindsight", str(home))
    provider.save_config(settings, str(home))
    provider.initialize("s1", hermes_home=str(home), platform="cli", user_id=user_id)
    return provider


@pytest.mark.proves("hindsight.setup")
def test_the_cloud_needs_a_key_and_the_file_of_hermes_agent_is_read(home: Path) -> None:
    home.mkdir()
    assert not load_provider("hindsight", str(home)).is_available()
    (home / "hindsight").mkdir()
    with HindsightService() as service:
        other = {"mode": "local_external", "api_url": service.url, "memory_mode": "context"}
        other |= {"bank_id_template": "h-{platform}-{user}-{profile}"}
        (home / "hindsight" / "config.json").write_text(json.dumps(other), encoding="utf-8")
        (home / ".env").write_text(f"HINDSIGHT_API_KEY={KEY}\n", encoding="utf-8")
        provider = load_provider("hindsight", str(home))
        assert provider.is_available()
        provider.initialize("s1", hermes_home=str(home), platform="cli", user_id="ada", agent_identity="work")
        assert provider.recall_mode == "context"
        said = provider.check_connection()
        assert said == "Hindsight 1.1.0 answers, 0 documents in the bank h-cli-ada-work"


@pytest.mark.proves("hindsight.setup")
def test_hindsights_own_file_is_read_where_the_home_has_none(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".hindsight").mkdir()
    (tmp_path / ".hindsight" / "config.json").write_text('{"api_url": "http://localhost:1"}', encoding="utf-8")
    assert load_provider("hindsight", str(home)).is_available()


def call(manager: MemoryManager, name: str, **arguments: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(manager.handle_tool_call(name, arguments))
    return found
