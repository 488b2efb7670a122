"""`hermes export`, `import`, `claw` and `backup`: a home moves in and out; previews come first."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any

from hermes.base.dates import since, until
from hermes.base.errors import ForeignSettings, NotFound, SettingsError
from hermes.base.text import counted
from hermes.cli import ui
from hermes.portability.archive import ENCRYPTED, ArchiveReader, Key, Lock
from hermes.portability.exchange import enable
from hermes.portability.hermes_agent import Adoption
from hermes.portability.home import (
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
from hermes.portability.merge import MergeExport
from hermes.portability.move import at_hand
from hermes.portability.openclaw import Migration, is_running, left_in, plan_cleanup
from hermes.portability.plan import Options
from hermes.portability.plan import carry_out as apply
from hermes.settings.config import load_settings
from hermes.settings.home import DATABASE, named_project
from hermes.storage.local.database import HERMES_AGENT as PROGRAM
from hermes.storage.local.database import foreign_program

if TYPE_CHECKING:
    from hermes.portability.home import Backup, Exported, Restored
    from hermes.portability.plan import Report


def claw_migrate(given: ui.Given, context: ui.Context) -> int:
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
    """Shows the preview, asks, does the work and reports it. Without a yes, nothing is done."""
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
    """Lists what came along, could act and is disabled, and enables it when the person says so."""
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
    moves = plan_cleanup(given.source)
    running = is_running()
    lines = []
    for old, new in moves:
        lines += [f"{old} → {new}", *(f"  holds {ui.visible(path)}" for path in left_in(old))]
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
    options = _options(given, source=given.path or _old_home(context))
    with ui.Progress() as progress:
        return carry_out(given, context, Adoption(context.home, options, progress.stage).plan())


def _old_home(context: ui.Context) -> str:
    """Where hermes-agent lived: in this home when its files are still here, else in its usual place."""
    home = context.home
    usual = os.path.join(os.path.expanduser("~"), ".hermes")
    try:
        load_settings(home)
    except ForeignSettings:
        return home.path
    except SettingsError:
        pass  # ours, with a mistake in it
    database = home.join(DATABASE)
    return home.path if os.path.exists(database) and foreign_program(database) == PROGRAM else usual


HERMES_AGENT = "hermes-agent"
_PASSPHRASE = "HERMES_PASSPHRASE"  # noqa: S105 - the name of a variable


def run_export(given: ui.Given, context: ui.Context) -> int:
    selection = Selection(
        person=given.person or "",
        project=named_project(given.project) if given.project else "",
        since=ui.moment_option(since, given.since),
        until=ui.moment_option(until, given.until),
        secrets=given.with_secrets,
        reading=not given.no_reading,
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
    """What to encrypt with, if that was asked for."""
    if given.recipient:
        return Lock(recipients=given.recipient)
    return Lock(passphrase=_passphrase(twice=True)) if given.encrypt else None


def _key(given: ui.Given) -> Key:
    return Key(passphrase=_passphrase, identity=given.identity or "")


def _passphrase(*, twice: bool = False) -> str:
    """From the environment, else typed by a person; a new one twice."""
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
    if not done.changed:
        lines = [f"{context.home.path} holds exactly this already; nothing was changed"]
    elif done.kept:
        lines.insert(1, f"the home that was there is kept as {done.kept}")
    ui.show(given, ui.pick(done, "changed", "files", "kept", "disabled", *names), *lines)
    _offer(given, context.home.path, done.disabled)


def backup_create(given: ui.Given, context: ui.Context) -> None:
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
    found = list_backups(context.home.path)
    lines = []
    for backup in found:
        note = f"  {backup.problem or backup.why}" if backup.problem or backup.why else ""
        lines.append(f"{ui.when(backup.made_at)}  {ui.bytes_in_words(backup.bytes):>10}  {backup.path}{note}")
    none = "there are no backups yet; `hermes backup create` makes one"
    ui.show(given, [_as_json(backup) for backup in found], *(lines or [none]))


def backup_verify(given: ui.Given, context: ui.Context) -> None:
    path = _named(given.file, context)
    count = verify_backup(path, _key(given))
    line = f"{path} is whole: {counted(count, 'file')}, every checksum matches"
    ui.show(given, {"path": path, "files": count, "sound": True}, line)


def backup_restore(given: ui.Given, context: ui.Context) -> None:
    path, home = _named(given.file, context), context.home.path
    if os.path.isdir(home):
        otherwise = "nothing was changed; --yes restores without asking (the present home is kept beside it)"
        ui.confirm(given, f"replace {home} by {path}?", otherwise)
    done = restore_backup(path, home, enable=given.enable, key=_key(given))
    lines = [f"{home} is restored: {counted(done.files, 'file')}", *done.beside]
    _show_restored(given, context, done, lines, "beside")


def _named(given: str | None, context: ui.Context) -> str:
    """The file that was named, also by its bare name; the newest backup when none was."""
    found = [backup for backup in list_backups(context.home.path) if not backup.problem]
    if given is None:
        if not found:
            raise NotFound("there are no backups in this home; name a file")
        return found[0].path
    if os.path.exists(given):
        return given
    inside = [backup.path for backup in found if os.path.basename(backup.path) == given]
    if not inside:
        raise SettingsError(f"there is no backup {given}; `hermes backup list` shows those of this home")
    return inside[0]


def _as_json(backup: Backup) -> dict[str, Any]:
    names = ("path", "made_at", "bytes", "files", "why", "left_out", "provider_paths")
    return {**ui.pick(backup, *names), "unreadable": backup.problem or None}
