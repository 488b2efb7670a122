"""A `brv` that speaks its MCP over stdio and keeps notes in files; a folder says how it fails and what it was asked."""

from __future__ import annotations

import json
import os
import stat
import sys
import tempfile
from typing import TYPE_CHECKING, Any, Self

from wire_server import KEY, Asked

if TYPE_CHECKING:
    from collections.abc import Iterator

REGISTRY = "registry"  # the JSON file in which brv says where each project has its history
_PROGRAM = """#!{python} -IS
import hashlib, json, os, sys, time

BASE = {base!r}
FAILURES = {{
    "down": "Error: the model is away",
    "key": "Error: 401 bad key {key}",
    "limited": "Error: 429 too many requests, retry after 7 s",
}}

def trouble():
    with open(BASE + "/trouble") as file:
        return file.read()

def log(**what):
    with open(BASE + "/calls", "a") as file:
        file.write(json.dumps(what) + "\\n")

def words(text):
    return {{w for w in "".join(c.lower() if c.isalnum() else " " for c in text).split() if len(w) > 3}}

def notes(tree):
    for place, _, names in os.walk(tree):
        for name in names:
            with open(os.path.join(place, name)) as file:
                yield file.read()

def remember(given):
    data = os.environ["HOME"] + "/.local/share/brv"
    history = data + "/projects/" + given["cwd"].strip("/").replace("/", "--")
    os.makedirs(history, exist_ok=True)
    with open(history + "/task-history.jsonl", "a") as file:
        file.write(given["context"])
    path, known = data + {registry!r}, {{"version": 1, "projects": {{}}}}
    if os.path.exists(path):
        with open(path) as file:
            known = json.load(file)
    known["projects"][given["cwd"]] = {{"storagePath": history}}
    with open(path, "w") as file:
        json.dump(known, file)

def answer(name, given):
    tree = given["cwd"] + "/.brv/context-tree"
    if name == "brv-query" and set(given) == {{"query", "cwd"}}:
        found = [text for text in notes(tree) if words(text) & words(given["query"])]
        return "**Details**: " + "\\n".join(found) if found else "**Summary**: No matching knowledge found for it."
    if name == "brv-curate" and set(given) == {{"context", "cwd"}}:
        if "chit-chat" not in given["context"]:
            place = tree + "/talk/turns"
            os.makedirs(place, exist_ok=True)
            with open(place + "/" + hashlib.sha256(given["context"].encode()).hexdigest()[:9] + ".md", "w") as file:
                file.write(given["context"])
            remember(given)
        return "Context queued for curation"
    log(complaint="no such call: %s %s" % (name, sorted(given)))
    return ""

if sys.argv[1:] != ["mcp"]:
    sys.exit("only mcp is known")
log(cwd=os.getcwd())
for line in sys.stdin:
    asked = json.loads(line)
    if asked["method"] == "initialize":
        result = {{"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {{}}}}
    elif asked["method"] != "tools/call":
        continue
    else:
        now = trouble()
        while trouble() == "slow" and not os.path.exists(BASE + "/released"):
            time.sleep(0.02)
        if now == "malformed":
            print("<html>welcome</html>", flush=True)
            continue
        params = asked["params"]
        if now in FAILURES:
            result = {{"content": [{{"type": "text", "text": FAILURES[now]}}], "isError": True}}
        else:
            log(name=params["name"], arguments=params["arguments"])
            result = {{"content": [{{"type": "text", "text": answer(params["name"], params["arguments"])}}]}}
        if now == "dropped":
            sys.exit()
        if now == "odd":
            result = {{"surprise": 1}}
    print(json.dumps({{"jsonrpc": "2.0", "id": asked["id"], "result": result}}), flush=True)
"""


class BrvProgram:
    """Looks like a `WireService` to the scenarios."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="hermes-brv-")
        base = self._folder.name
        self.command = os.path.join(base, "brv")
        with open(self.command, "w", encoding="utf-8") as file:
            file.write(_PROGRAM.format(python=sys.executable, base=base, key=KEY, registry=f"/{REGISTRY}.json"))
        os.chmod(self.command, stat.S_IRWXU)
        self.released = _Released(os.path.join(base, "released"))
        self.trouble = ""

    @property
    def trouble(self) -> str:
        return self._trouble

    @trouble.setter
    def trouble(self, kind: str) -> None:
        self._trouble = kind
        path = os.path.join(self._folder.name, "trouble")
        with open(f"{path}.new", "w", encoding="utf-8") as file:
            file.write(kind)
        os.replace(f"{path}.new", path)

    @property
    def asked(self) -> list[Asked]:
        return [
            Asked(method="CALL", path=each["name"], query={}, headers={}, body=each["arguments"], raw=b"")
            for each in self._log()
            if "name" in each
        ]

    @property
    def folders(self) -> list[str]:
        """Where it was started, once for each time."""
        return [each["cwd"] for each in self._log() if "cwd" in each]

    def notes(self) -> Iterator[str]:
        for folder in dict.fromkeys(self.folders):
            for place, _, names in os.walk(os.path.join(folder, ".brv", "context-tree")):
                for name in names:
                    with open(os.path.join(place, name), encoding="utf-8") as file:
                        yield file.read()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.released.set()
        complaints = [each["complaint"] for each in self._log() if "complaint" in each]
        self._folder.cleanup()
        assert kind is not None or complaints == []

    def _log(self) -> list[dict[str, Any]]:
        try:
            with open(os.path.join(self._folder.name, "calls"), encoding="utf-8") as file:
                return [json.loads(line) for line in file]
        except FileNotFoundError:
            return []


class _Released:
    def __init__(self, path: str) -> None:
        self._path = path

    def set(self) -> None:
        with open(self._path, "w", encoding="utf-8"):
            pass
