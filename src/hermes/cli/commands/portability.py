"""`hermes export`, `import`, `claw`, `backup`, `sessions export` and `sessions import`: move data in and out."""

from __future__ import annotations

import io
import os
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hermes.base.dates import since, until
from hermes.base.errors import ForeignSettings, LockTimeout, NotFound, SettingsError, StorageError
from hermes.base.text import counted
from hermes.cli import ui
from hermes.cli.sessions import named, open_existing, settle
from hermes.compaction.messages import renumbered
from hermes.conversations.database import Pages, SessionDB
from hermes.conversations.maintenance import Maintenance
from hermes.conversations.retrieval import unmasked
from hermes.portability.archive import ENCRYPTED, ArchiveReader, Key, Lock
from hermes.portability.conversations_export import HtmlWriter, JsonlWriter, MarkdownWriter
from hermes.portability.conversations_export import export as write_conversations
from hermes.portability.conversations_import import Imported, Importer, TranscriptImport
from hermes.portability.exchange import enable
from hermes.portability.hermes_agent import Adoption, import_hermes_agent
from hermes.portability.home import (
    MergeExport,
    Selection,
    create_backup,
    export_home,
    import_home,
    list_backups,
    new_backup,
    provider_paths,
    prune_backups,
    restore_backup,
    verify_backup,
)
from hermes.portability.home import carry_out as apply
from hermes.portability.move import at_hand
from hermes.portability.openclaw import Migration, is_running, plan_cleanup
from hermes.portability.plan import Options
from hermes.portability.transcripts import JSONL, check_name, recognised, sources
from hermes.safety.secrets import mask_secrets
from hermes.settings.config import conversations_of, load_settings
from hermes.settings.home import DATABASE, named_project
from hermes.storage.local.database import HERMES_AGENT, foreign_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import BinaryIO, TextIO

    from hermes.portability.conversations_export import Writer
    from hermes.portability.home import Backup, Exported, Restored
    from hermes.portability.plan import Report
    from hermes.portability.transcripts import Source


def claw_migrate(given: ui.Given, context: ui.Context) -> int:
    """Migrates a home of OpenClaw: shows what would change, asks, and does it."""
    chosen = ui.pick(given, "source", "preset", "workspace_target", "skill_conflict")
    return carry_out(given, context, Migration(context.home, _options(given, **chosen)).plan())


def _options(given: ui.Given, **more: Any) -> Options:
    return Options(
        overwrite=given.overwrite,
        migrate_secrets=getattr(given, "migrate_secrets", False),
        backup=not given.no_backup,
        enable=given.enable,
        **more,
    )


def carry_out(given: ui.Given, context: ui.Context, report: Report) -> int:
    """Shows a plan, asks, applies it and prints the report; without a yes, nothing is changed."""
    blocked = bool(report.conflicts()) and not report.choices.overwrite
    at_once = given.yes and report.has_work() and not blocked and not given.dry_run
    if not given.json and not at_once:
        ui.line(ui.visible(report.markdown()))
    if given.dry_run or not (report.has_work() or blocked):
        return _end(given, report, "" if given.dry_run else "there is nothing to do; nothing was changed")
    if not blocked and not given.yes and not ui.confirmed("Apply these changes?"):
        return _end(given, report, "nothing was changed; --yes applies the changes", code=ui.REFUSED)
    done = apply(context.home, report)
    if not given.json and at_once:
        ui.line(ui.visible(done.markdown()))
    backup = f"; the home as it was is in {done.options['backup']}" if done.options.get("backup") else ""
    code = _end(given, done, f"done; the report is in {done.output_dir}{backup}")
    _offer(given, done.target_root, done.disabled)
    return code


def _offer(given: ui.Given, home: str, disabled: list[str]) -> None:
    """Lists imported settings that could run or connect, which are disabled, and enables them if the person agrees."""
    if not disabled or given.json:
        return
    ui.line("these were brought in, but stay disabled until you agree:")
    for each in disabled:
        ui.line(f"  {each}")
    if ui.confirmed("enable them now?"):
        enable(home)
        ui.line("enabled")
    else:
        ui.line("`hermes config enable` enables them")


def _end(given: ui.Given, report: Report, words: str, code: int = ui.OK) -> int:
    ui.show(given, report.as_json(), *filter(None, [words]))
    return code


def claw_cleanup(given: ui.Given, _context: ui.Context) -> None:
    """Moves the folders of OpenClaw aside by renaming them, after asking; warns if OpenClaw still runs."""
    moves = plan_cleanup(given.source)
    running = is_running()
    lines = [f"{old} → {new}" for old, new in moves]
    lines += [f"warning: OpenClaw is still running: {ui.visible(process)}; stop it first" for process in running]
    if not moves:
        lines.append("there are no folders of OpenClaw to move aside")
    ui.show(given, {"moves": [{"from": old, "to": new} for old, new in moves], "running": running}, *lines)
    if given.dry_run or not moves:
        return
    ui.confirm(given, "rename them?", "nothing was changed; --yes renames them")
    for old, new in moves:
        os.rename(old, new)


def _adopt(given: ui.Given, context: ui.Context) -> int:
    """Converts a home of hermes-agent, found where it usually is unless a path was given."""
    options = _options(given, source=given.path or _old_home(context))
    with ui.Progress() as progress:
        return carry_out(given, context, Adoption(context.home, options, progress.stage).plan())


def _old_home(context: ui.Context) -> str:
    """The home of hermes-agent: this one if its files are here, else the place where it usually is."""
    home = context.home
    usual = os.path.join(os.path.expanduser("~"), ".hermes")
    try:
        load_settings(home)
    except ForeignSettings:
        return home.path
    except SettingsError:
        pass  # a config.yaml of ours, with a mistake in it
    database = home.join(DATABASE)
    return home.path if os.path.exists(database) and foreign_program(database) == HERMES_AGENT else usual


_PASSPHRASE = "HERMES_PASSPHRASE"  # noqa: S105 - the name of a variable


def run_export(given: ui.Given, context: ui.Context) -> int:
    """Writes an archive with the home, or a part of it; reports damaged messages it had to leave out."""
    selection = Selection(
        person=given.person or "",
        project=named_project(given.project) if given.project else "",
        since=ui.moment_option(since, given.since),
        until=ui.moment_option(until, given.until),
        secrets=given.with_secrets,
    )
    lock = _lock(given)
    out = given.out or f"hermes-export-{time.strftime('%Y%m%d-%H%M%S')}.zip{ENCRYPTED if lock else ''}"
    with at_hand(context.home) as place, ui.Progress("exporting", unit=" records") as progress:
        done = export_home(place, out, selection, progress.update, lock=lock)
    held = f"{counted(done.files, 'file')} with {_conversations(done)}"
    lines = [f"{done.out} holds {held}; its checksums were verified"]
    secrets = " (--with-secrets includes secrets)"
    lines += [f"left out: {path}{secrets if path.endswith('.env') else ''}" for path in done.left_out or ()]
    names = ("out", "files", "sessions", "messages", "taken_back", "damaged", "left_out")
    ui.show(given, ui.pick(done, *names), *lines)
    return ui.tell_damaged(done.damaged)


def _lock(given: ui.Given) -> Lock | None:
    """How to encrypt an archive; None if that was not asked for."""
    if given.recipient:
        return Lock(recipients=given.recipient)
    return Lock(passphrase=_passphrase(twice=True)) if given.encrypt else None


def _key(given: ui.Given) -> Key:
    return Key(passphrase=_passphrase, identity=given.identity or "")


def _passphrase(*, twice: bool = False) -> str:
    """Reads the passphrase from the environment or the person, who types a new one twice."""
    if known := os.environ.get(_PASSPHRASE):
        return known
    if not sys.stdin.isatty():
        raise SettingsError(f"there is no terminal to ask for the passphrase; set {_PASSPHRASE}")
    typed = ui.ask_secret("passphrase", kept=False)
    if not typed:
        raise SettingsError("an empty passphrase protects nothing; nothing was written")
    if twice and ui.ask_secret("the same again", kept=False) != typed:
        raise SettingsError("the two passphrases differ; nothing was written")
    return typed


def _conversations(done: Exported | Restored) -> str:
    more = f" ({done.taken_back:,} more that had been undone)" if done.taken_back else ""
    return f"{counted(done.sessions, 'session')} and {counted(done.messages, 'message')}{more}"


def run_import(given: ui.Given, context: ui.Context) -> int:
    """Imports an archive as a whole home or with `--merge` into this one, or adopts a home of hermes-agent."""
    if given.source == HERMES_AGENT:
        return _adopt(given, context)
    if given.path is not None:
        raise SettingsError(f"only `hermes import {HERMES_AGENT}` takes a second word; name one archive")
    if not os.path.exists(given.source):
        raise NotFound(f"there is no archive {given.source}; name an export, or {HERMES_AGENT}")
    if not ArchiveReader.is_archive(given.source):
        raise SettingsError(
            f"{given.source} is not an export of Hermes; conversations of other programs come in with "
            "`hermes sessions import`, their memory with `hermes memory import`"
        )
    if given.merge:
        with ArchiveReader.open(given.source, _key(given)) as reader:
            return carry_out(given, context, MergeExport(context.home, reader, _options(given)).plan())
    how = {"replace": given.replace, "enable": given.enable, "key": _key(given)}
    with ui.Progress("importing", unit=" records") as progress:
        done = import_home(given.source, context.home.path, progress=progress.update, **how)
    lines = [f"{context.home.path} now holds {counted(done.files, 'file')} with {_conversations(done)}"]
    _show_restored(given, context, done, lines, "sessions", "messages", "taken_back")
    return ui.OK


def _show_restored(given: ui.Given, context: ui.Context, done: Any, lines: list[str], *names: str) -> None:
    """Prints what an import or a restore did, and offers to enable what it brought in disabled."""
    if not done.changed:
        lines = [f"{context.home.path} holds exactly this already; nothing was changed"]
    elif done.kept:
        lines.insert(1, f"the home that was there is kept as {done.kept}")
    ui.show(given, ui.pick(done, "changed", "files", "kept", "disabled", *names), *lines)
    _offer(given, context.home.path, done.disabled)


def backup_create(given: ui.Given, context: ui.Context) -> None:
    """Makes a backup and verifies it; with `--keep`, removes older ones afterwards."""
    home = context.home
    elsewhere, problem = provider_paths(home)
    lock = _lock(given)
    with at_hand(home) as place:
        out = given.out or (new_backup(home.path, lock) if place != home.path else None)
        backup = create_backup(place, out, why=given.why, elsewhere=elsewhere, lock=lock)
    removed = prune_backups(home.path, given.keep) if given.keep else []
    held = f"{counted(backup.files, 'file')} ({ui.bytes_in_words(backup.bytes)})"
    lines = [f"{backup.path} holds {held}; every checksum was verified"]
    lines += [f"with what the provider keeps at {path}" for path in backup.provider_paths]
    lines += [f"left out: {path} (not a regular file)" for path in backup.left_out]
    lines += [f"removed the older {path}" for path in removed]
    lines += [f"note: {problem}"] if problem else []
    ui.show(given, {**_as_json(backup), "removed": removed, "problem": problem}, *lines)


def backup_list(given: ui.Given, context: ui.Context) -> None:
    """Lists the backups in the home with date, size and reason, the newest first."""
    found = list_backups(context.home.path)
    lines = []
    for backup in found:
        note = f"  {backup.problem or backup.why}" if backup.problem or backup.why else ""
        lines.append(f"{ui.when(backup.made_at)}  {ui.bytes_in_words(backup.bytes):>10}  {backup.path}{note}")
    none = "there are no backups yet; `hermes backup create` makes one"
    ui.show(given, [_as_json(backup) for backup in found], *(lines or [none]))


def backup_verify(given: ui.Given, context: ui.Context) -> None:
    """Checks every checksum of a backup, by default of the newest."""
    path = _named(given.file, context)
    count = verify_backup(path, _key(given))
    line = f"{path} is whole: {counted(count, 'file')}, every checksum matches"
    ui.show(given, {"path": path, "files": count, "sound": True}, line)


def backup_restore(given: ui.Given, context: ui.Context) -> None:
    """Replaces the home by a backup, after asking; the current home is kept next to it."""
    path, home = _named(given.file, context), context.home.path
    if os.path.isdir(home):
        otherwise = "nothing was changed; --yes restores without asking (the present home is kept beside it)"
        ui.confirm(given, f"replace {home} by {path}?", otherwise)
    done = restore_backup(path, home, enable=given.enable, key=_key(given))
    lines = [f"{home} is restored: {counted(done.files, 'file')}", *done.beside]
    _show_restored(given, context, done, lines, "beside")


def _named(given: str | None, context: ui.Context) -> str:
    """The path of the backup that was named, by path or file name; without a name, of the newest."""
    found = [backup for backup in list_backups(context.home.path) if not backup.problem]
    if given is None:
        if not found:
            raise NotFound("there are no backups in this home; name a file")
        return found[0].path
    if os.path.exists(given):
        return given
    inside = [backup.path for backup in found if os.path.basename(backup.path) == given]
    if not inside:
        raise NotFound(f"there is no backup {given}; `hermes backup list` shows those of this home")
    return inside[0]


def _as_json(backup: Backup) -> dict[str, Any]:
    names = ("path", "made_at", "bytes", "files", "why", "left_out", "provider_paths")
    return {**ui.pick(backup, *names), "unreadable": backup.problem or None}


def sessions_export(given: ui.Given, context: ui.Context) -> int:
    """Writes conversations as JSONL, Markdown or HTML; secrets are masked unless asked for."""
    if bool(given.sessions) == given.all:
        raise SettingsError("name the conversations to export, or use --all")
    mask = unmasked if given.with_secrets else mask_secrets
    with open_existing(context) as db:
        parts = [part for name in given.sessions for part in db.lineage(named(db, name).id)]
        chosen = list(Pages.of_db(db).sessions() if given.all else {part.key: part for part in parts}.values())
        total = sum(session.message_count for session in chosen)
        with _output(given.out, replace=given.force) as file, ui.Progress("exporting", total) as progress:
            makers: dict[str, Callable[[], Writer]] = {
                "jsonl": lambda: JsonlWriter(db, file.write, mask),
                "markdown": lambda: MarkdownWriter(file.write, mask),
                "html": lambda: HtmlWriter(file.write, mask),
            }
            done = write_conversations(db, chosen, makers[given.format](), progress.update)
    if given.out:
        held = f"{counted(done.sessions, 'session')} with {counted(done.messages, 'message')}"
        print(f"{given.out} holds {held}", file=sys.stderr)
    return ui.tell_damaged(done.damaged)


@contextmanager
def _output(path: str | None, *, replace: bool) -> Iterator[TextIO]:
    """Opens standard output, or a private file that gets its name only once it is complete."""
    if path is None:
        # Exports are UTF-8 whatever the terminal's encoding is, so that they can be imported again.
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


_DAY = 86_400  # seconds


_OTHER_IMPORT = 10  # seconds to wait for it
_MANY = 10_000  # an import of so many messages merges the index at its end


def sessions_import(given: ui.Given, context: ui.Context) -> int:
    """Imports conversations of other programs, once or again and again."""
    if not 0 < given.interval <= _DAY:
        raise SettingsError(f"--interval {given.interval:g}: expected seconds, more than 0 and at most a day")
    form = given.format or _format_of(given.file)
    if given.watch:
        _watch(given, context)
    elif form == JSONL:
        return _import_lines(given, context)
    else:
        return _report(given, _bring_in(given, context, form))
    return ui.OK


def _format_of(path: str) -> str | None:
    """The format of a single file; an unknown one counts as JSONL, whose reader says what is wrong."""
    if path == "-":
        return JSONL
    real = os.path.realpath(path)
    if not os.path.isfile(real):
        return None
    return recognised(real) or (None if path.endswith((".json", ".zip", ".db", ".sqlite", ".af")) else JSONL)


def _bring_in(given: ui.Given, context: ui.Context, form: str | None) -> Imported:
    """Imports every transcript in a source, except what is already stored."""
    found = sources(given.file, form)
    if not found:
        raise NotFound(f"there are no transcripts that can be read in {given.file}; --format names what they are")
    size, project = sum(source.size() for source in found), named_project(given.project) if given.project else None
    try:
        with (
            _importing(context) as db,
            ui.Progress("importing", size, unit=" bytes") as progress,
        ):
            work = TranscriptImport(db, project=project, on_bytes=progress.update)
            for source in found:
                _take(db, work, source, progress)
            return work.finish()
    except KeyboardInterrupt:
        ui.problem("stopped; the same command continues from here")
        raise


def _take(db: SessionDB, work: TranscriptImport, source: Source, progress: ui.Progress) -> None:
    """Imports one file with the reader for its format."""
    if source.format == HERMES_AGENT:
        counts = import_hermes_agent(source.path, db, progress.stage)
        work.result.files += 1
        work.result.sessions += counts.sessions
        work.result.messages += counts.messages
    elif source.format == JSONL:
        with _input(source.path) as (file, _):
            title = os.path.splitext(os.path.basename(source.path))[0]
            lines = Importer(db, title=title, renumbered=renumbered).read(file)
        work.result.files += 1
        work.result.sessions += lines.sessions
        work.result.messages += lines.messages
        work.result.already_there += lines.already_there
        work.result.bad += lines.bad
        work.result.problems += [f"{os.path.basename(source.path)}: {text}" for text in lines.problems]
    else:
        work.take(source)


@contextmanager
def _importing(context: ui.Context) -> Iterator[SessionDB]:
    """Opens the conversations for one import at a time. What came in before it fails or is stopped stays."""
    with SessionDB.open(**conversations_of(context.home), durability="turn") as db, db.importing(_OTHER_IMPORT):
        before = db.counts()["messages"]
        try:
            yield db
        except StorageError as error:
            raise StorageError(f"{error}; remove the cause, and the same command continues the import") from error
        _settle_index(db, many=db.counts()["messages"] - before >= _MANY)


def _settle_index(db: SessionDB, *, many: bool) -> None:
    """Indexes waiting messages, and merges the index after many: a search has to look into each of its pieces."""
    try:
        db.index()
        if many:
            settle(Maintenance.of_db(db))
    except StorageError as error:
        ui.problem(f"everything is imported, but its index is not ready ({error}); run `hermes sessions optimize`")


def _watch(given: ui.Given, context: ui.Context) -> None:
    """Imports again and again, and reports what is new, until the person stops it.

    A name that does not exist at the start is an error, because it is probably mistyped; later a file may come and go.
    """
    check_name(given.file)
    ui.line(f"watching {given.file}; Ctrl-C ends it")
    told: set[str] = set()
    try:
        while True:
            _look_once(given, context, told)
            sys.stdout.flush()
            time.sleep(given.interval)
    except KeyboardInterrupt:
        return


def _look_once(given: ui.Given, context: ui.Context, told: set[str]) -> None:
    """Imports what is new; reports each problem only the first time it is seen."""
    try:
        found = _bring_in(given, context, given.format)
    except (NotFound, LockTimeout) as error:  # nothing there, or another program is writing: try again later
        found = Imported(problems=[str(error)])
    for problem in found.problems:
        if problem not in told:
            ui.problem(problem)
    told.update(found.problems)
    if found.messages:
        ui.line(f"{counted(found.messages, 'new message')}, {counted(found.sessions, 'new session')}")


def _tell_problems(result: Imported) -> None:
    for problem in result.problems:
        ui.problem(problem)
    if result.bad > len(result.problems):
        ui.problem(f"and {result.bad - len(result.problems):,} more lines could not be read")


def _report(given: ui.Given, result: Imported) -> int:
    _tell_problems(result)
    unchanged = f"{counted(result.unchanged, 'file')} had not changed"
    line = f"imported {_amounts(result)} from {counted(result.files, 'file')}; {_there(result)}, {unchanged}"
    names = ("files", "unchanged", "sessions", "messages", "already_there", "bad", "problems")
    ui.show(given, ui.pick(result, *names), line)
    return ui.REFUSED if result.bad else ui.OK


def _import_lines(given: ui.Given, context: ui.Context) -> int:
    """Imports JSONL and reports each line that cannot be read; the other lines are imported."""
    title = None if given.file == "-" else os.path.splitext(os.path.basename(given.file))[0]
    with (
        _input(given.file) as (file, size),
        ui.Progress("importing", size, unit=" bytes") as progress,
        _importing(context) as db,
    ):
        importer = Importer(db, source=given.source, title=title, on_bytes=progress.update, renumbered=renumbered)
        result = importer.read(file)
    _tell_problems(result)
    counts = {**ui.pick(result, "sessions", "messages", "already_there"), "bad_lines": result.bad}
    ui.show(given, {**counts, "problems": importer.bad_lines}, f"imported {_amounts(result)}; {_there(result)}")
    return ui.REFUSED if result.bad else ui.OK


def _amounts(result: Any) -> str:
    return f"{counted(result.sessions, 'session')} with {counted(result.messages, 'message')}"


def _there(result: Any) -> str:
    return f"{result.already_there:,} messages were there already"


@contextmanager
def _input(path: str) -> Iterator[tuple[BinaryIO, int]]:
    if path == "-":
        yield sys.stdin.buffer, 0  # nobody knows how much will come
        return
    try:
        with open(path, "rb") as file:
            yield file, os.fstat(file.fileno()).st_size
    except FileNotFoundError as error:
        raise NotFound(f"there is no file {path}") from error
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}") from error
