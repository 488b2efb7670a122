"""`hermes doctor`: tries each part of Hermes for real and says what to do. Each check answers one question.

Nothing is changed without `fix`, and with it only what cannot lose data.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

import httpx

from hermes.base.errors import ForeignSettings, HermesError, ModelError, NotFound, SettingsError, StorageError, WrongKey
from hermes.base.events import OK, PROBLEM, WARNING, Check
from hermes.base.text import counted
from hermes.compaction.engine import BUILT_IN
from hermes.conversations.database import SessionDB
from hermes.conversations.maintenance import Maintenance
from hermes.conversations.receipts import TAMPERED
from hermes.llm.catalogue import listed_context
from hermes.llm.client import HttpModel
from hermes.llm.transport import shared_client
from hermes.memory.store import MemoryStore, blocked_in_prompt
from hermes.operations.status import examine_engine, examine_provider
from hermes.portability.exchange import disabled_in
from hermes.session.external import chosen_providers
from hermes.session.models import Background, main_model
from hermes.session.parts import open_past
from hermes.session.receipts import Receipts
from hermes.session.unsaved import take_up, waiting
from hermes.settings.config import FILE as CONFIG
from hermes.settings.config import (
    SECRETS,
    Settings,
    conversations_of,
    load_settings,
    read_secrets,
    storage_address,
)
from hermes.settings.home import DATABASE
from hermes.storage.files import Folder, is_running, keep_private, readable_by_others
from hermes.storage.local.repair.check import open_elsewhere, repair
from hermes.storage.locks import FileLock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hermes.settings.home import Home

_SECONDS = 10  # for a model's server to answer
_RECEIPTS_OF = 20  # newest conversations whose receipts are verified
_REFUSES_THE_KEY = (401, 403)
_SERVER_ERROR = 500
_ENOUGH, _LITTLE = 200_000_000, 20_000_000  # bytes free
_LONG_LOG = 64_000_000  # bytes of a write-ahead log that a checkpoint should have emptied
_SHOWN = 3  # examples in a finding
_HOME, _SETTINGS = "home", "settings"
_SCRATCH = ".doctor-"  # and a process id: where `_scratch_database` works


@dataclass(frozen=True, slots=True)
class Options:
    """Whether doctor repairs and connects, and how it reports progress."""

    fix: bool = False
    connect: bool = True  # ask models and providers whether they answer
    progress: Callable[[str, int, int], None] = lambda _what, _done, _total: None


class _Examined:
    """The input of every check: the home, its settings, their problems, and what the person asked for.

    `skipped` names what is missing or broken, so that checks that need it are left out.
    """

    def __init__(self, home: Home, options: Options) -> None:
        self.home = home
        self.options = options
        self.settings = Settings(home.join(CONFIG), {})
        problems: list[str] = []
        self.skipped = set() if os.path.isdir(home.path) else {_HOME}
        try:
            self.settings = load_settings(home)
        except ForeignSettings as error:
            problems.append(str(error).partition(": `")[0])
        except SettingsError as error:
            problems += str(error).split("\n")
        if problems:
            self.skipped.add(_SETTINGS)
        try:
            read_secrets(home)
        except SettingsError as error:
            problems += str(error).split("\n")
        self.problems = list(dict.fromkeys(problems))


def examine(home: Home, options: Options) -> Iterator[Check]:
    """Yields the results of every check in turn; one that fails does not keep the others from running."""
    given = _Examined(home, options)
    if _HOME in given.skipped:
        yield Check("home", OK, f"{home.path} does not exist yet; the first write creates it")
    for name, check, needed in _CHECKS:
        if needed not in given.skipped:
            yield from _guarded(name, check(given))


def _guarded(name: str, found: Iterator[Check]) -> Iterator[Check]:
    try:
        yield from found
    except (HermesError, OSError) as error:
        yield Check(name, PROBLEM, str(error), "see the message; the other checks ran all the same")


def _free_space(given: _Examined) -> Iterator[Check]:
    space = os.statvfs(given.home.path)
    free = space.f_bavail * space.f_frsize
    state = OK if free >= _ENOUGH else WARNING if free >= _LITTLE else PROBLEM
    remedy = "" if state == OK else "make room on this disk: when it is full, writes are refused, but nothing is lost"
    yield Check("free space", state, f"{free / 1e9:,.1f} GB free where the home is", remedy)


def _privacy(given: _Examined) -> Iterator[Check]:
    """Whether other users of the machine can read anything in the home."""
    home = given.home.path
    open_ones = readable_by_others(home)
    if not open_ones:
        yield Check("privacy", OK, "other users of this machine cannot read it")
        return
    named = ", ".join(path if path == home else os.path.relpath(path, home) for path in open_ones[:_SHOWN])
    found = f"other users may read {counted(len(open_ones), 'file or folder', 'files or folders')} ({named})"
    if given.options.fix:
        for path in open_ones:
            keep_private(path)
        yield Check("privacy", OK, f"{found}; now they are private", fixed=True)
    else:
        yield Check("privacy", WARNING, found, "`hermes doctor --fix` makes them private")


def _leftovers(given: _Examined) -> Iterator[Check]:
    """Temporary files of killed writers; the next write in the same folder also removes them."""
    home = given.home
    places = [place for place in (home.path, home.join("memories")) if os.path.isdir(place)]
    scratch = [
        entry.path
        for entry in os.scandir(home.path)  # databases of doctors that were killed
        if entry.name.startswith(_SCRATCH) and not is_running(int(entry.name.removeprefix(_SCRATCH)))
    ]
    names = [(place, name) for place in places for name in os.listdir(place)]
    left = [*scratch, *(os.path.join(*each) for each in names if each[1].startswith(".") and each[1].endswith(".tmp"))]
    if not left:
        yield Check("leftovers", OK, "no writer left anything behind")
    elif given.options.fix:
        for place in places:
            with Folder.create(place) as folder:
                folder.discard_abandoned()
        for abandoned in scratch:
            shutil.rmtree(abandoned)
        kept = sum(map(os.path.exists, left))
        found = f"{len(left) - kept} temporary files of killed writers removed"
        found += f"; {kept} that running writers use stay" if kept else ""
        yield Check("leftovers", OK, found, fixed=kept < len(left))
    else:
        found = f"{counted(len(left), 'temporary file')} of writers that are running or were killed"
        yield Check("leftovers", OK, found, "`hermes doctor --fix` removes those that nobody uses")


def _settings(given: _Examined) -> Iterator[Check]:
    for line in given.problems:
        remedy = "edit the file, or use `hermes config set KEY VALUE`"
        if f"{SECRETS}:" in line:
            remedy = "edit that line; a # at its beginning makes it a comment"
        elif "hermes-agent" in line:
            remedy = "`hermes import hermes-agent` makes this home ours, after a backup"
        yield Check("settings", PROBLEM, line, remedy)
    if not given.problems:
        yield Check("settings", OK, "config.yaml and .env are fine")


def _memory(given: _Examined) -> Iterator[Check]:
    """Reads the memory files as a session does, takes their locks, and looks for threats already stored."""
    store = MemoryStore.open(given.home, settings=given.settings)
    for target in store.targets:
        yield from _guarded(f"memory {target}", _target(store, target))


def _target(store: MemoryStore, target: str) -> Iterator[Check]:
    name, path, reading = f"memory {target}", store.path(target), store.read(target)
    if reading.drift:
        remedy = "`hermes memory adopt` accepts the file as it is and keeps a backup"
        yield Check(name, WARNING, f"{path}: {reading.drift}", remedy)
        return
    folder = Folder.open(os.path.dirname(path))
    if folder is None:
        yield Check(name, OK, "no entries yet")
        return
    with folder, FileLock(folder, f"{os.path.basename(path)}.lock", timeout=1):
        pass
    shown = blocked_in_prompt(reading.entries, os.path.basename(path), store.provenance(target).copy)
    if blocked := sum(entry != seen for entry, seen in zip(reading.entries, shown, strict=True)):
        found = f"{counted(blocked, 'entry is', 'entries are')} kept out of the prompt by the threat scanner"
        yield Check(name, WARNING, found, "`hermes memory scan` shows which and why")
    else:
        held = counted(len(reading.entries), "entry", "entries")
        yield Check(name, OK, f"{held}, readable, and the lock can be taken")


def _scratch_database(given: _Examined) -> Iterator[Check]:
    """Writes a message and finds it again in a database of its own on the same file system."""
    place = given.home.join(f"{_SCRATCH}{os.getpid()}")
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
        raise StorageError("a test message was written but not found again; run `bin/test` and report what fails")
    told = f"wrote a test message and found it (journal: {journal})"
    remedy = "this file system has no shared memory, which is slow but safe; a home on a local disk is faster"
    yield Check("storage", OK, told) if journal == "wal" else Check("storage", WARNING, told, remedy)


def _conversations(given: _Examined) -> Iterator[Check]:
    home, path = given.home, given.home.join(DATABASE)
    if not given.problems and storage_address(home):
        with SessionDB.open(**conversations_of(home)) as db:
            held = f"{_held(db)} at {db.path}; `hermes storage check` reads all of them"
        yield Check("conversations", OK, held)
    elif not os.path.exists(path):
        yield Check("conversations", OK, "none yet")
        return
    else:
        found = list(_database(path, given.options))
        yield from found
        if any(each.state == PROBLEM for each in found):
            return
    if not given.problems:
        yield from _receipts_and_background(home)


def _held(db: SessionDB) -> str:
    counts = db.counts()
    return f"{counted(counts['messages'], 'message')} in {counted(counts['sessions'], 'session')}"


def _database(path: str, options: Options) -> Iterator[Check]:
    """Structure, checksums and index, which needs the file for itself; then the log."""
    if (holder := open_elsewhere(path)) is not None:
        found = f"not checked, because another program has the database open (process {holder})"
        remedy = "an open chat is fine; to check it, close the chat and run `hermes doctor` again"
        yield Check("conversations", WARNING, found, remedy)
    elif problems := repair(path, dry_run=True, progress=options.progress).problems:
        remedy = "`hermes sessions repair` keeps the original bytes and everything that can be read"
        yield from (Check("conversations", PROBLEM, problem, remedy) for problem in problems[:_SHOWN])
        return
    with SessionDB.open(path) as db:
        if holder is None:
            indexed = db.index() if options.fix else 0
            done = f"; {counted(indexed, 'waiting message')} indexed" if indexed else ""
            found = f"{_held(db)}: structure, checksums and index agree{done}"
            yield Check("conversations", OK, found, fixed=bool(indexed))
        size = os.path.getsize(f"{path}-wal") if os.path.exists(f"{path}-wal") else 0
        if size >= _LONG_LOG:
            found = f"the write-ahead log of state.db has grown to {size / 1e6:,.0f} MB"
            if options.fix:
                Maintenance.of_db(db).checkpoint()
                yield Check("log", OK, f"{found}; it was merged into {path}", fixed=True)
            else:
                remedy = "`hermes doctor --fix` merges it into the file; a program that reads for long may hold it"
                yield Check("log", WARNING, found, remedy)


def _receipts_and_background(home: Home) -> Iterator[Check]:
    """Whether receipts of the newest conversations are valid, and whether work in the background is of use."""
    past = open_past(home)
    if past is None:
        return
    with past:
        receipts = Receipts(home, past)
        newest = past.list_sessions(limit=_RECEIPTS_OF)
        found = [each for session in newest for each in receipts.verify(session.id)]
        alarms = Background(past, load_settings(home)).alarms()
    wrong = [each for each in found if each.state == TAMPERED]
    remedy = "somebody changed the database: `hermes receipts verify` lists every case, a backup has the original"
    for each in wrong[:_SHOWN]:
        yield Check("receipts", PROBLEM, f"{each.record.get('id')}: {'; '.join(each.problems)}", remedy)
    if found and not wrong:
        held = f"{counted(len(found), 'receipt')} of the newest {counted(len(newest), 'conversation')} checked"
        yield Check("receipts", OK, f"{held}: none was changed")
    for alarm in alarms:
        told, _, remedy = alarm.partition("; ")
        yield Check("background", WARNING, told, remedy)


def _unsaved(given: _Examined) -> Iterator[Check]:
    """Conversations stored outside the database, because it was locked or damaged."""
    home, found = given.home, waiting(given.home)
    if given.options.fix and not all(each["open"] for each in found):
        with SessionDB.open(**conversations_of(home)) as db:
            for told in take_up(home, db):
                yield Check("unsaved", OK, told, fixed=True)
        found = waiting(home)
    for each in found:
        held = "; a running program still uses it and will add it" if each["open"] else ""
        remedy = "" if each["open"] else "the next session adds it, and so does `hermes doctor --fix`"
        yield Check("unsaved", WARNING, f"the conversation in {each['file']} is not in state.db yet{held}", remedy)


def _model(given: _Examined) -> Iterator[Check]:
    try:
        model = main_model(given.settings)
    except (NotFound, WrongKey, ModelError) as error:
        remedy = "`hermes setup` chooses a model; memory, search and import work without one"
        yield Check("model", WARNING, str(error).partition(": start one")[0], remedy)  # setup offers the same
        return
    if given.options.connect and isinstance(model, HttpModel):
        yield _reached(model, is_set=given.settings.get("model.context_length") is not None)
    else:
        yield Check("model", OK, f"{model.name}, {model.context_length:,} tokens of context")


def _reached(model: HttpModel, *, is_set: bool) -> Check:
    """Asks for the list of models, which costs nothing and is refused to a wrong key.

    `is_set` says that the settings name the window: then a smaller one than the model's is intended.
    """
    endpoint = model.endpoint
    address = endpoint.base_url.rstrip("/") + ("/v1/models" if endpoint.wire == "anthropic" else "/models")
    try:
        answer = shared_client().get(address, headers=model.headers(), timeout=_SECONDS)
    except httpx.HTTPError as error:
        found = f"no connection to {model.name} at {endpoint.base_url}: {error}"
        return Check("model", PROBLEM, found, "check that the server runs and that there is a network")
    if answer.status_code in _REFUSES_THE_KEY:
        found = f"{endpoint.provider} refuses the key for {model.name} ({answer.status_code})"
        return Check("model", PROBLEM, found, endpoint.key_remedy)
    if answer.status_code >= _SERVER_ERROR:
        remedy = "try again later, or set fallback_models to use another model until then"
        return Check("model", WARNING, f"{endpoint.provider} answers with {answer.status_code}", remedy)
    counts = f"{model.name} at {endpoint.provider} answers; its context counts as {model.context_length:,} tokens"
    told = _window(answer, model.name)
    if told is None or told == model.context_length or (is_set and told > model.context_length):
        return Check("model", OK, counts)
    remedy = f"`hermes config set model.context_length {told}`"
    return Check("model", WARNING, f"{counts}, but its server says {told:,}", remedy)


def _window(answer: httpx.Response, name: str) -> int | None:
    """Tokens of the model's window, if its server's list says so."""
    try:
        listed = answer.json().get("data") or ()
    except (ValueError, AttributeError):
        return None
    entries = (entry for entry in listed if isinstance(entry, dict) and entry.get("id") == name)
    return next((listed_context(entry) for entry in entries), None)


def _providers(given: _Examined) -> Iterator[Check]:
    for each in chosen_providers(given.settings):
        told = examine_provider(given.home, given.settings, each, connect=given.options.connect)
        waits = f"; {counted(told['waiting'], 'call waits', 'calls wait')} for it" if told["waiting"] else ""
        state, found, remedy = OK, told["connection"] or "is available", ""
        if told["problem"]:
            remedy = "`hermes memory setup` changes its settings, `hermes memory off` stops using it"
            state, found = PROBLEM, told["problem"]
        elif not told["available"]:
            missing = ", ".join(field["key"] for field in told.get("missing", ())) or "something it needs"
            state, found, remedy = PROBLEM, f"{missing} is missing", f"`hermes memory setup {each}` asks for it"
        yield Check(f"provider {each}", state, found + waits, remedy)


def _engine(given: _Examined) -> Iterator[Check]:
    """Loads an engine that is not the built-in one, and lets it compact a small history."""
    name = given.settings.text("context.engine")
    if name in ("", BUILT_IN):
        return
    told = examine_engine(given.home, given.settings, name)
    if told["problem"]:
        remedy = (
            f"`hermes plugins check {name}` tries it again, `hermes config set context.engine {BUILT_IN}` goes back to "
            f"the built-in one; an engine of yours belongs in {told['belongs_into']}"
        )
        yield Check("context engine", PROBLEM, told["problem"], remedy)
    else:
        yield Check("context engine", OK, f"{name}: {told['tried']}")


def _disabled(given: _Examined) -> Iterator[Check]:
    """Settings and plug-ins that an import or a restore brought and the person has not agreed to."""
    if found := disabled_in(given.home.path):
        yield Check(
            "disabled",
            WARNING,
            f"an import or a restore brought {'; '.join(found)}",
            "`hermes config enable` lists and enables it",
        )


# Each check in the order of the report, with its name and what it needs.
_CHECKS: tuple[tuple[str, Callable[[_Examined], Iterator[Check]], str], ...] = (
    ("free space", _free_space, _HOME),
    ("privacy", _privacy, _HOME),
    ("leftovers", _leftovers, _HOME),
    ("settings", _settings, ""),
    ("memory", _memory, _SETTINGS),
    ("storage", _scratch_database, _HOME),
    ("conversations", _conversations, _HOME),
    ("unsaved", _unsaved, _HOME),
    ("model", _model, _SETTINGS),
    ("providers", _providers, _SETTINGS),
    ("context engine", _engine, _SETTINGS),
    ("disabled", _disabled, _HOME),
)
