"""The list of steps, delegated tasks, and which tools are there at all."""

from __future__ import annotations

import json
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
from agents import call_tools, configure, first_json

from hermes import Agent, MemorySession, SessionDB
from hermes.base.errors import SettingsError
from hermes.base.events import ToolReturned, TurnFinished
from hermes.llm.scripted import Reply, Scripted

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran


@pytest.mark.proves("agent.todo")
def test_the_list_of_steps_is_kept_changed_and_found_again_on_resume(home: Path) -> None:
    items = [{"id": "1", "content": "look", "status": "completed"}, {"id": "2", "content": "fix", "status": "pending"}]
    change = {"todos": [{"id": "2", "content": "fix it", "status": "in_progress"}], "merge": True}
    script = Scripted([Reply(calls=[("todo", {"todos": items})]), Reply(calls=[("todo", change)]), "ok"])
    with Agent.open(home, model=script) as agent:
        list(agent.turn("go"))
    with Agent.open(home, model=Scripted([Reply(calls=[("todo", {})]), "ok"]), resume=agent.session.id) as agent:
        (result,) = [first_json(each.result) for each in agent.turn("where are we?") if isinstance(each, ToolReturned)]
    assert result["todos"] == [items[0], change["todos"][0]]  # type: ignore[index]
    assert result["summary"] == {"total": 2, "pending": 0, "in_progress": 1, "completed": 1, "cancelled": 0}


@pytest.mark.proves("agent.todo")
def test_a_result_that_shows_no_list_does_not_hide_the_one_before_it(home: Path) -> None:
    items = [{"id": "1", "content": "look", "status": "pending"}]
    with Agent.open(home, model=Scripted([Reply(calls=[("todo", {"todos": items})]), "ok"])) as agent:
        list(agent.turn("go"))
        for number, content in enumerate(("[stopped]", "3", '{"todos": "none"}')):
            call = {"id": f"c{number}", "type": "function", "function": {"name": "todo", "arguments": "{}"}}
            agent.session.record({"role": "assistant", "content": None, "tool_calls": [call]})
            agent.session.record({"role": "tool", "tool_call_id": f"c{number}", "name": "todo", "content": content})
        agent.session.finish_turn("ok")
    with Agent.open(home, model=Scripted([Reply(calls=[("todo", {})]), "ok"]), resume=agent.session.id) as agent:
        (result,) = [first_json(each.result) for each in agent.turn("where are we?") if isinstance(each, ToolReturned)]
    assert result["todos"] == items


@pytest.mark.proves("agent.todo")
def test_a_list_has_limits(home: Path, tmp_path: Path) -> None:
    many = [{"id": str(number), "content": "x", "status": "pending"} for number in range(257)]
    long = [{"id": "1", "content": "x" * 4_001, "status": "pending"}]
    results = call_tools(home, tmp_path / "work", ("todo", {"todos": many}), ("todo", {"todos": long}))
    assert ["256 items" in results[0]["error"], "4,000 characters" in results[1]["error"]] == [True, True]


def delegating(home: Path, arguments: dict[str, Any], *, config: str = "", **given: Any) -> tuple[Any, Scripted, str]:
    """One turn in which the parent delegates; the same scripted model answers the children by what they are asked."""
    configure(home, config)

    def choose(messages: Any) -> Any:
        last = str(messages[-1]["content"])
        if messages[-1]["role"] == "tool":
            return "All done."
        if last == "go":
            return Reply(calls=[("delegate_task", arguments)])
        return Reply(calls=[("terminal", {"command": "id"})]) if "command" in last else f"I did: {last}"

    model = Scripted([choose] * 20)
    with Agent.open(home, model=model, **given) as agent:
        events = [first_json(each.result) for each in agent.turn("go") if isinstance(each, ToolReturned)]
        return events[0], model, agent.session.id


@pytest.mark.proves("agent.delegation")
def test_delegated_tasks_run_in_sessions_of_their_own_with_fewer_tools(home: Path) -> None:
    tasks = [{"goal": "count the files", "context": "in docs"}, {"goal": "name the tests"}]
    result, model, parent = delegating(home, {"tasks": tasks})
    assert result["success"]
    assert [each["summary"] for each in result["results"]] == [
        "I did: count the files\n\nin docs",
        "I did: name the tests",
    ]
    with SessionDB.open(home / "state.db") as db:
        children = [db.get_session(each["session_id"]) for each in result["results"]]
        above = db.get_session(parent).key
        assert {(each.parent, each.source, each.kind) for each in children} == {(above, "subagent", "delegate")}
        assert [each.id for each in db.list_sessions()] == [parent]
        assert [each.message["role"] for each in db.messages(children[0].id)] == ["user", "assistant"]
    child = next(sent for sent in model.requests if "count the files" in str(sent.messages))
    names = {tool["function"]["name"] for tool in child.tools}
    assert not names & {"memory", "delegate_task"}
    assert {"read_file", "session_search"} <= names


@pytest.mark.proves("agent.delegation")
def test_a_delegated_task_sees_neither_memory_nor_project_files(home: Path, tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("Use tabs.")
    with MemorySession.open(home) as session:
        session.call_tool("memory", {"action": "add", "target": "user", "content": "Likes tea."})
    _, model, _ = delegating(home, {"goal": "count"}, cwd=str(tmp_path))
    parent, child, *_ = [sent.system for sent in model.requests]
    assert ("Likes tea." in parent, "Use tabs." in parent) == (True, True)
    assert ("Likes tea." in child, "Use tabs." in child) == (False, False)


@pytest.mark.proves("agent.delegation")
@pytest.mark.parametrize(("approve", "ran"), [("false", False), ("true", True)])
def test_commands_of_delegated_tasks_follow_their_own_setting(home: Path, approve: str, ran: bool) -> None:
    config = f"delegation: {{subagent_auto_approve: {approve}}}\n"
    result, model, _ = delegating(home, {"goal": "run a command"}, config=config, ask=lambda _: True)
    assert result["results"][0]["tool_trace"] == ["terminal"]
    (told,) = [sent.messages[-1] for sent in model.requests if sent.messages[-1].get("name") == "terminal"]
    assert json.loads(told["content"])["success"] is ran


@pytest.mark.proves("agent.delegation")
def test_depth_length_and_number_of_tasks_are_limited(home: Path) -> None:
    config = "delegation: {max_summary_chars: 100, max_spawn_depth: 2}\n"
    result, model, _ = delegating(home, {"goal": "x" * 300, "role": "orchestrator"}, config=config)
    assert result["results"][0]["summary"].endswith("\n[… 207 more characters …]")
    child = next(sent for sent in model.requests if "xxx" in str(sent.messages[0]["content"]))
    assert "delegate_task" in {tool["function"]["name"] for tool in child.tools}
    too_many, *_ = delegating(home, {"tasks": [{"goal": "x"}] * 21})
    assert "1 to 20 tasks" in too_many["error"]
    none, *_ = delegating(home, {"goal": "x"}, config="delegation: {max_spawn_depth: 0}\n")
    assert "there is no tool 'delegate_task'" in none["error"]


@pytest.mark.proves("agent.delegation")
def test_a_task_that_takes_too_long_is_stopped_and_the_parent_told(home: Path) -> None:
    configure(home, "delegation: {child_timeout_seconds: 1}\n")
    slow = Reply(text="slowly " * 50, pause=0.05)
    model = Scripted([Reply(calls=[("delegate_task", {"goal": "think"})]), slow, "I see."])
    with Agent.open(home, model=model) as agent:
        (result,) = [first_json(each.result) for each in agent.turn("go") if isinstance(each, ToolReturned)]
    assert (result["success"], result["results"][0]["status"]) == (False, "interrupted")


def offered(home: Path, **given: Any) -> set[str]:
    with Agent.open(home, model=Scripted([]), **given) as agent:
        return {tool["function"]["name"] for tool in agent.session.request().tools}


@pytest.mark.proves("agent.toolsets")
def test_toolsets_are_switched_on_and_off_by_platform(home: Path) -> None:
    assert {"memory", "terminal", "read_file", "fetch_url", "todo", "delegate_task"} <= offered(home)
    assert not offered(home, source="telegram") & {"terminal", "read_file"}
    configure(
        home,
        "enabled_toolsets: {telegram: [memory, files], default: [memory, web]}\n"
        "disabled_toolsets: {default: [web], cli: [skills]}\n",
    )
    assert offered(home, source="telegram") == {
        *("memory", "read_file", "write_file", "patch", "search_files"),
    }
    assert offered(home, source="cli") == {"memory"}
    assert offered(home, toolsets=["todo"]) == {"todo"}


@pytest.mark.proves("agent.toolsets")
def test_a_session_of_a_host_follows_the_toolsets_too(home: Path) -> None:
    configure(home, "disabled_toolsets: {my-agent: [skills]}\n")
    with MemorySession.open(home, source="my-agent") as session:
        assert {tool["function"]["name"] for tool in session.request().tools} == {
            *("memory", "session_search", "context_expand", "context_compact"),
        }


@pytest.mark.proves("agent.toolsets")
@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            "enabled_toolsets: {cli: [memori]}\n",
            "no toolset 'memori'; did you mean memory",
        ),
        ("disabled_toolsets: {default: 3}\n", "disabled_toolsets: expected a list of toolsets, found 3"),
    ],
)
def test_a_wrong_toolset_is_a_settings_error(home: Path, config: str, message: str) -> None:
    configure(home, config)
    with pytest.raises(SettingsError, match=message):
        offered(home)


@pytest.mark.proves("agent.toolsets")
def test_a_toolset_that_is_off_is_not_even_imported(home: Path) -> None:
    import subprocess

    script = (
        "import sys; from hermes import Agent; from hermes.llm.scripted import Scripted\n"
        f"agent = Agent.open({str(home)!r}, model=Scripted(['hi']), toolsets=['memory'])\n"
        "list(agent.turn('hi')); agent.close()\n"
        "print([name for name in ('files', 'terminal', 'fetch', 'looking', 'todo', 'mcp_servers')"
        " if 'hermes.tools.' + name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"


@pytest.mark.proves("agent.delegation")
def test_ctrl_c_while_tasks_run_ends_them_all(home: Path) -> None:
    def choose(messages: Any) -> Any:
        if messages[-1]["content"] == "go":
            return Reply(calls=[("delegate_task", {"tasks": [{"goal": "one"}, {"goal": "two"}]})])
        if messages[-1]["content"] == "one":
            # The main thread waits for its tasks; a terminal's Ctrl-C wakes it, a signal to this thread would not.
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        return Reply(text="slowly " * 1_000, pause=0.05)

    with Agent.open(home, model=Scripted([choose] * 3)) as agent:
        *_, end = agent.turn("go")
    assert isinstance(end, TurnFinished)
    assert end.reason == "interrupted"


@pytest.mark.proves("agent.todo")
def test_open_steps_survive_a_compaction_and_a_resume_after_it(home: Path) -> None:
    configure(home, "compression: {protect_last_n: 1}\n")
    done, doing = ("look", "completed"), ("fix", "in_progress")
    items = [{"id": str(at), "content": text, "status": status} for at, (text, status) in enumerate((done, doing), 1)]
    # The summary of a compaction, and a review, are answered by the same model.
    script = Scripted([Reply(calls=[("todo", {"todos": items})]), *["word " * 300] * 60])
    with Agent.open(home, model=script, toolsets=["todo"]) as agent:
        list(agent.turn("go"))
        for number in range(11):
            list(agent.turn(f"question {number} " + "and more " * 100))
        assert agent.session.compact() is not None
        list(agent.turn("where are we?"))
        last = agent.session.request().messages
    told = "[Your active task list was preserved across context compression]\n- [>] 2. fix (in_progress)"
    assert [each["content"] for each in last if "active task list" in str(each["content"])] == [told]
    model = Scripted([Reply(calls=[("todo", {})]), "ok"])
    with Agent.open(home, model=model, resume=agent.session.id, toolsets=["todo"]) as agent:
        (result,) = [first_json(each.result) for each in agent.turn("and now?") if isinstance(each, ToolReturned)]
    assert result["todos"] == items


@pytest.mark.proves("agent.delegation")
def test_a_task_can_be_delegated_from_the_command_line(home: Path, hermes: Callable[..., Ran]) -> None:
    configure(home, "model: {provider: scripted, default: script.json}")
    (home / "script.json").write_text('["The gate is green."]', encoding="utf-8")
    listed = {each["function"]["name"]: each["function"] for each in hermes("tool", "--list").json}
    assert {"goal", "context", "role", "tasks", "background"} <= set(
        listed["delegate_task"]["parameters"]["properties"]
    )
    ran = hermes("tool", "delegate_task", '{"goal": "Which colour is the gate?", "background": true}')
    (result,) = ran.json["results"]
    assert (ran.code, result["status"], result["summary"]) == (0, "completed", "The gate is green.")
    refused = hermes("tool", "delegate_task", "{}")
    assert (refused.code, refused.json["success"]) == (1, False)


@pytest.mark.proves("search.digest", "search.expansion")
def test_helper_models_of_the_settings_digest_what_is_found_and_reword_the_question(
    home: Path, hermes: Callable[..., Ran]
) -> None:
    with MemorySession.open(home) as session:
        session.prepare_turn("The walrus lives in the harbour.")
        session.finish_turn("Noted.")
    query = '{"query": "where does the sea animal live"}'
    assert "summary" not in hermes("tool", "session_search", query).out  # free unless somebody wants it
    (home / "digest.json").write_text('["It lives in the harbour."]', encoding="utf-8")
    (home / "words.json").write_text(json.dumps(["- walrus\n- harbour"]), encoding="utf-8")
    models = {"session_search": "digest.json", "memory_query_rewrite": "words.json"}
    blocks = "".join(f"  {task}: {{model: 'scripted:{file}'}}\n" for task, file in models.items())
    configure(home, f"auxiliary:\n{blocks}")
    ran = hermes("tool", "session_search", query)
    assert ran.err == ""
    found = ran.json
    assert found["results"][0]["summary"] == "It lives in the harbour."
    assert "also searched: walrus, harbour" in json.dumps(found)
    configure(home, "auxiliary:\n  session_search: {provider: nobody, model: none}\n")
    found = hermes("tool", "session_search", '{"query": "walrus"}').json
    assert (found["count"], "summary" in found["results"][0]) == (1, False)
