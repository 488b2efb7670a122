"""The chat at a terminal."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING

import pytest
from model_server import Answer, ModelServer, chat, failing
from terminal_program import ALT_ENTER, CTRL_C, CTRL_D, CTRL_O, ENTER, TAB, Terminal, script

from hermes import MemorySession, SessionDB
from snapshots import assert_same_as_stored

if TYPE_CHECKING:
    from pathlib import Path

HELLO = {
    "when": "hello",
    "text": "Hello! These words are many, so that one can see where the lines of an answer end in a terminal.",
}
REMEMBER = {
    "when": "remember",
    "calls": [
        {"name": "memory", "arguments": {"action": "add", "target": "user", "content": "Likes tea in the morning."}}
    ],
}
NOTED = {"when": "Entry added", "text": "Noted."}


def stored(home: Path) -> list[tuple[str, str, bool]]:
    """Role, text and interruption mark of every message of the newest conversation."""
    with SessionDB.open(os.fspath(home / "state.db")) as db:
        newest = db.list_sessions(limit=1)[0]
        messages = db.messages(newest.id)
        return [(each.role, each.text, bool(each.message.get("interrupted"))) for each in messages]


def without_numbers(screen: str) -> str:
    """How much of the window the prompt takes changes with the date and with every tool."""
    return re.sub(r"context \d+%", "context N%", screen)


@pytest.mark.proves("terminal.stream", "terminal.tools", "terminal.status", "terminal.leave")
def test_a_conversation_with_a_tool_call_looks_like_this(home: Path) -> None:
    script(home, HELLO, REMEMBER, NOTED)
    with Terminal(home) as terminal:
        terminal.say("hello there")
        terminal.say("please remember that I like tea")
        terminal.wait_for("Noted.")
        terminal.wait_for("user 1%")
        assert_same_as_stored("terminal/conversation.txt", without_numbers(terminal.wait_for_prompt()))
        terminal.wait_for_prompt()
        terminal.send(CTRL_D)
        assert terminal.wait_for_end() == 0
    assert [role for role, _, _ in stored(home)] == ["user", "assistant", "user", "assistant", "tool", "assistant"]


@pytest.mark.proves("terminal.tools")
def test_the_whole_of_a_tool_call_is_shown_by_a_key_or_a_command(home: Path) -> None:
    script(home, REMEMBER, NOTED)
    with Terminal(home, lines=50) as terminal:
        terminal.say("remember: I like tea")
        terminal.wait_for("Noted.")
        terminal.wait_for_prompt()
        terminal.send(CTRL_O)
        terminal.wait_for('"content": "Likes tea in the morning."')
        terminal.say("/expand 2")
        terminal.wait_for("there are tool calls 1 to 1")
        terminal.say("/expand x")
        terminal.wait_for("/expand takes the number")


@pytest.mark.proves("terminal.interrupt")
def test_ctrl_c_stops_an_answer_and_the_conversation_goes_on(home: Path) -> None:
    script(home, {"when": "story", "text": "Once upon a time there was " + "more " * 400, "pause": 0.02}, HELLO)
    with Terminal(home) as terminal:
        terminal.say("tell me a story")
        terminal.wait_for("Once upon a time")
        terminal.send(CTRL_C)
        terminal.wait_for("(stopped; the conversation continues from here)")
        terminal.say("hello again")
        terminal.wait_for("terminal.\n")
        terminal.wait_for_prompt()
        terminal.send(CTRL_D)
        assert terminal.wait_for_end() == 0
    (_, _, _), (role, said, marked), *rest = stored(home)
    assert (role, marked) == ("assistant", True)
    assert said.startswith("Once upon a time")
    assert [each[0] for each in rest] == ["user", "assistant"]


@pytest.mark.proves("terminal.leave")
def test_ctrl_c_clears_the_line_then_warns_then_leaves(home: Path) -> None:
    script(home)
    with Terminal(home) as terminal:
        terminal.wait_for_prompt()
        terminal.send("half a line" + CTRL_C)
        terminal.wait_for("half a line", gone=True)
        terminal.send(CTRL_C)
        terminal.wait_for("Ctrl-C again, Ctrl-D or /quit ends the chat")
        terminal.wait_for_prompt()
        terminal.send(CTRL_C)
        assert terminal.wait_for_end() == 0


@pytest.mark.proves("terminal.commands")
def test_an_exchange_that_is_undone_leaves_the_context_and_stays_in_the_database(home: Path) -> None:
    with MemorySession.open() as session:
        for said, reply in (("first", "one"), ("second", "two")):
            session.prepare_turn(said)
            session.finish_turn(reply)
        assert session.undo() == "second"
        again = session.prepare_turn("third")
        assert [message["content"] for message in again.messages] == ["first", "one", "third"]
        session.finish_turn("three")
    with MemorySession.open(resume=session.id) as resumed:
        assert [message["content"] for message in resumed.request().messages] == ["first", "one", "third", "three"]
    with SessionDB.open(os.fspath(home / "state.db")) as db:
        kept = db.messages(session.id, rewound=True)
        assert [each.text for each in kept if each.rewound] == ["second", "two"]


@pytest.mark.proves("terminal.commands")
def test_a_branch_goes_on_from_the_same_bytes_and_leaves_the_first_conversation_alone(home: Path) -> None:
    with MemorySession.open(title="plan") as session:
        session.prepare_turn("first", overlay="(only now)")
        session.finish_turn("one")
        before = session.request()
        branch = session.branch()
    with MemorySession.open(resume=branch) as other:
        assert (other.request().system, other.request().messages) == (before.system, before.messages)
        assert other.about().title == "plan (branch)"
        other.prepare_turn("elsewhere")
        other.finish_turn("two")
    with MemorySession.open(resume="plan") as first:
        assert (first.id, len(first.request().messages)) == (session.id, 2)


@pytest.mark.proves("terminal.commands", "terminal.nearest")
def test_slash_commands_move_between_conversations(home: Path) -> None:
    script(home, HELLO, REMEMBER, NOTED)
    with Terminal(home, lines=60) as terminal:
        terminal.say("hello one")
        terminal.wait_for("terminal.\n")
        terminal.say("/title The first")
        terminal.wait_for("title: The first")
        terminal.say("/branch")
        terminal.wait_for("a branch of The first")
        terminal.say("/undo")
        terminal.wait_for("undone: hello one")
        terminal.say("/new Other things")
        terminal.wait_for("a new conversation")
        terminal.say("please remember that I like tea")
        terminal.wait_for("Noted.")
        terminal.say("/memory")
        terminal.wait_for("1  Likes tea in the morning.")
        terminal.say("/search what did I say about tea?")
        terminal.wait_for("Other things")
        terminal.say("/status")
        terminal.wait_for("4 messages, 1 tool call")
        terminal.say("/resume The first")
        terminal.wait_for("continuing The first, 2 messages")
        terminal.say("/hlp")
        terminal.wait_for("there is no command /hlp; did you mean /help?")
        terminal.say("/quit")
        assert terminal.wait_for_end() == 0


@pytest.mark.proves("terminal.commands")
def test_slash_commands_list_ask_again_and_switch(home: Path) -> None:
    script(home, "One.", "Two.", HELLO)
    (home / "other.json").write_text('["From the other."]')
    with Terminal(home, lines=60) as terminal:
        terminal.say("/resume")
        terminal.wait_for("there are no conversations yet")
        terminal.say("/expand")
        terminal.wait_for("no tool has been called yet")
        terminal.say("count")
        terminal.wait_for("One.")
        terminal.say("/retry")
        terminal.wait_for("Two.")
        terminal.say("/new")
        terminal.wait_for("a new conversation")
        terminal.say("/resume")
        terminal.wait_for("/resume NUMBER, or an id or title")
        terminal.say("/resume 1")
        terminal.wait_for("> count")
        terminal.say("/model scripted:other.json")
        terminal.wait_for("model: scripted (other.json)")
        terminal.say("and you?")
        terminal.wait_for("From the other.")
        terminal.say("/memory nonsense")
        terminal.wait_for("there is no command memory 'nonsense' (`/memory --help`)")
        terminal.say("/quit")
        assert terminal.wait_for_end() == 0


@pytest.mark.proves("terminal.notices")
def test_thinking_retries_and_an_answer_that_was_cut_off_are_told(home: Path) -> None:
    cut = chat({"reasoning": "hm"}, {"content": "The beginning of"}, reason="length")
    busy = Answer(status=503, content_type="application/json", pieces=[b'{"error": {"message": "overloaded"}}'])
    with ModelServer(busy, Answer(pieces=[cut])) as server:
        home.mkdir()
        (home / "config.yaml").write_text(f"model:\n  default: m\n  base_url: {server.url}/v1\n")
        with Terminal(home, lines=40) as terminal:
            terminal.say("tell me")
            terminal.wait_for("(retry 1 of 3 in 1 s: m at 127.0.0.1")
            terminal.wait_for("The beginning of")
            terminal.wait_for("(the answer was cut off: it reached its longest length)")


@pytest.mark.proves("terminal.retry", "terminal.error")
def test_a_server_that_is_down_is_one_line_that_counts(home: Path) -> None:
    busy = failing(429, {"error": {"message": "too many at once"}}, **{"retry-after": "0"})
    with ModelServer(*[busy] * 8) as server:
        home.mkdir()
        (home / "config.yaml").write_text(f"model:\n  default: m\n  base_url: {server.url}/v1\n")
        for no_color in ("", "1"):
            with Terminal(home, columns=120, NO_COLOR=no_color) as terminal:
                terminal.say("hello")
                terminal.wait_for("/retry asks again")
                lines = [line for line in terminal.wait_for_prompt().splitlines() if "too many at once" in line]
            counted = [number for number in (1, 2, 3) if f"retry {number} of 3".encode() in terminal.raw]
            # a line that can be drawn again counts and goes; elsewhere one line says that it is tried again
            expected = ([], 2) if no_color else ([1, 2, 3], 1)
            assert (counted, len(lines)) == expected


@pytest.mark.proves("terminal.tools")
def test_a_call_that_fails_shows_its_whole_reason(home: Path) -> None:
    wrong = {"action": "replace", "target": "user", "old_text": "coffee", "content": "Likes tea."}
    script(home, {"when": "remember", "calls": [{"name": "memory", "arguments": wrong}]}, "I could not.")
    with Terminal(home, columns=50, lines=40) as terminal:
        terminal.say("remember that I like tea")
        terminal.wait_for("I could not.")
        screen = " ".join(terminal.wait_for_prompt().split())
    with SessionDB.open(os.fspath(home / "state.db")) as db:
        (result,) = (each.text for each in db.messages(db.list_sessions()[0].id) if each.role == "tool")
    assert f"failed: {' '.join(json.loads(result)['error'].split())}" in screen


@pytest.mark.proves("terminal.status")
def test_the_status_line_shows_the_window_the_cached_share_and_the_cost(home: Path) -> None:
    usage = {"prompt_tokens": 100_000, "completion_tokens": 2_000, "prompt_tokens_details": {"cached_tokens": 80_000}}
    streams = [chat({"content": f"Answer {number}."}, usage=usage).replace(b"m-1", b"gpt-5.4") for number in (1, 2)]
    answers = [Answer(pieces=[stream]) for stream in streams]
    with ModelServer(*answers) as server:
        home.mkdir()
        (home / "config.yaml").write_text(
            f"model:\n  default: gpt-5.4\n  base_url: {server.url}/v1\n  context_length: 400000\n"
        )
        with Terminal(home, columns=110) as terminal:
            terminal.say("one")
            terminal.wait_for("Answer 1.")
            # 20,000 read at $2.50 and 80,000 from the cache at $0.25 for a million, 2,000 written at $15
            terminal.wait_for("gpt-5.4 · context 25% of 400k · 80% cached · $0.10")
            terminal.say("/status")
            terminal.wait_for("cost      $0.10 (list prices, without helper models)")
        settings = (home / "config.yaml").read_text()
        (home / "config.yaml").write_text(f"{settings}  prices: {{gpt-5.4: {{input: 1, output: 1, cache_read: 0}}}}\n")
        with Terminal(home, "--continue", columns=110) as terminal:
            terminal.say("two")
            terminal.wait_for("Answer 2.")
            terminal.wait_for("80% cached · $0.12")  # 20,000 and 2,000 at one dollar for a million more


@pytest.mark.proves("terminal.commands")
def test_help_looks_like_this(home: Path) -> None:
    script(home)
    with Terminal(home, lines=40) as terminal:
        terminal.say("/help")
        terminal.wait_for("Ctrl-D quits.")
        terminal.wait_for_prompt()
        assert_same_as_stored("terminal/help.txt", without_numbers(terminal.wait_for("of 33k · memory")))


@pytest.mark.proves("terminal.commands", "terminal.leave")
def test_a_path_is_something_to_talk_about_and_an_empty_conversation_leaves_no_trace(home: Path) -> None:
    script(home, {"when": "/etc/hosts", "text": "A file."})
    with Terminal(home) as terminal:
        terminal.say("/new")
        terminal.wait_for("a new conversation")
        terminal.say("/etc/hosts is what?")
        terminal.wait_for("A file.")
        terminal.say("/new")
        terminal.say("/quit")
        assert terminal.wait_for_end() == 0
    with SessionDB.open(os.fspath(home / "state.db")) as db:
        assert [each.message_count for each in db.list_sessions()] == [2]


@pytest.mark.proves("terminal.completion")
def test_a_command_is_completed_with_what_it_does(home: Path) -> None:
    script(home)
    with Terminal(home) as terminal:
        terminal.wait_for_prompt()
        terminal.send("/bra")
        terminal.wait_for("continue in a copy")
        terminal.send(TAB)
        terminal.wait_for("> /branch")


@pytest.mark.proves("private.stored", "terminal.history")
def test_private_words_are_called_back_in_this_chat_and_stand_in_no_file(home: Path) -> None:
    script(home, HELLO)
    with Terminal(home) as terminal:
        terminal.wait_for_prompt()
        terminal.say("hello <private>swordfish</private>")
        terminal.wait_for("terminal.\n")
        terminal.wait_for_prompt()
        terminal.send("\x1b[A")
        terminal.wait_for("> hello <private>swordfish</private>")
        terminal.send(CTRL_C + CTRL_D)
        assert terminal.wait_for_end() == 0
    assert [text for role, text, _ in stored(home) if role == "user"] == ["hello [private]"]
    assert "+hello [private]" in (home / "chat_history").read_text()
    assert not [path for path in home.rglob("*") if path.is_file() and b"swordfish" in path.read_bytes()]


@pytest.mark.proves("terminal.lines", "terminal.history")
def test_several_lines_are_one_message_and_can_be_called_back(home: Path) -> None:
    script(home, HELLO)
    with Terminal(home) as terminal:
        terminal.wait_for_prompt()
        terminal.send("hello" + ALT_ENTER + "two\\" + ENTER + "three" + ENTER)
        terminal.wait_for("terminal.\n")
        terminal.wait_for_prompt()
        terminal.send("\x1b[200~hello pasted\nlines\x1b[201~" + ENTER)
        terminal.wait_for("lines\nHello!")
        terminal.wait_for_prompt()
        terminal.send(CTRL_D)
        assert terminal.wait_for_end() == 0
    assert [text for role, text, _ in stored(home) if role == "user"] == ["hello\ntwo\nthree", "hello pasted\nlines"]
    assert (home / "chat_history").stat().st_mode & 0o777 == 0o600
    with Terminal(home) as terminal:
        terminal.wait_for_prompt()
        terminal.send("\x1b[A")
        terminal.wait_for("> hello pasted\n… lines")


@pytest.mark.proves("terminal.narrow")
def test_a_narrow_terminal_without_colour_gets_whole_words_and_no_colours(home: Path) -> None:
    script(home, HELLO, REMEMBER, NOTED)
    with Terminal(home, columns=32, lines=30, NO_COLOR="1") as terminal:
        terminal.say("hello")
        terminal.wait_for("terminal.\n")
        terminal.say("remember it")
        terminal.wait_for("Noted.")
        terminal.wait_for_prompt()
        assert_same_as_stored("terminal/narrow.txt", terminal.wait_for("\nscripted (script.json)\n"))
    assert b"\x1b[3" not in terminal.raw.replace(b"\x1b[39", b"")
    assert b"\x1b[2m" not in terminal.raw


@pytest.mark.proves("terminal.safe")
def test_escapes_in_an_answer_are_not_obeyed(home: Path) -> None:
    script(home, {"text": "before \x1b[2J\x1b]0;owned\x07 after"})
    with Terminal(home) as terminal:
        terminal.say("hello")
        assert "Hermes" in terminal.wait_for("after")
    assert b"\x1b]0;owned" not in terminal.raw


@pytest.mark.proves("terminal.error")
def test_a_model_that_fails_leaves_the_chat_open(home: Path) -> None:
    script(home, {"error": "the key was refused"}, HELLO)
    with Terminal(home) as terminal:
        terminal.say("first try")
        terminal.wait_for("/retry asks again")
        terminal.say("hello")
        terminal.wait_for("terminal.\n")


@pytest.mark.proves("terminal.resume")
def test_continuing_shows_how_the_conversation_ended(home: Path) -> None:
    script(home, HELLO)
    with Terminal(home, "--model", "scripted:script.json") as terminal:
        terminal.say("hello one")
        terminal.wait_for("terminal.\n")
        terminal.wait_for_prompt()
        terminal.send(CTRL_D)
        terminal.wait_for_end()
    with Terminal(home, "--continue") as terminal:
        terminal.wait_for("2 messages\n> hello one\nHello! These words are many")
        terminal.say("hello two")
        terminal.wait_for("> hello two\nHello!")
    assert [text for role, text, _ in stored(home) if role == "user"] == ["hello one", "hello two"]


@pytest.mark.proves("terminal.consent")
def test_a_tool_that_needs_consent_asks_in_the_chat(home: Path) -> None:
    call = {"name": "terminal", "arguments": {"command": "echo it ran >> made.txt"}}
    script(
        home,
        {"when": "do it", "calls": [call]},
        {"when": "said no", "text": "As you like."},
        {"when": "exit_code", "text": "Done."},
    )
    made = home.parent / "made.txt"
    with Terminal(home, lines=40) as terminal:
        terminal.say("do it")
        terminal.wait_for("[y]es, [n]o, [a]lways for this:")
        assert "echo it ran >> made.txt\n" in terminal.screen
        terminal.send("n\r")
        terminal.wait_for("As you like.")
        assert not made.exists()
        terminal.say("/clear")
        terminal.wait_for("As you like.", gone=True)
        terminal.say("now do it")
        terminal.wait_for("[y]es, [n]o, [a]lways for this:")
        terminal.send("a\r")
        terminal.wait_for("ok: exit code 0\nDone.")
        terminal.say("/clear")
        terminal.wait_for("Done.", gone=True)
        terminal.say("do it again")
        screen = terminal.wait_for("Done.")
        assert "[y]es" not in screen
    assert made.read_text() == "it ran\n" * 2


@pytest.mark.proves("terminal.consent", "terminal.interrupt")
def test_ctrl_c_at_a_question_means_no_and_ends_the_turn(home: Path) -> None:
    call = {"name": "terminal", "arguments": {"command": "touch made.txt"}}
    script(home, {"when": "do it", "calls": [call]}, HELLO)
    with Terminal(home) as terminal:
        terminal.say("do it")
        terminal.wait_for("[y]es, [n]o, [a]lways for this:")
        terminal.send(CTRL_C)
        terminal.wait_for("(stopped; the conversation continues from here)")
        terminal.say("hello")
        terminal.wait_for("Hello!")
    assert not (home.parent / "made.txt").exists()


@pytest.mark.proves("terminal.compress", "terminal.notices")
def test_compressing_says_what_it_did_or_why_not(home: Path) -> None:
    long = {"when": "more", "text": "The build host is build-7.example.org and its port is 8443. " * 30}
    script(home, long)
    settings = (home / "config.yaml").read_text()
    switched = "auxiliary:\n  compression:\n    enabled: false\ncompression:\n  protect_last_n: 2\n"
    (home / "config.yaml").write_text(f"{settings}  context_length: 12000\n{switched}")
    with Terminal(home, columns=100, lines=60) as terminal:
        terminal.say("/compress")
        terminal.wait_for("Nothing was compacted: its beginning and its newest messages always stay")
        for number in range(8):
            terminal.say(f"more {number}")
            terminal.wait_for(f"> more {number}")
        terminal.say("/compress the port")
        terminal.wait_for("became a summary made of quotes")
