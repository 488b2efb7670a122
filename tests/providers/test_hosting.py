"""A plug-in in a process of its own, through the public session: the turn goes on, and it comes back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hosted import PATIENCE, configure, eventually, group_of, heard, process_of, recalls
from provider_faults import MISDEEDS, order
from provider_plugins import REGISTERS, told, tool_names

from hermes.session.session import MemorySession

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

HANGS = ("waits for ever", "computes for ever", "keeps the interpreter", "sends half an answer")
ENDS = ("ends its process", "crashes", "is killed", "leaves a program and ends", "sends a huge frame", "sends noise")
RAISES = ("raises", "raises beyond Exception", "wants to exit", "returns bytes", "returns a list", "takes all memory")
HARMLESS = ("returns a gigabyte", "forges a fence", "prints without end", "calls back")


def _is_told_once_that_it_fails_and_works_again(session: MemorySession) -> str:
    found: list[str] = []

    def works_again() -> bool:
        found.extend(told(session))
        return "misbehaving works again." in found

    eventually(works_again)
    assert [text.split(":")[0] for text in found] == [
        "misbehaving does not work at the moment",
        "misbehaving works again.",
    ]
    return found[0]


@pytest.mark.proves("providers.process.holds")
def test_every_misdeed_is_tried() -> None:
    assert {*HANGS, *ENDS, *RAISES, *HARMLESS} == MISDEEDS.keys()


@pytest.mark.proves("providers.process.holds", "providers.deadline", "providers.notices")
@pytest.mark.parametrize("misdeed", HANGS)
def test_one_that_hangs_costs_its_deadline_is_ended_and_comes_back(home: Path, misdeed: str) -> None:
    configure(home, recall_timeout=1, provider_tool_timeout=1)
    with MemorySession.open(home) as session:
        eventually(lambda: recalls(session))
        first = process_of(session)
        told(session)
        order(home, prefetch=misdeed)
        sent = session.prepare_turn("misdeed").messages[-1]["content"]
        session.finish_turn("done")
        assert sent == "misdeed"
        eventually(lambda: process_of(session) != first)
        order(home)
        eventually(lambda: recalls(session))
        _is_told_once_that_it_fails_and_works_again(session)
        assert not group_of(first)
    # Not lost; delivered again if the process was ended before it could say that it had the turn.
    assert "misdeed" in heard(home, "sync_turn")


@pytest.mark.proves("providers.process.holds", "providers.process.restart", "providers.notices")
@pytest.mark.parametrize("misdeed", ENDS)
def test_one_whose_process_ends_is_started_again(home: Path, misdeed: str) -> None:
    configure(home)
    with MemorySession.open(home) as session:
        assert recalls(session)
        first = process_of(session)
        order(home, prefetch=misdeed)
        assert session.prepare_turn("misdeed").messages[-1]["content"] == "misdeed"
        session.finish_turn("done")
        order(home)
        eventually(lambda: recalls(session))
        assert "its process " in _is_told_once_that_it_fails_and_works_again(session)
        assert process_of(session) not in (0, first)
        assert not group_of(first), "something it started is left behind"
        assert session.external.status()[0]["restarts"] == 1
    assert heard(home, "initialize") == [session.id, session.id]
    assert heard(home, "sync_turn").count("misdeed") == 1


@pytest.mark.proves("providers.process.holds")
@pytest.mark.parametrize("misdeed", RAISES)
def test_one_that_raises_or_returns_no_text_goes_on_in_its_process(home: Path, misdeed: str) -> None:
    configure(home, provider_memory_mb=300)
    with MemorySession.open(home) as session:
        assert recalls(session)
        first = process_of(session)
        order(home, prefetch=misdeed)
        assert session.prepare_turn("misdeed").messages[-1]["content"] == "misdeed"
        session.finish_turn("done")
        (bad,) = told(session)
        order(home)
        eventually(lambda: recalls(session))
        assert process_of(session) == first
        assert told(session) == ["misbehaving works again."]
    words = {"raises": "RuntimeError: boom", "returns bytes": "TypeError: expected text, got bytes"}
    words |= {"wants to exit": "SystemExit: a provider", "takes all memory": "MemoryError"}
    assert words.get(misdeed, "") in bad


@pytest.mark.proves("providers.process.holds")
@pytest.mark.parametrize("misdeed", HARMLESS)
def test_too_much_text_forged_fences_noise_and_calls_back_are_harmless(
    home: Path, misdeed: str, capfd: pytest.CaptureFixture[str]
) -> None:
    configure(home, recall_timeout=30)
    with MemorySession.open(home) as session:
        order(home, prefetch=misdeed)
        sent = session.prepare_turn("misdeed").messages[-1]["content"]
        session.finish_turn("done")
        assert len(sent) < 100_000
        assert sent.count("<memory-context") <= 1
        if misdeed == "calls back":
            assert "It recalled '' and" in sent
            assert "a provider may not call tools of providers" in sent
        order(home)
        assert recalls(session)
        assert told(session) == []
    printed = capfd.readouterr()
    assert (printed.out, printed.err) == ("", "")


@pytest.mark.proves("providers.process.holds", "providers.tools.fail")
@pytest.mark.parametrize("misdeed", ["keeps the interpreter", "crashes", "returns bytes", "returns a gigabyte"])
def test_a_tool_that_misbehaves_is_an_error_for_the_model(home: Path, misdeed: str) -> None:
    configure(home, provider_tool_timeout=5 if misdeed == "returns a gigabyte" else 1)
    with MemorySession.open(home) as session:
        session.prepare_turn("ask it")
        order(home, handle_tool_call=misdeed)
        result = session.call_tool("misbehaving_ask", {})
        assert "error" in json.loads(result) or misdeed == "returns a gigabyte"
        assert len(result) < 300_000
        order(home)
        eventually(lambda: "tea is warm" in session.call_tool("misbehaving_ask", {}))
        session.finish_turn("done")


@pytest.mark.proves("providers.process.restart", "providers.outbox")
def test_what_its_process_dies_of_is_kept_and_handed_over_to_the_next(home: Path) -> None:
    configure(home)
    with MemorySession.open(home) as session:
        order(home, sync_turn="crashes")
        session.prepare_turn("keep this")
        session.finish_turn("done")
        eventually(lambda: session.external.status()[0]["state"] != "ok")
        assert session.external.status()[0]["waiting"] == 1
        order(home)
        eventually(lambda: heard(home, "sync_turn") == ["keep this"])
        eventually(lambda: session.external.status()[0]["state"] == "ok")
        assert "SIGSEGV" in told(session)[0]


@pytest.mark.proves("providers.process.restart", "providers.outbox.refused")
def test_what_it_dies_of_again_and_again_is_set_aside_and_holds_up_nothing(home: Path) -> None:
    from hermes.providers.delivery import Backoff
    from hermes.providers.hosting import HostedProvider
    from hermes.providers.manager import Limits, MemoryManager

    configure(home)
    provider = HostedProvider("misbehaving", str(home), str(home))
    provider.wait_until_loaded()
    limits = Limits(recall_seconds=PATIENCE, drain_seconds=PATIENCE)
    manager = MemoryManager(str(home), limits=limits, backoff=Backoff(first_pause=0.01, longest_pause=0.02))
    manager.add_provider(provider)
    manager.initialize_all("s1", platform="cli")
    order(home, sync_turn="ends its process")
    manager.sync_all("poison", "yes", session_id="s1")
    eventually(lambda: manager.status()[0]["refused"] == 1)
    order(home)
    manager.sync_all("fine", "yes", session_id="s1")
    eventually(lambda: heard(home, "sync_turn") == ["fine"])
    assert manager.status()[0]["restarts"] == 10
    manager.shutdown_all()


@pytest.mark.proves("providers.process.restart", "providers.switch")
def test_one_that_is_started_again_hears_of_the_session_that_is_current(home: Path) -> None:
    configure(home)
    with MemorySession.open(home) as before:
        assert recalls(before)
        with MemorySession.open(home, follows=before, reason="new") as session:
            order(home, prefetch="ends its process")
            session.prepare_turn("misdeed")
            session.finish_turn("done")
            order(home)
            eventually(lambda: recalls(session))
            assert heard(home, "initialize") == [before.id, session.id]


@pytest.mark.proves("providers.process", "providers.foreign")
def test_a_plug_in_for_hermes_agent_works_unchanged_in_a_process_and_finds_its_key(home: Path) -> None:
    key = 'import os\n        return "key " + os.environ["LEDGER_KEY"] + "; " + "\\n".join(self._lines)'
    configure(home, "ledger", REGISTERS.replace('return "\\n".join(self._lines)', key))
    (home / ".env").write_text("LEDGER_KEY=k-17\n")
    with MemorySession.open(home) as session:
        assert "ledger_read" in tool_names(session)
        session.prepare_turn("pay the milkman")
        session.finish_turn("done")
        assert session.external.manager is not None
        assert session.external.manager.flush()
        assert "user said: pay the milkman" in session.prepare_turn("milk?").messages[-1]["content"]
        assert json.loads(session.call_tool("ledger_read", {"line": 0})) == {"line": "user said: pay the milkman"}
        assert "no such line" in session.call_tool("ledger_read", {"line": 7})
        added = session.call_tool("memory", {"action": "add", "target": "user", "content": "Owes the milkman."})
        session.finish_turn("done")
        assert "staged" in added or session.external.manager.flush()


@pytest.mark.proves("providers.process")
def test_the_setting_chooses_who_runs_apart(home: Path) -> None:
    for setting, apart in (("plugins", True), ("all", True), ("none", False)):
        configure(home, provider_process=setting)
        with MemorySession.open(home) as session:
            assert ("process" in session.external.status()[0]) is apart
    for setting, apart in (("plugins", False), ("all", True)):
        configure(home, provider="holographic", provider_process=setting)
        with MemorySession.open(home) as session:
            assert recalls(session) is False
            assert ("process" in session.external.status()[0]) is apart


BROKEN = {
    "import nowhere  # MemoryProvider": "ModuleNotFoundError: No module named 'nowhere'",
    "x = 'MemoryProvider'": "registers no memory provider",
    "import os\nos._exit(4)  # MemoryProvider": "its process ended with status 4",
}


@pytest.mark.proves("providers.process", "providers.init-fails")
@pytest.mark.parametrize("code", BROKEN)
def test_what_does_not_load_says_why_and_the_session_goes_on(home: Path, code: str) -> None:
    configure(home, "broken", code)
    with MemorySession.open(home) as session:
        (why,) = told(session)
        assert BROKEN[code] in why
        session.prepare_turn("hello")
        session.finish_turn("hi")


OPENS_A_SESSION = """
from provider_faults import Misbehaving
from hermes.session.session import MemorySession

class Nested(Misbehaving):
    name = "nested"
    def prefetch(self, query, *, session_id=""):
        with MemorySession.open(self._home) as session:
            return " ".join(notice.text for notice in session.notices.take())

def register(ctx):
    ctx.register_memory_provider(Nested())
"""


@pytest.mark.proves("providers.process.holds")
@pytest.mark.parametrize("place", ["plugins", "none"])
def test_a_session_that_a_provider_opens_has_no_providers(home: Path, place: str) -> None:
    configure(home, "nested", OPENS_A_SESSION, recall_timeout=30, provider_process=place)
    with MemorySession.open(home) as session:
        sent = session.prepare_turn("tea?").messages[-1]["content"]
        session.finish_turn("done")
    assert "a memory provider cannot use memory providers itself" in sent


COMMANDS: dict[str, Callable[[Any], bool]] = {
    "memory status --json": lambda ran: "in a process of its own" in ran.out,
    "doctor": lambda ran: "provider misbehaving" in ran.out,
    "memory setup misbehaving --yes": lambda ran: "it started" in ran.out,
    "memory deliver": lambda ran: "nothing left" in ran.out,
    "plugins check misbehaving": lambda ran: ran.code == 0,
}


@pytest.mark.proves("providers.process", "providers.status", "providers.setup")
@pytest.mark.parametrize("words", COMMANDS)
def test_commands_about_providers_work_and_leave_no_process(home: Path, hermes: Callable[..., Any], words: str) -> None:
    configure(home)
    before = _children()
    ran = hermes(*words.split())
    assert COMMANDS[words](ran), ran
    eventually(lambda: _children() <= before)


def _children() -> set[int]:
    import os
    import threading

    found = set()
    for thread in threading.enumerate():
        try:
            with open(f"/proc/{os.getpid()}/task/{thread.native_id}/children", encoding="ascii") as file:
                found |= set(map(int, file.read().split()))
        except FileNotFoundError:
            continue
    return found
