"""File systems without shared memory: the database works there, with one warning."""

from __future__ import annotations

import logging
import os
import shutil
from typing import TYPE_CHECKING

import pytest

from hermes.conversations.database import SessionDB

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.proves("repair.without-wal")


def _use(path: Path) -> None:
    with SessionDB.open(path) as db:
        assert db.journal_mode == "delete"
        name = db.create_session(title="Plans")
        for number in range(80):  # enough for the index to be written as well
            db.append(name, {"role": "user", "content": f"word{number} was said"})
        assert db.search("word41")[0].snippet.count("word41") == 1
    with SessionDB.open(path) as db:
        assert len(db.messages(name)) == 80


def test_a_file_system_that_fails_at_shared_memory_gets_a_rollback_journal_and_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "state.db-shm").mkdir()  # the log's shared memory cannot be opened, whatever the pragma says
    with caplog.at_level(logging.WARNING), SessionDB.open(tmp_path / "state.db"):
        assert [record.name for record in caplog.records] == ["hermes.storage"]
        assert "write-ahead log" in caplog.text
    _use(tmp_path / "state.db")


def test_what_a_log_still_holds_is_read_where_there_is_no_shared_memory(tmp_path: Path) -> None:
    with SessionDB.open(tmp_path / "state.db") as db:
        name = db.create_session()
        db.append(name, {"role": "user", "content": "only in the log"})
        moved = tmp_path / "moved"
        moved.mkdir()
        for suffix in ("", "-wal"):
            shutil.copy(tmp_path / f"state.db{suffix}", moved / f"state.db{suffix}")
        assert os.path.getsize(moved / "state.db-wal") > 0
    (moved / "state.db-shm").mkdir()
    with SessionDB.open(moved / "state.db") as db:
        assert db.journal_mode == "delete"
        assert [message.text for message in db.messages(name)] == ["only in the log"]
