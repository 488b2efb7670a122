"""A home whose conversations are in PostgreSQL: preparing it, moving there and back, and working with it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from compacted import configure, talk
from lived_in import live_in
from pictures import as_openai, png, text

from hermes.base.errors import StorageError
from hermes.conversations.context import Contexts, SummaryGraph
from hermes.conversations.database import SessionDB
from hermes.memory.approval import Approvals
from hermes.memory.entries import Cause
from hermes.memory.store import MemoryStore
from hermes.operations.forget import forget
from hermes.portability.move import differences, documents_in, move
from hermes.session.session import MemorySession
from hermes.settings.home import find_home
from hermes.settings.people import People
from hermes.storage.documents import LocalDocuments

pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran
    from hermes.storage.ports import Documents

    Command = Callable[..., Ran]


@pytest.fixture
def database(on_postgres: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A prepared database that no home uses yet."""
    monkeypatch.delenv("HERMES_STORAGE_URL")
    return on_postgres


def lived_in(home: Path) -> None:
    """Conversations with a compaction, a branch, images, summaries and odd bytes."""
    configure(home)
    with MemorySession.open(home) as session:
        talk(session, 30)
        session.compact()
        talk(session, 2, start=30)
    with SessionDB.open(home / "state.db") as db:
        made = db.create_session(title="Pictures", system_prompt="p", mood="good")
        db.append_many(
            made,
            [
                {"role": "user", "content": [text("see"), as_openai(png())]},
                {"role": "assistant", "content": "a NUL \x00 and half \ud800 a letter", "timestamp": 5.5},
            ],
        )
        SummaryGraph(db, made).add(depth=0, ids="1", messages=1, text="leaf", made_by="m")
        Contexts(db).restore(db.list_sessions()[-1].id)
        db.rewind(made, db.messages(made)[0].id)
        db.set_meta("bytes", b"\x00\xff")
        db.delete(db.create_session())


def quiet(done: int, total: int) -> None:
    """Nobody watches."""


@pytest.mark.proves("storage.move")
def test_conversations_move_there_and_back_without_a_difference(home: Path, tmp_path: Path, database: str) -> None:
    lived_in(home)
    back = tmp_path / "back" / "state.db"
    with SessionDB.open(home / "state.db") as here, SessionDB.open(database) as there, SessionDB.open(back) as again:
        engines = (here, there, again)
        first = move(here, there, quiet)
        assert (first.copied, first.images) == (first.sessions, 1)
        assert move(there, again, quiet).messages == first.messages > 60
        assert list(differences(here, again)) == []
        for query in ("ticket ABC-0007", "Where is module_12 repaired?", "pictures", "it works now"):
            hits = [[(hit.message_id, hit.snippet, hit.score) for hit in db.search(query)] for db in engines]
            assert hits[0]
            assert hits[0] == hits[1] == hits[2], query
        newest = here.list_sessions()[0].id
        assert len({db.append(newest, {"role": "user", "content": "on"}) for db in engines}) == 1


@pytest.mark.proves("storage.move")
def test_a_move_goes_on_where_it_stopped_and_refuses_what_it_did_not_bring(home: Path, database: str) -> None:
    configure(home)
    with SessionDB.open(home / "state.db") as here, SessionDB.open(database) as there:
        sessions = [here.create_session(title=f"talk {number}") for number in range(6)]
        for session in sessions:
            here.append(session, {"role": "user", "content": f"words of {session}"})

        def interrupted(done: int, total: int) -> None:
            if done == total // 2:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            move(here, there, interrupted)
        assert there.counts()["sessions"] == 3
        here.append(sessions[0], {"role": "user", "content": "said meanwhile"})
        assert move(here, there, quiet).copied == 4
        there.create_session()
        with pytest.raises(StorageError, match="1 sessions of this person"):
            move(here, there, quiet)


@pytest.mark.proves("storage.prepare", "storage.move")
def test_one_command_prepares_checks_and_moves(
    home: Path, hermes: Command, postgres: str, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lived_in(home)
    assert "SQLite" in hermes("storage", "status").out
    assert hermes("storage", "init", "--url", database).out == "nothing to do: the database is up to date\n"
    assert hermes("storage", "migrate", "--url", database).code == 0
    moved = hermes("storage", "move", "--to", database)
    assert "compared one by one" in moved.out
    monkeypatch.setenv("HERMES_STORAGE_URL", database)
    status = hermes("storage", "status", "--json").json
    assert (status["engine"], status["missing"]) == ("postgresql", [])
    assert any("bypasses" in warning for warning in status["warnings"])
    hermes("config", "set", "memory.provider", "holographic")
    told = hermes("storage", "status", "--json").json["warnings"]
    assert any("memory of holographic is in local files" in warning for warning in told)
    hermes("config", "set", "memory.provider", "")
    found = hermes("sessions", "search", "ABC-0007", "--json").json
    assert found["results"]
    os.rename(home / "state.db", home / "old.db")
    back = hermes("storage", "move", "--from", database)
    assert "compared one by one" in back.out
    with SessionDB.open(home / "old.db") as old, SessionDB.open(home / "state.db") as new:
        assert [each.id for each in old.list_sessions()] == [each.id for each in new.list_sessions()]
    assert hermes("storage", "move").code != 0
    assert hermes("storage", "move", "--to", "mysql://nowhere").code != 0


@pytest.mark.proves("storage.home")
def test_a_session_works_in_a_home_whose_conversations_are_on_a_server(
    home: Path, hermes: Command, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_STORAGE_URL", database)
    configure(home)
    with MemorySession.open(home) as session:
        talk(session, 30)
        compacted = session.compact()
        talk(session, 2, start=30)
        name = session.id
        found: Any = session.call_tool("session_search", {"query": "ticket ABC-0002"})
    assert compacted
    assert "ABC-0002" in str(found)
    with MemorySession.open(home, resume=name) as again:
        request = again.prepare_turn("Which ticket was the last?")
        assert "ABC-0031" in str(request.messages)
        again.finish_turn("ABC-0031")
    assert not os.path.exists(home / "state.db")
    assert name in hermes("sessions", "list").out
    assert hermes("status").code == 0
    assert hermes("storage", "check", "--json").json["messages"] > 60
    assert "conversations" in hermes("doctor").out


@pytest.mark.proves("storage.home", "people.forget")
def test_a_forgotten_person_leaves_no_row(home: Path, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import psycopg

    monkeypatch.setenv("HERMES_STORAGE_URL", database)
    configure(home)
    people = People(find_home(home))
    for name in ("ann", "bob"):
        people.add(name)
        with MemorySession.open(people.home_of(name)) as session:
            session.prepare_turn(f"My secret is the {name}-kite.")
            session.finish_turn("Noted.")
        MemoryStore.open(people.home_of(name)).add("memory", f"{name.title()} flies the {name}-kite.")
    told = forget(people, "ann")
    assert (told.done, told.messages, told.entries) == (True, 2, 1)
    with psycopg.connect(database) as connection:
        connection.execute("SET search_path = hermes")
        names = connection.execute("SELECT name FROM people ORDER BY name").fetchall()
        assert names == [("local",), ("users/bob",)]  # the operator keeps the list of people
        for table in ("documents", "logs"):
            found = connection.execute(f"SELECT 1 FROM {table} WHERE position('ann-kite' IN data) > 0").fetchall()
            assert (table, found) == (table, [])
        assert connection.execute("SELECT count(DISTINCT person) FROM messages").fetchone() == (1,)
        assert connection.execute(
            "SELECT count(*) FROM messages WHERE position('ann-kite' IN content) > 0"
        ).fetchone() == (0,)


@pytest.mark.proves("storage.servers")
def test_two_servers_without_a_common_folder_serve_the_same_people(tmp_path: Path, on_postgres: str) -> None:
    one, other = (People(find_home(tmp_path / name)) for name in ("one", "other"))
    one.add("ann")
    key, secret = one.make_key("ann", rights=("approve",))
    assert (other.who(secret), other.may_approve(secret)) == ("ann", True)
    store = MemoryStore.open(one.home_of("ann"))
    store.add("user", "Ann speaks Finnish.")
    Approvals(one.home_of("ann")).stage(
        "memory", [{"action": "add", "content": "The door code is 7."}], Cause(origin="tool")
    )
    there = other.home_of("ann")
    approvals, seen = Approvals(there), MemoryStore.open(there)
    assert seen.entries("user") == ("Ann speaks Finnish.",)
    approvals.approve(approvals.pending()[0][0].id, seen)
    assert store.entries("memory") == ("The door code is 7.",)
    assert store.history("memory")[0][-1].cause.origin == "tool"
    assert not Approvals(one.home_of("ann")).pending()[0]
    other.revoke("ann", key.id)
    assert one.who(secret) is None
    with MemorySession.open(there) as session:
        assert "Finnish" in session.prepare_turn("Hello").system
        session.finish_turn("Hei")
    left = [name for place, _, names in os.walk(tmp_path) for name in names if "settings" not in name]
    assert left == []


@pytest.mark.proves("storage.servers")
def test_who_was_forgotten_and_comes_again_begins_anew_on_every_server(tmp_path: Path, on_postgres: str) -> None:
    one, other = (People(find_home(tmp_path / name)) for name in ("one", "other"))
    one.add("ann")
    MemoryStore.open(other.home_of("ann")).add("memory", "An old secret.")
    forget(one, "ann")
    one.add("ann")
    assert MemoryStore.open(other.home_of("ann")).entries("memory") == ()
    MemoryStore.open(other.home_of("ann")).add("memory", "A new start.")
    assert MemoryStore.open(one.home_of("ann")).entries("memory") == ("A new start.",)


@pytest.mark.proves("storage.move")
def test_memory_skills_keys_and_queues_move_there_and_back(
    home: Path, hermes: Command, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hermes.storage.postgres.documents import PostgresDocuments

    live_in(home)
    here = {name: read(LocalDocuments(str(home)), name) for name in documents_in(find_home(home))[1]}
    assert {"memories/MEMORY.md", "memories/MEMORY.md.history.jsonl", "users.json"} <= here.keys()
    assert any(
        "still files" in each for each in hermes("storage", "status", "--url", database, "--json").json["warnings"]
    )
    told = hermes("storage", "move", "--to", database, "--json").json
    assert not any(
        "still files" in each for each in hermes("storage", "status", "--url", database, "--json").json["warnings"]
    )
    assert told[0]["documents_copied"] == told[0]["documents"] == len(here)
    assert hermes("storage", "move", "--to", database, "--json").json[0]["documents_copied"] == 0
    there = PostgresDocuments(database, "local")
    assert {name: read(there, name) for name in here} == here
    monkeypatch.setenv("HERMES_STORAGE_URL", database)
    people = {each["person"] for each in told}
    assert len(people) > 1
    store, before = MemoryStore.open(home), MemoryStore.open(home).history("memory")[0]
    store.add("memory", "Written on the server.")
    waiting = Approvals(find_home(home)).pending()[0]
    for each in waiting:
        Approvals(find_home(home)).reject(each.id)
    refused = hermes("storage", "move", "--to", database)
    assert refused.code != 0
    assert "memories/MEMORY.md" in refused.err
    assert hermes("storage", "move", "--from", database).code == 0
    monkeypatch.delenv("HERMES_STORAGE_URL")
    assert "Written on the server." in MemoryStore.open(home).entries("memory")
    assert len(MemoryStore.open(home).history("memory")[0]) == len(before) + 1
    assert not Approvals(find_home(home)).pending()[0]
    MemoryStore.open(home).add("memory", "And at home again.")
    assert hermes("storage", "move", "--to", database, "--json").json[0]["documents_copied"] >= 2


def read(documents: Documents, name: str) -> bytes | None:
    above, last = os.path.split(name)
    return (documents.below(above) if above else documents).create().read(last, at_most=1 << 20)


@pytest.mark.proves("storage.export")
def test_an_export_and_a_backup_hold_what_is_in_the_database(
    home: Path, tmp_path: Path, hermes: Command, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    live_in(home)
    counted = hermes("export", str(tmp_path / "before.zip"), "--json").json
    assert hermes("storage", "move", "--to", database).code == 0
    monkeypatch.setenv("HERMES_STORAGE_URL", database)
    MemoryStore.open(home).add("user", "Written on the server.")
    stored = MemoryStore.open(home).entries("user")
    made = hermes("export", str(tmp_path / "after.zip"), "--json").json
    names = ("sessions", "messages", "taken_back", "damaged")
    assert [made[name] for name in names] == [counted[name] for name in names]
    backup = hermes("backup", "create", "--json").json
    assert os.path.dirname(backup["path"]) == str(home / "backups")
    assert hermes("backup", "verify", backup["path"]).code == 0
    monkeypatch.delenv("HERMES_STORAGE_URL")
    new = tmp_path / "new"
    assert hermes("--home", str(new), "import", str(tmp_path / "after.zip")).code == 0
    assert MemoryStore.open(new).entries("user") == stored
    with SessionDB.open(new / "state.db") as again, SessionDB.open(database) as there:
        assert [each.id for each in again.list_sessions()] == [each.id for each in there.list_sessions()]
    assert not (new / ".moved.json").exists()
