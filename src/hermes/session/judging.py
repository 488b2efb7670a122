"""Remembers which texts were judged clean: exactly these bytes, by exactly this scanner. All else is judged anew.

Nearly all of what a prompt costs is judging texts that were judged when the last session began: skills, context
files, identity. Only clean verdicts are kept, as digests; a text that changes by one byte, or a scanner that changes
in any file, is judged again, and so is everything when the list cannot be read.
"""

from __future__ import annotations

import os
from functools import cache
from hashlib import blake2b

from hermes.safety.verdict import NOTHING_FOUND
from hermes.storage.files import Folder
from hermes.vocabulary.errors import StorageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hermes.safety.verdict import Verdict
    from hermes.skills.index import Known, SkillIndex

FILE = ".judged"
SKILLS = ".skills-read"
_MOST = 4_000  # texts, oldest forgotten first
_SIZE = 16  # bytes of a digest
_LARGEST = 1 << 23
_FIELDS = ("name", "full_name", "category", "description", "platforms", "note")  # of an entry of the skills' index


class Judged:
    """The scanner for what enters a prompt from files, with what a home remembers of its verdicts."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._clean: dict[bytes, None] | None = None
        self._new = False

    def known_skills(self) -> Known:
        """What an earlier session read and judged of the skills' files, by path."""
        import json

        from hermes.skills.index import Entry

        data = self._stored(SKILLS)
        if data[:_SIZE] != _scanner():
            return {}
        try:
            listed = json.loads(data[_SIZE:])
            return {path: ((a, b, c, d), Entry(**fields)) for path, (a, b, c, d), fields in listed}
        except (ValueError, TypeError):
            return {}

    def keep_skills(self, index: SkillIndex) -> None:
        if not index.changed:
            return
        import json

        index.changed = False
        listed = [
            (path, stamp, {field: getattr(entry, field) for field in _FIELDS})
            for path, (stamp, entry) in index.known.items()
        ]
        self._keep(SKILLS, json.dumps(listed).encode())

    def scan(self, text: str) -> Verdict:
        known = self._known()
        mark = _digest(text.encode("utf-8", "surrogatepass"))
        if mark in known:
            return NOTHING_FOUND
        from hermes.safety.threats import scan

        verdict = scan(text, "context")
        if verdict == NOTHING_FOUND:
            known[mark] = None
            self._new = True
        return verdict

    def save(self) -> None:
        """Keeps what is new for the next session; without it, that session judges again."""
        if not self._new or self._clean is None:
            return
        self._new = False
        self._keep(FILE, b"".join(list(self._clean)[-_MOST:]))

    def _keep(self, name: str, data: bytes) -> None:
        try:
            with Folder.create(self._folder) as folder:
                folder.replace(name, _scanner() + data)
        except StorageError:
            return  # a home that cannot be written to costs time, nothing else

    def _known(self) -> dict[bytes, None]:
        if self._clean is None:
            data = self._stored(FILE)
            marks = (data[at : at + _SIZE] for at in range(_SIZE, len(data), _SIZE))
            self._clean = dict.fromkeys(marks) if data[:_SIZE] == _scanner() else {}
        return self._clean

    def _stored(self, name: str) -> bytes:
        try:
            folder = Folder.open(self._folder)
            if folder is None:
                return b""
            with folder:
                return folder.read(name, at_most=_LARGEST) or b""
        except StorageError:
            return b""


@cache
def _scanner() -> bytes:
    """Changes with every file the scanner is made of."""
    from hermes import safety

    here = os.path.dirname(safety.__file__ or "")
    seen = []
    for place in (here, os.path.join(here, "lexicons")):
        with os.scandir(place) as found:
            for each in found:
                if each.is_file():
                    status = each.stat()
                    seen.append(f"{each.name} {status.st_size} {status.st_mtime_ns}")
    return _digest("\n".join(sorted(seen)).encode())


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=_SIZE).digest()
