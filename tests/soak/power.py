"""`bin/soak power`: cuts the power of a disk at random moments of conversations and memory writes.

A home is on a disk that logs every write and every flush (`block_log`). Each cut makes the disk as a power failure
would leave it: everything before the last flush, and any part of what came after it, torn at sectors. The file system
recovers, and everything that was acknowledged must be there. It needs root, and the tools of each file system.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NoReturn

from hermes.base.errors import HermesError
from hermes.conversations.database import SessionDB
from hermes.memory.store import TARGETS, MemoryStore
from soak.block_log import SAID, Log, Replay, serve
from soak.checks import problems_of
from soak.common import Options, Outcome, Progress
from soak.writer import State, Writer

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from soak.checks import Entries

SUMMARY = "power cuts on ext4, xfs and btrfs"
DESCRIPTION = __doc__ or ""
# How to make each, and how many MB the smallest one that its tool makes.
_FILE_SYSTEMS = {
    "ext4": (48, ["mkfs.ext4", "-q", "-E", "nodiscard"]),
    "xfs": (320, ["mkfs.xfs", "-q", "-K"]),
    "btrfs": (128, ["mkfs.btrfs", "-q", "-K"]),
}
_CUTS_PER_RUN = 50
_STEPS = 60
_SESSION = "one"


def add_choices(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cuts", type=int, default=100, metavar="N", help="on each file system (default: 100)")
    parser.add_argument("--on", default=",".join(_FILE_SYSTEMS), metavar="NAMES", help="default: %(default)s")


def run(given: argparse.Namespace, options: Options) -> Iterator[Outcome]:
    for name in given.on.split(","):
        yield cuts(name, given.cuts, options)


def cuts(name: str, count: int, options: Options) -> Outcome:
    """In a process that has mounts of its own, so that a failure leaves none behind."""
    if not shutil.which(_FILE_SYSTEMS[name][1][0]):
        return Outcome(name=name, figures={"not tried": f"there is no {_FILE_SYSTEMS[name][1][0]}"})
    command = ["unshare", "-m", sys.executable, "-m", "soak.power", json.dumps([name, count, asdict(options)])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run(command, stdout=subprocess.PIPE, env=environment, text=True, check=False)
    if ran.returncode:
        return Outcome(name=name, failures=[f"the cuts could not be tried (exit code {ran.returncode})"])
    return Outcome(**json.loads(ran.stdout))


def may_mount() -> bool:
    """Whether a disk can be made here: the right to mount, and loop devices."""
    if not os.path.exists("/dev/loop-control"):
        return False
    return subprocess.run(["unshare", "-m", "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0


def _run_here(name: str, count: int, options: Options) -> Outcome:
    figures = {"cuts": 0, "acknowledged messages": 0, "acknowledged changes": 0, "sectors lost": 0}
    outcome = Outcome(name=f"power cuts on {name}", figures=figures)
    progress = Progress(outcome.name, count, options)
    while (done := outcome.figures["cuts"]) < count and progress.goes_on(done, outcome):
        with tempfile.TemporaryDirectory(dir=options.folder, prefix="soak-") as place:
            _one_run(name, place, min(_CUTS_PER_RUN, count - done), options.seed, outcome)
    progress.goes_on(outcome.figures["cuts"], outcome)
    return outcome


def _one_run(name: str, place: str, count: int, seed: int, outcome: Outcome) -> None:
    first = outcome.figures["cuts"]
    chance = random.Random(f"{seed}/{name}/{first}")
    image, before, disk, mounted = (os.path.join(place, each) for each in ("image", "before", "disk", "mounted"))
    size, make = _FILE_SYSTEMS[name]
    with open(image, "wb") as file:
        file.truncate(size << 20)
    subprocess.run([*make, image], stdout=subprocess.DEVNULL, check=True)
    subprocess.run(["cp", "--sparse=always", image, before], check=True)
    os.mkdir(disk)
    os.mkdir(mounted)
    log = Log(os.path.join(place, "log"))
    server = serve(image, disk, log)
    _mount(name, os.path.join(disk, "disk"), mounted)
    writer = os.fork()
    if writer == 0:
        _write(os.path.join(mounted, "home"), chance, log)
    os.waitpid(writer, 0)
    records = list(log.records())  # before the file system is closed in order
    subprocess.run(["umount", mounted], check=True)
    subprocess.run(["umount", disk], check=True)
    os.waitpid(server, 0)
    started = next(at for at, (kind, _, _) in enumerate(records) if kind == SAID)
    replay = Replay(before, log)
    for number, at in enumerate(sorted(chance.randint(started + 1, len(records)) for _ in range(count))):
        replay.go_on_to(at)
        cut = os.path.join(place, "cut")
        outcome.count("sectors lost", replay.cut(cut, chance))
        problems = _after(name, cut, mounted, [json.loads(each) for each in replay.said], outcome)
        os.unlink(cut)
        outcome.count("cuts")
        outcome.fail(*(f"cut {first + number} at record {at} (--seed {seed}): {each}" for each in problems))
    replay.close()
    log.close()


def _write(home: str, chance: random.Random, log: Log) -> NoReturn:
    """Says before each step what it will do, and after it that it is done."""

    def say(**line: Any) -> None:
        log.add(SAID, 0, json.dumps(line).encode())

    try:
        state = State()
        writer = Writer(chance, state, "w")
        store = MemoryStore.open(home)
        with SessionDB.open(os.path.join(home, "state.db")) as db:
            db.create_session(session_id=_SESSION)
            db.sync()
            say(begin=True)
            for step in range(_STEPS):
                if chance.random() < 0.5:
                    texts = [f"message {step}.{at} " + "x" * chance.choice((5, 200, 5000)) for at in range(2)]
                    say(texts=texts)
                    db.append_many(_SESSION, [{"role": "user", "content": text} for text in texts])
                    say(texts=texts, done=True)
                else:
                    change = writer.next_step()
                    said = {"target": change.target, "expected": change.expected, "session": change.session}
                    say(**said)
                    made = change.call(store).change
                    if made is not None:
                        writer.acknowledge(change, made.id)
                        say(**said, id=made.id)
                if chance.random() < 0.05:
                    store = MemoryStore.open(home)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the parent must hear of it
        say(error=f"{type(error).__name__}: {error}")
    finally:
        os.kill(os.getpid(), signal.SIGKILL)  # the database is not closed in order
    raise AssertionError


def _after(name: str, cut: str, mounted: str, said: list[dict[str, Any]], outcome: Outcome) -> list[str]:
    try:
        _mount(name, cut, mounted)
    except subprocess.CalledProcessError as error:
        return [f"the file system could not be mounted: {error}"]
    try:
        return _problems(os.path.join(mounted, "home"), said, outcome)
    finally:
        subprocess.run(["umount", mounted], check=True)


def _problems(home: str, said: list[dict[str, Any]], outcome: Outcome) -> list[str]:
    errors = [line["error"] for line in said if "error" in line]
    if errors:
        return [f"the writer failed: {errors[0]}"]
    texts = [text for line in said if line.get("done") for text in line["texts"]]
    coming = said[-1]["texts"] if "texts" in said[-1] and not said[-1].get("done") else []
    entries: dict[str, Entries] = dict.fromkeys(TARGETS, ())
    acknowledged: dict[str, dict[str, str]] = {target: {} for target in TARGETS}
    for line in said:
        if "id" in line:
            entries[line["target"]] = tuple(line["expected"])
            acknowledged[line["target"]][line["id"]] = line["session"]
    allowed = {target: [entries[target]] for target in TARGETS}
    if "expected" in said[-1] and "id" not in said[-1]:
        allowed[said[-1]["target"]].append(tuple(said[-1]["expected"]))
    outcome.count("acknowledged messages", len(texts))
    outcome.count("acknowledged changes", sum(map(len, acknowledged.values())))
    problems, _ = problems_of(home, allowed, acknowledged)
    try:
        with SessionDB.open(os.path.join(home, "state.db")) as db:
            found = [message.text for message in db.messages(_SESSION)]
            db.append(_SESSION, {"role": "user", "content": "and goes on"})
    except HermesError as error:
        return [*problems, f"a fresh open failed: {error}"]
    if found not in (texts, texts + coming):
        problems.append(f"{len(texts)} messages were acknowledged, {len(found)} are there")
    return problems


def _mount(kind: str, device: str, folder: str) -> None:
    subprocess.run(["mount", "-t", kind, "-o", "loop", device, folder], check=True)


if __name__ == "__main__":
    which, how_many, given = json.loads(sys.argv[1])
    print(json.dumps(asdict(_run_here(which, how_many, Options(**given)))))
