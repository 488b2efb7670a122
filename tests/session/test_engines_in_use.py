"""A context engine that somebody wrote, as its author and whoever chose it meet it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from compacted import configure, talk, texts

from hermes.base.events import Compacted, Usage
from hermes.base.tokens import estimate_message
from hermes.compaction.compressor import ContextCompressor
from hermes.session.compaction import compress_with
from hermes.session.session import MemorySession

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran

    Command = Callable[..., Ran]

TAIL = """
from hermes import ContextEngine


class Tail(ContextEngine):
    name = "tail"

    def update_from_response(self, usage):
        self.last_prompt_tokens = usage["prompt_tokens"]

    def should_compress(self, prompt_tokens=None):
        return (prompt_tokens or self.last_prompt_tokens) > 1000

    def compress(self, messages, current_tokens=None, focus_topic=None):
        note = {"role": "user", "content": f"{len(messages) - 2} messages left out" * REPEATED}
        return [note, *messages[-2:]]


def register(ctx):
    ctx.register_context_engine(Tail())
"""


def install(home: Path, repeated: int = 1, *, in_place: bool = True) -> None:
    configure(home, "context:\n  engine: tail\n", in_place=in_place)
    place = home / "plugins" / "context_engine" / "tail"
    place.mkdir(parents=True, exist_ok=True)
    (place / "__init__.py").write_text(TAIL.replace("REPEATED", str(repeated)), encoding="utf-8")


def what_the_commands_say(hermes: Command, session_id: str) -> tuple[int, int, int]:
    """How often the conversation was compacted by `status`, by `restore` and by `show --context`."""
    status = hermes("status", "--json").json["engine"]["recent_sessions_compacted"]
    restore = hermes("sessions", "restore", session_id)
    assert restore.code == 0 or "was never compacted" in restore.err
    shown = hermes("sessions", "show", session_id, "--context").out
    return status, int(restore.code == 0), shown.count("compacted ")


@pytest.mark.proves("compaction.thrift", "compaction.engine.fallback")
def test_an_engine_that_only_adds_to_a_single_message_changes_nothing(home: Path, hermes: Command) -> None:
    install(home)
    with MemorySession.open(home) as session:
        request = session.prepare_turn("the only message")
        session.counted(Usage(input_tokens=5_000))  # prompt and tools alone are more than the engine wants
        assert session.fit(request) is request
        session.finish_turn("The answer.")
        assert session.compact() is None
        assert "left out" not in texts(session.request().messages)
        assert [notice.text for notice in session.notices.take()] == [
            "Nothing was compacted: the engine found nothing to take out."
        ]
    assert what_the_commands_say(hermes, session.id) == (0, 0, 0)


@pytest.mark.proves("compaction.thrift", "compaction.engine.fallback")
def test_an_engine_whose_history_needs_more_room_is_not_followed_and_that_is_said_once(home: Path) -> None:
    install(home, repeated=9_000)
    with MemorySession.open(home) as session:
        talk(session, 1)
        for number in range(3):
            session.prepare_turn(f"go on, {number}")
            session.counted(Usage(input_tokens=5_000))
            session.fit(session.request())
            session.finish_turn("Yes.")
        assert "left out" not in texts(session.request().messages)
        said = [notice.text for notice in session.notices.take()]
        assert len(said) < 4
        assert said[0].startswith("the context engine tail could not compact; the built-in compressor found nothing to")
        assert "tokens of messages would become" in said[0]


@pytest.mark.proves("compaction.engine.fallback")
def test_an_engine_whose_messages_cannot_be_stored_ends_no_turn(home: Path) -> None:
    install(home)
    plugin = home / "plugins" / "context_engine" / "tail" / "__init__.py"
    plugin.write_text(plugin.read_text().replace("[note, ", "[{**note, 'content': object()}, "))
    with MemorySession.open(home) as session:
        talk(session, 4)
        session.prepare_turn("the last request")
        session.counted(Usage(input_tokens=5_000))
        session.fit(session.request())
        session.finish_turn("The answer.")
        assert any("what it returned cannot be stored" in notice.text for notice in session.notices.take())


@pytest.mark.proves("compaction.engine.fallback")
def test_an_engine_that_changes_a_call_where_it_stands_changes_nothing_of_ours() -> None:
    class Shortens(ContextCompressor):
        def compress(self, messages: list[dict[str, Any]], *_: Any, **__: Any) -> list[dict[str, Any]]:
            for message in messages:
                for call in message.get("tool_calls", ()):
                    call["function"]["arguments"] = "{}"
            return messages

    call = {"id": "c", "type": "function", "function": {"name": "read_file", "arguments": '{"path": "a.py"}'}}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "Read it. " * 90},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "x = 1"},
        {"role": "user", "content": "And now?"},
    ]
    done = compress_with(Shortens(8_000), messages, [1, 2, 3, 4], tokens=5_000)
    assert call["function"] == {"name": "read_file", "arguments": '{"path": "a.py"}'}
    assert done.replaced == [2]  # what it changed is no longer the message that was said


@pytest.mark.proves("compaction.notice", "compaction.restore")
@pytest.mark.parametrize("in_place", [True, False])
def test_status_restore_and_the_record_agree_on_a_compaction_and_its_figures_are_of_messages(
    home: Path, hermes: Command, *, in_place: bool
) -> None:
    install(home, in_place=in_place)
    with MemorySession.open(home) as session:
        talk(session, 4)
        session.prepare_turn("the last request")
        session.counted(Usage(input_tokens=5_000))
        before = sum(map(estimate_message, session.request().messages))
        session.fit(session.request())
        (done,) = [event for event in session.take_events() if isinstance(event, Compacted)]
        assert abs(done.tokens_before - before) < before // 10
        assert done.tokens_after < done.tokens_before
        session.finish_turn("The answer.")
    assert what_the_commands_say(hermes, session.id) == (1, 1, 1)
    shown = hermes("sessions", "show", session.id, "--context", "5").out
    assert f"in place of {done.messages} messages, by tail, because: threshold" in shown


@pytest.mark.proves("compaction.restore")
def test_a_conversation_in_which_nothing_was_worth_compacting_does_not_count_as_compacted(
    home: Path, hermes: Command
) -> None:
    configure(home)
    with MemorySession.open(home) as session:
        session.prepare_turn("the only message")
        session.counted(Usage(input_tokens=15_000))
        session.fit(session.request())
        session.finish_turn("The answer.")
    assert what_the_commands_say(hermes, session.id) == (0, 0, 0)


@pytest.mark.proves("compaction.engine.fallback", "doctor.reach")
def test_an_engine_that_is_not_there_shows_wherever_one_looks(home: Path, hermes: Command, tmp_path: Path) -> None:
    install(home)
    ran = hermes("config", "set", "context.engine", "tial")
    assert (ran.code, ran.out.split(" (")[0]) == (0, "context.engine is now tial")
    assert "no engine 'tial'; did you mean tail? (there are: compressor, lcm, tail)" in ran.err
    assert "tail" in hermes("config", "set", "context.engine", "tial", "--json").json["warning"]
    status = hermes("status").out
    assert "context   compressor instead of tial" in status
    assert "! context.engine: there is no engine 'tial'; did you mean tail?" in status
    doctor = hermes("doctor", "--offline")
    assert doctor.code == 1
    assert "✗ context engine: context.engine: there is no engine 'tial'; did you mean tail?" in doctor.out
    assert str(home / "plugins" / "context_engine" / "tial") in doctor.out
    (tmp_path / "script.json").write_text('["Hello.", "Hello again."]')
    talk_once = ("--model", f"scripted:{tmp_path / 'script.json'}", "-q", "hello")
    assert hermes(*talk_once).err.count("no engine 'tial'") == 1
    assert hermes("config", "set", "context.engine", "tail").err == ""
    assert "context   tail, when it decides" in hermes("status").out
    assert "✓ context engine: tail: loads" in hermes("doctor", "--offline").out
    assert hermes(*talk_once).err == ""


@pytest.mark.proves("providers.plugins-command", "compression.engine.found")
def test_a_bundled_engine_and_one_of_your_own_are_listed_shown_and_tried(home: Path, hermes: Command) -> None:
    install(home)
    rows = {row["name"]: row for row in hermes("plugins", "list", "--json").json}
    assert (rows["lcm"]["bundled"], rows["lcm"]["active"], rows["tail"]["active"]) == (True, False, True)
    assert "graph of summaries" in hermes("plugins", "show", "lcm").out
    assert hermes("plugins", "show", "tail", "--json").json["folder"].endswith("context_engine/tail")
    ran = hermes("plugins", "check", "lcm", "compressor", "tail")
    assert ran.code == 0
    assert ran.out.count("loads") == 3
    assert "tools: lcm_grep, lcm_describe, lcm_expand" in ran.out
    assert [each["name"] for each in hermes("plugins", "check", "--json").json] == ["tail"]


@pytest.mark.proves("providers.plugins-command")
def test_a_plug_in_that_is_nowhere_is_told_with_both_folders(home: Path, hermes: Command) -> None:
    for words in (("show", "nope"), ("check", "nope")):
        ran = hermes("plugins", *words)
        assert ran.code == 1
        assert f"yours belongs in {home}/plugins/nope" in ran.out + ran.err
        assert f"yours belongs in {home}/plugins/context_engine/nope" in ran.out + ran.err


@pytest.mark.proves("providers.plugins-command", "compaction.engine.fallback")
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("class Tail", "1 / 0\n\nclass Tail", "does not load: ZeroDivisionError"),
        ("class Tail", "import sys\nsys.exit(5)\n\nclass Tail", "does not load: SystemExit"),
    ],
)
def test_what_is_wrong_with_an_engine_is_found_before_it_is_chosen(
    home: Path, hermes: Command, old: str, new: str, said: str
) -> None:
    install(home)
    plugin = home / "plugins" / "context_engine" / "tail" / "__init__.py"
    plugin.write_text(plugin.read_text().replace(old, new))
    assert said in hermes("plugins", "check", "tail").out


@pytest.mark.proves("compression.engine.found")
def test_the_engine_of_the_operator_serves_the_people_too(home: Path, hermes: Command) -> None:
    install(home)
    assert hermes("users", "add", "ada").code == 0
    assert "context   tail, when it decides" in hermes("--user", "ada", "status").out
