"""Context engines that others wrote, and the bundled lossless one, in a session."""

from __future__ import annotations

import json
import textwrap
from typing import TYPE_CHECKING, Any

import pytest
from compacted import configure, talk, texts
from engines import database_of
from histories import openai_faults
from provider_plugins import Notebook

from hermes.base.events import Compacted, Notice, Usage
from hermes.compaction.messages import is_block
from hermes.conversations.context import Contexts
from hermes.conversations.database import SessionDB
from hermes.llm.scripted import Scripted
from hermes.session.session import MemorySession

if TYPE_CHECKING:
    from pathlib import Path

ENGINE = """
    from agent.context_engine import ContextEngine

    class Short(ContextEngine):
        told = []
        name = "short"

        def update_from_response(self, usage):
            self.last_prompt_tokens = usage["prompt_tokens"]

        def should_compress(self, prompt_tokens=None):
            return (prompt_tokens or self.last_prompt_tokens) > 1000

        def compress(self, messages, current_tokens=None, focus_topic=None):
            BODY

        def on_session_start(self, session_id, **kwargs):
            self.told.append((session_id, kwargs.get("boundary_reason")))

        def on_session_end(self, session_id, messages):
            self.told.append((session_id, [each["role"] for each in messages]))

        def get_tool_schemas(self):
            return [{"name": "short_count", "description": "Counts.", "parameters": {"type": "object"}}]

        def handle_tool_call(self, name, args, **kwargs):
            return '{"prompt_tokens": %d}' % self.last_prompt_tokens

    def register(ctx):
        ctx.register_context_engine(Short())
"""
KEEPS_THE_END = 'return [{"role": "user", "content": "[CONTEXT COMPACTION] earlier"}, *messages[-3:]]'


def install(home: Path, body: str, folder: str = "plugins/context_engine/short") -> None:
    place = home / folder
    place.mkdir(parents=True)
    (place / "__init__.py").write_text(textwrap.dedent(ENGINE).replace("BODY", body), encoding="utf-8")


@pytest.mark.proves("compaction.engine")
@pytest.mark.parametrize("folder", ["plugins/context_engine/short", "plugins/anything"])
def test_an_engine_from_a_plugin_compacts_counts_and_offers_its_tools(home: Path, folder: str) -> None:
    configure(home, "context:\n  engine: short\n", in_place=False)
    install(home, KEEPS_THE_END, folder)
    with MemorySession.open(home) as session:
        first = session.id
        assert "short_count" in [tool["function"]["name"] for tool in session.request().tools]
        talk(session, 10)
        session.prepare_turn("the last request")
        session.counted(Usage(input_tokens=5_000))
        before = session.request().messages
        assert json.loads(session.call_tool("short_count", {})) == {"success": True, "prompt_tokens": 5000}
        after = session.fit(session.request()).messages
        assert openai_faults(after) == []
        assert after[1:3] == before[-1:] + after[2:3]
        done, notice = session.take_events()
        assert isinstance(done, Compacted)
        assert (done.how, type(notice)) == ("short", Notice)
        told = vars(type(session.compactor.engine))["told"]
        assert (told[0], told[-1]) == ((first, None), (session.id, "compression"))
        assert told[-2][0] == first  # its end, before the beginning of the next
    with SessionDB.open(home / "state.db") as db:
        assert list(db.search("ABC-0003"))


@pytest.mark.proves("compaction.engine")
@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        ("'plain words'", {"success": True, "result": "plain words"}),
        ("None", {"success": True, "result": "None"}),
        ("'[1, 2]'", {"success": True, "result": [1, 2]}),
        ("""'{"error": "not found"}'""", {"success": False, "error": "not found"}),
        ("{}['leaf']", {"success": False, "error": "short_count failed: KeyError: 'leaf'"}),
    ],
)
def test_whatever_a_tool_of_an_engine_answers_is_a_result(home: Path, answer: str, shown: dict[str, Any]) -> None:
    configure(home, "context:\n  engine: short\n")
    install(home, KEEPS_THE_END)
    plugin = home / "plugins/context_engine/short/__init__.py"
    plugin.write_text(plugin.read_text().replace("""'{"prompt_tokens": %d}' % self.last_prompt_tokens""", answer))
    with MemorySession.open(home) as session:
        session.prepare_turn("count")
        assert json.loads(session.call_tool("short_count", {})) == shown


@pytest.mark.proves("compaction.engine")
def test_an_engine_whose_signature_has_more_learns_that_a_person_asked(home: Path) -> None:
    configure(home, "context:\n  engine: short\n")
    install(home, f"self.told.append((force, memory_context)); {KEEPS_THE_END}")
    plugin = home / "plugins/context_engine/short/__init__.py"
    wider = plugin.read_text().replace("focus_topic=None)", 'focus_topic=None, force=False, memory_context="")')
    plugin.write_text(wider, encoding="utf-8")
    with MemorySession.open(home) as session:
        talk(session, 10)
        assert session.compact() is not None
        assert (True, "") in vars(type(session.compactor.engine))["told"]


@pytest.mark.proves("compaction.engine.fallback")
@pytest.mark.parametrize(
    "body",
    [
        'raise RuntimeError("broken")',
        "return None",
        "return messages[:2]",
        "return messages[-1:]",
        'return [{"role": "user", "content": "all gone"}]',
        'return [{"no": "role"}]',
    ],
)
def test_an_engine_that_fails_or_loses_the_last_request_is_not_believed(home: Path, body: str) -> None:
    configure(home, "context:\n  engine: short\n")
    install(home, body)
    with MemorySession.open(home) as session:
        talk(session, 20)
        session.prepare_turn("the last request")
        done = session.compact()
        assert done is not None
        assert done.how == "extract"
        assert "the last request" in texts(session.request().messages)
        assert any("built-in compressor did" in notice.text for notice in session.notices.take())


@pytest.mark.proves("compaction.engine")
def test_an_engine_hears_which_window_the_model_has_that_answers_from_now_on(home: Path) -> None:
    configure(home, "context:\n  engine: short\n")
    install(home, KEEPS_THE_END)
    with MemorySession.open(home) as session:
        for window in (16_000, 99_000):
            session.use_model(Scripted([], name=f"m{window}", context_length=window))
            assert session.compactor.engine.context_length == window


@pytest.mark.proves("compaction.engine.fallback")
def test_an_engine_that_is_not_there_leaves_the_built_in_with_a_notice(home: Path) -> None:
    configure(home, "context:\n  engine: nowhere\n")
    install(home, KEEPS_THE_END)  # there, but not chosen: never active by itself
    with MemorySession.open(home) as session:
        talk(session, 20)
        assert session.compact() is not None
        assert "no engine 'nowhere'" in session.notices.take()[0].text


def lcm(home: Path, **more: Any) -> MemorySession:
    configure(home, "context:\n  engine: lcm\n")
    return MemorySession.open(home, **more)


def ask(session: MemorySession, name: str, **arguments: Any) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(session.call_tool(name, arguments))
    return answer


@pytest.mark.proves("compaction.lcm")
def test_lcm_leads_from_a_summary_down_to_every_message(home: Path) -> None:
    with lcm(home) as session:
        talk(session, 60, words=100)
        assert session.compact() is not None
        talk(session, 20, start=60, words=100)
        assert session.compact() is not None
        block = next(message["content"] for message in session.request().messages if is_block(message))
        overview = ask(session, "lcm_describe")
        assert overview["count"] == len(overview["summaries"]) >= 2
        grepped = ask(session, "lcm_grep", query="abc-0005")
        assert "ABC-0005" in grepped["messages"][-1]["snippet"]
        everything = "".join(_below(session, node["node"]) for node in overview["summaries"] if not node["depth"])
        missing = [number for number in range(2, 50) if f"ABC-{number:04}" not in everything]
        assert missing == []
        assert all(f"lcm:{number}" in block for number in (1, overview["count"]))
        assert not ask(session, "lcm_expand", node=99)["success"]
        assert not ask(session, "lcm_describe", node=99)["success"]
        assert not ask(session, "lcm_grep", query=" ")["success"]
        assert not ask(session, "lcm_expand")["success"]
        described = ask(session, "lcm_describe", node=overview["count"])  # older ones are part of a condensed summary
        assert described["ids"] in block
    with MemorySession.open(home, resume=session.id) as again:
        assert again.request().messages[:3] == session.request().messages[:3]
        assert ask(again, "lcm_describe")["count"] == overview["count"]


def _below(session: MemorySession, node: int) -> str:
    answer = ask(session, "lcm_expand", node=node)
    shown = json.dumps(answer["messages"])
    while answer.get("more"):
        answer = ask(session, "lcm_expand", ids=answer["more"]["ids"])
        shown += json.dumps(answer["messages"])
    return shown


@pytest.mark.proves("compaction.lcm")
def test_lcm_condenses_its_oldest_summaries_when_there_are_many(home: Path) -> None:
    summary = "## Goal\nRepair all modules.\n\n## Progress\n### Done\n- Some more modules were repaired."
    model = Scripted([summary] * 60, context_length=16_000)
    with lcm(home) as session:
        session.use_model(model)
        for start in range(0, 200, 20):
            talk(session, 20, start=start)
            session.compact()
        nodes = ask(session, "lcm_describe")["summaries"]
        condensed = [node for node in nodes if node["depth"]]
        assert condensed
        parts = ask(session, "lcm_expand", node=condensed[0]["node"])["parts"]
        assert len(parts) > 1
        assert sum(part["messages"] for part in parts) == condensed[0]["messages"]
        block = next(message["content"] for message in session.request().messages if is_block(message))
        assert f"lcm:{condensed[0]['node']}" in block
        assert f"### lcm:{parts[0]['node']} " not in block


@pytest.mark.proves("compaction.lcm")
def test_deleting_the_conversation_deletes_its_summaries(home: Path) -> None:
    with lcm(home) as session:
        talk(session, 30)
        session.compact()
    with SessionDB.open(home / "state.db") as db:
        db.delete(session.id)
        assert database_of(db).rows("SELECT count(*) FROM summaries") == [(0,)]


@pytest.mark.proves("compaction.engine")
def test_an_engine_hears_of_the_end_after_the_providers_have_closed(home: Path) -> None:
    notebook = Notebook()
    configure(home, "context:\n  engine: short\n", in_place=False)
    install(home, KEEPS_THE_END)
    with MemorySession.open(home, providers=[notebook]) as session:
        talk(session, 1)
        told: list[tuple[str, Any]] = session.compactor.engine.told  # type: ignore[attr-defined]
        notebook.shutdown = lambda: told.append(("provider", "shutdown"))  # type: ignore[method-assign]
    assert told[-2:] == [("provider", "shutdown"), (session.id, ["user", "assistant", "tool", "assistant"])]


@pytest.mark.proves("compaction.engine.fallback")
def test_an_engine_that_fails_when_it_is_told_something_ends_no_turn(home: Path) -> None:
    configure(home, "context:\n  engine: short\n")
    install(home, "return messages")
    plugin = home / "plugins/context_engine/short/__init__.py"
    plugin.write_text(
        plugin.read_text().replace("return (prompt_tokens", "raise RuntimeError('odd') or (prompt_tokens")
    )
    with MemorySession.open(home) as session:
        talk(session, 4)
        request = session.request()
        assert session.fit(request) is request
        assert "the context engine short failed: RuntimeError: odd" in texts_of(session)
        assert session.compact() is None
        assert "Nothing was compacted: the engine found nothing to take out." in texts_of(session)


@pytest.mark.proves("compaction.lease")
def test_what_another_process_compacts_is_said_once_and_the_turn_goes_on(home: Path) -> None:
    configure(home)
    with MemorySession.open(home) as session:
        talk(session, 10)
        assert Contexts(session.database).lease(session.id, "another process")
        for _ in range(2):
            session.counted(Usage(input_tokens=15_000))
            assert session.fit(session.request()).messages
        assert texts_of(session).count("nothing was compacted") == 1


def texts_of(session: MemorySession) -> str:
    return "\n".join(notice.text for notice in session.notices.take())
