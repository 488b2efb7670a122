"""The text format of MEMORY.md and USER.md: entries separated by a line that holds only `§`."""

from __future__ import annotations

from hermes.base.errors import WriteRefused
from hermes.base.values import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

MARK = "§"
DELIMITER = f"\n{MARK}\n"
_BYTE_ORDER_MARK = "\ufeff"
_PREVIEW = 80


def parse(text: str) -> tuple[str, ...]:
    return tuple(entry for piece in text.split(DELIMITER) if (entry := trim(piece)))


def render(entries: Sequence[str]) -> str:
    return DELIMITER.join(entries)


def size(entries: Sequence[str]) -> int:
    """Characters the entries take in the file, separators included: what the limit counts."""
    return sum(map(len, entries)) + len(DELIMITER) * max(0, len(entries) - 1)


def trim(text: str) -> str:
    text = text.strip()
    # A byte order mark at the start of the file would be taken for an encoding mark, not for text.
    while text.startswith(_BYTE_ORDER_MARK) or text.endswith(_BYTE_ORDER_MARK):
        text = text.strip(_BYTE_ORDER_MARK).strip()
    return text


def clean(content: str) -> str:
    """The entry as it will be stored, or a refusal that says what is wrong with it."""
    entry = trim(content)
    if not entry:
        raise WriteRefused("content is empty; give the text to remember", kind="empty")
    if MARK in entry and any(line.strip("\r") == MARK for line in entry.split("\n")):
        raise WriteRefused(
            f"content holds a line with only {MARK}, which separates entries; write it as several entries or reword it",
            kind="delimiter",
        )
    if "\0" in entry:
        raise WriteRefused(
            f"content holds a NUL character at position {entry.index(chr(0))}; leave it out", kind="not_text"
        )
    try:
        entry.encode("utf-8")
    except UnicodeEncodeError as error:
        what = "half of a character (a lone surrogate)"
        raise WriteRefused(f"content holds {what} at position {error.start}; leave it out", kind="not_text") from error
    return entry


def index_of(entries: Sequence[str], old_text: str, *, whole: bool = False) -> int:
    """Where the one entry that contains `old_text`, or is it (`whole`), stands; identical twins count as one."""
    found = [index for index, entry in enumerate(entries) if (old_text == entry if whole else old_text in entry)]
    if not found:
        raise WriteRefused(
            f"no entry contains {preview(old_text)!r}; use a piece of one of the current entries, exactly as written",
            kind="no_match",
        )
    if len({entries[index] for index in found}) > 1:
        raise WriteRefused(
            f"{len(found)} different entries contain {preview(old_text)!r}; use a longer piece that only one has",
            kind="ambiguous",
            details={"matches": [preview(entries[index]) for index in found]},
        )
    return found[0]


def preview(text: str, length: int = _PREVIEW) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


@value
class Decoded:
    """Text from the bytes of a file; `damage` says why writing back would lose something, `note` what was tolerated."""

    text: str
    damage: str = ""
    note: str = ""


def decode(data: bytes) -> Decoded:
    """Reads any bytes: never an error, never silently nothing."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return _decode_utf16(data)
    note = ""
    if data.startswith(b"\xef\xbb\xbf"):
        data, note = data[3:], "a byte order mark at its start was left out"
    try:
        text, damage = data.decode("utf-8"), ""
    except UnicodeDecodeError as error:
        text = _decode_mixed(data)
        line = data.count(b"\n", 0, error.start) + 1
        damage = f"byte {error.start:,} (line {line}) is not UTF-8 text"
    if "\0" in text:
        damage = f"it holds {text.count(chr(0)):,} NUL bytes, as a crash or another encoding leaves them"
        text = text.replace("\0", "")
    if f"\r\n{MARK}\r\n" in text and text.count("\n") == text.count("\r\n"):
        text, note = text.replace("\r\n", "\n"), "Windows line ends were read as plain ones"
    return Decoded(text=text, damage=damage, note=note)


def _decode_mixed(data: bytes) -> str:
    """UTF-8 where it is UTF-8; the other bytes as Windows programs mean them."""
    windows = {0xDC00 + byte: bytes([byte]).decode("cp1252", "replace") for byte in range(0x80, 0x100)}
    return data.decode("utf-8", "surrogateescape").translate(windows)


def _decode_utf16(data: bytes) -> Decoded:
    try:
        text = data.decode("utf-16")
    except UnicodeDecodeError:
        return Decoded(
            text=data.decode("utf-16", "replace"), damage="it starts like UTF-16 text but breaks off in a character"
        )
    return Decoded(text=text.replace("\r\n", "\n"), note="it was saved as UTF-16 and is read as such")
