"""The people of a home: each has a complete home of their own below it, and keys that open it from outside.

A key is 256 random bits, shown once; `users.json` keeps only its SHA-256. A slow hash, as for passwords, would add
nothing: no dictionary contains random keys.
"""

from __future__ import annotations

import hashlib
import json
import os
import time

from hermes.base.errors import DamagedFile, NotFound, SettingsError
from hermes.base.values import value
from hermes.settings.config import documents_of
from hermes.settings.home import PEOPLE, check_name, person_home
from hermes.storage.documents import LocalDocuments
from hermes.storage.files import Folder, keep_private, make_private_folders

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from hermes.settings.home import Home
    from hermes.storage.ports import DocumentFolder

FILE = "users.json"
OWNER = "owner"  # the home itself, which is the operator's
LEAVING = ".leaving-"  # what the folder of a person is called while it is being removed
APPROVE = "approve"  # the right to decide about pending writes; a key that only chats does not have it
_PREFIX = "hk-"  # the scanner recognises keys by it (safety/data/secret-formats.txt), so they are masked in texts
_RANDOM_BYTES = 32
_LARGEST = 16 << 20  # bytes of users.json
_LOCK_TIMEOUT = 5  # seconds


@value
class Key:
    """The stored record of a key: enough to recognise and to revoke it, not to use it."""

    id: str
    digest: str
    made: float
    label: str = ""
    rights: tuple[str, ...] = ()


@value
class Person:
    """One entry of the list: somebody with a home of their own and any number of keys."""

    name: str
    added: float
    keys: tuple[Key, ...] = ()
    note: str = ""


@value
class _Known:
    """The list as it was read, with the stamp of the file it was read from."""

    stamp: tuple[int, ...] | None
    people: dict[str, Person]
    by_digest: dict[str, tuple[str, Key]]


_NOBODY = _Known(stamp=None, people={}, by_digest={})


class People:
    """Everybody who has a home below `home`, and its owner. Reads the list again when another process changed it."""

    def __init__(self, home: Home) -> None:
        if home.above:
            raise SettingsError(f"{home.path} is the home of one person; only the home above it has a list of people")
        self.home = home
        self._documents = documents_of(home)
        self._known = _NOBODY

    def all(self) -> list[Person]:
        """Lists everybody by name; the owner is listed once they were given a key."""
        return sorted(self._look_again().people.values(), key=lambda person: person.name)

    def get(self, name: str) -> Person:
        """Gives the record of one person; an unknown name raises `NotFound`."""
        return _known(self._look_again().people, name)

    def home_of(self, name: str) -> Home:
        """Resolves the home of a person; for the owner, the home above all others."""
        if name == OWNER:
            return self.home
        self.get(name)
        self._make_folder(name)
        return person_home(self.home, name)

    def key(self, secret: str) -> tuple[str, Key] | None:
        """Whose key this is, and its record; None for an unknown key."""
        return self._look_again().by_digest.get(_digest(secret))

    def who(self, key: str) -> str | None:
        """Whose key this is; None for everything else."""
        found = self.key(key)
        return found[0] if found else None

    def admits(self, key: str) -> tuple[str, bool] | None:
        """Whose key this is, and whether it may decide about pending writes; None for everything else."""
        found = self.key(key)
        return (found[0], APPROVE in found[1].rights) if found else None

    def may_approve(self, key: str) -> bool:
        """Whether the owner gave this key the right to decide about pending writes."""
        found = self.key(key)
        return found is not None and APPROVE in found[1].rights

    def add(self, name: str, note: str = "") -> Person:
        """Adds a person and makes their home; they have no key yet."""
        check_name(name, "a person's name")
        if name == OWNER:
            raise SettingsError(f"{OWNER!r} is the home itself; give it a key with `hermes users key {OWNER}`")
        person = Person(name=name, added=time.time(), note=note)

        def change(people: dict[str, Person]) -> None:
            if name in people:
                raise SettingsError(f"there is already a person {name!r}; `hermes users key {name}` makes another key")
            people[name] = person

        self._change(change)
        self._make_folder(name, private=True)
        return person

    def _make_folder(self, name: str, *, private: bool = False) -> None:
        """Makes a person's folder; with PostgreSQL it may be missing here, because another server added the person."""
        folder = os.path.join(self.home.path, PEOPLE, name)
        if private or not isinstance(self._documents, LocalDocuments):
            make_private_folders(folder)
            keep_private(folder)

    def make_key(self, name: str, label: str = "", *, rights: tuple[str, ...] = ()) -> tuple[Key, str]:
        """Makes a key; returns its record and the key itself, which cannot be shown again."""
        import base64

        secret = _PREFIX + base64.urlsafe_b64encode(os.urandom(_RANDOM_BYTES)).decode().rstrip("=")
        key = Key(id=os.urandom(4).hex(), digest=_digest(secret), made=time.time(), label=label, rights=rights)

        def change(people: dict[str, Person]) -> None:
            if name == OWNER and name not in people:
                people[name] = Person(name=OWNER, added=time.time())
            person = _known(people, name)
            people[name] = Person(**{**vars(person), "keys": (*person.keys, key)})

        self._change(change)
        return key, secret

    def revoke(self, name: str, key_id: str) -> None:
        """Removes a key; running servers refuse it from then on, because they read a changed list again."""

        def change(people: dict[str, Person]) -> None:
            person = _known(people, name)
            left = tuple(key for key in person.keys if key.id != key_id)
            if len(left) == len(person.keys):
                raise NotFound(f"{name} has no key {key_id[:100]!r}; `hermes users list` shows the keys by their ids")
            people[name] = Person(**{**vars(person), "keys": left})

        self._change(change)

    def remove(self, name: str) -> str:
        """Removes a person with all keys from the list, and moves their folder aside; returns its new path."""
        if name == OWNER:
            raise SettingsError(f"{OWNER!r} is the home itself and cannot be forgotten; its keys can be revoked")

        def change(people: dict[str, Person]) -> None:
            del people[_known(people, name).name]

        self._change(change)  # first, so that no key opens a folder that is about to be removed
        folder = os.path.join(self.home.path, PEOPLE, name)
        aside = os.path.join(self.home.path, PEOPLE, f"{LEAVING}{name}-{os.urandom(4).hex()}")
        with Folder.create(os.path.dirname(folder)) as people:
            if people.status(name) is not None:
                people.rename(name, os.path.basename(aside))
                people.sync()
        return aside

    def _change(self, change: Callable[[dict[str, Person]], None]) -> None:
        """Changes the list under its lock, always starting from what is stored now."""
        with self._documents.create() as folder, folder.lock(f"{FILE}.lock", timeout=_LOCK_TIMEOUT):
            people = _read(folder)
            change(people)
            document = {"version": 1, "people": {name: _to_json(person) for name, person in sorted(people.items())}}
            folder.replace(FILE, json.dumps(document, ensure_ascii=False, indent=1).encode())
        self._known = _NOBODY

    def _look_again(self) -> _Known:
        """The current list; replaced as a whole, so that no thread sees half of a change."""
        folder = self._documents.open()
        if folder is None:
            return _NOBODY
        known = self._known
        with folder:
            stamp = folder.stamp(FILE)
            if stamp == known.stamp:
                return known
            people = _read(folder)
            self._documents.renew()
        by_digest = {key.digest: (person.name, key) for person in people.values() for key in person.keys}
        self._known = known = _Known(stamp=stamp, people=people, by_digest=by_digest)
        return known


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def _known(people: dict[str, Person], name: str) -> Person:
    if name not in people:
        raise NotFound(f"there is no person {name[:100]!r} here; `hermes users list` shows who there is")
    return people[name]


def _read(folder: DocumentFolder) -> dict[str, Person]:
    data = folder.read(FILE, at_most=_LARGEST)
    if data is None:
        return {}
    try:
        people = json.loads(data)["people"]
        return {name: _from_json(name, kept) for name, kept in people.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        # A list that cannot be read lets nobody in, and is never overwritten, which would remove people from it.
        raise DamagedFile(f"{folder.join(FILE)} cannot be understood ({error!r}); restore it from a backup") from error


def _from_json(name: str, kept: dict[str, Any]) -> Person:
    keys = []
    for each in kept["keys"]:
        texts = {field: str(each[field]) for field in ("id", "digest", "label")}
        keys.append(Key(**texts, made=float(each["made"]), rights=tuple(map(str, each.get("rights", ())))))
    return Person(name=name, added=float(kept["added"]), keys=tuple(keys), note=str(kept["note"]))


def _to_json(person: Person) -> dict[str, Any]:
    keys = [{name: each for name, each in vars(key).items() if name != "rights" or each} for key in person.keys]
    return {"added": person.added, "note": person.note, "keys": keys}
