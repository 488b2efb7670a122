"""Runs programs with a time limit and bounded output; the `terminal` tool is built on that."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from hermes.base.errors import WriteRefused
from hermes.base.values import value
from hermes.safety.trust import NO_TURN, decide, is_local, only_looks_at_names
from hermes.tools.registry import ORIGIN, SCHEMAS, consent, failure

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hermes.safety.trust import TurnContext
    from hermes.tools.paths import AllowedPaths, Ask, Limits

_LOOK_EVERY = 0.1  # seconds between two looks at whether to stop
_GRACE = 2.0  # seconds a program gets to end by itself
_LAST_WORDS = 0.5  # seconds the pipe is read after the program ended: a background process may keep it open forever
_PIECE = 65_536  # bytes read at once


@value
class Ran:
    """How a program ran: `ended` is exited, timed out or interrupted; `lost` counts bytes missing from `output`."""

    output: str
    lost: int
    code: int | None
    ended: str
    seconds: float


class _Kept:
    """Collects the beginning and the end of an output of any length in bounded memory."""

    def __init__(self, most: int) -> None:
        self._half = most // 2
        self._head, self._tail = bytearray(), bytearray()
        self._lost = 0

    def add(self, data: bytes) -> None:
        room = self._half - len(self._head)
        self._head += data[:room] if room > 0 else b""
        self._tail += data[max(room, 0) :]
        if len(self._tail) > 2 * self._half:  # trimmed now and then, because each cut moves the whole tail
            self._lost += len(self._tail) - self._half
            del self._tail[: -self._half]

    @property
    def lost(self) -> int:
        return self._lost + max(len(self._tail) - self._half, 0)

    def text(self) -> str:
        gap = f"\n[… {self.lost:,} bytes left out …]\n".encode() if self.lost else b""
        return (bytes(self._head) + gap + bytes(self._tail[-self._half :])).decode("utf-8", "replace")


def run_bounded(
    command: Sequence[str],
    *,
    folder: str,
    environment: Mapping[str, str],
    seconds: float,
    most_bytes: int,
    cancelled: Callable[[], bool],
    given: bytes = b"",
) -> Ran:
    """Runs a program until it ends, its time is over or `cancelled` says so; reads both output streams as one."""
    start = time.monotonic()
    kept = _Kept(most_bytes)
    with _CtrlC() as pressed:
        process = _started(command, folder, environment, subprocess.PIPE if given else subprocess.DEVNULL)
    try:
        reader = threading.Thread(target=_read, args=(process.stdout, kept), daemon=True)
        reader.start()
        pressed.tell()
        if given:
            threading.Thread(target=_give, args=(process.stdin, given), daemon=True).start()
        ended = _wait(process, reader, start + seconds, cancelled)
        reader.join(_LAST_WORDS)
    except BaseException:  # also Ctrl-C: the program must not outlive the call
        _end(process)
        raise
    return Ran(
        output=kept.text(), lost=kept.lost, code=process.returncode, ended=ended, seconds=time.monotonic() - start
    )


class _CtrlC:
    """Delays Ctrl-C while a program starts: raised before `process` is assigned, it would leave the program running."""

    def __init__(self) -> None:
        self._pressed = False
        self._before: Any = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # Python handles signals in the main thread only
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def tell(self) -> None:
        if self._pressed:
            signal.raise_signal(signal.SIGINT)

    def _note(self, *_: object) -> None:
        self._pressed = True


def _started(
    command: Sequence[str], folder: str, environment: Mapping[str, str], given: int
) -> subprocess.Popen[bytes]:
    """Starts the program with one pipe for both output streams, in the order they were written."""
    try:
        return subprocess.Popen(
            list(command),
            cwd=folder,
            env=dict(environment),
            stdin=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # a process group of its own, so that what it starts can be ended with it
        )
    except (OSError, ValueError) as error:  # ValueError for text that no system accepts, such as NUL
        raise WriteRefused(f"{command[0]} cannot be run in {folder}: {error}", kind="command") from error


def _give(writing: Any, data: bytes) -> None:
    with suppress(OSError), writing:  # the program may have ended
        writing.write(data)


def _read(reading: Any, kept: _Kept) -> None:
    with reading:
        while data := os.read(reading.fileno(), _PIECE):
            kept.add(data)


def _wait(process: subprocess.Popen[bytes], reader: threading.Thread, end: float, cancelled: Callable[[], bool]) -> str:
    """Waits for the program and says how it ended; closed output is no sign of that, in either direction."""
    while process.poll() is None:
        if cancelled() or time.monotonic() > end:
            ended = "interrupted" if cancelled() else "timed out"
            _end(process)
            return ended
        reader.join(_LOOK_EVERY)
        if not reader.is_alive():
            with suppress(subprocess.TimeoutExpired):
                process.wait(_LOOK_EVERY)
    return "exited"


def _end(process: subprocess.Popen[bytes]) -> None:
    """Asks the whole process group to end, and kills it if it does not."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


LONGEST = 3_600  # seconds any command may take
# Characters with which a shell starts a second command, expands words or writes a file: a command with one of them is
# never allowed because of how it begins.
_MORE_THAN_ONE = frozenset(";|&`$()<>{}\n\r\\!*?[]~#")
# Names of variables that hold secrets; `terminal.pass_environment` makes exceptions.
_SECRET_VARIABLE = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL)", re.IGNORECASE)
# The shell's own message: no other program could put text into it.
_NOT_FOUND = re.compile(r"[\w/]*(?:bash|sh)(?:: line)?:? \d+: [\w.+-]{1,40}: (?:command )?not found\n?")


@value
class Policy:
    """Which commands may run: `mode` is ask, allow or deny; commands in `allowed` run without asking."""

    mode: str = "ask"
    allowed: tuple[str, ...] = ()
    seconds: int = 180
    passed_on: tuple[str, ...] = ()  # variables that look like secrets but are passed to commands


class Terminal:
    """The tool `terminal`: runs shell commands for the model."""

    works_in_folders = True
    in_turn = True
    sink = "command"
    gates_itself = True  # one question covers the gate and the policy
    grades_results = True
    schema = SCHEMAS["terminal"]

    def __init__(
        self, paths: AllowedPaths, limits: Limits, policy: Policy, ask: Ask | None, cancelled: Callable[[], bool]
    ) -> None:
        self._paths = paths
        self._limits = limits
        self._policy = policy
        self._ask = ask
        self._cancelled = cancelled

    def call(self, arguments: dict[str, Any], turn: TurnContext = NO_TURN) -> dict[str, Any]:
        """Runs a command in a shell once it is allowed, and returns its output within the limits for tool results."""
        command = arguments["command"].strip()
        if not command or "\0" in command:
            return failure("command is empty" if not command else "command holds a NUL character")
        folder = self._paths.to_read(arguments.get("workdir", "."))
        if not os.path.isdir(folder):
            return failure(f"workdir: there is no folder {self._paths.shown(folder)}")
        if refusal := self._refusal(command, folder, turn):
            return failure(refusal)
        origin = self._from(command, folder)  # before it runs, because it may move the files it reads
        seconds = min(max(arguments.get("timeout", self._policy.seconds), 1), LONGEST)
        ran = run_bounded(
            [_shell(), "-c", command],
            folder=folder,
            environment=self._environment(),
            seconds=seconds,
            most_bytes=4 * self._limits.max_bytes,
            cancelled=self._cancelled,
        )
        # The command may have written outside text into the files it names.
        if origin or (turn.sources() and not turn.approved):
            self._paths.changed_by(command, folder)
        output = self._limits.output(ran.output, ran.lost)
        result: dict[str, Any] = {"success": ran.ended == "exited" and ran.code == 0, "exit_code": ran.code}
        if ran.ended == "timed out":
            result["error"] = f"the command was ended after {seconds} s; give it more time or run less"
        elif ran.ended == "interrupted":
            result["error"] = "the user stopped the command"
        if not ran.output.strip() or _NOT_FOUND.fullmatch(ran.output):
            origin = ""  # no output, or only the shell's own message
        return result | {"output": output, "seconds": round(ran.seconds, 2), ORIGIN: origin}

    def _from(self, command: str, folder: str) -> str:
        """The origin of the output: a command that reads only trusted files has none."""
        if not is_local(command):
            return "tool"
        words = [os.path.join(folder, os.path.expanduser(each)) for each in _words(command)]
        files = [each for each in words if os.path.isfile(each)]
        places = [folder, *files, *(os.path.join(folder, os.path.expanduser(each)) for each in _paths_in(command))]
        # These print their arguments or a fact about the machine, and read no file.
        only_speaks = command.split()[:1] in (["echo"], ["pwd"], ["date"], ["whoami"]) and len(places) == 1
        if only_speaks:
            return ""
        # A command that names no file may read any in the folder, also one that holds text from outside.
        any_file = not files and not only_looks_at_names(command) and self._paths.holds_outside(folder)
        return "tool" if any_file or any(self._paths.origin(each) for each in places) else ""

    def _refusal(self, command: str, folder: str, turn: TurnContext) -> str:
        """Why the command may not run; empty when it may."""
        if self._policy.mode == "deny":
            return "commands are switched off here (terminal.policy is deny)"
        decision = decide("command", turn, command=command)
        # Even with the policy `allow`: it is meant for commands that the model thinks of by itself.
        if not decision.allowed:
            return consent(decision, turn, f"Run this command in {folder}?\n{command}")
        if self._policy.mode == "allow" or is_allowed(command, self._policy.allowed):
            return ""
        if self._ask is None:
            return (
                "a person would have to agree to this command, and nobody can be asked here"
                " (command_allowlist names commands that need no question)"
            )
        return "" if self._ask(f"Run this command in {folder}?\n{command}") else "the user said no to this command"

    def _environment(self) -> dict[str, str]:
        """Our environment without variables that look like secrets: a command's output goes to a model."""
        kept = self._policy.passed_on
        return {name: text for name, text in os.environ.items() if name in kept or not _SECRET_VARIABLE.search(name)}


def is_allowed(command: str, allowed: Sequence[str]) -> bool:
    """Whether a command is in the list, or is a single plain command that begins with the words of one in the list."""
    if command in allowed:
        return True
    if set(command) & _MORE_THAN_ONE:
        return False
    try:
        words = shlex.split(command)
    except ValueError:
        return False
    return any(beginning and words[: len(beginning)] == beginning for beginning in map(_words, allowed))


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return []


def _paths_in(command: str) -> list[str]:
    """The words of a command that may name a place outside its folder."""
    return [word for word in _words(command) if word.startswith(("/", "~", "..")) or "/.." in word]


def _shell() -> str:
    return next((path for path in ("/bin/bash", "/usr/bin/bash", "/bin/sh") if os.path.exists(path)), "sh")
