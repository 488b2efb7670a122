"""byterover with a program that speaks brv's MCP."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from brv_program import REGISTRY, BrvProgram
from contract_scenarios import ServiceContract
from service_scenarios import ANSWER, FACT, ServiceScenarios, configure
from wire_server import KEY

from hermes.providers.discovery import load_provider
from hermes.session.session import MemorySession

if TYPE_CHECKING:
    from hermes.providers.manager import MemoryManager


class TestByteRover(ServiceScenarios):
    name = "byterover"
    forgets = "deleted 2 notes and brv's history of them in "

    def make(self) -> Any:
        return BrvProgram()

    def configuration(self, service: Any) -> tuple[dict[str, Any], dict[str, str]]:
        return {"command": service.command, "curate_wait": 0.5}, {"BRV_API_KEY": KEY}

    def held(self, service: Any) -> list[str]:
        return list(service.notes())

    def profile_call(self) -> tuple[str, dict[str, Any]]:
        return "brv_query", {"query": "Who keeps parrots?"}

    def forget_call(self, service: Any, text: str) -> tuple[str, dict[str, Any]]:
        [folder] = set(service.folders)
        tree = os.path.join(folder, ".brv", "context-tree")
        paths = [Path(place, name) for place, _, names in os.walk(tree) for name in names]
        [path] = [each for each in paths if text in each.read_text(encoding="utf-8")]
        return "brv_forget", {"note": os.path.relpath(path, tree)}

    @pytest.mark.proves("byterover.tools")
    def test_the_tools_note_answer_list_and_delete(self, manager: MemoryManager) -> None:
        noted = call(manager, "brv_curate", content=FACT)
        assert (noted["result"], noted["stored"]) == ("noted", True)
        assert FACT in call(manager, "brv_query", query="Where are green parrots?")["result"]
        assert call(manager, "brv_query", query="anything else?")["result"] == "nothing is noted about this yet"
        status = call(manager, "brv_status")
        assert status["total"] == 1
        assert call(manager, "brv_forget", note=status["notes"][0])["result"] == "forgotten"
        for note in (status["notes"][0], "../../config.json"):
            assert "there is no note" in call(manager, "brv_forget", note=note)["error"]

    @pytest.mark.proves("byterover.process")
    def test_one_program_serves_every_call_and_is_started_again_when_it_ended(
        self, manager: MemoryManager, service: Any
    ) -> None:
        for number in range(5):
            manager.sync_all(f"question {number} about parrots", ANSWER, session_id="s1")
            assert manager.flush()
            assert "parrots" in manager.prefetch_all("what about the parrots?", session_id="s1")
        assert len(service.folders) == 1
        service.trouble = "dropped"
        assert manager.prefetch_all("what about the parrots?", session_id="s1") == ""
        service.trouble = ""
        assert "parrots" in manager.prefetch_all("what about the parrots?", session_id="s1")
        assert len(service.folders) == 2

    @pytest.mark.proves("byterover.empty")
    def test_a_curate_that_noted_nothing_is_reported(self, manager: MemoryManager) -> None:
        answered = call(manager, "brv_curate", content="only chit-chat")
        assert answered["stored"] is False
        assert answered["result"].startswith("nothing was noted")
        assert call(manager, "brv_status")["total"] == 0

    @pytest.mark.proves("byterover.compress")
    @pytest.mark.parametrize("wanted", [True, False])
    def test_what_leaves_the_context_is_noted_before(self, service: Any, home: Path, *, wanted: bool) -> None:
        configure(self, service, str(home))
        provider = load_provider("byterover", str(home))
        provider.save_config({"auto_extract": wanted}, str(home))
        provider.initialize("s1", hermes_home=str(home), platform="cli")
        messages = [{"role": "user", "content": f"message {number} {'x' * 900}"} for number in range(30)]
        assert provider.on_pre_compress([*messages, {"role": "user", "content": FACT}]) == ""
        provider.shutdown()
        noted = list(service.notes())
        assert len(noted) == wanted
        assert all(FACT in text and "message 29" in text and "message 20" not in text for text in noted)
        assert all(len(text) < 6_000 for text in noted)

    @pytest.mark.proves("services.forgotten")
    def test_only_a_history_that_is_brvs_own_is_removed(self, service: Any, home: Path, nobodys_home: Path) -> None:
        provider = load_provider("byterover", str(home))
        provider.initialize("s1", hermes_home=str(home), platform="cli", user_id="ada")
        provider.sync_turn(FACT, ANSWER, session_id="s1")
        known = nobodys_home / ".local" / "share" / "brv" / f"{REGISTRY}.json"
        [folder] = service.folders
        mine = home / "not-brvs"
        mine.mkdir()
        known.write_text(json.dumps({"projects": {folder: {"storagePath": str(mine)}}}), encoding="utf-8")
        assert provider.forget_person().startswith("deleted 1 notes; a brv that")
        assert mine.exists()
        assert not Path(folder).exists()


class TestContract(ServiceContract):
    scenarios = TestByteRover


@pytest.mark.proves("byterover.missing")
def test_without_brv_the_conversation_works_and_says_what_is_missing(home: Path) -> None:
    home.mkdir()
    settings = "memory:\n  provider: byterover\n"
    (home / "config.yaml").write_text(settings, encoding="utf-8")
    (home / "byterover.json").write_text('{"command": "/nowhere/brv"}', encoding="utf-8")
    with MemorySession.open(home) as session:
        session.prepare_turn("hello there, how are you?")
        session.finish_turn("Fine.")
        told = " ".join(notice.text for notice in session.notices.take())
    assert "npm install -g byterover-cli" in told


def call(manager: MemoryManager, name: str, **arguments: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(manager.handle_tool_call(name, arguments))
    return found
