"""From a model's name to an endpoint: provider, address, key, context length, local servers."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from model_server import Answer, ModelServer, failing

from hermes.base.errors import NotFound, SettingsError, WrongKey
from hermes.llm.anthropic import Anthropic
from hermes.llm.catalogue import (
    LOCAL,
    UNKNOWN_CONTEXT,
    LocalServer,
    find_local_server,
    known_context,
    list_models,
    listed_context,
    open_model,
    resolve,
)
from hermes.llm.openai import OpenAICompatible

if TYPE_CHECKING:
    from collections.abc import Callable

EVERY = {"ANTHROPIC_API_KEY": "ka", "OPENAI_API_KEY": "ko", "OPENROUTER_API_KEY": "kr", "DEEPSEEK_API_KEY": "kd"}


def keys(*names: str) -> Callable[[str], str | None]:
    return {name: EVERY[name] for name in names}.get


@pytest.mark.proves("llm.catalogue", "llm.keys")
@pytest.mark.parametrize(
    ("model", "has", "provider", "name", "key"),
    [
        ("claude-opus-5-5", EVERY, "anthropic", "claude-opus-5-5", "ka"),
        ("anthropic/claude-opus-5-5", EVERY, "anthropic", "claude-opus-5-5", "ka"),
        ("anthropic/claude-opus-4.6", ["OPENROUTER_API_KEY"], "openrouter", "anthropic/claude-opus-4.6", "kr"),
        ("gpt-5", EVERY, "openai", "gpt-5", "ko"),
        ("o3-mini", EVERY, "openai", "o3-mini", "ko"),
        ("openai/gpt-5", ["OPENROUTER_API_KEY"], "openrouter", "openai/gpt-5", "kr"),
        ("meta-llama/llama-3.3-70b", EVERY, "openrouter", "meta-llama/llama-3.3-70b", "kr"),
        ("deepseek-chat", EVERY, "deepseek", "deepseek-chat", "kd"),
    ],
)
def test_the_provider_and_its_key_follow_from_the_name(
    model: str, has: Any, provider: str, name: str, key: str
) -> None:
    endpoint = resolve(model, keys(*has))
    assert (endpoint.provider, endpoint.model, endpoint.key) == (provider, name, key)
    assert key not in repr(endpoint)


@pytest.mark.proves("llm.catalogue")
def test_the_wire_and_the_cache_points_follow_from_provider_and_model() -> None:
    native = resolve("claude-opus-5-5", keys(*EVERY), cache_ttl="1h")
    assert (native.wire, native.cache_points, native.cache_ttl, native.max_output) == (
        "anthropic",
        "native",
        "1h",
        64_000,
    )
    assert isinstance(open_model(native), Anthropic)
    behind = resolve("anthropic/claude-opus-4.6", keys("OPENROUTER_API_KEY"))
    assert (behind.wire, behind.cache_points, behind.replays_reasoning) == ("openai", "envelope", "details")
    assert isinstance(open_model(behind), OpenAICompatible)
    assert resolve("gpt-5", keys(*EVERY)).cache_points == ""


@pytest.mark.proves("llm.catalogue")
def test_a_missing_key_and_an_unknown_provider_say_what_to_do() -> None:
    with pytest.raises(WrongKey, match=r"put ANTHROPIC_API_KEY=… into \.env"):
        resolve("claude-opus-5-5", keys())
    with pytest.raises(
        SettingsError, match=r"known are anthropic, openai, .*set model\.base_url.*unset model\.provider"
    ):
        resolve("m", keys(), provider="nobody")
    with pytest.raises(
        NotFound,
        match=r"no known provider serves 'm', and no local server .*llama\.cpp \(8080\).*scripted:FILE",
    ):
        resolve("m", keys())


@pytest.mark.proves("llm.keys")
def test_a_server_of_ones_own_never_gets_a_providers_key() -> None:
    endpoint = resolve("gpt-5", keys(*EVERY), base_url="http://10.0.0.5:9000/v1")
    assert (endpoint.key, endpoint.provider, endpoint.wire) == ("", "10.0.0.5:9000", "openai")
    assert "HERMES_MODEL_API_KEY" in endpoint.key_remedy
    anywhere = resolve("claude-x", keys(*EVERY), provider="anthropic", base_url="http://10.0.0.5:9000")
    assert (anywhere.key, anywhere.wire) == ("", "anthropic")
    own = resolve("m", {"HERMES_MODEL_API_KEY": "mine"}.get, base_url="http://10.0.0.5:9000/v1")
    assert own.key == "mine"
    assert resolve("m", keys(), base_url="http://10.0.0.5/v1", key="given").key == "given"
    assert resolve("gpt-5", keys(*EVERY), base_url="https://api.openai.com/v1").key == "ko"


@pytest.mark.proves("llm.catalogue")
@pytest.mark.parametrize(
    ("model", "length"),
    [
        ("claude-haiku-4-5-20251001", 200_000),
        ("anthropic/claude-opus-4.6", 1_000_000),
        ("claude-sonnet-5-5", 1_000_000),
        ("gpt-4-1106-preview", 8_192),
        ("gpt-4.1-mini", 1_047_576),
        ("gpt-4o-mini", 128_000),
        ("openai/gpt-5.4-mini", 400_000),
        ("Qwen/Qwen3-Coder-30B", 262_144),
        ("smollm2-135m", 8_192),
        ("something-else", None),
    ],
)
def test_context_lengths_of_common_models_are_known(model: str, length: int | None) -> None:
    assert known_context(model) == length


@pytest.mark.proves("llm.catalogue")
def test_a_context_length_can_be_set_or_told_by_the_server() -> None:
    assert resolve("gpt-5", keys(*EVERY), context_length=1_234).context_length == 1_234
    assert resolve("m", keys(), base_url="http://localhost/v1").context_length == UNKNOWN_CONTEXT
    told: list[tuple[dict[str, Any], int | None]] = [
        ({"max_model_len": 4_096}, 4_096),
        ({"context_length": 8_192}, 8_192),
        ({"loaded_context_length": 2_048, "context_length": 8_192}, 2_048),
        ({"meta": {"n_ctx_train": 32_768}}, 32_768),
        ({"meta": None, "context_length": "many"}, None),
    ]
    assert [listed_context(entry) for entry, _ in told] == [length for _, length in told]


@pytest.mark.proves("llm.local")
def test_a_local_server_on_its_usual_port_is_found_and_asked_for_its_models() -> None:
    asked: list[str] = []

    def probe(address: str) -> list[dict[str, Any]] | None:
        asked.append(address)
        return [{"id": "qwen", "max_model_len": 4_096}, {"id": "other"}] if address == LOCAL["LM Studio"] else None

    server = find_local_server(probe)
    assert asked == [LOCAL["llama.cpp"], LOCAL["Ollama"], LOCAL["LM Studio"]]
    endpoint = resolve("", keys(), find_local=lambda: server)
    assert (endpoint.model, endpoint.provider, endpoint.context_length) == ("qwen", "LM Studio", 4_096)
    other = resolve("other", keys(), provider="local", find_local=lambda: server, timeout=9, extra_body={"a": 1})
    assert (other.model, other.timeout, other.extra_body) == ("other", 9, {"a": 1})
    with pytest.raises(NotFound, match=r"LM Studio .* has no model 'third'; it has qwen, other"):
        resolve("third", keys(), find_local=lambda: server)
    assert find_local_server(lambda _: []) is None
    assert LocalServer(name="x", base_url="y", models=()).models == ()


@pytest.mark.proves("llm.local")
def test_a_server_is_asked_over_the_wire_and_anything_else_is_no_server() -> None:
    listing = Answer(pieces=[json.dumps({"data": [{"id": "m"}, "?"]}).encode()], content_type="application/json")
    page = Answer(pieces=[b"<html>"], content_type="text/html")
    with ModelServer(listing, page, failing(200, [1]), failing(200, {"data": None})) as server:
        assert list_models(f"{server.url}/v1") == [{"id": "m"}]
        assert server.received[0].path == "/v1/models"
        assert [list_models(server.url) for _ in range(3)] == [None] * 3
    assert list_models(server.url) is None


@pytest.mark.proves("llm.import")
def test_no_http_client_is_loaded_before_the_first_model_call() -> None:
    wanted = ["tools.loop", "llm.openai", "llm.anthropic", "llm.catalogue", "llm.scripted"]
    code = f"import sys, {', '.join('hermes.' + each for each in wanted)}; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert {"httpx", "httpcore", "ssl", "openai"} & set(ran.stdout.split()) == set()
