"""`hermes import` of an export: the same home again, in one step, or what it holds beside what is there."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hermes.migration.archive_file import ArchiveReader, create_inside
from hermes.migration.export_home import CONVERSATIONS, FORMAT, HOME, VERSION, Selection, export_home
from hermes.migration.staging import Staging, is_empty
from hermes.settings.home import DATABASE
from hermes.storage.dump import Load
from hermes.storage.files import PRIVATE_FILE
from hermes.vocabulary.errors import DamagedFile, StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LONGEST_LINE = 256 << 20


@dataclass(slots=True, kw_only=True)
class Restored:
    """What came in; `kept` is where the home that was there before is, `changed` False when nothing was to do."""

    files: int = 0
    sessions: int = 0
    messages: int = 0
    taken_back: int = 0
    left_out: int = 0
    kept: str | None = None
    changed: bool = True
    notes: list[str] = field(default_factory=list)


def check_format(reader: ArchiveReader) -> None:
    if reader.about.get("format") != FORMAT:
        raise DamagedFile(
            f"{reader.path} is a {reader.about.get('format')!r} archive, not an export; see `hermes backup`"
        )
    version = reader.about.get("version")
    if type(version) is not int or version > VERSION:
        raise StorageError(f"{reader.path} was written by a newer Hermes (version {version}); upgrade this one first")


def import_home(
    archive: str, home: str, *, replace: bool = False, progress: Callable[[int], None] | None = None
) -> Restored:
    """Builds the home beside its place, checks every byte, and puts it there in one step."""
    with ArchiveReader.open(archive) as reader:
        check_format(reader)
        if not is_empty(home):
            if is_same(reader, home):
                return Restored(changed=False)
            if not replace:
                raise StorageError(
                    f"{home} is not empty; choose another home with --home, add to it with --merge, or put the archive "
                    "in its place with --replace (the old home is kept beside it)"
                )
        with Staging.beside(home) as staging:
            done = unpack(reader, staging.path, progress)
            done.kept = staging.put_in_place()
            return done


def is_same(reader: ArchiveReader, home: str) -> bool:
    """Whether an export of the home would give this archive."""
    chosen = reader.about.get("selection") or {}
    secrets = any(path.endswith("/.env") for path in reader.entries)
    reading = any(entry.kind == "reading" for entry in reader.entries.values())
    if chosen:
        return False
    with tempfile.TemporaryDirectory(prefix="hermes-compare-") as place:
        out = os.path.join(place, "now")
        try:
            export_home(home, out, Selection(secrets=secrets, reading=reading))
        except StorageError:
            return False
        with ArchiveReader.open(out) as now:
            return now.entries == reader.entries


def unpack(reader: ArchiveReader, target: str, progress: Callable[[int], None] | None = None) -> Restored:
    done = Restored()
    for path, entry in sorted(reader.entries.items()):
        if not path.startswith(f"{HOME}/") or entry.kind not in ("file", "conversations"):
            for _ in reader.read(path):
                pass  # not needed, but an archive that is damaged anywhere is not trusted anywhere
            continue
        inside = path.removeprefix(f"{HOME}/")
        if entry.kind == "conversations":
            _load(reader, path, os.path.join(target, inside.removesuffix(CONVERSATIONS) + DATABASE), done, progress)
        else:
            with create_inside(target, inside, 0o700 if entry.executable else PRIVATE_FILE) as file:
                for piece in reader.read(path):
                    file.write(piece)
        done.files += 1
    plugins = sorted({path.split("/")[2] for path in reader.entries if path.startswith(f"{HOME}/plugins/")})
    if plugins:
        done.notes.append(
            f"it brings plug-ins, which are programs: {', '.join(plugins)}; look at them before you use them"
        )
    return done


def _load(
    reader: ArchiveReader, path: str, database: str, done: Restored, progress: Callable[[int], None] | None
) -> None:
    os.makedirs(os.path.dirname(database), mode=0o700, exist_ok=True)
    load = Load(database)
    load.take(_told(records(reader, path), progress))
    done.sessions += load.sessions
    done.messages += load.messages
    done.taken_back += load.taken_back
    done.left_out += load.left_out


def records(reader: ArchiveReader, path: str) -> Iterator[dict[str, Any]]:
    """The JSON objects of the lines of a file in the archive."""
    rest = b""
    for piece in reader.read(path):
        *whole, rest = (rest + piece).split(b"\n")
        if len(rest) > LONGEST_LINE:
            raise DamagedFile(f"{path} holds a line over {LONGEST_LINE >> 20} MiB; it is not ours")
        for line in whole:
            if line:
                yield _record(line, path)
    if rest:
        yield _record(rest, path)


def _record(line: bytes, path: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DamagedFile(f"{path} holds a line that is not JSON ({str(error)[:100]})") from error
    if not isinstance(record, dict):
        raise DamagedFile(f"{path} holds a line that is no JSON object")
    return record


def _told(found: Iterator[dict[str, Any]], progress: Callable[[int], None] | None) -> Iterator[dict[str, Any]]:
    for number, record in enumerate(found):
        yield record
        if progress is not None and number % 1000 == 0:
            progress(number)
