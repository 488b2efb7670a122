"""Reads SQLite's file format without SQLite: pages, the write-ahead log, and the rows on any leaf page.

For files that SQLite refuses: a bad header, a lost interior page, a missing end. The layouts are those of SQLite's
documentation ("Database File Format"). Nothing here trusts what it reads: every number may be wrong, and the caller
accepts a row only if its checksum holds.
"""

from __future__ import annotations

import copy
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

from hermes.storage.local.database import PAGE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from mmap import mmap

_HEADER, _FRAME = 32, 24  # bytes in the header of the log, and in the header of each frame
_MAGIC = 0x377F0682  # the last bit says whether checksums are computed over big-endian words
_MOST = 0xFFFFFFFF  # checksums are 32 bits


def log_pages(log: bytes) -> tuple[int, dict[int, bytes], dict[int, bytes]]:
    """Page size, newest committed version of each page, and later pages of the same log whose checksums fail.

    The checksum of a frame covers all frames before it, so one damaged frame makes all later ones doubtful. The salt
    tells them from frames of an earlier use of the log, which SQLite overwrites from the start without clearing it.
    """
    if len(log) < _HEADER + _FRAME:
        return 0, {}, {}
    magic, _, size, _, *salt, first, second = struct.unpack_from(">8I", log)
    order = ">" if magic & 1 else "<"
    if magic & ~1 != _MAGIC or size & (size - 1) or not 512 <= size <= 65536:  # noqa: PLR2004 - SQLite's limits
        return 0, {}, {}
    holds = _sums(log[:24], order, (0, 0)) == (first, second)
    if not holds:  # the header is damaged: the salt of the first frame serves instead
        salt = list(struct.unpack_from(">2I", log, _HEADER + 8))
    committed: dict[int, bytes] = {}
    waiting: dict[int, bytes] = {}
    doubtful: dict[int, bytes] = {}
    sums = (first, second)
    for start in range(_HEADER, len(log) - _FRAME - size + 1, _FRAME + size):
        number, commit, *found, first, second = struct.unpack_from(">6I", log, start)
        page = log[start + _FRAME : start + _FRAME + size]
        if found != salt:
            holds = False  # a damaged frame, or one left over from an earlier use of the log
            continue
        sums = _sums(page, order, _sums(log[start : start + 8], order, sums)) if holds else sums
        holds = holds and sums == (first, second)
        if not holds:
            if number:  # pages count from 1
                doubtful[number] = page
            continue
        waiting[number] = page
        if commit:  # the last frame of a transaction; frames without one after them were never committed
            committed |= waiting
            waiting = {}
    return size, committed, doubtful


def _sums(data: bytes, order: str, sums: tuple[int, int]) -> tuple[int, int]:
    """SQLite's running checksum of the log, continued from `sums`."""
    first, second = sums
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for at in range(0, len(words), 2):
        first = first + words[at] + second & _MOST
        second = second + words[at + 1] + first & _MOST
    return first, second


MAGIC = b"SQLite format 3\x00"
_TABLE_LEAF, _INDEX_LEAF = 13, 10  # the first byte of a page
_INNER = (2, 5)
_LEAF_HEADER = 8
_FIRST_PAGE_HEADER = 100  # the header of the file, before the header of page 1
_INTEGER_SIZES = (0, 1, 2, 3, 4, 6, 8)  # bytes of the value types 0 (NULL) to 6
_LONGEST_ROW = 1 << 30
_LONGEST_HEADER = 0x80  # so that the length of a row's header is a single byte
_FIRST_TEXT = 12  # from here on, even types are blobs and odd ones texts
_FLOAT, _ZERO, _ONE = 7, 8, 9


class Record(NamedTuple):
    """One row as read from a page; a column that is the rowid itself is None in `values`."""

    rowid: int
    values: tuple[Any, ...]


class Image:
    """The pages as SQLite would see them: those of the file, replaced by the committed pages of its log."""

    def __init__(self, file: bytes | mmap, log: bytes = b"", kept_logs: Iterable[bytes] = ()) -> None:
        """`kept_logs` are copies of earlier logs that SQLite could not read to the end."""
        self._file = file
        header = bytes(file[:_FIRST_PAGE_HEADER])
        self.header_holds = header.startswith(MAGIC) and _page_size(header) is not None
        logged_size, self._logged, self._doubtful = log_pages(log)
        self.page_size = (_page_size(header) if self.header_holds else None) or logged_size or PAGE
        if logged_size not in (0, self.page_size):
            self._logged, self._doubtful = {}, {}
        for kept in kept_logs:
            size, _, doubtful = log_pages(kept)
            if size == self.page_size:
                self._doubtful = doubtful | self._doubtful
        self.usable = self.page_size - (header[20] if self.header_holds and header[20] <= self.page_size // 2 else 0)
        self.count = max([-(-len(file) // self.page_size), *self._logged])

    def page(self, number: int) -> bytes:
        """A page, padded with zeros where the file ends too early; empty for a number that is out of range."""
        if number in self._logged:
            return self._logged[number]
        start = (number - 1) * self.page_size
        if number < 1 or start >= len(self._file):
            return b""
        return bytes(self._file[start : start + self.page_size]).ljust(self.page_size, b"\0")

    def doubtful(self) -> list[int]:
        """Pages that follow a damaged frame of the log; only the checksum of each row shows whether it is genuine."""
        return sorted(self._doubtful)

    def with_doubtful(self) -> Image:
        """The same pages, with the doubtful ones in place of those that they would replace."""
        other = copy.copy(self)
        other._logged, other._doubtful = self._logged | self._doubtful, {}  # noqa: SLF001 - one of our own
        return other

    def whole(self) -> Iterator[bytes]:
        """Every page in order: a plain database file without a log."""
        for number in range(1, self.count + 1):
            yield self.page(number)

    def free_pages(self) -> set[int]:
        """Pages that hold only deleted rows; empty when the header is damaged, because it says where their list begins.

        The list is a chain of trunk pages, each with the next trunk, a count, and the numbers of that many free leaves.
        """
        free: set[int] = set()
        first = self.page(1)
        if not first.startswith(MAGIC):
            return free
        trunk = struct.unpack_from(">I", first, 32)[0]
        while trunk and trunk <= self.count and trunk not in free:
            free.add(trunk)
            page = self.page(trunk)
            following, leaves = struct.unpack_from(">II", page)
            if leaves > self.usable // 4 - 2:
                break
            free.update(struct.unpack_from(f">{leaves}I", page, 8))
            trunk = following
        return free


class Scan:
    """Walks over all pages and yields the rows of every table leaf, whatever tree it belonged to.

    It does not follow the trees, so a lost interior page does not cost the rows below it. The caller has to tell by
    the values of a row which table it is from.
    """

    def __init__(self, image: Image) -> None:
        self._image = image
        self._skipped = image.free_pages()
        self._overflow: set[int] = set()
        self._unread: list[int] = []

    def rows(self) -> Iterator[Record]:
        """Yields rows of intact leaves, then of doubtful pages, then what looks like a row on damaged leaves."""
        for number in range(1, self._image.count + 1):
            if number not in self._skipped:
                yield from self._leaf(number, self._image.page(number))
        if numbers := self._image.doubtful():
            later = Scan(self._image.with_doubtful())
            for number in numbers:
                yield from later._leaf(number, later._image.page(number))
        # On a leaf with a damaged header, cells are looked for at every byte. Overflow pages of long rows look the same
        # but contain text, so they are skipped; which ones they are is known only after all leaves were read.
        for number in self._unread:
            if number not in self._overflow:
                yield from self._every_offset(self._image.page(number))

    def index_rows(self) -> Iterator[tuple[Any, ...]]:
        """Rows of index leaves, where SQLite keeps tables without a rowid; only rows that fit on one page."""
        for number in range(1, self._image.count + 1):
            page = self._image.page(number)
            if number not in self._skipped and page[:1] == bytes((_INDEX_LEAF,)):
                for at in _cells(page, 0, self._image.usable):
                    size, start = varint(page, at)
                    if start + size <= len(page) and (values := record(page[start : start + size])):
                        yield values

    def _leaf(self, number: int, page: bytes) -> Iterator[Record]:
        base = _FIRST_PAGE_HEADER if number == 1 else 0
        kind = page[base] if page else 0
        if kind != _TABLE_LEAF:
            if kind not in (*_INNER, _INDEX_LEAF) and page.strip(b"\0"):
                self._unread.append(number)
            return
        broken = False
        for at in _cells(page, base, self._image.usable):
            row = self._cell(page, at)
            broken = broken or row is None
            if row is not None:
                yield row
        if broken or not _count_is_plausible(page, base, self._image.usable):
            self._unread.append(number)

    def _every_offset(self, page: bytes) -> Iterator[Record]:
        """Whatever can be read as a row of ours at any offset; most of it is none, and its checksum fails."""
        for at in range(_LEAF_HEADER, len(page) - 4):
            # Our rows store NULL in the column that is the rowid, so a short header with type 0 in front marks one.
            size, rowid_at = varint(page, at)
            if _LEAF_HEADER <= size < _LONGEST_ROW:
                _, header = varint(page, rowid_at)
                if header + 1 < len(page) and 1 < page[header] < _LONGEST_HEADER and page[header + 1] == 0:
                    row = self._cell(page, at)
                    if row is not None:
                        yield row

    def _cell(self, page: bytes, at: int) -> Record | None:
        """The row in the cell at an offset of a leaf, with what overflowed to other pages; None if there is none."""
        size, at = varint(page, at)
        rowid, at = varint(page, at)
        if not 0 < size < _LONGEST_ROW:
            return None
        local = _local_size(size, self._image.usable)
        payload = page[at : at + local]
        if local < size:
            if at + local + 4 > len(page):
                return None
            payload += self._following(struct.unpack_from(">I", page, at + local)[0], size - local)
        values = record(payload)
        return Record(rowid - (1 << 64) if rowid >> 63 else rowid, values) if values else None

    def _following(self, number: int, left: int) -> bytes:
        """What a row has on its chain of overflow pages; stops at a loop or a page that does not exist."""
        parts: list[bytes] = []
        seen: set[int] = set()
        while left > 0 and number not in seen and len(page := self._image.page(number)) > 4:  # noqa: PLR2004
            seen.add(number)
            parts.append(page[4 : min(self._image.usable, 4 + left)])
            left -= len(parts[-1])
            number = struct.unpack_from(">I", page)[0]
        self._overflow |= seen
        return b"".join(parts)


def record(payload: bytes) -> tuple[Any, ...]:
    """The values of one row; empty if the bytes are not a row. Text that is not UTF-8 gets replacement characters."""
    if not payload:
        return ()
    length, at = varint(payload, 0)
    body = length
    if not at <= length <= len(payload):
        return ()
    values: list[Any] = []
    while at < length:
        kind, at = varint(payload, at)
        size = _size(kind)
        piece = payload[body : body + size]
        if size < 0 or len(piece) < size:
            return ()
        values.append(_value(kind, piece))
        body += size
    return tuple(values)


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A number in SQLite's format of 1 to 9 bytes, and the offset after it; missing bytes count as zeros."""
    value = 0
    for place in range(8):
        byte = data[at + place] if at + place < len(data) else 0
        value = value << 7 | byte & 0x7F
        if byte < 0x80:  # noqa: PLR2004 - the high bit says that more follows
            return value, at + place + 1
    last = data[at + 8] if at + 8 < len(data) else 0
    return value << 8 | last, at + 9


def _cells(page: bytes, base: int, usable: int) -> Iterator[int]:
    """The offsets of a leaf's cells, without those that are out of range."""
    count = struct.unpack_from(">H", page, base + 3)[0]
    for number in range(min(count, (usable - base - _LEAF_HEADER) // 2)):
        at = struct.unpack_from(">H", page, base + _LEAF_HEADER + 2 * number)[0]
        if base + _LEAF_HEADER < at < usable:
            yield at


def _count_is_plausible(page: bytes, base: int, usable: int) -> bool:
    """False when the header's count of cells and the start of the cells contradict each other."""
    count: int = struct.unpack_from(">H", page, base + 3)[0]
    start: int = struct.unpack_from(">H", page, base + 5)[0]
    return base + _LEAF_HEADER + 2 * count <= (start or 65536) <= usable and (count > 0 or start == usable)


def _page_size(header: bytes) -> int | None:
    size = int.from_bytes(header[16:18], "big")
    size = 65536 if size == 1 else size
    return size if 512 <= size <= 65536 and size & (size - 1) == 0 else None  # noqa: PLR2004 - SQLite's limits


def _local_size(size: int, usable: int) -> int:
    """How many bytes of a row are on its leaf; the formula is in SQLite's file format, "B-tree Pages"."""
    if size <= usable - 35:
        return size
    least = (usable - 12) * 32 // 255 - 23
    chosen = least + (size - least) % (usable - 4)
    return chosen if chosen <= usable - 35 else least


def _size(kind: int) -> int:
    """The bytes of a value of this type; -1 for a type that SQLite does not write."""
    if kind >= _FIRST_TEXT:
        return (kind - _FIRST_TEXT) // 2
    if kind < len(_INTEGER_SIZES):
        return _INTEGER_SIZES[kind]
    return {_FLOAT: 8, _ZERO: 0, _ONE: 0}.get(kind, -1)


def _value(kind: int, piece: bytes) -> Any:
    if kind >= _FIRST_TEXT:
        return piece.decode("utf-8", "replace") if kind % 2 else piece
    if kind == 0:
        return None
    if kind == _FLOAT:
        return struct.unpack(">d", piece)[0]
    return int.from_bytes(piece, "big", signed=True) if kind < _FLOAT else kind - _ZERO
