"""An append-only file of JSON records, one per line, each with a checksum of its own.

A record that was appended survives the end of the process; with `sync` it also survives a power cut. A line cut short
by a crash was never acknowledged and is dropped by the next append; a line whose checksum is wrong is counted and
skipped, and the lines around it stay readable.
"""

from __future__ import annotations

import json
import zlib

from hermes.vocabulary.values import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from hermes.storage.files import Folder, OpenFile

    Record = dict[str, Any]

_CHECK = b',"check":"'
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
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
    def __init__(self, folder: Folder, name: str) -> None:
        self._folder = folder
        self.name = name

    def append(self, records: Iterable[Record], *, sync: bool) -> None:
        lines = b"".join(_encode(record) for record in records)
        with self._folder.open_for_append(self.name) as file:
            _drop_unfinished_line(file)
            file.append(lines, sync=sync)

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

    def identity(self) -> tuple[int, int, int]:
        """Changes with every append and withdrawal."""
        status = self._folder.status(self.name)
        return (status.st_ino, status.st_size, status.st_mtime_ns) if status else (0, 0, 0)

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

    def read(self) -> tuple[list[Record], int]:
        """All readable records, oldest first, and how many lines are damaged."""
        seen = self.read_on(NOTHING_READ)
        return seen.records, seen.damaged

    def read_on(self, before: ReadSoFar) -> ReadSoFar:
        """What was appended since `before`; when the journal no longer begins with what was read then, all of it."""
        data = self._folder.read(self.name, at_most=_LARGEST) or b""
        start = before.size if zlib.crc32(data[: before.size]) == before.check else 0
        finished = data[start:].split(b"\n")[:-1]
        records = [record for line in finished if (record := _decode(line)) is not None]
        end = data.rfind(b"\n") + 1
        damaged = len(finished) - len(records) + (before.damaged if start else 0)
        return ReadSoFar(records=records, damaged=damaged, size=end, check=zlib.crc32(data[:end]), goes_on=start > 0)


def _drop_unfinished_line(file: OpenFile) -> None:
    size, length = file.status.st_size, 1
    while size:
        start = max(0, size - length)
        tail = file.read(at_most=size - start, start=start)
        if tail.endswith(b"\n"):
            return
        cut = tail.rfind(b"\n")
        if cut >= 0 or start == 0:
            file.cut(start + cut + 1)
            return
        length *= _TAIL


def _encode(record: Record) -> bytes:
    body = _ENCODER.encode(record).encode("utf-8", "surrogatepass")[:-1]
    return b'%b%b%08x"}\n' % (body, _CHECK, zlib.crc32(body))


def _decode(line: bytes) -> Record | None:
    body, separator, check = line.rpartition(_CHECK)
    if not separator or check != b'%08x"}' % zlib.crc32(body):
        return None
    record = json.loads(body + b"}")
    return record if isinstance(record, dict) else None
