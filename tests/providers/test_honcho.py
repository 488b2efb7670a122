"""honcho against its recorded wire."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from contract_scenarios import ServiceContract
from honcho_service import HonchoService
from service_scenarios import ANSWER, FACT, ServiceScenarios, configure
from wire_server import KEY

from hermes.providers.discovery import load_provider

if TYPE_CHECKING:
    from pathlib import Path

    from wire_server import Asked, WireService

    from hermes.providers.manager import MemoryManager

KEY_1 = "1" * 32


class TestHoncho(ServiceScenarios):
    name = "honcho"
    forgets = "deleted 1 conclusions about ada, the card and 1 sessions; the peer ada itself stays"

    def make(self) -> WireService:
        return HonchoService()

    def configuration(self, service: WireService) -> tuple[dict[str, Any], dict[str, str]]:
        return {"baseUrl": service.url, "workspace": "birds", "timeout": 5}, {"HONCHO_API_KEY": KEY}

    def held(self, service: Any) -> list[str]:
        turns: dict[str, str] = {}
        for each in service.messages:
            key = each["metadata"].get("hermes_key", each["id"])
            turns[key] = f"{turns.get(key, '')}{each['peer_id']}: {each['content']}\n"
        return [*turns.values(), *(each["content"] for each in service.conclusions.values())]

    def profile_call(self) -> tuple[str, dict[str, Any]]:
        return "honcho_context", {}

    def forget_call(self, service: Any, text: str) -> tuple[str, dict[str, Any]]:
        [name] = [name for name, each in service.conclusions.items() if text in each["content"]]
        return "honcho_conclude", {"delete_id": name}

    @pytest.mark.proves("honcho.tools")
    def test_the_five_tools(self, manager: MemoryManager, service: Any) -> None:
        manager.sync_all("I keep green parrots.", ANSWER, session_id="s1")
        assert manager.flush()
        kept = call(manager, "honcho_conclude", conclusion=FACT)
        assert kept["result"] == "concluded"
        listed = call(manager, "honcho_conclude", list=True, query="parrots")
        assert listed == {"conclusions": [{"id": kept["id"], "content": FACT}]}
        assert call(manager, "honcho_profile", card=["Name: Ada"])["card"] == ["Name: Ada"]
        assert call(manager, "honcho_profile") == {"result": ["Name: Ada"]}
        assert call(manager, "honcho_profile", peer="ai") == {"result": []}
        found = call(manager, "honcho_search", query="green parrots")["result"]
        assert found == f"## Known\n- {FACT}\n\n## Said\n- I keep green parrots."
        assert call(manager, "honcho_search", query="parrots " * 50, max_tokens=1)["result"].endswith("…")
        thought = call(manager, "honcho_reasoning", query="What green birds are there?", reasoning_level="high")
        assert thought["result"].startswith(f"I think: {FACT}")
        assert service.asked[-1].body["reasoning_level"] == "high"
        context = call(manager, "honcho_context")["result"]
        assert all(part in context for part in ("## Representation", "## Card\n- Name: Ada", "## Recent messages"))
        assert "exactly one" in call(manager, "honcho_conclude", conclusion="x", list=True)["error"]
        assert call(manager, "honcho_conclude", delete_id=kept["id"]) == {"result": "deleted"}
        assert "no such conclusion" in call(manager, "honcho_conclude", delete_id=kept["id"])["error"]

    @pytest.mark.proves("honcho.split")
    def test_a_long_message_is_split_and_whole(self, service: Any, home: Path) -> None:
        provider = opened(service, home)
        text = "parrots are green " * 4000
        provider.sync_turn(text, "x" * 60_000, session_id="s1", idempotency_key=KEY_1)
        said = {who: [each["content"] for each in service.messages if each["peer_id"] == who] for who in service.peers}
        assert ("".join(said["user"]).strip(), "".join(said["hermes"])) == (text.strip(), "x" * 60_000)
        assert all(part.endswith(("parrots ", "are ", "green ")) for part in said["user"][:-1])

    @pytest.mark.proves("honcho.once")
    def test_a_turn_whose_answer_was_lost_is_stored_once_also_by_the_next_process(
        self, service: Any, home: Path
    ) -> None:
        provider = opened(service, home)
        provider.sync_turn("first", ANSWER, session_id="s1", idempotency_key=KEY_1)
        service.trouble = "dropped"
        with pytest.raises(Exception, match="broke"):
            provider.sync_turn(FACT, ANSWER, session_id="s1", idempotency_key="2" * 32)
        service.trouble = ""
        for each in (provider, opened(service, home)):
            each.sync_turn(FACT, ANSWER, session_id="s1", idempotency_key="2" * 32)
        assert [each["content"] for each in service.messages] == ["first", ANSWER, FACT, ANSWER]

    @pytest.mark.proves("honcho.cadence")
    def test_what_is_known_and_what_is_thought_come_by_their_cadence(self, service: Any, home: Path) -> None:
        provider = opened(service, home, contextCadence=3, dialecticCadence=2)
        provider.on_memory_write("add", "user", FACT, {})
        service.asked.clear()
        for turn in range(1, 7):
            provider.on_turn_start(turn, "green parrots?")
            assert FACT in provider.prefetch("where are the green parrots?", session_id="s1")
            provider.queue_prefetch("where are the green parrots?", session_id="s1")
        asked = [each.path.rsplit("/", 1)[1] for each in service.asked]
        assert (asked.count("context"), asked.count("chat")) == (4, 3)  # each look is at the person and at the session
        service.asked.clear()
        provider.on_turn_start(9, "ok")
        assert FACT in provider.prefetch("ok!", session_id="s1")
        provider.queue_prefetch("thanks", session_id="s1")
        assert service.asked == []
        quiet = opened(service, home, injectionFrequency="first-turn")
        quiet.on_turn_start(2, "more")
        assert quiet.prefetch("where are the green parrots?") == ""

    @pytest.mark.proves("honcho.waits")
    def test_the_first_turn_goes_without_reasoning_that_is_not_quick(self, home: Path) -> None:
        with SlowThinker() as service:
            provider = opened(service, home, firstTurnDialecticWait=0.2)
            provider.on_memory_write("add", "user", FACT, {})
            provider.on_turn_start(1, "green parrots?")
            found = provider.prefetch("where are the green parrots?", session_id="s1")
            assert FACT in found
            assert "What Honcho thinks" not in found
            service.released.set()
            provider.queue_prefetch("where are the green parrots?", session_id="s1")
            provider.on_turn_start(2, "green parrots?")
            assert "## What Honcho thinks" in provider.prefetch("where are the green parrots?", session_id="s1")

    @pytest.mark.proves("honcho.depth")
    def test_depth_levels_and_lengths_of_the_reasoning(self, service: Any, home: Path) -> None:
        deep: dict[str, Any] = {
            "dialecticDepth": 3,
            "dialecticDepthLevels": ["minimal", "max"],
            "dialecticMaxChars": 25,
        }
        provider = opened(service, home, **deep, dialecticMaxInputChars=700)
        provider.on_memory_write("add", "user", FACT, {})
        long = "Tell me about the green parrots. " * 20
        provider.queue_prefetch(long, session_id="s1")
        questions = [each.body for each in service.asked if each.path.endswith("/chat")]
        assert [each["reasoning_level"] for each in questions] == ["minimal", "max", "high"]
        assert {each["target"] for each in questions} == {"user"}
        assert all(len(each["query"]) <= 700 for each in questions)
        provider.on_turn_start(2, "and?")
        thought = provider.prefetch("ok", session_id="s1")
        assert thought == "## What Honcho thinks\nI think: Ada keeps green …"

    @pytest.mark.proves("honcho.switch")
    def test_a_switch_drops_what_was_prepared_and_goes_on_in_the_new_session(self, service: Any, home: Path) -> None:
        provider = opened(service, home, sessionStrategy="per-session", contextCadence=9)
        provider.sync_turn(FACT, ANSWER, session_id="s1", idempotency_key=KEY_1)
        provider.prefetch("green parrots?", session_id="s1")
        provider.queue_prefetch("green parrots?", session_id="s1")
        provider.on_session_switch("s2", parent_session_id="s1", reason="new")
        assert provider.prefetch("ok", session_id="s2") == ""
        provider.sync_turn("turtles", ANSWER, session_id="s2", idempotency_key="2" * 32)
        where = {each["content"]: each["session_id"] for each in service.messages}
        assert (where[FACT], where["turtles"]) == ("s1", "s2")

    @pytest.mark.proves("honcho.strategies", "honcho.peers")
    def test_sessions_and_peers_by_what_is_set(self, service: Any, home: Path, tmp_path: Path) -> None:
        inner = tmp_path / "repo" / "src"
        (tmp_path / "repo" / ".git").mkdir(parents=True)
        inner.mkdir()
        names = {}
        for strategy in ("per-directory", "per-repo", "global", "per-session"):
            provider = opened(service, home, place=str(inner), sessionStrategy=strategy)
            before = set(service.sessions)
            provider.sync_turn("hello you", ANSWER, session_id="s7", idempotency_key=KEY_1)
            [names[strategy]] = set(service.sessions) - before
        assert [names["global"], names["per-session"]] == ["birds", "s7"]
        assert names["per-directory"].startswith("src-")
        assert names["per-repo"].startswith("repo-")
        named: dict[str, Any] = {
            "sessions": {str(inner): "nest"},
            "sessionStrategy": "per-directory",
            "sessionPeerPrefix": True,
        }
        opened(service, home, place=str(inner), **named).sync_turn("hello you", ANSWER, session_id="s8")
        assert "user-nest" in service.sessions

    @pytest.mark.proves("honcho.peers")
    def test_people_are_peers_with_aliases_prefixes_or_one_for_all(self, service: Any, home: Path) -> None:
        cases: list[tuple[dict[str, Any], str]] = [
            ({"runtimePeerPrefix": "tg-"}, "tg-42"),
            ({"userPeerAliases": {"42": "ada"}}, "ada"),
            ({"userPeerAliases": {}, "runtimePeerPrefix": "", "pinUserPeer": True}, "user"),
        ]
        for settings, expected in cases:
            service.messages.clear()
            provider = opened(service, home, user_id="42", **settings)
            provider.sync_turn("hello you", ANSWER, session_id="s1", idempotency_key=KEY_1)
            assert [each["peer_id"] for each in service.messages] == [expected, "hermes"]
        unified = opened(service, home, observationMode="unified", sessionStrategy="per-session")
        unified.sync_turn("I like turtles", ANSWER, session_id="s9", idempotency_key=KEY_1)
        watching = service.sessions["s9"]["peers"]
        assert watching["user"] == {"observe_me": True, "observe_others": False}
        assert watching["hermes"] == {"observe_me": False, "observe_others": False}
        unified.on_turn_start(2, "turtles?")
        assert "turtles" in unified.prefetch("any turtles?", session_id="s9")
        assert any(each.path.endswith("/peers/user/context") for each in service.asked)

    @pytest.mark.proves("honcho.upload")
    def test_local_memory_is_uploaded_once_and_never_again(self, service: Any, home: Path) -> None:
        (home / "memories").mkdir()
        (home / "memories" / "USER.md").write_text(f"{FACT}\n§\nDrinks tea.", encoding="utf-8")
        (home / "memories" / "MEMORY.md").write_text("The build needs Node 20.", encoding="utf-8")
        service.trouble = "dropped"
        with pytest.raises(Exception, match="broke"):
            opened(service, home).sync_turn("hello you", ANSWER, session_id="s1", idempotency_key=KEY_1)
        service.trouble = ""
        for number in range(3):  # three processes, one after the other
            opened(service, home).sync_turn(f"turn {number}", ANSWER, session_id="s1", idempotency_key=f"{number:032}")
        about = [(each["content"], each["observed_id"]) for each in service.conclusions.values()]
        assert about == [(FACT, "user"), ("Drinks tea.", "user"), ("The build needs Node 20.", "hermes")]
        service.conclusions.clear()  # somebody deleted them in Honcho
        opened(service, home).sync_turn("turn", ANSWER, session_id="s1", idempotency_key="9" * 32)
        assert service.conclusions == {}

    @pytest.mark.proves("honcho.frequency")
    @pytest.mark.parametrize(("frequency", "stored"), [("turn", 3), ("2", 2), ("session", 0)])
    def test_turns_are_stored_as_often_as_is_set(self, service: Any, home: Path, frequency: str, stored: int) -> None:
        provider = opened(service, home, writeFrequency=frequency)
        for number in range(3):
            provider.sync_turn(f"turn {number}", "", session_id="s1", idempotency_key=f"{number:032x}")
        assert len(service.messages) == stored
        provider.on_session_end([], session_id="s1")
        assert [each["content"] for each in service.messages] == ["turn 0", "turn 1", "turn 2"]

    @pytest.mark.proves("honcho.person")
    def test_where_everybody_is_one_peer_nobody_can_be_forgotten_and_it_says_so(self, service: Any, home: Path) -> None:
        pinned = opened(service, home, user_id="ada", pinUserPeer=True)
        with pytest.raises(Exception, match="pinUserPeer makes everybody the peer user"):
            pinned.forget_person()


class SlowThinker(HonchoService):
    """Everything is quick but the reasoning."""

    def answer(self, asked: Asked) -> tuple[int, Any]:
        if asked.path.endswith("/chat"):
            self.released.wait(60)
        return super().answer(asked)


class TestContract(ServiceContract):
    scenarios = TestHoncho


def opened(service: Any, home: Path, *, user_id: str = "", place: str = "", **settings: Any) -> Any:
    configure(TestHoncho(), service, str(home))
    provider = load_provider("honcho", str(home))
    provider.save_config(settings, str(home))
    provider.initialize("s1", hermes_home=str(home), platform="cli", user_id=user_id, cwd=place)
    return provider


@pytest.mark.proves("honcho.setup")
def test_the_cloud_needs_a_key_and_a_block_of_ones_own_wins(home: Path) -> None:
    home.mkdir()
    assert not load_provider("honcho", str(home)).is_available()
    file = {"workspace": "shared", "peerName": "ada", "hosts": {"hermes": {"workspace": "birds"}, "other": {}}}
    (home / "honcho.json").write_text(json.dumps(file), encoding="utf-8")
    (home / ".env").write_text(f"HONCHO_API_KEY={KEY}\n", encoding="utf-8")
    with HonchoService() as service:
        provider = load_provider("honcho", str(home))
        provider.save_config({"baseUrl": service.url, "recallMode": "context"}, str(home))
        assert provider.is_available()
        provider.initialize("s1", hermes_home=str(home), platform="cli")
        assert provider.check_connection() == "Honcho answers, 0 conclusions about ada in the workspace birds"
        assert provider.recall_mode == "context"
    kept = json.loads((home / "honcho.json").read_text(encoding="utf-8"))
    assert (kept["workspace"], kept["hosts"]["other"]) == ("shared", {})
    assert kept["hosts"]["hermes"]["recallMode"] == "context"


@pytest.mark.proves("honcho.setup")
def test_honchos_own_file_is_read_where_the_home_has_none(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".honcho").mkdir()
    file = {"baseUrl": "http://localhost:1", "hosts": {"hermes": {"peerName": "ada"}}}
    (tmp_path / ".honcho" / "config.json").write_text(json.dumps(file), encoding="utf-8")
    provider = load_provider("honcho", str(home))
    assert provider.is_available()
    provider.initialize("s1", hermes_home=str(home), platform="cli")
    assert provider.get_status_config({})["peerName"] == "ada"


def call(manager: MemoryManager, name: str, **arguments: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(manager.handle_tool_call(name, arguments))
    return found
