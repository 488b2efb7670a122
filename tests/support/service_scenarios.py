"""What every provider of a service must do, whatever it speaks: subclass `ServiceScenarios` once per service.

The provider is driven through the real manager (and, for an outage, through a whole session) against its service on
loopback. A subclass says how it is configured, what its service holds, and how its tools are called.
"""

# ruff: noqa: ARG002 - fixtures are asked for by name even when only their effect matters

from __future__ import annotations

import json
import os
import threading
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from wire_server import KEY

from hermes.providers.config import save_config
from hermes.providers.delivery import Backoff
from hermes.providers.discovery import load_provider
from hermes.providers.manager import Limits, MemoryManager
from hermes.session.session import MemorySession

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from wire_server import WireService

    from conftest import Ran

FACT = "Ada keeps green parrots in Lisbon."
ANSWER = "Parrots like company."


class ServiceScenarios:
    name: ClassVar[str]
    slowest: ClassVar[float] = 10.0  # seconds the manager waits for a start or a recall, on a busy machine
    answers_anything: ClassVar[bool] = False  # nobody has recorded what it answers to a stored turn, beyond JSON
    forgets: ClassVar[str]  # what it says, after a turn and an entry of Ada, when it has forgotten her

    # --- what a subclass says -----------------------------------------------------------------------------------------

    def make(self) -> WireService:
        raise NotImplementedError

    def configuration(self, service: WireService) -> tuple[dict[str, Any], dict[str, str]]:
        """Values of `<name>.json`, and lines of `.env`."""
        raise NotImplementedError

    def held(self, service: Any) -> list[str]:
        """Every text the service holds, one per stored thing."""
        raise NotImplementedError

    def profile_call(self) -> tuple[str, dict[str, Any]]:
        raise NotImplementedError

    def forget_call(self, service: Any, text: str) -> tuple[str, dict[str, Any]]:
        """The tool call that forgets what the service holds with this text in it."""
        raise NotImplementedError

    def settle(self, manager: MemoryManager) -> None:
        """What it takes until a turn can be recalled, where the service waits for the end of a session."""

    # --- fixtures -----------------------------------------------------------------------------------------------------

    @pytest.fixture
    def service(self, home: Path) -> Iterator[WireService]:
        with self.make() as service:
            configure(self, service, str(home))
            yield service

    @pytest.fixture
    def told(self) -> list[str]:
        return []

    @pytest.fixture
    def manager(self, service: WireService, home: Path, told: list[str]) -> Iterator[MemoryManager]:
        manager = self.started(home, told)
        yield manager
        service.released.set()
        service.trouble = ""
        manager.shutdown_all()

    def started(self, home: Path, told: list[str], **identity: Any) -> MemoryManager:
        limits = Limits(recall_seconds=self.slowest, tool_seconds=self.slowest, drain_seconds=self.slowest)
        backoff = Backoff(first_pause=0.01, longest_pause=0.05)
        manager = MemoryManager(str(home), limits=limits, tell=told.append, backoff=backoff)
        manager.add_provider(load_provider(self.name, str(home)))
        manager.initialize_all("s1", platform="cli", agent_context="primary", **identity)
        assert manager.problems == []
        return manager

    # --- scenarios ----------------------------------------------------------------------------------------------------

    @pytest.mark.proves("services.turn", "services.protocol")
    def test_a_turn_is_stored_and_recalled(self, manager: MemoryManager, service: WireService) -> None:
        manager.sync_all(FACT, ANSWER, session_id="s1")
        assert manager.flush()
        assert sum("parrots" in text for text in self.held(service)) >= 1
        self.settle(manager)
        manager.on_turn_start(2, "Where are the parrots?")
        assert "parrots in Lisbon" in manager.prefetch_all("Where are the green parrots?", session_id="s1")
        assert "parrots" not in manager.prefetch_all("zzzz", session_id="s1")

    @pytest.mark.proves("services.recall_loop")
    def test_what_was_recalled_is_never_stored_again(self, manager: MemoryManager, service: WireService) -> None:
        manager.sync_all(FACT, ANSWER, session_id="s1")
        assert manager.flush()
        before = len(self.held(service))
        for number in range(5):
            recalled = manager.prefetch_all("green parrots?", session_id="s1")
            fenced = f"question {number}\n<memory-context>\n{recalled}\n</memory-context>"
            manager.sync_all(fenced, f"answer {number}", session_id="s1")
        assert manager.flush()
        assert sum("parrots" in text for text in self.held(service)) == before

    @pytest.mark.proves("services.profile")
    def test_the_profile_tool_shows_what_is_known(self, manager: MemoryManager, service: WireService) -> None:
        manager.on_memory_write("add", "user", FACT)
        assert manager.flush()
        name, arguments = self.profile_call()
        assert "parrots" in manager.handle_tool_call(name, arguments)

    @pytest.mark.proves("services.forget")
    def test_what_is_forgotten_is_gone(self, manager: MemoryManager, service: WireService) -> None:
        manager.on_memory_write("add", "user", FACT)
        assert manager.flush()
        name, arguments = self.forget_call(service, "parrots")
        assert "error" not in json.loads(manager.handle_tool_call(name, arguments))
        assert not any("parrots" in text for text in self.held(service))
        assert manager.prefetch_all("green parrots?") == ""

    @pytest.mark.proves("services.switch")
    def test_turns_go_to_the_session_they_were_said_in(self, manager: MemoryManager, service: WireService) -> None:
        manager.sync_all("first question about parrots", "first answer", session_id="s1")
        manager.on_session_switch("s2", parent_session_id="s1", reason="compression")
        manager.sync_all("second question about turtles", "second answer", session_id="s2")
        assert manager.flush()
        sent = [f"{each.path} {json.dumps(each.body)}" for each in service.asked if isinstance(each.body, dict)]
        assert any("s1" in text and "first answer" in text for text in sent)
        assert any("s2" in text and "second answer" in text for text in sent)
        assert not any("s2" in text and "first answer" in text for text in sent)

    @pytest.mark.proves("services.mirror")
    def test_add_replace_and_remove_are_mirrored(self, manager: MemoryManager, service: WireService) -> None:
        manager.on_memory_write("add", "user", "Drinks black coffee.", {"session_id": "s1"})
        manager.on_memory_write("add", "memory", "The build needs Node 20.", {"session_id": "s1"})
        changed = {"session_id": "s1", "old_text": "Drinks black coffee."}
        manager.on_memory_write("replace", "user", "Drinks green tea only.", changed)
        assert manager.flush()
        held = self.held(service)
        assert [sum(text in each for each in held) for text in ("black coffee", "green tea", "Node 20")] == [0, 1, 1]
        manager.on_memory_write("remove", "memory", "", {"old_text": "The build needs Node 20."})
        assert manager.flush()
        assert not any("Node 20" in each for each in self.held(service))

    @pytest.mark.proves("services.outage")
    @pytest.mark.parametrize("trouble", ["down", "dropped"])
    def test_an_outage_loses_nothing_and_stores_nothing_twice(
        self, manager: MemoryManager, service: WireService, told: list[str], trouble: str
    ) -> None:
        assert manager.prefetch_all("anything?", session_id="s1") == ""
        manager.sync_all("hello there", "hi", session_id="s1")
        assert manager.flush()
        service.trouble = trouble
        manager.sync_all(FACT, ANSWER, session_id="s1")
        manager.on_memory_write("add", "user", "Drinks green tea only.")
        assert not manager.flush()
        assert not manager.flush()
        assert len(told) == 1
        service.trouble = ""
        assert manager.flush()
        held = self.held(service)
        assert sum("parrots in Lisbon" in text for text in held) == 1
        assert sum("green tea" in text for text in held) == 1
        assert (len(told), told[-1]) == (2, f"{self.name} works again.")

    @pytest.mark.proves("services.outage")
    def test_an_outage_in_a_conversation_is_told_once_and_made_good_in_it(
        self, service: WireService, home: Path
    ) -> None:
        (home / "config.yaml").write_text(f"memory:\n  provider: {self.name}\n  recall_timeout: 20\n", encoding="utf-8")
        with MemorySession.open(home) as session:
            self._turn(session, "hello there", "hi")
            service.trouble = "down"
            for text in (FACT, "and also turtles in Porto"):
                self._turn(session, text, "noted")
            deliver(session)
            told = [notice.text for notice in session.notices.take() if notice.kind == "provider"]
            service.trouble = ""
            deliver(session)
            self._turn(session, "are you back?", "yes indeed I am")
            deliver(session)
            held = self.held(service)
            told += [notice.text for notice in session.notices.take() if notice.kind == "provider"]
        assert [text.split(":")[0] for text in told] == [
            f"{self.name} does not work at the moment",
            f"{self.name} works again.",
        ]
        assert sum("parrots in Lisbon" in text for text in held) == 1
        assert sum("turtles in Porto" in text for text in held) == 1

    @staticmethod
    def _turn(session: MemorySession, text: str, reply: str) -> None:
        session.prepare_turn(text)
        session.finish_turn(reply)

    @pytest.mark.proves("services.key")
    def test_a_wrong_key_says_what_to_do_and_is_never_shown(
        self, manager: MemoryManager, service: WireService, told: list[str]
    ) -> None:
        service.trouble = "key"
        assert manager.prefetch_all("anything?") == ""
        name, arguments = self.profile_call()
        answered = manager.handle_tool_call(name, arguments)
        manager.sync_all(FACT, ANSWER, session_id="s1")
        assert not manager.flush()
        assert f"hermes memory setup {self.name}" in answered
        assert KEY not in answered + "".join(told) + json.dumps(manager.status())
        service.trouble = ""
        assert manager.flush()
        assert any("parrots" in text for text in self.held(service))

    @pytest.mark.proves("services.limited")
    def test_a_rate_limit_is_respected_and_nothing_is_lost(
        self, manager: MemoryManager, service: WireService, told: list[str]
    ) -> None:
        service.trouble = "limited"
        manager.sync_all(FACT, ANSWER, session_id="s1")
        assert not manager.flush()
        assert "wait 7 s" in told[0]
        service.trouble = ""
        assert manager.flush()
        assert sum("parrots in Lisbon" in text for text in self.held(service)) == 1

    @pytest.mark.proves("services.malformed")
    @pytest.mark.parametrize("trouble", ["malformed", "odd"])
    def test_an_answer_in_another_form_is_an_error_and_no_memory(
        self, manager: MemoryManager, service: WireService, trouble: str
    ) -> None:
        service.trouble = trouble
        assert manager.prefetch_all("green parrots?") == ""
        name, arguments = self.profile_call()
        assert "surprise" not in (answered := manager.handle_tool_call(name, arguments))
        assert "welcome" not in answered

    @pytest.mark.proves("services.malformed", "services.outage")
    @pytest.mark.parametrize("trouble", ["malformed", "odd"])
    def test_what_was_answered_in_another_form_is_stored_once_when_it_works_again(
        self, manager: MemoryManager, service: WireService, told: list[str], trouble: str
    ) -> None:
        """A page that asks to log in, where the service should be, has stored nothing."""
        if trouble == "odd" and self.answers_anything:
            pytest.skip("any JSON may be what it answers")
        assert manager.prefetch_all("anything?", session_id="s1") == ""
        service.trouble = trouble
        manager.sync_all(FACT, ANSWER, session_id="s1")
        manager.on_memory_write("add", "user", "Drinks green tea only.")
        for _ in range(5):  # it takes a while until somebody notices
            assert not manager.flush()
        assert len(told) == 1
        service.trouble = ""
        assert manager.flush()
        held = self.held(service)
        assert sum("parrots in Lisbon" in text for text in held) == 1
        assert sum("green tea" in text for text in held) == 1

    @pytest.mark.proves("services.slow")
    def test_a_slow_answer_does_not_hold_up_a_turn(self, manager: MemoryManager, service: WireService) -> None:
        service.trouble = "slow"
        heard = len(service.asked)
        assert manager.prefetch_all("green parrots?") == ""
        assert len(service.asked) == heard  # the turn went on while the service still kept it waiting

    @pytest.mark.proves("services.setup")
    def test_the_connection_is_really_checked_and_secrets_stay_hidden(self, service: WireService, home: Path) -> None:
        provider = load_provider(self.name, str(home))
        provider.initialize("s1", hermes_home=str(home), platform="cli")
        said = provider.check_connection()
        assert said
        assert len(service.asked) >= 1
        assert KEY not in json.dumps(provider.get_status_config({}))
        fields = provider.get_config_schema()
        assert all(field.get("env_var") for field in fields if field.get("secret"))
        service.trouble = "key"
        with pytest.raises(Exception, match="401"):
            provider.check_connection()
        provider.shutdown()

    @pytest.mark.proves("services.setup")
    def test_set_up_on_the_command_line_keeps_the_answers_and_tries_them(
        self, service: WireService, home: Path, hermes: Callable[..., Ran]
    ) -> None:
        values, secrets = self.configuration(service)
        fields = {field["key"]: field for field in load_provider(self.name, str(home)).get_config_schema()}
        known = {key: secrets[field["env_var"]] for key, field in fields.items() if field.get("env_var") in secrets}
        known |= {key: str(value) for key, value in values.items() if key in fields}
        (home / ".env").unlink()
        answers = [word for key, value in known.items() for word in ("--set", f"{key}={value}")]
        done = hermes("memory", "setup", self.name, "--yes", *answers)
        assert done.code == 0, done.err
        assert hermes("config", "get", "memory.provider").out.strip() == self.name
        assert KEY not in done.out + done.err + (home / f"{self.name}.json").read_text(encoding="utf-8")
        assert len(service.asked) >= 1

    @pytest.mark.proves("services.nobody_talks")
    def test_work_that_nobody_talks_to_stores_nothing(self, service: WireService, home: Path) -> None:
        provider = load_provider(self.name, str(home))
        provider.initialize("s1", hermes_home=str(home), platform="cron", agent_context="cron")
        provider.sync_turn(FACT, ANSWER, session_id="s1")
        provider.on_memory_write("add", "user", FACT, {})
        provider.shutdown()
        assert self.held(service) == []

    @pytest.mark.proves("services.people")
    @pytest.mark.parametrize("people", [("ada", "bob"), ("ada lovelace", "ada-lovelace")])
    def test_two_people_do_not_see_each_others_memory(
        self, service: WireService, home: Path, people: tuple[str, str]
    ) -> None:
        one, other = (self.started(home, [], user_id=person) for person in people)
        one.on_memory_write("add", "user", FACT)
        assert one.flush()
        assert other.prefetch_all("green parrots?") == ""
        name, arguments = self.profile_call()
        assert "parrots" not in other.handle_tool_call(name, arguments)
        assert "parrots" in one.handle_tool_call(name, arguments)
        one.shutdown_all()
        other.shutdown_all()

    @pytest.mark.proves("services.forgotten")
    def test_a_person_who_is_forgotten_leaves_nothing_and_others_keep_theirs(
        self, service: WireService, home: Path
    ) -> None:
        for person in ("ada", "bob"):
            manager = self.started(home, [], user_id=person)
            manager.sync_all(f"{person} keeps parrots", ANSWER, session_id="s1")
            manager.on_memory_write("add", "user", f"{person} likes green tea.")
            assert manager.flush()
            self.settle(manager)
            manager.shutdown_all()
        said = {person: self._forgotten(home, person) for person in ("", "ada")}
        assert said[""] == ""  # without a person these are everybody's
        assert said["ada"].startswith(self.forgets)
        held = self.held(service)
        assert not any("ada" in text for text in held)
        assert sum("bob keeps parrots" in text for text in held) == 1
        assert sum("bob likes green tea" in text for text in held) == 1

    def _forgotten(self, home: Path, person: str) -> str:
        provider = load_provider(self.name, str(home))
        provider.initialize("forgetting", hermes_home=str(home), platform="cli", user_id=person)
        said: str = provider.forget_person()
        provider.shutdown()
        return said

    @pytest.mark.proves("services.threads")
    def test_the_provider_starts_no_thread(self, service: WireService, home: Path) -> None:
        provider = load_provider(self.name, str(home))
        before = {thread.name for thread in threading.enumerate()} | {"hermes-wire"}
        provider.initialize("s1", hermes_home=str(home), platform="cli")
        provider.sync_turn(FACT, ANSWER, session_id="s1")
        provider.prefetch("green parrots?", session_id="s1")
        after = {thread.name for thread in threading.enumerate()}
        provider.shutdown()
        assert after <= before


def configure(scenarios: ServiceScenarios, service: WireService, home: str) -> None:
    """Writes what the provider needs to find its service."""
    values, secrets = scenarios.configuration(service)
    os.makedirs(home, exist_ok=True)
    save_config(scenarios.name, home, values)
    with open(os.path.join(home, ".env"), "w", encoding="utf-8") as file:
        file.writelines(f"{name}={text}\n" for name, text in secrets.items())


def deliver(session: MemorySession) -> None:
    """Lets the manager try to hand over everything now."""
    assert session.external.manager is not None
    session.external.manager.flush()
