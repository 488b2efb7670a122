"""Reads a text file that anybody may have put there: never blocks, never reads without bound, never raises."""

from __future__ import annotations

import codecs
import errno
import os
import stat

from hermes.vocabulary.values import value

HEAD_BYTES = 262_144
TAIL_BYTES = 65_536
_GARBAGE = 0.1  # share of undecodable characters from which a file counts as binary


@value
class ForeignText:
    """`text` is None when the file could not be used; `note` says why, or what is odd about the text."""

    text: str | None
    note: str = ""


def read_foreign(path: str, *, inside: str | None = None) -> ForeignText:
    """The file's text; of a huge file its first and last part. A link out of the directory `inside` is not followed."""
    try:
        real = os.path.realpath(path, strict=True)
        if inside is not None and not is_inside(real, os.path.realpath(inside)):
            return ForeignText(text=None, note="it is a link that leads out of the project")
        if not stat.S_ISREG(mode := os.stat(real).st_mode):
            return ForeignText(text=None, note=f"it is {_kind(mode)}, not a file")
        size, data = _read(real)
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


def _read(real: str) -> tuple[int, bytes]:
    # Somebody may swap the file for a pipe after the check: without O_NONBLOCK the open itself would wait for a writer.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(real, flags)
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, f"it is {_kind(status.st_mode)}, not a file")
        if status.st_size <= HEAD_BYTES + TAIL_BYTES:
            return status.st_size, file.read(HEAD_BYTES + TAIL_BYTES)
        head = file.read(HEAD_BYTES)
        file.seek(-TAIL_BYTES, os.SEEK_END)
        return status.st_size, head + file.read(TAIL_BYTES)


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
    cut = size > len(data)
    head = codecs.getincrementaldecoder("utf-8-sig")("replace").decode(data[:HEAD_BYTES] if cut else data, not cut)
    tail = data[HEAD_BYTES:].lstrip(_CONTINUATION).decode("utf-8", "replace") if cut else ""
    wrong = head.count("\ufffd") + tail.count("\ufffd")
    if wrong > _GARBAGE * len(head):
        return ForeignText(text=None, note="it is binary, not text")
    notes = [f"{wrong:,} bytes in it are not UTF-8"] if wrong else []
    if cut:
        notes.append(f"it has {size:,} bytes and only its first and last part were read")
    return ForeignText(text=_lines(f"{head}\n{tail}" if cut else head), note="; ".join(notes))


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
    return text.replace("\r\n", "\n").replace("\r", "\n")
