"""Reads SQLite's write-ahead log: which pages it commits, and what stands behind the place where it breaks."""

from __future__ import annotations

import struct

_HEADER, _FRAME = 32, 24
_MAGIC = 0x377F0682
_MOST = 0xFFFFFFFF


def log_pages(log: bytes) -> tuple[int, dict[int, bytes], dict[int, bytes]]:
    """Page size, newest committed version of each page, and later pages of the same log whose checksums fail."""
    if len(log) < _HEADER + _FRAME:
        return 0, {}, {}
    magic, _, size, _, *salt, first, second = struct.unpack_from(">8I", log)
    order = ">" if magic & 1 else "<"
    if magic & ~1 != _MAGIC or size & (size - 1) or not 512 <= size <= 65536:  # noqa: PLR2004 - SQLite's limits
        return 0, {}, {}
    if _sums(log[:24], order, (0, 0)) != (first, second):
        return 0, {}, {}
    committed: dict[int, bytes] = {}
    waiting: dict[int, bytes] = {}
    doubtful: dict[int, bytes] = {}
    sums, holds = (first, second), True
    for start in range(_HEADER, len(log) - _FRAME - size + 1, _FRAME + size):
        number, commit, *found, first, second = struct.unpack_from(">6I", log, start)
        page = log[start + _FRAME : start + _FRAME + size]
        if found != salt:
            holds = False  # a broken frame, or one left over from before the log was last started again
            continue
        sums = _sums(page, order, _sums(log[start : start + 8], order, sums)) if holds else sums
        holds = holds and sums == (first, second)
        if not holds:
            doubtful[number] = page
            continue
        waiting[number] = page
        if commit:
            committed |= waiting
            waiting = {}
    return size, committed, doubtful


def _sums(data: bytes, order: str, sums: tuple[int, int]) -> tuple[int, int]:
    first, second = sums
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for at in range(0, len(words), 2):
        first = first + words[at] + second & _MOST
        second = second + words[at + 1] + first & _MOST
    return first, second
