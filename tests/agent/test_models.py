"""Models from settings: the main one, its fallbacks, and a helper for each task."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from model_server import Answer, ModelServer, chat, failing

from hermes import Agent
from hermes.base.errors import ModelBusy, ModelUnreachable, WrongKey
from hermes.base.events import TurnFinished
from hermes.llm.client import Fallback, HttpModel
from hermes.llm.scripted import Reply, Scripted
from hermes.session.models import answer, helper, helper_model, main_model
from hermes.settings.config import load_settings
from hermes.settings.home import find_home

if TYPE_CHECKING:
    from pathlib import Path

    from hermes.settings.config import Settings


def settings_of(home: Path, text: str, env: str = "") -> Settings:
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text(text)
    (home / ".env").write_text(env)
    return load_settings(find_home(home))


@pytest.fixture(autouse=True)
def _no_keys_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC", "OPENAI", "OPENROUTER", "DEEPSEEK", "HERMES_MODEL"):
        monkeypatch.delenv(f"{name}_API_KEY", raising=False)


@pytest.mark.proves("agent.models")
def test_key_context_and_options_of_the_main_model_come_from_the_home(home: Path) -> None:
    text = "model: {default: claude-opus-5-5, context_length: 50000, extra_body: {metadata: {user_id: me}}}\n"
    settings = settings_of(home, text + "prompt_caching: {cache_ttl: 1h}\n", "ANTHROPIC_API_KEY=k1\n")
    model = main_model(settings)
    assert isinstance(model, HttpModel)
    assert (model.name, model.context_length, model.endpoint.key) == ("claude-opus-5-5", 50_000, "k1")
    assert model.endpoint.cache_ttl == "1h"
    assert model.endpoint.extra_body == {"metadata": {"user_id": "me"}}


@pytest.mark.proves("agent.models")
def test_a_missing_key_says_what_to_do(home: Path) -> None:
    with pytest.raises(WrongKey, match="put ANTHROPIC_API_KEY=… into"):
        main_model(settings_of(home, "model: {default: claude-opus-5-5}\n"))


@pytest.mark.proves("agent.models")
def test_the_fallback_model_answers_when_the_first_cannot(home: Path) -> None:
    with ModelServer(Answer(status=401, pieces=[b"{}"]), Answer(pieces=[chat({"content": "I am here."})])) as server:
        text = f"model: {{default: one, base_url: '{server.url}'}}\nfallback_models: [two]\n"
        model = main_model(settings_of(home, text))
        assert isinstance(model, Fallback)
        with Agent.open(home) as agent:
            *_, end = agent.turn("hello?")
        assert [each.json["model"] for each in server.received] == ["one", "two"]
    assert isinstance(end, TurnFinished)
    assert end.reply == "I am here."


@pytest.mark.proves("agent.models")
def test_each_task_has_a_helper_model_of_its_own_or_the_main_one(home: Path) -> None:
    task = "{model: small, base_url: 'http://127.0.0.1:9/v1', api_key: k, timeout: 5, reasoning_effort: low}"
    text = f"auxiliary: {{compression: {task}, curator: {{enabled: false}}}}\n"
    settings, main = settings_of(home, text), Scripted(["x"])
    small = helper_model(settings, "compression", main=main)
    assert isinstance(small, HttpModel)
    assert (small.name, small.endpoint.key, small.endpoint.timeout) == ("small", "k", 5)
    assert small.endpoint.extra_body == {"reasoning_effort": "low"}
    assert helper_model(settings, "session_search", main=main) is main
    assert helper_model(settings, "session_search", main=main, own_only=True) is None
    assert helper_model(settings, "curator", main=main) is None
    assert helper(settings, "curator", main=main) is None


@pytest.mark.proves("agent.models")
def test_a_helper_answers_a_question_in_the_language_of_the_settings(home: Path) -> None:
    model = Scripted(["Tee"])
    ask = helper(
        settings_of(home, "auxiliary: {title_generation: {language: German}}\n"), "title_generation", main=model
    )
    assert ask is not None
    assert ask("Name it.", "tea") == "Tee"
    assert model.requests[0].system.endswith("Write in this language: German")


@pytest.mark.proves("agent.models")
def test_a_helper_that_takes_too_long_is_an_error(home: Path) -> None:
    settings = settings_of(home, "auxiliary: {title_generation: {timeout: 1}}\n")
    ask = helper(settings, "title_generation", main=Scripted([Reply(text="x" * 200, pause=0.2)]))
    assert ask is not None
    with pytest.raises(ModelUnreachable, match="did not answer within 1 s"):
        ask("s", "t")


@pytest.mark.proves("agent.models")
def test_without_a_usable_model_there_is_no_helper(home: Path) -> None:
    settings = settings_of(home, "model: {default: claude-opus-5-5}\n")
    assert helper_model(settings, "compression") is None


@pytest.mark.proves("terminal.setup")
def test_somebody_who_tries_a_model_hears_of_its_first_failure(home: Path) -> None:
    with ModelServer(failing(503, {"error": {"message": "overloaded"}})) as server:
        model = main_model(settings_of(home, f"model: {{default: m, base_url: '{server.url}/v1'}}\n"))
        with pytest.raises(ModelBusy, match="overloaded"):
            answer(model, "Answer with one word.", "Are you there?", 60, once=True)
        assert len(server.received) == 1
