"""hosts: Claude Code, Codex and Gemini CLI from npm, each with a home of its own and a scripted model on loopback."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, ClassVar

from live.kit import ROOT, say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from live.kit import Trial

_PACKAGES = {"claude": "@anthropic-ai/claude-code", "codex": "@openai/codex", "gemini": "@google/gemini-cli"}
_PROGRAMS = {"claude-code": "claude", "codex": "codex", "gemini": "gemini"}
# Which commands install the plug-in, and which take it out again.
_PLUGIN = {
    "claude-code": (("marketplace", "add", ROOT), ("install", "hermes-memory@hermes")),
    "codex": (("marketplace", "add", ROOT), ("add", "hermes-memory@hermes")),
}
_UNPLUG = {
    "claude-code": (("uninstall", "hermes-memory@hermes"), ("marketplace", "remove", "hermes")),
    "codex": (("remove", "hermes-memory@hermes"), ("marketplace", "remove", "hermes")),
}
_LISTED = {"claude-code": "Connected", "codex": "enabled", "gemini": "Connected"}  # what `… mcp list` has to say
_ASKED, _ANSWERED = "Where does the walrus sleep?", "On the ice shelf."
_LONGEST = 180


def run(trial: Trial) -> int:
    _install(trial.scratch)
    os.makedirs(os.path.join(trial.home, "project"))
    other = os.path.join(trial.home, "other")
    os.makedirs(other)
    with open(os.path.join(other, "hermes"), "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\necho this is another program called hermes\n")
    os.chmod(file.name, 0o755)
    with open(os.path.join(other, "hermes-memory"), "w", encoding="utf-8") as file:  # what the plug-in starts
        file.write(f'#!/bin/sh\nexec {ROOT}/bin/hermes "$@"\n')
    os.chmod(file.name, 0o755)
    os.makedirs(os.path.join(trial.home, ".gemini"))
    with open(os.path.join(trial.home, ".gemini", "settings.json"), "w", encoding="utf-8") as file:
        json.dump({"security": {"auth": {"selectedType": "gemini-api-key"}}}, file)
    with _model() as url:
        hosts = _Hosts(trial, other, url)
        failed = [host for host in _PROGRAMS if not hosts.tried(host)]
        failed += [f"{host} with the plug-in" for host in _PLUGIN if not hosts.tried_plugin(host)]
    say(f"failed: {', '.join(failed)}" if failed else "all hosts work")
    return int(bool(failed))


class _Hosts:
    def __init__(self, trial: Trial, other: str, url: str) -> None:
        self._bin = os.path.join(trial.scratch, "node_modules", ".bin")
        self._project = os.path.join(trial.home, "project")
        self._url = url
        kept = {name: os.environ[name] for name in ("LANG", "TERM", "USER", "SHELL") if name in os.environ}
        self._environment = {
            **kept,
            "HOME": trial.home,
            "PATH": f"{other}:{os.environ['PATH']}",
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "x",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "MCP_CONNECTION_NONBLOCKING": "false",  # else `claude -p` asks the model while the server still starts
            "MCP_CONNECT_TIMEOUT_MS": "60000",
            "GEMINI_API_KEY": "x",
            "GEMINI_CLI_TRUST_WORKSPACE": "true",  # it starts servers and hooks in trusted folders only
            "GOOGLE_GEMINI_BASE_URL": url,
        }

    def tried(self, host: str) -> bool:
        """Installed, connected, used in a conversation that is recorded, still answering, and taken out again."""
        say(f"== {host}: {self._host(host, '--version').strip().splitlines()[0]}")
        self._hermes("mcp", "install", host, "--yes")
        connected = _LISTED[host] in self._host(host, "mcp", "list", shown=True)
        _Handler.seen.clear()
        self._host(host, *self._question(host))
        offered = any(b"session_search" in body for body in _Handler.seen)
        found = self._hermes("sessions", "search", _ASKED, "--json")
        recorded = any(row.get("source") == host for row in json.loads(self._hermes("sessions", "list", "--json")))
        recorded = recorded and _ANSWERED.rstrip(".") in found
        rows = json.loads(self._hermes("mcp", "status", "--json"))
        answers = next(row for row in rows if row["host"] == host)["answers"]
        self._hermes("mcp", "uninstall", host, "--yes")
        gone = "hermes" not in self._host(host, "mcp", "list").replace(self._environment["HOME"], "")
        say(f"{host}: connected {connected}, its model has our tools {offered}, recorded {recorded}")
        say(f"{host}: status answers {answers}, uninstalled {gone}")
        return connected and offered and recorded and bool(answers) and gone

    def tried_plugin(self, host: str) -> bool:
        """Two commands install it; memory is connected, the conversation recorded; two commands take it out."""
        asked = f"{_ASKED} I ask {host} with its plug-in."
        if host == "claude-code":  # the one vendor whose validator is in its package
            for folder in (os.path.join(ROOT, "plugin"), ROOT):
                if "Validation passed" not in self._host(host, "plugin", "validate", "--strict", folder, shown=True):
                    return False
        for words in _PLUGIN[host]:
            self._host(host, "plugin", *words, shown=True)
        connected = _LISTED[host] in self._host(host, "mcp", "list", shown=True)
        self._host(host, *self._question(host, asked))
        recorded = "with its plug-in" in self._hermes("sessions", "search", f'"ask {host}"', "--json")
        for words in _UNPLUG[host]:
            self._host(host, "plugin", *words)
        gone = "hermes" not in self._host(host, "mcp", "list").replace(self._environment["HOME"], "")
        say(f"{host} with the plug-in: connected {connected}, recorded {recorded}, uninstalled {gone}")
        return connected and recorded and gone

    def _question(self, host: str, plugged: str = "") -> list[str]:
        if host == "codex":
            provider = f'model_providers.stub={{name="stub",base_url="{self._url}/v1",wire_api="responses"}}'
            options = ["-c", provider, "-c", 'model_provider="stub"', "-c", 'model="stub"']
            if plugged:  # Codex asks a person before it runs the hooks of a plug-in
                return ["exec", "--skip-git-repo-check", "--dangerously-bypass-hook-trust", *options, plugged]
            options += ["-c", "mcp_servers.hermes.required=true"]  # else the first request does not wait for the server
            return ["exec", "--skip-git-repo-check", *options, _ASKED]
        return ["-p", plugged or _ASKED]

    def _host(self, host: str, *words: str, shown: bool = False) -> str:
        return self._ran(os.path.join(self._bin, _PROGRAMS[host]), words, self._project, shown=shown)

    def _hermes(self, *words: str) -> str:
        return self._ran(os.path.join("bin", "hermes"), words, ROOT, shown="--json" not in words)

    def _ran(self, program: str, words: tuple[str, ...], cwd: str, *, shown: bool) -> str:
        ran = subprocess.run(
            [program, *words],
            env=self._environment,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_LONGEST,
            check=False,
        )
        if shown or ran.returncode:
            say(f"$ {os.path.basename(program)} {' '.join(words)}\n{(ran.stdout + ran.stderr).strip()[-3000:]}")
        if ran.returncode:
            say(f"exit code {ran.returncode}")
        return ran.stdout if "--json" in words else ran.stdout + ran.stderr  # Gemini lists servers on standard error


def _install(scratch: str) -> None:
    if all(os.path.exists(os.path.join(scratch, "node_modules", ".bin", name)) for name in _PACKAGES):
        return
    os.makedirs(scratch, exist_ok=True)
    began = time.monotonic()
    say(f"installing {', '.join(_PACKAGES.values())}")
    install = ["npm", "install", "--no-audit", "--no-fund", "--silent", "--prefix", scratch, *_PACKAGES.values()]
    subprocess.run(install, check=True)
    say(f"installed in {time.monotonic() - began:.0f} s")


@contextmanager
def _model() -> Iterator[str]:
    """Answers the same to everything, on the wires of Anthropic, OpenAI (Responses) and Google."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    seen: ClassVar[list[bytes]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.seen.append(body)
        path = self.path.partition("?")[0]
        if path.endswith("/v1/messages"):
            stream = b'"stream":true' in body.replace(b" ", b"")
            self._write(_anthropic() if stream else [_ANTHROPIC], stream=stream)
        elif path.endswith("/responses"):
            self._write(_responses(), stream=True)
        elif "generateContent" in path or "streamGenerateContent" in path:
            self._write([_GOOGLE], stream="stream" in path)
        else:
            self._write([{"input_tokens": 1, "totalTokens": 1}], stream=False)

    def do_GET(self) -> None:
        self._write([{"data": [], "models": []}], stream=False)

    def log_message(self, *_: object) -> None:
        pass

    def _write(self, events: list[dict[str, Any]], *, stream: bool) -> None:
        data = json.dumps(events[0]).encode()
        if stream:
            lines = [f"event: {each['type']}\n" if "type" in each else "" for each in events]
            data = "".join(
                f"{line}data: {json.dumps(each)}\n\n" for line, each in zip(lines, events, strict=True)
            ).encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream" if stream else "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


_USAGE = {"input_tokens": 10, "output_tokens": 5}
_TEXT = {"type": "text", "text": _ANSWERED}
_ANTHROPIC: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "stub",
    "content": [_TEXT],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": _USAGE,
}
_GOOGLE: dict[str, Any] = {
    "candidates": [{"index": 0, "content": {"role": "model", "parts": [{"text": _ANSWERED}]}, "finishReason": "STOP"}],
    "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15},
}


def _anthropic() -> list[dict[str, Any]]:
    return [
        {"type": "message_start", "message": {**_ANTHROPIC, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": _ANSWERED}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": _USAGE},
        {"type": "message_stop"},
    ]


def _responses() -> list[dict[str, Any]]:
    message = {"type": "message", "id": "m1", "role": "assistant", "status": "completed"}
    item = {**message, "content": [{"type": "output_text", "text": _ANSWERED, "annotations": []}]}
    usage = {**_USAGE, "total_tokens": 15, "input_tokens_details": None, "output_tokens_details": None}
    return [
        {"type": "response.created", "response": {"id": "r1"}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {"id": "r1", "usage": usage}},
    ]
