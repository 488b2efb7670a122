"""Any bytes in MEMORY.md, and any text as an entry: read or refused with a reason, and nothing is ever lost."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from typing import TYPE_CHECKING

from hermes.base.errors import HermesError, WriteRefused
from hermes.memory.entries import replay
from hermes.memory.store import MemoryStore
from soak.common import Outcome, Progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from soak.common import Options

_TEXT = "prefers tabs\n§\ndeploys on Fridays, naïve: 日本 🜁\n§\nthird"
FILES: dict[str, bytes] = {
    "byte order mark": b"\xef\xbb\xbf" + _TEXT.encode(),
    "windows line ends": _TEXT.replace("\n", "\r\n").encode(),
    "mixed line ends": _TEXT.replace("\n§", "\r\n§", 1).encode(),
    "old Mac line ends": _TEXT.replace("\n", "\r").encode(),
    "UTF-16 little": b"\xff\xfe" + _TEXT.encode("utf-16-le"),
    "UTF-16 big": b"\xfe\xff" + _TEXT.encode("utf-16-be"),
    "UTF-16 cut in a character": (b"\xff\xfe" + _TEXT.encode("utf-16-le"))[:-1],
    "UTF-16 without mark": _TEXT.encode("utf-16-le"),
    "UTF-16 with NUL": b"\xff\xfe" + "a\0b\n§\nc".encode("utf-16-le"),
    "UTF-32": b"\xff\xfe\0\0" + _TEXT.encode("utf-32-le"),
    "NULs only": b"\0" * 300,
    "NULs after text": _TEXT.encode() + b"\0" * 300,
    "broken character": _TEXT.encode().replace(b"\x97", b"\x20", 1),
    "cut character": _TEXT.encode()[: _TEXT.encode().index(b"\xe6") + 1],
    "cp1252": "naïve § café".encode("cp1252"),
    "lone surrogate": b"before \xed\xa0\x80 after",
    "surrogate pair, each encoded": b"before \xed\xa0\xbd\xed\xb8\x80 after",
    "five megabytes": b"x" * 5_000_000,
    "one long entry": b"y" * 100_000,
    "whitespace only": b" \n\t\n  ",
    "delimiters only": "\n§\n\n§\n\n§\n".encode(),
    "one mark": "§".encode(),
    "marks": "§\n§\n§".encode(),
    "mark in front": "§\nfoo".encode(),
    "indented": b"  one\n\n\xc2\xa7\n two  \n",
    "empty": b"",
    "duplicates": "same\n§\nsame\n§\nsame".encode(),
    "control characters": bytes(range(1, 32)) + b"\x7f\x85",
}
_PIECES = (
    *(
        "\r",
        "\n",
        "\r\n",
        "§",
        "\n§\n",
        "\n§\r\n",
        " §\n",
        "\ufeff",
        "\0",
        "\x85",
        "\u2028",
        "\x1c",
        "\x0b",
        "\ud800",
        "\udfff",
    ),
    *(
        "a",
        "b c",
        "日本",
        "🜁",
        "e\u0301",
        "\u202e",
        "\u200b",
        "İ",
        '"',
        "\\",
        "\x1b[0m",
        "%s",
        "{}",
        "\t",
        " ",
        "§§",
        "x" * 50,
    ),
)


def run(texts: int, options: Options) -> Outcome:
    """Every known file and many random ones under every operation, then `texts` adversarial entries."""
    outcome = Outcome(name="bytes", figures={"files": 0, "refused": 0, "entries": 0, "entries refused": 0})
    chance = random.Random(options.seed)
    files = FILES | {f"random {number}": _random_bytes(chance) for number in range(max(texts // 50, 20))}
    progress = Progress("bytes", len(files) + texts, options)
    for done, (name, data) in enumerate(files.items()):
        if not progress.goes_on(done, outcome):
            return outcome
        for action, call in _ACTIONS.items():
            with tempfile.TemporaryDirectory(dir=options.folder, prefix="soak-") as place:
                problems = _try_file(os.path.join(place, "home"), data, call, outcome)
            outcome.fail(*(f"{name}, {action}: {each}" for each in problems))
        outcome.count("files")
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="soak-") as place:
        _round_trips(os.path.join(place, "home"), texts, chance, (outcome, progress, len(files)))
    progress.goes_on(len(files) + texts, outcome)
    return outcome


_ACTIONS: dict[str, Callable[[MemoryStore], object]] = {
    "add": lambda store: store.add("memory", "new"),
    "adopt": lambda store: store.adopt("memory"),
    "reset": lambda store: store.reset("memory"),
    "remove": lambda store: store.remove("memory", "e"),
}


def _try_file(home: str, data: bytes, call: Callable[[MemoryStore], object], outcome: Outcome) -> list[str]:
    folder = os.path.join(home, "memories")
    os.makedirs(folder, mode=0o700)
    path = os.path.join(folder, "MEMORY.md")
    with open(path, "wb") as file:
        file.write(data)
    problems: list[str] = []
    try:
        store = MemoryStore.open(home)
        if data.decode("utf-8", "replace").strip("\ufeff \r\n\t\v\x1c\x85\u2028§") and not store.snapshot("memory"):
            problems.append("the snapshot is silently empty")
        call(store)
    except HermesError as error:
        outcome.count("refused")
        if len(str(error)) < len("memory is full"):
            problems.append(f"refused without a reason: {error}")
    except Exception as error:  # noqa: BLE001 - any other exception is the finding
        problems.append(f"uncaught {type(error).__name__}: {error}")
    else:
        live, changes = store.entries("memory"), store.history("memory")[0]
        if replay(changes) != live and not store.read("memory").foreign:
            problems.append(f"the history replays to {replay(changes)}, not {live}")
    if not _still_somewhere(folder, data) and not _in_history(home, data):
        problems.append(f"the bytes are in none of {os.listdir(folder)}")
    return problems


def _still_somewhere(folder: str, data: bytes) -> bool:
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), "rb") as file:
            if data in file.read():
                return True
    return False


def _in_history(home: str, data: bytes) -> bool:
    """Whether everything that was text is in the history: the file was plain, so its bytes follow from its entries."""
    changes = MemoryStore.open(home).history("memory")[0]
    first = next((change.added() for change in changes if change.foreign), None)
    return first is not None and "\n§\n".join(first) == data.decode("utf-8", "replace").strip()


def _round_trips(home: str, texts: int, chance: random.Random, told: tuple[Outcome, Progress, int]) -> None:
    outcome, progress, done = told
    store = MemoryStore.open(home)
    for number in range(texts):
        if not progress.goes_on(done + number, outcome):
            return
        content = "".join(chance.choices(_PIECES, k=chance.randint(1, 12)))
        outcome.count("entries")
        try:
            kept = store.add("memory", content).entries
        except WriteRefused:
            outcome.count("entries refused")
            continue
        again = MemoryStore.open(home)
        if again.entries("memory") != kept:
            outcome.fail(f"{content!r} was read again as {again.entries('memory')!r}, not {kept!r}")
        if again.remove("memory", kept[-1]).entries:
            outcome.fail(f"{content!r} could not be removed by its own text")
            again.reset("memory")
        if not number % 500:
            shutil.rmtree(home)  # the history grows with every change, and all of it is beside the point here


def _random_bytes(chance: random.Random) -> bytes:
    pieces = [piece.encode("utf-8", "surrogatepass") for piece in _PIECES]
    pieces += [b"\xff", b"\xfe", b"\xc2", b"\xed\xa0\x80", b"\0\0", b"\r\n\xc2\xa7\r\n"]
    return b"".join(chance.choices(pieces, k=chance.randint(1, 30)))
