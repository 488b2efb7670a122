"""Edits Codex's config.toml: two marked blocks that are ours, everything else byte for byte as it was."""

from __future__ import annotations

import json
import tomllib

from hermes.vocabulary.errors import SettingsError

_BEGIN, _END = "# >>> hermes", "# <<< hermes"


def with_server(path: str, data: bytes, program: str, words: list[str], notify: list[str]) -> bytes:
    """The file with our server, and with `notify` where nobody else uses it (Codex has room for one program)."""
    text = _without(_text(path, data))
    known = _parsed(path, text)
    if "hermes" in known.get("mcp_servers", {}):
        raise SettingsError(f"{path} has a server called hermes already; remove [mcp_servers.hermes] and try again")
    server = f"[mcp_servers.hermes]\ncommand = {_quoted(program)}\nargs = {_quoted(words)}\n"
    after = f"{text.rstrip()}\n\n{_block(server)}".lstrip()
    if "notify" not in known:  # at the top: further down it would belong to a table
        after = f"{_block(f'notify = {_quoted(notify)}{chr(10)}')}\n{after}"
    _parsed(path, after)
    return after.encode()


def without_server(path: str, data: bytes) -> bytes:
    return _without(_text(path, data)).encode()


def _block(inside: str) -> str:
    return f"{_BEGIN}\n{inside}{_END}\n"


def _without(text: str) -> str:
    while _BEGIN in text and _END in text.partition(_BEGIN)[2]:
        before, _, rest = text.partition(_BEGIN)
        after = rest.partition(_END)[2]
        text = f"{before.rstrip()}\n\n{after.lstrip()}".strip() + "\n" if (before + after).strip() else ""
    return text


def _quoted(value: str | list[str]) -> str:
    return json.dumps(value, ensure_ascii=False)  # a JSON string or list of strings is one of TOML too


def _text(path: str, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path} is not UTF-8: {error}; mend it first") from error


def _parsed(path: str, text: str) -> dict[str, dict[str, object]]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path} is not valid TOML: {error}; mend it first") from error
