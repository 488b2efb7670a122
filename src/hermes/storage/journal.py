"""An append-only file of JSON records, one per line, each with a checksum of its own.

A record that was appended survives the end of the process; with `sync` it also survives a power cut. A line cut short
by a crash was never acknowledged and is dropped by the next append; a line whose checksum is wrong is counted and
skipped, and the lines around it stay readable.
"""

from __future__ import annotations

import zlib

from hermes.vocabulary.errors import StorageError
from hermes.vocabulary.jsontext import decode, encode
from hermes.vocabulary.values import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Iterable
    from typing import Any

    from hermes.storage.files import Folder, OpenFile

    Record = dict[str, Any]
    Identity = tuple[int, int, int, int, int]

_CHECK = b',"check":"'
_TAIL = 8192
_LARGEST = 1 << 30


@value
class ReadSoFar:
    """Records that were read, and how far: `goes_on` when they follow those of an earlier reading."""

    records: list[Record]
    damaged: int
    size: int
    check: int
    goes_on: bool = False


NOTHING_READ = ReadSoFar(records=[], damaged=0, size=0, check=0)


class Journal:
    def __init__(self, folder: Folder, name: str, *, keeps_open: bool = False) -> None:
        """With `keeps_open` its file stays open after an append, until `close`."""
        self._folder = folder
        self.name = name
        self._keeps = keeps_open
        self._file: OpenFile | None = None

    def append(self, records: Iterable[Record], *, sync: bool, known: Identity | None = None) -> Identity | None:
        """Adds records at the end; the answer is what `identity` says now, or None where that cannot be found out.

        `known` is the answer to the append before, where `identity` has just said the same: nobody was there since.
        """
        lines = b"".join([_encode(record) for record in records])
        file = self._file if known is not None else None
        if file is None:
            self.close()
            file, known = self._folder.open_for_append(self.name), None
        self._file = None
        try:
            file.append(lines, sync=sync, size=_drop_unfinished_line(file) if known is None else known[1])
            now = _identity_of(file)
            if self._keeps and now is not None:
                self._file = file
        finally:
            if self._file is None:
                file.close()
        return now

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def is_still_open(self) -> bool:
        """Whether what was kept open is; True when that is nothing."""
        return self._file is None or self._file.is_still_open()

    def sync(self) -> None:
        file = self._folder.open_file(self.name)
        if file is not None:
            with file:
                file.sync()

    def withdraw(self, *record_ids: str) -> None:
        """Takes the newest records back as far as they have these ids: what they say did not happen after all."""
        with self._folder.open_for_append(self.name) as file:
            data = file.read(at_most=_LARGEST)
            end = len(data)
            while end:
                start = data.rfind(b"\n", 0, end - 1) + 1
                record = _decode(data[start : end - 1])
                if record is None or record.get("id") not in record_ids:
                    break
                end = start
            if end < len(data):
                file.cut(end)

    def identity(self) -> Identity:
        """Changes with every append and withdrawal, and with the rights and names of the file."""
        status = self._folder.status(self.name)
        return _identity(status) if status else (0, 0, 0, 0, 0)

    def last(self) -> Record | None:
        """The newest readable record, found from the end without reading the whole file."""
        file = self._folder.open_file(self.name)
        if file is None:
            return None
        with file:
            size, length = file.status.st_size, _TAIL
            while True:
                start = max(0, size - length)
                lines = file.read_piece(start, size - start).split(b"\n")[:-1]
                whole = lines if start == 0 else lines[1:]
                for line in reversed(whole):
                    if (record := _decode(line)) is not None:
                        return record
                if start == 0:
                    return None
                length *= 8

    def mentions(self, word: str) -> bool:
        """Whether some record may hold this text; quicker than reading them."""
        return f'"{word}"'.encode() in (self._folder.read(self.name, at_most=_LARGEST) or b"")

    def read(self) -> tuple[list[Record], int]:
        """All readable records, oldest first, and how many lines are damaged."""
        seen = self.read_on(NOTHING_READ)
        return seen.records, seen.damaged

    def read_on(self, before: ReadSoFar) -> ReadSoFar:
        """What was appended since `before`; when the journal no longer begins with what was read then, all of it."""
        data = self._folder.read(self.name, at_most=_LARGEST) or b""
        start = before.size if zlib.crc32(data[: before.size]) == before.check else 0
        records, damaged = records_in(data[start:])
        end = data.rfind(b"\n") + 1
        damaged += before.damaged if start else 0
        return ReadSoFar(records=records, damaged=damaged, size=end, check=zlib.crc32(data[:end]), goes_on=start > 0)


def _identity(status: os.stat_result) -> Identity:
    return status.st_ino, status.st_size, status.st_ctime_ns, status.st_mode, status.st_nlink


def _identity_of(file: OpenFile) -> Identity | None:
    try:
        return _identity(file.look())
    except StorageError:
        return None


def _drop_unfinished_line(file: OpenFile) -> int:
    """Where the last whole line ends; what follows it is cut off."""
    size, length = file.status.st_size, 1
    while size:
        start = max(0, size - length)
        tail = file.read(at_most=size - start, start=start)
        if tail.endswith(b"\n"):
            return size
        cut = tail.rfind(b"\n")
        if cut >= 0 or start == 0:
            file.cut(start + cut + 1)
            return start + cut + 1
        length *= _TAIL
    return 0


def records_in(data: bytes) -> tuple[list[Record], int]:
    """The readable records in the bytes of a journal, oldest first, and how many lines are damaged."""
    finished = data.split(b"\n")[:-1]
    records = [record for line in finished if (record := _decode(line)) is not None]
    return records, len(finished) - len(records)


def _encode(record: Record) -> bytes:
    body = encode(record, tight=True).encode("utf-8", "surrogatepass")[:-1]
    return b'%b%b%08x"}\n' % (body, _CHECK, zlib.crc32(body))


def _decode(line: bytes) -> Record | None:
    body, separator, check = line.rpartition(_CHECK)
    if not separator or check != b'%08x"}' % zlib.crc32(body):
        return None
    record = decode(body + b"}")
    return record if isinstance(record, dict) else None
