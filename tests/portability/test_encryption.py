"""Encrypted backups and exports: opened with the key only, and never in plain text on the disk."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING

import pyrage
import pytest

from hermes.base.errors import DamagedFile, SettingsError, StorageError
from hermes.memory.store import MemoryStore
from hermes.portability.archive import ArchiveReader, Key, Lock, is_encrypted
from hermes.portability.home import (
    Selection,
    create_backup,
    export_home,
    import_home,
    list_backups,
    prune_backups,
    restore_backup,
    verify_backup,
)
from hermes.session.session import MemorySession

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran

FACT = "The walrus is called Wilhelmina."


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    MemoryStore.open(home).add("memory", FACT)
    with MemorySession.open(home) as session:
        session.prepare_turn("Who is Wilhelmina?")
        session.finish_turn("A walrus.")
    return home


def said(passphrase: str) -> Key:
    return Key(passphrase=lambda: passphrase)


@pytest.mark.proves("backup.encrypted")
def test_a_backup_with_a_passphrase_comes_back_with_it_only(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hermes: Callable[..., Ran]
) -> None:
    """Each passphrase is made into a key slowly, on purpose: so one backup is made, and opened as rarely as will do."""
    out = tmp_path / "backup.zip.age"
    words = ("--home", str(home), "backup", "create", "--encrypt", "--out", str(out))
    assert "set HERMES_PASSPHRASE" in hermes(*words).err
    monkeypatch.setenv("HERMES_PASSPHRASE", "correct horse")
    assert hermes(*words).code == 0
    assert is_encrypted(str(out))
    assert ArchiveReader.is_archive(str(out))
    assert b"MEMORY" not in out.read_bytes()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))  # a temporary file would be an error
    assert "every checksum matches" in hermes("--home", str(home), "backup", "verify", str(out)).out
    restore_backup(str(out), str(tmp_path / "back"), key=said("correct horse"))
    assert MemoryStore.open(tmp_path / "back").entries("memory") == (FACT,)
    for key, why in ((said("wrong"), "the passphrase is wrong"), (None, "is encrypted")):
        with pytest.raises(StorageError, match=why):
            restore_backup(str(out), str(tmp_path / "other"), key=key)
    assert not (tmp_path / "other").exists()


@pytest.mark.proves("backup.encrypted")
def test_an_export_for_a_recipient_is_opened_with_the_secret_key(home: Path, tmp_path: Path) -> None:
    secret = pyrage.x25519.Identity.generate()
    (tmp_path / "key.txt").write_text(f"# my key\n{secret}\n")
    (tmp_path / "other.txt").write_text(f"{pyrage.x25519.Identity.generate()}\n")
    out = str(tmp_path / "export.zip.age")
    export_home(str(home), out, Selection(), lock=Lock(recipients=[str(secret.to_public())]))
    with pytest.raises(SettingsError, match="--identity"):
        import_home(out, str(tmp_path / "back"), key=said(""))
    with pytest.raises(DamagedFile, match=r"other.txt has no key of a recipient"):
        import_home(out, str(tmp_path / "back"), key=Key(passphrase=str, identity=str(tmp_path / "other.txt")))
    key = Key(passphrase=str, identity=str(tmp_path / "key.txt"))
    assert import_home(out, str(tmp_path / "back"), key=key).messages == 2
    assert MemoryStore.open(tmp_path / "back").entries("memory") == (FACT,)
    assert not import_home(out, str(tmp_path / "back"), key=key).changed


@pytest.mark.proves("backup.encrypted")
def test_one_altered_byte_of_an_encrypted_backup_is_noticed(home: Path, tmp_path: Path) -> None:
    secret = pyrage.x25519.Identity.generate()
    (tmp_path / "key.txt").write_text(f"{secret}\n")
    out = tmp_path / "backup.zip.age"
    create_backup(str(home), str(out), lock=Lock(recipients=[str(secret.to_public())]))
    data = bytearray(out.read_bytes())
    data[-100] ^= 1
    out.write_bytes(data)
    with pytest.raises(DamagedFile, match="or the file was altered"):
        verify_backup(str(out), Key(passphrase=str, identity=str(tmp_path / "key.txt")))


@pytest.mark.proves("backup.encrypted")
def test_encrypted_backups_are_listed_and_pruned_without_their_key(home: Path) -> None:
    secret = pyrage.x25519.Identity.generate()
    for _ in range(3):
        create_backup(str(home), lock=Lock(recipients=[str(secret.to_public())]))
    assert [backup.why for backup in list_backups(str(home))] == ["encrypted"] * 3
    assert len(prune_backups(str(home), 1)) == 2


@pytest.mark.proves("backup.encrypted")
def test_a_name_says_whether_an_archive_is_encrypted(home: Path, tmp_path: Path) -> None:
    for name, lock in (("a.zip", Lock(passphrase="x")), ("a.zip.age", None)):
        with pytest.raises(StorageError, match=r"name that ends with \.zip\.age"):
            create_backup(str(home), str(tmp_path / name), lock=lock)
    with pytest.raises(SettingsError, match="not a public key of age"):
        create_backup(str(home), str(tmp_path / "a.zip.age"), lock=Lock(recipients=["age1nonsense"]))
    assert not list(tmp_path.glob("a.zip*"))
