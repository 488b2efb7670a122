"""clients: programs that people already use, against a running `hermes serve` with a scripted model behind it.

Each row is one function that installs its client from packages, uses it and returns its version. What it said must be
found in the memory afterwards. The table in docs/guides/clients.md is written from what ran.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain
from typing import TYPE_CHECKING, Any

from live.kit import ROOT, say
from live.stub import serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from live.kit import Trial

_PAGE = os.path.join(ROOT, "docs", "guides", "clients.md")
_TABLE = re.compile(r"(?<=<!-- written by bin/live clients -->\n).*?(?=<!-- end -->)", re.DOTALL)
_LONGEST = 900  # seconds; a client with many packages takes minutes to install on a busy machine
_HOP_BY_HOP = ("connection", "content-length", "transfer-encoding")
_SAID = "On the ice shelf."


@dataclass(frozen=True, kw_only=True)
class Clients:
    """A running server, and where clients may be installed."""

    url: str
    key: str
    scratch: str
    page: str  # a web page of another origin that the server lets in
    folder: str  # what that page is served from

    def python(self, packages: list[str], script: str) -> str:
        """Runs a script in a Python of its own that has these packages; the last line it prints is the answer."""
        venv = os.path.join(self.scratch, re.sub(r"\W+", "-", packages[0]))
        python = os.path.join(venv, "bin", "python")
        if not os.path.exists(os.path.join(venv, "installed")):
            _ran([sys.executable, "-m", "venv", "--clear", venv])
            _ran([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages])
            with open(os.path.join(venv, "installed"), "w", encoding="utf-8"):
                pass
        return self.ran([python, "-E", "-c", _BEGINNING + script]).strip().splitlines()[-1]

    def npm(self, packages: list[str], program: str = "") -> str:
        """The folder that has these packages, or a program of theirs."""
        folder = os.path.join(self.scratch, "npm")
        os.makedirs(folder, exist_ok=True)
        if not all(os.path.isdir(os.path.join(folder, "node_modules", each)) for each in packages):
            _ran(["npm", "install", "--no-audit", "--no-fund", "--silent", "--prefix", folder, *packages])
        return os.path.join(folder, "node_modules", ".bin", program) if program else folder

    def node(self, packages: list[str], script: str) -> str:
        with open(os.path.join(self.npm(packages), "client.mjs"), "w", encoding="utf-8") as file:
            file.write(script)
        return self.ran(["node", file.name]).strip().splitlines()[-1]

    def ran(self, command: list[str], **more: str) -> str:
        return _ran(command, {"HERMES_URL": self.url, "HERMES_KEY": self.key, **more})

    def get(self, path: str) -> Any:
        request = urllib.request.Request(self.url + path, headers={"authorization": f"Bearer {self.key}"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)


_BEGINNING = """
import json, os
URL, KEY = os.environ["HERMES_URL"], os.environ["HERMES_KEY"]
from importlib.metadata import version
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"],
          "additionalProperties": False}
"""


def openai_python(clients: Clients) -> str:
    return clients.python(
        ["openai"],
        """
import openai
client = openai.OpenAI(base_url=f"{URL}/v1", api_key=KEY)
ask = [{"role": "user", "content": "Where does the walrus of openai python sleep?"}]
assert client.chat.completions.create(model="hermes", messages=ask).choices[0].message.content == "On the ice shelf."
pieces = client.chat.completions.create(model="hermes", messages=ask, stream=True)
assert "".join(each.choices[0].delta.content or "" for each in pieces) == "On the ice shelf."
shape = {"type": "json_schema", "json_schema": {"name": "place", "strict": True, "schema": SCHEMA}}
asked = [{"role": "user", "content": "Which city, as JSON?"}]
told = client.chat.completions.create(model="hermes", messages=asked, response_format=shape, temperature=0, seed=1)
assert json.loads(told.choices[0].message.content) == {"city": "Oslo"}
tool = {"type": "function", "function": {"name": "get_weather", "parameters": SCHEMA}}
history = [{"role": "user", "content": "How is the weather?"}]
message = client.chat.completions.create(model="hermes", messages=history, tools=[tool]).choices[0].message
history += [message, {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "rain, 4 degrees"}]
last = client.chat.completions.create(model="hermes", messages=history, tools=[tool])
assert last.choices[0].message.content == "Take an umbrella."
first = client.responses.create(model="hermes", input="Where does the walrus of openai python sleep?")
second = client.responses.create(model="hermes", input="And the walrus now?", previous_response_id=first.id)
assert first.output_text == second.output_text == "On the ice shelf."
assert client.models.retrieve("hermes").id == "hermes"
print(version("openai"))
""",
    )


def openai_npm(clients: Clients) -> str:
    return clients.node(
        ["openai"],
        """
import OpenAI from "openai";
import { readFileSync } from "node:fs";
const client = new OpenAI({ baseURL: process.env.HERMES_URL + "/v1", apiKey: process.env.HERMES_KEY });
const messages = [{ role: "user", content: "Where does the walrus of openai npm sleep?" }];
const whole = await client.chat.completions.create({ model: "hermes", messages });
if (whole.choices[0].message.content !== "On the ice shelf.") throw new Error("chat");
let text = "";
for await (const piece of await client.chat.completions.create({ model: "hermes", messages, stream: true }))
  text += piece.choices[0]?.delta?.content ?? "";
if (text !== "On the ice shelf.") throw new Error("stream");
const events = client.responses.stream({ model: "hermes", input: "Where does the walrus of openai npm sleep?" });
if ((await events.finalResponse()).output_text !== "On the ice shelf.") throw new Error("responses");
console.log(JSON.parse(readFileSync(new URL("./node_modules/openai/package.json", import.meta.url))).version);
""",
    )


def anthropic_python(clients: Clients) -> str:
    return clients.python(
        ["anthropic"],
        """
import anthropic
client = anthropic.Anthropic(base_url=URL, api_key=KEY)
ask = {"model": "claude-opus-5", "max_tokens": 500}
history = [{"role": "user", "content": "Where does the walrus of anthropic python sleep?"}]
assert client.messages.create(messages=history, **ask).content[0].text == "On the ice shelf."
with client.messages.stream(messages=history, **ask) as events:
    assert events.get_final_text() == "On the ice shelf."
tool = {"name": "get_weather", "input_schema": SCHEMA}
history = [{"role": "user", "content": "How is the weather?"}]
used = client.messages.create(messages=history, tools=[tool], **ask)
result = {"type": "tool_result", "tool_use_id": used.content[-1].id, "content": "rain, 4 degrees"}
history += [used.to_param(), {"role": "user", "content": [result]}]
assert client.messages.create(messages=history, tools=[tool], **ask).content[0].text == "Take an umbrella."
assert client.messages.count_tokens(model="hermes", messages=history[:1]).input_tokens > 0
print(version("anthropic"))
""",
    )


def litellm(clients: Clients) -> str:
    return clients.python(
        ["litellm"],
        """
import litellm
ask = [{"role": "user", "content": "Where does the walrus of litellm sleep?"}]
for model, base in (("openai/hermes", f"{URL}/v1"), ("anthropic/claude-opus-5", URL)):
    whole = litellm.completion(model=model, api_base=base, api_key=KEY, messages=ask, max_tokens=500)
    assert whole.choices[0].message.content == "On the ice shelf.", whole
    pieces = litellm.completion(model=model, api_base=base, api_key=KEY, messages=ask, max_tokens=500, stream=True)
    assert "".join(each.choices[0].delta.content or "" for each in pieces) == "On the ice shelf."
print(version("litellm"))
""",
    )


def langchain(clients: Clients) -> str:
    return clients.python(
        ["langchain-openai"],
        """
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel
class Place(BaseModel):
    city: str
@tool
def get_weather(city: str) -> str:
    "Looks outside."
    return "rain, 4 degrees"
model = ChatOpenAI(base_url=f"{URL}/v1", api_key=KEY, model="hermes", temperature=0)
asked = "Where does the walrus of langchain sleep?"
assert model.invoke(asked).content == "On the ice shelf."
assert "".join(each.content for each in model.stream(asked)) == "On the ice shelf."
assert model.with_structured_output(Place).invoke("Which city, as JSON?") == Place(city="Oslo")
assert model.bind_tools([get_weather]).invoke("How is the weather?").tool_calls[0]["args"] == {"city": "Oslo"}
print(version("langchain-openai"))
""",
    )


def llm(clients: Clients) -> str:
    folder = os.path.join(clients.scratch, "llm-user")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "extra-openai-models.yaml"), "w", encoding="utf-8") as file:
        file.write(f"- model_id: hermes\n  model_name: hermes\n  api_base: {clients.url}/v1\n  api_key_name: hermes\n")
    with open(os.path.join(folder, "keys.json"), "w", encoding="utf-8") as file:
        json.dump({"hermes": clients.key}, file)
    found = clients.python(["llm"], 'print(version("llm"))\n')
    program = os.path.join(clients.scratch, "llm", "bin", "llm")
    asked = "Where does the walrus of llm sleep?"
    for more in ([], ["--no-stream", "-o", "temperature", "0"]):
        answer = clients.ran([program, "-m", "hermes", *more, asked], LLM_USER_PATH=folder)
        assert answer.strip() == _SAID, answer
    return found


def browser(clients: Clients) -> str:
    """A page of another origin asks with a key; the same page under a name that is not listed must fail."""
    page = """<body><script>
(async () => {
  try {
    const answer = await fetch("%s/v1/chat/completions", {
      method: "POST",
      headers: { authorization: "Bearer %s", "content-type": "application/json" },
      body: JSON.stringify({ messages: [{ role: "user", content: "Where does the walrus of a browser page sleep?" }] }),
    });
    const said = (await answer.json()).choices[0].message.content;
    document.body.textContent = said + (answer.headers.get("x-hermes-session") ? " SESSION" : "");
  } catch (error) { document.body.textContent = "BLOCKED " + error; }
})();
</script></body>"""
    with open(os.path.join(clients.folder, "page.html"), "w", encoding="utf-8") as file:
        file.write(page % (clients.url, clients.key))
    shown = {}
    for origin in (clients.page, clients.page.replace("127.0.0.1", "localhost")):
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={clients.scratch}/chromium"]
        shown[origin] = clients.ran(
            ["chromium", *options, "--virtual-time-budget=20000", "--dump-dom", f"{origin}/page.html"]
        )
    assert f"{_SAID} SESSION" in shown[clients.page], shown
    assert "BLOCKED" in shown[clients.page.replace("127.0.0.1", "localhost")], shown
    return clients.ran(["chromium", "--version"]).split()[1]


def mcp_program(clients: Clients, package: str) -> tuple[list[str], str]:
    """How to start a program of the MCP project, with the newer Node that they need, and its version."""
    folder = os.path.join(clients.scratch, "mcp")
    place = os.path.join(folder, "node_modules", "@modelcontextprotocol", package)
    if not os.path.isdir(place):
        newest = ["node@22", f"@modelcontextprotocol/{package}@latest"]
        _ran(["npm", "install", "--no-audit", "--no-fund", "--silent", "--prefix", folder, *newest])
    with open(os.path.join(place, "package.json"), encoding="utf-8") as file:
        about = json.load(file)
    node = os.path.join(folder, "node_modules", ".bin", "node")
    return [node, os.path.join(place, next(iter(about["bin"].values())))], about["version"]


def inspector(clients: Clients) -> str:
    program, version = mcp_program(clients, "inspector")
    words = [*program, "--cli", f"{clients.url}/mcp", "--header", f"Authorization: Bearer {clients.key}", "--method"]
    tools = json.loads(clients.ran([*words, "tools/list", "--strict"]))["tools"]
    assert all(tool["title"] and tool["outputSchema"] for tool in tools), tools
    said = json.dumps([{"role": "user", "content": "Where does the walrus of inspector sleep?"}])
    call = [*words, "tools/call", "--tool-name"]
    clients.ran([*call, "record_conversation", "--tool-arg", f"messages={said}"])
    found = json.loads(clients.ran([*call, "search", "--tool-arg", "query=walrus of inspector"]))
    assert "walrus of inspector" in found["structuredContent"]["results"][0]["title"], found
    return version


def gemini_cli(clients: Clients) -> str:
    program = clients.npm(["@google/gemini-cli"], "gemini")
    home = os.path.join(clients.scratch, "gemini-home")
    os.makedirs(os.path.join(home, ".gemini"), exist_ok=True)
    server = {"httpUrl": f"{clients.url}/mcp", "headers": {"Authorization": f"Bearer {clients.key}"}}
    settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}, "mcpServers": {"hermes": server}}
    with open(os.path.join(home, ".gemini", "settings.json"), "w", encoding="utf-8") as file:
        json.dump(settings, file)
    own = {"HOME": home, "GEMINI_API_KEY": "x", "GEMINI_CLI_TRUST_WORKSPACE": "true"}
    listed = subprocess.run(
        [program, "mcp", "list"],
        env={**os.environ, **own},
        cwd=home,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,  # that is where it lists servers
        text=True,
        timeout=_LONGEST,
        check=True,
    ).stdout
    assert "hermes" in listed, listed
    assert "Connected" in listed, listed
    return clients.ran([program, "--version"], **own).strip().splitlines()[-1]


def conformance(clients: Clients) -> str:
    """The scenarios that any server can pass; the others call tools of a reference server."""
    program, version = mcp_program(clients, "conformance")
    common = ("server-initialize", "ping", "tools-list", "resources-list", "prompts-list", "dns-rebinding-protection")
    with _with_key(clients) as url:
        for scenario in common:
            clients.ran([*program, "server", "--url", f"{url}/mcp", "--scenario", scenario])
    return version


def framework(package: str, example: str) -> Callable[[Clients], str]:
    """Runs an example of the docs in a Python that has the framework beside Hermes with its server."""

    def run(clients: Clients) -> str:
        with open(os.path.join(ROOT, "docs", "examples", example), encoding="utf-8") as file:
            return clients.python([package, f"{ROOT}[server]"], f"{file.read()}\nprint(version('{package}'))\n")

    return run


def claude_code(clients: Clients) -> str:
    """Its model is ours: it asks `/v1/messages` for everything, with its own tools and its own model names."""
    home = os.path.join(clients.scratch, "claude-home")
    os.makedirs(home, exist_ok=True)
    program = clients.npm(["@anthropic-ai/claude-code"], "claude")
    more = {"HOME": home, "ANTHROPIC_BASE_URL": clients.url, "ANTHROPIC_API_KEY": clients.key, "IS_SANDBOX": "1"}
    more |= {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}
    answer = clients.ran([program, "-p", "Where does the walrus of claude code sleep?"], **more)
    assert _SAID in answer, answer
    return clients.ran([program, "--version"], **more).split()[0]


def codex(clients: Clients) -> str:
    """Its model is ours: it asks `/v1/responses`."""
    home = os.path.join(clients.scratch, "codex-home")
    os.makedirs(home, exist_ok=True)
    program = clients.npm(["@openai/codex"], "codex")
    provider = f'{{name="hermes",base_url="{clients.url}/v1",wire_api="responses",env_key="HERMES_KEY"}}'
    options = [f"model_providers.hermes={provider}", 'model_provider="hermes"', 'model="hermes"']
    options += ['web_search="disabled"']  # a tool of OpenAI's own servers
    given = [word for option in options for word in ("-c", option)]
    asked = ["exec", "--skip-git-repo-check", *given, "Where does the walrus of codex sleep?"]
    answer = clients.ran([program, *asked], CODEX_HOME=home)
    assert _SAID in answer, answer
    return clients.ran([program, "--version"], CODEX_HOME=home).split()[-1]


@dataclass(frozen=True, kw_only=True)
class Row:
    name: str  # as the table has it
    word: str  # in the question that must be found in memory afterwards; "" when the row looks itself
    what: str
    run: Callable[[Clients], str]


ROWS = [
    Row(
        name="openai (Python)",
        word="openai python",
        what="chat, streaming, JSON schema, functions, responses, models",
        run=openai_python,
    ),
    Row(name="openai (npm)", word="openai npm", what="chat, streaming, responses", run=openai_npm),
    Row(
        name="anthropic (Python)",
        word="anthropic python",
        what="messages, streaming, tools, count_tokens; model name by alias",
        run=anthropic_python,
    ),
    Row(name="litellm", word="litellm", what="as an OpenAI and as an Anthropic server, streaming", run=litellm),
    Row(
        name="LangChain (langchain-openai)",
        word="langchain",
        what="chat, streaming, structured output, tools",
        run=langchain,
    ),
    Row(name="llm", word="llm", what="the command line, streaming and whole", run=llm),
    Row(
        name="Claude Code, with the server as its model",
        word="claude code",
        what="`claude -p` over /v1/messages",
        run=claude_code,
    ),
    Row(
        name="Codex, with the server as its model",
        word="codex",
        what="`codex exec` over /v1/responses; its web search switched off",
        run=codex,
    ),
    Row(
        name="a web page in Chromium",
        word="browser page",
        what="fetch from a listed origin; another origin is blocked",
        run=browser,
    ),
    Row(
        name="OpenAI Agents SDK",
        word="",
        what="session, instructions, tools, resume",
        run=framework("openai-agents", "openai_agents_sdk.py"),
    ),
    Row(
        name="pydantic-ai",
        word="",
        what="history, instructions, tools, resume",
        run=framework("pydantic-ai-slim", "pydantic_ai_agent.py"),
    ),
    Row(
        name="LangGraph",
        word="",
        what="checkpointer, store, tools, resume; in one environment with the extra `server`",
        run=framework("langgraph", "langgraph_agent.py"),
    ),
    Row(
        name="LlamaIndex",
        word="",
        what="memory, tools, resume",
        run=framework("llama-index-core", "llama_index_agent.py"),
    ),
    Row(
        name="Gemini CLI",
        word="",
        what="connects to /mcp and lists it; `bin/live hosts` has a conversation with it",
        run=gemini_cli,
    ),
    Row(
        name="MCP inspector",
        word="inspector",
        what="tools/list (strict), tools/call: record_conversation, search",
        run=inspector,
    ),
    Row(
        name="MCP conformance",
        word="",
        what="initialize, ping, tools, resources, prompts, DNS rebinding (2025-11-25; the package has no newer)",
        run=conformance,
    ),
]


def run(trial: Trial) -> int:
    os.makedirs(trial.scratch, exist_ok=True)
    failed = []
    with _clients(trial) as clients:
        for row in ROWS:
            if trial.only and trial.only not in row.name:
                continue
            try:
                version = row.run(clients)
                _look(clients, row)
            except (AssertionError, subprocess.SubprocessError, OSError, IndexError) as error:
                say(f"{row.name}: FAILED {error}")
                failed.append(row.name)
            else:
                say(f"{row.name}: {version}")
                _write(row, version)
    say(f"failed: {', '.join(failed)}" if failed else "all clients work")
    return int(bool(failed))


def _look(clients: Clients, row: Row) -> None:
    if row.word:
        wanted = urllib.parse.quote(f"walrus of {row.word}")
        found = [each["session_id"] for each in clients.get(f"/api/v1/search?q={wanted}")["results"]]
        # The message that was found may be the answer, which does not repeat the word of the question.
        said = [clients.get(f"/api/v1/sessions/{name}/messages")["messages"] for name in found]
        assert any(row.word in str(each["content"]) for each in chain(*said)), (row.word, said)


def _write(row: Row, version: str) -> None:
    """Puts the row into the table, in the order of ROWS; rows of earlier runs stay."""
    with open(_PAGE, encoding="utf-8") as file:
        page = file.read()
    found = _TABLE.search(page)
    assert found is not None, f"{_PAGE} has no place for the table"
    lines = {line.split(" | ")[0].strip("| "): line for line in found.group().splitlines()[2:]}
    lines[row.name] = f"| {row.name} | {version} | {row.what} | {date.today().isoformat()} |"  # noqa: DTZ011
    order = {each.name: place for place, each in enumerate(ROWS)}
    told = [lines[name] for name in sorted(lines, key=lambda name: order.get(name, len(order)))]
    table = "\n".join(["| client | version | what ran | date |", "|---|---|---|---|", *told, ""])
    with open(_PAGE, "w", encoding="utf-8") as file:
        file.write(page[: found.start()] + table + page[found.end() :])


@contextmanager
def _clients(trial: Trial) -> Iterator[Clients]:
    folder = os.path.join(trial.home, "page")
    os.makedirs(folder)
    with serving(_answer) as model, _served(folder) as page, _server(trial.home, model, page) as (url, key):
        yield Clients(url=url, key=key, scratch=trial.scratch, page=page, folder=folder)


def _answer(messages: list[dict[str, Any]]) -> str | dict[str, Any]:
    """What the scripted model says to the newest message."""
    newest = json.dumps(messages[-1].get("content"))
    if messages[-1]["role"] == "tool":
        return "Take an umbrella."
    if "as JSON" in newest:
        return '{"city": "Oslo"}'
    if "weather" in newest:
        function = {"name": "get_weather", "arguments": '{"city": "Oslo"}'}
        return {
            "content": None,
            "tool_calls": [{"id": f"call_{len(messages)}", "type": "function", "function": function}],
        }
    return _SAID


@contextmanager
def _with_key(clients: Clients) -> Iterator[str]:
    """The server for a client that cannot send a key; everything else goes through as it is."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            kept = {name: text for name, text in self.headers.items() if name.lower() not in _HOP_BY_HOP}
            server = http.client.HTTPConnection(urllib.parse.urlsplit(clients.url).netloc, timeout=30)
            server.request("POST", self.path, body, {**kept, "authorization": f"Bearer {clients.key}"})
            answer = server.getresponse()
            data = answer.read()
            self.send_response(answer.status)
            self.send_header("content-type", answer.getheader("content-type") or "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
            server.close()

        def do_GET(self) -> None:
            self.send_response(405)  # there is nothing to wait for
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with _listening(Handler) as url:
        yield url


@contextmanager
def _served(folder: str) -> Iterator[str]:
    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *connection: Any) -> None:
            super().__init__(*connection, directory=folder)

        def log_message(self, *_: object) -> None:
            pass

    with _listening(Handler) as url:
        yield url


@contextmanager
def _listening(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def _server(home: str, model: str, page: str) -> Iterator[tuple[str, str]]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    place = os.path.join(home, "hermes")
    os.makedirs(place)
    hermes = [sys.executable, "-m", "hermes", "--home", place]
    with open(os.path.join(place, "config.yaml"), "w", encoding="utf-8") as file:
        file.write(
            f"model:\n  provider: custom\n  default: stub\n  base_url: {model}\n  context_length: 100000\n"
            f"server:\n  port: {port}\n  origins: ['{page}']\n"
            "  model_aliases: {'claude-*': hermes, 'gpt-*': hermes, 'gemini-*': hermes}\n"
        )
    key = json.loads(_ran([*hermes, "users", "key", "owner", "--json"]))["key"]
    process = subprocess.Popen([*hermes, "serve"], stdout=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        _wait(url, process)
        yield url, key
    finally:
        process.terminate()
        process.wait(60)


def _wait(url: str, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end and process.poll() is None:
        try:
            urllib.request.urlopen(f"{url}/health", timeout=1)
        except urllib.error.HTTPError:
            return  # it wants a key, so it is there
        except OSError:
            time.sleep(0.2)
    raise AssertionError("hermes serve did not start")


def _ran(command: list[str], more: dict[str, str] | None = None) -> str:
    ran = subprocess.run(
        command,
        env={**os.environ, **(more or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_LONGEST,
        check=False,
    )
    if ran.returncode:
        raise AssertionError(f"{command[0]}: {(ran.stdout + ran.stderr).strip()[-2000:]}")
    return ran.stdout
