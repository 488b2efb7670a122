"""Damages databases as disks do: nothing altered is served, writing is refused, and repair gets the rest back."""

from __future__ import annotations

import os
import random
import re
import shutil
import tempfile
from typing import TYPE_CHECKING

from engines import database_of

from hermes.base.errors import HermesError, StorageError
from hermes.conversations.database import SessionDB
from hermes.storage.local.database import PAGE
from hermes.storage.local.repair.check import repair
from soak.common import Outcome, Progress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from soak.common import Options

SCHEMA = "1 bit of the schema"
KINDS = ("1 bit", "16 bits", "256 bits", SCHEMA, "zeroed page", "garbage page", "truncation")
_SCHEMA_TEXT = re.compile(rb"CREATE (?:VIRTUAL )?(?:UNIQUE )?(?:TABLE|INDEX|TRIGGER) [\n -~]+")
_TOLERATED = 0.05  # of the file may be structure rather than messages


class Specimen:
    """A database, its bytes when sound, and every message it holds; each text names its message again and again."""

    def __init__(self, folder: str, *, messages: int, sessions: int = 12, seed: int = 1) -> None:
        self.path = os.path.join(folder, "state.db")
        chance = random.Random(seed)
        self.texts: dict[int, str] = {}
        with SessionDB.open(self.path, durability="turn") as db:
            self.names = [db.create_session(title=f"Title {number}") for number in range(sessions)]
            for start in range(0, messages, 4):
                texts = [_text(chance, number) for number in range(start, start + 4)]
                ids = db.append_many(chance.choice(self.names), [{"role": "user", "content": text} for text in texts])
                self.texts |= zip(ids, texts, strict=True)
            db.index()
        with open(self.path, "rb") as file:
            self.bytes = file.read()

    def put(self, data: bytes) -> None:
        folder = os.path.dirname(self.path)
        for name in os.listdir(folder):
            place = os.path.join(folder, name)
            shutil.rmtree(place) if os.path.isdir(place) else os.unlink(place)
        with open(self.path, "wb") as file:
            file.write(data)

    def on_page(self, number: int) -> set[int]:
        """The messages with bytes on a page, known by the marks inside their texts."""
        marks = {int(mark) for mark in re.findall(rb"mark(\d+)x", self.bytes[number * PAGE : (number + 1) * PAGE])}
        return {i for i, text in self.texts.items() if int(text.split("x")[0].removeprefix("mark")) in marks}


def run(count: int, options: Options) -> Iterator[Outcome]:
    for kind in KINDS:
        outcome = Outcome(name=kind, figures={"files": 0})
        progress = Progress(kind, count, options)
        with tempfile.TemporaryDirectory(dir=options.folder, prefix="soak-") as place:
            specimen = Specimen(place, messages=4000 if kind == "truncation" else 400)
            worst = 1.0
            for number in range(count):
                if not progress.goes_on(number, outcome):
                    break
                chance = random.Random(f"{options.seed}/{kind}/{number}")
                bad = damaged(kind, specimen.bytes, chance)
                problems, kept = try_damage(specimen, bad, outcome)
                worst = min(worst, kept / len(specimen.texts))
                if kind == "truncation" and kept / len(specimen.texts) < len(bad) / len(specimen.bytes) - _TOLERATED:
                    problems.append(
                        f"cut to {len(bad) / len(specimen.bytes):.1%}, kept {kept / len(specimen.texts):.1%}"
                    )
                outcome.fail(*(f"{kind} {number} (--seed {options.seed}): {each}" for each in problems))
        outcome.figures["least kept"] = f"{worst:.1%}"
        progress.goes_on(count, outcome)
        yield outcome


def run_pages(options: Options) -> Outcome:
    """Each page of one file becomes garbage in turn; of the messages that are not on it, 99 % must come back."""
    outcome = Outcome(name="each page in turn", figures={"pages": 0})
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="soak-") as place:
        specimen = Specimen(place, messages=400)
        pages = len(specimen.bytes) // PAGE
        progress = Progress("pages", pages, options)
        worst = 1.0
        for number in range(pages):
            if not progress.goes_on(number, outcome):
                break
            chance = random.Random(f"{options.seed}/{number}")
            start = number * PAGE
            filling = chance.randbytes(PAGE) if number % 2 else bytes(PAGE)
            problems, kept = try_damage(
                specimen, specimen.bytes[:start] + filling + specimen.bytes[start + PAGE :], outcome
            )
            outcome.count("pages")
            untouched = len(specimen.texts) - len(specimen.on_page(number))
            worst = min(worst, kept / untouched)
            if kept < 0.99 * untouched:
                problems.append(f"kept {kept} of {untouched} messages that are not on it")
            outcome.fail(*(f"page {number} (--seed {options.seed}): {each}" for each in problems))
        progress.goes_on(pages, outcome)
    outcome.figures["least kept of undamaged"] = f"{worst:.1%}"
    return outcome


def run_logs(count: int, options: Options) -> Outcome:
    """One flipped bit in the log of a killed writer: opening keeps a copy, and repair brings everything back."""
    outcome = Outcome(name="1 bit of the log", figures={"files": 0})
    progress = Progress("log", count, options)
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="soak-") as place:
        path = os.path.join(place, "state.db")
        texts = killed_writer(path, messages=40)
        sound = {name: _bytes_of(os.path.join(place, name)) for name in ("state.db", "state.db-wal")}
        for number in range(count):
            if not progress.goes_on(number, outcome):
                break
            chance = random.Random(f"{options.seed}/log/{number}")
            for name in os.listdir(place):
                shutil.rmtree(found) if os.path.isdir(found := os.path.join(place, name)) else os.unlink(found)
            log = bytearray(sound["state.db-wal"])
            log[chance.randrange(len(log))] ^= 1 << chance.randrange(8)
            for name, data in (sound | {"state.db-wal": bytes(log)}).items():
                with open(os.path.join(place, name), "wb") as file:
                    file.write(data)
            outcome.count("files")
            outcome.fail(*(f"log {number} (--seed {options.seed}): {each}" for each in try_cut_log(path, texts)))
        progress.goes_on(count, outcome)
    return outcome


def killed_writer(path: str, *, messages: int) -> list[str]:
    """Leaves a database as a writer does that is killed after its last acknowledgement."""
    texts = [f"acknowledged kite number {number}" for number in range(messages)]
    child = os.fork()
    if not child:
        db = SessionDB.open(path)
        db.create_session(session_id="killed")
        for text in texts:
            db.append("killed", {"role": "user", "content": text})
        os._exit(0)
    os.waitpid(child, 0)
    return texts


def try_cut_log(path: str, texts: list[str]) -> list[str]:
    try:
        shown = _texts_of(path)
        if texts[: len(shown)] != shown:
            return ["altered text was served"]
        told = repair(path)
        if len(shown) < len(texts) and told.salvaged is None:
            return [f"{len(texts) - len(shown)} messages are missing, and repair calls the file sound"]
        found = _texts_of(path)
    except HermesError as error:
        return [f"{type(error).__name__}: {error}"]
    # The flipped bit may lie in one message, which no checksum vouches for any more.
    return [] if len(set(texts) - set(found)) <= 1 else [f"{len(texts) - len(found)} messages did not come back"]


def _texts_of(path: str) -> list[str]:
    with SessionDB.open(path) as db:
        messages = db.messages("killed") if db.find_session("killed") else []
        return [each.text for each in messages if not each.damaged]


def _bytes_of(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def damaged(kind: str, data: bytes, chance: random.Random) -> bytes:
    if kind == "truncation":
        return data[: chance.randrange(len(data))]
    changed = bytearray(data)
    if kind == SCHEMA:
        start, end = chance.choice([each.span() for each in _SCHEMA_TEXT.finditer(data)])
        changed[chance.randrange(start, end)] ^= 1 << chance.randrange(8)
    elif kind.endswith("page"):
        start = chance.randrange(len(data) // PAGE) * PAGE
        changed[start : start + PAGE] = bytes(PAGE) if kind.startswith("zero") else chance.randbytes(PAGE)
    else:
        for _ in range(int(kind.split(maxsplit=1)[0])):
            at = chance.randrange(len(data) * 8)
            changed[at // 8] ^= 1 << at % 8
    return bytes(changed)


def try_damage(specimen: Specimen, bad: bytes, outcome: Outcome) -> tuple[list[str], int]:
    """Uses the file as a program would, then repairs it; returns what went wrong and how many messages came back."""
    specimen.put(bad)
    problems = _use(specimen, outcome)
    specimen.put(bad)
    try:
        told = repair(specimen.path)
    except HermesError as error:
        return [*problems, f"repair failed: {error}"], 0
    outcome.count("files")
    outcome.count("sound" if told.salvaged is None else "repaired")
    if told.backup is not None:
        with open(os.path.join(told.backup, "state.db"), "rb") as file:
            if file.read() != bad:
                problems.append("the original bytes were not kept")
    with SessionDB.open(specimen.path) as db:
        kept = 0
        for session in db.list_sessions(limit=10_000):
            for message in db.messages(session.id):
                kept += 1
                if message.message.get("content") != specimen.texts.get(message.id):
                    problems.append(f"message {message.id} came back altered")
        verdict = database_of(db).row("PRAGMA integrity_check")[0]
        if verdict != "ok":
            problems.append(f"after the repair: {verdict}")
        going_on = db.create_session()
        db.append(going_on, {"role": "user", "content": "life goes on"})
        if not db.search("life goes on"):
            problems.append("after the repair a new message is not found")
    return problems, kept


def _use(specimen: Specimen, outcome: Outcome) -> list[str]:
    problems: list[str] = []
    try:
        with SessionDB.open(specimen.path) as db:
            outcome.count("opened")
            for name in specimen.names:
                problems += _altered(db, name, specimen)
            try:
                for hit in db.search("mark7x deploy", limit=20):
                    shown = hit.snippet.replace(">>>", "").replace("<<<", "").strip("…. ")
                    if shown not in specimen.texts[hit.message_id]:
                        problems.append(f"the search showed altered text of message {hit.message_id}")
            except StorageError:
                outcome.count("search refused")
            noticed = database_of(db).damage is not None
            try:
                db.append(specimen.names[0], {"role": "user", "content": "new"})
                outcome.count("written to")
                if noticed:
                    problems.append("a write was accepted after damage was seen")
            except HermesError:
                outcome.count("writing refused")
    except StorageError as error:
        outcome.count("not opened")
        if "hermes sessions repair" not in str(error):
            problems.append(f"the refusal does not name the repair: {error}")
    except Exception as error:  # noqa: BLE001 - an error of another kind is the finding
        problems.append(f"{type(error).__name__} reached the caller: {error}")
    return problems


def _altered(db: SessionDB, name: str, specimen: Specimen) -> list[str]:
    try:
        return [
            f"message {message.id} was served altered"
            for message in db.messages(name)
            if not message.damaged and message.message.get("content") != specimen.texts.get(message.id)
        ]
    except HermesError:
        return []


def _text(chance: random.Random, number: int) -> str:
    words = ("deploy", "database", "river", "Zürich", "plan", "日本", "seven", "copper")
    pieces = [f"mark{number}x"]
    for _ in range(chance.choice((2, 5, 20, 20, 20, 90))):
        pieces += [chance.choice(words) + str(chance.randrange(500)) for _ in range(6)]
        pieces.append(f"mark{number}x")
    return " ".join(pieces)
