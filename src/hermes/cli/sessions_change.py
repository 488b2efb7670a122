"""`hermes sessions rename`, `delete`, `prune` and `optimize`: tidying past conversations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hermes.cli.context import OK
from hermes.cli.progress import Progress
from hermes.cli.questions import confirmed
from hermes.cli.render import add_json_option, print_json, print_text, visible, when
from hermes.cli.sessions_report import (
    as_json,
    bytes_in_words,
    conversation,
    name_of,
    named_exactly,
    open_existing,
    whole_number,
)
from hermes.session.pruning import QUICKLY_REWRITTEN
from hermes.storage.opened import Opened
from hermes.storage.upkeep import Upkeep
from hermes.vocabulary.errors import NotConfirmed
from hermes.vocabulary.words import counted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from hermes.cli.context import Context
    from hermes.storage.conversations import Session
    from hermes.storage.sessions import SessionDB

_LISTED = 10
_EMBEDDED_AT_ONCE = 1_000


def _rename(given: argparse.Namespace, context: Context) -> int:
    with open_existing(context) as db:
        session = named_exactly(db, given.session)
        title = db.rename(session.id, " ".join(given.title))
    if given.json:
        print_json({"session_id": session.id, "title": title})
    else:
        print_text(f"{session.id} is now called {visible(title or '(nothing)')}")
    return OK


def _delete(given: argparse.Namespace, context: Context) -> int:
    with open_existing(context) as db:
        chosen = {session.root: session for session in (named_exactly(db, name) for name in given.sessions)}.values()
        names = ", ".join(f"{name_of(session)!r} ({session.id})" for session in chosen)
        if not given.yes and not confirmed(f"delete {names} with all messages, for good?"):
            raise NotConfirmed("nothing was deleted (use --yes to skip the question)")
        removed = _remove(db, chosen)
    if given.json:
        print_json(removed)
    else:
        print_text(_removed_in_words(removed))
    return OK


def _prune(given: argparse.Namespace, context: Context) -> int:
    days = context.settings.get("sessions.retention_days") if given.older_than is None else given.older_than
    with open_existing(context) as db:
        Opened(db).end_abandoned()
        upkeep = Upkeep.of_db(db)
        old = upkeep.unused(days, source=given.source, archived=given.include_archived)
        if given.dry_run or not old:
            return _say_what_is_old(given, old, days)
        if not given.yes and not confirmed(
            f"delete {_conversations(len(old))} not used for {counted(days, 'day')}, for good?"
        ):
            raise NotConfirmed(
                f"{_conversations(len(old))} would be deleted; nothing was (--yes deletes, --dry-run lists)"
            )
        removed = _remove(db, old)
        if context.settings.flag("sessions.vacuum_after_prune") and upkeep.sizes()["file_bytes"] <= QUICKLY_REWRITTEN:
            upkeep.rewrite()
    if given.json:
        print_json({**removed, "dry_run": False})
    else:
        print_text(_removed_in_words(removed))
    return OK


def _say_what_is_old(given: argparse.Namespace, old: list[Session], days: int) -> int:
    if given.json:
        print_json({"dry_run": given.dry_run, "conversations": len(old), "sessions": [as_json(each) for each in old]})
        return OK
    if not old:
        print_text(f"no ended conversation was unused for {counted(days, 'day')}")
        return OK
    print_text(f"{_conversations(len(old))} would be deleted, the least recently used first:")
    for session in old[:_LISTED]:
        print_text(f"  {session.id}  {when(session.last_active)[:16]}  {name_of(session)[:60]}")
    if len(old) > _LISTED:
        print_text(f"  and {len(old) - _LISTED:,} more (--json lists all)")
    return OK


def _remove(db: SessionDB, chosen: Iterable[Session]) -> dict[str, Any]:
    """Deletes whole conversations, part by part; branches that grew out of them stay."""
    sessions: list[str] = []
    messages = conversations = 0
    rows = list(chosen)
    progress = Progress("deleting", len(rows))
    for session in rows:
        for part in reversed(conversation(db, session)):
            if db.find_session(part.id) is not None:  # a delegated part goes with the one that started it
                messages += part.message_count
                sessions.append(part.id)
                db.delete(part.id)
        conversations += 1
        progress.update(conversations)
    progress.close()
    return {"conversations": conversations, "sessions": sessions, "messages": messages}


def _removed_in_words(removed: dict[str, Any]) -> str:
    parts = len(removed["sessions"])
    return (
        f"deleted {_conversations(removed['conversations'])}: "
        f"{counted(parts, 'session')}, {counted(removed['messages'], 'message')}"
    )


def _conversations(count: int) -> str:
    return counted(count, "conversation")


def _optimize(given: argparse.Namespace, context: Context) -> int:
    with open_existing(context) as db:
        upkeep = Upkeep.of_db(db)
        before = upkeep.sizes()
        indexed = db.index()
        embedded = _embed(db)
        progress = Progress("merging the index, step")
        steps = 0
        for steps in upkeep.settle():
            progress.update(steps)
        if given.vacuum:
            upkeep.rewrite()
        progress.close()
        after = upkeep.sizes()
    if given.json:
        print_json({"before": before, "after": after, "merge_steps": steps, "indexed": indexed, "embedded": embedded})
        return OK
    if embedded:
        print_text(f"vectors of meaning made for {embedded:,} messages")
    merged = f"index merged in {counted(steps, 'step')}" if steps else "the index was merged already"
    old, new = (sizes["file_bytes"] + sizes["log_bytes"] for sizes in (before, after))
    grown = (
        " (it grew: merging writes the index anew before the old one is free for later messages)" if new > old else ""
    )
    print_text(f"{merged}; {bytes_in_words(old)} on disk before, {bytes_in_words(new)} now{grown}")
    if after["free_bytes"] > after["file_bytes"] // 4 and not given.vacuum:
        print_text(f"{bytes_in_words(after['free_bytes'])} are free inside the file; --vacuum gives them back")
    return OK


def _configure_rename(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", metavar="ID|TITLE", help="which conversation")
    parser.add_argument("title", nargs="+", metavar="NEW TITLE", help="what it is called from now on")
    add_json_option(parser)


def _configure_delete(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sessions", nargs="+", metavar="ID|TITLE", help="which conversations")
    parser.add_argument("--yes", "-y", action="store_true", help="do not ask")
    add_json_option(parser)


def _configure_prune(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--older-than", type=whole_number(0), metavar="DAYS", help="days without use (default: sessions.retention_days)"
    )
    parser.add_argument("--source", metavar="NAME", help="only from there")
    parser.add_argument("--include-archived", action="store_true", help="archived conversations too")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be deleted")
    parser.add_argument("--yes", "-y", action="store_true", help="do not ask")
    add_json_option(parser)


def _embed(db: SessionDB) -> int:
    """Makes the vectors that searches have not made yet; none where meaning is not searched."""
    embedded = 0
    progress = Progress("vectors of meaning, messages")
    while step := db.embed(_EMBEDDED_AT_ONCE):
        embedded += step
        progress.update(embedded)
    progress.close()
    return embedded


def _configure_optimize(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--vacuum", action="store_true", help="also give free space back; others wait meanwhile")
    add_json_option(parser)


COMMANDS = {
    "rename": (_configure_rename, _rename),
    "delete": (_configure_delete, _delete),
    "prune": (_configure_prune, _prune),
    "optimize": (_configure_optimize, _optimize),
}
