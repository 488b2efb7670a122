"""Curated memory in Honcho: each entry is a conclusion, kept once and withdrawn when the entry goes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hermes.providers.config import read_config, save_config
from hermes.providers.service import clean, digest
from hermes.storage.files import Folder

if TYPE_CHECKING:
    from hermes.providers.honcho_api import Honcho
    from hermes.providers.honcho_names import Peers

EVERYTHING = 1_000_000
_KEPT = "honcho_conclusions"  # the file that says which conclusion stands for which entry
_BETWEEN = "\n§\n"
_LARGEST_FILE = 4 << 20


class CuratedEntries:
    """`shared` says that one person has the whole memory, so that notes are the assistant's own."""

    def __init__(self, api: Honcho, peers: Peers, hermes_home: str, *, shared: bool) -> None:
        self._api = api
        self._peers = peers
        self._home = hermes_home
        self._shared = shared

    def upload_once(self) -> None:
        """The entries that were there before Honcho, once and never again, whatever is deleted later."""
        mark = f"uploaded {self._api.workspace} {self._peers.user}"
        if read_config(_KEPT, self._home).get(mark):
            return
        for target, file in (("user", "USER.md"), ("memory", "MEMORY.md")):
            self.keep(target, _entries(os.path.join(self._home, "memories"), file))
        save_config(_KEPT, self._home, {mark: True})

    def keep(self, target: str, entries: list[str]) -> None:
        """Keeps entries as conclusions, except those that are there already."""
        known = read_config(_KEPT, self._home)
        left = [entry for entry in dict.fromkeys(entries) if self._named(target, entry) not in known]
        if not left:
            return
        observer, observed = self._pair(target)
        found = self._api.conclusions(observer, observed, most=EVERYTHING)
        there = {each["content"]: str(each["id"]) for each in found}
        new = [entry for entry in left if entry not in there]
        if new:
            self._api.ensure_peers(self._peers.observed)
            there |= dict(zip(new, self._api.conclude(new, observer, observed), strict=True))
        save_config(_KEPT, self._home, {self._named(target, entry): there[entry] for entry in left})

    def withdraw(self, target: str, entry: str) -> None:
        """Deletes the conclusion that stands for an entry, and any other that says just the same."""
        observer, observed = self._pair(target)
        name = self._named(target, entry)
        known = read_config(_KEPT, self._home).get(name)
        near = self._api.conclusions(observer, observed, entry)
        same = [str(each["id"]) for each in near if each["content"] == entry]
        for conclusion_id in dict.fromkeys([*([str(known)] if known else []), *same]):
            self._api.drop_conclusion(conclusion_id)
        save_config(_KEPT, self._home, {name: None})

    def _named(self, target: str, text: str) -> str:
        whose = f"{self._api.workspace}\n{self._peers.user}\n{text}"
        return f"{target}-{digest(whose)}"

    def _pair(self, target: str) -> tuple[str, str]:
        """Who knows it, about whom. What was noted for one person among many stays with that person."""
        peer = self._peers.ai if target != "user" and self._shared else self._peers.user
        return self._peers.observer_of(peer), peer


def knows_entries(hermes_home: str) -> bool:
    """Whether Honcho was ever told anything from this home."""
    return bool(read_config(_KEPT, hermes_home))


def _entries(folder_path: str, name: str) -> list[str]:
    folder = Folder.open(folder_path)
    if folder is None:
        return []
    with folder:
        data = folder.read(name, at_most=_LARGEST_FILE) or b""
    return [text for each in data.decode("utf-8", "replace").split(_BETWEEN) if (text := clean(each))]
