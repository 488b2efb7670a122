"""Where nothing can be written, what is stored is still read, and the remedy is said."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import apsw
import pytest
from older import make_older

from hermes.base.errors import LockTimeout, StorageError
from hermes.conversations.database import SessionDB
from hermes.storage.local import database

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WALRUS = {"role": "user", "content": "The walrus lives in the harbour."}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "state.db"
    with SessionDB.open(path) as db:
        db.append(db.create_session(session_id="one"), WALRUS)
        db.index()
    return path


@pytest.fixture
def no_file_grows(path: Path) -> Iterator[None]:
    """As on a full disk, for this process: neither shared memory nor a journal can be made."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def system(flags: int = 0, free: int = 1 << 30) -> Any:
    return lambda _path: SimpleNamespace(f_flag=flags, f_bavail=free, f_frsize=1)


@pytest.mark.proves("sessions.only-read")
@pytest.mark.parametrize(
    ("found", "remedy"),
    [
        (system(), "check the permissions of its folder"),
        (system(flags=os.ST_RDONLY), "mounted read-only; remount it or choose another home"),
        (system(free=4096), "free some space on the disk"),
    ],
)
def test_what_is_stored_is_read_and_a_write_says_what_to_do(
    path: Path, no_file_grows: None, monkeypatch: pytest.MonkeyPatch, found: Any, remedy: str
) -> None:
    monkeypatch.setattr(os, "statvfs", found)
    with SessionDB.open(path) as db:
        assert [each.id for each in db.list_sessions()] == ["one"]
        assert [hit.session_id for hit in db.search("where does the walrus live")] == ["one"]
        with pytest.raises(StorageError, match=f"can only be read .*{remedy}"):
            db.append("one", WALRUS)
        assert db.get_session("one").message_count == 1


@pytest.fixture
def with_one_that_waits(path: Path) -> None:
    with SessionDB.open(path) as db:
        db.append("one", {"role": "user", "content": "The heron waits for the index."})


@pytest.fixture
def of_an_older_hermes(path: Path) -> None:
    make_older(path)


@pytest.mark.proves("sessions.only-read")
def test_a_file_of_an_older_hermes_is_read_as_it_is(path: Path, of_an_older_hermes: None, no_file_grows: None) -> None:
    with SessionDB.open(path) as db:
        assert [each.message for each in db.messages("one")] == [WALRUS]
        found = db.search("where does the walrus live")
        assert ([hit.session_id for hit in found], found.note) == (["one"], None)
        with pytest.raises(StorageError, match="can only be read"):
            db.append("one", WALRUS)
        assert (db.index(), len(db.search("walrus"))) == (0, 1)


@pytest.mark.proves("sessions.only-read")
def test_a_search_says_when_messages_are_missing_because_they_cannot_be_indexed(
    path: Path, with_one_that_waits: None, of_an_older_hermes: None, no_file_grows: None
) -> None:
    with SessionDB.open(path) as db:
        assert "may be missing" in str(db.search("walrus").note)
        assert "may be missing" in str(db.search("heron").note)


@pytest.mark.proves("sessions.only-read")
def test_a_file_that_cannot_even_be_read_says_what_to_do(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.with_name(f"{path.name}-wal").mkdir()
    with pytest.raises(StorageError, match=r"cannot be opened: .*; check the permissions of its folder"):
        SessionDB.open(path)

    def gone(_path: str) -> Any:
        raise FileNotFoundError

    monkeypatch.setattr(os, "statvfs", gone)
    with pytest.raises(StorageError, match=r"cannot be opened: .*; check its folder"):
        SessionDB.open(path)


@pytest.mark.proves("sessions.only-read")
def test_a_file_that_somebody_keeps_for_themselves_is_no_file_to_be_only_read(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "WAIT_SECONDS", 0.05)
    holder = apsw.Connection(str(path))
    holder.pragma("locking_mode", "EXCLUSIVE")
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(LockTimeout, match="held by another program"):
        SessionDB.open(path)
    holder.close()


SCRIPT = """
set -e
mount -t tmpfs -o size=2m tmpfs "$PLACE"
mkdir -m 700 "$PLACE/home"
export HERMES_HOME="$PLACE/home"
echo '{"role": "user", "content": "The walrus lives in the harbour."}' | "$PYTHON" -m hermes sessions import -
"$PYTHON" -m hermes memory add 'Likes walruses.'
if [ "$HOW" = full ]; then cat /dev/zero > "$PLACE/filler" 2>/dev/null || true; else mount -o remount,ro "$PLACE"; fi
"$PYTHON" -m hermes sessions search 'where does the walrus live'
"$PYTHON" -m hermes memory list
"$PYTHON" -m hermes sessions stats
"$PYTHON" -m hermes memory add 'Likes seals.' 2>&1 || true
"$PYTHON" -m hermes sessions import "$LINES" 2>&1 || true
"""


def may_mount() -> bool:
    tried = ["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return (
        shutil.which("unshare") is not None and subprocess.run(tried, capture_output=True, check=False).returncode == 0
    )


@pytest.mark.skipif(not may_mount(), reason="only who may mount can make a disk full or read-only")
@pytest.mark.proves("sessions.only-read")
@pytest.mark.parametrize(("how", "remedy"), [("full", "free some space"), ("read-only", "remount it")])
def test_a_home_on_a_disk_that_takes_nothing_more_is_read(tmp_path: Path, how: str, remedy: str) -> None:
    (tmp_path / "place").mkdir()
    (tmp_path / "lines.jsonl").write_text('{"role": "user", "content": "Seals, too."}\n' * 2000)
    given = {
        "PLACE": str(tmp_path / "place"),
        "PYTHON": sys.executable,
        "HOW": how,
        "LINES": str(tmp_path / "lines.jsonl"),
    }
    ran = subprocess.run(
        ["unshare", "-m", "sh", "-c", SCRIPT], env=os.environ | given, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ">>>walrus<<<" in ran.stdout
    assert "Likes walruses." in ran.stdout
    assert "Likes seals." not in ran.stdout
    assert ran.stdout.count(remedy) >= 2


@pytest.mark.proves("sessions.only-read")
def test_a_file_that_others_can_read_and_the_system_keeps_so_is_told_with_what_to_do(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.chmod(0o644)

    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "chmod", refuse)
    with pytest.raises(StorageError, match=r"could not make private .*state\.db: .* remount it"):
        SessionDB.open(path)
