"""Conversations of other programs, through `hermes sessions import`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import foreign_transcripts as made
import pytest
from benchmarks.importing import run as bench_import
from engines import database_of

from hermes.conversations.database import SessionDB

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran

    Command = Callable[..., Ran]


def shown(hermes: Command, session: str) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = hermes("sessions", "show", session, "--json").json["messages"]
    return messages


def spoken(home: Path, session: str) -> list[tuple[str, Any]]:
    with SessionDB.open(home / "state.db") as db:
        return [(message.role, message.message.get("content")) for message in db.messages(session)]


@pytest.mark.proves("migration.claude-code", "migration.recognised")
def test_claude_code_comes_in_with_tools_thinking_title_and_project(
    home: Path, hermes: Command, tmp_path: Path
) -> None:
    made.claude_code(tmp_path)
    ran = hermes("sessions", "import", str(tmp_path), "--json").json
    assert (ran["files"], ran["sessions"], ran["messages"], ran["bad"]) == (1, 2, 7, 0)
    with SessionDB.open(home / "state.db") as db:
        session = db.get_session(f"claude-code_{made.SESSION}")
        assert (session.title, session.source, session.project) == ("Auth refactor", "claude-code", "/srv/shop")
        assert (session.model, session.started_at) == ("claude-sonnet", 1_772_618_401.0)
        question, thought, call, result, answer = db.messages(session.id)
        assert question.text == "where is the auth refactor?"
        assert thought.message["reasoning"] == "look first"
        assert call.message["tool_calls"][0]["function"] == {"name": "Bash", "arguments": '{"command": "ls 桂林"}'}
        assert (result.message["name"], result.text) == ("Bash", "auth_v2.py")
        assert answer.timestamp == 1_772_618_406.0
        aside = db.get_session(f"claude-code_{made.SESSION}_agent-a7")
        assert (aside.kind, db.root(aside.id).id) == ("delegate", session.id)
        assert db.session_details(session.id)["git_branch"] == "main"
    assert hermes("sessions", "search", "auth refactor").code == 0


@pytest.mark.proves("migration.claude-code", "migration.codex")
def test_the_usual_places_are_found_by_the_name_of_the_program(
    hermes: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    (tmp_path / "claude" / "projects").mkdir(parents=True)
    assert f"no transcripts of claude-code were found in {tmp_path}" in hermes("sessions", "import", "claude-code").err
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))
    assert hermes("sessions", "import", "claude-code").code == 1
    made.claude_code(tmp_path / "claude")
    made.codex(tmp_path / "codex")
    assert hermes("sessions", "import", "claude-code", "--json").json["sessions"] == 2
    assert hermes("sessions", "import", "codex", "--json").json["sessions"] == 1
    assert "claude-code, codex" in hermes("sessions", "import", "nothing-of-that-name").err


@pytest.mark.proves("migration.codex")
def test_codex_comes_in_with_its_tools_and_project(home: Path, hermes: Command, tmp_path: Path) -> None:
    made.codex(tmp_path)
    assert hermes("sessions", "import", str(tmp_path)).code == 0
    name = f"codex_{made.SESSION}"
    with SessionDB.open(home / "state.db") as db:
        session = db.get_session(name)
        assert (session.project, session.model) == ("/srv/api", "gpt-5-codex")
        question, thought, call, result, answer = db.messages(name)
        assert (question.text, answer.text) == ("run the tests", "All pass.")
        assert thought.message["reasoning"] == "pytest it is"
        assert call.message["tool_calls"][0]["function"]["name"] == "shell"
        assert (result.message["name"], result.text) == ("shell", "3 passed")


@pytest.mark.proves("migration.codex")
def test_old_rollouts_without_envelopes_are_read_too(home: Path, hermes: Command, tmp_path: Path) -> None:
    made.codex_bare(tmp_path)
    assert hermes("sessions", "import", str(tmp_path)).code == 0
    assert spoken(home, f"codex_{made.SESSION}") == [("user", "an old question"), ("assistant", "an old answer")]


@pytest.mark.proves("migration.agents-sdk")
def test_the_session_store_of_the_agents_sdk_comes_in_unaltered(home: Path, hermes: Command, tmp_path: Path) -> None:
    file = made.agents_sdk(tmp_path / "conversations.db")
    before = file.read_bytes()
    assert hermes("sessions", "import", str(file), "--json").json["messages"] == 4
    with SessionDB.open(home / "state.db") as db:
        question, call, result, answer = db.messages("openai-agents_user_123")
        assert (question.text, result.message["name"], answer.text) == (
            "what is the capital of Peru?",
            "lookup",
            "Lima.",
        )
        assert call.timestamp == 1_767_323_045.0
    assert file.read_bytes() == before


@pytest.mark.proves("migration.chatgpt")
@pytest.mark.parametrize("packed", [True, False])
def test_a_chatgpt_export_comes_in_with_left_paths_as_branches(
    home: Path, hermes: Command, tmp_path: Path, *, packed: bool
) -> None:
    document = [made.chatgpt_conversation(), made.chatgpt_conversation("chat-2", "Other")]
    file = tmp_path / "conversations.json"
    file.write_text(json.dumps(document), encoding="utf-8")
    given = made.zipped(tmp_path / "export.zip", document) if packed else file
    assert hermes("sessions", "import", str(given), "--json").json["sessions"] == 4
    assert spoken(home, "chatgpt_chat-1") == [
        ("user", "hotels in Guilin in May?\n[attachment: file-9]"),
        ("assistant", "The Lakeside has rooms."),
    ]
    assert spoken(home, "chatgpt_chat-1_a1") == [("user", "hotels in Guilin?"), ("assistant", "Which month?")]
    with SessionDB.open(home / "state.db") as db:
        assert db.get_session("chatgpt_chat-1").title == "Trip to 桂林"
        assert db.get_session("chatgpt_chat-1_a1").kind == "branch"


@pytest.mark.proves("migration.claude-export")
def test_a_claude_export_comes_in_with_its_attachments(home: Path, hermes: Command, tmp_path: Path) -> None:
    file = made.zipped(tmp_path / "data.zip", [made.claude_conversation()])
    assert hermes("sessions", "import", str(file)).code == 0
    assert spoken(home, "claude_conv-9") == [
        ("user", "what colour is the fence?\n\n[notes.txt]\nthe fence is green"),
        ("assistant", "Green."),
    ]


@pytest.mark.proves("migration.letta")
@pytest.mark.parametrize("first_generation", [True, False])
def test_letta_agent_files_come_in(home: Path, hermes: Command, tmp_path: Path, *, first_generation: bool) -> None:
    made.letta(tmp_path / "skipper.af", first_generation=first_generation)
    assert hermes("sessions", "import", str(tmp_path / "skipper.af")).code == 0
    name = "letta_Skipper" if first_generation else "letta_agent-0"
    assert spoken(home, name) == [("user", "remember the boat"), ("assistant", "The boat is noted.")]


@pytest.mark.proves("migration.recognised")
def test_what_nobody_recognises_is_refused_with_the_names_of_the_formats(hermes: Command, tmp_path: Path) -> None:
    file = tmp_path / "recipe.json"
    file.write_text('{"eggs": 2}', encoding="utf-8")
    ran = hermes("sessions", "import", str(file))
    assert (ran.code, "--format" in ran.err, "claude-code" in ran.err) == (2, True, True)
    (tmp_path / "empty").mkdir()
    assert hermes("sessions", "import", str(tmp_path / "empty")).code == 1


@pytest.mark.proves("migration.incremental")
def test_a_second_run_adds_only_what_is_new(home: Path, hermes: Command, tmp_path: Path) -> None:
    file = made.claude_code(tmp_path)
    made.codex(tmp_path / "codex")
    hermes("sessions", "import", str(tmp_path))
    again = hermes("sessions", "import", str(tmp_path), "--json").json
    assert (again["messages"], again["unchanged"]) == (0, 2)
    with open(file, "a", encoding="utf-8") as more:
        more.write(json.dumps(made.claude_code_line("user", "and the tests?", 7)) + "\n")
    third = hermes("sessions", "import", str(tmp_path), "--json").json
    assert (third["messages"], third["sessions"], third["unchanged"], third["already_there"]) == (1, 0, 1, 7)
    assert spoken(home, f"claude-code_{made.SESSION}")[-1] == ("user", "and the tests?")


@pytest.mark.proves("migration.edited", "migration.incremental")
def test_an_edited_conversation_becomes_a_branch_and_an_older_copy_adds_nothing(
    home: Path, hermes: Command, tmp_path: Path
) -> None:
    document = made.claude_conversation()
    older = {**document, "chat_messages": document["chat_messages"][:1]}
    edited = json.loads(json.dumps(document))
    edited["chat_messages"][1]["content"][0]["text"] = "Brown."
    counts = []
    for number, version in enumerate([document, older, edited, document, edited]):
        file = tmp_path / f"{number}.json"
        file.write_text(json.dumps([version]), encoding="utf-8")
        ran = hermes("sessions", "import", str(file), "--json").json
        counts.append((ran["sessions"], ran["messages"]))
    assert counts == [(1, 2), (0, 0), (1, 2), (0, 0), (0, 0)]
    assert spoken(home, "claude_conv-9")[1] == ("assistant", "Green.")
    assert spoken(home, "claude_conv-9~2")[1] == ("assistant", "Brown.")


@pytest.mark.proves("migration.damaged-transcripts")
def test_damaged_lines_are_reported_and_do_not_stop_the_rest(home: Path, hermes: Command, tmp_path: Path) -> None:
    file = made.claude_code(tmp_path)
    text = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(
        b"".join([*text[:4], b'{"type": "user", "mess\n', b"\xff\xfe\x00\n", b"[1]\n", *text[4:], b'{"half'])
    )
    ran = hermes("sessions", "import", str(file), "--json")
    assert (ran.code, ran.json["messages"], ran.json["bad"]) == (1, 7, 3)
    assert "line 5" in ran.err
    assert hermes("sessions", "import", str(file), "--json").json["messages"] == 0


@pytest.mark.proves("migration.hostile-transcripts")
def test_links_broken_archives_and_deep_nesting_are_passed_over(home: Path, hermes: Command, tmp_path: Path) -> None:
    outside = tmp_path / "outside.jsonl"
    made.lines(outside, [made.claude_code_line("user", "somebody else's words")])
    folder = tmp_path / "given"
    folder.mkdir()
    os.symlink(outside, folder / "link.jsonl")
    os.mkfifo(folder / "pipe.jsonl")
    assert hermes("sessions", "import", str(folder)).code == 1
    (folder / "broken.zip").write_bytes(made.zipped(tmp_path / "x.zip", [made.claude_conversation()]).read_bytes()[:90])
    (folder / "deep.json").write_text("[" * 100_000, encoding="utf-8")
    (folder / "cut.json").write_text(json.dumps([made.claude_conversation()] * 2)[:-20], encoding="utf-8")
    ran = hermes("sessions", "import", str(folder), "--json")
    assert (ran.code, ran.json["sessions"], ran.json["bad"]) == (1, 1, 1)


@pytest.mark.proves("migration.hostile-transcripts")
def test_an_odd_message_is_reported_and_the_others_come_in(home: Path, hermes: Command, tmp_path: Path) -> None:
    conversation = made.claude_conversation()
    conversation["chat_messages"] += [None, {"sender": "alien"}, {"sender": "human", "text": 7, "content": "x"}]
    conversation["chat_messages"][1]["text"] = "lone \ud800 half"
    conversation["name"] = "\u202eevil\x1b[2J"
    file = tmp_path / "odd.json"
    file.write_text(json.dumps([conversation, {"chat_messages": "none"}, 5]), encoding="utf-8")
    ran = hermes("sessions", "import", str(file), "--json").json
    assert (ran["sessions"], ran["messages"], ran["bad"]) == (1, 2, 2)


@pytest.mark.proves("migration.resumed")
def test_an_import_that_fails_is_completed_by_the_same_command(home: Path, hermes: Command, tmp_path: Path) -> None:
    records = [made.claude_code_line("user", f"line {n}", 1, sessionId="first") for n in range(2500)]
    made.lines(tmp_path / "a" / "long.jsonl", records)
    made.codex(tmp_path / "b")
    with SessionDB.open(home / "state.db") as db:
        database_of(db).connection.execute("""
            CREATE TRIGGER refuse BEFORE INSERT ON sessions WHEN new.source = 'codex'
            BEGIN SELECT raise(ABORT, 'no room'); END
        """)
    ran = hermes("sessions", "import", str(tmp_path))
    assert (ran.code, "no room" in ran.err, "the same command continues" in ran.err) == (1, True, True)
    with SessionDB.open(home / "state.db") as db:
        assert db.counts() == {"sessions": 1, "messages": 2500}
        database_of(db).connection.execute("DROP TRIGGER refuse")
    assert hermes("sessions", "import", str(tmp_path), "--json").json["messages"] == 5
    with SessionDB.open(home / "state.db") as db:
        assert db.counts() == {"sessions": 2, "messages": 2505}


@pytest.mark.proves("migration.resumed")
def test_a_killed_import_is_completed_by_the_next_run(home: Path, hermes: Command, tmp_path: Path) -> None:
    folder = tmp_path / "big"
    folder.mkdir()
    for number in range(3):
        records = [made.claude_code_line("user", f"line {n}", 1, sessionId=f"s{number}") for n in range(3000)]
        made.lines(folder / f"{number}.jsonl", records)
    code = (
        "import os, sys\nfrom hermes.conversations.database import SessionDB\nreal, count = SessionDB.append_many, []\n"
        "def append(*given):\n    count.append(1)\n    return real(*given) if len(count) < 3 else os._exit(9)\n"
        "SessionDB.append_many = append\nfrom hermes.cli.app import run\nrun(sys.argv[1:])"
    )
    environment = {**os.environ, "HERMES_HOME": str(home)}
    killed = subprocess.run(
        [sys.executable, "-c", code, "sessions", "import", str(folder)], env=environment, check=False
    )
    assert killed.returncode == 9
    with SessionDB.open(home / "state.db") as db:
        assert 0 < db.counts()["messages"] < 9000
    assert hermes("sessions", "import", str(folder)).code == 0
    with SessionDB.open(home / "state.db") as db:
        assert db.counts() == {"sessions": 3, "messages": 9000}
        assert [m.text for m in db.messages("claude-code_s1")] == [f"line {n}" for n in range(3000)]


@pytest.mark.proves("migration.watch")
def test_watching_brings_in_what_is_new_until_it_is_stopped(home: Path, tmp_path: Path) -> None:
    file = made.claude_code(tmp_path)
    command = [sys.executable, "-m", "hermes", "sessions", "import", str(tmp_path), "--watch", "--interval", "0.05"]
    environment = {**os.environ, "HERMES_HOME": str(home), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as watcher:
        assert watcher.stdout is not None
        assert "watching" in watcher.stdout.readline()
        assert "7 new messages" in watcher.stdout.readline()
        with open(file, "a", encoding="utf-8") as more:
            more.write(json.dumps(made.claude_code_line("user", "are you still there?", 8)) + "\n")
        assert "1 new message" in watcher.stdout.readline()
        watcher.send_signal(signal.SIGINT)
        assert watcher.wait(timeout=20) == 0
    assert spoken(home, f"claude-code_{made.SESSION}")[-1][1] == "are you still there?"


@pytest.mark.proves("migration.watch")
def test_watching_goes_on_when_the_folder_goes_and_does_not_begin_where_there_is_none(
    hermes: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    talks = tmp_path / "talks"
    made.claude_code(talks)

    def pause(_: float) -> None:
        if not talks.exists():
            raise KeyboardInterrupt
        talks.rename(tmp_path / "elsewhere")

    monkeypatch.setattr(time, "sleep", pause)
    watched = hermes("sessions", "import", str(talks), "--watch")
    assert (watched.code, "7 new messages" in watched.out, "there is no file" in watched.err) == (0, True, True)

    mistyped = hermes("sessions", "import", str(tmp_path / "taks"), "--watch")
    assert (mistyped.code, mistyped.out) == (1, "")
    assert "there is no file" in mistyped.err


@pytest.mark.proves("migration.claude-code")
def test_everything_can_be_filed_under_a_project(home: Path, hermes: Command, tmp_path: Path) -> None:
    made.claude_code(tmp_path)
    hermes("sessions", "import", str(tmp_path), "--project", "shop")
    with SessionDB.open(home / "state.db") as db:
        assert db.get_session(f"claude-code_{made.SESSION}").project == "shop"


@pytest.mark.proves("migration.bench")
def test_the_benchmark_measures_an_import_beside_append_many(tmp_path: Path) -> None:
    figures = bench_import(messages=2000, folder=str(tmp_path))
    assert figures["claude_code_over_append_many"] > 0
    assert figures["resumed_messages"] + figures["before_the_kill"] == 2000
