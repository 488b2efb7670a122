"""Forgets a person: removes all their data, and then checks that none of their words remain in any other file."""

from __future__ import annotations

import contextlib
import os
import shutil
import tarfile
import zipfile
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hermes.base.errors import HermesError
from hermes.conversations.database import Pages
from hermes.memory.file import PROJECTS
from hermes.memory.store import MemoryStore
from hermes.session.external import chosen_providers
from hermes.session.parts import open_past
from hermes.settings.config import conversations_of, load_settings
from hermes.settings.home import PEOPLE
from hermes.settings.people import LEAVING
from hermes.storage.engines import forget_conversations
from hermes.storage.files import explained

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hermes.settings.home import Home
    from hermes.settings.people import People

_SHORTEST, _LONGEST = 18, 60  # characters of a phrase that is looked for
_MOST_PHRASES = 200  # each is looked for in every file, so their number decides how long the search takes
_PIECE = 8 << 20
_ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.xz")


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """What is removed, what external providers did, and which files still contain words of the person.

    Before it is `done`, the same as a preview.
    """

    name: str
    done: bool
    entries: int = 0
    conversations: int = 0
    messages: int = 0
    files: int = 0
    bytes: int = 0
    keys: int = 0
    providers: list[str] = field(default_factory=list)
    searched_phrases: int = 0
    searched_files: int = 0
    elsewhere: list[str] = field(default_factory=list)  # files outside the home that hold words of the person
    words: dict[str, str] = field(default_factory=dict)  # one phrase that each of them holds; before it is done only
    archives: list[str] = field(default_factory=list)  # backups that hold the person's home
    problems: list[str] = field(default_factory=list)


def rehearse(people: People, name: str) -> Forgotten:
    """What `forget` would remove, and which other files contain words of the person; changes nothing."""
    return _look(people, name)[0]


def forget(people: People, name: str) -> Forgotten:
    """Removes the person and all their data, then searches every remaining file for their words."""
    plan, phrases = _look(people, name)
    home = people.home_of(name)
    # Providers first: their settings and keys are in the home. `remove` renames the folder, so that after a kill
    # `finish_removals` finds what is left.
    providers = list(_erase_outside(home))
    forget_conversations(**conversations_of(home))
    _remove_tree(people.remove(name))
    searched, found = _search(people.home, phrases, without="")
    return replace(plan, done=True, providers=providers, searched_files=searched, elsewhere=list(found), words={})


def finish_removals(home: Home) -> int:
    """Removes what an interrupted `forget` left behind; returns how many people that were."""
    folder = os.path.join(home.path, PEOPLE)
    names = os.listdir(folder) if os.path.isdir(folder) else []
    leaving = [name for name in names if name.startswith(LEAVING)]
    for name in leaving:
        _remove_tree(os.path.join(folder, name))
    return len(leaving)


def _look(people: People, name: str) -> tuple[Forgotten, list[bytes]]:
    person = people.get(name)
    home = people.home_of(name)
    problems: list[str] = []
    entries = list(_entries(home, problems))
    conversations, messages, texts = _conversations(home, problems)
    phrases = _phrases([*entries, *texts])
    searched, found = _search(people.home, phrases, without=home.path)
    files = list(_files(home.path))
    plan = Forgotten(
        name=name,
        done=False,
        entries=len(entries),
        conversations=conversations,
        messages=messages,
        files=len(files),
        bytes=sum(os.lstat(file).st_size for file in files),
        keys=len(person.keys),
        providers=[f"{each}: would be asked to delete what it keeps" for each in chosen_providers(load_settings(home))],
        searched_phrases=len(phrases),
        searched_files=searched,
        elsewhere=list(found),
        words={path: phrase.decode("utf-8", "replace") for path, phrase in found.items()},
        archives=_archives_with(people.home, name),
        problems=problems,
    )
    return plan, phrases


def _erase_outside(home: Home) -> Iterator[str]:
    """Asks each provider in use to delete what it keeps elsewhere; yields a line for each, also if it fails."""
    from hermes.providers.discovery import in_passing, open_provider

    settings = load_settings(home)
    for name in chosen_providers(settings):
        try:
            with in_passing(open_provider(home, settings, name)) as provider:
                provider.initialize("forgetting", hermes_home=home.path, platform="cli", user_id=home.person)
                try:
                    done = provider.forget_person() if hasattr(provider, "forget_person") else ""
                finally:
                    provider.shutdown()
        except Exception as error:  # noqa: BLE001 - other people's code
            yield f"{name}: could NOT delete it ({error}); delete what it keeps about {home.person} there"
        else:
            yield f"{name}: {done or f'cannot delete by itself; if it is a service, delete {home.person} there'}"


def _entries(home: Home, problems: list[str]) -> Iterator[str]:
    """Yields every entry there is or ever was, so that old versions are looked for as well."""
    try:
        for project in ("", *_projects(home)):
            store = MemoryStore.open(home, project=project)
            for target in ["project"] if project else store.targets:
                seen = dict.fromkeys(store.entries(target))
                for change in store.history(target)[0]:
                    seen |= dict.fromkeys((*change.added(), *change.removed()))
                yield from seen
    except HermesError as error:
        problems.append(str(error))


def _projects(home: Home) -> list[str]:
    folder = home.join(PROJECTS)
    return sorted(os.listdir(folder)) if os.path.isdir(folder) else []


def _conversations(home: Home, problems: list[str]) -> tuple[int, int, list[str]]:
    texts: list[str] = []
    conversations = messages = 0
    try:
        db = open_past(home)
        if db is None:
            return 0, 0, []
        with db:
            pages = Pages.of_db(db)
            for session in pages.sessions():
                conversations += 1
                for stored in pages.messages(session):
                    messages += 1
                    content = stored.message.get("content")
                    if isinstance(content, str) and stored.message.get("role") in ("user", "assistant"):
                        texts.append(content)
    except HermesError as error:
        problems.append(str(error))
    return conversations, messages, texts


def _phrases(texts: list[str]) -> list[bytes]:
    """Lines long enough to be nobody else's by chance, picked evenly from everything the person wrote."""
    lines = dict.fromkeys(line.strip()[:_LONGEST] for text in texts for line in text.splitlines())
    long = [line for line in lines if len(line) >= _SHORTEST]
    step = max(1, -(-len(long) // _MOST_PHRASES))
    return [line.encode("utf-8", "replace") for line in long[::step]]


def _search(home: Home, phrases: list[bytes], *, without: str) -> tuple[int, dict[str, bytes]]:
    """How many files were read, and which of them hold one of the phrases: the first that was found."""
    found = {}
    count = 0
    overlap = 4 * _LONGEST  # a phrase may be cut by the border of a piece; a character has at most four bytes
    for path in _files(home.path):
        if without and path.startswith(without + os.sep):
            continue
        count += 1
        with open(path, "rb") as file:
            tail = b""
            while piece := file.read(_PIECE):
                data = tail + piece
                if held := next((phrase for phrase in phrases if phrase in data), b""):
                    found[path] = held
                    break
                tail = data[-overlap:]
    return count, found


def _files(folder: str) -> Iterator[str]:
    """Yields every regular file below a folder; links are not followed."""
    for path, _, names in os.walk(folder, followlinks=False):
        for name in names:
            file = os.path.join(path, name)
            if os.path.isfile(file) and not os.path.islink(file):
                yield file


def _archives_with(home: Home, name: str) -> list[str]:
    return [file for file in _files(home.path) if file.endswith(_ARCHIVES) and _holds(file, f"{PEOPLE}/{name}/")]


def _holds(archive: str, folder: str) -> bool:
    try:
        if archive.endswith(".zip"):
            with zipfile.ZipFile(archive) as opened:
                names = opened.namelist()
        else:
            with tarfile.open(archive) as unpacked:
                names = unpacked.getnames()
    except (OSError, zipfile.BadZipFile, tarfile.TarError, EOFError):
        return False
    return any(folder in f"{name}/" for name in names)


def _remove_tree(path: str) -> None:
    with explained("remove", path), contextlib.suppress(FileNotFoundError):
        shutil.rmtree(path)  # does not follow links, and refuses to start at one
