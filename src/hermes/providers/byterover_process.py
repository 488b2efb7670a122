"""One long-lived `brv mcp`: JSON-RPC over its standard input and output, with a deadline for every call.

Starting it takes seconds and a call milliseconds, so it is started once and kept. It is read without a thread.
"""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import threading
import time
from typing import TYPE_CHECKING, Any

from hermes.safety.secrets import mask_secrets
from hermes.vocabulary.errors import ProviderError

if TYPE_CHECKING:
    from collections.abc import Mapping

_PROTOCOL = "2025-06-18"
_LARGEST_ANSWER = 16 << 20
_PIECE = 1 << 16
_START_SECONDS = 30.0
_END_SECONDS = 2.0
_LONGEST_QUOTE = 300
_WRONG_KEY = re.compile(r"\b40[13]\b|unauthori[sz]ed|invalid api key|not authenticated", re.IGNORECASE)
_LIMITED = re.compile(r"\b429\b|rate.?limit|too many requests", re.IGNORECASE)
_WAIT = re.compile(r"retry.?after\D{0,10}(\d+)", re.IGNORECASE)


class Brv:
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
        """The text a tool answers with."""
        end = time.monotonic() + seconds
        if not self._lock.acquire(timeout=seconds):
            raise ProviderError("brv is busy with something else", kind="slow")
        try:
            if self._process is None or self._process.poll() is not None:
                self._start(max(end, time.monotonic() + _START_SECONDS) if seconds > _START_SECONDS else end)
            answer = self._request("tools/call", {"name": tool, "arguments": arguments}, end)
        finally:
            self._lock.release()
        return self._text(answer)

    def start(self) -> None:
        """Starts the program before it is needed; nothing when it runs."""
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._start(time.monotonic() + _START_SECONDS)

    def close(self) -> None:
        process, self._process, self._buffer = self._process, None, b""
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    continue  # what could not be flushed has nobody to read it
        process.terminate()
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

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
                continue  # a notification, or an answer nobody waits for any more
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
            raise self._malformed("something that is no JSON") from error
        if not isinstance(found, dict):
            raise self._malformed("something that is no message")
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
