"""Requests that wait for a person: one JSON file each in a private folder, named by an id nobody else chooses."""

from __future__ import annotations

import os

from hermes.storage.files import Folder
from hermes.vocabulary.errors import StorageError, UnsafePath
from hermes.vocabulary.jsontext import decode, encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TypeVar

    Request = TypeVar("Request")

_LARGEST = 1 << 20
_SUFFIX = ".json"


def new_id() -> str:
    return os.urandom(4).hex()


class Waiting:
    def __init__(self, path: str) -> None:
        self._path = path

    def put(self, request_id: str, record: Mapping[str, Any]) -> None:
        """Keeps a request; durable when it returns, and not listed when it raises."""
        with Folder.create(self._path) as folder:
            try:
                folder.replace(request_id + _SUFFIX, encode(record).encode())
            except StorageError as error:
                _take_back(folder, request_id, error)
                raise

    def all(self, read: Callable[[str, dict[str, Any]], Request]) -> tuple[list[Request], list[str]]:
        """What `read` makes of each id and record, and the files that it could not understand."""
        folder = Folder.open(self._path)
        if folder is None:
            return [], []
        found, unreadable = [], []
        with folder:
            folder.discard_abandoned()
            for name in folder.names():
                if name.endswith(_SUFFIX) and not name.startswith("."):
                    try:
                        record = decode(folder.read(name, at_most=_LARGEST) or b"")
                        # Never the id inside, which somebody could have made a path.
                        found.append(read(name.removesuffix(_SUFFIX), record))
                    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, UnsafePath):
                        unreadable.append(folder.join(name))
        return found, unreadable

    def drop(self, request_id: str) -> None:
        with Folder.create(self._path) as folder:
            folder.remove(request_id + _SUFFIX)
            try:
                folder.sync()
            except StorageError as error:
                raise StorageError(
                    f"{error}; {request_id} is gone from the list, which could not be taken back"
                ) from error


def _take_back(folder: Folder, request_id: str, error: StorageError) -> None:
    """Removes a request that may be in place and only not durable."""
    try:
        folder.remove(request_id + _SUFFIX)
    except StorageError:
        raise StorageError(f"{error}; {request_id} may be listed all the same, it could not be taken back") from error
