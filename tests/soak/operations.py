"""`bin/soak operations`: every public operation while system calls fail; only typed errors may come out.

Runs under the shim of `faults.c`: the k-th call below the home fails, once or from then on. Afterwards, with a healthy
disk, the home must open again and hold what was acknowledged.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import io
import json
import os
import random
import shlex
import shutil
import subprocess
import sys
import tempfile
import traceback
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from soak.common import Options, Outcome, Progress
from soak.faults import Shim, build_shim
from soak.sessions_owners import BY_MESSAGE, BY_SESSION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hermes import MemorySession, MemoryStore, SessionDB
    from hermes.memory.entries import Cause

SUMMARY = "every public operation while the disk fails"
DESCRIPTION = """Makes system calls fail during commands and library calls, one at a time and lasting.
Without a choice: 20 places of each operation."""
ERRORS = (errno.EIO, errno.ENOSPC, errno.EACCES, errno.EMFILE)
_AT_ONCE = 8
_HERE = os.path.dirname(os.path.abspath(__file__))
_SESSION = "kept"
_OTHER = "other"
_ACKNOWLEDGED = "the kite is red"
_SECOND = "Prefers"  # one word, for the command line
_OPERATIONS = ({"action": "add", "content": "Uses zsh."}, {"action": "remove", "old_text": _SECOND})


def add_choices(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--places", type=int, default=20, metavar="N", help="N failing calls of each")
    parser.add_argument("--only", default="", metavar="NAME", help="one operation")


def run(given: argparse.Namespace, options: Options) -> Iterator[Outcome]:
    if missing := sorted(uncovered()):
        yield Outcome(name="operations", failures=[f"no trial calls {name}" for name in missing])
    wanted = [name for name in OPERATIONS if given.only in ("", name)]
    # SQLite waits ten seconds when its locks fail, so a few processes take turns with the processors.
    shares = [wanted[start::_AT_ONCE] for start in range(min(_AT_ONCE, len(wanted)))]
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="soak-") as place:
        environment = os.environ | {
            "LD_PRELOAD": build_shim(place),
            "PYTHONPATH": os.pathsep.join((os.path.dirname(_HERE), os.environ.get("PYTHONPATH", ""))),
            "HERMES_MODEL": "",
        }
        running = [
            _trials(os.path.join(place, str(at)), share, given, options, environment) for at, share in enumerate(shares)
        ]
        for trials in running:
            assert trials.stdout is not None
            yield from (Outcome(**json.loads(line)) for line in trials.stdout)
            trials.stdout.close()
            if trials.wait():
                yield Outcome(name="operations", failures=[f"trials ended with exit code {trials.returncode}"])


def _trials(
    folder: str, names: list[str], given: argparse.Namespace, options: Options, environment: dict[str, str]
) -> subprocess.Popen[str]:
    os.mkdir(folder)
    command = [
        *(sys.executable, "-m", "soak.operations", "--folder", folder, "--seed", str(options.seed)),
        *("--places", str(given.places), "--only", json.dumps(names), "--seconds", str(options.seconds)),
        *(["--quiet"] if options.quiet else []),
    ]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def _command(*arguments: str) -> Callable[[str], None]:
    def call(home: str) -> None:
        from hermes.cli.app import run as run_command

        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            run_command(["--home", home, *(word.format(home=home, folder=os.path.dirname(home)) for word in arguments)])
        if "Traceback" in printed.getvalue() or "standard output" in printed.getvalue():
            raise AssertionError(printed.getvalue()[-300:])

    return call


def _conversations(call: Callable[[SessionDB], object]) -> Callable[[str], None]:
    def operation(home: str) -> None:
        from hermes import SessionDB

        with SessionDB.open(os.path.join(home, "state.db")) as db:
            call(db)

    return operation


def _memory(call: Callable[[MemoryStore], object]) -> Callable[[str], None]:
    def operation(home: str) -> None:
        from hermes import MemoryStore

        call(MemoryStore.open(home))

    return operation


def _session(call: Callable[[MemorySession], object], resume: str | None = None) -> Callable[[str], None]:
    def operation(home: str) -> None:
        from hermes import MemorySession

        with MemorySession.open(home, resume=resume) as session:
            call(session)

    return operation


def _turn(session: MemorySession) -> MemorySession:
    session.prepare_turn("Where is the kite?")
    session.call_tool(
        "memory", {"action": "add", "target": "memory", "content": "The kite is in the tree."}, call_id="1"
    )
    session.finish_turn("In the tree.")
    return session


def _record(session: MemorySession) -> None:
    session.prepare_turn("Hi")
    session.record({"role": "assistant", "content": "Hello."})


def _share(db: SessionDB) -> None:
    again = db.share()
    if again is not None:
        again.close()


def _in_bulk(db: SessionDB) -> None:
    with db.bulk():
        db.append_many(_OTHER, [{"role": "user", "content": "one more"}] * 3)


def _import(db: SessionDB) -> None:
    with db.importing(0.2):
        _in_bulk(db)


def _cause() -> Cause:
    from hermes.memory.entries import Cause

    return Cause()


def _settle(store: MemoryStore) -> None:
    from hermes.memory.store import Conflict

    store.settle(Conflict(target="memory", new=_SECOND, old=_ACKNOWLEDGED, old_at=0.0, new_at=0.0), "both")


def _curate(store: MemoryStore) -> None:
    from hermes.memory.entries import Cause, Edit
    from hermes.memory.file import Plan

    def plan(entries: tuple[str, ...]) -> Plan:
        kept = tuple(entry for entry in entries if entry != _SECOND)
        gone = Edit(index=entries.index(_SECOND), before=_SECOND, after=None)
        return Plan(action="curate", edits=(gone,), entries=kept)

    store.curate("memory", plan, cause=Cause(origin="curator"))


_PLAIN = ["path", "journal_mode", "owner", "open", "close"]  # every operation opens and closes one
CONVERSATIONS: dict[str, Callable[[SessionDB], object]] = {
    **{name: partial(lambda call, db: call(db, _OTHER), call) for name, call in BY_SESSION.items()},
    **{
        name: partial(lambda call, db: call(db, _OTHER, db.messages(_OTHER)[0].id), call)
        for name, call in BY_MESSAGE.items()
    },
    "search": lambda db: db.search("kite"),
    "list_sessions": lambda db: db.list_sessions(),
    "counts": lambda db: db.counts(),
    "get_meta": lambda db: db.get_meta("note"),
    "set_meta": lambda db: db.set_meta("note", "new"),
    "never_recalled": lambda db: db.never_recalled(),
    "index": lambda db: db.index(),
    "embed": lambda db: db.embed(1),
    "sync": lambda db: db.sync(),
    "bulk": _in_bulk,
    "importing": _import,
    "remove_unused_images": lambda db: db.remove_unused_images(),
    "images": lambda db: db.images,
    "share": _share,
}
MEMORY: dict[str, Callable[[MemoryStore], object]] = {
    "targets": lambda store: store.targets,
    "watch": lambda store: store.watch(lambda _: None),
    "freeze": lambda store: store.freeze(),
    "snapshot": lambda store: store.snapshot("memory"),
    "entries": lambda store: store.entries("memory"),
    "shown": lambda store: store.shown("memory", store.entries("memory")),
    "recalled": lambda store: store.recalled("memory", store.entries("memory")),
    "read": lambda store: store.read("memory"),
    "limit": lambda store: store.limit("memory"),
    "path": lambda store: store.path("memory"),
    "add": lambda store: store.add("memory", "Uses zsh."),
    "replace": lambda store: store.replace("memory", _SECOND, "Uses tabs."),
    "remove": lambda store: store.remove("memory", _SECOND),
    "apply": lambda store: store.apply("memory", _OPERATIONS),
    "rehearse": lambda store: store.rehearse("memory", _OPERATIONS, cause=_cause()),
    "earlier": lambda store: store.earlier("memory", _SECOND),
    "conflicts": lambda store: store.conflicts("memory"),
    "settle": _settle,
    "provenance": lambda store: store.provenance("memory"),
    "history": lambda store: store.history("memory"),
    "undo": lambda store: store.undo("m2"),
    "archived": lambda store: store.archived("memory"),
    "archive": lambda store: store.archive("memory", _SECOND),
    "restore": lambda store: (store.archive("memory", _SECOND), store.restore("memory", _SECOND)),
    "curate": _curate,
    "marks": lambda store: store.marks("memory"),
    "marks_file": lambda store: store.marks_file("memory").add("pin", [_SECOND]),
    "reset": lambda store: store.reset("user"),
    "accept": lambda store: store.accept("memory", _SECOND),
    "adopt": lambda store: store.adopt("memory"),
}
SESSIONS: dict[str, Callable[[str], None]] = {
    "turn": _session(_turn),
    "resume": _session(_turn, resume=_SESSION),
    "compact": _session(lambda session: session.compact(), resume=_SESSION),
    "fit": _session(lambda session: session.fit(session.prepare_turn("And now?")), resume=_SESSION),
    "record": _session(_record),
    "undo": _session(lambda session: _turn(session).undo()),
    "branch": _session(lambda session: session.branch("Other kites"), resume=_OTHER),
    "rename": _session(lambda session: session.rename("All kites"), resume=_OTHER),
    "receipt": _session(lambda session: _turn(session).receipt()),
    "reload": _session(lambda session: session.reload(), resume=_OTHER),
    "drop_if_empty": _session(lambda session: session.drop_if_empty()),
    "preflight": _session(lambda session: session.preflight(), resume=_OTHER),
    "rebuilt_prompt": _session(lambda session: session.rebuilt_prompt(), resume=_OTHER),
    "sources": _session(lambda session: (session.sources(), session.about()), resume=_OTHER),
}
COMMANDS = (
    *("memory list", "memory log", "memory diff", "memory conflicts", "memory pending", "memory status"),
    *("memory add Uses zsh", "memory undo", "memory reset --yes --target user", "memory scan", "memory adopt"),
    *(f"memory pin {_SECOND}", f"memory remove {_SECOND}", "sessions list", "sessions stats", "sessions search kite"),
    *(f"sessions show {_SESSION}", f"sessions rename {_OTHER} A title", f"sessions delete {_OTHER} --yes"),
    *("sessions prune --older-than 0 --dry-run", "sessions optimize --vacuum", "sessions repair"),
    *(f"sessions export {_SESSION} --out {{home}}-export.jsonl", "sessions repair --out {home}-repaired.db"),
    *("receipts list", "receipts verify", "rules add 'Always use tabs.'", "rules list", "reminders list"),
    *(
        "reminders add 'tomorrow at 9 call Ada'",
        "backup create --out {home}-backup.zip",
        "backup create",
        "backup list",
    ),
    *("backup verify {folder}/backup.zip", "backup restore {folder}/backup.zip --yes", "export {home}-export.zip"),
    *("import {folder}/export.zip --yes", "import {folder}/export.zip --dry-run", "doctor --offline"),
    *("doctor --offline --fix", "status", "config show", "config set memory.memory_char_limit 3000", "trust list"),
    *("trust log", "trust add {home}", "skills list", "skills usage", "users list", "users add ann", "profile list"),
    *("prompt", "tool --list", "storage status", "storage check", "curator status", "plugins list"),
)
OPERATIONS: dict[str, Callable[[str], None]] = {
    **{f"SessionDB.{name}": _conversations(call) for name, call in CONVERSATIONS.items()},
    **{f"MemoryStore.{name}": _memory(call) for name, call in MEMORY.items()},
    **{f"MemorySession.{name}": call for name, call in SESSIONS.items()},
    **{command: _command(*shlex.split(command)) for command in COMMANDS},
}


def uncovered() -> set[str]:
    """The public methods that store or read and that no operation calls."""
    from hermes import MemoryStore, SessionDB

    missing = {f"SessionDB.{name}" for name in vars(SessionDB) if name not in {*CONVERSATIONS, *_PLAIN}}
    missing |= {f"MemoryStore.{name}" for name in vars(MemoryStore) if name not in {*MEMORY, "open", "project"}}
    return {name for name in missing if not name.split(".")[1].startswith("_")}


def _make(home: str) -> None:
    from hermes import MemorySession, MemoryStore, SessionDB
    from hermes.portability.home import Selection, create_backup, export_home

    os.makedirs(home, mode=0o700)
    with open(os.path.join(home, "config.yaml"), "w", encoding="utf-8") as file:
        file.write("memory:\n  lock_timeout: 0.2\nsessions:\n  lock_wait_seconds: 0.2\n")
    store = MemoryStore.open(home)
    store.add("memory", _ACKNOWLEDGED)
    store.add("memory", _SECOND)
    store.add("user", "Lives in Lima.")
    with SessionDB.open(os.path.join(home, "state.db")) as db:
        db.create_session(session_id=_SESSION, title="Kites")
        for number in range(20):
            db.append(_SESSION, {"role": "user", "content": f"kite {number}: {_ACKNOWLEDGED}"})
            db.append(_SESSION, {"role": "assistant", "content": f"noted {number}"})
        db.create_session(session_id=_OTHER, title="Others")
        db.append(_OTHER, {"role": "user", "content": "anything"})
        db.append(_OTHER, {"role": "assistant", "content": "something"})
        db.index()
    with MemorySession.open(home) as session:
        session.prepare_turn("hello")
        session.finish_turn("hi")
    create_backup(home, os.path.join(os.path.dirname(home), "backup.zip"))
    export_home(home, os.path.join(os.path.dirname(home), "export.zip"), Selection())


def _lost(home: str) -> list[str]:
    """What is missing when the disk is well again."""
    from hermes import MemoryStore, SessionDB
    from hermes.base.errors import HermesError

    try:
        with SessionDB.open(os.path.join(home, "state.db")) as db:
            tip = list(db.lineage(_SESSION))
            kept = sum(_ACKNOWLEDGED in each.text for session in tip for each in db.messages(session.id))
        entries = MemoryStore.open(home).entries("memory")
    except HermesError as error:
        return [f"a fresh open failed: {error}"]
    problems = [] if kept >= 20 else [f"{20 - kept} messages are gone"]
    return problems + ([] if _ACKNOWLEDGED in entries or not entries else ["the memory entry is gone"])


def _inside(given: argparse.Namespace, options: Options) -> Iterator[Outcome]:
    from hermes.base.errors import HermesError
    from hermes.storage.local import database

    database.WAIT_SECONDS = 0.2  # nobody else is there to wait for, and a failing lock call looks like somebody
    shim = Shim()
    model = os.path.join(options.folder, "model")
    _make(model)
    for name, operation in OPERATIONS.items():
        if name not in json.loads(given.only):
            continue
        outcome = Outcome(name=name, figures={"cases": 0, "typed errors": 0})
        progress = Progress(name, given.places * len(ERRORS) * 2, options)
        home = os.path.join(options.folder, "home")
        shutil.copytree(model, home)
        shim.watch(home)
        shim.arm(home, 1 << 40)
        with contextlib.suppress(HermesError):
            operation(home)
        calls = shim.calls()
        shim.disarm()
        shutil.rmtree(home)
        chance = random.Random(f"{options.seed}/{name}")
        cases = [
            (error, lasting, chance.randint(1, max(1, calls)))
            for error in ERRORS
            for lasting in (False, True)
            for _ in range(given.places)
        ]
        for number, (error, lasting, k) in enumerate(cases):
            if not progress.goes_on(number, outcome):
                break
            shutil.copytree(model, home)
            shim.watch(home)
            shim.arm(home, k, count=1 << 40 if lasting else 1, error=error)
            problems: list[str] = []
            try:
                operation(home)
            except HermesError:
                outcome.count("typed errors")
            except BaseException as failure:  # noqa: BLE001 - an exception of any other kind is the finding
                problems.append(f"uncaught {type(failure).__name__}: {failure}{_place_of(failure)}")
            shim.disarm()
            where = f"{errno.errorcode[error]} {'lasting' if lasting else 'once'} at call {k} ({shim.where()})"
            outcome.fail(*(f"{where}: {each}" for each in (*problems, *_lost(home))))
            outcome.count("cases")
            for each in os.listdir(options.folder):
                if each.startswith("home"):
                    path = os.path.join(options.folder, each)
                    shutil.rmtree(path, ignore_errors=True) if os.path.isdir(path) else os.unlink(path)
        progress.goes_on(len(cases), outcome)
        yield outcome


def _place_of(failure: BaseException) -> str:
    ours = [each for each in traceback.extract_tb(failure.__traceback__) if "/hermes/" in each.filename]
    return f" in {os.path.basename(ours[-1].filename)}:{ours[-1].lineno} {ours[-1].name}" if ours else ""


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    add_choices(parser)
    parser.add_argument("--folder")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--quiet", action="store_true")
    arguments: Any = parser.parse_args()
    chosen = Options(folder=arguments.folder, seed=arguments.seed, seconds=arguments.seconds, quiet=arguments.quiet)
    for each in _inside(arguments, chosen):
        print(json.dumps(asdict(each)), flush=True)
