"""A database of hermes-agent: recognised in our place, read without altering a byte, brought in once."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

import apsw
import pytest
from hermes_agent_layouts import LAYOUTS, REAL_PROGRAM, build, write_with_the_program

from hermes.base.errors import StorageError
from hermes.conversations.database import SessionDB
from hermes.portability.exchange import HomeCopy
from hermes.portability.hermes_agent import adopt_hermes_agent, import_hermes_agent

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran


@pytest.fixture(params=sorted(LAYOUTS))
def foreign(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "agent" / "state.db"
    path.parent.mkdir()
    build(path, request.param)
    return path


def _ours(tmp_path: Path) -> SessionDB:
    return SessionDB.open(tmp_path / "ours" / "state.db", durability="turn")


@pytest.mark.proves("repair.foreign-refused")
def test_a_hermes_agent_database_in_our_place_is_refused_untouched_with_the_command_that_adopts_it(
    foreign: Path,
) -> None:
    before = _fingerprints(foreign.parent)
    with pytest.raises(StorageError, match=r"hermes-agent.*hermes import hermes-agent"):
        SessionDB.open(foreign)
    assert _fingerprints(foreign.parent) | before == before


@pytest.mark.proves("repair.foreign-import")
def test_every_message_title_and_lineage_of_any_layout_comes_over(foreign: Path, tmp_path: Path) -> None:
    with _ours(tmp_path) as db:
        counts = import_hermes_agent(str(foreign), db)
        assert (counts.sessions, counts.messages) == (5, 10)
        assert db.get_session("root").title == "Deploy"
        assert db.get_session("root").started_at == 1_600_000_000.5
        assert db.get_session("root").input_tokens == 70
        assert db.session_details("root")["system_prompt"] == "be brief"
        assert [db.get_session(name).kind for name in ("tip", "side", "helper")] == [
            "compression",
            "branch",
            "delegate",
        ]
        assert db.tip("root").id == "tip"
        assert [session.id for session in db.list_sessions()] == ["tip", "side", "orphan"]
        question, call, result, packed = db.messages("root")
        assert question.timestamp == 1_600_000_000.5
        assert call.message["tool_calls"][0]["function"]["name"] == "weather"
        assert (result.message["role"], result.message["name"]) == ("tool", "weather")
        assert packed.message["content"] == [{"type": "text", "text": "东京的天气"}]
        assert db.messages("tip")[0].message["api_content"] == "as sent"


@pytest.mark.proves("repair.foreign-import")
@pytest.mark.parametrize("layout", ["inline index", "external index"])
def test_compacted_messages_stay_searchable_and_rewound_ones_stay_hidden(layout: str, tmp_path: Path) -> None:
    path = tmp_path / "foreign.db"
    build(path, layout)
    with _ours(tmp_path) as db:
        import_hermes_agent(str(path), db)
        assert [message.text for message in db.messages("tip") if message.compacted] == ["left the context"]
        assert [message.text for message in db.messages("tip", rewound=True) if message.rewound] == ["taken back"]
        assert not db.search("taken back")
        assert db.search("left the context")[0].session_id == "tip"


@pytest.mark.proves("repair.foreign-import")
def test_columns_nobody_knows_travel_along(tmp_path: Path) -> None:
    path = tmp_path / "foreign.db"
    build(path, "external index")
    with _ours(tmp_path) as db:
        import_hermes_agent(str(path), db)
        assert db.messages("root")[0].message["from_the_future"] == "new"
        assert db.session_details("root")["odd name"] == "kept"


@pytest.mark.proves("repair.foreign-once")
def test_a_second_import_adds_only_what_was_written_since(foreign: Path, tmp_path: Path) -> None:
    with _ours(tmp_path) as db:
        import_hermes_agent(str(foreign), db)
        again = import_hermes_agent(str(foreign), db)
        assert (again.sessions, again.messages, again.known) == (0, 0, 5)
        connection = apsw.Connection(str(foreign))
        connection.execute(
            "INSERT INTO messages (session_id, role, content, timestamp) VALUES ('tip', 'user', 'later', 2e9)"
        )
        connection.close()
        assert import_hermes_agent(str(foreign), db).messages == 1
        assert db.messages("tip")[-1].text == "later"


@pytest.mark.proves("repair.foreign-read-only")
def test_reading_alters_no_byte_even_when_a_log_waits(tmp_path: Path) -> None:
    path = tmp_path / "agent" / "state.db"
    path.parent.mkdir()
    build(path, "inline index")
    writer = apsw.Connection(str(path))
    writer.pragma("journal_mode", "wal")
    writer.execute(
        "INSERT INTO messages (session_id, role, content, timestamp) VALUES ('tip', 'user', 'only in the log', 2e9)"
    )
    before = _fingerprints(path.parent)
    with _ours(tmp_path) as db:
        assert import_hermes_agent(str(path), db).messages == 11
        assert db.search("only in the log")[0].session_id == "tip"
    assert _fingerprints(path.parent) == before
    writer.close()


@pytest.mark.proves("repair.foreign-adopt")
def test_adopting_puts_ours_in_its_place_and_keeps_the_original(foreign: Path) -> None:
    original = foreign.read_bytes()
    with HomeCopy(str(foreign.parent)) as copy:
        counts, kept = adopt_hermes_agent(str(foreign), copy)
        copy.swap()
    assert counts.messages == 10
    with open(kept, "rb") as file:
        assert file.read() == original
    with SessionDB.open(foreign) as db:
        assert db.search("deploy auth_ref")[0].session_id == "root"
    assert {name for name in os.listdir(foreign.parent) if not name.startswith("state.db")} == {"migration.lock"}


@pytest.mark.proves("repair.foreign-search")
def test_questions_that_its_own_search_cannot_answer_are_answered_here(tmp_path: Path) -> None:
    path = tmp_path / "real.db"
    questions = ["how do I deploy the auth_refactor_v2 service?", "桂林", "东京的天气"]
    if REAL_PROGRAM:
        unanswered = write_with_the_program(path)
        assert unanswered
    else:
        build(path, "inline index")
    with _ours(tmp_path) as db:
        import_hermes_agent(str(path), db)
        assert [question for question in questions if not db.search(question)] == []


def _fingerprints(folder: Path) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir() if path.suffix != ".lock"
    }


@pytest.mark.proves("repair.foreign-import", "repair.foreign-refused")
def test_the_import_command_brings_a_database_in_and_names_the_one_that_adopts_it(
    foreign: Path, home: Path, hermes: Callable[..., Ran]
) -> None:
    brought = hermes("sessions", "import", str(foreign), "--json").json
    assert brought["sessions"] > 0
    assert hermes("sessions", "import", str(foreign), "--json").json["messages"] == 0
    (home / "state.db").unlink()
    for name in os.listdir(home):
        if name.startswith("state.db"):
            os.unlink(home / name)
    (home / "state.db").write_bytes(foreign.read_bytes())
    refused = hermes("sessions", "list")
    assert (refused.code, "hermes import hermes-agent" in refused.err) == (1, True)
    assert "hermes import hermes-agent" in hermes("sessions", "import", str(home / "state.db")).err
    assert hermes("import", "hermes-agent", str(home), "--yes").code == 0
    assert hermes("sessions", "list").code == 0
