"""What runs beside a conversation: helpers that cannot be had, engines held back, old sessions, delegated work."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from agents import call_tools, configure
from compacted import configure as configure_compaction
from compacted import talk
from curation_home import FILLER, store_with
from provider_plugins import Notebook, install

from hermes import Agent, MemorySession, SessionDB
from hermes.agent import AgentParts
from hermes.compaction.compressor import Breaker
from hermes.llm.scripted import Reply, Scripted
from hermes.memory.store import MemoryStore
from hermes.session.compaction import BREAKER
from hermes.session.lifecycle import transcript
from hermes.session.review import prune
from hermes.settings.config import load_settings
from hermes.settings.home import find_home
from hermes.tools.builtin import Task

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran

LONG_AGO = 100 * 86_400
RESTING = 1.0  # stands for a moment that has yet to come when the test runs


@pytest.mark.proves("compaction.engine")
@pytest.mark.parametrize(
    ("breaker", "why"),
    [
        (Breaker(), ""),
        (Breaker(ineffective=2), "2 compactions in a row did not help"),
        (Breaker(main_until=RESTING, error="no credit"), "the main model is not asked for"),
    ],
)
def test_status_says_why_an_engine_is_held_back(
    home: Path, hermes: Callable[..., Ran], breaker: Breaker, why: str
) -> None:
    with MemorySession.open(home) as session:
        session.prepare_turn("hello")
        session.finish_turn("hi")
    stored = breaker.as_dict() | ({"main_until": time.time() + 600} if breaker.main_until else {})
    with SessionDB.open(home / "state.db") as db:
        db.set_meta(f"{BREAKER}:{session.id}", json.dumps(stored))
    engine = hermes("status", "--json").json["engine"]
    assert (engine["breaker"], engine["recent_sessions_compacted"]) == ("open" if why else "closed", 0)
    assert [why in each["why"] for each in engine["held_back"]] == ([True] if why else [])


@pytest.mark.proves("compaction.ladder")
def test_a_helper_for_summaries_that_cannot_be_had_leaves_them_to_the_main_model(home: Path) -> None:
    configure_compaction(home, "auxiliary: {compression: {provider: nobody, model: none}}\n")
    model = Scripted(["- a summary that says too little"] * 20)
    with Agent.open(home, model=model) as agent:
        talk(agent.session, 20)
        done = agent.session.compact()
    assert done is not None


@pytest.mark.proves("session.fence")
def test_what_was_added_to_a_message_is_no_part_of_what_was_said_after_a_compaction_either(home: Path) -> None:
    configure_compaction(home)
    with MemorySession.open(home) as session:
        talk(session, 20)
        session.prepare_turn("the last request", recalled="The user met Ada in May.", overlay="Answer in one line.")
        assert session.compact() is not None
        (sent,) = [each for each in session.request().messages if "the last request" in str(each["content"])]
        (said,) = [each for each in session.context.said() if "the last request" in str(each["content"])]
    assert "Ada" in sent["content"]
    assert said["content"] == "the last request"


@pytest.mark.proves("providers.mirror")
def test_an_entry_that_moved_to_the_archive_was_not_forgotten(home: Path) -> None:
    configure(home, "memory: {memory_char_limit: 200}\n")
    notebook = Notebook()
    with MemorySession.open(home, providers=[notebook]) as session:
        session.prepare_turn("remember")
        for content in ("The deploy host is atlas-7.", "x" * 180):
            session.call_tool("memory", {"action": "add", "target": "memory", "content": content})
        session.finish_turn("ok")
    assert [each.entry for each in MemoryStore.open(home).archived("memory")] == ["The deploy host is atlas-7."]
    assert [(action, content) for action, _, content, _ in notebook.writes] == [
        ("add", "The deploy host is atlas-7."),
        ("add", "x" * 180),
    ]


@pytest.mark.proves("providers.recall")
def test_unreadable_memory_does_not_keep_a_provider_from_recalling(home: Path) -> None:
    notebook = Notebook()
    notebook.facts = ["Ada likes tea."]
    MemoryStore.open(home).add("memory", "Uses vim.")
    with MemorySession.open(home, providers=[notebook]) as session:
        (home / "memories/MEMORY.md").unlink()
        (home / "memories/MEMORY.md").mkdir()
        session.prepare_turn("what does Ada like?")
        session.finish_turn("tea")
        sent = session.prepare_turn("does Ada like tea?")
    assert "Ada likes tea." in str(sent.messages)


@pytest.mark.proves("review.elsewhere")
def test_a_digest_names_calls_and_text_of_messages_with_parts_and_leaves_out_empty_ones() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    picture = [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {}}, "odd"]
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": picture},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": ""},
    ]
    assert transcript(messages) == "[user] see\n\n[assistant] (calls look with {})"


@pytest.mark.proves("record.additions")
def test_a_session_of_an_earlier_version_shows_its_prompt_as_one_section(
    home: Path, hermes: Callable[..., Ran]
) -> None:
    with SessionDB.open(home / "state.db") as db:
        session = db.create_session(source="cli", system_prompt="You are Hermes.")
        db.append(session, {"role": "user", "content": "hello"})
    shown = hermes("sessions", "show", session, "--context", "--json").json
    (turn,) = shown["turns"]
    assert [each["name"] for each in turn["prompt"]["sections"]] == ["prompt"]


@pytest.mark.proves("agent.delegation")
@pytest.mark.parametrize("inherit", [True, False])
def test_a_delegated_task_gets_the_tools_of_servers_when_the_settings_say_so(home: Path, inherit: bool) -> None:
    configure(home, f"delegation: {{inherit_mcp_toolsets: {str(inherit).lower()}}}\n")
    parent = AgentParts(home=find_home(home), source="cli", named=Scripted([]))
    assert ("mcp" in parent.toolsets, "mcp" in parent.child(Task(goal="count")).toolsets) == (True, inherit)


@pytest.mark.proves("agent.todo")
def test_the_list_of_steps_of_a_call_without_a_conversation_is_empty(hermes: Callable[..., Ran]) -> None:
    assert hermes("tool", "todo", "{}").json["todos"] == []


@pytest.mark.proves("compression.expand")
def test_nothing_can_be_brought_back_where_nothing_was_ever_said(hermes: Callable[..., Ran], home: Path) -> None:
    ran = hermes("tool", "context_expand", '{"ids": "1-5"}')
    assert (ran.code, "none of these messages" in ran.json["error"]) == (1, True)
    assert not (home / "state.db").exists()


BARE = """
import time

class Bare:
    name = "bare"
    def is_available(self): AVAILABLE
    def initialize(self, session_id, **kwargs): pass
    def get_tool_schemas(self): return []

def register(context):
    context.register_memory_provider(Bare())
"""


@pytest.mark.proves("providers.status")
def test_a_provider_with_nothing_but_the_necessary_is_looked_at_and_one_that_hangs_is_not_waited_for(
    home: Path, hermes: Callable[..., Ran]
) -> None:
    install(home, "bare", BARE.replace("AVAILABLE", "return True"))
    (home / "config.yaml").write_text("memory: {provider: bare}\n")
    answered = hermes("memory", "status", "--json")
    assert "it started; it has no connection test" in answered.out
    install(home, "hanging", BARE.replace("AVAILABLE", "time.sleep(60)").replace("bare", "hanging"))
    (home / "config.yaml").write_text("memory: {provider: hanging, provider_tool_timeout: 1}\n")
    assert "it did not return within 1 s" in hermes("memory", "status", "--json").out


@pytest.mark.proves("search.cli-wrong-clock")
def test_pruning_removes_delegated_parts_with_the_one_that_started_them(home: Path) -> None:
    configure(home, "sessions: {vacuum_after_prune: false}\n")
    then = time.time() - LONG_AGO
    with SessionDB.open(home / "state.db") as db:
        old = db.create_session(source="cli", started_at=then)
        db.append(old, {"role": "user", "content": "hello", "timestamp": then})
        part = db.create_session(source="subagent", started_at=then, parent_session_id=old, kind="delegate")
        db.append(part, {"role": "user", "content": "count", "timestamp": then})
        for each in (part, old):
            db.end_session(each, "done")
        size = (home / "state.db").stat().st_size
        assert prune(db, load_settings(find_home(home))) == 1
        assert (db.find_session(old), db.find_session(part)) == (None, None)
        assert (home / "state.db").stat().st_size >= size  # nobody asked for the file to be rewritten


@pytest.mark.proves("search.digest")
def test_a_helper_for_searches_that_is_switched_off_leaves_the_plain_search(home: Path) -> None:
    with MemorySession.open(home) as session:
        session.prepare_turn("The walrus lives in the harbour.")
        session.finish_turn("Noted.")
    configure(home, "auxiliary: {session_search: {model: 'scripted:x.json', enabled: false}}\n")
    (found,) = call_tools(home, home.parent / "work", ("session_search", {"query": "walrus"}))
    assert (found["count"], "summary" in found["results"][0]) == (1, False)


@pytest.mark.proves("session.resume")
def test_a_project_of_the_settings_holds_for_a_session_that_names_none(home: Path, tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("Use tabs.")
    model = Scripted([Reply(text="hi")])
    with Agent.open(home, model=model, cwd=str(tmp_path)) as agent:
        list(agent.turn("hello"))
    with MemorySession.open(home, resume=agent.session.id, project="") as session:
        assert session.about().last_id


@pytest.mark.proves("curator.proposals")
def test_the_curator_asks_the_helper_of_the_settings_when_it_may(home: Path, hermes: Callable[..., Ran]) -> None:
    configure(home, "curator: {consolidate: true}\nauxiliary: {curator: {model: 'scripted:helper.json'}}\n")
    (home / "helper.json").write_text('["I would merge some of these."]')
    store_with(home, *FILLER)
    refused = hermes("curator", "run", "--json").json["refused"]
    assert [each.partition(" ")[0] for each in refused] == ["the"]
    configure(home, "curator: {consolidate: false}\n")
    assert hermes("curator", "run", "--json").json["refused"] == []
