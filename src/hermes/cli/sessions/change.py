"""`hermes sessions`: rename, delete, prune, optimize, export, repair and restore conversations."""

from __future__ import annotations

import io
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hermes.base.errors import NotFound, SettingsError, StorageError
from hermes.base.text import counted
from hermes.cli import ui
from hermes.cli.sessions.look import as_json, name_of, named, named_exactly, open_existing
from hermes.conversations.context import Contexts
from hermes.conversations.database import Opened, Pages
from hermes.conversations.maintenance import Maintenance
from hermes.conversations.retrieval import unmasked
from hermes.portability.conversations_export import HtmlWriter, JsonlWriter, MarkdownWriter, export
from hermes.safety.secrets import mask_secrets
from hermes.session.review import QUICKLY_REWRITTEN
from hermes.settings.config import conversations_of
from hermes.settings.home import DATABASE, UNSAVED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import TextIO

    from hermes.conversations.database import SessionDB
    from hermes.portability.conversations_export import Writer
    from hermes.settings.home import Home
    from hermes.storage.local.repair.check import Repair
    from hermes.storage.records import Session


_LISTED = 10

_EMBEDDED_AT_ONCE = 1_000


def _rename(given: ui.Given, context: ui.Context) -> None:
    with open_existing(context) as db:
        session = named_exactly(db, given.session)
        title = db.rename(session.id, " ".join(given.title))
    ui.show(
        given,
        {"session_id": session.id, "title": title},
        f"{session.id} is now called {ui.visible(title or '(nothing)')}",
    )


def _delete(given: ui.Given, context: ui.Context) -> None:
    with open_existing(context) as db:
        chosen = {session.root: session for session in (named_exactly(db, name) for name in given.sessions)}.values()
        names = ", ".join(f"{name_of(session)!r} ({session.id})" for session in chosen)
        question = f"delete {names} with all messages, for good?"
        ui.confirm(given, question, "nothing was deleted (use --yes to skip the question)")
        _show_removed(given, _remove(db, chosen))


def _prune(given: ui.Given, context: ui.Context) -> None:
    days = context.settings.get("sessions.retention_days") if given.older_than is None else given.older_than
    unused = counted(days, "day")
    with open_existing(context) as db:
        Opened(db).end_abandoned()
        upkeep = Maintenance.of_db(db)
        old = upkeep.unused(days, source=given.source, archived=given.include_archived)
        many = counted(len(old), "conversation")
        if given.dry_run or not old:
            lines = [f"{many} would be deleted, the least recently used first:"]
            lines += [f"  {each.id}  {ui.when(each.last_active)[:16]}  {name_of(each)[:60]}" for each in old[:_LISTED]]
            lines += [f"  and {len(old) - _LISTED:,} more (--json lists all)"] if len(old) > _LISTED else []
            ui.show(
                given,
                {"dry_run": given.dry_run, "conversations": len(old), "sessions": [as_json(each) for each in old]},
                *(lines if old else [f"no ended conversation was unused for {unused}"]),
            )
            return
        otherwise = f"{many} would be deleted; nothing was (--yes deletes, --dry-run lists)"
        ui.confirm(given, f"delete {many} not used for {unused}, for good?", otherwise)
        removed = _remove(db, old)
        if context.settings.flag("sessions.vacuum_after_prune") and upkeep.sizes()["file_bytes"] <= QUICKLY_REWRITTEN:
            upkeep.rewrite()
    _show_removed(given, removed, dry_run=False)


def _remove(db: SessionDB, chosen: Iterable[Session]) -> dict[str, Any]:
    """Deletes whole conversations, part by part; branches that grew out of them stay."""
    sessions: list[str] = []
    messages = conversations = 0
    rows = list(chosen)
    progress = ui.Progress("deleting", len(rows))
    for session in rows:
        for part in reversed(db.lineage(session.id)):
            if db.find_session(part.id) is not None:  # a delegated part goes with the one that started it
                messages += part.message_count
                sessions.append(part.id)
                db.delete(part.id)
        conversations += 1
        progress.update(conversations)
    progress.close()
    return {"conversations": conversations, "sessions": sessions, "messages": messages}


def _show_removed(given: ui.Given, removed: dict[str, Any], **more: bool) -> None:
    counts = (counted(len(removed["sessions"]), "session"), counted(removed["messages"], "message"))
    lines = f"deleted {counted(removed['conversations'], 'conversation')}: {', '.join(counts)}"
    ui.show(given, {**removed, **more}, lines)


def _optimize(given: ui.Given, context: ui.Context) -> None:
    with open_existing(context) as db:
        upkeep = Maintenance.of_db(db)
        before = upkeep.sizes()
        indexed = db.index()
        embedded = _embed(db)
        progress = ui.Progress("merging the index, step")
        steps = 0
        for steps in upkeep.settle():
            progress.update(steps)
        if given.vacuum:
            upkeep.rewrite()
        progress.close()
        after = upkeep.sizes()
    lines = [f"vectors of meaning made for {embedded:,} messages"] if embedded else []
    merged = f"index merged in {counted(steps, 'step')}" if steps else "the index was merged already"
    old, new = (sizes["file_bytes"] + sizes["log_bytes"] for sizes in (before, after))
    grown = " (it grew: merging writes the index anew before the old one is free for later messages)"
    now = f"{ui.bytes_in_words(new)} now{grown if new > old else ''}"
    lines.append(f"{merged}; {ui.bytes_in_words(old)} on disk before, {now}")
    if after["free_bytes"] > after["file_bytes"] // 4 and not given.vacuum:
        lines.append(f"{ui.bytes_in_words(after['free_bytes'])} are free inside the file; --vacuum gives them back")
    document = {"before": before, "after": after, "merge_steps": steps, "indexed": indexed, "embedded": embedded}
    ui.show(given, document, *lines)


def _embed(db: SessionDB) -> int:
    """Makes the vectors that searches have not made yet; none where meaning is not searched."""
    embedded = 0
    progress = ui.Progress("vectors of meaning, messages")
    while step := db.embed(_EMBEDDED_AT_ONCE):
        embedded += step
        progress.update(embedded)
    progress.close()
    return embedded


FORMATS = ("jsonl", "markdown", "html")


def _export(given: ui.Given, context: ui.Context) -> int:
    if bool(given.sessions) == given.all:
        raise SettingsError("name the conversations to export, or use --all")
    mask = unmasked if given.with_secrets else mask_secrets
    with open_existing(context) as db:
        chosen = _chosen(db, given)
        progress = ui.Progress("exporting", sum(session.message_count for session in chosen))
        with _output(given.out, replace=given.force) as file:
            writer = _writer(given.format, db, file.write, mask)
            done = export(db, chosen, writer, progress.update)
        progress.close()
    if given.out:
        print(
            f"{given.out} holds {counted(done.sessions, 'session')} with {counted(done.messages, 'message')}",
            file=sys.stderr,
        )
    return ui.tell_damaged(done.damaged)


def _chosen(db: SessionDB, given: ui.Given) -> list[Session]:
    if given.all:
        return list(Pages.of_db(db).sessions())
    parts = [part for name in given.sessions for part in db.lineage(named(db, name).id)]
    return list({part.key: part for part in parts}.values())


def _writer(form: str, db: SessionDB, write: Callable[[str], object], mask: Callable[[str], str]) -> Writer:
    if form == "jsonl":
        return JsonlWriter(db, write, mask)
    return MarkdownWriter(write, mask) if form == "markdown" else HtmlWriter(write, mask)


@contextmanager
def _output(path: str | None, *, replace: bool) -> Iterator[TextIO]:
    """Standard output, or a private file that gets its name when it is complete."""
    if path is None:
        # Whatever the terminal's encoding is, what is exported is UTF-8 and can be imported again.
        sys.stdout.flush()
        out = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", errors="backslashreplace", newline="\n")
        yield out
        out.flush()
        out.detach()
        return
    if os.path.exists(path) and not replace:
        raise StorageError(f"{path} is there already; name another file, or use --force to replace it")
    part = f"{path}.part-{os.getpid()}"
    try:
        descriptor = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        with open(descriptor, "w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        if os.path.exists(part):
            os.unlink(part)


def _repair(given: ui.Given, context: ui.Context) -> None:
    from hermes.storage.local.repair.check import repair

    progress = ui.Progress()
    told = repair(
        given.path or context.home.join(DATABASE),
        dry_run=given.dry_run,
        progress=None if given.json else progress.stage,
        out=given.out,
    )
    added = [] if given.dry_run or given.path or given.out else _added(context.home)
    progress.close()
    lines = [*_lines(told, dry_run=given.dry_run), *added]
    ui.show(given, told.as_json() | {"dry_run": given.dry_run, "added": added}, *lines)


def _added(home: Home) -> list[str]:
    """What could not be stored while the database was damaged."""
    if not os.path.isdir(home.join(UNSAVED)):
        return []
    from hermes.conversations.database import SessionDB
    from hermes.session.unsaved import take_up

    with SessionDB.open(**conversations_of(home)) as db:
        return take_up(home, db)


def _lines(told: Repair, *, dry_run: bool) -> Iterator[str]:
    found = told.salvaged
    if found is None:
        yield f"{told.path} is sound; nothing to repair"
        return
    yield f"{told.path} is damaged:"
    yield from (f"  {problem}" for problem in told.problems)
    keep = "can keep" if dry_run else "kept"
    yield f"{keep} {found.messages:,} messages in {found.sessions:,} sessions"
    if found.summaries:
        yield f"{keep} {found.summaries:,} summaries of the lossless engine"
    if found.altered:
        yield f"{len(found.altered):,} messages were altered; they are left out and kept in unverified.jsonl"
    if found.lost:
        yield f"{found.lost:,} messages are lost"
    if found.damaged_sessions:
        yield f"without their old titles: {', '.join(found.damaged_sessions)}"
    if found.salvage_sessions:
        yield f"messages whose session is lost are in: {', '.join(found.salvage_sessions)}"
    if dry_run:
        yield "nothing was changed; run `hermes sessions repair` to do it"
    else:
        yield f"the original bytes and a report are in {told.backup}"


def _restore(given: ui.Given, context: ui.Context) -> None:
    with open_existing(context) as db:
        session = db.tip(named(db, given.session).id)
        contexts = Contexts(db)
        if not contexts.was_compacted(session.id):
            raise NotFound(f"{session.id} was never compacted; there is nothing to restore")
        restored, messages = contexts.restore(session.id)
        title = db.get_session(restored).title
    ui.show(
        given,
        {"session_id": restored, "restored_from": session.id, "title": title, "messages": messages},
        f"{restored} holds all {counted(messages, 'message')} of {session.id}, which stays as it is",
        f"`hermes --resume {restored}` continues from there, with a model that has room for it",
    )


COMMANDS = {
    "sessions rename": ui.command(
        _rename,
        ui.option("session ID|TITLE", "which conversation"),
        ui.option("title NEW TITLE", "what it is called from now on", nargs="+"),
    ),
    "sessions delete": ui.command(
        _delete, ui.option("sessions ID|TITLE", "which conversations", nargs="+"), ui.option("--yes -y", "do not ask")
    ),
    "sessions prune": ui.command(
        _prune,
        ui.option("--older-than DAYS", "days without use (default: sessions.retention_days)", type=ui.whole_number(0)),
        ui.option("--source NAME", "only from there"),
        ui.option("--include-archived", "archived conversations too"),
        ui.option("--dry-run", "only say what would be deleted"),
        ui.option("--yes -y", "do not ask"),
    ),
    "sessions optimize": ui.command(
        _optimize, ui.option("--vacuum", "also give free space back; others wait meanwhile")
    ),
    "sessions export": ui.command(
        _export,
        ui.option("sessions ID|TITLE", "whole conversations, by any of their ids", nargs="*"),
        ui.option("--all", "every conversation"),
        ui.option("--format", "jsonl (default) can be imported again", choices=FORMATS, default="jsonl"),
        ui.option("--out FILE", "where to write (default: standard output)"),
        ui.option("--force", "replace the file if it is there"),
        ui.option("--mask", "mask passwords, keys and other secrets, as is the default"),
        ui.option("--with-secrets", "leave them as they are"),
        json=False,
    ),
    "sessions repair": ui.command(
        _repair,
        ui.option("path FILE", "the database (default: state.db of the home)", nargs="?"),
        ui.option("--dry-run", "say what would be kept, change nothing"),
        ui.option("--out FILE", "leave the database as it is; repair a copy of it there"),
    ),
    "sessions restore": ui.command(
        _restore, ui.option("session ID|TITLE", "any session of the compacted conversation")
    ),
}
