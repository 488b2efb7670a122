"""Conversations out of the database and into it again."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes.conversations.database import Pages, SessionDB
from hermes.conversations.retrieval import unmasked
from hermes.portability.conversations_export import JsonlWriter, export
from hermes.portability.conversations_import import Importer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran

    Command = Callable[..., Ran]
CALL = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path": "a.txt"}'}}
ODD_MESSAGES: list[dict[str, Any]] = [
    {"role": "user", "content": "plain"},
    {"role": "user", "content": [{"type": "text", "text": "parts"}, {"type": "image_url", "image_url": {"url": "x"}}]},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [CALL],
        "reasoning": "because",
        "x_unknown": {"deep": [1, None]},
    },
    {"role": "tool", "tool_call_id": "c1", "name": "read", "content": "日本 \u0000 ``` \U0001f600"},
    {"role": "assistant", "content": "", "token_count": 12, "finish_reason": None},
]


def exported(db: SessionDB) -> str:
    out = io.StringIO()
    export(db, Pages.of_db(db).sessions(), JsonlWriter(db, out.write, unmasked))
    return out.getvalue()


def imported(db: SessionDB, text: str) -> tuple[int, int, int, list[str]]:
    result = Importer(db).read(io.BytesIO(text.encode("utf-8", "surrogatepass")))
    return result.sessions, result.messages, result.already_there, result.problems


@pytest.mark.proves("search.cli-round-trip", "search.cli-import-once")
def test_everything_comes_back_and_a_second_import_adds_nothing(db: SessionDB, tmp_path: Path) -> None:
    first = db.create_session(title="Odd", model="m", project="p", system_prompt="Be kind.", more={"a": [1]})
    ids = db.append_many(first, ODD_MESSAGES)
    db.set_compacted(first, ids[:2])
    db.update_session(first, input_tokens=7, actual_cost_usd=0.25)
    db.end_session(first, "compression")
    tip = db.create_session(parent_session_id=first, title="Odd")
    db.append(tip, {"role": "user", "content": "going on"})
    branch = db.create_session(parent_session_id=first, kind="branch", source="telegram")
    db.append(branch, {"role": "user", "content": "aside", "timestamp": 1_714_738_200.5})
    db.append(first, {"role": "user", "content": "late"})
    text = exported(db)
    with SessionDB.open(tmp_path / "copy.db", durability="turn") as copy:
        assert imported(copy, text) == (3, 8, 0, [])
        assert exported(copy) == text
        assert imported(copy, text) == (0, 0, 8, [])
        assert [row.id for row in copy.list_sessions()] == [row.id for row in db.list_sessions()]
        back = [message.message for message in copy.messages(first)]
    assert {message["outside"] for message in back} == {"import"}  # which the export of the copy leaves out again
    added = ("timestamp", "outside")
    kept = [{key: value for key, value in message.items() if key not in added} for message in back]
    assert kept[:-1] == ODD_MESSAGES
    assert imported(db, text) == (0, 0, 8, [])


@pytest.mark.proves("search.cli-import-once")
def test_an_import_that_was_cut_off_is_completed_by_the_next(db: SessionDB, tmp_path: Path) -> None:
    made = db.create_session()
    db.append_many(made, [{"role": "user", "content": f"number {i}"} for i in range(900)])
    text = exported(db)
    lines = text.splitlines(keepends=True)
    with SessionDB.open(tmp_path / "copy.db", durability="turn") as copy:
        assert imported(copy, "".join(lines[:300]))[:2] == (1, 299)
        assert imported(copy, text) == (0, 601, 299, [])
        assert exported(copy) == text


@pytest.mark.proves("search.cli-import-once")
def test_a_session_that_differs_is_reported_and_left_alone(db: SessionDB) -> None:
    made = db.create_session()
    db.append_many(made, [{"role": "user", "content": "one"}, {"role": "user", "content": "two"}])
    changed = exported(db).replace('"two"', '"TWO"')
    sessions, messages, there, problems = imported(db, changed)
    assert (sessions, messages, there) == (0, 0, 1)
    assert [(text[:7], "differs from message 2 on" in text) for text in problems] == [("line 3:", True)]
    assert [message.text for message in db.messages(made)] == ["one", "two"]


@pytest.mark.proves("search.cli-import")
def test_the_openai_format_is_read_and_bad_lines_are_named(home: Path, hermes: Command, tmp_path: Path) -> None:
    lines = [
        '{"role": "user", "content": "how tall is the tower?", "timestamp": "2024-05-03T12:10:00Z"}',
        "{not json",
        "[1, 2]",
        '{"role": 7, "content": "x"}',
        "",
        '{"role": "assistant", "content": "330 metres"}',
        '{"messages": [{"role": "user", "content": "q", "timestamp": 1714738200123}, {"role": "tool"}], "model": "m"}',
        '{"messages": [{"content": "nobody said it"}]}',
        '{"type": "message", "session": "unknown", "message": {"role": "user", "content": "lost"}}',
    ]
    file = tmp_path / "tower talk.jsonl"
    file.write_text("\ufeff" + "\n".join(lines), encoding="utf-8")
    ran = hermes("sessions", "import", str(file))
    assert (ran.code, ran.out) == (1, "imported 2 sessions with 4 messages; 0 messages were there already\n")
    assert re.findall(r"line (\d+):", ran.err) == ["2", "3", "4", "8", "9"]
    again = hermes("sessions", "import", str(file), "--json").json
    assert (again["sessions"], again["messages"], again["already_there"], again["bad_lines"]) == (0, 0, 4, 5)
    shown = hermes("sessions", "show", "tower talk", "--json").json
    assert (shown["source"], shown["started_at"]) == ("import", 1714738200.0)
    (other,) = [row for row in hermes("sessions", "list", "--json").json if row["preview"] == "q"]
    assert (other["model"], other["started_at"], other["title"]) == ("m", 1714738200.123, None)
    assert hermes("sessions", "search", "how tall is the tower?").code == 0
    assert hermes("sessions", "import", str(tmp_path / "missing.jsonl")).code == 1
    database = hermes("sessions", "import", str(home / "state.db"))
    assert (database.code, "hermes-agent" in database.err) == (1, True)


@pytest.mark.proves("search.cli-import")
def test_an_export_of_hermes_agent_comes_in_without_its_bookkeeping(db: SessionDB) -> None:
    row = {"id": 5, "session_id": "20240503_1", "active": 1, "tool_name": None, "timestamp": 1_714_738_200.0}
    session = {
        "id": "20240503_1",
        "source": "telegram",
        "started_at": 1_714_738_000.0,
        "title": "T",
        "messages": [
            {**row, "role": "user", "content": "hi", "tool_calls": None},
            {
                **row,
                "role": "assistant",
                "content": None,
                "tool_calls": json.dumps([CALL]),
                "active": 0,
                "compacted": 1,
            },
        ],
    }
    assert imported(db, json.dumps({"id": "20240503_1", "segments": [session]}) + "\n")[:2] == (1, 2)
    first, second = db.messages("20240503_1")
    assert first.message == {"role": "user", "content": "hi", "timestamp": 1_714_738_200.0, "outside": "import"}
    assert (second.message["tool_calls"], second.compacted) == ([CALL], True)


@pytest.mark.proves("search.cli-export")
@pytest.mark.parametrize("form", ["markdown", "html"])
def test_reading_formats_hold_every_message_and_nothing_that_runs(db: SessionDB, hermes: Command, form: str) -> None:
    made = db.create_session(title="<b>Bold</b> & co")
    db.append_many(made, [*ODD_MESSAGES, {"role": "user", "content": "<script>alert(1)</script>"}])
    out = hermes("sessions", "export", made, "--format", form).out
    assert all(word in out for word in ("plain", "parts", "a.txt", "日本"))
    if form == "html":
        assert "<script" not in out
        assert "&lt;b&gt;Bold&lt;/b&gt; &amp; co" in out
        assert not re.search(r"(src|href)=\"(?!#)", out)
        assert "Content-Security-Policy" in out
    else:
        assert "````\n日本" in out  # a fence longer than the one inside


@pytest.mark.proves("search.cli-export")
def test_a_page_keeps_the_lines_of_a_text_and_ends_its_code_with_it(db: SessionDB, hermes: Command) -> None:
    made = db.create_session(title="notes")
    db.append_many(made, [{"role": "user", "content": "first line\nsecond line"}])
    db.append(made, {"role": "assistant", "content": "```\nnever closed", "tool_calls": [CALL]})
    out = hermes("sessions", "export", made, "--format", "html").out
    assert "first line<br />\nsecond line" in out
    assert "Called <strong>read</strong>" in out


@pytest.mark.proves("search.cli-export")
def test_an_export_is_private_whole_or_not_there(db: SessionDB, hermes: Command, tmp_path: Path) -> None:
    db.append(db.create_session(), {"role": "user", "content": "x"})
    file = tmp_path / "out.jsonl"
    assert hermes("sessions", "export", "--all", "--out", str(file)).code == 0
    assert os.stat(file).st_mode & 0o777 == 0o600
    assert [entry.name for entry in tmp_path.iterdir() if entry.is_file()] == ["out.jsonl"]
    again = hermes("sessions", "export", "--all", "--out", str(file))
    assert (again.code, "--force" in again.err) == (1, True)
    assert hermes("sessions", "export", "--all", "--force", "--out", str(file)).code == 0
    assert hermes("sessions", "export", "--all", "--out", str(tmp_path / "no" / "such.jsonl")).code == 1
    assert hermes("sessions", "export").code == 2
    assert hermes("sessions", "export", "nobody").code == 1


@pytest.mark.proves("search.cli-export")
@pytest.mark.parametrize("both_engines", ["sqlite"], indirect=True)  # it is about the file
def test_damaged_messages_are_left_out_of_an_export_and_counted(home: Path, db: SessionDB, hermes: Command) -> None:
    db.append_many(db.create_session(), [{"role": "user", "content": text} for text in ("genuine", "tampered")])
    with contextlib.closing(sqlite3.connect(home / "state.db")) as raw, raw:
        raw.execute("UPDATE messages SET content = 'forged' WHERE content = 'tampered'")
    ran = hermes("sessions", "export", "--all")
    assert (ran.code, "1 damaged messages were left out" in ran.err) == (1, True)
    assert ("genuine" in ran.out, "forged" in ran.out) == (True, False)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KEYS = st.sampled_from(
    [
        "type",
        "id",
        "session",
        "message",
        "messages",
        "role",
        "content",
        "tool_calls",
        "timestamp",
        "source",
        "title",
        "parent_session_id",
        "kind",
        "details",
        "started_at",
        "segments",
        "session_id",
        "input_tokens",
        "model",
    ]
)
VALUES: st.SearchStrategy[Any] = JSON | st.sampled_from(
    ["session", "message", "user", "s1", {"role": "user", "content": "x"}]
)


@pytest.mark.proves("search.cli-import")
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(records=st.lists(st.dictionaries(KEYS, VALUES, max_size=6), max_size=6))
def test_any_json_lines_are_taken_in_or_reported(db: SessionDB, records: list[dict[str, Any]]) -> None:
    text = "".join(json.dumps(record) + "\n" for record in records)
    imported(db, text)
    before = db.counts()
    again = imported(db, text)
    assert (again[:2], db.counts()) == ((0, 0), before)
