"""The PostgreSQL engine: a wall between people that no statement passes, restarts, and preparing a database."""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from hermes.base.errors import LockTimeout, StorageError, WriteRefused
from hermes.conversations.database import SessionDB
from soak import isolation
from soak.common import Options

psycopg = pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TABLES = (
    *("people", "sessions", "session_details", "blocks", "messages", "vocabulary", "meta", "vectors", "summaries"),
    *("images", "documents", "logs"),
)
INJECTED = (
    "'; SELECT set_config('hermes.person', '1', false); --",
    "kite') OR person > 0 --",
    '" OR ""*',
    "kite' | 'a':* & !'b",
    "\\'; RESET ROLE; --",
    "%s %(person)s $1",
    "x' UNION SELECT content FROM hermes.messages --",
)


@pytest.fixture
def ann(postgres: str) -> Iterator[SessionDB]:
    with SessionDB.open(postgres, owner="ann") as db:
        if not db.counts()["sessions"]:
            session = db.create_session(title="Ann's kite", system_prompt="secret prompt")
            db.append_many(session, [{"role": "user", "content": "the kite is in the attic"}])
            db.set_meta("note", "secret")
        yield db


@pytest.fixture
def login(postgres: str) -> str:
    """A login as a server has it: in hermes_app, and in nothing else."""
    with psycopg.connect(postgres, autocommit=True) as connection:
        if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = 'server'").fetchone():
            connection.execute("CREATE ROLE server LOGIN IN ROLE hermes_app")
    return postgres.replace("hermes@", "server@")


def _asked(address: str, person: str | None, sql: str, values: tuple[Any, ...] = ()) -> list[Any]:
    with psycopg.connect(address) as connection:
        connection.execute("SET search_path = hermes, public")
        if person is not None:
            connection.execute("SELECT set_config('hermes.person', %s, true)", (person,))
        found: list[Any] = connection.execute(sql, values).fetchall()
        return found


@pytest.mark.proves("storage.contract")
def test_an_import_that_goes_on_for_long_keeps_its_place_and_one_that_lost_it_adds_nothing(postgres: str) -> None:
    message = [{"role": "user", "content": "one more"}]
    with SessionDB.open(postgres, owner="importer") as db, SessionDB.open(postgres, owner="importer") as other:
        session = db.create_session()
        with db.importing(0):
            for _ in range(2):
                _minutes_pass(postgres, 9)
                with db.bulk():
                    db.append_many(session, message)
            with pytest.raises(LockTimeout), other.importing(0):
                pass
            _minutes_pass(postgres, 11)
            with other.importing(0), pytest.raises(LockTimeout), db.bulk():
                db.append_many(session, message)
        assert len(db.messages(session)) == 2


def _minutes_pass(address: str, minutes: int) -> None:
    """Makes everything that was stored until now this much older."""
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(
            "UPDATE hermes.documents SET updated_at = updated_at - make_interval(mins => %s)", (minutes,)
        )


@pytest.mark.proves("storage.isolation")
@pytest.mark.parametrize("person", [None, "", "0", "-1", "999999"])
def test_without_the_right_person_no_table_shows_a_row(ann: SessionDB, login: str, person: str | None) -> None:
    for table in TABLES:
        assert _asked(login, person, f"SELECT * FROM {table}") == [], table
    assert _asked(login, person, "SELECT matching('kite'::tsquery, NULL, false, 1 << 30, 9)") == []
    assert _asked(login, person, "SELECT frequency('kite'::tsquery, NULL)") == [(0,)]
    assert _asked(login, person, "SELECT unheld('messages', ARRAY['kite'])") == [("kite",)]


@pytest.mark.proves("storage.isolation")
def test_a_person_sees_and_changes_only_own_rows(ann: SessionDB, login: str) -> None:
    (mine,) = _asked(login, None, "SELECT person_named('ann')")[0]
    (other,) = _asked(login, None, "SELECT person_named('bob')")[0]
    for table in TABLES:
        rows = _asked(login, str(other), f"SELECT person FROM {table}")
        assert {person for (person,) in rows} <= {other}, table
        changed = f"UPDATE {table} SET person = person WHERE person = %s RETURNING 1"
        if table != "people":
            assert _asked(login, str(other), changed, (mine,)) == [], table
            assert _asked(login, str(other), f"DELETE FROM {table} WHERE person = %s RETURNING 1", (mine,)) == [], table
    planted = "INSERT INTO meta (person, key, kind, value) VALUES (%s, 'x', 'text', 'y') RETURNING 1"
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        _asked(login, str(other), planted, (mine,))
    assert _asked(login, str(other), "SELECT matching('kite'::tsquery, NULL, false, 1 << 30, 9)") == []
    assert ann.counts() == {"sessions": 1, "messages": 1}


@pytest.mark.proves("storage.isolation")
@pytest.mark.parametrize(
    "statement",
    [
        "SET ROLE hermes_engine",
        "SET ROLE hermes",
        "SET ROW_SECURITY = off; SELECT * FROM messages",
        "SELECT * FROM messages_0",
        "ALTER TABLE messages DISABLE ROW LEVEL SECURITY",
        "CREATE FUNCTION pg_temp.x() RETURNS int LANGUAGE sql AS 'SELECT 1'; DROP POLICY own ON messages",
        "SELECT content FROM messages WHERE person_named(content::text) > 0",
        "INSERT INTO people (name) VALUES ('eve')",
    ],
)
def test_a_servers_login_cannot_step_around_the_wall(ann: SessionDB, login: str, statement: str) -> None:
    with psycopg.connect(login, autocommit=True) as connection:
        connection.execute("SET search_path = hermes, public")
        try:
            ended = connection.execute(statement)
            shown = ended.fetchall() if ended.description else []
        except psycopg.Error:
            shown = []
    assert shown == []


@pytest.mark.proves("storage.isolation")
def test_what_a_person_types_is_never_a_statement(ann: SessionDB, postgres: str) -> None:
    with SessionDB.open(postgres, owner="eve") as eve:
        for text in INJECTED:
            assert eve.search(text) == []
            assert eve.search(text, sources=[text], project=text, sessions=[text]) == []
            assert eve.search(f'"{text}" OR kite*') == []
            assert eve.find_session(text) is None
            assert eve.resolve(text) is None
            assert eve.resembling(text) == []
            assert eve.list_sessions(source=text, project=text) == []
            assert eve.get_meta(text) is None
            assert eve.store.meta_from(text) == []
            assert eve.store.index.words_from(text, "a", "z", 10) == []
        for number in range(64):
            assert eve.session_of(number) is None
            assert eve.store.rows(range(number * 32, number * 32 + 32)) == {}
    with SessionDB.open(postgres, owner=INJECTED[0]) as named:
        assert named.counts() == {"sessions": 0, "messages": 0}
    with pytest.raises(WriteRefused):
        SessionDB.open(postgres, owner="nul\x00")
    assert ann.counts() == {"sessions": 1, "messages": 1}


@pytest.mark.proves("storage.isolation")
def test_a_connection_keeps_nothing_of_the_person_it_served(ann: SessionDB, postgres: str) -> None:
    from hermes.storage.postgres.database import pool_of

    assert ann.search("kite")
    with pool_of(postgres).connection() as connection:
        state = "SELECT current_setting('hermes.person', true), current_user, current_setting('search_path')"
        person, user, path = connection.execute(state).fetchone()
        assert (person or "", user) == ("", "hermes")
        assert "hermes," not in path
        assert connection.execute("SELECT count(*) FROM pg_prepared_statements").fetchone() == (0,)


@pytest.mark.proves("storage.restart")
def test_a_restart_of_the_server_loses_nothing_acknowledged() -> None:
    from postgres_server import Server, binaries

    from hermes.storage.postgres.schema import migrate

    found = binaries()
    if found is None:
        pytest.skip("no PostgreSQL 15 or newer on this machine")
    server = Server(found, options="-c max_connections=20 -c shared_buffers=16MB")
    try:
        migrate(server.address(), partitions=2)
        with SessionDB.open(server.address(), owner="ann") as db:
            session = db.create_session()
            kept = [db.append(session, {"role": "user", "content": f"before {number}"}) for number in range(20)]
            server.stop("immediate")
            with pytest.raises(StorageError, match=r"cannot be reached|does not answer"):
                db.append(session, {"role": "user", "content": "meanwhile"})
            server.start()
            kept.append(db.append(session, {"role": "user", "content": "after"}))
            assert [each.id for each in db.messages(session)] == kept
            assert db.search("after")[0].message_id == kept[-1]
    finally:
        server.close()


@pytest.mark.proves("storage.replica")
def test_a_search_runs_on_a_standby_that_has_everything_and_otherwise_on_the_primary() -> None:
    from postgres_server import Server, binaries

    from hermes.storage.postgres.schema import migrate

    found = binaries()
    if found is None or not os.path.exists(f"{found}/pg_basebackup"):
        pytest.skip("no PostgreSQL 15 or newer with pg_basebackup on this machine")
    options = "-c fsync=off -c max_connections=20 -c shared_buffers=16MB"
    with contextlib.ExitStack() as stack:
        primary = Server(found, options=options)
        stack.callback(primary.close)
        migrate(primary.address(), partitions=2)
        standby = Server(found, options=f"{options} -c log_statement=all", primary=primary)
        stack.callback(shutil.rmtree, standby.folder, ignore_errors=True)
        db = SessionDB.open(f"{primary.address()},{standby.folder}", owner="ann")
        asked = stack.enter_context(psycopg.connect(standby.address(), autocommit=True))
        session = db.create_session()
        db.append(session, {"role": "user", "content": "the kite is in the attic"})
        while not _searches_on(standby):  # until it has caught up
            assert len(db.search("Where is the kite?")) == 1

        asked.execute("SELECT pg_wal_replay_pause()")
        while asked.execute("SELECT pg_get_wal_replay_pause_state()").fetchone() != ("paused",):
            continue
        searches = _searches_on(standby)
        db.append(session, {"role": "user", "content": "the walrus is in the cellar"})
        assert len(db.search("walrus")) == 1
        assert _searches_on(standby) == searches

        standby.stop()
        assert len(db.search("walrus")) == 1
        db.close()


def _searches_on(server: Any) -> int:
    with open(f"{server.folder}/log", encoding="utf-8") as log:
        return log.read().count("FROM holders(")


@pytest.mark.proves("storage.prepare")
def test_preparing_twice_changes_nothing_and_an_unprepared_database_says_what_to_do(postgres: str) -> None:
    from hermes.storage.postgres.schema import migrate, status

    assert migrate(postgres) == []
    assert status(postgres)["missing"] == []
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS empty")
        connection.execute("CREATE DATABASE empty")
    empty = postgres.replace("/postgres?", "/empty?")
    assert not status(empty)["prepared"]
    with pytest.raises(StorageError, match="hermes storage init"):
        SessionDB.open(empty)
    with pytest.raises(StorageError, match="cannot be asked"):
        status(postgres.replace("/postgres?", "/nowhere?"))


@pytest.mark.proves("storage.isolation")
def test_no_route_statement_document_job_or_search_shows_a_byte_of_another_person(
    on_postgres: str, tmp_path: Path
) -> None:
    outcomes = list(isolation.trials(100, Options(folder=str(tmp_path), seed=3, quiet=True), on_postgres))
    assert [each.failures for each in outcomes] == [[], []]
    assert (outcomes[0].figures["trials"], outcomes[1].figures["trials"]) == (40, 60)
    assert {"statements", "calls"} <= set(outcomes[1].figures)
