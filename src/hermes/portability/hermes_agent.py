"""`hermes import hermes-agent`: brings in memory, settings and conversations of a hermes-agent home.

Memory files, skills and most settings have the same format in both programs. If the home is ours to take over in place,
only the rest is changed, after a full backup: the database is converted and settings that Hermes does not have are
removed. Otherwise everything is copied into our home, as from any other program.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hermes.base.errors import HermesError, NotFound, SettingsError, StorageError
from hermes.conversations.database import SessionDB
from hermes.conversations.retrieval import as_imported
from hermes.memory.entries import Cause, parse
from hermes.memory.file import FILES, FOLDER
from hermes.memory.store import TARGETS, MemoryStore
from hermes.portability.archive import files_below, opened_unchanged, read_bytes, read_text
from hermes.portability.plan import (
    ARCHIVED,
    ERROR,
    MIGRATED,
    SKIPPED,
    Item,
    Planner,
    change_memory,
    new_report,
    open_for_import,
)
from hermes.settings.config import SECRETS, Settings, check_text, read_secrets
from hermes.settings.home import DATABASE, PROFILES, Home, profile_path
from hermes.settings.yaml_file import keep_known
from hermes.storage.files import keep_private, readable_by_others
from hermes.storage.local.damage import mended
from hermes.storage.local.database import HERMES_AGENT, all_rows, foreign_program, program_of
from hermes.storage.local.repair.check import SIDE_FILES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import apsw

    from hermes.portability.exchange import HomeCopy
    from hermes.portability.plan import Options, Report

    Progress = Callable[[str, int, int], None]

_JSON_MARK = "\x00json:"  # before contents that are not plain text
_JSON_COLUMNS = ("tool_calls", "reasoning_details", "codex_reasoning_items", "codex_message_items")
_PLAIN = (
    *("source", "title", "model", "started_at", "ended_at", "end_reason", "cwd", "system_prompt"),
    *("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens"),
    *("api_call_count", "estimated_cost_usd", "actual_cost_usd"),
)
# Columns whose values we derive ourselves or store under another name.
_OUR_OWN = ("id", "parent_session_id", "message_count", "tool_call_count", "archived", "git_repo_root")
_NOT_IN_MESSAGE = ("id", "session_id", "active", "compacted", "tool_name")


class HermesAgentFile:
    """hermes-agent's database, opened read-only."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    @classmethod
    @contextlib.contextmanager
    def open(cls, path: str) -> Iterator[HermesAgentFile]:
        """Opens the file with its log; neither is changed."""
        if not os.path.isfile(path):
            raise NotFound(f"{path} does not exist")
        with opened_unchanged(path) as connection:
            if program_of(connection) != HERMES_AGENT:
                raise StorageError(f"{path} is not a database of hermes-agent: it has no tables sessions and messages")
            yield cls(connection)

    def newest(self) -> dict[str, int]:
        """The largest id among the messages of each session."""
        return dict(all_rows(self._connection, "SELECT session_id, max(id) FROM messages GROUP BY session_id"))

    def sessions(self) -> list[dict[str, Any]]:
        """Arguments for `SessionDB.create_session`: parents before children, otherwise ordered by last use."""
        newest = self.newest()
        rows = {str(row["id"]): row for row in self._rows("sessions", "ORDER BY rowid")}
        sessions = {name: _session(name, row, rows) for name, row in rows.items()}
        ordered: dict[str, dict[str, Any]] = {}
        for name in sorted(sessions, key=lambda each: newest.get(each, 0)):
            chain: dict[str, None] = {}
            at = name
            while at in sessions and at not in ordered and at not in chain:  # also ends a cycle of parents
                chain[at] = None
                at = sessions[at]["parent_session_id"]
            ordered |= {each: sessions[each] for each in reversed(chain)}
        return list(ordered.values())

    def messages(self, session: str, after: int = 0) -> Iterator[tuple[int, dict[str, Any], str]]:
        """Id and content of each message, and whether it was `compacted` or `rewound`."""
        for row in self._rows("messages", "WHERE session_id = ? AND id > ? ORDER BY id", (session, after)):
            live = row.get("active") in (None, 1)
            yield row["id"], _message(row), "" if live else "compacted" if row.get("compacted") == 1 else "rewound"

    def count(self) -> int:
        """Number of messages in the file, for a progress bar."""
        return int(all_rows(self._connection, "SELECT count(*) FROM messages")[0][0])

    def _rows(self, table: str, rest: str, values: tuple[Any, ...] = ()) -> Iterator[dict[str, Any]]:
        names = [row[1] for row in self._connection.execute(f"PRAGMA table_info({table})")]
        quoted = ['"' + name.replace('"', '""') + '"' for name in names]
        # Read texts as bytes: one with invalid UTF-8 would make the whole query fail.
        bare = ", ".join(f"iif(typeof({name}) = 'text', CAST({name} AS BLOB), {name})" for name in quoted)
        for row in self._connection.execute(f"SELECT {bare} FROM {table} {rest}", values):  # noqa: S608 - names from the file, quoted
            yield dict(zip(names, mended(row), strict=True))


def _session(name: str, row: dict[str, Any], rows: dict[str, dict[str, Any]]) -> dict[str, Any]:
    parent = row.get("parent_session_id")
    parent = parent if parent in rows and parent != row["id"] else None
    fields = {column: row[column] for column in _PLAIN if row.get(column) is not None}
    times = {column: fields.pop(column, None) for column in ("started_at", "ended_at")}
    fields |= {column: float(at) for column, at in times.items() if isinstance(at, int | float)}
    fields |= {"source": str(row.get("source") or "unknown"), "archived": 1 if row.get("archived") else 0}
    if row.get("git_repo_root"):
        fields["project"] = row["git_repo_root"]
    kept = {column: value for column, value in row.items() if column not in (*_PLAIN, *_OUR_OWN)}
    fields |= {column: value for column, value in kept.items() if value not in (None, "", 0)}
    kind = _kind(row, rows.get(parent or ""))
    return {**fields, "session_id": name, "parent_session_id": parent, "kind": kind}


def _kind(row: dict[str, Any], parent: dict[str, Any] | None) -> str | None:
    """How a session relates to its parent; hermes-agent records it in `model_config` and the parent's `end_reason`."""
    if parent is None:
        return None
    marks = _opened(row.get("model_config"))
    if isinstance(marks, dict) and marks.get("_branched_from"):
        return "branch"
    if isinstance(marks, dict) and marks.get("_delegate_from"):
        return "delegate"
    if row.get("source") in ("tool", "subagent"):
        return "delegate"
    return {"compression": "compression", "branched": "branch"}.get(str(parent.get("end_reason")), "delegate")


def _message(row: dict[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": str(row.get("role") or "unknown")}
    content = row.get("content")
    packed = isinstance(content, str) and content.startswith(_JSON_MARK)
    message["content"] = _opened(content[len(_JSON_MARK) :]) if content and packed else content
    if row.get("tool_name"):
        message["name" if message["role"] == "tool" else "tool_name"] = row["tool_name"]
    for name, value in row.items():
        if name not in (*_NOT_IN_MESSAGE, "role", "content") and value not in (None, "", 0):
            message[name] = _opened(value) if name in _JSON_COLUMNS else value
    if not isinstance(message.get("tool_calls"), list | None):
        message["tool_calls_unread"] = message.pop("tool_calls")  # not JSON; kept under another name
    return message


def _opened(text: Any) -> Any:
    """The value of a JSON text; the text itself if it is not JSON."""
    try:
        return json.loads(text)
    except (TypeError, ValueError):
        return text


_BATCH = 1000  # messages per transaction; others can write in between


@dataclass(slots=True, kw_only=True)
class Imported:
    """What a run added; `known` sessions were imported before."""

    sessions: int = 0
    messages: int = 0
    known: int = 0


def import_hermes_agent(path: str, db: SessionDB, progress: Progress | None = None) -> Imported:
    """Adds what is new; a second run adds only what hermes-agent has written since the first.

    The store notes the last imported id of each session in the same transaction as its messages.
    """
    counts, done = Imported(), 0
    with HermesAgentFile.open(os.path.abspath(path)) as file:
        total = file.count()
        for session in file.sessions():
            name = session["session_id"]
            reached = db.get_meta(_mark(name))
            if reached is None and db.find_session(name) is not None:
                continue  # the id belongs to a session of ours
            counts.known += reached is not None
            messages = file.messages(name, after=reached or 0)
            # A new session gets one batch even if it has no messages, so that the session itself is stored.
            while (batch := list(itertools.islice(messages, _BATCH))) or reached is None:
                reached = batch[-1][0] if batch else 0
                with db.bulk():
                    _store(db, session, batch, counts)
                    db.set_meta(_mark(name), reached)
                done += len(batch)
                if progress is not None:
                    progress("importing messages", done, total)
    return counts


def has_news(path: str, db: SessionDB) -> bool:
    """Whether an import would add a session or message, judged by ids alone."""
    with HermesAgentFile.open(os.path.abspath(path)) as file:
        newest = file.newest()
        for session in file.sessions():
            name = session["session_id"]
            reached = db.get_meta(_mark(name))
            if db.find_session(name) is None if reached is None else newest.get(name, 0) > reached:
                return True
    return False


def adopt_hermes_agent(path: str, copy: HomeCopy, progress: Progress | None = None) -> tuple[Imported, str]:
    """Replaces hermes-agent's database with one of ours; returns what was imported and the path of the original."""
    if not os.path.exists(path):
        raise NotFound(f"{path} does not exist")
    kept = f"{path}.hermes-agent-{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(2).hex()}"
    copy.reserve(path)  # if hermes-agent has it open, fail now and not after a long import
    ours, original = copy.inside(path), copy.inside(kept)
    for suffix in ("", *SIDE_FILES):
        if os.path.exists(ours + suffix):
            os.rename(ours + suffix, original + suffix)
    with open_for_import(path, copy) as db:
        counts = import_hermes_agent(original, db, progress)
    return counts, kept


def _store(
    db: SessionDB, session: dict[str, Any], batch: list[tuple[int, dict[str, Any], str]], counts: Imported
) -> None:
    if db.find_session(session["session_id"]) is None:
        parent = session["parent_session_id"]
        alone = {"parent_session_id": None, "kind": None} if not parent or db.find_session(parent) is None else {}
        db.create_session(**session | alone)
        counts.sessions += 1
    ids = db.append_many(session["session_id"], [as_imported(message) for _, message, _ in batch])
    counts.messages += len(ids)
    for mark, wanted in ((db.set_compacted, "compacted"), (db.set_rewound, "rewound")):
        if flagged := [new for new, (_, _, state) in zip(ids, batch, strict=True) if state == wanted]:
            mark(session["session_id"], flagged)


def _mark(session_id: str) -> str:
    return f"imported:hermes-agent:{session_id}"


NAME = "hermes-agent"
_CONFIG = "config.yaml"
_PROVIDERS = (
    *("honcho.json", "mem0.json", "supermemory.json", "hindsight", "byterover", "openviking"),
    *("retaindb.json", "retaindb_queue.db", "memory_store.db", "plugins", os.path.join("pending", "memory")),
)
# Names in a home that Hermes uses too; anything else is reported as left behind.
_OURS = frozenset(
    (
        *(*_PROVIDERS, _CONFIG, SECRETS, DATABASE, FOLDER, "skills", "SOUL.md", PROFILES, "pending", "backups"),
        *("cache", "migration", "gateway", "outbox", "shared", "users", "weights", "chat_history"),
    )
)
_PASSING = (".lock", ".queue", "-wal", "-shm", ".pid", "active_profile")  # endings of files not worth reporting


class Adoption:
    """Plans an import of hermes-agent's home; planning changes nothing."""

    def __init__(self, home: Home, options: Options, progress: Progress | None = None) -> None:
        self._home = home
        self._options = options
        self._progress = progress

    def plan(self) -> Report:
        """Lists what an import would do; NotFound if the source holds nothing of hermes-agent.

        If the source is this home itself, it is converted in place, always with a backup.
        """
        source = os.path.realpath(os.path.expanduser(str(self._options.source)))
        if not os.path.isdir(source):
            raise NotFound(
                f"there is no home at {source}; name the home of hermes-agent: `hermes import hermes-agent DIR`"
            )
        in_place = source == os.path.realpath(self._home.path)
        choices = replace(self._options, backup=True) if in_place else self._options
        shown = {"in_place": in_place, "migrate_secrets": choices.migrate_secrets}
        report = new_report(self._home, NAME, source, choices, **shown)
        for place, home in self._homes(source):
            report.items += self._in_place(home, report) if in_place else self._copied(place, home, report)
        if in_place and report.has_work():
            report.items += self._private()
        if not in_place and not report.items:
            raise NotFound(f"{source} holds no files of hermes-agent")
        report.next_steps = ["`hermes memory list`, `hermes sessions list` and `hermes config check` show the result"]
        return report

    def _homes(self, source: str) -> Iterator[tuple[str, Home]]:
        """The home and each of its profiles, with the home of ours that each is copied into."""
        yield source, self._home
        folder = os.path.join(source, PROFILES)
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
            place = os.path.join(folder, name)
            if os.path.isdir(place) and not os.path.islink(place):
                try:
                    path = profile_path(self._home.path, name)
                except SettingsError:
                    continue  # not a valid name of a profile
                yield place, Home(path=path, root=self._home.path, profile=name)

    def _in_place(self, home: Home, report: Report) -> list[Item]:
        items = []
        settings, unknown = _settings(home)
        if unknown:
            items.append(_cleaned(home, unknown, report))
        if os.path.exists(home.join(DATABASE)) and foreign_program(home.join(DATABASE)) == HERMES_AGENT:
            items.append(self._adopted(home))
        store = MemoryStore.open(home, settings=settings)
        items += [_accepted(home, settings, target) for target in store.targets if store.read(target).drift]
        return items + list(_left(home.path)) if items else []

    def _private(self) -> Iterator[Item]:
        """hermes-agent lets others read some files; Hermes makes them private."""
        home = self._home.path
        if not (count := len(readable_by_others(home))):
            return

        def act(copy: HomeCopy) -> None:
            for path in readable_by_others(copy.path):
                keep_private(path)

        reason = f"others can read {count:,} files and folders; they become private"
        yield Item(kind="privacy", source=home, destination=home, status=MIGRATED, reason=reason, last=True, act=act)

    def _adopted(self, home: Home) -> Item:
        path = home.join(DATABASE)
        item = Item(kind="sessions", source=path, destination=path, status=MIGRATED, last=True)

        def act(copy: HomeCopy) -> None:
            counts, kept = adopt_hermes_agent(path, copy, self._progress)
            item.details |= {"sessions": counts.sessions, "messages": counts.messages, "original": kept}

        item.act = act
        return item

    def _copied(self, place: str, home: Home, report: Report) -> list[Item]:
        planner = Planner(home, report, _settings(home)[0])
        items = [*_memory(place, planner), *_skills(place, planner), *_config(place, home, planner)]
        items += _secrets(place, planner)
        soul = os.path.join(place, "SOUL.md")
        if os.path.isfile(soul):
            items.append(planner.text("soul", soul, read_text(soul), "SOUL.md"))
        for name in _PROVIDERS:
            items += _provider_files(place, name, planner)
        if os.path.exists(os.path.join(place, DATABASE)):
            items.append(self._sessions(os.path.join(place, DATABASE), home))
        return items + list(_left(place))

    def _sessions(self, path: str, home: Home) -> Item:
        target = home.join(DATABASE)
        item = Item(kind="sessions", source=path, destination=target, status=MIGRATED, last=True)
        if foreign_program(path) != HERMES_AGENT:
            item.status, item.reason = ARCHIVED, "it is not a database of hermes-agent"
            return item
        if os.path.exists(target) and foreign_program(target) is not None:
            item.status = ERROR
            item.reason = "another program's database is in the home; run `hermes import hermes-agent` first"
            return item
        if os.path.exists(target):
            with SessionDB.open(target) as there:
                if not has_news(path, there):
                    item.status, item.reason = SKIPPED, "every conversation is there already"
                    return item

        def act(copy: HomeCopy) -> None:
            with open_for_import(target, copy) as db:
                counts = import_hermes_agent(path, db, self._progress)
            item.details |= {"sessions": counts.sessions, "messages": counts.messages, "known": counts.known}

        item.act = act
        return item


def _memory(place: str, planner: Planner) -> Iterator[Item]:
    for target in TARGETS:
        path = os.path.join(place, FOLDER, FILES[target])
        if os.path.isfile(path):
            try:
                yield planner.memory(target, target, path, parse(read_text(path)))
            except StorageError as error:
                yield Item(kind=target, source=path, status=ERROR, reason=str(error))


def _skills(place: str, planner: Planner) -> Iterator[Item]:
    root = os.path.join(place, "skills")
    for inside, path in files_below(root) if os.path.isdir(root) else ():
        parts = inside.split(os.sep)
        if parts[-1] == "SKILL.md" and 1 < len(parts) <= 3 and not parts[0].startswith("."):  # noqa: PLR2004
            category = parts[0] if len(parts) == 3 else ""  # noqa: PLR2004 - category, name, file
            yield planner.skill("skills", os.path.dirname(path), category, parts[-2])


def _config(place: str, home: Home, planner: Planner) -> Iterator[Item]:
    path = os.path.join(place, _CONFIG)
    if not os.path.isfile(path):
        return
    data = read_bytes(path)
    found, problems = check_text(path, data)
    for name, each in found.items():
        if name != "_config_version":
            yield planner.setting("settings", path, name, each.value)
    if problems:
        reason = f"{len(problems)} settings that Hermes does not have; the file is kept for you to look at"
        label = f"{home.profile}/{_CONFIG}" if home.profile else _CONFIG
        yield planner.archived_data("settings", path, data, label, reason)


def _secrets(place: str, planner: Planner) -> Iterator[Item]:
    path = os.path.join(place, SECRETS)
    try:
        given = read_secrets(Home(path=place, root=place)) if os.path.isfile(path) else {}
    except HermesError as error:
        yield Item(kind="secrets", source=path, status=ERROR, reason=str(error))
        return
    yield from planner.secrets(path, given, lambda _name: "secrets")


def _settings(home: Home) -> tuple[Settings, list[str]]:
    """The settings in config.yaml that Hermes has, and the problems with the others."""
    try:
        data = read_bytes(os.path.realpath(home.join(_CONFIG)))
    except FileNotFoundError:
        return Settings(home.join(_CONFIG), {}), []
    found, problems = check_text(home.join(_CONFIG), data)
    return Settings(home.join(_CONFIG), found), [problem.split(": ", 1)[-1] for problem in problems]


def _cleaned(home: Home, unknown: list[str], report: Report) -> Item:
    """Removes settings that Hermes does not have from config.yaml, after the original is archived."""
    original = read_bytes(home.join(_CONFIG))

    def act(copy: HomeCopy) -> None:
        copy.write(original, report.output_dir, "archive", home.profile or "home", _CONFIG)
        keep_known(copy.home_of(home), _CONFIG)

    item = Item(kind="settings", source=home.join(_CONFIG), destination=home.join(_CONFIG), status=MIGRATED)
    item.reason = "settings that Hermes does not have were removed; the original is in the archive"
    item.details, item.act = {"taken_out": unknown}, act
    return item


def _left(place: str) -> Iterator[Item]:
    """Reports files of hermes-agent that Hermes does not use and leaves untouched."""
    for name in sorted(set(os.listdir(place)) - _OURS):
        if not name.startswith(".") and not name.endswith(_PASSING):
            yield Item(kind="other", source=os.path.join(place, name), reason="Hermes does not use it")


def _accepted(home: Home, settings: Settings, target: str) -> Item:
    """Rewrites a memory file that is not in our format, which would otherwise refuse every write."""
    path = MemoryStore.open(home, settings=settings).path(target)
    cause = Cause(origin="import", note=f"from {NAME}")

    def act(copy: HomeCopy) -> None:
        store = MemoryStore.open(copy.home_of(home), settings=settings)
        change_memory(copy, store, target, lambda store: store.adopt(target, cause=cause))

    item = Item(kind=target, source=path, destination=path, status=MIGRATED, last=True, act=act)
    item.reason = "it was written in another format; the original is kept beside it"
    return item


def _provider_files(place: str, name: str, planner: Planner) -> Iterator[Item]:
    path = os.path.join(place, name)
    if os.path.islink(path):
        yield Item(kind="provider", source=path, reason="a link; links are not followed")
    elif os.path.isfile(path):
        yield planner.copied("provider", path, name)
    elif os.path.isdir(path):
        for inside, full in files_below(path):
            if "__pycache__" not in inside:
                yield planner.copied("provider", full, f"{name}/{inside}")
