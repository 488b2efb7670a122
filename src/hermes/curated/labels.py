"""What the hidden name of a replaced version tells: enough to write its record again after a power cut."""

from __future__ import annotations

from hermes.curated import entries as text
from hermes.curated.history import Cause, Change

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hermes.storage.shared_file import Fingerprint, OldVersion

_LONGEST_LABEL = 150
_ASCII = 128


def label_of(number: int, action: str, cause: Cause) -> str:
    """What the hidden name of a replaced version says about the change that replaced it; empty if too long."""
    if cause.note:
        return ""
    label = f"{number}.{action}.{_escaped(cause.origin)}.{_escaped(cause.session)}"
    return label if len(label) <= _LONGEST_LABEL else ""


def _escaped(word: str) -> str:
    """The word in letters that a file name may have and that are no dots."""
    if word.isascii() and word.isalnum():
        return word
    return "".join(
        chr(byte) if chr(byte).isalnum() and byte < _ASCII else f"%{byte:02x}"
        for byte in word.encode("utf-8", "surrogatepass")
    )


def _unescaped(word: str) -> str:
    first, *rest = word.split("%")
    data = first.encode() + b"".join(bytes.fromhex(piece[:2]) + piece[2:].encode() for piece in rest)
    return data.decode("utf-8", "surrogatepass")


def labelled_number(version: OldVersion) -> int:
    number = version.label.partition(".")[0]
    return int(number) if number.isdecimal() else 0


def recovered(
    target: str, version: OldVersion, number: int, before: tuple[bytes, Fingerprint], after: tuple[bytes, Fingerprint]
) -> Change:
    _, action, origin, session = [*version.label.split("."), "", "", ""][:4]
    return Change(
        id=f"{target[0]}{number}",
        target=target,
        at=version.written_at,
        action=action,
        cause=Cause(origin=_unescaped(origin), session=_unescaped(session), note="recovered after a power cut"),
        before=before[1],
        after=after[1],
        was=text.parse(text.decode(before[0]).text),
        state=text.parse(text.decode(after[0]).text),
    )
