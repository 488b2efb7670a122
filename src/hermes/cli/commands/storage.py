"""`hermes storage`: where a person's data is kept, preparing a PostgreSQL database, and moving it there and back."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

from hermes.base.errors import SettingsError, StorageError
from hermes.base.text import counted
from hermes.cli import ui
from hermes.conversations.database import Pages, SessionDB
from hermes.portability.move import homes_below, left_behind, move_person
from hermes.settings.config import conversations_of, storage_address, whose
from hermes.storage.ports import is_address

if TYPE_CHECKING:
    from collections.abc import Iterator


_URL = ui.option("--url URL", "postgresql://LOGIN:PASSWORD@HOST/DATABASE (default: HERMES_STORAGE_URL, storage.url)")


def _address(given: ui.Given, context: ui.Context) -> str:
    address = given.url or storage_address(context.home)
    if not address:
        raise SettingsError("name a database: --url postgresql://…, HERMES_STORAGE_URL, or storage.url in config.yaml")
    return _checked(address)


def _checked(address: str) -> str:
    if not is_address(address):
        raise SettingsError(f"{address[:60]!r} is not the address of a database; it starts with postgresql://")
    return address


def _init(given: ui.Given, context: ui.Context) -> None:
    from hermes.storage.postgres.schema import migrate

    applied = migrate(_address(given, context), partitions=given.partitions)
    lines = [f"applied {name}" for name in applied] or ["nothing to do: the database is up to date"]
    ui.show(given, {"applied": applied}, *lines)


def _migrate(given: ui.Given, context: ui.Context) -> None:
    from hermes.storage.postgres.schema import migrate, status

    address = _address(given, context)
    if not status(address)["prepared"]:
        raise StorageError("the database was never prepared; `hermes storage init` does that")
    applied = migrate(address)
    ui.show(given, {"applied": applied}, *(applied or ["nothing to do: the database is up to date"]))


def _status(given: ui.Given, context: ui.Context) -> None:
    where = given.url or conversations_of(context.home)["path"]
    if not is_address(where):
        size = os.path.getsize(where) if os.path.exists(where) else 0
        ui.show(
            given, {"engine": "sqlite", "path": where, "bytes": size}, f"SQLite: {where}, {ui.bytes_in_words(size)}"
        )
        return
    from hermes.storage.postgres.schema import status

    found = status(where)
    if found["prepared"] and not found["missing"] and (left := left_behind(context.home, where)):
        found["warnings"].append(
            f"{counted(left, 'document')} of this home, such as memory, are still files and not read: "
            "`hermes storage move --to URL` brings them"
        )
    ui.show(given, {"engine": "postgresql", **found}, *_status_lines(found))


def _status_lines(found: dict[str, Any]) -> Iterator[str]:
    yield f"PostgreSQL {found['version']}: {found['address']}, {ui.bytes_in_words(found['bytes'])}"
    if not found["prepared"]:
        yield "! not prepared yet: `hermes storage init`"
    elif found["missing"]:
        yield f"! {counted(len(found['missing']), 'migration')} missing: `hermes storage migrate`"
    yield from (f"! {warning}" for warning in found["warnings"])


def _check(given: ui.Given, context: ui.Context) -> None:
    """Reads everything of this person."""
    problems: list[str] = []
    where = conversations_of(context.home)
    if is_address(where["path"]):
        from hermes.storage.postgres.schema import status

        state = status(where["path"])
        problems += [*state["warnings"], *(f"{name} is not applied" for name in state["missing"])]
    messages = 0
    with SessionDB.open(**where) as db:
        pages = Pages.of_db(db)
        for session in pages.sessions():
            for message in pages.messages(session):
                messages += 1
                if message.damaged:
                    problems.append(f"message {message.id} of {session.id} does not match its checksum")
        place = db.path
    sound = [f"{counted(messages, 'message')} at {place}: every checksum holds"] if not problems else []
    ui.show(given, {"messages": messages, "problems": problems}, *sound, *(f"! {each}" for each in problems))
    if problems:
        raise StorageError(f"{counted(len(problems), 'problem')} at {place}")


def _move(given: ui.Given, context: ui.Context) -> None:
    if bool(given.to) == bool(given.origin):
        raise SettingsError("say where to: `hermes storage move --to URL`, or back: `hermes storage move --from URL`")
    from hermes.storage.postgres.documents import PostgresDocuments

    address = _checked(given.to or given.origin)
    told, lines = [], []
    for home in homes_below(context.home):
        progress = ui.Progress()
        moved = move_person(home, address, there=bool(given.to), progress=partial(progress.stage, whose(home)))
        progress.close()
        told.append({"person": whose(home), **moved})
        place = PostgresDocuments(address, whose(home)).path if given.to else home.path
        lines.append(
            f"{whose(home)}: {counted(moved['messages'], 'message')} in {counted(moved['sessions'], 'session')} and "
            f"{counted(moved['documents'], 'document')} are at {place}, compared one by one "
            f"({counted(moved['copied'], 'session')} and {counted(moved['documents_copied'], 'document')} copied now)"
        )
    following = (
        "`hermes config set storage.url …` (or HERMES_STORAGE_URL in .env) uses it from now on; the files stay"
        if given.to
        else "take storage.url and HERMES_STORAGE_URL out to use the files again; the database keeps its copy"
    )
    ui.show(given, told, *lines, following)


COMMANDS = {
    "storage status": ui.command(_status, _URL),
    "storage init": ui.command(
        _init,
        _URL,
        ui.option("--partitions N", "parts of each table, fixed for good (default: 64)", type=int, default=64),
    ),
    "storage migrate": ui.command(_migrate, _URL),
    "storage check": ui.command(_check),
    "storage move": ui.command(
        _move,
        ui.option("--to URL", "from the home into this PostgreSQL database"),
        ui.option("--from URL", "from this PostgreSQL database back into the home", dest="origin"),
    ),
}
