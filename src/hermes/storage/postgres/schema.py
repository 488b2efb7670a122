"""Prepares a PostgreSQL database: applies numbered SQL files in order under a lock, and creates the roles."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import psycopg

from hermes.base.errors import StorageError
from hermes.storage.postgres.database import APP, ENGINE, SCHEMA, parameters, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

PARTITIONS = 64  # of each table, fixed once prepared; docs/concepts/a-million-people.md says when to choose more
OLDEST = 150000  # PostgreSQL 15, the first version with all features that we use
_LOCK = 0x4852 << 32  # number of the advisory lock that lets one migration run at a time
_FOLDER = os.path.join(os.path.dirname(__file__), "migrations")
_ROLES = f"""
    DO $$ BEGIN
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{APP}') THEN
            CREATE ROLE {APP} NOLOGIN NOBYPASSRLS;
        END IF;
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{ENGINE}') THEN
            CREATE ROLE {ENGINE} NOLOGIN NOBYPASSRLS;
        END IF;
    END $$
"""
_STATE = f"""
    SELECT n.nspname IS NOT NULL, r.rolsuper, r.rolbypassrls, pg_has_role(r.oid, '{APP}', 'member')
    FROM pg_roles r LEFT JOIN pg_namespace n ON n.nspname = '{SCHEMA}' WHERE r.rolname = current_user
"""
# Tables on which row-level security is off, or does not apply to their owner.
_UNFORCED = f"""
    SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = '{SCHEMA}' AND c.relkind IN ('p', 'r') AND NOT c.relispartition AND c.relname <> 'migrations'
        AND NOT (c.relrowsecurity AND c.relforcerowsecurity)
"""


def migrations() -> list[str]:
    """The names of all SQL files of this Hermes, in the order in which they are applied."""
    return sorted(name for name in os.listdir(_FOLDER) if name.endswith(".sql"))


def migrate(address: str, *, partitions: int = PARTITIONS) -> list[str]:
    """Brings the database to the newest layout and returns what was applied; the login must be able to create roles."""
    try:
        with psycopg.connect(address, autocommit=True, **parameters(address)) as connection:
            if connection.info.server_version < OLDEST:
                raise StorageError(
                    f"{shown(address)} is PostgreSQL {connection.info.server_version // 10000}; 15 or newer is needed"
                )
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
                return list(_apply(connection, partitions))
    except psycopg.Error as error:
        raise StorageError(f"{shown(address)} could not be prepared: {str(error).strip()}") from error


def _apply(connection: psycopg.Connection[Any], partitions: int) -> Iterator[str]:
    connection.execute(_ROLES)
    connection.execute(f"GRANT {APP}, {ENGINE} TO CURRENT_USER")
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
    connection.execute(f"GRANT USAGE ON SCHEMA {SCHEMA} TO {APP}")
    connection.execute(f"GRANT USAGE, CREATE ON SCHEMA {SCHEMA} TO {ENGINE}")  # to own functions; revoked below
    connection.execute("SELECT set_config('search_path', %s, true)", (f"{SCHEMA}, public",))
    connection.execute("SELECT set_config('hermes.partitions', %s, true)", (str(partitions),))
    connection.execute("CREATE TABLE IF NOT EXISTS migrations (name text PRIMARY KEY, applied_at timestamptz NOT NULL)")
    connection.execute(f"GRANT SELECT ON migrations TO {APP}")
    known = {name for (name,) in connection.execute("SELECT name FROM migrations").fetchall()}
    if newer := sorted(known - set(migrations())):
        raise StorageError(f"the database was prepared by a newer Hermes ({', '.join(newer)}); upgrade this one")
    for name in migrations():
        if name not in known:
            with open(os.path.join(_FOLDER, name), encoding="utf-8") as file:
                connection.execute(file.read().encode())  # our own files
            connection.execute("INSERT INTO migrations VALUES (%s, now())", (name,))
            yield name
    connection.execute(f"REVOKE CREATE ON SCHEMA {SCHEMA} FROM {ENGINE}")


def status(address: str) -> dict[str, Any]:
    """The server's version, missing migrations, number of people, size, and warnings about weak separation of people.

    The number of people is the server's estimate.
    """
    try:
        with psycopg.connect(address, autocommit=True, **parameters(address)) as connection:
            prepared, superuser, bypasses, member = connection.execute(_STATE.encode()).fetchone() or (False,) * 4
            found: dict[str, Any] = {
                "address": shown(address),
                "version": connection.info.parameter_status("server_version"),
                "prepared": prepared,
                "missing": migrations(),
                "people": 0,
                "bytes": 0,
                "warnings": [],
            }
            if not prepared:
                return found
            known = [name for (name,) in connection.execute(f"SELECT name FROM {SCHEMA}.migrations").fetchall()]
            size = connection.execute("SELECT pg_database_size(current_database())").fetchone()
            unforced = connection.execute(_UNFORCED.encode()).fetchone()
            people = connection.execute(
                "SELECT greatest(0, reltuples)::bigint FROM pg_class WHERE oid = %s::regclass", (f"{SCHEMA}.people",)
            ).fetchone()
    except psycopg.Error as error:
        raise StorageError(f"{shown(address)} cannot be asked: {str(error).strip()}") from error
    found |= {
        "missing": [name for name in migrations() if name not in known],
        "people": people[0] if people else 0,
        "bytes": size[0] if size else 0,
    }
    if superuser or bypasses:
        found["warnings"].append(
            "the login bypasses row-level security; give servers a login that is only in hermes_app"
        )
    if not member:
        found["warnings"].append(f"the login is not in {APP}: GRANT {APP} TO it")
    if unforced and unforced[0]:
        found["warnings"].append(
            f"row-level security is not forced on {unforced[0]} tables; run `hermes storage migrate`"
        )
    return found
