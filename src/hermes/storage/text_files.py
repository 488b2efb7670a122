"""Reads a text file that anybody may have put there: never blocks, never reads without bound, never raises."""

from __future__ import annotations

import codecs
import errno
import os
import stat

from hermes.base.values import value

HEAD_BYTES = 262_144
TAIL_BYTES = 65_536
_GARBAGE = 0.1  # share of undecodable characters from which a file counts as binary


@value
class ForeignText:
    """`text` is None when the file could not be used; `note` says why, or what is odd about the text."""

    text: str | None
    note: str = ""
    exact: bool = False  # nothing of the file is missing or was replaced, so the text may be written back


def read_foreign(
    path: str,
    *,
    inside: str | None = None,
    whole: int = HEAD_BYTES + TAIL_BYTES,
    in_real_directory: bool = False,
) -> ForeignText:
    """The file's text; of one larger than `whole` bytes its two ends. A link that leaves `inside` is not followed.

    `in_real_directory` says that no directory on the way from `inside` is a link, which saves resolving the path.
    """
    try:
        if in_real_directory and not os.path.islink(path):
            real = path
        else:
            real = os.path.realpath(path, strict=True)
            if inside is not None and not is_inside(real, os.path.realpath(inside)):
                return ForeignText(text=None, note="it is a link that leads out of its place")
        if not stat.S_ISREG(mode := os.stat(real).st_mode):
            return ForeignText(text=None, note=f"it is {_kind(mode)}, not a file")
        size, data = _read(real, whole)
    except OSError as error:
        return ForeignText(text=None, note=_reason(error, path))
    except ValueError:  # a NUL in the path
        return ForeignText(text=None, note="its name is not a usable path")
    return _decode(data, size)


def is_inside(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip(os.sep) + os.sep)


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a directory"
    return "a pipe" if stat.S_ISFIFO(mode) else "a device or socket"


def _read(real: str, whole: int) -> tuple[int, bytes]:
    descriptor = os.open(real, _FLAGS)
    with open(descriptor, "rb", buffering=0) as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, f"it is {_kind(status.st_mode)}, not a file")
        if status.st_size <= whole:
            return status.st_size, file.read(status.st_size) or b""
        head = file.read(HEAD_BYTES) or b""
        file.seek(-TAIL_BYTES, os.SEEK_END)
        return status.st_size, head + (file.read(TAIL_BYTES) or b"")


# Somebody may swap the file for a pipe after the check: without O_NONBLOCK the open itself would wait for a writer.
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


def _reason(error: OSError, path: str) -> str:
    match error.errno:
        case errno.ELOOP:
            return "it is a link that leads back to itself"
        case errno.ENOENT if os.path.islink(path):
            return "it is a link to a file that does not exist"
        case errno.EACCES | errno.EPERM:
            return "permission to read it was denied"
    return error.strerror or "it could not be read"


def _decode(data: bytes, size: int) -> ForeignText:
    wide = next((name for mark, name in _WIDE if data.startswith(mark)), None)
    if wide is not None:
        return _decode_wide(data, size, wide)
    if b"\0" in data:
        return ForeignText(text=None, note="it is binary, not text")
    if size > len(data):
        return _decode_ends(data, size)
    try:
        return ForeignText(text=_lines(data.decode()), exact=True)
    except UnicodeDecodeError:
        return _with_replacements(data.decode("utf-8", "replace"))


def _decode_ends(data: bytes, size: int) -> ForeignText:
    # Both cuts may go through the middle of a character.
    head = codecs.getincrementaldecoder("utf-8")("replace").decode(data[:HEAD_BYTES])
    tail = data[HEAD_BYTES:].lstrip(_CONTINUATION).decode("utf-8", "replace")
    note = f"it has {size:,} bytes and only its first and last part were read"
    return _with_replacements(f"{head}\n{tail}", note)


def _with_replacements(text: str, note: str = "") -> ForeignText:
    wrong = text.count("\ufffd")
    if wrong > _GARBAGE * len(text):
        return ForeignText(text=None, note="it is binary, not text")
    notes = [f"{wrong:,} bytes in it are not UTF-8"] if wrong else []
    return ForeignText(text=_lines(text), note="; ".join([*notes, note] if note else notes))


_CONTINUATION = bytes(range(0x80, 0xC0))
_WIDE = (  # the longer marks first: UTF-32's begins with UTF-16's
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def _decode_wide(data: bytes, size: int, encoding: str) -> ForeignText:
    label = encoding.upper()
    if size > len(data):
        return ForeignText(text=None, note=f"it is {label} and too large ({size:,} bytes)")
    try:
        return ForeignText(text=_lines(data.decode(encoding)), note=f"it is {label}; save it as UTF-8")
    except UnicodeDecodeError:
        return ForeignText(text=None, note=f"it is marked as {label} but is not; save it as UTF-8")


def _lines(text: str) -> str:
    text = text.removeprefix("\ufeff")
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text
