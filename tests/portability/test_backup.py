"""`hermes backup`: one consistent archive of a live home, and the way back."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest
from homes import furnish, tree
from killing import killed

from hermes.base.errors import HermesError
from hermes.conversations.database import SessionDB
from hermes.memory.entries import Cause
from hermes.memory.store import MemoryStore
from hermes.portability.home import create_backup, restore_backup

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran

    Command = Callable[..., Ran]


@pytest.mark.proves("backup.restore", "backup.left-out")
def test_a_backup_restores_the_home_byte_for_byte(home: Path, hermes: Command) -> None:
    furnish(home)
    made = hermes("backup", "create", "--why", "before the storm", "--json").json
    before = _content(home)
    hermes("memory", "add", "Written after the backup.")
    (home / "SOUL.md").unlink()
    ran = hermes("backup", "restore", "--yes", "--json").json
    assert ran["changed"]
    assert _content(home) == before
    assert b"Written after the backup." in (home.parent / ran["kept"] / "memories" / "MEMORY.md").read_bytes()
    assert os.path.exists(made["path"])
    assert not (home / "models").exists()
    assert hermes("backup", "restore", made["path"], "--yes", "--json").json["changed"] is False
    assert hermes("sessions", "search", "deploy").code == 0


def _content(home: Path) -> dict[str, bytes]:
    skipped = (
        "logs/",
        "models/",
        "image_cache/",
        "backups/",
        "state.db",
        "users/ada/state.db",
        "profiles/office/state.db",
    )
    hidden = ("/.MEMORY.md.", "/.USER.md.")
    return {
        name: data
        for name, data in tree(home).items()
        if not name.startswith(skipped) and not name.endswith(".db") and not any(mark in f"/{name}" for mark in hidden)
    }


@pytest.mark.proves("backup.list", "migration.kills")
def test_half_a_backup_of_a_killed_writer_is_cleared_away(home: Path, hermes: Command) -> None:
    furnish(home, small=True)
    half = "from hermes.portability.archive import ArchiveWriter\nArchiveWriter._complete = lambda self: os._exit(9)"
    killed(home, half, "backup", "create")
    running = home / "backups" / f"hermes-x.zip.part-{os.getpid()}-abcdef"
    running.write_bytes(b"being written")
    assert len(os.listdir(home / "backups")) == 2
    assert hermes("backup", "create").code == 0
    assert len(hermes("backup", "list", "--json").json) == 1
    assert len(os.listdir(home / "backups")) == 2
    assert running.exists()


@pytest.mark.proves("backup.live")
def test_a_backup_of_a_home_in_use_is_consistent(home: Path, tmp_path: Path) -> None:
    furnish(home, small=True)
    stop = threading.Event()
    written: list[str] = []

    def write() -> None:
        store = MemoryStore.open(home)
        with SessionDB.open(home / "state.db", durability="turn") as db:
            session = db.create_session(title="Busy")
            while not stop.is_set():
                number = len(written)
                db.append_many(session, [{"role": "user", "content": f"busy {number} {n}"} for n in range(10)])
                store.replace("user", "Likes", f"Likes number {number}.", cause=Cause(origin="user"))
                written.append("x")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(3):
            create_backup(str(home), str(tmp_path / f"{number}.zip"))
    finally:
        stop.set()
        writer.join()
    for number in range(3):
        restore_backup(str(tmp_path / f"{number}.zip"), str(tmp_path / f"home{number}"))
        with SessionDB.open(tmp_path / f"home{number}" / "state.db") as db:
            session = db.resolve("Busy")
            assert session is None or len(db.messages(session.id)) % 10 == 0
        store = MemoryStore.open(tmp_path / f"home{number}")
        history, damaged = store.history("user")
        assert damaged == 0
        assert history[-1].added() == list(store.entries("user"))


@pytest.mark.proves("backup.list")
def test_backups_are_listed_verified_and_pruned(home: Path, hermes: Command, tmp_path: Path) -> None:
    assert "no backups yet" in hermes("backup", "list").out
    assert hermes("backup", "verify").code == 1
    furnish(home, small=True)
    paths = [hermes("backup", "create", "--why", str(number), "--json").json["path"] for number in range(3)]
    assert [backup["why"] for backup in hermes("backup", "list", "--json").json] == ["2", "1", "0"]
    assert hermes("backup", "verify", os.path.basename(paths[0])).code == 0
    unknown = hermes("backup", "verify", "unknown.zip")
    assert (unknown.code, "`hermes backup list`" in unknown.err) == (1, True)
    data = bytearray((home / "backups" / os.path.basename(paths[0])).read_bytes())
    data[len(data) // 2] ^= 0xFF
    (home / "backups" / os.path.basename(paths[0])).write_bytes(data)
    assert hermes("backup", "verify", paths[0]).code == 1
    (home / "backups" / "broken.zip").write_bytes(b"not a zip")
    assert "not a whole zip" in hermes("backup", "list").out
    kept = hermes("backup", "create", "--keep", "1", "--json").json
    assert len(kept["removed"]) == 3
    outside = hermes("backup", "create", "--out", str(tmp_path / "mine.zip"))
    assert (outside.code, (tmp_path / "mine.zip").stat().st_mode & 0o077) == (0, 0)
    assert hermes("backup", "create", "--out", str(tmp_path / "mine.zip")).code == 1
    assert hermes("backup", "restore", "no-such.zip").code == 1  # not found, like everywhere
    before = tree(home)
    asked = hermes("backup", "restore", str(tmp_path / "mine.zip"))
    assert (asked.code, "--yes" in asked.err) == (1, True)
    assert tree(home) == before


@pytest.mark.proves("backup.providers")
def test_what_a_provider_keeps_elsewhere_is_part_of_the_backup(home: Path, hermes: Command, tmp_path: Path) -> None:
    furnish(home, small=True)
    outside = tmp_path / "provider data"
    (outside / "deep").mkdir(parents=True)
    (outside / "deep" / "facts.txt").write_text("the fence is green", encoding="utf-8")
    plugin = home / "plugins" / "shed"
    plugin.mkdir(parents=True)
    (plugin / "__init__.py").write_text(
        "from hermes.providers.base import MemoryProvider\n"
        "class Shed(MemoryProvider):\n"
        "    name = 'shed'\n"
        "    def is_available(self): return True\n"
        "    def initialize(self, session_id, **kwargs): pass\n"
        "    def get_tool_schemas(self): return []\n"
        f"    def backup_paths(self): return [{str(outside)!r}, '/no/such/place']\n"
        "def register(ctx): ctx.register_memory_provider(Shed())\n",
        encoding="utf-8",
    )
    (home / "config.yaml").write_text("memory:\n  provider: shed\n", encoding="utf-8")
    made = hermes("backup", "create", "--json").json
    assert made["provider_paths"] == [str(outside)]
    (outside / "deep" / "facts.txt").write_text("changed", encoding="utf-8")
    (home / "SOUL.md").unlink()
    ran = hermes("backup", "restore", made["path"], "--yes")
    assert (ran.code, str(outside) in ran.out) == (0, True)
    assert (home / "restored/providers/0/deep/facts.txt").read_text(encoding="utf-8") == "the fence is green"
    assert (outside / "deep" / "facts.txt").read_text(encoding="utf-8") == "changed"


@pytest.mark.proves("backup.restore")
def test_a_damaged_backup_leaves_the_home_as_it_was(home: Path, hermes: Command, tmp_path: Path) -> None:
    furnish(home, small=True)
    create_backup(str(home), str(tmp_path / "x.zip"))
    data = bytearray((tmp_path / "x.zip").read_bytes())
    middle = len(data) // 2
    data[middle : middle + 300] = bytes(300)
    (tmp_path / "x.zip").write_bytes(data)
    (home / "SOUL.md").unlink()
    before = tree(home)
    with pytest.raises(HermesError):
        restore_backup(str(tmp_path / "x.zip"), str(home))
    assert tree(home) == before
    assert not any("arriving" in name for name in os.listdir(home.parent))
