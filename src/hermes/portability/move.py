"""Moves a person's conversations from one storage engine to another: verified, and gone on with after an interruption.

Keys, ids, checksums and images stay as they are, so everything that names a message still finds it. Nothing is removed
where it was. A second run copies only what is missing or differs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes.base.errors import StorageError
from hermes.base.values import value
from hermes.conversations.database import Pages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hermes.conversations.database import SessionDB
    from hermes.storage.ports import Conversations

_IMAGES_AT_ONCE = 16
_LARGEST_IMAGE = 1 << 30


@value
class Moved:
    """What is at the target now, and how much of it this run brought."""

    sessions: int
    messages: int
    copied: int
    images: int


def move(source: SessionDB, target: SessionDB, progress: Callable[[int, int], object]) -> Moved:
    """Copies everything and compares it; raises when the target has something else."""
    if target.store.has_others():
        raise StorageError(f"{target.path} holds conversations of other owners; move into a file of its own")
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
        target.store.undo.put_numbers_back(source.store.undo.numbers())
    target.index()
    target.sync()
    for problem in differences(source, target):
        raise StorageError(f"{problem}; it changed meanwhile: run the same command again")
    return Moved(sessions=len(keys), messages=messages, copied=copied, images=images)


def differences(source: SessionDB, target: SessionDB) -> Iterator[str]:
    """What the target does not have exactly as the source has it."""
    keys = [[session.key for session in Pages.of_db(each).sessions()] for each in (source, target)]
    if keys[0] != keys[1]:
        yield f"{source.path} has {len(keys[0])} sessions, {target.path} {len(keys[1])}"
    for key in set(keys[0]) & set(keys[1]):
        if source.store.copies.session(key) != target.store.copies.session(key):
            yield f"session {key} differs between {source.path} and {target.path}"
    if not set(_notes(source)) <= set(_notes(target)):
        yield f"{target.path} lacks notes that {source.path} has"
    missing = set(source.store.images.blobs.names()) - set(target.store.images.blobs.names())
    if missing:
        yield f"{len(missing)} images are not in {target.path}"


def _bring(source: Conversations, target: Conversations, key: int) -> tuple[int, bool]:
    whole = source.copies.session(key)
    there = key in target.by_keys([key])
    if there and target.copies.session(key) == whole:
        return len(whole.messages), False
    with target.transaction():
        if there:  # it went on since an earlier run
            target.delete(key)
        target.copies.put(whole)
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
