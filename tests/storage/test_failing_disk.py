"""Public operations while the disk fails: only typed errors come out, and nothing acknowledged is lost."""

from __future__ import annotations

import argparse
import errno
import os
import resource
from typing import TYPE_CHECKING

import pytest

from hermes.base.errors import StorageError
from hermes.conversations.database import SessionDB
from hermes.portability.home import create_backup
from soak import operations
from soak.common import Options

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.proves("sessions.failing-disk")
@pytest.mark.parametrize("operation", ["MemorySession.turn", "sessions repair", "memory add Uses zsh"])
def test_a_failing_disk_gives_typed_errors_and_takes_nothing_away(tmp_path: Path, operation: str) -> None:
    given = argparse.Namespace(places=1, only=operation)
    (outcome,) = operations.run(given, Options(folder=str(tmp_path), quiet=True))
    assert outcome.failures == []
    assert outcome.figures["cases"] == 2 * len(operations.ERRORS)


@pytest.mark.proves("sessions.failing-disk")
def test_a_database_that_cannot_be_looked_at_is_a_typed_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    SessionDB.open(tmp_path / "state.db").close()

    def refused(path: str) -> os.stat_result:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    monkeypatch.setattr(os, "lstat", refused)
    with pytest.raises(StorageError, match=r"could not look at .*state.db: Permission denied; give yourself access"):
        SessionDB.open(tmp_path / "state.db")


@pytest.mark.proves("sessions.failing-disk")
def test_a_backup_that_does_not_fit_is_a_typed_error(home: Path) -> None:
    (home / "skills/maps").mkdir(parents=True)
    (home / "skills/maps/map.txt").write_text(os.urandom(40_000).hex())
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    try:
        with pytest.raises(StorageError, match="could not write"):
            create_backup(str(home), str(home / "backup.zip"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not list(home.glob("backup*"))
