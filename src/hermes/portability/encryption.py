"""Archives that are encrypted with age, by a passphrase or for recipients; they are opened in memory, never on disk.

The files are plain age files, so `age -d backup.zip.age > backup.zip` opens them without Hermes. They are held in
memory whole, because nothing of them may be written in plain text on the way.
"""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hermes.base.errors import DamagedFile, ExtraMissing, SettingsError, command
from hermes.storage.files import explain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SUFFIX = ".age"
_MAGIC = b"age-encryption.org/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """What an archive is encrypted with: a passphrase, or the public keys (age1…, ssh-…) of who may open it."""

    passphrase: str = ""
    recipients: Sequence[str] = ()

    def seal(self, data: bytes) -> bytes:
        age = _library()
        if not self.recipients:
            return bytes(age.passphrase.encrypt(data, self.passphrase))
        return bytes(age.encrypt(data, [_recipient(age, each) for each in self.recipients]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """What opens an archive: a file with secret keys, or the passphrase, which is asked for when it is needed."""

    passphrase: Callable[[], str]
    identity: str = ""

    def open(self, path: str) -> io.BytesIO:
        age = _library()
        data = _read(path)
        with_passphrase = b"\n-> scrypt " in data[:200]
        try:
            if with_passphrase:
                return io.BytesIO(age.passphrase.decrypt(data, self.passphrase()))
            if not self.identity:
                raise SettingsError(
                    f"{path} is encrypted for a recipient; name the file with the secret key: --identity"
                )
            return io.BytesIO(age.decrypt(data, _identities(age, self.identity)))
        except age.DecryptError as error:
            wrong = (
                "the passphrase is wrong" if with_passphrase else f"no key in {self.identity} is one of its recipients"
            )
            raise DamagedFile(f"{path} cannot be opened: {wrong}, or the file was altered ({error})") from error


def is_encrypted(path: str) -> bool:
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def _library() -> Any:
    try:
        import pyrage
    except ImportError as error:
        raise ExtraMissing(f"encryption needs the package pyrage: {command('encrypt')} brings it") from error
    return pyrage


def _recipient(age: Any, text: str) -> Any:
    try:
        return (age.ssh if text.startswith("ssh-") else age.x25519).Recipient.from_str(text)
    except age.RecipientError as error:
        raise SettingsError(f"{text!r} is no public key of age (age1…) or of SSH (ssh-ed25519 …): {error}") from error


def _identities(age: Any, path: str) -> list[Any]:
    data = _read(path)
    try:
        if b"PRIVATE KEY" in data:
            return [age.ssh.Identity.from_buffer(data)]
        lines = [line.strip() for line in data.decode().splitlines()]
        return [age.x25519.Identity.from_str(line) for line in lines if line and not line.startswith("#")]
    except (age.IdentityError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} holds no secret key of age (AGE-SECRET-KEY-1…) or SSH: {error}") from error


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise explain("read", path, error) from error
