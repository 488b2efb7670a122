"""`hermes sessions …` as a person uses it: looking and tidying."""

from __future__ import annotations

import json
import re
import time
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from terminal_program import Terminal as OnTerminal

from hermes.cli import ui
from hermes.conversations.database import SessionDB
from hermes.conversations.maintenance import Maintenance

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran

    Command = Callable[..., Ran]
DAY = 86400.0


def talk(db: SessionDB, *texts: str, at: float | None = None, **session: Any) -> str:
    made = db.create_session(started_at=at, **session)
    timed = {} if at is None else {"timestamp": at}
    db.append_many(made, [{"role": "user", "content": text, **timed} for text in texts])
    return made


@pytest.mark.proves("search.cli-list", "search.lineage")
def test_one_row_per_conversation_the_last_used_first(db: SessionDB, hermes: Command) -> None:
    assert hermes("sessions", "list", "--json").json == []
    first = talk(db, "an old plan", source="telegram", project="garden")
    part = talk(db, "beginning", title="Long talk")
    tip = talk(db, "going on", parent_session_id=part, title="Long talk")
    lines = hermes("sessions", "list").out.splitlines()
    assert [line.split()[0] for line in lines] == [tip, first]
    assert lines[0].endswith("Long talk #2")
    assert "telegram" in lines[1]
    assert [row["session_id"] for row in hermes("sessions", "list", "--source", "telegram", "--json").json] == [first]
    assert [row["session_id"] for row in hermes("sessions", "list", "--project", "garden", "--json").json] == [first]
    assert len(hermes("sessions", "list", "--limit", "1", "--json").json) == 1
    db.update_session(first, archived=1)
    assert [row["session_id"] for row in hermes("sessions", "list", "--json").json] == [tip]
    assert [row["session_id"] for row in hermes("sessions", "list", "--all", "--json").json] == [tip, first]
    assert hermes("sessions", "list", "--source", "nowhere").out == "no conversation matches\n"


@pytest.mark.proves("search.cli-search")
def test_a_search_for_nothing_asks_for_a_question(db: SessionDB, hermes: Command) -> None:
    talk(db, "an old plan")
    for nothing in ([""], [" "], ["", ""]):
        ran = hermes("sessions", "search", *nothing)
        assert (ran.code, ran.out) == (2, "")
        assert "the question is empty" in ran.err
        assert "install" not in ran.err


@pytest.mark.proves("search.cli-show")
def test_a_part_of_a_title_or_id_is_enough_when_nothing_else_has_it(db: SessionDB, hermes: Command) -> None:
    short = [talk(db, f"text {number}", title="Keep answers short") for number in range(3)]
    auth = talk(db, "which provider?", title="Auth decision", session_id="zz-auth")
    assert hermes("sessions", "show", "Keep answers short", "--json").json["session_id"] == short[0]
    for name in ("auth", "Auth dec", "zz-a"):
        assert hermes("sessions", "show", name, "--json").json["session_id"] == auth
    several = hermes("sessions", "show", "answers")
    assert several.code == 1
    assert several.err == (
        "hermes: 3 conversations match 'answers'; give more of the title, or the id: "
        f"'Keep answers short #3' ({short[2]}), 'Keep answers short #2' ({short[1]}), "
        f"'Keep answers short' ({short[0]})\n"
    )
    for number in range(3, 7):
        talk(db, f"text {number}", title="Keep answers short")
    many = hermes("sessions", "show", "answers").err
    assert many.startswith("hermes: more than 5 conversations match 'answers'; give more of the title, or the id: ")
    assert many.count("'Keep answers short #") == 5
    assert "the nearest: 'Auth decision' (zz-auth)" in hermes("sessions", "show", "Auth descision").err
    assert "shows ids and titles" in hermes("sessions", "show", " ").err
    assert "the nearest: 'Auth decision' (zz-auth)" in hermes("sessions", "delete", "auth", "--yes").err


@pytest.mark.proves("search.cli-show", "search.cli-search")
@pytest.mark.parametrize("words", [["show"], ["search"], ["delete", "--yes"], ["list", "--source"]])
def test_half_a_character_from_a_shell_is_told_in_a_line(words: list[str], db: SessionDB, hermes: Command) -> None:
    talk(db, "hello", title="Greetings")
    refused = hermes("sessions", *words, "a\udc80b")
    assert refused.code == 1
    assert refused.err == "hermes: what was given holds half of a character (a lone surrogate); leave it out\n"


@pytest.mark.proves("search.cli-list")
def test_rows_stand_below_each_other_though_imported_ids_are_long(db: SessionDB, hermes: Command) -> None:
    talk(db, "of our own")
    imported = "claude-code_11111111-1111-4111-8111-111111111111"
    db.create_session(session_id=imported, source="claude-code", title="imported")
    lines = hermes("sessions", "list").out.splitlines()
    assert len({line.index("  20") for line in lines}) == 1
    assert lines[0].split()[3] == "claude-code"


@pytest.mark.proves("search.cli-list")
def test_without_any_conversation_looking_makes_no_file(home: Path, hermes: Command) -> None:
    assert hermes("sessions", "list").out == "there are no conversations yet\n"
    missing = hermes("sessions", "search", "x")
    assert (missing.code, "no conversations yet" in missing.err) == (1, True)
    assert not (home / "state.db").exists()


@pytest.mark.proves("search.cli-search")
def test_a_question_prints_hits_that_can_be_shown_and_explained(db: SessionDB, hermes: Command) -> None:
    made = talk(db, "We chose rotating refresh tokens.", "Good.", title="Sign-in")
    message = db.messages(made)[0].id
    found = hermes("sessions", "search", "what", "did", "we", "choose", "for", "refresh", "tokens?", "--explain")
    title, hit, how, score, _ = found.out.split("\n", 4)
    assert title.startswith("Sign-in  (")
    assert ">>>refresh<<<" in hit
    assert how == f"    hermes sessions show {made} --around {message}"
    assert score.startswith("    score ")
    shown = hermes(*how.split()[1:], "--window", "0")
    assert f"> {message}  user" in shown.out
    data = hermes("sessions", "search", "refresh tokens", "--json").json
    assert (data["count"], data["results"][0]["match_message_id"]) == (1, message)


@pytest.mark.proves("search.cli-search")
def test_below_a_question_stands_the_beginning_of_its_answer(db: SessionDB, hermes: Command) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    asked, _, _, answered, *_ = db.append_many(
        db.create_session(title="Lisbon"),
        [
            {"role": "user", "content": "Where did Maria tell me to eat in Lisbon?"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": "notes"},
            {"role": "assistant", "content": "At Ramiro,\nfor the clams. " + "It is near the castle. " * 10},
            {"role": "user", "content": "And in Porto?"},
            {"role": "user", "content": "Never mind."},
            {"role": "assistant", "content": "As you like."},
            {"role": "user", "content": "Goodbye."},
        ],
    )
    found = hermes("sessions", "search", "where did maria tell me to eat in lisbon")
    _, hit, answer, how, *_ = found.out.split("\n")
    assert hit.startswith("    user: ")
    assert answer.startswith("    assistant: At Ramiro, for the clams. It is near")
    assert answer.endswith(" …")
    assert how.endswith(f"--around {asked}")
    (row,) = hermes("sessions", "search", "maria lisbon", "--json").json["results"]
    assert (row["answer_message_id"], row["answer"].startswith("At Ramiro, for")) == (answered, True)
    (row,) = hermes("sessions", "search", "Porto", "--json").json["results"]
    assert "answer" not in row
    assert "    assistant: As you like.\n" in hermes("sessions", "search", "never mind").out
    assert "assistant: " not in hermes("sessions", "search", "goodbye").out
    (row,) = hermes("sessions", "search", "clams", "--json").json["results"]
    assert (row["matched_role"], "answer" in row) == ("assistant", False)


@pytest.mark.proves("search.cli-search")
def test_a_project_can_be_preferred_without_hiding_the_others(db: SessionDB, hermes: Command) -> None:
    web = talk(db, "the dunlin feeds", project="web")
    garden = talk(db, "the dunlin feeds", project="garden")
    for project, expected in (("web", [web, garden]), ("garden", [garden, web])):
        found = hermes("sessions", "search", "dunlin", "--prefer-project", project, "--json").json["results"]
        assert [row["session_id"] for row in found] == expected


@pytest.mark.proves("search.cli-search", "search.never-silent")
def test_nothing_found_is_exit_code_1_and_says_why(db: SessionDB, hermes: Command) -> None:
    talk(db, "only here", source="tool")
    nothing = hermes("sessions", "search", "only here")
    assert (nothing.code, nothing.out) == (1, "")
    assert "source tool" in nothing.err
    assert "no conversation matches 'only here'" in nothing.err
    talk(db, "about tea")
    assert hermes("sessions", "search", "kubernetes").err.startswith("hermes: no conversation matches 'kubernetes'")
    wrong = hermes("sessions", "search", "x", "--since", "whenever")
    assert (wrong.code, "3 days ago" in wrong.err) == (2, True)


@pytest.mark.proves("search.cli-show")
def test_a_conversation_is_shown_by_id_or_title_or_around_a_message(db: SessionDB, hermes: Command) -> None:
    made = talk(db, *[f"number {i}" for i in range(20)], title="Count")
    ids = [message.id for message in db.messages(made)]
    assert hermes("sessions", "show", "Count").out == hermes("sessions", "show", made).out
    part = hermes("sessions", "show", made, "--around", str(ids[10]), "--window", "1", "--json").json
    assert [each["message"]["content"] for each in part["messages"]] == ["number 9", "number 10", "number 11"]
    assert hermes("sessions", "show", "nobody").code == 1
    assert hermes("sessions", "show", made, "--around", "7").code == 1
    assert hermes("sessions", "show", made, "--around", "x").code == 2


@pytest.mark.proves("search.cli-terminal")
def test_stored_text_cannot_act_on_the_terminal(db: SessionDB, hermes: Command) -> None:
    made = talk(db, "clear \x1b[2J the screen \x07 and \u202e turn", title="evil", source="\x1b[31mred")
    for command in (("show", made), ("list",), ("search", "screen"), ("stats",)):
        out = hermes("sessions", *command).out
        assert not any(sign in out for sign in "\x1b\x07\u202e")
    assert "clear \\u001b[2J the screen" in hermes("sessions", "show", made).out


@pytest.mark.proves("search.cli-rename")
def test_titles_are_unique_with_a_number(db: SessionDB, hermes: Command) -> None:
    first, second = talk(db, "a"), talk(db, "b")
    assert hermes("sessions", "rename", first, "Plan", "A").out == f"{first} is now called Plan A\n"
    assert hermes("sessions", "rename", second, "Plan A", "--json").json["title"] == "Plan A #2"
    assert hermes("sessions", "show", "Plan A", "--json").json["session_id"] == first


@pytest.mark.proves("search.cli-delete")
def test_deleting_asks_says_what_it_removed_and_removes_it_from_search(db: SessionDB, hermes: Command) -> None:
    part = talk(db, "the plover nests", title="Plover")
    tip = talk(db, "the plover flies", "far", parent_session_id=part)
    helper = talk(db, "plover facts", parent_session_id=tip, source="subagent")
    branch = talk(db, "another bird", parent_session_id=part, kind="branch")
    refused = hermes("sessions", "delete", part)
    assert (refused.code, "use --yes" in refused.err) == (1, True)
    assert hermes("sessions", "delete", "Plover", "--yes").out == "deleted 1 conversation: 3 sessions, 4 messages\n"
    assert [db.find_session(each) for each in (part, tip, helper)] == [None, None, None]
    assert db.find_session(branch) is not None
    assert hermes("sessions", "search", "plover").code == 1


@pytest.mark.proves("search.cli-prune")
def test_only_ended_conversations_that_were_not_used_for_long_are_pruned(db: SessionDB, hermes: Command) -> None:
    now = time.time()
    old, open_one = (talk(db, "long ago", at=now - 100 * DAY) for _ in range(2))
    begun = talk(db, "long ago too", at=now - 100 * DAY)
    goes_on = talk(db, "still going", at=now - 95 * DAY, parent_session_id=begun)
    recent = talk(db, "yesterday", at=now - DAY)
    for session in (old, begun, recent):
        db.end_session(session, "cli_close")
    dry = hermes("sessions", "prune", "--older-than", "90", "--dry-run")
    assert (old in dry.out, "1 conversation would be deleted" in dry.out) == (True, True)
    refused = hermes("sessions", "prune", "--older-than", "90")
    assert (refused.code, db.find_session(old) is not None) == (1, True)
    done = hermes("sessions", "prune", "--yes", "--json").json
    assert (done["sessions"], done["messages"]) == ([old], 1)
    left = {
        session.id for session in (db.find_session(each) for each in (old, open_one, begun, goes_on, recent)) if session
    }
    assert left == {open_one, begun, goes_on, recent}
    assert "no ended conversation" in hermes("sessions", "prune").out


@pytest.mark.proves("search.cli-wrong-clock")
def test_a_clock_that_is_far_ahead_now_prunes_nothing_fresh(db: SessionDB) -> None:
    db.end_session(talk(db, "just now"), "cli_close")
    assert Maintenance.of_db(db).unused(90, now=time.time() + 400 * DAY) == []


@pytest.mark.proves("search.cli-wrong-clock")
def test_times_recorded_by_a_wrong_clock_are_judged_by_their_neighbours_in_order_of_use(db: SessionDB) -> None:
    now = time.time()
    old = talk(db, "long ago", at=now - 200 * DAY)
    ahead_but_old = talk(db, "clock was ahead", at=now + 7300 * DAY)
    old_too = talk(db, "long ago, too", at=now - 199 * DAY)
    recent = talk(db, "last week", at=now - 7 * DAY)
    behind_but_recent = talk(db, "clock was at its epoch", at=0.0)
    ahead_and_recent = talk(db, "clock was ahead again", at=now + 7300 * DAY)
    for session in (old, ahead_but_old, old_too, recent, behind_but_recent, ahead_and_recent):
        db.end_session(session, "cli_close")
    assert [session.id for session in Maintenance.of_db(db).unused(90, now=now + 60)] == [old, ahead_but_old, old_too]


@pytest.mark.proves("search.cli-stats")
def test_stats_count_what_there_is_by_source_and_month(db: SessionDB, hermes: Command) -> None:
    talk(db, "a", "b", source="telegram", at=1_714_738_200.0)
    talk(db, "c")
    figures = hermes("sessions", "stats", "--json").json
    assert (figures["conversations"], figures["messages"]) == (2, 3)
    assert {row["source"]: row["messages"] for row in figures["by_source"]} == {"telegram": 2, "cli": 1}
    assert figures["by_month"][-1] == {"month": "2024-05", "sessions": 1, "messages": 2}
    assert figures["file_bytes"] > 0
    assert "telegram" in hermes("sessions", "stats").out


@pytest.mark.proves("search.cli-stats")
def test_stats_of_a_home_without_conversations_are_zeros(home: Path, hermes: Command) -> None:
    empty = hermes("sessions", "stats")
    assert (empty.code, empty.out) == (0, "there are no conversations yet\n")
    figures = hermes("sessions", "stats", "--json")
    assert figures.code == 0
    assert (figures.json["messages"], figures.json["file_bytes"], figures.json["by_month"]) == (0, 0, [])
    assert not home.exists()
    SessionDB.open(home / "state.db").close()
    assert figures.json.keys() == hermes("sessions", "stats", "--json").json.keys()


@pytest.mark.proves("export.complete", "search.cli-stats")
def test_messages_are_counted_as_stats_counts_them_and_those_taken_back_apart(
    home: Path, hermes: Command, tmp_path: Path
) -> None:
    home.mkdir()
    with SessionDB.open(home / "state.db") as db:
        talk = db.create_session(source="cli")
        first, *_ = db.append_many(talk, [{"role": "user", "content": word} for word in ("one", "two", "three")])
        db.rewind(talk, first)
    archive, copy = str(tmp_path / "all.zip"), str(tmp_path / "copy")
    counted = {"messages": 1, "taken_back": 2}
    assert hermes("export", archive, "--json").json.items() >= counted.items()
    assert hermes("--home", copy, "import", archive, "--json").json.items() >= counted.items()
    assert hermes("sessions", "stats", "--json").json["messages"] == 1
    told = "with 1 session and 1 message (2 more that had been undone)"
    assert told in hermes("export", str(tmp_path / "again.zip")).out
    assert told in hermes("--home", str(tmp_path / "other"), "import", archive).out


@pytest.mark.proves("search.cli-optimize")
@pytest.mark.parametrize("both_engines", ["sqlite"], indirect=True)  # it is about the file
def test_optimizing_merges_the_index_in_steps_and_finds_the_same_afterwards(db: SessionDB, hermes: Command) -> None:
    for part in range(3):
        made = db.create_session()
        db.append_many(made, [{"role": "user", "content": f"word{i} stands beside {part}"} for i in range(40)])
        db.index()
    before = [hit.message_id for hit in db.search("word7 beside")]
    done = hermes("sessions", "optimize", "--json").json
    assert done["merge_steps"] > 0
    assert hermes("sessions", "optimize", "--json").json["merge_steps"] == 0
    assert [hit.message_id for hit in db.search("word7 beside")] == before
    assert hermes("sessions", "optimize", "--vacuum").out.startswith("the index was merged already; ")
    for part in range(2):
        db.append_many(db.create_session(), [{"role": "user", "content": f"more{i} of {part}"} for i in range(40)])
        db.index()
    shown = hermes("sessions", "optimize").out
    assert re.match(r"index merged in \d+ steps?; [\d.]+ kB on disk before, [\d.]+ kB now", shown)


@pytest.mark.proves("terminal.narrow")
@pytest.mark.parametrize(("no_color", "term"), [("", "xterm"), ("1", "xterm"), ("", "dumb")])
def test_found_words_are_bold_on_a_terminal_that_may_show_it(
    no_color: str, term: str, db: SessionDB, home: Path
) -> None:
    db.append(db.create_session(), {"role": "user", "content": "a note about harbours"})
    db.index()
    with OnTerminal(home, "sessions", "search", "harbours", NO_COLOR=no_color, TERM=term) as terminal:
        assert terminal.wait_for_end() == 0
    bold = not no_color and term == "xterm"
    assert (b"\x1b[1mharbours\x1b[0m" if bold else b">>>harbours<<<") in terminal.raw
    assert (b"\x1b[" in terminal.raw) == bold


@pytest.mark.proves("search.cli-progress")
def test_progress_is_drawn_on_a_terminal_and_cleared_and_silent_elsewhere() -> None:
    class Terminal(StringIO):
        def isatty(self) -> bool:
            return True

    watched, unwatched = Terminal(), StringIO()
    for stream in (watched, unwatched):
        progress = ui.Progress("importing", 200, stream=stream)
        progress.update(100)
        progress.close()
    assert watched.getvalue() == "\r\x1b[Kimporting [############............]  50%\r\x1b[K"
    assert unwatched.getvalue() == ""


@pytest.mark.proves("search.cli-optimize")
def test_a_large_import_leaves_a_merged_index(hermes: Command, tmp_path: Path) -> None:
    lines = [
        json.dumps(
            {"messages": [{"role": "user", "content": f"note {number} {at} about harbours"} for at in range(20)]}
        )
        for number in range(600)
    ]
    (tmp_path / "many.jsonl").write_text("\n".join(lines))

    assert hermes("sessions", "import", str(tmp_path / "many.jsonl"), "--json").json["messages"] == 12_000
    assert hermes("sessions", "optimize", "--json").json["merge_steps"] == 0
    assert hermes("sessions", "search", "harbours", "--json").code == 0


@pytest.mark.proves("search.secrets")
@pytest.mark.parametrize("words", ["deploy", "q7Xw"])
def test_no_snippet_shows_a_part_of_a_key_wherever_it_begins_and_whatever_was_asked(
    db: SessionDB, hermes: Command, words: str
) -> None:
    key = "ghp_q7Xw" + "Rt5Yb2Lm9Kd3Fs6Hj1Vc8Zn4Gp0TaWu2"
    for before in range(40, 70):
        made = db.create_session()
        db.append(made, {"role": "user", "content": f"{'x' * before} {key} is what we use to deploy"})
        db.append(made, {"role": "assistant", "content": f"I keep {key} for that"})
    db.sync()
    shown = hermes("sessions", "search", words, "--limit", "40", "--json")
    said = shown.out + hermes("sessions", "search", words, "--limit", "40").out
    said += hermes("tool", "session_search", json.dumps({"query": words, "limit": 10})).out
    assert "Vc8Zn4" not in said
    assert "Rt5Yb2" not in said
