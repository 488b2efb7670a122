"""openviking against its wire."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from contract_scenarios import ServiceContract
from openviking_service import OpenVikingService
from service_scenarios import ANSWER, FACT, ServiceScenarios, configure
from wire_server import KEY

from hermes.providers.discovery import load_provider

if TYPE_CHECKING:
    from pathlib import Path

    from wire_server import WireService

    from hermes.providers.manager import MemoryManager

KEY_1, KEY_2 = "1" * 32, "2" * 32
MINE = "viking://user/owner/memories"


class TestOpenViking(ServiceScenarios):
    name = "openviking"
    forgets = "deleted 1 sessions and 2 files and folders of ada; pages"

    def make(self) -> WireService:
        return OpenVikingService()

    def configuration(self, service: WireService) -> tuple[dict[str, Any], dict[str, str]]:
        return {"endpoint": service.url}, {"OPENVIKING_API_KEY": KEY}

    def settle(self, manager: MemoryManager) -> None:
        manager.on_session_end([], session_id="s1")
        assert manager.flush()

    def held(self, service: Any) -> list[str]:
        said = [each for session in service.sessions.values() for each in session if each["role"] == "user"]
        waiting = [each["parts"][0]["text"] for each in said]
        return [*waiting, *service.files.values()]

    def profile_call(self) -> tuple[str, dict[str, Any]]:
        return "viking_search", {"query": "Who keeps parrots?"}

    def forget_call(self, service: Any, text: str) -> tuple[str, dict[str, Any]]:
        [uri] = [uri for uri, content in service.files.items() if text in content]
        return "viking_forget", {"uri": uri}

    @pytest.mark.proves("openviking.tools")
    def test_the_tools_find_read_browse_keep_and_delete(self, manager: MemoryManager, service: Any) -> None:
        kept = call(manager, "viking_remember", content=FACT, category="entity")
        assert kept["uri"].startswith(f"{MINE}/entities/mem_")
        found = call(manager, "viking_search", query="green parrots", mode="deep", scope=MINE)
        assert found["results"] == [{"uri": kept["uri"], "type": "memory", "score": 0.6, "abstract": FACT}]
        assert service.asked[-1].body["session_id"] == "s1"
        assert call(manager, "viking_read", uri=f"{MINE}/entities")["content"] == "overview of a folder"
        short = call(manager, "viking_read", uri=kept["uri"], level="abstract")
        assert (short["content"], short["fallback"]) == (FACT, "full")
        several = call(manager, "viking_read", uris=[kept["uri"]] * 5, level="full")
        assert (several["requested"], several["returned"], several["truncated"]) == (5, 3, True)
        listed = call(manager, "viking_browse", action="list", path=MINE)["entries"]
        assert [each["uri"] for each in listed] == [kept["uri"]]
        added = call(manager, "viking_add_resource", url="https://example.org/a", reason="docs")
        assert added["root_uri"] == "viking://resources/page"
        assert "only addresses" in call(manager, "viking_add_resource", url="/etc/passwd")["error"]
        assert "not a memory" in call(manager, "viking_forget", uri=f"{MINE}/.overview.md")["error"]
        assert call(manager, "viking_forget", uri=kept["uri"])["status"] == "deleted"
        assert "there is no memory" in call(manager, "viking_forget", uri=kept["uri"])["error"]

    @pytest.mark.proves("openviking.parts")
    def test_a_turn_is_stored_with_its_tools_but_not_with_what_was_recalled(
        self, manager: MemoryManager, service: Any
    ) -> None:
        steps: list[dict[str, Any]] = [
            {"role": "user", "content": "count the birds"},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [tool_call("a", "run"), tool_call("b", "viking_search")],
            },
            {"role": "tool", "tool_call_id": "a", "name": "run", "content": "three"},
            {"role": "tool", "tool_call_id": "b", "name": "viking_search", "content": "parrots"},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [tool_call("c", "run"), tool_call("d", "session_search")],
            },
            {"role": "tool", "tool_call_id": "c", "name": "run", "content": '{"error": "no birds"}'},
            {"role": "tool", "tool_call_id": "d", "name": "session_search", "content": "old words"},
        ]
        manager.sync_all("count the birds", "There are three.", session_id="s1", messages=steps)
        assert manager.flush()
        [_, answer] = service.sessions["owner/s1"]
        tools = [(each["tool_id"], each["tool_output"], each["tool_status"]) for each in answer["parts"][:-1]]
        assert tools == [("a", "three", "completed"), ("c", '{"error": "no birds"}', "error")]
        assert answer["parts"][0]["tool_input"] == {"n": 1}
        assert answer["parts"][-1] == {"type": "text", "text": "There are three."}

    @pytest.mark.proves("openviking.commit")
    def test_a_session_is_committed_at_every_boundary_and_again_when_more_was_said(
        self, manager: MemoryManager, service: Any
    ) -> None:
        for text in (FACT, "and turtles in Porto"):  # the same session goes on after a compaction in place
            manager.sync_all(text, ANSWER, session_id="s1")
            manager.on_session_end([], session_id="s1")
            assert manager.flush()
        assert service.committed == ["owner/s1", "owner/s1"]
        manager.on_session_end([], session_id="s1")
        assert manager.flush()
        assert sum(each.path.endswith("/commit") for each in service.asked) == 2  # nothing new, nothing asked
        assert sorted(service.files.values()) == [FACT, "and turtles in Porto"]

    @pytest.mark.proves("openviking.failed")
    def test_a_failed_commit_is_told_once_and_done_again(
        self, manager: MemoryManager, service: Any, told: list[str]
    ) -> None:
        service.commits_fail = "the model answered in prose"
        manager.sync_all(FACT, ANSWER, session_id="s1")
        manager.on_session_end([], session_id="s1")
        assert manager.flush()
        service.commits_fail = ""
        manager.sync_all("and turtles in Porto", ANSWER, session_id="s1")
        manager.flush()
        assert manager.flush()
        assert "could not make memories of a session: the model answered in prose" in told[0]
        assert (len(told), told[-1]) == (2, "openviking works again.")
        assert [len(each["parts"]) for each in service.sessions["owner/s1"]] == [1, 1]  # the turn came once
        manager.on_session_end([], session_id="s1")
        assert manager.flush()
        assert len(service.committed) == 2

    @pytest.mark.proves("openviking.left")
    def test_a_session_that_was_left_without_an_end_is_committed_later(self, service: Any, home: Path) -> None:
        opened(service, home).sync_turn(FACT, ANSWER, session_id="s1", idempotency_key=KEY_1)
        again = opened(service, home)  # the program was killed and started again
        again.sync_turn("hello there", ANSWER, session_id="s2", idempotency_key=KEY_2)
        assert service.committed == ["owner/s1"]
        again.on_session_switch("s3", reason="new")
        again.sync_turn("more words", ANSWER, session_id="s3", idempotency_key="3" * 32)
        assert service.committed == ["owner/s1", "owner/s2"]

    @pytest.mark.proves("openviking.once")
    def test_a_turn_whose_answer_was_lost_is_stored_once(self, service: Any, home: Path) -> None:
        provider = opened(service, home)
        provider.sync_turn("first", ANSWER, session_id="s1", idempotency_key=KEY_1)
        service.trouble = "dropped"
        with pytest.raises(Exception, match="broke"):
            provider.sync_turn(FACT, ANSWER, session_id="s1", idempotency_key=KEY_2)
        service.trouble = ""
        for each in (provider, opened(service, home)):
            each.sync_turn(FACT, ANSWER, session_id="s1", idempotency_key=KEY_2)
        assert len(service.sessions["owner/s1"]) == 4

    @pytest.mark.proves("openviking.blurbs")
    def test_recall_reads_the_best_memories_and_shows_no_blurbs(self, service: Any, home: Path) -> None:
        provider = opened(service, home, recall_max_injected_chars=2000)
        provider.on_memory_write("add", "user", FACT, {})
        found = provider.prefetch("where are the parrots?", session_id="s1")
        assert found.startswith("## OpenViking Memory\n- [preferences] Ada keeps green parrots in Lisbon. (viking")
        assert "Stores what" not in found
        [asked] = [each for each in service.asked if "/search/" in each.path]
        assert asked.body["target_uri"] == f"{MINE}/"
        for setting in ({"recall_score_threshold": 0.7}, {"recall_max_injected_chars": 100}):
            assert len(opened(service, home, **setting).prefetch("where are the parrots?")) <= 100

    @pytest.mark.proves("openviking.tools")
    @pytest.mark.parametrize(
        ("name", "arguments", "said"),
        [
            ("viking_read", {"uri": MINE, "level": "whole"}, "level must be one of"),
            ("viking_browse", {"action": "dig"}, "action must be one of"),
            ("viking_remember", {"content": FACT, "category": "mood"}, "category must be one of"),
            ("viking_add_resource", {"url": "https://e.org", "to": "a", "parent": "b"}, "to or parent, not both"),
            ("viking_search", {}, "needs query"),
            ("viking_dance", {}, "has no tool"),
        ],
    )
    def test_a_call_that_cannot_be_says_what_can(
        self, service: Any, home: Path, name: str, arguments: dict[str, Any], said: str
    ) -> None:
        assert said in opened(service, home).handle_tool_call(name, arguments)

    @pytest.mark.proves("services.forgotten")
    def test_a_commit_that_is_under_way_is_waited_for_before_a_person_is_forgotten(
        self, service: Any, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ada = opened(service, home, user_id="ada")
        ada.sync_turn(FACT, ANSWER, session_id="s1", idempotency_key=KEY_1)
        ada.on_session_end([], session_id="s1")
        [task] = service.tasks.values()
        task["status"] = "running"
        place = "viking://user/ada/memories/events/late.md"

        def while_waiting(_: float) -> None:
            task["status"] = "completed"
            service.files[place] = FACT

        monkeypatch.setattr("time.sleep", while_waiting)
        assert ada.forget_person().startswith("deleted 1 sessions and 2 files and folders of ada; pages")
        assert service.files == {}
        task["status"] = "running"
        monkeypatch.setattr("hermes.providers.services.openviking._COMMIT_SECONDS", 0.0)
        assert "the server is still working on 1 commits" in ada.forget_person()

    @pytest.mark.proves("openviking.people")
    def test_nobody_reads_anothers_tree(self, service: Any, home: Path) -> None:
        opened(service, home, user_id="bob").on_memory_write("add", "user", FACT, {})
        [other] = service.files
        ada = opened(service, home, user_id="ada")
        for name, arguments in (
            ("viking_read", {"uri": other}),
            ("viking_browse", {"action": "list", "path": "viking://user/bob"}),
            ("viking_browse", {"action": "tree", "path": "viking://user"}),
            ("viking_search", {"query": "parrots", "scope": "viking://user/bob"}),
            ("viking_forget", {"uri": other}),
            ("viking_read", {"uri": "viking://user/ada/../bob/memories"}),
        ):
            assert "not an address of yours" in ada.handle_tool_call(name, arguments)
        assert "parrots" not in ada.handle_tool_call("viking_search", {"query": "green parrots"})
        assert len(service.files) == 1

    @pytest.mark.proves("openviking.people")
    def test_a_key_of_one_user_is_refused_for_several_people(self, home: Path) -> None:
        with OneUser() as service:
            provider = opened(service, home, user_id="ada")
            with pytest.raises(Exception, match="people cannot be kept apart"):
                provider.sync_turn(FACT, ANSWER, session_id="s1", idempotency_key=KEY_1)
            assert service.sessions == {}


class OneUser(OpenVikingService):
    """A server that gives out keys: the key says who asks."""

    def _route(self, asked: Any, user: str) -> tuple[int, Any]:
        del user
        return super()._route(asked, "owner")


class TestContract(ServiceContract):
    scenarios = TestOpenViking


def opened(service: Any, home: Path, *, user_id: str = "", **settings: Any) -> Any:
    configure(TestOpenViking(), service, str(home))
    provider = load_provider("openviking", str(home))
    provider.save_config(settings, str(home))
    provider.initialize("s1", hermes_home=str(home), platform="cli", user_id=user_id)
    return provider


def tool_call(call_id: str, name: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": '{"n": 1}'}}


@pytest.mark.proves("openviking.setup")
def test_openvikings_own_file_can_be_used(home: Path, tmp_path: Path) -> None:
    home.mkdir()
    with OpenVikingService() as service:
        own = tmp_path / "ovcli.conf"
        own.write_text(json.dumps({"url": service.url, "api_key": KEY, "user": "owner"}), encoding="utf-8")
        provider = load_provider("openviking", str(home))
        provider.save_config({"use_ovcli_config": True, "ovcli_config_path": str(own)}, str(home))
        provider.initialize("s1", hermes_home=str(home), platform="cli")
        assert provider.check_connection() == "OpenViking answers, 0 memories of owner"


def call(manager: MemoryManager, name: str, **arguments: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(manager.handle_tool_call(name, arguments))
    return found
