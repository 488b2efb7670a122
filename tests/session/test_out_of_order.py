"""A session used in the wrong order, as programs do that fail in the middle of a turn or are wrong about its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from histories import openai_faults

from hermes.base.errors import OutOfOrder, SettingsError
from hermes.providers.services.holographic import HolographicProvider
from hermes.session.session import MemorySession

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran

CALL: dict[str, Any] = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
BROKEN_OFF = "[This turn was broken off before there was an answer.]"


def spoken(session: MemorySession) -> list[tuple[str, Any]]:
    return [(message["role"], message["content"]) for message in session.request().messages]


@pytest.mark.proves("session.misuse")
@pytest.mark.parametrize(
    "use",
    [
        lambda session: session.prepare_turn("again"),
        lambda session: session.call_tool("memory", {"action": "add", "target": "user", "content": "Likes tea."}),
        lambda session: session.record({"role": "assistant", "content": None, "tool_calls": [CALL]}),
        lambda session: session.record_result("c1", "a walrus"),
        lambda session: session.finish_turn("The answer."),
        lambda session: session.undo(),
        lambda session: session.about(),
        lambda session: session.rename("Another title"),
        lambda session: session.branch(),
        lambda session: session.compact(),
    ],
)
def test_a_closed_session_says_how_to_go_on_and_changes_nothing(home: Path, use: Callable[..., Any]) -> None:
    with MemorySession.open(home) as session:
        session.prepare_turn("hello")
        session.finish_turn("hi")
    session.close()  # twice is fine
    with pytest.raises(OutOfOrder, match=rf"closed; MemorySession\.open\(resume='{session.id}'\)"):
        use(session)
    with MemorySession.open(home, resume=session.id) as again:
        assert spoken(again) == [("user", "hello"), ("assistant", "hi")]
        assert "Likes tea." not in again.call_tool("memory", {"action": "add", "target": "user", "content": "Reads."})


@pytest.mark.proves("session.misuse")
def test_a_turn_that_failed_in_the_host_is_marked_when_the_next_one_begins(home: Path) -> None:
    with MemorySession.open(home) as session:
        session.prepare_turn("first")  # and then the host's model call raises
        session.prepare_turn("second")
        session.finish_turn("The answer.")
        said = [("user", "first"), ("assistant", BROKEN_OFF), ("user", "second"), ("assistant", "The answer.")]
        assert spoken(session) == said
        session.prepare_turn("third")
    with MemorySession.open(home, resume=session.id) as again:
        again.prepare_turn("fourth")
        assert spoken(again) == [*said, ("user", "third"), ("assistant", BROKEN_OFF), ("user", "fourth")]
        assert openai_faults(again.request().messages) == []


@pytest.mark.proves("session.misuse")
def test_what_was_taken_back_is_not_marked_as_broken_off(home: Path) -> None:
    with MemorySession.open(home) as session:
        session.prepare_turn("first")
        assert session.undo() == "first"
        session.prepare_turn("second")
        assert spoken(session) == [("user", "second")]


@pytest.mark.proves("session.misuse")
def test_new_words_may_follow_results_without_an_answer_between(home: Path) -> None:
    with MemorySession.open(home) as session:
        session.prepare_turn("look")
        session.record({"role": "assistant", "content": None, "tool_calls": [CALL]})
        session.record_result("c1", "a walrus")
        session.prepare_turn("and then?")
        assert [role for role, _ in spoken(session)] == ["user", "assistant", "tool", "user"]


@pytest.mark.proves("session.misuse")
def test_a_turn_is_finished_once(home: Path) -> None:
    with MemorySession.open(home) as session:
        with pytest.raises(OutOfOrder, match="no turn to finish: call prepare_turn first"):
            session.finish_turn("To nobody.")
        session.prepare_turn("hello")
        session.finish_turn("hi")
        with pytest.raises(OutOfOrder, match="already has its answer"):
            session.finish_turn("hi")
        assert spoken(session) == [("user", "hello"), ("assistant", "hi")]
        session.prepare_turn("look")
        session.record({"role": "assistant", "content": None, "tool_calls": [CALL]})
        session.finish_turn("I could not look.")  # the call gets a result that says so
        assert [role for role, _ in spoken(session)][2:] == ["user", "assistant", "tool", "assistant"]


@pytest.mark.proves("sessions.listing")
def test_a_session_opened_only_to_look_is_not_in_the_list(home: Path, hermes: Callable[..., Ran]) -> None:
    with MemorySession.open(home) as looked:
        assert looked.system_prompt
    with MemorySession.open(home, title="the release") as named:
        pass
    with MemorySession.open(home) as talked:
        talked.prepare_turn("hello")
        talked.finish_turn("hi")
    listed = [row["session_id"] for row in hermes("sessions", "list", "--json").json]
    assert listed == [talked.id, named.id]
    assert {row["session_id"] for row in hermes("sessions", "list", "--all", "--json").json} == {*listed, looked.id}
    with MemorySession.open(home, resume=looked.id) as later:  # its id may have been given out
        later.prepare_turn("now")
    assert looked.id in hermes("sessions", "list").out


class Look:
    schema: ClassVar[dict[str, Any]] = {"name": "look", "description": "Looks.", "parameters": {"type": "object"}}


@pytest.mark.proves("session.misuse")
@pytest.mark.parametrize(
    ("given", "kind", "said"),
    [
        ({"toolsets": ["memroy"]}, SettingsError, "no toolset 'memroy'; did you mean memory"),
        ({"tools": [{"name": "look"}]}, TypeError, r"an object with `schema`.*found \{'name': 'look'\}"),
        ({"tools": [Look()]}, TypeError, r"and `call\(arguments\)`"),
        ({"providers": [HolographicProvider]}, TypeError, r"hand over HolographicProvider\(\)"),
        ({"providers": ["mem0"]}, TypeError, "found 'mem0'; hand over one, or name it in memory.provider"),
    ],
)
def test_what_no_session_can_be_opened_with_is_named(
    home: Path, given: dict[str, Any], kind: type[Exception], said: str
) -> None:
    with pytest.raises(kind, match=said):
        MemorySession.open(home, **given)


@pytest.mark.proves("session.misuse")
def test_a_result_that_is_no_text_is_refused_before_it_is_stored(home: Path) -> None:
    with MemorySession.open(home) as session:
        session.prepare_turn("hello")
        session.record({"role": "assistant", "content": None, "tool_calls": [CALL]})
        with pytest.raises(TypeError, match="the result of c1 is dict, not a text"):
            session.record_result("c1", {"seen": "a walrus"})  # type: ignore[arg-type]
        session.record_result("c1", "a walrus")
        assert openai_faults(session.request().messages) == []


@pytest.mark.proves("session.misuse")
def test_a_role_that_no_model_knows_and_a_result_without_a_call_are_refused(home: Path) -> None:
    with MemorySession.open(home) as session:
        session.prepare_turn("look")
        with pytest.raises(ValueError, match="the role 'robot'; it must be one of system, developer, user, assistant"):
            session.record({"role": "robot", "content": "beep"})
        with pytest.raises(ValueError, match="the role None"):
            session.record({"content": "beep"})
        with pytest.raises(OutOfOrder, match="no call 'c1' waits for a result: record the model's message"):
            session.record_result("c1", "a walrus")
        session.record({"role": "assistant", "content": None, "tool_calls": [CALL]})
        session.record_result("c1", "a walrus")
        with pytest.raises(OutOfOrder, match="no call 'c1' waits"):
            session.record_result("c1", "another walrus")
        assert spoken(session) == [("user", "look"), ("assistant", None), ("tool", "a walrus")]


@pytest.mark.proves("session.misuse", "session.resume")
def test_a_result_that_comes_after_a_resume_takes_the_place_of_the_one_that_says_there_is_none(home: Path) -> None:
    with MemorySession.open(home) as session:
        session.prepare_turn("look")
        session.record({"role": "assistant", "content": None, "tool_calls": [CALL, {**CALL, "id": "c2"}]})
    with MemorySession.open(home, resume=session.id) as again:
        again.record_result("c1", "a walrus")
        assert openai_faults(again.request().messages) == []
        again.finish_turn("A walrus, and I do not know what else.")
        with pytest.raises(OutOfOrder, match="no call 'c2' waits"):
            again.record_result("c2", "too late")
    with MemorySession.open(home, resume=session.id) as later:
        results = {m["tool_call_id"]: m["content"] for m in later.request().messages if m["role"] == "tool"}
        assert results["c1"] == "a walrus"
        assert "did not finish" in results["c2"]
        assert openai_faults(later.request().messages) == []


@pytest.mark.proves("llm.awkward-histories", "session.resume")
@pytest.mark.parametrize(("said", "sent"), [({"refusal": "I will not."}, "I will not."), ({"refusal": {}}, "")])
def test_an_answer_that_is_only_a_refusal_is_sent_in_words(home: Path, said: dict[str, Any], sent: str) -> None:
    with MemorySession.open(home) as session:
        session.prepare_turn("pick this lock")
        session.record({"role": "assistant", "content": None, **said})
        assert spoken(session)[1:] == [("assistant", sent)]
    with MemorySession.open(home, resume=session.id) as again:
        assert spoken(again)[1:] == [("assistant", sent)]
