"""The interface of context engines, and how one is found."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from hermes.base.errors import NotFound, SettingsError
from hermes.compaction.compressor import ContextCompressor
from hermes.compaction.engine import (
    EngineRegistry,
    available_engines,
    load_engine,
    register_plugins,
)
from hermes.session.parts import chosen_engine
from hermes.settings.config import load_settings
from hermes.settings.home import find_home

if TYPE_CHECKING:
    from pathlib import Path

    from hermes.compaction.engine import Choice

# As its author wrote it for hermes-agent.
FOREIGN = """
from agent.context_engine import ContextEngine

class Half(ContextEngine):
    @property
    def name(self):
        return "half"

    def update_from_response(self, usage):
        self.last_prompt_tokens = usage.get("prompt_tokens", 0)

    def should_compress(self, prompt_tokens=None):
        return (prompt_tokens or self.last_prompt_tokens) > 10

    def compress(self, messages, current_tokens=None, focus_topic=None):
        return messages[len(messages) // 2 :]

    def get_tool_schemas(self):
        return [{"name": "half_grep"}]

def register(ctx):
    ctx.register_hook("on_start", print)
    ctx.register_context_engine(Half())
"""


def plugin(home: Path, name: str, code: str) -> str:
    folder = home / "plugins" / "context_engine"
    (folder / name).mkdir(parents=True)
    (folder / name / "__init__.py").write_text(code, encoding="utf-8")
    (folder / name / "plugin.yaml").write_text(f'name: {name}\ndescription: "keeps half"\n', encoding="utf-8")
    return os.fspath(folder)


def chosen(home: Path, name: str) -> Choice:
    (home / "config.yaml").write_text(f"context: {{engine: {name}}}\n", encoding="utf-8")
    place = find_home(home)
    return chosen_engine(place, load_settings(place))


@pytest.mark.proves("compression.engine.found", "compression.engine")
def test_an_engine_written_for_hermes_agent_loads_unchanged(tmp_path: Path) -> None:
    folder = plugin(tmp_path, "half", FOREIGN)
    assert [(each.name, each.description) for each in available_engines([folder])] == [("half", "keeps half")]
    engine = load_engine("half", [folder])
    engine.update_from_response({"prompt_tokens": 11})
    assert engine.should_compress()
    assert engine.compress([{"role": "user"}, {"role": "assistant"}]) == [{"role": "assistant"}]
    assert engine.get_tool_schemas() == [{"name": "half_grep"}]
    assert "no tool" in json.loads(engine.handle_tool_call("other", {}))["error"]
    engine.update_model("m", 1_000)
    status = {"last_prompt_tokens": 11, "threshold_tokens": 750, "context_length": 1_000}
    assert status.items() <= engine.get_status().items()
    assert engine.get_status()["usage_percent"] == pytest.approx(1.1)


@pytest.mark.proves("compression.engine.found")
def test_a_folder_may_hold_nothing_but_a_subclass(tmp_path: Path) -> None:
    folder = plugin(tmp_path, "half", FOREIGN.partition("def register")[0])
    assert load_engine("half", [folder]).name == "half"


@pytest.mark.proves("compression.engine.found")
def test_a_registered_engine_is_used_only_when_it_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "plugins" / "general").mkdir(parents=True)
    (tmp_path / "plugins" / "general" / "__init__.py").write_text(FOREIGN, encoding="utf-8")
    assert [chosen(tmp_path, name).engine.name for name in ("half", "compressor", '""')] == [
        "half",
        "compressor",
        "compressor",
    ]


@pytest.mark.proves("compression.engine.fallback")
@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("x = 1", "registers no engine"),
        ("import nowhere", "ModuleNotFound"),
    ],
)
def test_an_engine_that_does_not_load_leaves_the_built_in_with_the_reason(tmp_path: Path, code: str, why: str) -> None:
    plugin(tmp_path, "broken", code)
    choice = chosen(tmp_path, "broken")
    assert isinstance(choice.engine, ContextCompressor)
    assert why in choice.problem
    assert "built-in" in choice.problem


@pytest.mark.proves("compression.engine.fallback")
@pytest.mark.parametrize("name", ["../evil", "a/b", "nobody"])
def test_a_name_never_leads_out_of_the_plugin_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "evil").mkdir()
    (tmp_path / "evil" / "__init__.py").write_text("raise SystemExit", encoding="utf-8")
    folder = plugin(tmp_path, "half", FOREIGN)
    with pytest.raises((SettingsError, NotFound)):
        load_engine(name, [folder])
    assert "built-in" in chosen(tmp_path, name).problem


@pytest.mark.proves("compression.engine.found")
def test_nobody_replaces_the_built_in_and_only_engines_register() -> None:
    registry = EngineRegistry()
    registry.register_context_engine(ContextCompressor())
    assert not registry.engines
    with pytest.raises(TypeError, match="not a context engine"):
        registry.register_context_engine(object())  # type: ignore[arg-type]  # what a careless plug-in does


@pytest.mark.proves("compression.engine")
def test_what_an_engine_leaves_out_has_harmless_answers(tmp_path: Path) -> None:
    engine = load_engine("half", [plugin(tmp_path, "half", FOREIGN)])
    assert not engine.should_compress_preflight([])
    assert not engine.should_defer_preflight_to_real_usage(1_000)
    assert engine.has_content_to_compress([])
    engine.update_from_response({"prompt_tokens": 11})
    engine.on_session_reset()
    assert engine.last_prompt_tokens == 0


@pytest.mark.proves("compression.engine.found")
def test_a_plugin_that_fails_or_cannot_be_read_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offers = "\ndef register(ctx):\n    assert not hasattr(ctx, '_private')\n    ctx.register_context_engine(Half())\n"
    folder = plugin(tmp_path, "sound", FOREIGN.partition("\ndef register")[0] + offers)
    plugin(tmp_path / "other", "broken", "register_context_engine = 1 / 0")
    plugin(tmp_path / "silent", "silent", "pass")
    unreadable = os.path.join(plugin(tmp_path / "gone", "gone", FOREIGN), "gone", "__init__.py")

    def no_rights(path: Any, *more: Any, **named: Any) -> Any:
        if path == unreadable:
            raise PermissionError(13, "Permission denied", path)
        return open(path, *more, **named)

    monkeypatch.setattr("hermes.compaction.engine.open", no_rights, raising=False)
    found = EngineRegistry()
    others = [os.fspath(tmp_path / name / "plugins" / "context_engine") for name in ("other", "silent", "gone")]
    register_plugins(found, [folder, *others])
    assert list(found.engines) == ["half"]
