"""`byterover`: a tree of Markdown notes that the program `brv` keeps on this machine."""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from hermes.base.errors import ProviderError
from hermes.providers.config import described, read_elsewhere
from hermes.providers.manager import home_of_the_caller
from hermes.providers.service import ServiceProvider, clean, digest, distinct_id, question, text_of
from hermes.safety.secrets import mask_secrets
from hermes.storage.files import Folder, explain

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hermes.providers.service import Entry, Turn

# Names of files and folders that brv uses.
_KNOWN = "registry.json"  # lists where each project keeps its history
_PROJECTS = "projects"
_PROJECT = ".brv"
_TREE = "context-tree"
_CONFIG = "config.json"
_OURS = "hermes"  # the folder of our notes in the tree
_SHORT_FORMS = (".abstract.md", ".overview.md")  # summaries that brv writes next to a note


class Tree:
    """The notes of brv: Markdown files in `.brv/context-tree` of a folder. brv itself cannot delete notes."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._root = os.path.join(folder, _PROJECT, _TREE)

    def prepare(self) -> None:
        """Makes the folder a project of brv."""
        with Folder.create(os.path.join(self.folder, _PROJECT)) as project:
            if project.status(_CONFIG) is None:
                made = {"createdAt": datetime.now(UTC).isoformat(), "cwd": self.folder, "version": "0.0.1"}
                project.replace(_CONFIG, json.dumps(made).encode())
        Folder.create(self._root).close()

    def notes(self) -> list[str]:
        """The names of all notes, as paths below the tree."""
        return sorted(os.path.relpath(path, self._root) for path in self._files())

    def state(self) -> dict[str, int]:
        """The modification time of each note, which shows what brv has written since."""
        return {path: os.stat(path).st_mtime_ns for path in self._files()}

    def keep(self, target: str, text: str) -> None:
        """Writes a note with this text; the same text is the same note."""
        with Folder.create(os.path.join(self._root, _OURS, target)) as folder:
            folder.replace(_name(text), f"# Curated memory ({target})\n\n{text}\n".encode("utf-8", "replace"))

    def withdraw(self, target: str, text: str) -> None:
        """Deletes the note that `keep` made of this text, if it is there."""
        folder = Folder.open(os.path.join(self._root, _OURS, target))
        if folder is not None:
            with folder:
                folder.remove(_name(text))

    def forget(self, note: str) -> None:
        """Deletes one note with its short forms."""
        if note not in self.notes():
            raise ProviderError(f"there is no note {note!r}; brv_status lists them", kind="missing")
        place, name = os.path.split(os.path.join(self._root, note))
        folder = Folder.open(place)
        if folder is not None:
            with folder:
                for each in (name, *(name.removesuffix(".md") + form for form in _SHORT_FORMS)):
                    folder.remove(each)

    def remove(self) -> None:
        """Deletes the folder with everything in it."""
        try:
            shutil.rmtree(self.folder)
        except FileNotFoundError:
            return
        except OSError as error:
            raise explain("remove", self.folder, error) from error

    def _files(self) -> Iterator[str]:
        for place, _, names in os.walk(self._root):
            for name in names:
                if name.endswith(".md") and not name.endswith(_SHORT_FORMS) and not name.startswith("_"):
                    yield os.path.join(place, name)


def _name(text: str) -> str:
    return f"mem_{digest(text, 12)}.md"


_PROTOCOL = "2025-06-18"  # version of MCP
_LARGEST_ANSWER = 16 << 20
_PIECE = 1 << 16
_START_SECONDS = 30.0
_END_SECONDS = 2.0  # to end when asked, before it is killed
_LONGEST_QUOTE = 300  # characters of what brv says in an error
# brv gives the cause of a failure only as text.
_WRONG_KEY = re.compile(r"\b40[13]\b|unauthori[sz]ed|invalid api key|not authenticated", re.IGNORECASE)
_LIMITED = re.compile(r"\b429\b|rate.?limit|too many requests", re.IGNORECASE)
_WAIT = re.compile(r"retry.?after\D{0,10}(\d+)", re.IGNORECASE)


class Brv:
    """One long-lived `brv mcp`: JSON-RPC over its standard input and output, with a deadline for every call.

    Starting it takes seconds and a call milliseconds, so it is started once and kept. It is read without a thread.
    """

    def __init__(self, command: str, folder: str, environment: Mapping[str, str], secret: str = "") -> None:
        self._command = command
        self._folder = folder
        self._environment = {**os.environ, **environment}
        self._secret = secret
        self._process: subprocess.Popen[bytes] | None = None
        self._buffer = b""
        self._number = 0
        self._lock = threading.Lock()

    def call(self, tool: str, arguments: dict[str, Any], seconds: float) -> str:
        """Calls a tool and returns its text; raises a ProviderError if it fails or misses the deadline."""
        end = time.monotonic() + seconds
        if not self._lock.acquire(timeout=seconds):
            raise ProviderError("brv is busy with something else", kind="slow")
        try:
            if not self._is_running():
                # A recall must not wait for the start; a longer call may.
                self._start(max(end, time.monotonic() + _START_SECONDS) if seconds > _START_SECONDS else end)
            answer = self._request("tools/call", {"name": tool, "arguments": arguments}, end)
        finally:
            self._lock.release()
        return self._text(answer)

    def start(self) -> None:
        """Starts the program before it is needed, unless it is running."""
        with self._lock:
            if not self._is_running():
                self._start(time.monotonic() + _START_SECONDS)

    def close(self) -> None:
        """Ends the program; the next call starts it again."""
        process, self._process, self._buffer = self._process, None, b""
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    continue  # nobody would read what could not be flushed
        process.terminate()
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _start(self, end: float) -> None:
        self.close()
        try:
            self._process = subprocess.Popen(
                [self._command, "mcp"],
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        except OSError as error:
            raise ProviderError(f"brv does not start: {error} (is {self._command} right?)", kind="absent") from error
        client = {"name": "hermes", "version": "1"}
        self._request("initialize", {"protocolVersion": _PROTOCOL, "capabilities": {}, "clientInfo": client}, end)
        self._send({"method": "notifications/initialized"})

    def _request(self, method: str, params: dict[str, Any], end: float) -> dict[str, Any]:
        self._number += 1
        number = self._number
        self._send({"id": number, "method": method, "params": params})
        while True:
            answer = self._message(end)
            if answer.get("id") != number:
                continue  # a notification, or a late answer
            if isinstance(answer.get("error"), dict):
                raise self._failure(str(answer["error"].get("message") or "no reason given"))
            if not isinstance(answer.get("result"), dict):
                raise self._malformed("an answer without a result")
            found: dict[str, Any] = answer["result"]
            return found

    def _send(self, message: dict[str, Any]) -> None:
        if self._process is None or self._process.stdin is None:
            raise ProviderError("brv is not running (it is started again later)", kind="busy")
        try:
            self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            self.close()
            raise ProviderError("brv has ended (it is started again later)", kind="busy") from error

    def _message(self, end: float) -> dict[str, Any]:
        while b"\n" not in self._buffer:
            self._buffer += self._piece(end)
            if len(self._buffer) > _LARGEST_ANSWER:
                raise self._malformed(f"more than {_LARGEST_ANSWER:,} bytes")
        line, _, self._buffer = self._buffer.partition(b"\n")
        try:
            found = json.loads(line)
        except ValueError as error:
            raise self._malformed("something that is not JSON") from error
        if not isinstance(found, dict):
            raise self._malformed("something that is not a message")
        return found

    def _piece(self, end: float) -> bytes:
        if self._process is None or self._process.stdout is None:
            raise ProviderError("brv is not running (it is started again later)", kind="busy")
        ready, _, _ = select.select([self._process.stdout], [], [], max(end - time.monotonic(), 0))
        if not ready:
            raise ProviderError("brv did not answer in time", kind="slow")
        piece = os.read(self._process.stdout.fileno(), _PIECE)
        if not piece:
            self.close()
            raise ProviderError("brv has ended (it is started again later)", kind="busy")
        return piece

    def _text(self, answer: dict[str, Any]) -> str:
        content = answer.get("content")
        if not isinstance(content, list):
            raise self._malformed("an answer without content")
        text = "\n".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
        if answer.get("isError"):
            raise self._failure(text)
        return text.strip()

    def _malformed(self, what: str) -> ProviderError:
        self.close()
        return ProviderError(f"brv answered with {what}; is its version one this provider knows?", kind="malformed")

    def _failure(self, said: str) -> ProviderError:
        if self._secret:
            said = said.replace(self._secret, "[key]")
        said = f"brv: {mask_secrets(' '.join(said.split()))[:_LONGEST_QUOTE]}"
        if _WRONG_KEY.search(said):
            hint = "run `hermes memory setup byterover`, or `brv providers connect` for its model"
            return ProviderError(f"{said} ({hint})", kind="key")
        if _LIMITED.search(said):
            wait = _WAIT.search(said)
            seconds = float(wait[1]) if wait else None
            asked = f"it asks to wait {seconds:g} s" if seconds else "it does not say how long to wait"
            return ProviderError(f"{said} ({asked})", kind="limited", seconds=seconds)
        return ProviderError(said, kind="busy")


# Where brv may be if it is not on PATH.
_PLACES = ("~/.brv-cli/bin/brv", "/usr/local/bin/brv", "~/.npm-global/bin/brv")
_MISSING = (
    "the program brv was not found; install it with `npm install -g byterover-cli`, or set its path with "
    "`hermes memory setup byterover`"
)
# A recall gets a little less time than a turn waits for it (`Limits.recall_seconds` in providers/manager.py).
_RECALL_SECONDS, _QUERY_SECONDS, _CURATE_SECONDS = 2.6, 25.0, 60.0
_LOOK_SECONDS = 0.1  # between two looks for new notes
# Characters.
_SHORTEST_QUERY, _SHORTEST_ANSWER, _LONGEST_ANSWER = 10, 20, 8_000
_LONGEST_QUERY, _LONGEST_SIDE, _LONGEST_MESSAGE = 5_000, 2_000, 500
_LAST_MESSAGES, _SHOWN = 10, 50
# What brv answers when it finds nothing.
_NOTHING = ("No matching knowledge found", "Context tree is empty")


class ByteRoverProvider(ServiceProvider[Brv]):
    """External memory in ByteRover's notes, which its own model reads and writes."""

    name = "byterover"

    FIELDS, TOOLS = described(name)

    def __init__(self) -> None:
        super().__init__()
        self._tree = Tree("")

    def is_available(self) -> bool:
        try:
            self._program(self._configured(home_of_the_caller()))
        except ProviderError as error:
            self.unavailable_because = str(error)
            return False
        return True

    def _connect(self) -> None:
        self.shutdown()
        command, key = self._program(self._config), str(self._config["api_key"] or "")
        # Where one process serves many people, each has a tree of their own.
        mine = f"-{distinct_id(self._person)}" if self._person else ""
        self._tree = Tree(os.path.join(self._home, f"byterover{mine}"))
        self._tree.prepare()
        self._api = Brv(command, self._tree.folder, {"BRV_API_KEY": key} if key else {}, key)
        self._api.start()

    def _program(self, config: Mapping[str, Any]) -> str:
        given = str(config["command"] or "")
        found = shutil.which(os.path.expanduser(given) if given else "brv")
        places = () if given else filter(os.path.exists, map(os.path.expanduser, _PLACES))
        found = found or next(iter(places), None)
        if found is None:
            raise ProviderError(_MISSING, kind="absent")
        return found

    # --- hooks ------------------------------------------------------------------------------------------------------

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        query = question(query)
        if len(query) < _SHORTEST_QUERY or not self._tree.notes():
            return ""
        found = self._asked(query, _RECALL_SECONDS)
        return f"## ByteRover Memory\n{found}" if len(found) >= _SHORTEST_ANSWER else ""

    def _store_turn(self, turn: Turn) -> None:
        if self._config["auto_curate"]:
            said = (("User", turn.user), ("Assistant", turn.assistant))
            lines = [f"{who}: {text[:_LONGEST_SIDE]}" for who, text in said]
            self._note("\n".join([f"Conversation {turn.session}", *lines]))

    def _keep(self, entry: Entry) -> None:
        """Writes the entry as a note of its own, without asking a model, so that it can be removed again."""
        self._tree.keep(entry.target, entry.text)

    def _withdraw(self, entry: Entry) -> None:
        self._tree.withdraw(entry.target, entry.text)

    def on_pre_compress(self, messages: list[dict[str, Any]]) -> str:
        """Passes on what is about to leave the context; brv processes it in the background."""
        said = [
            f"{message.get('role')}: {text[:_LONGEST_MESSAGE]}"
            for message in messages[-_LAST_MESSAGES:]
            if isinstance(message.get("content"), str) and (text := clean(message["content"]))
        ]
        if said and self._writes and self._config["auto_extract"]:
            self._note("\n".join([f"End of a part of the conversation {self._session_id}", *said]), _RECALL_SECONDS)
        return ""

    def check_connection(self) -> str:
        """Asks brv a question, which also shows whether its model answers."""
        self._asked("What do you know about the person?", _QUERY_SECONDS)
        return f"brv answers, {len(self._tree.notes()):,} notes in {self._tree.folder}"

    def _forget(self) -> str:
        notes = len(self._tree.notes())
        self.shutdown()  # first, so that it writes nothing more
        history = remove_history(self._tree.folder)
        self._tree.remove()
        kept = f" and brv's history of them in {history}" if history else ""
        return (
            f"deleted {notes:,} notes{kept}; a brv that is still working may write more until "
            "`brv restart`, and what was pushed to ByteRover's cloud stays there"
        )

    def shutdown(self) -> None:
        if self._api is not None:
            self._api.close()
            self._api = None

    # --- tools ------------------------------------------------------------------------------------------------------

    def brv_query(self, args: dict[str, Any]) -> dict[str, Any]:
        """Answers a question from the notes, with the model that brv uses."""
        found = self._asked(text_of(args, "query")[:_LONGEST_QUERY], _QUERY_SECONDS)
        return {"result": found or "nothing is noted about this yet"}

    def brv_curate(self, args: dict[str, Any]) -> dict[str, Any]:
        """Has brv note something, and waits until a note appears: brv reports success even if none does."""
        before = self._tree.state()
        self._note(clean(text_of(args, "content")))
        end = time.monotonic() + float(self._config["curate_wait"])
        while (now := self._tree.state()) == before:
            if time.monotonic() >= end:
                return {
                    "result": "nothing was noted: brv took it, but no note has appeared or changed; its model may "
                    "still be at work, or may not be able to do it (brv_status shows the notes)",
                    "stored": False,
                }
            time.sleep(_LOOK_SECONDS)
        changed = [path for path, when in now.items() if before.get(path) != when]
        return {"result": "noted", "stored": True, "notes": sorted(map(os.path.basename, changed))}

    def brv_status(self, args: dict[str, Any]) -> dict[str, Any]:
        """Lists notes."""
        notes = self._tree.notes()
        return {"status": self.check_connection(), "notes": notes[:_SHOWN], "total": len(notes)}

    def brv_forget(self, args: dict[str, Any]) -> dict[str, Any]:
        """Deletes one note by its name."""
        note = text_of(args, "note")
        self._tree.forget(note)
        return {"result": "forgotten", "note": note}

    # --- how --------------------------------------------------------------------------------------------------------

    def _asked(self, query: str, seconds: float) -> str:
        found = self._opened().call("brv-query", {"query": query, "cwd": self._tree.folder}, seconds)
        return "" if any(words in found for words in _NOTHING) else found[:_LONGEST_ANSWER]

    def _note(self, text: str, seconds: float = _CURATE_SECONDS) -> None:
        self._opened().call("brv-curate", {"context": text, "cwd": self._tree.folder}, seconds)


def remove_history(folder: str) -> str:
    """Removes brv's history of a folder's notes; returns its path, empty if there was none."""
    place = data_folder()
    projects = read_elsewhere(os.path.join(place, _KNOWN)).get("projects")
    known = projects.get(os.path.realpath(folder)) if isinstance(projects, dict) else None
    history = str(known.get("storagePath") or "") if isinstance(known, dict) else ""
    # Remove only a folder inside brv's own data, whatever the registry says.
    if os.path.dirname(os.path.normpath(history)) != os.path.join(place, _PROJECTS) or not os.path.isdir(history):
        return ""
    try:
        shutil.rmtree(history)
    except OSError as error:
        raise explain("remove", history, error) from error
    return history


def data_folder() -> str:
    """The folder in which brv keeps its data on this system."""
    if given := os.environ.get("BRV_DATA_DIR"):
        return os.path.normpath(given)
    match sys.platform:
        case "win32":
            place = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
        case "darwin":
            place = "~/Library/Application Support"
        case _:
            place = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return os.path.join(os.path.expanduser(place), "brv")
