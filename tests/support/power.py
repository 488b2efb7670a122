"""A power cut for `state.db`: keeps what lay in its files when the disk was last asked to sync them."""

from __future__ import annotations

import errno
import os
import shutil
from typing import TYPE_CHECKING

from hermes.conversations.database import SessionDB

if TYPE_CHECKING:
    from pathlib import Path


class Disk:
    """Takes the place of the disk's answer."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.kept = folder / "after the power cut"
        self.syncs = 0
        self.broken = False

    def __call__(self, descriptor: int) -> None:
        if self.broken:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        assert os.fstat(descriptor).st_ino == (self._folder / "state.db-wal").stat().st_ino
        self.syncs += 1
        shutil.rmtree(self.kept, ignore_errors=True)
        self.kept.mkdir()
        for name in ("state.db", "state.db-wal"):
            shutil.copy(self._folder / name, self.kept / name)

    def texts(self, session: str) -> list[str]:
        with SessionDB.open(self.kept / "state.db") as db:
            return [message.text for message in db.messages(session)]
