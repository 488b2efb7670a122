"""`hermes import hermes-agent`: a whole home, copied or in its place."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Any

import apsw
import pytest
from agent_home import CONFIG, OURS, furnish
from engines import database_of
from hermes_agent_layouts import LAYOUTS, REAL_PROGRAM, build
from homes import tree
from killing import AT_THE_END, killed

from hermes.conversations.database import SessionDB
from hermes.memory.store import MemoryStore
from hermes.storage.local.database import foreign_program

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran

    Command = Callable[..., Ran]


@pytest.mark.proves("adopt.copied", "adopt.twice")
def test_a_home_is_copied_with_everything_that_has_a_place(home: Path, hermes: Command, tmp_path: Path) -> None:
    source = furnish(tmp_path / "agent")
    original = tree(source)
    hermes("memory", "add", "Mine.")
    shown = hermes("import", "hermes-agent", str(source), "--dry-run")
    assert (shown.code, "sessions" in shown.out) == (0, True)
    assert hermes("import", "hermes-agent", str(source)).code == 1
    ran = hermes("import", "hermes-agent", str(source), "--yes")
    assert ran.code == 0, ran.err
    store = MemoryStore.open(home)
    assert store.entries("memory") == ("Mine.", "Runs Debian.", "- keeps\n- its list")
    assert store.provenance("memory")["Runs Debian."].origin == "import"
    assert store.entries("user") == ("Likes tea.",)
    with SessionDB.open(home / "state.db") as db:
        assert db.counts()["sessions"] == 5
    with SessionDB.open(home / "profiles" / "office" / "state.db") as db:
        assert db.get_session("root").title == "Deploy"
    assert "Office note." in hermes("--profile", "office", "memory", "list").out
    assert hermes("config", "get", "memory.memory_char_limit").out.strip() == "3000"
    assert hermes("config", "check").code == 0
    assert {"honcho.json", "SOUL.md", "skills"} <= set(os.listdir(home))
    assert not (home / ".env").exists()
    assert tree(source) == original
    before = _visible(home)
    again = hermes("import", "hermes-agent", str(source), "--yes")
    assert "nothing was changed" in again.out
    assert _visible(home) == before
    hermes("import", "hermes-agent", str(source), "--yes", "--migrate-secrets")
    assert "sk-or-1" in (home / ".env").read_text(encoding="utf-8")


def _visible(home: Path) -> dict[str, bytes]:
    hidden = (".MEMORY", ".USER")
    return {name: data for name, data in tree(home).items() if not os.path.basename(name).startswith(hidden)}


@pytest.mark.proves("adopt.in-place", "adopt.twice")
@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_a_home_becomes_ours_where_it_stands(layout: str, home: Path, hermes: Command) -> None:
    furnish(home, layout)
    before = tree(home)
    assert hermes("memory", "list").code == 2
    ran = hermes("import", "hermes-agent", str(home), "--yes", "--no-backup", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["in_place"] is True
    assert hermes("backup", "verify", ran.json["backup"]).code == 0
    assert hermes("config", "check").code == 0
    assert (home / "config.yaml").read_text(encoding="utf-8") == OURS
    assert MemoryStore.open(home).entries("memory") == ("Runs Debian.", "- keeps\n- its list")
    for place in (home, home / "profiles" / "office"):
        assert foreign_program(str(place / "state.db")) is None
        with SessionDB.open(place / "state.db") as db:
            assert db.search("deploy auth_ref")[0].session_id == "root"
    assert tree(home)[".env"] == before[".env"]
    assert "nothing was changed" in hermes("import", "hermes-agent", str(home), "--yes").out
    hermes("backup", "restore", ran.json["backup"], "--yes")
    assert foreign_program(str(home / "state.db")) == "hermes-agent"
    assert (home / "config.yaml").read_text(encoding="utf-8") == CONFIG


@pytest.mark.proves("adopt.in-place", "adopt.found")
def test_who_comes_with_a_home_of_hermes_agent_is_told_the_one_command_that_adopts_it(
    home: Path, hermes: Command
) -> None:
    furnish(home)
    (home / "memories" / "MEMORY.md").chmod(0o644)
    (home / "logs").mkdir()
    told = hermes("memory", "list")
    assert told.code == 2
    assert told.err.startswith(f"hermes: {home}/config.yaml belongs to hermes-agent (it sets memory.flush_min_turns): ")
    assert "`hermes import hermes-agent` converts this home in place" in told.err
    assert "→ `hermes import hermes-agent` makes this home ours" in hermes("doctor", "--offline").out
    assert "`hermes import hermes-agent` converts this home in place" in hermes("sessions", "list").err
    shown = hermes("import", "hermes-agent", "--dry-run").out
    assert "preview, nothing has been changed: " in shown
    assert f"- other: `{home}/logs` (Hermes does not use it)" in shown
    done = hermes("import", "hermes-agent", "--yes").out
    assert ", carried out: " in done
    assert "preview" not in done
    (backup,) = (home / "backups").iterdir()
    assert done.endswith(f"; the home as it was is in {backup}\n")
    assert "other users of this machine cannot read it" in hermes("doctor", "--offline").out
    again = hermes("import", "hermes-agent", str(home), "--yes").out
    assert "nothing to do" in again
    assert "other:" not in again


@pytest.mark.proves("adopt.found")
def test_a_database_of_hermes_agent_alone_is_found_too_and_an_own_mistake_is_no_foreign_home(
    home: Path, hermes: Command, nobodys_home: Path
) -> None:
    home.mkdir()
    missing = hermes("import", "hermes-agent")
    assert missing.err.startswith(f"hermes: there is no home at {nobodys_home}/.hermes; name the home of ")
    (home / "config.yaml").write_text("memory:\n  nudge_intervall: 3\n", encoding="utf-8")
    assert "did you mean memory.nudge_interval?" in hermes("memory", "list").err
    assert hermes("import", "hermes-agent").err == missing.err
    build(home / "state.db", "inline index")
    assert f"Migration from {home}" in hermes("import", "hermes-agent", "--dry-run").out


@pytest.mark.proves("adopt.whole")
def test_an_adoption_that_fails_leaves_the_home_as_it_was(home: Path, hermes: Command, tmp_path: Path) -> None:
    source = furnish(tmp_path / "agent")
    hermes("memory", "add", "Mine.")
    with SessionDB.open(home / "state.db") as db:
        db.append(db.create_session(title="Mine"), {"role": "user", "content": "my words"})
        database_of(db).connection.execute("""
            CREATE TRIGGER refuse BEFORE INSERT ON sessions WHEN new.id = 'orphan'
            BEGIN SELECT raise(ABORT, 'no room'); END
        """)
    before = _visible(home)
    failed = hermes("import", "hermes-agent", str(source), "--yes", "--no-backup")
    assert (failed.code, "no room" in failed.err) == (1, True)
    after = _visible(home)
    assert {name: data for name, data in after.items() if name != "state.db"} == {
        name: data for name, data in before.items() if name != "state.db"
    }
    with SessionDB.open(home / "state.db") as db:
        assert [session.title for session in db.list_sessions()] == ["Mine"]
        assert db.counts() == {"sessions": 1, "messages": 1}
        database_of(db).connection.execute("DROP TRIGGER refuse")
    assert hermes("import", "hermes-agent", str(source), "--yes").code == 0


@pytest.mark.proves("adopt.in-place", "adopt.whole", "migration.kills")
def test_memory_in_another_form_is_accepted_and_put_back_after_a_kill(home: Path, hermes: Command) -> None:
    furnish(home)
    (home / "memories" / "MEMORY.md").write_text("  Runs Debian.  \n\n§\n\n  Likes order.\n\n", encoding="utf-8")
    before = _visible(home)
    killed(home, AT_THE_END, "import", "hermes-agent", str(home), "--yes")
    assert hermes("memory", "list").code == 2  # the settings are hermes-agent's again
    assert _visible(home) == before
    assert foreign_program(str(home / "state.db")) == "hermes-agent"
    ran = hermes("import", "hermes-agent", str(home), "--yes", "--json")
    assert "written in another form" in ran.out
    assert MemoryStore.open(home).entries("memory") == ("Runs Debian.", "Likes order.")
    assert [name for name in os.listdir(home / "memories") if name.startswith("MEMORY.md.bak.")]


@pytest.mark.proves("adopt.copied")
def test_provider_files_come_with_what_is_still_in_their_logs(home: Path, hermes: Command, tmp_path: Path) -> None:
    source = furnish(tmp_path / "agent")
    (source / "hindsight" / "__pycache__").mkdir(parents=True)
    (source / "hindsight" / "config.json").write_text("{}", encoding="utf-8")
    (source / "hindsight" / "__pycache__" / "x.pyc").write_bytes(b"compiled")
    os.symlink("/etc", source / "plugins")
    (source / "profiles" / "Not A Name").mkdir()
    facts = apsw.Connection(str(source / "memory_store.db"))
    facts.pragma("journal_mode", "WAL")
    facts.execute("CREATE TABLE facts (text); INSERT INTO facts VALUES ('only in the log')")
    report = hermes("import", "hermes-agent", str(source), "--yes", "--json").json
    facts.close()
    assert [item["reason"] for item in report["items"] if item["source"].endswith("/plugins")] == [
        "a link; links are not followed"
    ]
    assert os.listdir(home / "hindsight") == ["config.json"]
    assert os.listdir(home / "profiles") == ["office"]
    copy = apsw.Connection(str(home / "memory_store.db"))
    assert copy.execute("SELECT text FROM facts").fetchall() == [("only in the log",)]


@pytest.mark.proves("adopt.copied")
def test_secrets_settings_and_databases_that_stand_in_the_way_are_named(
    home: Path, hermes: Command, tmp_path: Path
) -> None:
    source = furnish(tmp_path / "agent")
    hermes("config", "set", "memory.memory_char_limit", "3000")
    (home / ".env").write_text("OPENROUTER_API_KEY=sk-or-2\n", encoding="utf-8")
    build(home / "state.db", "inline index")
    (source / "memories" / "USER.md").write_bytes(bytes(range(256)))
    (source / "profiles" / "office" / "state.db").write_bytes(b"no database")
    items = hermes("import", "hermes-agent", str(source), "--migrate-secrets", "--dry-run", "--json").json["items"]
    said = {item["reason"] for item in items}
    assert {"it has this value already", "another value is there", "it is not a database of hermes-agent"} <= said
    assert "another program's database is in the home; run `hermes import hermes-agent` first" in said
    (source / ".env").write_text("OPENROUTER_API_KEY=sk-or-2\n", encoding="utf-8")
    items = hermes("import", "hermes-agent", str(source), "--migrate-secrets", "--dry-run", "--json").json["items"]
    assert "it is there already" in {item["reason"] for item in items if item["kind"] == "secrets"}
    (source / ".env").write_text("no secret\n", encoding="utf-8")
    items = hermes("import", "hermes-agent", str(source), "--migrate-secrets", "--dry-run", "--json").json["items"]
    assert [item["status"] for item in items if item["kind"] == "secrets"] == ["error"]


@pytest.mark.proves("adopt.copied")
def test_what_is_no_home_and_what_differs_is_refused(home: Path, hermes: Command, tmp_path: Path) -> None:
    assert hermes("import", "hermes-agent", str(tmp_path / "none")).code == 1
    (tmp_path / "empty").mkdir()
    assert hermes("import", "hermes-agent", str(tmp_path / "empty")).code == 1
    source = furnish(tmp_path / "agent")
    hermes("config", "set", "memory.memory_char_limit", "500")
    refused = hermes("import", "hermes-agent", str(source), "--yes")
    assert (refused.code, "--overwrite" in refused.err) == (1, True)
    assert hermes("import", "hermes-agent", str(source), "--yes", "--overwrite").code == 0
    assert hermes("import", "x.zip", "y").code == 2


_RELEASED = """
import json, os, sys
from hermes_state import SessionDB
home = os.environ["HERMES_HOME"]
db = SessionDB(db_path=__import__("pathlib").Path(home) / "state.db")
def say(session, role, content, **more): db.append_message(session, role, content, **more)
db.create_session("root", source="cli", model="m")
for number in range(40):
    say("root", "user", f"question {number} about auth_refactor_v2?")
    say("root", "assistant", f"answer {number}, on to 桂林")
asked = {"name": "weather", "arguments": json.dumps({"q": "东京的天气"})}
calls = [{"id": "c1", "type": "function", "function": asked}]
say("root", "assistant", "", tool_calls=calls)
say("root", "tool", "sunny", tool_name="weather", tool_call_id="c1")
db.set_session_title("root", "Release talk")
db.end_session("root", "compression")
db.create_session("tip", source="cli", model="m", parent_session_id="root")
say("tip", "user", "and further")
db.set_session_title("tip", "Release talk #2")
db.close()
from tools.memory_tool import MemoryStore
store = MemoryStore(memory_char_limit=2200, user_char_limit=1375)
store.load_from_disk()
store.add("memory", "The deploy host runs Debian 12.")
store.add("user", "Likes tea.")
from hermes_state import SessionDB
again = SessionDB(db_path=__import__("pathlib").Path(home) / "state.db")
asked = ["what about auth_refactor_v2?", "东京的天气"]
print(json.dumps({q: len(again.search_messages(q)) for q in asked}))
"""


@pytest.mark.proves("adopt.released")
@pytest.mark.skipif(not REAL_PROGRAM, reason="HERMES_AGENT_PYTHON names no Python with hermes-agent installed")
def test_a_home_made_by_the_released_program_is_adopted(home: Path, hermes: Command) -> None:
    home.mkdir()
    environment = {**os.environ, "HERMES_HOME": str(home)}
    made = subprocess.run(
        [REAL_PROGRAM, "-c", _RELEASED], env=environment, capture_output=True, text=True, check=True, cwd=home
    )
    theirs: dict[str, Any] = json.loads(made.stdout.splitlines()[-1])
    assert 0 in theirs.values()
    ran = hermes("import", "hermes-agent", str(home), "--yes", "--json")
    assert ran.code == 0, ran.err
    with SessionDB.open(home / "state.db") as db:
        assert len(db.messages("root")) == 82
        assert db.get_session("root").title == "Release talk"
        assert db.get_session("tip").title == "Release talk #2"
        assert (db.tip("root").id, db.get_session("root").end_reason) == ("tip", "compression")
        for question in theirs:
            assert db.search(question), question
    assert MemoryStore.open(home).entries("memory") == ("The deploy host runs Debian 12.",)
    assert hermes("memory", "list").code == 0


@pytest.mark.proves("adopt.released")
def test_a_home_with_the_layout_of_the_released_program_is_found_in_every_way(home: Path, hermes: Command) -> None:
    furnish(home, "inline index")
    hermes("import", "hermes-agent", str(home), "--yes")
    with SessionDB.open(home / "state.db") as db:
        assert [db.get_session(name).kind for name in ("tip", "side", "helper")] == [
            "compression",
            "branch",
            "delegate",
        ]
        assert db.search("东京的天气")
