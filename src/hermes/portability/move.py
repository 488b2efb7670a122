"""Copies a person's data from one storage engine to another, verifies it, and continues after an interruption.

Keys, ids, checksums and images stay the same, so that references to messages stay valid. Nothing is removed from the
source. A second run copies only what is missing or differs.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
import zlib
from functools import partial
from typing import TYPE_CHECKING

from hermes.base.errors import StorageError
from hermes.base.values import value
from hermes.conversations.database import Pages, SessionDB
from hermes.conversations.receipts import KEY_FILE
from hermes.memory.reminders import FILE as REMINDERS
from hermes.memory.rules import FILE as RULES
from hermes.settings.config import storage_address, whose
from hermes.settings.home import DATABASE, PEOPLE, Home
from hermes.settings.people import FILE as KEYS
from hermes.settings.people import OWNER, People
from hermes.storage.documents import LocalDocuments
from hermes.storage.engines import copy_ledger, open_ledger
from hermes.storage.files import make_private_folders
from hermes.storage.images import IMAGES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from hermes.storage.conversations import Conversations
    from hermes.storage.ports import DocumentFolder, Documents

_IMAGES_AT_ONCE = 16  # per transaction, because all of them are in memory
_LARGEST_IMAGE = 1 << 30


@value
class Moved:
    """What the target holds now, and how much of it this run copied."""

    sessions: int
    messages: int
    copied: int
    images: int


def move(source: SessionDB, target: SessionDB, progress: Callable[[int, int], object]) -> Moved:
    """Copies every conversation and image of a person and compares them; raises if the target holds other data.

    `progress` receives how many sessions are done, and how many there are.
    """
    if target.store.has_others():
        raise StorageError(f"{target.path} holds conversations of other owners; move into a separate file")
    keys = [session.key for session in Pages.of_db(source).sessions()]
    if strange := sorted({session.key for session in Pages.of_db(target).sessions()} - set(keys)):
        raise StorageError(
            f"{target.path} holds {len(strange)} sessions of this person that {source.path} does not have; nothing was "
            "moved: delete them, or move the other way"
        )
    messages = copied = 0
    for done, key in enumerate(keys):
        progress(done, len(keys))
        count, new = _bring(source.store, target.store, key)
        messages += count
        copied += new
    progress(len(keys), len(keys))
    images = _bring_images(source.store, target.store)
    with target.store.transaction():
        for name, kept in source.store.meta_from(""):
            target.store.set_meta(name, kept)
        target.store.imports.put_numbers_back(source.store.imports.numbers())
    target.index()
    target.sync()
    for problem in differences(source, target):  # the first one is enough
        raise StorageError(f"{problem}; the source changed during the copy: run the same command again")
    return Moved(sessions=len(keys), messages=messages, copied=copied, images=images)


def differences(source: SessionDB, target: SessionDB) -> Iterator[str]:
    """Yields a sentence for every difference between the source and the target.

    Notes and images that only the target has do not count.
    """
    keys = [[session.key for session in Pages.of_db(each).sessions()] for each in (source, target)]
    if keys[0] != keys[1]:
        yield f"{source.path} has {len(keys[0])} sessions, {target.path} {len(keys[1])}"
    for key in set(keys[0]) & set(keys[1]):
        if source.store.whole(key) != target.store.whole(key):
            yield f"session {key} differs between {source.path} and {target.path}"
    if not set(_notes(source)) <= set(_notes(target)):
        yield f"{target.path} lacks notes that {source.path} has"
    missing = set(source.store.images.blobs.names()) - set(target.store.images.blobs.names())
    if missing:
        yield f"{len(missing)} images are not in {target.path}"


def move_person(home: Home, address: str, *, there: bool, progress: Callable[[int, int], object]) -> dict[str, int]:
    """Moves one person's data from a home's files to a database (`there`), or back; returns counts for a report."""
    from hermes.storage.postgres.documents import PostgresDocuments  # loads an optional library

    local, remote = {"path": home.join(DATABASE), "owner": "local"}, {"path": address, "owner": whose(home)}
    moved = Moved(sessions=0, messages=0, copied=0, images=0)
    if not there or os.path.exists(local["path"]):
        first, second = (local, remote) if there else (remote, local)
        with (
            SessionDB.open(first["path"], owner=first["owner"]) as source,
            SessionDB.open(second["path"], owner=second["owner"]) as target,
        ):
            moved = move(source, target, progress)
    rows, (files, names) = PostgresDocuments(address, whose(home)), documents_in(home)
    # Documents below gateway/ and leases describe what runs now; they mean nothing in the files.
    stored = [name for name in rows.every() if not name.startswith((f"{_GATEWAY}/", "."))]
    held, new = move_documents(files, names, rows) if there else move_documents(rows, stored, files)
    messages = _move_ledger(home, address, there=there)
    return {**vars(moved), "documents": held, "documents_copied": new, "gateway_messages": messages}


def _move_ledger(home: Home, address: str, *, there: bool) -> int:
    """Copies unanswered messages, chats and paired accounts of a gateway, if one ever ran; returns their number."""
    path = home.join(_GATEWAY, "gateway.db")
    if home.above or (there and not os.path.exists(path)):
        return 0
    rows = open_ledger(path, address, whose(home))
    if not there and not rows.rows("SELECT 1 FROM inbox UNION ALL SELECT 1 FROM links LIMIT 1"):
        return 0
    with contextlib.closing(open_ledger(path, "", "")) as files, contextlib.closing(rows):
        return copy_ledger(files, rows) if there else copy_ledger(rows, files)


def homes_below(home: Home) -> Iterator[Home]:
    """Yields the home, then the homes of its people.

    The list of people is read after the home has been yielded, because moving the home may bring that list.
    """
    yield home
    if not home.above and not home.profile:
        people = People(home)
        for person in people.all():
            if person.name != OWNER:
                make_private_folders(home.join(PEOPLE, person.name))
                yield people.home_of(person.name)


@contextlib.contextmanager
def at_hand(home: Home) -> Iterator[str]:
    """Yields a folder with the whole home as files, for exports and backups.

    It is the home itself unless a database holds some of its data; then it is a temporary copy with all of it.
    """
    address = storage_address(home)
    if not address:
        yield home.path
        return
    with tempfile.TemporaryDirectory(prefix="hermes-fetched-") as place:
        copy = os.path.join(place, "home")
        shutil.copytree(home.path, copy, symlinks=True, ignore=partial(_taken_over, home))
        for each in homes_below(home):
            path = os.path.join(copy, os.path.relpath(each.path, home.path))
            make_private_folders(path)
            person = Home(
                path=os.path.normpath(path), root=copy, profile=each.profile, above=copy if each.above else ""
            )
            move_person(person, address, there=False, progress=lambda *_: None)
            os.unlink(os.path.join(path, _MOVED))
        yield copy


def _taken_over(home: Home, place: str, names: list[str]) -> list[str]:
    """Names that are not copied, because the database has newer data.

    Settings, plug-ins and identity exist only as files.
    """
    if place != home.path and os.path.dirname(place) != home.join(PEOPLE):
        return []
    return [name for name in names if name in _TAKEN_OVER or name.startswith(DATABASE)]


# Documents: memory, approvals, skills, queues, keys.

_FOLDERS = ("memories", "projects", "pending", "curator", "trust", "outbox", "skills", "backups/curator")
_FILES = (KEYS, KEY_FILE, RULES, REMINDERS)
_GATEWAY = "gateway"
_TAKEN_OVER = (_GATEWAY, *(name.partition("/")[0] for name in _FOLDERS), *_FILES, IMAGES, "cache", "logs")
_MOVED = ".moved.json"  # at the target: checksums of what was copied, to tell it from what was written there
_LARGEST = 1 << 30
_WAIT = 30.0  # seconds, for another move of the same documents
_MOST_NAMED = 5  # documents in an error message


def documents_in(home: Home) -> tuple[LocalDocuments, list[str]]:
    """The documents among the files of a home, and their names."""
    documents = LocalDocuments(home.path)
    names = [name for name in _FILES if os.path.isfile(home.join(name))]
    for folder in _FOLDERS:
        names += [f"{folder}/{name}" for name in documents.below(folder).every()]
    return documents, sorted(names)


def left_behind(home: Home, address: str) -> int:
    """Number of documents of a home that were never moved to the database; skills always stay files."""
    from hermes.storage.postgres.documents import PostgresDocuments  # loads an optional library

    if _document(PostgresDocuments(address, whose(home)), _MOVED) is not None:
        return 0
    return sum(not name.startswith("skills/") for name in documents_in(home)[1])


def move_documents(source: Documents, names: Iterable[str], target: Documents) -> tuple[int, int]:
    """Copies the documents and compares them; returns how many there are and how many this run copied.

    Never overwrites what was written at the target since the last copy: in that case nothing is copied.
    """
    wanted = {name: data for name in names if name != _MOVED and (data := _document(source, name)) is not None}
    with target.create() as folder, folder.lock(f"{_MOVED}.lock", timeout=_WAIT):
        # Both sides know what an earlier move copied; after a move back, the newer record is on the other side.
        agreed = [json.loads(_document(each, _MOVED) or b"{}") for each in (source, target)]
        known = {*wanted, *agreed[0], *agreed[1]}
        there = {name: data for name in known if (data := _document(target, name)) is not None}
        old = {name for name, data in there.items() if zlib.crc32(data) in [each.get(name) for each in agreed]}
        changed = [name for name, data in wanted.items() if there.get(name) != data]
        if own := sorted(name for name in changed if name in there and name not in old):
            raise StorageError(
                f"{target.path} holds versions of {', '.join(own[:_MOST_NAMED])} that did not come from "
                f"{source.path} ({len(own)} in all); no document was moved: move the other way, or remove them there"
            )
        for name in changed:
            with _folder_of(target, name) as place:
                place.replace(os.path.basename(name), wanted[name])
        for name in old - wanted.keys():  # removed at the source since the last copy
            with _folder_of(target, name) as place:
                place.remove(os.path.basename(name))
        folder.replace(_MOVED, json.dumps({name: zlib.crc32(data) for name, data in wanted.items()}).encode())
    for name in wanted:
        if _document(target, name) != _document(source, name):
            raise StorageError(
                f"{name} differs at {target.path}; it changed during the copy: run the same command again"
            )
    return len(wanted), len(changed)


def _folder_of(documents: Documents, name: str) -> DocumentFolder:
    above = os.path.dirname(name)
    return (documents.below(above) if above else documents).create()


def _document(documents: Documents, name: str) -> bytes | None:
    """The document; None if it does not exist or is a log without records."""
    above, _, last = name.rpartition("/")
    folder = (documents.below(above) if above else documents).open()
    if folder is None:
        return None
    with folder:
        data = folder.read(last, at_most=_LARGEST)
    return None if last.endswith(".jsonl") and not data else data


def _bring(source: Conversations, target: Conversations, key: int) -> tuple[int, bool]:
    """Copies a session unless the target has exactly this one; returns its messages and whether it was copied."""
    whole = source.whole(key)
    there = key in target.by_keys([key])
    if there and target.whole(key) == whole:
        return len(whole.messages), False
    with target.transaction():
        if there:  # it grew since an earlier run
            target.delete(key)
        target.put(whole)
    return len(whole.messages), True


def _bring_images(source: Conversations, target: Conversations) -> int:
    names = sorted(set(source.images.blobs.names()) - set(target.images.blobs.names()))
    for at in range(0, len(names), _IMAGES_AT_ONCE):
        found = ((name, source.images.blobs.read(name, _LARGEST_IMAGE)) for name in names[at : at + _IMAGES_AT_ONCE])
        with target.transaction():
            target.images.blobs.put([(name, data) for name, data in found if data is not None])
    return len(names)


def _notes(db: SessionDB) -> list[tuple[str, str]]:
    return [(name, repr(kept)) for name, kept in db.store.meta_from("")]
