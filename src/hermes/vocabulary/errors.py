"""Every error Hermes raises on purpose, by the reader who can act on it.

HermesError
├── SettingsError      a person: wrong key, value or file of the settings (exit code 2)
├── NotFound           a person: what they named does not exist (exit code 1)
├── ExtraMissing       a person: an optional package is needed and not there
├── ScannerUnavailable the operator: the threat scanner cannot load, so nothing may pass as harmless
├── WriteRefused       the model: a memory write it can correct and try again
└── StorageError       the operator: a file or database that cannot be read or written
    ├── LockTimeout        somebody else has held a lock for too long
    ├── UnsafePath         a link, pipe or device stands where a store file belongs
    └── DamagedFile        the bytes on disk are not what a program of ours wrote
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


class HermesError(Exception):
    """Base of all errors raised on purpose; `str()` gives a message that says what to do next."""


class SettingsError(HermesError):
    pass


class NotFound(HermesError):
    pass


class ExtraMissing(HermesError):
    pass


class ScannerUnavailable(HermesError):
    pass


class WriteRefused(HermesError):
    """A write the model asked for and may correct; `details` go into the tool result beside the message."""

    def __init__(self, message: str, *, kind: str, details: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.details = dict(details or {})


class StorageError(HermesError):
    pass


class LockTimeout(StorageError):
    pass


class UnsafePath(StorageError):
    pass


class DamagedFile(StorageError):
    pass
