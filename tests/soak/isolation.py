"""`bin/soak isolation`: 10,000 attempts to get at another person's rows in PostgreSQL. 0 bytes may come through.

Two fifths go over every surface of a running server (`bin/soak people` on PostgreSQL). The others come from inside:
statements sent with a server's login and no person, or a wrong one; and documents, jobs and searches of another person
whose names and questions are made of SQL. One person has secrets in every table; whatever comes back is searched for
them, and at the end they are all still there. Needs PostgreSQL 15 or newer on this machine.
"""

from __future__ import annotations

import contextlib
import os
import random
import tempfile
from typing import TYPE_CHECKING, Any

from postgres_server import Server, binaries

from hermes.base.errors import HermesError
from hermes.conversations.database import SessionDB
from hermes.memory.approval import Approvals
from hermes.memory.entries import Cause
from hermes.memory.store import MemoryStore
from hermes.providers.delivery import Outbox
from hermes.session.session import MemorySession
from hermes.settings.config import documents_of
from hermes.settings.home import find_home
from hermes.settings.people import People
from hermes.storage.jobs import Jobs
from soak import people
from soak.common import Outcome, Progress

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from hermes.settings.home import Home
    from soak.common import Options

SUMMARY = "people in one PostgreSQL database: no statement passes the wall"
DESCRIPTION = __doc__ or ""
TABLES = (
    *("people", "sessions", "session_details", "blocks", "messages", "vocabulary", "meta", "vectors", "summaries"),
    *("images", "documents", "logs", "documents_0", "messages_1", "logs_1"),
)
WRONG = (None, "", "0", "-1", "999999999", "EVE", "1 OR true", "NaN", "'; RESET ROLE; --")
INJECTED = (
    *("'; SELECT set_config('hermes.person', '{zoe}', false); --", "x' OR person = {zoe} --", "%' OR '1'='1"),
    *("') UNION SELECT data FROM hermes.documents --", "\\'; RESET ROLE; --", "%s %(person)s $1", "*\x00", "kite"),
    *("../zoe/memories/MEMORY.md", "users/zoe", "memories/MEMORY.md", "..%2f", "\ud800", "MEMORY.md' --"),
)
STATEMENTS = (
    "SELECT * FROM {table}",
    "SELECT row_to_json(t) FROM {table} t WHERE person = {zoe}",
    "UPDATE {table} SET person = person WHERE person = {zoe} RETURNING *",
    "DELETE FROM {table} WHERE person = {zoe} RETURNING *",
    "COPY {table} TO STDOUT",
    "SET row_security = off; SELECT * FROM {table}",
    "SET ROLE hermes_engine; SELECT * FROM {table}",
    "SELECT matching('kite'::tsquery, NULL, false, 1 << 40, 99), frequency('kite'::tsquery, NULL)",
    "SELECT unheld('messages', ARRAY['{text}']), * FROM {table}",
    "WITH taken AS (DELETE FROM {table} RETURNING *) SELECT * FROM taken",
    "SELECT * FROM {table} WHERE name = '{text}' OR true",
    "DO $$ BEGIN PERFORM set_config('hermes.person', '', false); END $$; SELECT * FROM {table}",
    "SELECT query FROM pg_stat_activity WHERE query LIKE '%kite%'",
    "SELECT most_common_vals::text FROM pg_stats WHERE schemaname = 'hermes' AND tablename LIKE '{table}%'",
)


def add_choices(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--trials", type=int, default=10_000, metavar="N", help="attempts in all (default: 10,000)")


def run(given: argparse.Namespace, options: Options) -> Iterator[Outcome]:
    from hermes.storage.postgres.schema import migrate

    found = binaries()
    if found is None:
        raise SystemExit("there is no PostgreSQL 15 or newer in /usr/lib/postgresql (Debian: postgresql-15)")
    server = Server(found)
    try:
        migrate(server.address(), partitions=4)
        yield from trials(given.trials, options, server.address())
    finally:
        server.close()


def trials(count: int, options: Options, address: str) -> Iterator[Outcome]:
    """`address` is of a prepared database, with a login that may make roles."""
    import psycopg

    with psycopg.connect(address, autocommit=True) as connection, contextlib.suppress(psycopg.errors.DuplicateObject):
        connection.execute("CREATE ROLE server LOGIN IN ROLE hermes_app")
    login = address.replace("//hermes@", "//server@")
    before = os.environ.get("HERMES_STORAGE_URL")
    os.environ["HERMES_STORAGE_URL"] = login
    try:
        surfaces = people.trials(count * 2 // 5, options)
        surfaces.name = "isolation: surfaces"
        yield surfaces
        yield _inside(count - count * 2 // 5, options, login)
    finally:
        if before is None:
            del os.environ["HERMES_STORAGE_URL"]
        else:
            os.environ["HERMES_STORAGE_URL"] = before


def _inside(count: int, options: Options, login: str) -> Outcome:
    outcome = Outcome(name="isolation: inside", figures={"trials": 0, "statements": 0, "calls": 0, "refused": 0})
    chance = random.Random(options.seed)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        known = People(find_home(folder))
        for name in ("zoe", "eve"):
            known.add(name)
        zoe, eve = known.home_of("zoe"), known.home_of("eve")
        secrets = _planted(zoe, chance)
        number = _number(login, "users/zoe")
        attempts = _calls(eve, login)
        progress = Progress("isolation", count, options)
        for trial in range(count):
            text = chance.choice(INJECTED).replace("{zoe}", str(number))
            if chance.random() < 0.5:
                seen = _statement(login, chance, number, text, outcome)
            else:
                seen = _call(chance.choice(attempts), text, outcome)
            outcome.count("trials")
            for secret in secrets:
                if secret in seen:
                    outcome.fail(f"trial {trial} with {text!r}: {secret} was in {seen[:300]!r}")
            if not progress.goes_on(trial + 1, outcome):
                break
        left = _everything(zoe)
        outcome.fail(*(f"{secret} is gone" for secret in secrets if secret not in left))
    return outcome


def _planted(home: Home, chance: random.Random) -> list[str]:
    """Secrets in every place a person has: conversations, memory and its history, approvals, jobs, small values."""
    secrets = [f"zoe{chance.getrandbits(48):012x}" for _ in range(6)]
    with MemorySession.open(home, title=f"kite {secrets[0]}") as session:
        session.prepare_turn(f"The kite {secrets[1]} is in the attic.")
        session.finish_turn("Noted.")
        session.database.set_meta("kite", secrets[2])
    MemoryStore.open(home).add("memory", f"The kite is called {secrets[3]}.")
    waiting = [{"action": "add", "content": f"Perhaps {secrets[4]}."}]
    Approvals(home).stage("memory", waiting, Cause(origin="tool"))
    Outbox(documents_of(home), "honcho").put("on_memory_write", {"content": secrets[5]})
    return secrets


def _everything(home: Home) -> str:
    documents = documents_of(home)
    found = []
    for name in documents.every():
        above, _, last = name.rpartition("/")
        found.append((documents.below(above) if above else documents).create().read(last, at_most=1 << 20))
    with MemorySession.open(home) as session:
        sessions = session.database.list_sessions(limit=9)
        texts = [each.text for row in sessions for each in session.database.messages(row.id)]
        return repr((found, sessions, texts, session.database.get_meta("kite")))


def _number(login: str, name: str) -> int:
    import psycopg

    with psycopg.connect(login) as connection:
        row = connection.execute("SELECT hermes.person_named(%s)", (name,)).fetchone()
        return int(row[0]) if row else 0


def _statement(login: str, chance: random.Random, zoe: int, text: str, outcome: Outcome) -> str:
    """One statement as a server's login could send it, with no person set, or a wrong one."""
    import psycopg

    outcome.count("statements")
    person = chance.choice(WRONG)
    if person == "EVE":
        person = str(_number(login, "users/eve"))
    named = text.replace("\x00", "").replace("\ud800", "").replace("'", "''" if chance.random() < 0.5 else "'")
    sql = chance.choice(STATEMENTS).format(table=chance.choice(TABLES), zoe=zoe, text=named)
    try:
        with psycopg.connect(login) as connection:
            connection.execute("SET search_path = hermes, public")
            if person is not None:
                connection.execute("SELECT set_config('hermes.person', %s, true)", (person,))
            with connection.cursor() as cursor:
                if sql.startswith("COPY"):
                    with cursor.copy(sql) as copied:
                        return repr([bytes(each) for each in copied])
                cursor.execute(sql.encode(), prepare=False)
                seen = [cursor.fetchall() if cursor.description else []]
                while cursor.nextset():
                    seen.append(cursor.fetchall() if cursor.description else [])
                connection.rollback()
                return repr(seen)
    except psycopg.Error as error:
        outcome.count("refused")
        return repr(error)


def _calls(home: Home, login: str) -> list[Callable[[str], Any]]:
    """What the program itself does for Eve, with names and questions that she chooses."""
    documents, db = documents_of(home), SessionDB.open(login, owner="users/eve")
    folder = documents.create()
    return [
        db.search,
        lambda text: db.search(f'"{text}" OR kite*', sources=[text], project=text, sessions=[text]),
        lambda text: (db.find_session(text), db.resolve(text), db.resembling(text), db.list_sessions(source=text)),
        lambda text: (db.get_meta(text), db.store.meta_from(text), db.store.index.words_from(text, "a", "z", 99)),
        lambda text: db.store.rows(range(len(text) * 32, len(text) * 32 + 4096)),
        lambda text: documents.below(text).create().names(),
        lambda text: documents.below(text).every(),
        lambda text: folder.read(text, at_most=1 << 20),
        lambda text: (folder.journal(text + ".jsonl").read(), folder.journal(text).mentions(text)),
        lambda text: folder.shared(text, at_most=1 << 20).see().data,
        lambda text: (folder.remove(text), folder.size(text), folder.stamp(text)),
        lambda text: (folder.lease(text, seconds=-1).take(), folder.read(text, at_most=1 << 20)),
        lambda text: Jobs(documents.below(text)).waiting(),
        lambda text: Jobs(documents.below("outbox", "honcho", text)).waiting(),
        lambda text: Outbox(documents, text, user="zoe").names(),
        lambda text: Approvals(home).get(text),
        lambda text: MemoryStore.open(home, project=text).entries("memory"),
        lambda text: SessionDB.open(login, owner=f"users/eve{text}").counts(),
    ]


def _call(attempt: Callable[[str], Any], text: str, outcome: Outcome) -> str:
    outcome.count("calls")
    try:
        return repr(attempt(text))
    except HermesError as error:
        outcome.count("refused")
        return repr(error)
