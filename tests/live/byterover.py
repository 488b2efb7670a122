"""byterover: the program from npm in a scratch directory, with nothing beyond loopback to talk to."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from live.kit import say
from live.story import story
from live.stub import serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from live.kit import Trial

_VARIABLE = re.compile(r"__curate_ctx_\w+")
_SAID = re.compile(r"(?:My parrot|Deploys happen)[^.\n\\\"]*\.")


def run(trial: Trial) -> int:
    program = os.path.join(trial.scratch, "node_modules", ".bin", "brv")
    if not os.path.exists(program):
        os.makedirs(trial.scratch, exist_ok=True)
        began = time.monotonic()
        say("installing byterover-cli")
        install = ["npm", "install", "--no-audit", "--no-fund", "--silent", "--prefix", trial.scratch, "byterover-cli"]
        subprocess.run(install, check=True)
        say(f"installed in {time.monotonic() - began:.0f} s")
    os.makedirs(trial.home, exist_ok=True)
    data = os.path.join(trial.home, "brv")
    with _identity_service() as base, serving(_answer) as stub:
        names = ("BRV_IAM_BASE_URL", "BRV_COGIT_BASE_URL", "BRV_GIT_REMOTE_BASE_URL", "BRV_LLM_BASE_URL")
        os.environ.update(dict.fromkeys((*names, "BRV_BILLING_BASE_URL", "BRV_WEB_APP_URL"), base))
        os.environ["HOME"] = trial.home  # where it keeps which model to use
        os.environ.update({"BRV_DATA_DIR": data, "BRV_SKIP_NEW_VERSION_CHECK": "1", "BRV_DISABLE_AUTOUPDATE": "1"})
        connect = ["providers", "connect", "openai-compatible", "--base-url", stub, "--api-key", "x", "--model", "stub"]
        try:
            subprocess.run([program, *connect], check=True, stdin=subprocess.DEVNULL, cwd=trial.home, timeout=120)
            # The program keeps an answer for a minute, whatever is noted or deleted meanwhile.
            return story(trial, {"command": program}, {}, forget=_forget, patience=90)
        finally:
            _stop_daemon(data)


def _answer(messages: list[dict[str, Any]]) -> str | dict[str, Any]:
    """A question is answered from what was found for it; anything else that is to be noted is noted as it was said."""
    if "context engineer" not in str(messages[0].get("content")) or messages[-1]["role"] != "user":
        return "done"
    asked = str(messages[-1].get("content"))
    found = asked.partition("Pre-fetched Context")[2]
    if "User Query" in asked:
        return " ".join(dict.fromkeys(_SAID.findall(found))) or "Nothing is known."
    # What is to be noted is not in the prompt but in a variable of the sandbox that the model's code runs in.
    context = _VARIABLE.search(asked)
    note = f"{{rawConcept: {{task: 'Conversation'}}, narrative: {{highlights: {context[0] if context else 'null'}}}}}"
    change = f"{{type: 'UPSERT', path: 'talk/said', title: 'note', content: {note}, reason: 'it was said'}}"
    code = f"(async()=>{{return await tools.curate([{change}])}})()"
    function = {"name": "code_exec", "arguments": json.dumps({"code": code})}
    return {"content": None, "tool_calls": [{"id": "c1", "type": "function", "function": function}]}


def _forget(call: Callable[..., Any]) -> bool:
    found = call("brv_status")["notes"]
    return all("error" not in call("brv_forget", note=note) for note in found)


@contextmanager
def _identity_service() -> Iterator[str]:
    """The daemon asks once, at its start, where one could log in."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            base = f"http://127.0.0.1:{server.server_address[1]}"
            paths = ("issuer", "authorization_endpoint", "token_endpoint", "jwks_uri")
            body = json.dumps({name: f"{base}/{name}" for name in paths} | {"issuer": base}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def _stop_daemon(data: str) -> None:
    """And waits until it has ended: it would write into a directory that is being removed."""
    try:
        with open(os.path.join(data, "daemon.json"), encoding="utf-8") as file:
            daemon = int(json.load(file)["pid"])
        os.kill(daemon, signal.SIGTERM)
        end = time.monotonic() + 10
        while time.monotonic() < end:
            os.kill(daemon, 0)
            time.sleep(0.1)
        os.kill(daemon, signal.SIGKILL)
    except ProcessLookupError:
        return
    except (OSError, ValueError, KeyError) as error:
        say(f"the daemon of brv was not found: {error}")
