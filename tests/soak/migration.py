"""`bin/soak migration`: kills every migration at any of its steps; the home is as it was or as migrated, never between.

A command runs in a process that is killed when it is about to take its n-th step (a file opened for writing, a rename,
a lock and so on), or at a random moment. Then somebody uses the home as people do; sometimes that is killed too. After
that, each byte of the home is as before the command or as an undisturbed run leaves it, and nothing around it changed.
An import of conversations keeps what came in, and the same command completes it.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from homes import tree

from hermes.cli.app import run as run_command
from hermes.settings.home import DATABASE
from hermes.storage.files import MIGRATION_FOLDER as FOLDER
from hermes.storage.local.database import foreign_program
from hermes.storage.local.dump import Dump
from soak.common import Outcome, Progress
from soak.migration_scenes import SCENES, build

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from soak.common import Options
    from soak.migration_scenes import Scene

    State = dict[str, Any]

SUMMARY = "migrations that are killed: the home is as it was or as migrated"
DESCRIPTION = __doc__ or ""
_STEPS = frozenset(
    ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.chmod", "fcntl.flock")
)
_STAMP = re.compile(r"\d{8}[-T]\d{6}(-[0-9a-f]{4})?")
_WITH_TIMES = ("report.json", "summary.md", ".history.jsonl", ".zip")
_USES = (("memory", "list"), ("status", "--json"), ("sessions", "list"), ("config", "check"))
_STEPS_OF_A_USE = 80  # about as many as making a home whole takes
_KILLED_AGAIN = 0.3  # of those who use the home next


def add_choices(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kills", type=int, default=100, metavar="N", help="of each command (default: %(default)s)")
    parser.add_argument("--every", action="store_true", help="one kill at every step of each command instead")
    parser.add_argument("--only", metavar="WORD", help="commands whose names hold this word")


def run(given: argparse.Namespace, options: Options) -> Iterator[Outcome]:
    for scene in SCENES:
        if given.only is None or given.only in scene.name:
            yield run_scene(scene, None if given.every else given.kills, options)


def run_scene(scene: Scene, kills: int | None, options: Options) -> Outcome:
    """So many kills at random; one at every step when no number is given."""
    outcome = Outcome(name=scene.name, figures={"kills": 0, "as it was": 0, "as migrated": 0, "steps": 0})
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="soak-") as folder, _quiet():
        trial = _Trial(scene, Path(folder))
        outcome.figures["steps"] = trial.steps
        total = trial.steps if kills is None else kills
        progress = Progress(scene.name, total, options)
        while outcome.figures["kills"] < total and progress.goes_on(outcome.figures["kills"], outcome):
            number = outcome.figures["kills"]
            chance = Random(f"{options.seed}/{scene.name}/{number}")
            problems = trial.kill_once(chance, outcome, number + 1 if kills is None else None)
            outcome.count("kills")
            outcome.fail(*(f"kill {number} (--seed {options.seed}): {each}" for each in problems))
        progress.goes_on(total, outcome)
    return outcome


class _Trial:
    """One command, what the home holds before and after it, and how many steps it takes."""

    def __init__(self, scene: Scene, folder: Path) -> None:
        self._scene = scene
        self._place = folder / "place"
        self._template = folder / "template"
        build(scene, self._place)
        os.rename(self._place, self._template)
        self._reset()
        self._before = state_of(self._place)
        started = time.monotonic()
        code, self.steps = _in_a_process(self._place, scene.words, None)
        assert code == 0, f"{scene.name} does not work: {code}"
        self._longest = time.monotonic() - started
        self._after = blurred(state_of(self._place))

    def _reset(self) -> None:
        shutil.rmtree(self._place, ignore_errors=True)
        shutil.copytree(self._template, self._place, symlinks=True)

    def kill_once(self, chance: Random, outcome: Outcome, step: int | None = None) -> list[str]:
        """At this step; or, when none is named, at any of them or in between."""
        self._reset()
        if step is not None:
            _in_a_process(self._place, self._scene.words, step)
        elif chance.random() < (0.3 if self._scene.keeps else 0.8):  # what SQLite does is no step that is seen here
            _in_a_process(self._place, self._scene.words, chance.randint(1, self.steps))
        else:
            _in_a_process(self._place, self._scene.words, None, chance.uniform(0, self._longest))
        use = chance.choice(_USES)
        while chance.random() < _KILLED_AGAIN:
            _in_a_process(self._place, use, chance.randint(1, min(self.steps, _STEPS_OF_A_USE)))
            outcome.count("killed again")
        return self._resumed(outcome) if self._scene.keeps else self._whole(use, outcome)

    def _whole(self, use: tuple[str, ...], outcome: Outcome) -> list[str]:
        said = _said(self._place, use)
        if said[0] not in (0, 1, 2):  # 2: settings that hermes-agent had stay wrong when nothing was migrated
            return [f"{' '.join(use)} ended with {said}"]
        now = state_of(self._place)
        if now == self._before:
            outcome.count("as it was")
            return []
        if blurred(now) == self._after:
            outcome.count("as migrated")
            return []
        was = _differences(self._before, now)
        return [f"after {' '.join(use)} it is between: {was} against before, {_differences(self._after, blurred(now))}"]

    def _resumed(self, outcome: Outcome) -> list[str]:
        outcome.count("completed")
        ended = _said(self._place, self._scene.words)
        now = blurred(state_of(self._place))
        problems = [f"it ended with {ended}"] if ended[0] else []
        return problems + ([f"it differs: {_differences(self._after, now)}"] if now != self._after else [])


def state_of(place: Path) -> State:
    """Every file around and in the home with its bytes; of a database of ours, what it holds."""
    found: State = {}
    for name, data in tree(place).items():
        parts = name.split(os.sep)
        if _of_an_unborn_home(place, parts) or "cache" in parts or parts[-1].startswith((".MEMORY.md.", ".USER.md.")):
            continue
        path = str(place / name)
        ours = parts[-1] == DATABASE and foreign_program(path) is None
        # An old home that has no name yet gets one at the next import.
        plain = re.sub(r"\.arriving-\d+-[0-9a-f]{6}", ".before-00000000-000000-0000", name)
        found[plain] = [json.dumps(each, sort_keys=True) for each in Dump(path).records()] if ours else data
    return found


def _of_an_unborn_home(place: Path, parts: list[str]) -> bool:
    """A home that never was, or no longer is, the real one; the next migration removes it."""
    return ".arriving-" in parts[0] and (place / parts[0] / FOLDER).is_dir()


def blurred(state: State) -> State:
    """Without what no two runs have in common: times, and numbers drawn by lot."""
    found: State = {}
    for name, data in state.items():
        plain = _STAMP.sub("#", name)
        if plain.endswith(_WITH_TIMES):
            found[plain] = None
        elif isinstance(data, list):
            found[plain] = [_blurred_record(json.loads(each)) for each in data]
        else:
            found[plain] = _STAMP.sub("#", data.decode("latin-1"))
    return found


def _blurred_record(record: dict[str, Any]) -> dict[str, Any]:
    record.pop("at", None)
    if ":imported:file:" in record.get("key", ""):
        record.pop("value")  # holds the file's inode and time
    record.get("details", {}).pop("imported_at", None)
    record.get("row", {}).pop("last_active", None)
    if record["type"] == "message":
        record["message"].pop("timestamp", None)
    return record


def _differences(one: State, other: State) -> list[str]:
    names = sorted(name for name in {*one, *other} if one.get(name, "") != other.get(name, ""))[:6]
    return [f"{name}{_first_difference(one.get(name), other.get(name))}" for name in names]


def _first_difference(one: Any, other: Any) -> str:
    if not (isinstance(one, list) and isinstance(other, list)):
        return ""
    pairs = ((a, b) for a, b in zip(one, other, strict=False) if a != b)
    return f" ({next(pairs, (len(one), len(other)))})"


def _said(place: Path, words: tuple[str, ...]) -> tuple[int, str]:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out), contextlib.chdir(place):
        code = run_command([*words, "--home", str(place / "home")])
    return code, out.getvalue()


def _in_a_process(place: Path, words: tuple[str, ...], kill_at: int | None, life: float = 0) -> tuple[int, int]:
    """Exit code (negative when killed) and the number of steps it took."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _run_counted(place, words, kill_at, writer)
    os.close(writer)
    if life:
        time.sleep(life)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    with os.fdopen(reader, "rb") as pipe:
        steps = int(pipe.read() or b"0")
    return os.waitstatus_to_exitcode(status), steps


def _run_counted(place: Path, words: tuple[str, ...], kill_at: int | None, writer: int) -> None:
    count = 0

    def step(event: str, given: tuple[Any, ...]) -> None:
        nonlocal count
        if event not in _STEPS or (event == "open" and not _writes(given)):
            return
        count += 1
        if count == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    code = 99
    try:
        os.environ["HOME"] = str(place)
        sys.addaudithook(step)
        code = _said(place, words)[0]
        os.write(writer, str(count).encode())
    finally:
        os._exit(code)


def _writes(given: tuple[Any, ...]) -> bool:
    flags = given[2] if len(given) > 2 and isinstance(given[2], int) else 0
    return bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    logger = logging.getLogger("hermes")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)  # the attribute alone leaves what loggers remember of it
