"""Edits Codex's config.toml: two marked blocks that are ours, everything else byte for byte as it was."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

from hermes.vocabulary.errors import SettingsError

_BEGIN, _END = "# >>> hermes", "# <<< hermes"
# Each block takes the blank line with it that separates it from the rest: after the first one, before the last one.
_AT_THE_TOP = re.compile(rf"\A{_BEGIN}\n.*?{_END}\n\n?", re.DOTALL)
_BELOW = re.compile(rf"\n?{_BEGIN}\n.*?{_END}\n", re.DOTALL)
# Codex writes down which of our tools it may call; without the server such a table is an error to it.
_APPROVALS = re.compile(r"^\[mcp_servers\.hermes\.[^\n]*\n(?:(?!\[).*(?:\n|\Z))*", re.MULTILINE)


def with_server(path: str, data: bytes, serve: list[str], notify: list[str]) -> bytes:
    """The file with our server and with `notify`, for which Codex has room for one program.

    Where another one has it, the server is not told that conversations are recorded: the model records them.
    """
    text = _without_blocks(_text(path, data))
    known = parsed(path, text.encode())
    if {"command", "url"} & known.get("mcp_servers", {}).get("hermes", {}).keys():
        raise SettingsError(f"{path} has a server called hermes already; remove [mcp_servers.hermes] and try again")
    taken = "notify" in known
    program, *words = [word for word in serve if not (taken and word == "--recorded")]
    server = f"[mcp_servers.hermes]\ncommand = {_quoted(program)}\nargs = {_quoted(words)}\n"
    end_of_line = "" if text.endswith("\n") else "\n"
    after = f"{text}{end_of_line}\n{_block(server)}" if text else _block(server)
    if not taken:  # at the top: further down it would belong to a table
        after = f"{_block(f'notify = {_quoted(notify)}{chr(10)}')}\n{after}"
    parsed(path, after.encode())
    return after.encode()


def without_server(path: str, data: bytes) -> bytes:
    """The file without what we put there; a server called hermes that is not ours stays."""
    text = _text(path, data)
    left = _without_blocks(text)
    if left != text and "command" not in parsed(path, left.encode()).get("mcp_servers", {}).get("hermes", {}):
        left = _APPROVALS.sub("", left)
    return left.encode()


def parsed(path: str, data: bytes) -> dict[str, Any]:
    try:
        return tomllib.loads(_text(path, data))
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path} is not valid TOML: {error}; mend it first") from error


def _without_blocks(text: str) -> str:
    return _BELOW.sub("", _AT_THE_TOP.sub("", text))


def _block(inside: str) -> str:
    return f"{_BEGIN}\n{inside}{_END}\n"


def _quoted(value: str | list[str]) -> str:
    return json.dumps(value, ensure_ascii=False)  # a JSON string or list of strings is one of TOML too


def _text(path: str, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path} is not UTF-8: {error}; mend it first") from error
