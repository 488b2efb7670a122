"""Adds an export to a home that has content of its own: entries pass the scanner, and nothing is added twice."""

from __future__ import annotations

import base64
import os
from functools import partial
from typing import TYPE_CHECKING, Any

from hermes.base.errors import DamagedFile
from hermes.compaction.messages import renumbered
from hermes.conversations.context import ORDER
from hermes.conversations.database import SessionDB
from hermes.conversations.receipts import KEY_FILE, ReceiptKeys, keys_in, vouched
from hermes.memory.entries import decode, from_record, in_effect, parse, provenance
from hermes.memory.file import FILES, FOLDER
from hermes.memory.store import TARGETS
from hermes.portability.conversations_import import Importer, Places
from hermes.portability.hermes_agent import open_for_import
from hermes.portability.home import CONVERSATIONS, HOME, as_line, check_format, records
from hermes.portability.plan import MIGRATED, SKIPPED, Item, Planner, new_report
from hermes.settings.config import load_settings
from hermes.settings.home import DATABASE
from hermes.storage.documents import LocalDocuments, history_name, records_in
from hermes.storage.images import IMAGES
from hermes.storage.records import BLOCK

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hermes.compaction.messages import NewIds
    from hermes.portability.archive import ArchiveReader
    from hermes.portability.exchange import HomeCopy
    from hermes.portability.plan import Options, Report
    from hermes.settings.home import Home

NAME = "export"
_LARGEST = 64 << 20
_OWN = "local"  # never import the conversations of a gateway's other people
_TAKEN = ("skills/", "SOUL.md", "pending/")


class MergeExport:
    """Plans to add memory, conversations and skills of the archive; its people and profiles are not added."""

    def __init__(self, home: Home, reader: ArchiveReader, options: Options) -> None:
        self._home = home
        self._reader = reader
        self._options = options

    def plan(self) -> Report:
        check_format(self._reader)
        self._reader.verify()
        report = new_report(self._home, NAME, os.path.abspath(self._reader.path), self._options)
        planner = Planner(self._home, report, load_settings(self._home))
        report.items += [*self._memory(planner), *self._files(), *self._conversations()]
        return report

    def _memory(self, planner: Planner) -> Iterator[Item]:
        for target in TARGETS:
            path = f"{HOME}/{FOLDER}/{FILES[target]}"
            if path in self._reader.entries:
                found = parse(decode(self._read(path)).text)
                yield planner.memory(target, target, path, found, origins=self._origins(path, found))

    def _origins(self, path: str, entries: Sequence[str]) -> dict[str, str]:
        """The origins of entries, from the history beside them if there is one."""
        history = history_name(path)
        if history not in self._reader.entries:
            return {}
        try:
            changes = [from_record(record) for record in records_in(self._read(history))[0]]
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedFile(f"{history} in the archive is not a history of memory ({error!r})") from error
        return {entry: known.origin for entry, known in provenance(entries, in_effect(changes, None)).items()}

    def _files(self) -> Iterator[Item]:
        for path, entry in self._reader.entries.items():
            inside = path.removeprefix(f"{HOME}/")
            if not path.startswith(f"{HOME}/") or not inside.startswith(_TAKEN) or entry.bytes > _LARGEST:
                continue
            item = Item(kind="file", source=path, destination=self._home.join(*inside.split("/")))
            if os.path.lexists(item.destination):
                same = os.path.isfile(item.destination) and self._same(item.destination, path)
                item.status = SKIPPED if same or not self._options.overwrite else MIGRATED
                item.reason = "it is there already" if same else "another file is there; --overwrite replaces it"
            else:
                item.status = MIGRATED
            if item.status == MIGRATED:
                item.act = partial(self._write, path, inside, 0o700 if entry.executable else 0o600)
            yield item

    def _write(self, path: str, inside: str, mode: int, copy: HomeCopy) -> None:
        copy.write(self._read(path), inside, mode=mode)

    def _conversations(self) -> Iterator[Item]:
        path = f"{HOME}/{CONVERSATIONS}"
        if path not in self._reader.entries:
            return
        target = self._home.join(DATABASE)
        item = Item(kind="sessions", source=path, destination=target, last=True)
        note = f"imported:export:{self._reader.entries[path].sha256}"
        if os.path.exists(target):
            with SessionDB.open(target) as there:
                if there.get_meta(note) is not None:
                    item.reason = "every conversation is there already"
                    yield item
                    return
        item.status = MIGRATED

        def act(copy: HomeCopy) -> None:
            keys = ReceiptKeys(LocalDocuments(copy.path))
            if f"{HOME}/{KEY_FILE}" in self._reader.entries:
                keys.accept(self._keys())

            def moved(message: Mapping[str, Any], new_ids: NewIds) -> dict[str, Any]:
                return vouched(message, renumbered(message, new_ids), keys)

            with open_for_import(target, copy) as db:
                result = Importer(db, source=NAME, renumbered=moved).take(enumerate(self._plain(path), 1))
                db.set_meta(note, "1")
            item.details |= {"sessions": result.sessions, "messages": result.messages, "known": result.already_there}
            item.details["differing"] = result.bad_lines

        item.act = act
        yield item

    def _keys(self) -> list[str]:
        """The keys that verify the receipts of the archive's conversations."""
        try:
            return keys_in(self._read(f"{HOME}/{KEY_FILE}"))
        except ValueError as error:
            raise DamagedFile(f"{KEY_FILE} in the archive cannot be read ({error}); use another copy") from error

    def _plain(self, path: str) -> Iterator[bytes]:
        """The lines as `hermes sessions import` reads them: the person's own, without undone messages."""
        own, moved = False, _Moved()
        for record in records(self._reader, path):
            if record["type"] == "session":
                own, moved = record.get("owner") == _OWN, _Moved()
                if own:
                    yield as_line(record)
            elif own and record["type"] == "message" and moved.goes_along(record):
                message: dict[str, Any] = {"timestamp": record["at"], **record["message"]}
                if isinstance(message.get(IMAGES), list):
                    message[IMAGES] = [self._image(each) for each in message[IMAGES]]
                if ORDER in message:
                    message[ORDER] = moved.places.order(message[ORDER])
                yield as_line({**record, "message": message})

    def _image(self, entry: Any) -> Any:
        """An image of a message with its bytes, which are a separate file in the archive."""
        path = f"{HOME}/{IMAGES}/{entry.get('file')}" if isinstance(entry, dict) else ""
        if path not in self._reader.entries or self._reader.entries[path].bytes > _LARGEST:
            return entry
        return {**entry, "data": base64.b64encode(self._read(path)).decode()}

    def _read(self, path: str) -> bytes:
        return b"".join(self._reader.read(path))

    def _same(self, there: str, path: str) -> bool:
        with open(there, "rb") as file:
            return file.read() == self._read(path)


class _Moved:
    """Maps the places of a session's messages to their places without the messages that were undone."""

    def __init__(self) -> None:
        self.places = Places()
        self._blocks, self._last = -1, -1

    def goes_along(self, record: dict[str, Any]) -> bool:
        block, number = divmod(int(record["id"]), BLOCK)
        self._blocks += block != self._last
        self._last = block
        if not record.get("rewound"):
            self.places.take(self._blocks * BLOCK + number)
        return not record.get("rewound")
