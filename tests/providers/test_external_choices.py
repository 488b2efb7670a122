"""How providers are chosen, combined and told of other sessions, through the public session."""

# ruff: noqa: ARG002 - hooks are called with more than a test looks at

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import pytest
from provider_plugins import Gate, Notebook, take_turn, tool_names, use

from hermes.base.errors import NotFound
from hermes.session.session import MemorySession

if TYPE_CHECKING:
    from pathlib import Path

CONTEXT = {"context_expand", "context_compact"}  # compaction needs them, whatever a platform has
pytestmark = pytest.mark.usefixtures("home")


@pytest.mark.proves("providers.several", "providers.budget")
def test_several_providers_share_the_budget_and_repeat_nothing(home: Path) -> None:
    first, second = Notebook("first"), Notebook("second")
    first.facts = ["Ada likes green tea.", *(f"First tea fact number {n} is here." for n in range(200))]
    second.facts = ["ADA LIKES GREEN TEA", "Tea came from China."]
    use(home, first, second, recall_tokens=300)
    with MemorySession.open(home) as session:
        session.call_tool(
            "memory", {"action": "add", "target": "memory", "content": "First tea fact number 0 is here."}
        )
        sent = session.prepare_turn("tea").messages[-1]["content"]
        assert sent.lower().count("ada likes green tea") == 1
        assert "Tea came from China." in sent
        assert "fact number 0 is" not in sent
        assert "[… more was recalled than fits]" in sent
        assert {"first_find", "second_find"} <= set(tool_names(session))
        second.facts.append("Second only tea.")
        assert "Second only" in session.call_tool("second_find", {"words": "tea"})
        session.finish_turn("ok")
    assert (len(first.turns), len(second.turns)) == (1, 1)
    from hermes.base.tokens import estimate

    assert estimate(sent) < 450


@pytest.mark.proves("providers.several", "providers.deadline")
def test_one_slow_provider_does_not_cost_the_others_their_recall(home: Path) -> None:
    slow, quick, gate = Notebook("slow"), Notebook("quick"), Gate()
    quick.facts = slow.facts = ["Tea is warm."]
    slow.in_prefetch = gate.wait
    use(home, slow, quick, recall_timeout=2)
    with MemorySession.open(home) as session:
        assert "Tea is warm." in session.prepare_turn("tea").messages[-1]["content"]
        session.finish_turn("ok")
        gate.open()


@pytest.mark.proves("providers.modes")
@pytest.mark.parametrize(
    ("mode", "recalls", "tools"), [("hybrid", True, True), ("context", True, False), ("tools", False, True)]
)
def test_the_three_modes_hold_for_every_provider(
    home: Path, notebook: Notebook, mode: str, recalls: bool, tools: bool
) -> None:
    use(home, notebook, provider_mode=mode)
    with MemorySession.open(home) as session:
        sent = session.prepare_turn("tea").messages[-1]["content"]
        assert ("Ada likes" in sent, "notebook_find" in tool_names(session)) == (recalls, tools)
        session.finish_turn("ok")
    assert ("queue_prefetch tea" in notebook.calls) == recalls
    assert len(notebook.turns) == 1


@pytest.mark.proves("providers.modes")
def test_a_mode_in_the_providers_own_configuration_counts(home: Path, notebook: Notebook) -> None:
    type(notebook).recall_mode = "tools"  # type: ignore[assignment, method-assign]
    try:
        use(home, notebook)
        with MemorySession.open(home) as session:
            assert session.prepare_turn("tea").messages[-1]["content"] == "tea"
    finally:
        del type(notebook).recall_mode


@pytest.mark.proves("providers.toolsets")
def test_a_platform_without_the_memory_toolset_has_neither_provider_tools_nor_latency(
    home: Path, notebook: Notebook
) -> None:
    use(home, notebook)
    with open(home / "config.yaml", "a", encoding="utf-8") as file:
        file.write("enabled_toolsets:\n  telegram: [session_search]\n")
    with MemorySession.open(home, source="telegram") as session:
        assert {"session_search"} == set(tool_names(session)) - CONTEXT
        session.prepare_turn("tea")
        session.finish_turn("ok")
    assert (notebook.started, notebook.calls) == ([], [])
    with MemorySession.open(home, source="cli") as session:
        assert {"memory", "notebook_find", "session_search"} <= set(tool_names(session))
    with MemorySession.open(home, source="cli", toolsets=["memory"]) as session:
        assert {"memory", "notebook_find"} == set(tool_names(session)) - CONTEXT


@pytest.mark.proves("providers.first-turn")
def test_recall_warmed_in_the_background_comes_one_turn_later(home: Path) -> None:
    class Warmed(Notebook):
        cache = ""

        def prefetch(self, query: str, *, session_id: str = "") -> str:
            return self.cache

        def queue_prefetch(self, query: str, *, session_id: str = "") -> None:
            self.cache = f"- prepared for {query}"

    use(home, Warmed())
    with MemorySession.open(home) as session:
        assert session.prepare_turn("tea").messages[-1]["content"] == "tea"
        session.finish_turn("ok")
        session.external.manager.flush()  # type: ignore[union-attr]
        assert "prepared for tea" in session.prepare_turn("more").messages[-1]["content"]


@pytest.mark.proves("providers.switch", "providers.delegation")
def test_session_changes_and_delegated_work_reach_the_provider_in_order(home: Path, notebook: Notebook) -> None:
    use(home, notebook)
    reasons = ("resume", "branch", "reset", "new", "compression")
    with MemorySession.open(home) as session:
        take_turn(session, "one")
        session.external.on_session_end(session.request().messages)
        for reason in reasons:
            session.external.on_session_switch(f"to-{reason}", parent_session_id=session.id, reason=reason)
        session.external.on_delegation("count", "three", child_session_id="child")
    calls = [call for call in notebook.calls if not call.startswith(("turn", "prefetch", "queue"))]
    assert calls[:2] == ["sync one", f"end {session.id}"]
    assert [call for call in calls if call.startswith("switch")] == [f"switch {reason}" for reason in reasons]
    assert "delegated count: three (child)" in calls


@pytest.mark.proves("providers.switch", "providers.switch.isolated")
def test_a_session_that_follows_another_takes_over_its_providers(home: Path, notebook: Notebook) -> None:
    use(home, notebook)
    first = MemorySession.open(home)
    take_turn(first, "one")
    second = MemorySession.open(home, follows=first, reason="new")
    first.close()
    take_turn(second, "two")
    third = MemorySession.open(home, resume=second.branch(), follows=second, reason="branch")
    second.close()
    assert "Ada likes" in third.prepare_turn("tea?").messages[-1]["content"]
    assert "notebook_find" in tool_names(third)
    third.finish_turn("green")
    with pytest.raises(NotFound):
        MemorySession.open(home, resume="nowhere", follows=third, reason="resume")
    third.undo()
    take_turn(third, "three")
    assert third.external.manager.names() == ["notebook"]  # type: ignore[union-attr]
    third.close()
    assert [each[0] for each in notebook.started] == [first.id]
    kinds = ("sync", "end", "switch", "shutdown")  # a switch may be told twice, when a recall was under way
    order = [call for call, _ in groupby(call for call in notebook.calls if call.startswith(kinds))]
    assert order == [
        *("sync one", f"end {first.id}", "switch new"),
        *("sync two", f"end {second.id}", "switch branch"),
        *("sync tea?", "switch undo", "sync three", f"end {third.id}", "shutdown"),
    ]
    assert [turn[2] for turn in notebook.turns] == [first.id, second.id, third.id, third.id]


@pytest.mark.proves("providers.compress")
def test_a_compaction_asks_the_provider_and_tells_it(home: Path, notebook: Notebook) -> None:
    use(home, notebook)
    with MemorySession.open(home) as session:
        for number in range(40):
            session.prepare_turn(f"question {number} " + "word " * 50)
            session.finish_turn(f"answer {number} " + "word " * 50)
        assert session.external.on_pre_compress(session.request().messages) == "- 80 messages were about tea"
        assert session.compact() is not None
        session.prepare_turn("and now?")
        session.finish_turn("now")
    calls = [call for call in notebook.calls if call.startswith(("end", "switch", "sync and"))]
    assert calls[0].startswith("end")
    assert calls[-2:] == ["sync and now?", f"end {session.id}"]


@pytest.mark.proves("providers.deadline")
def test_a_turn_never_waits_longer_than_the_deadline(home: Path, notebook: Notebook) -> None:
    gate = Gate()
    use(home, notebook, recall_timeout=1, provider_drain_timeout=0.2)
    with MemorySession.open(home) as session:
        notebook.in_prefetch = gate.wait
        session.prepare_turn("tea")
        session.finish_turn("ok")
        session.prepare_turn("tea again")
        assert notebook.calls.count(f"prefetch {session.id}") == 1  # while a call hangs, later turns do not ask at all
        assert "does not work" in session.call_tool("notebook_find", {"words": "tea"})
        session.finish_turn("ok")
        assert not gate.left.is_set()  # no turn waited until it had its answer
        gate.open()
