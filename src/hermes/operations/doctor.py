"""`hermes doctor`: exercises the real thing and says what to do. Each check is one question with one answer.

Nothing is changed without `fix`, and with it only what cannot lose anything.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermes.base.errors import ForeignSettings, HermesError, ModelError, NotFound, SettingsError, StorageError, WrongKey
from hermes.base.events import OK, PROBLEM, WARNING, Check
from hermes.base.text import counted
from hermes.settings.config import conversations_of, load_settings, quoted_items, storage_address
from hermes.settings.environment import FILE as SECRETS
from hermes.settings.environment import read_secrets
from hermes.settings.home import DATABASE
from hermes.storage.files import is_running, keep_private, readable_by_others

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import httpx

    from hermes.llm.client import HttpModel
    from hermes.settings.config import Settings
    from hermes.settings.home import Home

_SECONDS = 10
_RECEIPTS_OF = 20  # conversations
_REFUSES_THE_KEY = (401, 403)
_SERVER_ERROR = 500


def check_model(settings: Settings, *, connect: bool) -> Iterator[Check]:
    from hermes.llm.client import HttpModel
    from hermes.session.models import main_model

    try:
        model = main_model(settings)
    except (NotFound, WrongKey, ModelError) as error:
        remedy = "`hermes setup` chooses a model; memory, search and import work without one"
        yield Check(name="model", state=WARNING, found=str(error), remedy=remedy)
        return
    if connect and isinstance(model, HttpModel):
        yield _reached(model, is_set=settings.get("model.context_length") is not None)
    else:
        yield Check(name="model", state=OK, found=f"{model.name}, {model.context_length:,} tokens of context")


def _reached(model: HttpModel, *, is_set: bool) -> Check:
    """Asks for the list of models, which costs nothing and is refused to a wrong key.

    `is_set` says that the settings name the window: a smaller one than the model has is meant then.
    """
    import httpx

    from hermes.llm.transport import shared_client

    endpoint = model.endpoint
    address = endpoint.base_url.rstrip("/") + ("/v1/models" if endpoint.wire == "anthropic" else "/models")
    try:
        answer = shared_client().get(address, headers=model.headers(), timeout=_SECONDS)
    except httpx.HTTPError as error:
        found = f"nothing answers for {model.name} at {endpoint.base_url}: {error}"
        return Check(name="model", state=PROBLEM, found=found, remedy="is the server running, is there a network?")
    if answer.status_code in _REFUSES_THE_KEY:
        found = f"{endpoint.provider} refuses the key for {model.name} ({answer.status_code})"
        return Check(name="model", state=PROBLEM, found=found, remedy=endpoint.key_remedy)
    if answer.status_code >= _SERVER_ERROR:
        found = f"{endpoint.provider} answers with {answer.status_code}"
        return Check(
            name="model",
            state=WARNING,
            found=found,
            remedy="try again later; set fallback_models to continue meanwhile",
        )
    counts = f"{model.name} at {endpoint.provider} answers; it counts as {model.context_length:,} tokens of context"
    told = _window(answer, model.name)
    if told is None or told == model.context_length or (is_set and told > model.context_length):
        return Check(name="model", state=OK, found=counts)
    remedy = f"`hermes config set model.context_length {told}`"
    return Check(name="model", state=WARNING, found=f"{counts}, and says that it takes {told:,}", remedy=remedy)


def _window(answer: httpx.Response, name: str) -> int | None:
    """Tokens that the model takes, where its server's list says so."""
    from hermes.llm.catalogue import listed_context

    try:
        listed = answer.json().get("data") or ()
    except (ValueError, AttributeError):
        return None
    entries = (entry for entry in listed if isinstance(entry, dict) and entry.get("id") == name)
    return next((listed_context(entry) for entry in entries), None)


def check_providers(home: Home, settings: Settings, *, connect: bool) -> Iterator[Check]:
    from hermes.session.external import chosen_providers

    names = list(chosen_providers(settings))
    if not names:
        return
    from hermes.operations.checks import examine

    for name in names:
        told = examine(home, settings, name, connect=connect)
        waiting = f"; {counted(told['waiting'], 'call waits', 'calls wait')} for it" if told.get("waiting") else ""
        if told["problem"]:
            yield Check(
                name=f"provider {name}",
                state=PROBLEM,
                found=told["problem"] + waiting,
                remedy="`hermes memory setup` changes its settings, `hermes memory off` does without it",
            )
        elif not told["available"]:
            missing = ", ".join(field["key"] for field in told.get("missing", ())) or "something it needs"
            remedy = f"`hermes memory setup {name}` asks for it"
            yield Check(name=f"provider {name}", state=PROBLEM, found=f"{missing} is missing{waiting}", remedy=remedy)
        else:
            yield Check(name=f"provider {name}", state=OK, found=(told["connection"] or "is available") + waiting)


def check_disabled(home: Home) -> Iterator[Check]:
    """What an import or a restore brought and the person has not agreed to."""
    from hermes.portability.exchange import disabled_in

    if found := disabled_in(home.path):
        remedy = "`hermes config enable` lists and enables it"
        yield Check(name="disabled", state=WARNING, found=f"disabled: {'; '.join(found)}", remedy=remedy)


def check_engine(home: Home, settings: Settings) -> Iterator[Check]:
    """Loads an engine that is not the built-in one, and lets it compact a small history."""
    name = settings.text("context.engine")
    if name in ("", "compressor"):
        return
    from hermes.operations.checks import examine_engine

    told = examine_engine(home, settings, name)
    if told["problem"]:
        remedy = (
            f"`hermes plugins check {name}` tries it again, `hermes config set context.engine compressor` takes the "
            f"built-in one; an engine of yours belongs into {told['belongs_into']}"
        )
        yield Check(name="context engine", state=PROBLEM, found=told["problem"], remedy=remedy)
    else:
        yield Check(name="context engine", state=OK, found=f"{name}: {told['tried']}")


_ENOUGH, _LITTLE = 200_000_000, 20_000_000  # bytes free
_LONG_LOG = 64_000_000  # bytes of a write-ahead log that a checkpoint should have emptied
_SHOWN = 3
_SCRATCH = ".doctor-"  # and a process id: where `_scratch_database` works


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Whether doctor repairs and connects, and how it reports progress."""

    fix: bool = False
    connect: bool = True  # ask models and providers whether they answer
    progress: Callable[[str, int, int], None] = lambda _what, _done, _total: None


def examine(home: Home, options: Options) -> Iterator[Check]:
    """Every check in turn; one that fails never keeps the others from being made."""
    if not os.path.isdir(home.path):
        yield Check(name="home", state=OK, found=f"{home.path} does not exist yet; the first write creates it")
    else:
        yield from _guarded("free space", lambda: _free_space(home))
        yield from _guarded("privacy", lambda: _privacy(home, fix=options.fix))
        yield from _guarded("leftovers", lambda: _leftovers(home, fix=options.fix))
    settings, problems = _settings(home)
    yield from problems
    if settings is not None:
        chosen = settings
        yield from _guarded("memory", lambda: _memory(home, chosen))
    if os.path.isdir(home.path):
        yield from _guarded("storage", lambda: _scratch_database(home))
        yield from _guarded("conversations", lambda: _conversations(home, options))
        yield from _guarded("unsaved", lambda: _unsaved(home, fix=options.fix))
    if settings is not None:
        yield from _guarded("model", lambda: check_model(chosen, connect=options.connect))
        yield from _guarded("providers", lambda: check_providers(home, chosen, connect=options.connect))
        yield from _guarded("context engine", lambda: check_engine(home, chosen))
        yield from _guarded("disabled", lambda: check_disabled(home))


def _guarded(name: str, check: Callable[[], Iterator[Check]]) -> Iterator[Check]:
    try:
        yield from check()
    except (HermesError, OSError) as error:
        yield Check(name=name, state=PROBLEM, found=str(error), remedy="see the message; the other checks continued")


def _free_space(home: Home) -> Iterator[Check]:
    space = os.statvfs(home.path)
    free = space.f_bavail * space.f_frsize
    state = OK if free >= _ENOUGH else WARNING if free >= _LITTLE else PROBLEM
    remedy = "" if state == OK else "make room on this disk: writes are refused when none is left, nothing is lost"
    yield Check(name="free space", state=state, found=f"{free / 1e9:,.1f} GB free where the home is", remedy=remedy)


def _privacy(home: Home, *, fix: bool) -> Iterator[Check]:
    """Everything in a home is for its owner alone."""
    open_ones = readable_by_others(home.path)
    if not open_ones:
        yield Check(name="privacy", state=OK, found="others on this machine can read nothing of it")
        return
    shown = open_ones[:_SHOWN]
    named = ", ".join(path if path == home.path else os.path.relpath(path, home.path) for path in shown)
    many = "file or folder" if len(open_ones) == 1 else "files or folders"
    found = f"others may read {len(open_ones):,} {many} ({named})"
    if fix:
        for path in open_ones:
            keep_private(path)
        yield Check(name="privacy", state=OK, found=f"{found}; now they are private", fixed=True)
    else:
        yield Check(name="privacy", state=WARNING, found=found, remedy="`hermes doctor --fix` makes them private")


def _leftovers(home: Home, *, fix: bool) -> Iterator[Check]:
    """Temporary files of writers that were killed; the next write beside them removes them, too."""
    from hermes.storage.files import Folder

    places = [home.path, home.join("memories")]
    left = [os.path.join(place, name) for place in places for name in _temporary(place)]
    left += (scratch := _abandoned_scratch(home))
    if not left:
        yield Check(name="leftovers", state=OK, found="no writer left anything behind")
    elif fix:
        for place in places:
            folder = Folder.open(place)
            if folder is not None:
                with folder:
                    folder.discard_abandoned()
        for abandoned in scratch:
            shutil.rmtree(abandoned)
        kept = sum(map(os.path.exists, left))
        found = f"{len(left) - kept} temporary files of killed writers removed"
        found += f"; {kept} of writers that run stay" if kept else ""
        yield Check(name="leftovers", state=OK, found=found, fixed=kept < len(left))
    else:
        found = f"{len(left)} temporary files, of writers that run or were killed"
        yield Check(name="leftovers", state=OK, found=found, remedy="`hermes doctor --fix` removes what nobody uses")


def _abandoned_scratch(home: Home) -> list[str]:
    """Databases of doctors that were killed."""
    names = [name for name in os.listdir(home.path) if name.startswith(_SCRATCH)]
    return [home.join(name) for name in names if not is_running(int(name.removeprefix(_SCRATCH)))]


def _temporary(place: str) -> list[str]:
    if not os.path.isdir(place):
        return []
    return [name for name in os.listdir(place) if name.startswith(".") and name.endswith(".tmp")]


def _settings(home: Home) -> tuple[Settings | None, list[Check]]:
    problems: list[Check] = []
    settings = None
    try:
        settings = load_settings(home)
        problems += [
            Check(name="settings", state=WARNING, found=what, remedy=remedy) for what, remedy in quoted_items(settings)
        ]
        read_secrets(home)
    except ForeignSettings as error:
        remedy = "`hermes import hermes-agent` makes this home ours, after a backup"
        problems.append(Check(name="settings", state=PROBLEM, found=str(error).partition(": `")[0], remedy=remedy))
    except SettingsError as error:
        problems += [
            Check(name="settings", state=PROBLEM, found=line, remedy=_settings_remedy(line))
            for line in str(error).split("\n")
        ]
    return settings, problems or [Check(name="settings", state=OK, found="config.yaml and .env are fine")]


def _settings_remedy(problem: str) -> str:
    if f"{SECRETS}:" in problem:
        return "edit that line; # at its beginning makes it a comment"
    return "edit the file, or `hermes config set KEY VALUE`"


def _memory(home: Home, settings: Settings) -> Iterator[Check]:
    """Reads the memory files as a session does, takes their locks, and looks for threats already stored."""
    from hermes.memory.store import MemoryStore, blocked_in_prompt
    from hermes.storage.files import Folder
    from hermes.storage.locks import FileLock

    store = MemoryStore.open(home, settings=settings)
    for target in store.targets:
        path = store.path(target)
        reading = store.read(target)
        if reading.drift:
            remedy = "`hermes memory adopt` accepts the file as it is and keeps a backup"
            yield Check(name=f"memory {target}", state=WARNING, found=f"{path}: {reading.drift}", remedy=remedy)
            continue
        folder = Folder.open(os.path.dirname(path))
        if folder is not None:
            with folder, FileLock(folder, f"{os.path.basename(path)}.lock", timeout=1):
                pass
        origins = store.provenance(target)
        shown = blocked_in_prompt(reading.entries, os.path.basename(path), origins.copy)
        blocked = sum(entry != seen for entry, seen in zip(reading.entries, shown, strict=True))
        if blocked:
            found = f"{counted(blocked, 'entry is', 'entries are')} blocked in the prompt"
            remedy = "`hermes memory scan` says which and why"
            yield Check(name=f"memory {target}", state=WARNING, found=found, remedy=remedy)
        else:
            count = len(reading.entries)
            found = f"{counted(count, 'entry', 'entries')}, readable, and the lock can be taken"
            yield Check(name=f"memory {target}", state=OK, found=found)


def _scratch_database(home: Home) -> Iterator[Check]:
    """Writes a message and finds it again in a database of its own on the same file system."""
    from hermes.conversations.database import SessionDB

    place = home.join(f"{_SCRATCH}{os.getpid()}")
    os.mkdir(place, 0o700)
    try:
        with SessionDB.open(os.path.join(place, DATABASE)) as db:
            session = db.create_session(source="doctor")
            written = db.append(session, {"role": "user", "content": "the doctor hides a thermometer here"})
            found = [hit.message_id for hit in db.search("Where is the thermometer?")]
            journal = db.journal_mode
    finally:
        shutil.rmtree(place)
    if found != [written]:
        raise StorageError("a message was written and not found again; run `bin/test` and report what fails")
    state, remedy = OK, ""
    if journal != "wal":
        state = WARNING
        remedy = "this file system has no shared memory: it works, but move the home to a local disk for speed"
    yield Check(name="storage", state=state, found=f"wrote a message and found it (journal: {journal})", remedy=remedy)


def _conversations(home: Home, options: Options) -> Iterator[Check]:
    if storage_address(home):
        yield _on_a_server(home)
        yield from _receipts_and_background(home)
        return
    path = home.join(DATABASE)
    if not os.path.exists(path):
        yield Check(name="conversations", state=OK, found="none yet")
        return
    from hermes.storage.local.repair.check import open_elsewhere, repair

    holder = open_elsewhere(path)
    if holder is not None:
        found = f"not checked while another program has them open (process {holder})"
        remedy = "an open chat is fine; for this check, end it and run `hermes doctor` again"
        yield Check(name="conversations", state=WARNING, found=found, remedy=remedy)
    else:
        told = repair(path, dry_run=True, progress=options.progress)
        if told.problems:
            remedy = "`hermes sessions repair` keeps the original bytes and everything that can be read"
            for problem in told.problems[:_SHOWN]:
                yield Check(name="conversations", state=PROBLEM, found=problem, remedy=remedy)
            return
        yield _sound(path, fix=options.fix)
    yield from _log(home, path, fix=options.fix)
    yield from _unfinished_imports(path)
    yield from _receipts_and_background(home)


def _on_a_server(home: Home) -> Check:
    from hermes.conversations.database import SessionDB

    with SessionDB.open(**conversations_of(home)) as db:
        counts = db.counts()
        held = f"{counted(counts['messages'], 'message')} in {counted(counts['sessions'], 'session')}"
        return Check(
            name="conversations", state=OK, found=f"{held} at {db.path}; `hermes storage check` reads them all"
        )


def _receipts_and_background(home: Home) -> Iterator[Check]:
    """Whether receipts of the newest conversations hold, and whether work in the background is of use."""
    from hermes.conversations.receipts import TAMPERED
    from hermes.session.background import Background
    from hermes.session.parts import open_past
    from hermes.session.receipts import Receipts

    past = open_past(home)
    if past is None:
        return
    with past:
        receipts = Receipts(home, past)
        newest = past.list_sessions(limit=_RECEIPTS_OF)
        found = [each for session in newest for each in receipts.verify(session.id)]
        wrong = [each for each in found if each.state == TAMPERED]
        alarms = Background(past, load_settings(home)).alarms()
    for each in wrong[:_SHOWN]:
        told = f"{each.record.get('id')}: {'; '.join(each.problems)}"
        remedy = "`hermes receipts verify` looks at all; somebody changed the database, a backup has it as it was"
        yield Check(name="receipts", state=PROBLEM, found=told, remedy=remedy)
    if found and not wrong:
        held = f"{counted(len(found), 'receipt')} of the newest {counted(len(newest), 'conversation')} checked"
        yield Check(name="receipts", state=OK, found=f"{held}: none was changed")
    for alarm in alarms:
        told, _, remedy = alarm.partition("; ")
        yield Check(name="background", state=WARNING, found=told, remedy=remedy)


def _unsaved(home: Home, *, fix: bool) -> Iterator[Check]:
    """Conversations that were kept beside the database, because it was locked or damaged."""
    from hermes.session.unsaved import take_up, waiting

    found = waiting(home)
    left = [each for each in found if not each["open"]]
    if left and fix:
        from hermes.conversations.database import SessionDB

        with SessionDB.open(**conversations_of(home)) as db:
            for told in take_up(home, db):
                yield Check(name="unsaved", state=OK, found=told, fixed=True)
        found = waiting(home)
    for each in found:
        held = "; the program that has it is running and adds it" if each["open"] else ""
        remedy = "" if each["open"] else "the next session adds it, and so does `hermes doctor --fix`"
        told = f"the conversation in {each['file']} is not in state.db{held}"
        yield Check(name="unsaved", state=WARNING, found=told, remedy=remedy)


def _sound(path: str, *, fix: bool) -> Check:
    from hermes.conversations.database import SessionDB

    with SessionDB.open(path) as db:
        counts = db.counts()
        waiting = db.index() if fix else 0
    held = f"{counted(counts['messages'], 'message')} in {counted(counts['sessions'], 'session')}"
    indexed = f"; {counted(waiting, 'waiting message')} indexed" if waiting else ""
    found = f"{held}: structure, checksums and index agree{indexed}"
    return Check(name="conversations", state=OK, found=found, fixed=bool(waiting))


def _unfinished_imports(path: str) -> Iterator[Check]:
    from hermes.conversations.database import SessionDB
    from hermes.conversations.recorded_import import unfinished_imports

    with SessionDB.open(path) as db:
        for each in unfinished_imports(db):
            if not each.running:
                yield Check(name="import", state=WARNING, found=each.in_words(), remedy=each.remedy())


def _log(home: Home, path: str, *, fix: bool) -> Iterator[Check]:
    size = os.path.getsize(path + "-wal") if os.path.exists(path + "-wal") else 0
    if size < _LONG_LOG:
        return
    found = f"the log of state.db has {size / 1e6:,.0f} MB"
    if not fix:
        remedy = "`hermes doctor --fix` brings it into the file; a program that reads for long may hold it"
        yield Check(name="log", state=WARNING, found=found, remedy=remedy)
        return
    from hermes.conversations.database import SessionDB
    from hermes.conversations.maintenance import Maintenance

    with SessionDB.open(path) as db:
        Maintenance.of_db(db).checkpoint()
    yield Check(name="log", state=OK, found=f"{found}; it was brought into the file of {home.path}", fixed=True)
