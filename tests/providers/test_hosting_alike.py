"""A provider hears and answers the same in a process of its own as on a thread: every hook, older signatures too."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hosted import PATIENCE
from provider_plugins import install

from hermes.providers.discovery import load_provider
from hermes.providers.hosting import HostedProvider
from hermes.providers.manager import Limits, MemoryManager

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RECORDS = """
import json, os
from agent.memory_provider import MemoryProvider
from hermes_constants import get_hermes_home

HOOKS = ("queue_prefetch", "sync_turn", "on_memory_write", "on_delegation", "on_turn_start", "on_session_end",
         "on_session_switch", "system_prompt_block", "prefetch", "on_pre_compress", "handle_tool_call", "shutdown",
         "check_connection", "forget_person", "backup_paths", "get_config_schema", "get_status_config")
ANSWERS = {"system_prompt_block": "Kept.", "prefetch": "Tea \\ud83c\\udf75 is warm.", "on_pre_compress": "- tea",
           "handle_tool_call": {"answer": ["tea", 1, None]}, "check_connection": "It answers.",
           "forget_person": "All gone.", "backup_paths": ["/elsewhere"], "get_config_schema": [{"key": "k"}],
           "get_status_config": {"k": "shown"}}


def recorded(hook):
    def called(self, *given, **more):
        place = str(get_hermes_home())
        more.pop("idempotency_key", None)
        if isinstance(more.get("metadata"), dict):
            more["metadata"].pop("idempotency_key", None)
        with open(os.path.join(place, "calls.jsonl"), "a") as file:
            file.write(json.dumps([hook, given, more], sort_keys=True, default=str) + "\\n")
        return ANSWERS.get(hook)
    return called


class Recorder(MemoryProvider):
    name = "recorder"
    recall_mode = "hybrid"

    def is_available(self):
        return True

    def initialize(self, session_id, **kwargs):
        kwargs.pop("hermes_home")
        recorded("initialize")(self, session_id, **kwargs)

    def get_tool_schemas(self):
        return [{"name": "recorder_ask", "description": "Ask.", "parameters": {"type": "object", "properties": {}}},
                {"name": "odd", "parameters": {"type": "object", "properties": {"x": object()}}}]


for hook in HOOKS:
    setattr(Recorder, hook, recorded(hook))


class Older(Recorder):
    name = "older"

    def sync_turn(self, user_content, assistant_content):
        recorded("sync_turn")(self, user_content, assistant_content)

    def on_memory_write(self, action, target, content):
        recorded("on_memory_write")(self, action, target, content)

    def on_session_end(self, messages):
        recorded("on_session_end")(self, messages)

    def prefetch(self, query):
        return recorded("prefetch")(self, query)


def register(ctx):
    ctx.register_memory_provider(CHOSEN())
"""
SAID = [{"role": "user", "content": "half \ud83d a character"}, {"role": "assistant", "content": "茶は温かい。"}]


def everything(home: Path, provider: Any) -> Iterator[Any]:
    """Has the manager call whatever it can, and gives out the answers, the problems and what the provider heard."""
    manager = MemoryManager(str(home), limits=Limits(recall_seconds=PATIENCE, drain_seconds=PATIENCE))
    manager.add_provider(provider)
    manager.initialize_all("s1", platform="cli", agent_context="primary", chat_id=7)
    yield manager.build_system_prompt()
    manager.on_turn_start(1, "tea?", platform="cli")
    yield manager.prefetch_all("tea?", session_id="s1")
    yield manager.handle_tool_call("recorder_ask", {"deep": {"er": [1, 2.5, None, True, "茶"]}})
    yield manager.get_all_tool_schemas()
    yield manager.problems
    manager.sync_all("tea?", "Yes.", session_id="s1", messages=SAID)
    manager.queue_prefetch_all("tea?", session_id="s1")
    manager.on_memory_write("replace", "user", "Tea.", {"old_text": "Coffee.", "session_id": "s1"})
    manager.on_delegation("count cups", "three", child_session_id="child")
    yield manager.on_pre_compress(SAID)
    manager.on_session_end(SAID, session_id="s1")
    manager.on_session_switch("s2", parent_session_id="s1", reason="branch")
    manager.flush()
    for hook in ("check_connection", "forget_person", "backup_paths", "get_config_schema"):
        yield getattr(provider, hook)()
    yield provider.get_status_config({"k": "hidden"})
    manager.shutdown_all()
    yield sorted(set((home / "calls.jsonl").read_text().splitlines()))


@pytest.mark.proves("providers.process", "providers.signatures")
@pytest.mark.parametrize("kind", ["Recorder", "Older"])
def test_every_hook_hears_and_answers_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    found = []
    for place in ("thread", "process"):
        home = tmp_path / place
        install(home, "recorder", RECORDS.replace("CHOSEN", kind))
        monkeypatch.setenv("HERMES_HOME", str(home))
        if place == "process":
            provider: Any = HostedProvider("recorder", str(home), str(home))
            provider.wait_until_loaded()
        else:
            provider = load_provider("recorder", str(home))
            provider.name = "recorder"
        found.append(json.loads(json.dumps(list(everything(home, provider)))))
    on_a_thread, in_a_process = found
    heard = {json.loads(line)[0] for line in in_a_process[-1]}
    assert len(heard) == 18
    assert in_a_process.pop(4) == ["recorder: the parameters of odd must be a schema of an object"]
    assert "odd" in on_a_thread.pop(4)[0]
    assert in_a_process == on_a_thread
