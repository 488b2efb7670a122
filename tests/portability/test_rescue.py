"""A disk that is full or read-only can be left; `bin/soak rescue` does this for longer."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from hermes.base.errors import StorageError
from hermes.conversations.database import SessionDB
from hermes.storage.local.repair.check import repair
from soak.common import Options
from soak.rescue import trials

if TYPE_CHECKING:
    from pathlib import Path


def may_mount() -> bool:
    tried = ["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return (
        shutil.which("unshare") is not None and subprocess.run(tried, capture_output=True, check=False).returncode == 0
    )


@pytest.mark.skipif(not may_mount(), reason="only who may mount can make a disk full or read-only")
@pytest.mark.proves("export.rescue")
def test_export_backup_and_repair_bring_everything_elsewhere(tmp_path: Path) -> None:
    outcome = trials(12, Options(folder=str(tmp_path), seed=3, quiet=True))
    assert outcome.failures == []
    assert {"full", "read-only"} <= {kind.partition(",")[0] for kind in outcome.figures}


@pytest.mark.proves("export.rescue")
def test_a_repair_elsewhere_leaves_the_database_as_it_is(tmp_path: Path) -> None:
    path, out = tmp_path / "state.db", tmp_path / "elsewhere/state.db"
    with SessionDB.open(path) as db:
        db.append(db.create_session(session_id="one"), {"role": "user", "content": "The walrus."})
    damaged = bytearray(path.read_bytes())
    damaged[2048 * 3 : 2048 * 4] = bytes(2048)
    path.write_bytes(damaged)
    told = repair(str(path), out=str(out))
    assert told.path == str(out)
    assert told.problems
    assert path.read_bytes() == damaged
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "elsewhere",
        "state.db",
        "state.db.lock",
        "state.db.lock.queue",
    ]
    with SessionDB.open(out) as db:
        assert [each.text for each in db.messages("one")] == ["The walrus."]
    with pytest.raises(StorageError, match="is there already; name another file"):
        repair(str(path), out=str(out))
