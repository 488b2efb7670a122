"""Looks at a context engine as a session would use it: loads it, and has it compact a small history that is made up."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING, Any

from hermes.session.engines import BUNDLED, engine_folders, known_engines, named_engine
from hermes.session.foreign_engine import NotBelieved, compressed_by
from hermes.session.provider_checks import within
from hermes.settings.home import DATABASE
from hermes.storage.sessions import SessionDB
from hermes.tools.engine_tool import usable_schemas
from hermes.vocabulary.errors import HermesError, NotFound, SettingsError
from hermes.vocabulary.tokens import estimate_message

if TYPE_CHECKING:
    from collections.abc import Callable

    from hermes.compression.assembly import Compaction
    from hermes.compression.engine import ContextEngine
    from hermes.settings.home import Home
    from hermes.settings.load import Settings

_TURNS = 40
_WINDOW = 8_000  # tokens, fewer than the history has
_SESSION = "check"


def examine_engine(home: Home, settings: Settings, name: str) -> dict[str, Any]:
    """Whether an engine loads and keeps to the contract; `problem` says what is wrong, `tried` what it did."""
    belongs = os.path.join(engine_folders(home)[0], name, "__init__.py")
    info = next((each for each in known_engines(home) if each.name == name), None)
    found: dict[str, Any] = {
        "name": name,
        "kind": "context engine",
        "installed": True,
        "bundled": name in BUNDLED,
        "folder": info.folder if info else "",
        "description": info.description if info else "",
        "belongs_into": belongs,
        "tried": "",
        "problem": "",
    }
    try:
        engine = named_engine(home, settings, name)
        found["tried"] = within(settings.number("memory.provider_tool_timeout"), lambda: _tried(engine))
    except HermesError as error:
        found |= {"problem": str(error), "installed": not isinstance(error, NotFound)}
    return found


def _tried(engine: ContextEngine) -> str:
    messages = _history()
    tokens = sum(map(estimate_message, messages))
    counts = {"prompt_tokens": tokens, "completion_tokens": 100, "total_tokens": tokens + 100}
    with tempfile.TemporaryDirectory() as place, SessionDB.open(os.path.join(place, DATABASE)) as database:
        session = database.create_session(source=_SESSION)
        ids = database.append_many(session, messages)
        given = {"hermes_home": place, "database": database, "model": _SESSION, "context_length": _WINDOW}
        _told("update_model", lambda: engine.update_model(_SESSION, _WINDOW))
        _told("on_session_start", lambda: engine.on_session_start(session, **given))
        _told("update_from_response", lambda: engine.update_from_response(counts))
        wants = _told("should_compress", lambda: engine.should_compress(tokens))
        tools = _told("get_tool_schemas", lambda: usable_schemas(engine))
        done = _compressed(engine, messages, ids, tokens)
        _compressed(engine, messages[-1:], ids[-1:], tokens)  # the window is full of prompt and tools
        _told("on_session_end", lambda: engine.on_session_end(session, messages))
    when = "" if wants else f"; it would not have begun by itself at {tokens:,} tokens in a window of {_WINDOW:,}"
    offers = f"; tools: {', '.join(each['name'] for each in tools)}" if tools else ""
    if not done.changed:
        return f"loads, and takes nothing out of {len(messages)} messages{when}{offers}"
    made = f"{done.tokens_before:,} to {done.tokens_after:,} tokens"
    return f"loads, and takes {len(done.replaced)} of {len(messages)} messages out (about {made}){when}{offers}"


def _compressed(engine: ContextEngine, messages: list[dict[str, Any]], ids: list[int], tokens: int) -> Compaction:
    try:
        return compressed_by(engine, messages, ids, tokens=tokens)
    except NotBelieved as error:
        many = "a single message" if len(messages) == 1 else f"{len(messages)} messages"
        raise SettingsError(f"compress, given {many}, is not followed: {error}") from error


def _told(hook: str, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as error:  # an engine is other people's code and may raise anything
        raise SettingsError(f"{hook} raised {type(error).__name__}: {error}") from error


def _history() -> list[dict[str, Any]]:
    """Requests, calls with their results and answers; the person's last request stands at the end."""
    messages: list[dict[str, Any]] = []
    for number in range(_TURNS):
        call = {"id": f"call_{number}", "type": "function", "function": {"name": "read_file", "arguments": "{}"}}
        messages += [
            {"role": "user", "content": f"Please repair module {number}. " + "It matters. " * 20},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call["id"], "content": f"line {number} of the file " * 40},
            {"role": "assistant", "content": f"Module {number} is repaired. " + "It works now. " * 20},
        ]
    return [*messages, {"role": "user", "content": "What did we do first?"}]
