"""A disk that remembers every write and every flush, so that a power cut can be tried at any moment of a run.

A process answers the kernel's FUSE requests for a folder with one file, which a loop device makes a disk. Whatever a
file system does to it is appended to a log: writes with their bytes, and flushes, which are the only promise a disk
makes. After a power cut, what was written before the last flush is there; of what came after it, any part may be.
It needs root, and mounts of its own (`unshare -m`).
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

WRITE, FLUSH, SAID = 1, 2, 3
SECTOR = 512
_RECORD = struct.Struct("<BQI")
_REQUEST = struct.Struct("<IIQQIIII")  # length, operation, number, node, user, group, process, padding
_ANSWER = struct.Struct("<IiQ")
_LONGEST_WRITE = 1 << 17
_ROOT, _FILE = 1, 2  # nodes: the folder, and the disk in it
_LOOKUP, _FORGET, _GETATTR, _OPEN, _READ, _WRITE, _STATFS = 1, 2, 3, 14, 15, 16, 17
_RELEASE, _FSYNC, _FLUSH, _INIT, _BATCH_FORGET = 18, 20, 25, 26, 42


class Log:
    """What happened to the disk, and what the program on it said, in the order in which it happened."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)

    def add(self, kind: int, place: int = 0, data: bytes = b"") -> None:
        os.write(self._file, _RECORD.pack(kind, place, len(data)) + data)  # one call: nothing comes between

    def records(self) -> Iterator[tuple[int, int, bytes]]:
        with open(f"/proc/self/fd/{self._file}", "rb") as file:
            while head := file.read(_RECORD.size):
                kind, place, length = _RECORD.unpack(head)
                yield kind, place, file.read(length)

    def close(self) -> None:
        os.close(self._file)


def serve(image: str, folder: str, log: Log) -> int:
    """Mounts the folder, whose file `disk` is the image, and returns the process that answers for it."""
    kernel = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={kernel},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
    library = ctypes.CDLL(None, use_errno=True)
    if library.mount(b"hermes-soak", os.fsencode(folder), b"fuse", 0, options):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), folder)
    child = os.fork()
    if child == 0:
        try:
            _Server(kernel, os.open(image, os.O_RDWR), log).run()
        finally:
            os._exit(0)
    os.close(kernel)
    return child


class _Server:
    def __init__(self, kernel: int, image: int, log: Log) -> None:
        self._kernel, self._image, self._log = kernel, image, log
        self._size = os.fstat(image).st_size

    def run(self) -> None:
        while True:
            try:
                request = os.read(self._kernel, _LONGEST_WRITE + (1 << 13))
            except OSError as error:
                if error.errno == errno.ENODEV:  # unmounted
                    return
                if error.errno in (errno.ENOENT, errno.EINTR):  # a request that was taken back
                    continue
                raise
            _, operation, number, node, *_ = _REQUEST.unpack_from(request)
            if operation in (_FORGET, _BATCH_FORGET):
                continue
            answer = self._answer(operation, node, request[_REQUEST.size :])
            fault, data = (answer, b"") if isinstance(answer, int) else (0, answer)
            os.write(self._kernel, _ANSWER.pack(_ANSWER.size + len(data), -fault, number) + data)

    def _answer(self, operation: int, node: int, given: bytes) -> bytes | int:
        """What the kernel is told, or an error number."""
        if operation == _INIT:
            return struct.pack("<IIIIHHIIHHI28x", 7, 31, 1 << 16, 1 << 5, 16, 16, _LONGEST_WRITE, 1, 0, 0, 0)
        if operation == _LOOKUP:
            return struct.pack("<QQQQII", _FILE, 0, 3600, 3600, 0, 0) + self._attributes(_FILE)
        if operation == _GETATTR:
            return struct.pack("<QII", 3600, 0, 0) + self._attributes(node)
        if operation == _READ:
            _, place, length = struct.unpack_from("<QQI", given)
            return os.pread(self._image, length, place)
        if operation == _WRITE:
            _, place, length = struct.unpack_from("<QQI", given)
            data = given[40 : 40 + length]
            self._log.add(WRITE, place, data)
            os.pwrite(self._image, data, place)
            return struct.pack("<II", length, 0)
        if operation == _FSYNC:
            self._log.add(FLUSH)
            return b""
        if operation == _STATFS:
            return struct.pack("<QQQQQIIII24x", 1 << 20, 1 << 19, 1 << 19, 9, 9, 4096, 255, 4096, 0)
        plain = {_OPEN: struct.pack("<QII", 0, 0, 0), _RELEASE: b"", _FLUSH: b""}
        return plain.get(operation, errno.ENOSYS)

    def _attributes(self, node: int) -> bytes:
        mode, size = (0o40700, 0) if node == _ROOT else (0o100600, self._size)
        return struct.pack("<QQQQQQIIIIIIIIII", node, size, size // SECTOR, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


class Replay:
    """The disk as it was at one record of the log after another, for power cuts in that order."""

    def __init__(self, image: str, log: Log) -> None:
        self._image = os.open(image, os.O_RDWR)
        self._path = image
        self._records = log.records()
        self._done = 0
        self._unflushed: list[tuple[int, bytes]] = []
        self.said: list[bytes] = []  # by the program, until now

    def go_on_to(self, number: int) -> None:
        while self._done < number:
            kind, place, data = next(self._records)
            self._done += 1
            if kind == WRITE:
                self._unflushed.append((place, data))
            elif kind == FLUSH:
                for place, data in self._unflushed:
                    os.pwrite(self._image, data, place)
                self._unflushed.clear()
            else:
                self.said.append(data)

    def cut(self, path: str, chance: random.Random) -> int:
        """A copy of the disk after a power cut now; returns how many sectors that had been written are lost."""
        subprocess.run(["cp", "--sparse=always", self._path, path], check=True)
        lost = 0
        share = chance.choice((0.0, 0.5, 0.9, 1.0))
        copy = os.open(path, os.O_RDWR)
        for place, data in self._unflushed:
            whole = chance.random() < share
            torn = not whole and chance.random() < 0.2
            for start in range(0, len(data), SECTOR):
                if whole or (torn and chance.random() < 0.5):
                    os.pwrite(copy, data[start : start + SECTOR], place + start)
                else:
                    lost += 1
        os.close(copy)
        return lost

    def close(self) -> None:
        os.close(self._image)
