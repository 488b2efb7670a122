"""`hermes status`, `doctor`, `storage` and `users`: the state of a home, where its data is, and its people."""

from __future__ import annotations

import os
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from hermes.base.errors import SettingsError, StorageError
from hermes.base.events import PROBLEM
from hermes.base.text import counted
from hermes.cli import ui
from hermes.compaction.engine import BUILT_IN
from hermes.conversations.database import Pages, SessionDB
from hermes.operations.forget import finish_removals, forget, rehearse
from hermes.operations.status import collect_status
from hermes.portability.move import homes_below, left_behind, move_person
from hermes.settings.config import conversations_of, storage_address, whose
from hermes.settings.home import DATABASE
from hermes.settings.people import APPROVE, People
from hermes.storage.ports import is_address

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hermes.operations.forget import Forgotten
    from hermes.settings.people import Key


def _session_lines(state: dict[str, Any]) -> Iterator[str]:
    if "problem" in state:
        yield f"sessions  ! {state['problem']}"
    else:
        size = f", {ui.bytes_in_words(state['file_bytes'])} on disk" if "file_bytes" in state else ""
        held = f"{counted(state['conversations'], 'conversation')}, {counted(state['messages'], 'message')}"
        yield f"sessions  {held}{size}"
        grown = (f"{counted(each['messages'], 'message')} in {each['month']}" for each in state["by_month"])
        yield f"growth    {', '.join(grown) or 'nothing yet'}"
    for each in state["unsaved"]:
        now = each.get("problem") or ("open now" if each["open"] else "the next session adds it")
        yield f"          ! 1 conversation is not in state.db: {each['file']} ({now})"


def _engine_lines(state: dict[str, Any]) -> Iterator[str]:
    """Yields the state of the context engine, and conversations whose compaction is held back."""
    used = state.get("in_use", state["name"])
    decides = f"at {state['threshold']:.0%} of the window" if state["enabled"] else "off (compression.enabled)"
    if used != BUILT_IN:
        decides = "when it decides"  # compression.threshold applies to the built-in engine only
    compacted = counted(state["recent_sessions_compacted"], "recent session")
    name = used if used == state["name"] else f"{used} instead of {state['name']}"
    held = f"; held back in {counted(len(state['held_back']), 'conversation')}" if state["held_back"] else ""
    yield f"context   {name}, {decides}; {compacted} compacted{held}"
    if problem := state.get("problem"):
        yield f"          ! {problem}"
    for each in state["held_back"]:
        yield f"          ! {each['session_id']}: {each['why']}"


def _review(review: dict[str, Any]) -> str:
    at = f"{ui.when(review['at'])}: " if "at" in review else ""
    saved = f", {counted(len(review.get('saved', ())), 'save')}" if review.get("saved") else ""
    error = f" (! {review['error']})" if review.get("error") else ""
    cost = f", {review['tokens']:,} tokens" if review.get("tokens") else ""
    return f"{at}{review['status']}{saved}{cost}{error}"


def _background(state: dict[str, Any]) -> Iterator[str]:
    """Yields lines about the tokens and cost of background work today: reviews, curation, digests, notes, titles."""
    if "tokens" not in state:
        yield f"spent     {'! ' + state['problem'] if state.get('problem') else 'nothing on background work today'}"
        return
    limit = f" of {state['tokens_per_day']:,}" if state["tokens_per_day"] else ""
    paid = f", ${state['cost']:.4f}" + (f" of ${state['cost_per_day']:g}" if state["cost_per_day"] else "")
    spent = f" (! {state['spent']})" if state["spent"] else ""
    yield f"spent     {state['tokens']:,}{limit} tokens of background work today{paid}{spent}"
    if state["compaction"]["calls"]:
        yield f"          and {state['compaction']['tokens']:,} tokens for summaries of long conversations, not limited"
    if state["waiting"]:
        oldest = ui.when(state["waiting"][0]["at"])[:16]
        yield f"          {counted(len(state['waiting']), 'review')} waiting for a new day, since {oldest}"
    for alarm in state["alarms"]:
        yield f"          ! {alarm}"


def _curation(run: dict[str, Any]) -> str:
    disputed = f", {counted(len(run['contradictions']), 'contradiction')} (`hermes curator status`)"
    return (
        f"{run['id']} {ui.when(run['at'])}: {counted(len(run['operations']), 'operation')}"
        f"{disputed if run['contradictions'] else ''}{', taken back' if run['undone_by'] else ''}"
    )


def run_status(given: ui.Given, context: ui.Context) -> None:
    """Prints the state of memory, conversations, providers and background work."""
    state = collect_status(context.home, context.settings)
    ui.show(given, state, *_state_lines(state))


def _state_lines(state: dict[str, Any]) -> Iterator[str]:
    yield f"hermes {state['version']}  {state['home']} (profile {state['profile']})"
    for target, used in state["memory"].items():
        yield f"{target:<9} {used}"
    review = " (`hermes memory pending`)" if state["pending_writes"] else ""
    yield f"pending   {counted(state['pending_writes'], 'write')}{review}"
    yield f"model     {state['model'] or 'none chosen (`hermes setup`)'}"
    for each in state["providers"]:
        refused = f", {each['refused']} refused" if each["refused"] else ""
        last = f"; {each['last']}" if each.get("last") else ""
        yield f"provider  {each['name']}, {counted(each['waiting'], 'call')} waiting{refused}{last}"
    if not state["providers"]:
        yield "provider  built-in memory only"
    yield from _engine_lines(state["engine"])
    yield f"skills    {state['skills']}"
    yield from _session_lines(state["sessions"])
    share = state["sessions"].get("cached_share")
    known = "" if share is None else f"{share:.0%} of the prompt tokens of recent sessions came from it; "
    yield f"cache     {known}Anthropic keeps it for {state['prompt_cache_ttl']}"
    if miss := state["sessions"].get("last_cache_miss"):
        yield f"          last miss: {miss}"
    review, curation = state["review"], state["curation"]
    yield f"review    {_review(review) if review else 'none yet'}"
    yield f"curation  {_curation(curation) if curation else 'none yet'}"
    yield from _background(state["background"])


_SIGNS = {"ok": "✓", "warning": "!", "problem": "✗"}


def run_doctor(given: ui.Given, context: ui.Context) -> int:
    """Checks the home and what it uses; exits with 1 if there is a problem. With `--fix`, repairs what it can."""
    from hermes.operations.doctor import Options, examine  # loads much that `hermes status` does not need

    checks = []
    with ui.Progress() as progress:
        for check in examine(context.home, Options(given.fix, not given.offline, progress.stage)):
            checks.append(check)
            if not given.json:
                progress.close()
                ui.line(f"{_SIGNS[check.state]} {check.name}: {check.found}{' (fixed)' if check.fixed else ''}")
                if check.remedy:
                    ui.line(f"    → {check.remedy}")
    healthy = not any(check.state == PROBLEM for check in checks)
    if given.json:
        ui.print_json({"healthy": healthy, "checks": [check.as_json() for check in checks]})
    elif healthy:
        ui.line("Everything that has to work works.")
    else:
        ui.line("Something needs your attention: see the lines marked ✗.")
    return ui.OK if healthy else ui.REFUSED


def _address(given: ui.Given, context: ui.Context) -> str:
    """The database that was named, or else the one in the settings."""
    address = given.url or storage_address(context.home)
    if not address:
        raise SettingsError("name a database: --url postgresql://…, HERMES_STORAGE_URL, or storage.url in config.yaml")
    return _checked(address)


def _checked(address: str) -> str:
    if not is_address(address):
        raise SettingsError(f"{address[:60]!r} is not the address of a database; it starts with postgresql://")
    return address


def storage_init(given: ui.Given, context: ui.Context) -> None:
    """Prepares a PostgreSQL database: applies all migrations, with a login that may make roles."""
    from hermes.storage.postgres.schema import migrate

    applied = migrate(_address(given, context), partitions=given.partitions)
    lines = [f"applied {name}" for name in applied] or ["nothing to do: the database is up to date"]
    ui.show(given, {"applied": applied}, *lines)


def storage_migrate(given: ui.Given, context: ui.Context) -> None:
    """Applies missing migrations to a prepared PostgreSQL database."""
    from hermes.storage.postgres.schema import migrate, status

    address = _address(given, context)
    if not status(address)["prepared"]:
        raise StorageError("the database was never prepared; `hermes storage init` does that")
    applied = migrate(address)
    ui.show(given, {"applied": applied}, *(applied or ["nothing to do: the database is up to date"]))


_ONE_MACHINE = {"holographic", "byterover"}  # memory providers that keep their data in local files


def storage_status(given: ui.Given, context: ui.Context) -> None:
    """Prints where conversations are kept, their size, and what is wrong with the database."""
    where = given.url or conversations_of(context.home)["path"]
    if not is_address(where):
        size = os.path.getsize(where) if os.path.exists(where) else 0
        document = {"engine": "sqlite", "path": where, "bytes": size}
        ui.show(given, document, f"SQLite: {where}, {ui.bytes_in_words(size)}")
        return
    from hermes.storage.postgres.schema import status

    found = status(where)
    if found["prepared"] and not found["missing"] and (left := left_behind(context.home, where)):
        found["warnings"].append(
            f"{counted(left, 'document')} of this home, such as memory, are still files, which are not read: "
            "`hermes storage move --to URL` brings them"
        )
    chosen = {context.settings.text("memory.provider"), *context.settings.texts("memory.providers")}
    if alone := sorted(chosen & _ONE_MACHINE):
        found["warnings"].append(
            f"the memory of {' and '.join(alone)} is in local files; for several servers choose another memory provider"
        )
    ui.show(given, {"engine": "postgresql", **found}, *_status_lines(found))


def _status_lines(found: dict[str, Any]) -> Iterator[str]:
    yield f"PostgreSQL {found['version']}: {found['address']}, {ui.bytes_in_words(found['bytes'])}"
    if not found["prepared"]:
        yield "! not prepared yet: `hermes storage init`"
    elif found["missing"]:
        yield f"! {counted(len(found['missing']), 'migration')} missing: `hermes storage migrate`"
    yield from (f"! {warning}" for warning in found["warnings"])


def storage_check(given: ui.Given, context: ui.Context) -> None:
    """Reads every message of this person and compares its checksum; raises if one does not match."""
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


def storage_move(given: ui.Given, context: ui.Context) -> None:
    """Copies the data of every person to a database or back, and compares it; the source stays."""
    if bool(given.to) == bool(given.origin):
        raise SettingsError("say where to: `hermes storage move --to URL`, or back: `hermes storage move --from URL`")
    from hermes.storage.postgres.documents import PostgresDocuments

    address = _checked(given.to or given.origin)
    told, lines = [], []
    for home in homes_below(context.home):
        with ui.Progress() as progress:
            moved = move_person(home, address, there=bool(given.to), progress=partial(progress.stage, whose(home)))
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


_SHOWN = 60  # letters of a phrase
_KEY = "    {}\nThis is the only time it is shown: only its SHA-256 is kept."


def users_list(given: ui.Given, context: ui.Context) -> None:
    """Lists the people with their keys, of which only ids are known."""
    people = People(context.home)
    document, lines = [], []
    for person in people.all():
        keys = [ui.pick(key, "id", "made", "label", "rights") for key in person.keys]
        home = people.home_of(person.name).path
        document.append({**ui.pick(person, "name", "added", "note"), "home": home, "keys": keys})
        lines.append(f"{person.name:<20}  since {ui.when(person.added)[:10]}  {counted(len(keys), 'key')}")
        for key in person.keys:
            about = f"    key {key.id}  made {ui.when(key.made)[:16]}  {key.label}{_may(key)}"
            lines.append(about.rstrip())
    ui.show(given, document, *(lines or ["nobody yet; `hermes users add NAME` makes a home and a key for somebody"]))


def _may(key: Key) -> str:
    return f"  may {', '.join(key.rights)}" if key.rights else ""


def users_add(given: ui.Given, context: ui.Context) -> None:
    """Adds a person with a home, and prints a key for them once."""
    people = People(context.home)
    person = people.add(given.name, given.note)
    rights = (APPROVE,) if given.approve else ()
    key, secret = people.make_key(given.name, rights=rights) if not given.no_key else (None, None)
    home = people.home_of(given.name).path
    document = {"name": person.name, "home": home, "key_id": key.id if key else None, "key": secret}
    ui.show(given, document, f"{person.name} has a home at {home}", *([_KEY.format(secret)] if secret else []))


def users_key(given: ui.Given, context: ui.Context) -> None:
    """Makes another key for a person and prints it once, or revokes one."""
    people = People(context.home)
    if given.revoke:
        people.revoke(given.name, given.revoke)
        document = {"name": given.name, "revoked": given.revoke}
        ui.show(given, document, f"key {given.revoke} of {given.name} is revoked")
        return
    key, secret = people.make_key(given.name, given.label, rights=(APPROVE,) if given.approve else ())
    document = {"name": given.name, "key_id": key.id, "key": secret, "rights": list(key.rights)}
    ui.show(given, document, f"key {key.id} of {given.name}{_may(key)}", _KEY.format(secret))


def users_forget(given: ui.Given, context: ui.Context) -> int:
    """Removes a person and all their data; without `--yes`, only says what it would do. Exits with 1 if traces stay."""
    people = People(context.home)
    finish_removals(people.home)
    sure = given.yes and not given.dry_run
    if sure:
        from hermes.gateway.ledger import forget_person

        people.get(given.name)
        forget_person(people.home, given.name)
    report = forget(people, given.name) if sure else rehearse(people, given.name)
    ui.show(given, asdict(report), *_report_lines(report))
    incomplete = report.elsewhere or any("could NOT" in line for line in report.providers)
    return ui.REFUSED if report.done and incomplete else ui.OK


def _report_lines(report: Forgotten) -> Iterator[str]:
    """Yields what forgetting a person removed or would remove, and what a person has to do themselves."""
    verb = "removed" if report.done else "would remove"
    yield (
        f"{verb} {report.name}: {counted(report.entries, 'memory entry', 'memory entries')} with history, "
        f"{counted(report.messages, 'message')} in {counted(report.conversations, 'conversation')}, "
        f"{counted(report.keys, 'key')}, {counted(report.files, 'file')} ({report.bytes:,} bytes)"
    )
    for line in report.providers:
        yield f"provider: {line}"
    yield (
        f"searched {counted(report.searched_files, 'other file')} for {counted(report.searched_phrases, 'phrase')} "
        f"of theirs: found in {counted(len(report.elsewhere), 'file')}"
    )
    for path in report.elsewhere:
        such = f", such as {report.words[path][:_SHOWN]!r}" if path in report.words else ""
        remedy = "look at it and remove them"
        if os.path.basename(path).startswith(DATABASE):
            remedy = "`hermes sessions search` finds them, `hermes sessions delete` removes a conversation"
        yield f"    {path}: holds words of {report.name}{such}; {remedy}"
    for path in report.archives:
        yield f"    {path}: an archive with their home in it; delete it, or create it again"
    for problem in report.problems:
        yield f"    ! {problem}"
    if not report.done:
        yield f"nothing was changed; `hermes users forget {report.name} --yes` does it, for good"
