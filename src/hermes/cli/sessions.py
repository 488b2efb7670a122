"""`hermes sessions` and `receipts`: find, read, change and repair conversations, and see what answers are based on."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from difflib import get_close_matches
from functools import cache, partial
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from hermes.base import dates
from hermes.base.errors import NotFound, SettingsError
from hermes.base.text import counted
from hermes.cli import ui
from hermes.compaction.facts import done_in, ledger_line
from hermes.conversations.context import Contexts
from hermes.conversations.database import Opened, Pages, SessionDB
from hermes.conversations.maintenance import Maintenance
from hermes.conversations.receipts import INTACT, TAMPERED
from hermes.conversations.retrieval import Criteria, Finder, answer_to
from hermes.portability.conversations_export import tool_calls
from hermes.safety.secrets import mask_secrets
from hermes.session.parts import open_past
from hermes.session.receipts import Receipts, parts_of, turns
from hermes.session.review import QUICKLY_REWRITTEN
from hermes.settings.config import conversations_of
from hermes.settings.home import DATABASE, UNSAVED, named_project

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import NoReturn

    from hermes.conversations.retrieval import Match
    from hermes.session.receipts import Receipt, ReceiptItem
    from hermes.settings.home import Home
    from hermes.storage.local.repair.check import Repair
    from hermes.storage.records import Session, StoredMessage


_TITLE, _SAID, _TEXT, _ANSWER = 60, 70, 90, 160  # how many characters of a text are shown
_NOT_STORED = "(this text was not kept; only its size is known)"

_SOURCES = {"recalled": "recall", "folder_notes": "notes"}


def _show_context(given: ui.Given, db: SessionDB, session: Session) -> None:
    """Prints for each turn what was in front of the model, with sizes; with `--text`, the texts themselves."""
    found = [each for each in turns(db, session.id) if given.context in (0, each["turn"])]
    if given.context and not found:
        raise NotFound(f"there is no turn {given.context}; `hermes sessions show {session.id} --context` lists them")
    masked = cache(mask_secrets)  # a prompt stays the same from turn to turn
    for part in (part for turn in found for part in parts_of(turn)):  # mask: people show and share what they print
        text = part.pop("text")
        if given.text:
            part["text"] = text if text is None else masked(text)
    lines = [f"{name_of(session)}\n{session.id}\n"]
    prompt = None
    for each in found:
        lines += _turn_lines(each, prompt)
        prompt = each["prompt"]
    if not found:
        lines.append("nobody has said anything yet")
    ui.show(given, {**as_json(session), "turns": found}, *lines)


def _turn_lines(turn: dict[str, Any], before: dict[str, Any] | None) -> Iterator[str]:
    """Yields the lines of one turn; does not repeat the text of a prompt that equals the one in `before`."""
    yield f"turn {turn['turn']}  {ui.when(turn['at'])[:16]}  {ui.cut(ui.visible(turn['said']), _SAID)}"
    yield _row("prompt", _prompt(turn["prompt"]) + (f"; {counted(turn['tools'], 'tool')}" if turn["tools"] else ""))
    if turn["prompt"] != before:
        for each in turn["prompt"]["sections"]:
            yield from _text_lines(each, f"[{each['name']}]")
    history = turn["history"]
    if history["messages"]:
        yield _row("history", f"{counted(history['messages'], 'message')}, about {history['tokens']:,} tokens")
    for each in turn["summaries"]:
        yield _row("summary", _summary(each))
        yield from _text_lines(each)
    for each in turn["added"]:
        came = f" from {', '.join(each['from'])}" if each.get("from") else ""
        if each["source"] == "announcement" and turn["announced"]:
            came += f" (memory up to {', '.join(turn['announced'].values())})"
        yield _row(_SOURCES.get(each["source"], each["source"]), f"{each['characters']:,} characters{came}")
        yield from _text_lines(each)
    yield from _result_lines(turn["results"])
    if answer := turn["answer"]:
        share = f", {answer['cached_share']:.0%} from the cache" if answer["cached_share"] is not None else ""
        broken = f" ({answer['cache_broken_by']})" if answer["cache_broken_by"] else ""
        yield _row("counted", f"{answer['input_tokens']:,} prompt tokens{share}{broken}")
    for each in turn["compacted"]:
        yield _row("compacted", f"before the next turn: {_summary(each)}")
    yield ""


def _result_lines(results: list[dict[str, Any]]) -> Iterator[str]:
    for each in results:
        added = [(_SOURCES.get(one["source"], one["source"]), one["characters"]) for one in each["added"]]
        notes = "".join(f", {source} {characters:,}" for source, characters in added)
        yield _row("result", f"{each['tool'] or 'a tool of the host'}: {each['characters']:,} characters{notes}")
        for one in each["added"]:
            yield from _text_lines(one)


def _row(name: str, text: str) -> str:
    return f"  {name:<13}{text}"


def _text_lines(part: dict[str, Any], heading: str = "") -> Iterator[str]:
    if "text" in part:
        text = part["text"].strip("\n") if part["text"] is not None else _NOT_STORED
        for line in [*filter(None, [heading]), *ui.visible(text).split("\n")]:
            yield f"    {line}".rstrip()
        yield ""


def _summary(each: dict[str, Any]) -> str:
    stood = f"in place of {counted(each['messages'], 'message')}, by {each['by']}, because: {each['why']}"
    return f"{each['characters']:,} characters {stood} (message {each['message_id']})"


def _prompt(prompt: dict[str, Any]) -> str:
    if not prompt["sections"]:
        return "none stored"
    held = {name: f" (up to {change})" for name, change in prompt["memory_up_to"].items()}
    sections = [f"{each['name']} {each['characters']:,}{held.get(each['name'], '')}" for each in prompt["sections"]]
    rebuilt = ", rebuilt by a compaction" if prompt["rebuilt"] else ""
    return f"{prompt['characters']:,} characters, about {prompt['tokens']:,} tokens{rebuilt}: {', '.join(sections)}"


_EVERYTHING = -1  # SQLite takes a negative LIMIT as none

_NONE_YET = "there are no conversations yet"
_COUNTS = ("sessions", "conversations", "messages", "tool_calls", "open", "archived")
# What `sessions stats --json` prints before the first conversation: the same keys as afterwards.
_NO_FIGURES = {
    **dict.fromkeys(("file", "journal_mode", "first_used", "last_used")),
    **dict.fromkeys((*_COUNTS, "file_bytes", "log_bytes", "free_bytes"), 0),
    **dict.fromkeys(("by_source", "by_month"), ()),
}


def sessions_list(given: ui.Given, context: ui.Context) -> None:
    """Lists the latest conversations, or with `--all` every session."""
    db = open_past(context.home)
    if db is None:
        ui.show(given, [], _NONE_YET)
        return
    listed = partial(db.list_sessions, source=given.source, project=project_option(given.project))
    with db:
        if given.all:
            rows = [*listed(limit=_EVERYTHING), *listed(limit=_EVERYTHING, archived=True)]
            rows.sort(key=lambda session: -session.activity)
        else:
            rows = listed(limit=given.limit, begun=True)
    ui.show(given, [as_json(session) for session in rows], *(_table(rows) or ["no conversation matches"]))


def _table(rows: list[Session]) -> list[str]:
    """A line for each session; on a terminal with a header, and cut to its width."""
    wide = max((len(session.id) for session in rows), default=0)
    columns = os.get_terminal_size().columns if sys.stdout.isatty() else 0
    lines = []
    if columns and rows:
        header = f"{'id':<{wide}}  {'last used':<16}  {'source':<12}  {'messages':>8}  title or first words"
        lines.append(header[:columns])
    for session in rows:
        line = (
            f"{session.id:<{wide}}  {ui.when(session.last_active)[:16]}  {ui.visible(session.source):<12.12}  "
            f"{session.message_count:>8,}  {name_of(session)[:_TITLE]}{' (archived)' if session.archived else ''}"
        )
        lines.append(f"{line[: columns - 1]}…" if columns and len(line) > columns else line)
    return lines


def sessions_search(given: ui.Given, context: ui.Context) -> int:
    """Prints the best matches for a question; exits with 1 if there are none, so that scripts notice."""
    query = " ".join(given.question)
    if not query.strip():
        raise SettingsError("the question is empty; type a few words, or list the newest with `hermes sessions list`")
    wanted = Criteria(
        limit=given.limit,
        sort=given.sort,
        roles=tuple(given.role.replace(",", " ").split()) if given.role else None,
        since=ui.moment_option(dates.since, given.since),
        until=ui.moment_option(dates.until, given.until),
        source=given.source,
        project=project_option(given.project),
        prefer_project=project_option(given.prefer_project),
        explain=given.explain,
    )
    with open_existing(context) as db:
        found = Finder(db, mask=mask_secrets).find(query, wanted)
        answers = [answer_to(db, match) for match in found.matches]
    results = list(zip(found.matches, answers, strict=True))
    told = [_match_as_json(match, answer) for match, answer in results]
    about = {"count": len(told), "sessions_searched": found.searched, "notes": list(found.notes)}
    lines = (line for match, answer in results for line in _match_lines(match, answer))
    ui.show(given, {"query": query, "results": told, **about}, *lines)
    for note in found.notes:
        ui.problem(note)
    if results:
        return ui.OK
    ui.problem(f"no conversation matches {query!r}; try fewer or other words")
    return ui.REFUSED


def _match_lines(match: Match, answer: StoredMessage | None) -> Iterator[str]:
    """Yields a search result: the conversation, the passage, its answer, and how to read on."""
    session = match.session
    yield f"{name_of(session)}  ({ui.when(session.started_at)[:16]}, {ui.visible(session.source)})"
    yield f"    {match.role}: {highlighted(match.snippet)}"
    if answer is not None:
        yield f"    assistant: {_beginning(answer)}"
    yield f"    hermes sessions show {session.id}{'' if match.message_id is None else f' --around {match.message_id}'}"
    if match.explanation:
        parts = sorted(match.explanation.items(), key=lambda part: -abs(part[1]))
        shown = "  ".join(f"{name} {value:.2f}" for name, value in parts if value)
        yield f"    score {match.score:.2f} = {shown}"
    yield ""


def _match_as_json(match: Match, answer: StoredMessage | None) -> dict[str, Any]:
    found = {**as_json(match.session), "matched_role": match.role, "match_message_id": match.message_id}
    found |= ui.pick(match, "snippet", "score")
    if answer is not None:
        found |= {"answer": _beginning(answer), "answer_message_id": answer.id}
    return found | ({"explanation": match.explanation} if match.explanation else {})


def _beginning(message: StoredMessage) -> str:
    return shorten(ui.visible(mask_secrets(message.text)), _ANSWER, placeholder=" …")


def sessions_show(given: ui.Given, context: ui.Context) -> None:
    """Prints a conversation, or what its model saw, its receipt or its ledger."""
    if given.text and given.context is None:
        raise SettingsError(f"--text belongs to --context: `hermes sessions show {given.session} --context 1 --text`")
    with open_existing(context) as db:
        session = named(db, given.session)
        if given.context is not None:
            _show_context(given, db, session)
        elif given.receipt is not None:
            _show_receipt(given, context, db, session)
        elif given.ledger:
            _show_ledger(given, db, session)
        else:
            _show_messages(given, db, session)


def _show_messages(given: ui.Given, db: SessionDB, session: Session) -> None:
    """Prints the messages of a conversation, or those around one of them, also if another part of it holds that one."""
    messages: Iterable[StoredMessage] = Pages.of_db(db).messages(session)
    if given.around is not None:
        # A database refuses integers of more than 64 bits, and no id is that large.
        holder = db.session_of(given.around) if given.around < 1 << 62 else None
        if holder is None or holder.root != session.root:
            raise NotFound(f"message {given.around} is not in this conversation; search again for a current id")
        session = holder
        messages = db.messages(session.id, around=given.around, window=given.window)
    if given.json:
        names = ("id", "timestamp", "compacted", "damaged", "message")
        ui.print_json({**as_json(session), "messages": [ui.pick(message, *names) for message in messages]})
        return
    facts = [session.id, ui.when(session.started_at)[:16], session.source, session.model, session.project]
    ui.line(f"{name_of(session)}\n{ui.visible('  '.join(fact for fact in facts if fact))}\n")
    for message in messages:
        _print_message(message, sign=">" if message.id == given.around else " ")
    others = [each.id for each in db.lineage(session.id) if each.id != session.id and each.kind != "delegate"]
    if others:
        ui.line(f"other parts of this conversation: {', '.join(others)}")


def _show_receipt(given: ui.Given, context: ui.Context, db: SessionDB, session: Session) -> None:
    receipts = Receipts(context.home, db)
    listed = receipts.of(session.id)
    chosen = next((each for each in reversed(listed) if given.receipt in (0, each.turn)), None)
    if chosen is None:
        turns = ", ".join(str(each.turn) for each in listed) or "none has"
        raise NotFound(f"no answer there has a receipt; turns of {session.id} that have one: {turns}")
    found = receipts.get(chosen.id)
    ui.show(given, found.as_dict(), *receipt_lines(found))


def _show_ledger(given: ui.Given, db: SessionDB, session: Session) -> None:
    times = done_in([each.message for each in Contexts(db).originals(session.id)])
    entries = [(did, ui.visible(mask_secrets(what)), count) for (did, what), count in times.items()]
    lines = [ledger_line(*entry) for entry in entries] or ["no tool changed a file or ran a command here"]
    ui.show(given, [dict(zip(("did", "what", "times"), entry, strict=True)) for entry in entries], *lines)


def _print_message(message: StoredMessage, *, sign: str) -> None:
    notes = [name for name in ("compacted", "damaged") if getattr(message, name)]
    cache, usage = message.message.get("cache"), message.message.get("usage")
    # How much was cached, and why not more; a server that reports no tokens, or a stopped answer, has nothing to show.
    if isinstance(cache, dict) and isinstance(usage, dict) and usage.get("input_tokens"):
        share = f"{cache.get('share', 0):.0%} of {usage.get('input_tokens', 0):,} prompt tokens from the cache"
        notes.append(share + (f": {cache['broken_by']}" if cache.get("broken_by") else ""))
    extra = f" ({', '.join(notes)})" if notes else ""
    ui.line(f"{sign} {message.id}  {ui.visible(message.role)}  {ui.when(message.timestamp)[:16]}{extra}")
    calls = [f"[calls {call} {arguments}]" for call, arguments in tool_calls(message.message)]
    text = "\n".join([message.text, *calls] if message.text or not calls else calls)
    ui.line("\n".join(f"    {line}" for line in ui.visible(text).split("\n")) + "\n")


def sessions_stats(given: ui.Given, context: ui.Context) -> None:
    """Prints how many conversations and messages there are, from where and when, and their size on disk."""
    db = open_past(context.home)
    if db is None:
        ui.show(given, _NO_FIGURES, _NONE_YET)
        return
    with db:
        upkeep = Maintenance.of_db(db)
        figures = {"file": db.path, "journal_mode": db.journal_mode, **upkeep.totals(), **upkeep.sizes()}
        figures |= {"by_source": upkeep.by_source(), "by_month": upkeep.by_month()}
    free, log, size = (ui.bytes_in_words(figures[f"{name}_bytes"]) for name in ("free", "log", "file"))
    lines = [
        f"{figures['file']} ({figures['journal_mode']})",
        f"conversations  {figures['conversations']:,}  ({figures['sessions']:,} sessions, {figures['open']:,} open)",
        f"messages       {figures['messages']:,}  ({figures['tool_calls']:,} tool calls)",
        f"on disk        {size}  ({free} of it free; log {log})",
    ]
    for title, name in (("source", "by_source"), ("month", "by_month")):
        lines.append(f"\n{f'by {title}':<14} {'sessions':>12} {'messages':>10}")
        for row in figures[name]:
            label = ui.visible(str(row[title]))
            lines.append(f"  {label:<14} {row['sessions']:>10,} {row['messages']:>10,}")
    ui.show(given, figures, *lines)


_MOST_LISTED = 10  # conversations of a preview


_EMBEDDED_AT_ONCE = 1_000  # messages between two updates of the progress


def sessions_rename(given: ui.Given, context: ui.Context) -> None:
    """Gives a conversation another title; it must be named exactly."""
    with open_existing(context) as db:
        session = named_exactly(db, given.session)
        title = db.rename(session.id, " ".join(given.title))
    line = f"{session.id} is now called {ui.visible(title or '(nothing)')}"
    ui.show(given, {"session_id": session.id, "title": title}, line)


def sessions_delete(given: ui.Given, context: ui.Context) -> None:
    """Deletes whole conversations after asking; each must be named exactly."""
    with open_existing(context) as db:
        chosen = {session.root: session for session in (named_exactly(db, name) for name in given.sessions)}.values()
        names = ", ".join(f"{name_of(session)!r} ({session.id})" for session in chosen)
        question = f"delete {names} with all messages, for good?"
        ui.confirm(given, question, "nothing was deleted (use --yes to skip the question)")
        _show_removed(given, _remove(db, chosen))


def sessions_prune(given: ui.Given, context: ui.Context) -> None:
    """Deletes conversations that have not been used for a number of days, after asking."""
    days = context.settings.get("sessions.retention_days") if given.older_than is None else given.older_than
    unused = counted(days, "day")
    with open_existing(context) as db:
        Opened(db).end_abandoned()
        upkeep = Maintenance.of_db(db)
        old = upkeep.unused(days, source=given.source, archived=given.include_archived)
        many = counted(len(old), "conversation")
        if given.dry_run or not old:
            lines = [f"{many} would be deleted, the least recently used first:"]
            lines += [
                f"  {each.id}  {ui.when(each.last_active)[:16]}  {name_of(each)[:60]}" for each in old[:_MOST_LISTED]
            ]
            lines += [f"  and {len(old) - _MOST_LISTED:,} more (--json lists all)"] if len(old) > _MOST_LISTED else []
            document = {"dry_run": given.dry_run, "conversations": len(old)}
            document["sessions"] = [as_json(each) for each in old]
            ui.show(given, document, *(lines if old else [f"no ended conversation was unused for {unused}"]))
            return
        otherwise = f"{many} would be deleted; nothing was (--yes deletes, --dry-run lists)"
        ui.confirm(given, f"delete {many} not used for {unused}, for good?", otherwise)
        removed = _remove(db, old)
        if context.settings.flag("sessions.vacuum_after_prune") and upkeep.sizes()["file_bytes"] <= QUICKLY_REWRITTEN:
            upkeep.rewrite()
    _show_removed(given, removed, dry_run=False)


def _remove(db: SessionDB, chosen: Iterable[Session]) -> dict[str, Any]:
    """Deletes whole conversations, the last part first; branches of them stay."""
    sessions: list[str] = []
    messages, rows = 0, list(chosen)
    with ui.Progress("deleting", len(rows)) as progress:
        for done, session in enumerate(rows, start=1):
            for part in reversed(db.lineage(session.id)):
                if db.find_session(part.id) is not None:  # a delegated part is deleted with the session that started it
                    messages += part.message_count
                    sessions.append(part.id)
                    db.delete(part.id)
            progress.update(done)
    return {"conversations": len(rows), "sessions": sessions, "messages": messages}


def _show_removed(given: ui.Given, removed: dict[str, Any], **more: bool) -> None:
    counts = (counted(len(removed["sessions"]), "session"), counted(removed["messages"], "message"))
    lines = f"deleted {counted(removed['conversations'], 'conversation')}: {', '.join(counts)}"
    ui.show(given, {**removed, **more}, lines)


def sessions_optimize(given: ui.Given, context: ui.Context) -> None:
    """Merges the index, computes missing vectors, and with `--vacuum` gives free space back to the disk."""
    with open_existing(context) as db:
        upkeep = Maintenance.of_db(db)
        before = upkeep.sizes()
        indexed, embedded = db.index(), 0
        with ui.Progress("computing vectors for search by meaning, messages") as progress:
            while step := db.embed(_EMBEDDED_AT_ONCE):  # none where meaning is not searched
                embedded += step
                progress.update(embedded)
        steps = settle(upkeep)
        if given.vacuum:
            upkeep.rewrite()
        after = upkeep.sizes()
    lines = [f"vectors for search by meaning computed for {embedded:,} messages"] if embedded else []
    merged = f"index merged in {counted(steps, 'step')}" if steps else "the index was merged already"
    old, new = (sizes["file_bytes"] + sizes["log_bytes"] for sizes in (before, after))
    grown = " (it grew: merging writes the index anew before the old one is free for later messages)"
    now = f"{ui.bytes_in_words(new)} now{grown if new > old else ''}"
    lines.append(f"{merged}; {ui.bytes_in_words(old)} on disk before, {now}")
    if after["free_bytes"] > after["file_bytes"] // 4 and not given.vacuum:
        lines.append(f"{ui.bytes_in_words(after['free_bytes'])} are free inside the file; --vacuum gives them back")
    document = {"before": before, "after": after, "merge_steps": steps, "indexed": indexed, "embedded": embedded}
    ui.show(given, document, *lines)


def settle(upkeep: Maintenance) -> int:
    """Merges the pieces of the index and shows the progress; returns the number of steps."""
    steps = 0
    with ui.Progress("merging the index, step") as progress:
        for steps in upkeep.settle():
            progress.update(steps)
    return steps


def sessions_repair(given: ui.Given, context: ui.Context) -> None:
    """Repairs the database file, then adds what could not be stored while it was damaged."""
    from hermes.storage.local.repair.check import repair

    path = given.path or context.home.join(DATABASE)
    with ui.Progress() as progress:
        shown = None if given.json else progress.stage
        told = repair(path, dry_run=given.dry_run, progress=shown, out=given.out)
        added = [] if given.dry_run or given.path or given.out else _added(context.home)
    lines = [*_repair_lines(told, dry_run=given.dry_run), *added]
    ui.show(given, told.as_json() | {"dry_run": given.dry_run, "added": added}, *lines)


def _added(home: Home) -> list[str]:
    """Adds conversations that could not be stored while the database was damaged; returns what to tell the person."""
    if not os.path.isdir(home.join(UNSAVED)):
        return []
    from hermes.session.unsaved import take_up

    with SessionDB.open(**conversations_of(home)) as db:
        return take_up(home, db)


def _repair_lines(told: Repair, *, dry_run: bool) -> Iterator[str]:
    """Yields what was damaged, what could be kept, and where the original bytes are."""
    found = told.salvaged
    if found is None:
        yield f"{told.path} is sound; nothing to repair"
        return
    yield f"{told.path} is damaged:"
    yield from (f"  {problem}" for problem in told.problems)
    keep = "can keep" if dry_run else "kept"
    yield f"{keep} {counted(found.messages, 'message')} in {counted(found.sessions, 'session')}"
    if found.summaries:
        yield f"{keep} {counted(found.summaries, 'summary', 'summaries')} of the lossless engine"
    if found.altered:
        altered = counted(len(found.altered), "message was altered; it is", "messages were altered; they are")
        yield f"{altered} left out and kept in unverified.jsonl"
    if found.lost:
        yield counted(found.lost, "message is lost", "messages are lost")
    if found.damaged_sessions:
        yield f"sessions that lost their titles: {', '.join(found.damaged_sessions)}"
    if found.salvage_sessions:
        yield f"messages whose session is lost are in: {', '.join(found.salvage_sessions)}"
    if dry_run:
        yield "nothing was changed; run `hermes sessions repair` to do it"
    else:
        yield f"the original bytes and a report are in {told.backup}"


def sessions_restore(given: ui.Given, context: ui.Context) -> None:
    """Makes a new session that holds everything a compaction replaced; the compacted one stays."""
    with open_existing(context) as db:
        session = db.tip(named(db, given.session).id)
        contexts = Contexts(db)
        if not contexts.was_compacted(session.id):
            raise NotFound(f"{session.id} was never compacted; there is nothing to restore")
        restored, messages = contexts.restore(session.id)
        title = db.get_session(restored).title
    document = {"session_id": restored, "restored_from": session.id, "title": title, "messages": messages}
    held = f"{restored} holds all {counted(messages, 'message')} of {session.id}, which stays as it is"
    ui.show(given, document, held, f"`hermes --resume {restored}` continues it; its model needs room for all of it")


_CANDIDATES = 5  # conversations that an error suggests
_LOOKED_AT = 500  # newest sessions whose titles are compared with a mistyped one
_MARKED = re.compile(r">>>(.*?)<<<", re.DOTALL)  # the marks that search puts around found words


def open_existing(context: ui.Context) -> SessionDB:
    """Opens the conversations of the home; raises `NotFound` if there are none yet."""
    db = open_past(context.home)
    if db is None:
        raise NotFound("there are no conversations yet; `hermes sessions import FILE` brings some in")
    return db


def named(db: SessionDB, name: str) -> Session:
    """Finds the conversation a person means: by id or title, or by a part of one that no other contains."""
    if session := db.resolve(name):
        return session
    alike = db.resembling(name, _CANDIDATES + 1) if name.strip() else []
    if len(alike) > 1:
        many = len(alike) if len(alike) <= _CANDIDATES else f"more than {_CANDIDATES}"
        listed = _listed(alike[:_CANDIDATES])
        raise NotFound(f"{many} conversations match {name!r}; give more of the title, or the id: {listed}")
    return alike[0] if alike else _not_found(db, name)


def named_exactly(db: SessionDB, name: str) -> Session:
    """Finds a conversation for a change: a part of a title is not enough, because a wrong guess could delete it."""
    return db.resolve(name) or _not_found(db, name)


def _not_found(db: SessionDB, name: str) -> NoReturn:
    """Raises `NotFound` with similar conversations: by a part of the title, else by its spelling."""
    alike = db.resembling(name, _CANDIDATES) if name.strip() else []
    if not alike:
        recent = {session.title: session for session in db.list_sessions(limit=_LOOKED_AT) if session.title}
        alike = [recent[title] for title in get_close_matches(name, recent, n=_CANDIDATES)]
    if not alike:
        raise NotFound(f"there is no session {name!r}; `hermes sessions list` shows ids and titles")
    raise NotFound(f"there is no session {name!r}; the nearest: {_listed(alike)}")


def _listed(sessions: list[Session]) -> str:
    return ", ".join(f"{name_of(session)[:_TITLE]!r} ({session.id})" for session in sessions)


def highlighted(snippet: str) -> str:
    """Shows found words in bold where styles are allowed; elsewhere their marks stay."""
    text = " ".join(ui.visible(snippet).split())
    return _MARKED.sub("\x1b[1m\\1\x1b[0m", text) if ui.has_styles(sys.stdout) else text


def name_of(session: Session) -> str:
    """The title of a session, else its first words, safe to show: one line, secrets masked."""
    return ui.visible(" ".join(mask_secrets(session.title or session.preview or "(empty)").split()))


def as_json(session: Session) -> dict[str, Any]:
    """A session as a document for scripts; secrets in its texts are masked."""
    names = ("title", "source", "model", "project", "started_at", "last_active", "ended_at", "end_reason")
    found = {"session_id": session.id, **ui.pick(session, *names, "archived", "message_count", "tool_call_count")}
    found["preview"] = session.preview
    return found | {name: mask_secrets(found[name]) for name in ("title", "preview") if found[name]}


def project_option(words: str | None) -> str | None:
    """Resolves a project option: `.` and paths mean the repository there, anything else is a project's name."""
    if words is None or not (words in (".", "..") or os.sep in words):
        return words
    return named_project(words)


_FEW = 8  # messages of the history that are listed one by one


def one_line(receipt: Receipt) -> str:
    """A receipt in one line, for below an answer: tokens, share from the cache, cost, writes, what waits."""
    parts = [f"receipt {receipt.id}", "" if receipt.intact else receipt.state.upper(), *_figures(receipt)]
    if receipt.written:
        parts.append(counted(len(receipt.written), "write"))
    if receipt.pending:
        parts.append(f"{len(receipt.pending)} pending")
    if receipt.fired:
        parts.append(", ".join(f"{each['kind']} {each['name']}" for each in receipt.fired))
    return " · ".join(filter(None, parts))


def receipt_lines(receipt: Receipt, *, everything: bool = False) -> Iterator[str]:
    """A receipt in lines for a person; a long history takes one line, unless `everything` is set."""
    yield f"receipt {receipt.id}  {receipt.state}"
    for problem in receipt.problems:
        yield f"  problem    {problem}"
    yield f"  turn       {receipt.turn} of {receipt.session_id}, {ui.when(receipt.at)[:16]}"
    yield f"  question   {_masked(receipt.question)}"
    yield f"  answer     {_masked(receipt.answer)}"
    yield f"  model      {'; '.join(filter(None, [ui.visible(receipt.model), *_figures(receipt)])) or 'unknown'}"
    for each in receipt.written:
        what = f"{each['change']} ({each['action']}, {each['target']})" if "change" in each else each.get("tool", "")
        yield f"  written    {each['kind']}: {ui.visible(str(what))}"
    for pending in receipt.pending:
        yield f"  pending    {pending} (`hermes memory approve {pending}` or reject)"
    for fired in receipt.fired:
        name, text = ui.visible(str(fired["name"])), _masked(str(fired["text"]))
        yield f"  {fired['kind']:<10} {name}: {text} ({fired['trigger']})"
    yield f"in front of the model ({sum(each.tokens for each in receipt.items):,} tokens, by estimate):"
    for group in _grouped(receipt.items, everything=everything):
        yield _items_line(group, receipt.at)


def _figures(receipt: Receipt) -> list[str]:
    usage = receipt.usage
    tokens = f"{usage.get('input_tokens', 0):,} tokens read, {usage.get('output_tokens', 0):,} written" if usage else ""
    cached = f"{receipt.cached_share:.0%} cached" if receipt.cached_share is not None else ""
    return list(filter(None, [tokens, cached, f"${receipt.cost:.4f}" if receipt.cost is not None else ""]))


def _grouped(items: Sequence[ReceiptItem], *, everything: bool) -> list[Sequence[ReceiptItem]]:
    history = [each for each in items if each.kind == "message"]
    if everything or len(history) <= _FEW:
        return [[each] for each in items]
    first = items.index(history[0])
    return [*([each] for each in items[:first]), history, *([each] for each in items[first + len(history) :])]


def _items_line(group: Sequence[ReceiptItem], at: float) -> str:
    one = group[0]
    tokens = sum(each.tokens for each in group)
    if len(group) > 1:
        numbers = f"{one.number}-{group[-1].number}"
        return f"  {numbers}  {len(group)} messages, {tokens:,} tokens: {one.why} (--all lists them)"
    age = f", {_age(at - one.at)}" if one.at is not None and at - one.at >= 1 else ""
    about = f"{one.kind} from {ui.visible(one.source)}, {one.grade}{age}, {tokens:,} tokens: {ui.visible(one.why)}"
    text = _masked(one.text) if one.text is not None else "(its text was not kept)"
    return f"{one.number:>4}  {about}\n      {text}"


def _age(seconds: float) -> str:
    for name, size in (("day", 86_400), ("hour", 3600), ("minute", 60)):
        if seconds >= size:
            return f"{counted(int(seconds // size), name)} old"
    return f"{counted(int(seconds), 'second')} old"


def _masked(text: str, longest: int = _TEXT) -> str:
    return ui.cut(ui.visible(mask_secrets(text)), longest)


_LATEST = 50  # conversations in which the newest receipts are looked for


def receipts_list(given: ui.Given, context: ui.Context) -> None:
    """Lists the receipts of a conversation, by default of the latest one that has any."""
    with open_existing(context) as db:
        among = [named(db, given.session)] if given.session else db.list_sessions(limit=_LATEST, begun=True)
        if not among:
            raise NotFound("there are no conversations yet, so there are no receipts")
        receipts = Receipts(context.home, db)
        found = next(filter(None, (receipts.of(each.id) for each in among)), [])  # an import has none
    shown = found[-given.limit :]
    none = f"no answer of {among[0].id if given.session else 'the latest conversations'} has a receipt"
    lines = [_line(each) for each in shown] or [none]
    ui.show(given, [each.as_dict() for each in shown], *lines)


def receipts_show(given: ui.Given, context: ui.Context) -> None:
    """Prints one receipt."""
    with open_existing(context) as db:
        found = Receipts(context.home, db).get(given.receipt)
    ui.show(given, found.as_dict(), *receipt_lines(found, everything=given.all))


def receipts_verify(given: ui.Given, context: ui.Context) -> int:
    """Checks the seals of receipts; exits with 1 if one was changed after it was sealed."""
    with open_existing(context) as db:
        session = named(db, given.session).id if given.session else ""
        found = list(Receipts(context.home, db).verify(session))
    states = Counter(each.state for each in found)
    problems, lines = [], []
    for each in found:
        if each.state != INTACT:
            receipt = each.record.get("id")
            problems.append({"id": receipt, "state": each.state, "problems": list(each.problems)})
            lines.append(f"{receipt}  {each.state}: {'; '.join(each.problems) or _HINTS[each.state]}")
    counts = ", ".join(f"{count:,} {state}" for state, count in states.items())
    lines.append(f"{counted(len(found), 'receipt')}{f': {counts}' if counts else ''}")
    ui.show(given, {"receipts": len(found), "states": states, "problems": problems}, *lines)
    return ui.REFUSED if states[TAMPERED] else ui.OK


def _on_item(act: Callable[[Receipts, str, int, ui.Given], str]) -> Callable[[ui.Given, ui.Context], None]:
    """Makes a command about one item of a receipt; `act` does the work and returns what to say."""

    def command(given: ui.Given, context: ui.Context) -> None:
        with open_existing(context) as db:
            done = act(Receipts(context.home, db), given.receipt, given.item, given)
        ui.show(given, {"receipt": given.receipt, "item": given.item, "message": done}, done)

    return command


receipts_correct = _on_item(lambda receipts, name, item, given: receipts.correct(name, item, " ".join(given.text)))
receipts_forget = _on_item(lambda receipts, name, item, _: receipts.forget(name, item))
receipts_pin = _on_item(lambda receipts, name, item, _: receipts.pin(name, item))
receipts_never = _on_item(lambda receipts, name, item, given: receipts.never(name, item, recall=given.undo))


_HINTS = {
    "unsealed": "no key could be written when the answer was given",
    "unknown key": "another home sealed it, and its key is not here",
}


def _line(receipt: Receipt) -> str:
    said = _masked(receipt.question, _SAID)
    return f"{receipt.id}  turn {receipt.turn:<4} {ui.when(receipt.at)[:16]}  {receipt.state:<9} {said}"
