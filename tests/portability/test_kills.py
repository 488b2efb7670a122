"""Migrations that are killed: whoever uses the home next finds it as it was or as migrated."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import apsw
import openclaw_home
import pytest
from homes import furnish, tree
from killing import AT_THE_END, killed

from hermes.base.errors import DamagedFile, LockTimeout, StorageError
from hermes.conversations.database import SessionDB
from hermes.memory.entries import Cause
from hermes.memory.store import MemoryStore
from hermes.portability import exchange
from hermes.portability.archive import merged
from hermes.portability.exchange import HomeCopy
from hermes.portability.home import import_home
from hermes.settings.home import find_home
from soak.common import Options
from soak.migration import run_scene, state_of
from soak.migration_scenes import SCENES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran
    from soak.migration_scenes import Scene

    Command = Callable[..., Ran]


@pytest.mark.proves("migration.kills", "claw.whole", "adopt.whole", "export.killed", "migration.resumed")
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_killed_at_any_step_the_home_is_as_it_was_or_as_migrated(scene: Scene, tmp_path: Path) -> None:
    outcome = run_scene(scene, 3, Options(folder=str(tmp_path), seed=4, quiet=True))
    assert outcome.failures == []
    assert outcome.figures["kills"] == 3


@pytest.mark.proves("migration.kills", "claw.workspace")
def test_a_file_in_the_workspace_is_written_last_and_by_the_next_run_after_a_kill(
    home: Path, hermes: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    work = tmp_path / "work"
    work.mkdir()
    (work / "AGENTS.md").write_text("# Mine\n", encoding="utf-8")
    claw = openclaw_home.build(tmp_path / "claw")
    words = ("claw", "migrate", "--yes", "--overwrite", "--source", str(claw), "--workspace-target", str(work))
    killed(home, AT_THE_END, *words)
    assert not (home / "SOUL.md").exists()
    patch = "from hermes.portability import plan\nplan._replace_outside = lambda *given: os._exit(9)"
    killed(home, patch, *words)
    assert (home / "SOUL.md").exists()
    assert os.listdir(work) == ["AGENTS.md"]
    assert (work / "AGENTS.md").read_text(encoding="utf-8") == "# Mine\n"
    assert hermes(*words).code == 0
    assert (work / "AGENTS.md.before-openclaw").read_text(encoding="utf-8") == "# Mine\n"
    assert (work / "AGENTS.md").read_text(encoding="utf-8") != "# Mine\n"


def migrating(home: Path, meanwhile: Callable[[HomeCopy], object]) -> None:
    """A migration that adds to memory and writes SOUL.md while somebody does something else."""
    with HomeCopy(str(home)) as copy:
        copy.write(b"new\n", "SOUL.md")
        MemoryStore.open(copy.home_of(find_home(home))).add("memory", "Imported.", cause=Cause(origin="import"))
        meanwhile(copy)
        copy.swap()


@pytest.mark.proves("migration.others-stay")
def test_what_somebody_writes_meanwhile_stops_the_migration_where_both_write(home: Path) -> None:
    store = MemoryStore.open(home)
    store.add("memory", "Mine.", cause=Cause(origin="user"))
    with pytest.raises(StorageError, match=r"MEMORY\.md.* was changed by another program during the migration"):
        migrating(home, lambda _: store.add("memory", "Said meanwhile.", cause=Cause(origin="user")))
    assert MemoryStore.open(home).entries("memory") == ("Mine.", "Said meanwhile.")
    assert not (home / "SOUL.md").exists()
    assert os.listdir(home.parent) == ["home"]


@pytest.mark.proves("migration.others-stay", "migration.live")
def test_what_somebody_writes_meanwhile_elsewhere_comes_along(home: Path) -> None:
    store = MemoryStore.open(home)
    store.add("memory", "Mine.", cause=Cause(origin="user"))
    (home / "old.txt").write_text("old", encoding="utf-8")
    (home / "gone.txt").write_text("gone", encoding="utf-8")
    with SessionDB.open(home / "state.db") as db:
        session = db.create_session(title="Open all the time")
        db.append(session, {"role": "user", "content": "before"})

        def meanwhile(_: HomeCopy) -> None:
            db.append(session, {"role": "user", "content": "meanwhile"})
            (home / "new" / "folder").mkdir(parents=True)
            (home / "new" / "folder" / "file").write_text("new", encoding="utf-8")
            (home / "old.txt.tmp").write_text("newer", encoding="utf-8")
            (home / "old.txt.tmp").rename(home / "old.txt")
            (home / "gone.txt").unlink()
            store.add("user", "Likes tea.", cause=Cause(origin="user"))

        migrating(home, meanwhile)
        db.append(session, {"role": "user", "content": "after"})
    with SessionDB.open(home / "state.db") as db:
        assert [message.text for message in db.messages(session)] == ["before", "meanwhile", "after"]
    store.add("memory", "By a store that was open all the time.", cause=Cause(origin="user"))
    again = MemoryStore.open(home)
    assert again.entries("memory") == ("Mine.", "Imported.", "By a store that was open all the time.")
    assert again.entries("user") == ("Likes tea.",)
    assert (home / "new" / "folder" / "file").read_text(encoding="utf-8") == "new"
    assert (home / "old.txt").read_text(encoding="utf-8") == "newer"
    assert not (home / "gone.txt").exists()
    assert os.listdir(home.parent) == ["home"]


@pytest.mark.proves("migration.others-stay")
def test_a_database_that_a_migration_changes_must_not_change_meanwhile(home: Path) -> None:
    with SessionDB.open(home / "state.db") as db:
        db.create_session(title="Mine")
    with HomeCopy(str(home)) as copy:
        with SessionDB.open(copy.own_database(str(home / "state.db"))) as db:
            db.create_session(title="Imported")
        with SessionDB.open(home / "state.db") as db:
            db.create_session(title="Meanwhile")
        with pytest.raises(StorageError, match=r"state\.db was changed by another program during the migration"):
            copy.swap()
    with SessionDB.open(home / "state.db") as db:
        assert {session.title for session in db.list_sessions()} == {"Mine", "Meanwhile"}


@pytest.mark.proves("migration.live")
def test_two_migrations_of_one_home_do_not_meet(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "_LOCK_TIMEOUT", 0.1)
    with (
        HomeCopy(str(home)),
        pytest.raises(LockTimeout, match=f"another migration of .* is running.*process {os.getpid()}"),
    ):
        HomeCopy(str(home)).__enter__()
    assert MemoryStore.open(home).entries("memory") == ()


@pytest.mark.proves("migration.kills")
def test_without_links_everything_is_copied(home: Path, hermes: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: Any, **more: Any) -> None:
        raise PermissionError(errno.EPERM, "no links here")

    furnish(home, small=True)
    before = state_of(home)
    monkeypatch.setattr(os, "link", refuse)
    with HomeCopy(str(home)) as copy:
        copy.swap()
    assert state_of(home) == before
    assert hermes("doctor", "--offline").code == 0


@pytest.mark.proves("migration.kills")
def test_a_home_that_version_0_1_left_half_migrated_is_refused_and_the_backup_named(
    home: Path, hermes: Command
) -> None:
    hermes("memory", "add", "Mine.")
    hermes("backup", "create")
    (home / ".migrating").mkdir()
    assert hermes("memory", "list").code == 0
    (home / ".migrating" / "changes.jsonl").write_text("{}\n", encoding="utf-8")
    refused = hermes("memory", "list")
    (backup,) = (home / "backups").iterdir()
    assert refused.code == 1
    assert "Hermes 0.1" in refused.err
    assert str(backup) in refused.err


@pytest.mark.proves("migration.kills")
@pytest.mark.parametrize("moved", ["home", "home.arriving-"], ids=["the old one", "the new one"])
def test_a_home_that_two_renames_put_in_place_is_never_missing(
    moved: str, home: Path, hermes: Command, tmp_path: Path
) -> None:
    """Where names cannot be exchanged in one step: killed right after the first of them, and after the second."""
    furnish(home, small=True)
    hermes("export", str(tmp_path / "x.zip"))
    hermes("memory", "add", "Newer.")
    newer = tree(home)["memories/MEMORY.md"]
    patch = (
        "from hermes.storage.files import Folder\nFolder.exchange = lambda *given: False\nreal = Folder.rename\n"
        "def rename(self, old, new):\n    real(self, old, new)\n"
        f"    if old.startswith({moved!r}) and (old == 'home' or new == 'home'): os._exit(9)\nFolder.rename = rename"
    )
    killed(home, patch, "import", str(tmp_path / "x.zip"), "--replace")
    assert home.exists() == (moved != "home")
    assert "Fact one" in hermes("memory", "list").out
    assert "Newer." not in hermes("memory", "list").out
    assert not [name for name in os.listdir(home.parent) if "arriving" in name]
    (kept,) = (name for name in os.listdir(home.parent) if ".before-" in name)
    assert tree(home.parent / kept)["memories/MEMORY.md"] == newer


@pytest.mark.proves("export.not-empty", "migration.kills")
def test_the_old_home_is_kept_whenever_the_new_one_has_come(home: Path, tmp_path: Path, hermes: Command) -> None:
    furnish(home, small=True)
    hermes("export", str(tmp_path / "x.zip"))
    hermes("backup", "create")
    hermes("memory", "add", "Newer.")
    before = tree(home)
    patch = "from hermes.portability.exchange import NewHome\nNewHome._unmark = lambda home: os._exit(9)"
    patch = patch.replace("NewHome._unmark =", "real = NewHome._unmark; count = []\nNewHome._unmark =").replace(
        "lambda home: os._exit(9)", "staticmethod(lambda home: count.append(1) or len(count) < 2 or os._exit(9))"
    )
    killed(home, patch, "import", str(tmp_path / "x.zip"), "--replace")
    assert "Newer." not in hermes("memory", "list").out
    assert len(hermes("backup", "list", "--json").json) == 1
    (home / "SOUL.md").write_text("another", encoding="utf-8")
    assert import_home(str(tmp_path / "x.zip"), str(home), replace=True).changed
    kept = [home.parent / name for name in os.listdir(home.parent) if ".before-" in name]
    assert len(kept) == 2
    assert before["memories/MEMORY.md"] in [tree(each)["memories/MEMORY.md"] for each in kept]


@pytest.mark.proves("migration.foreign-log")
def test_a_foreign_database_with_a_long_log_takes_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    code = (
        "import os, sys, apsw\nc = apsw.Connection(sys.argv[1])\nc.pragma('journal_mode', 'WAL')\n"
        "c.pragma('wal_autocheckpoint', 0)\n"
        'c.execute(\'CREATE TABLE sessions (id TEXT, source TEXT); INSERT INTO sessions VALUES ("a", "cli");'
        " CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content TEXT)')\n"
        "with c:\n    for n in range(6000):\n"
        "        c.execute('INSERT INTO messages VALUES (NULL, \"a\", \"user\", ?)', ('x' * 10000,))\nos._exit(0)"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)
    assert (tmp_path / "state.db-wal").stat().st_size > 60_000_000
    before = {name: (tmp_path / name).stat().st_mtime_ns for name in os.listdir(tmp_path)}
    read = (
        "import resource, sys\nfrom hermes.portability.hermes_agent import HermesAgentFile\n"
        "start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "with HermesAgentFile.open(sys.argv[1]) as file: count = file.count()\n"
        "print(count, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - start)"
    )
    ran = subprocess.run([sys.executable, "-c", read, str(path)], check=True, capture_output=True, text=True)
    count, grown = map(int, ran.stdout.split())
    assert count == 6000
    assert grown < 20_000  # kilobytes
    assert {name: (tmp_path / name).stat().st_mtime_ns for name in os.listdir(tmp_path)} == before


@pytest.mark.proves("migration.foreign-log")
def test_a_foreign_database_that_is_written_all_the_time_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    path.write_bytes(b"x" * 4096)
    (tmp_path / "state.db-wal").write_bytes(b"x")
    (tmp_path / "scratch").mkdir()
    writing = True

    def write_meanwhile(event: str, given: tuple[object, ...]) -> None:
        if writing and event == "open" and given[0] == f"{path}-wal":  # the file itself has been copied by then
            os.utime(path)

    sys.addaudithook(write_meanwhile)
    with pytest.raises(StorageError, match="keeps changing while it is copied"):
        merged(str(path), str(tmp_path / "scratch"))
    writing = False
    with pytest.raises(DamagedFile, match="cannot be read with its log"):
        merged(str(path), str(tmp_path / "scratch"))


@pytest.mark.proves("migration.foreign-log", "migration.hostile-transcripts")
@pytest.mark.parametrize("kind", ["link", "pipe", "rubbish"])
def test_a_hostile_log_is_refused_or_ignored(kind: str, hermes: Command, tmp_path: Path) -> None:
    path = tmp_path / "past" / "state.db"
    path.parent.mkdir()
    connection = apsw.Connection(str(path))
    connection.execute(
        "CREATE TABLE sessions (id TEXT); CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT)"
    )
    connection.close()
    (tmp_path / "secret").write_text("PRIVATE", encoding="utf-8")
    log = path.parent / "state.db-wal"
    if kind == "link":
        log.symlink_to(tmp_path / "secret")
    elif kind == "pipe":
        os.mkfifo(log)
    else:
        log.write_bytes(os.urandom(70_000))
    ran = hermes("sessions", "import", str(path), "--format", "hermes-agent", "--json")
    assert (ran.code, json.loads(ran.out or "{}").get("messages", 0)) in ((1, 0), (0, 0))
    assert (ran.code == 1) == (kind in ("link", "pipe")), ran.err
    assert (tmp_path / "secret").read_text(encoding="utf-8") == "PRIVATE"
