"""mem0: the library in this process by default, a server of one's own with --url."""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from live.kit import Trial, environment_with, inside
from live.story import story
from live.stub import real_vectors, serving

if TYPE_CHECKING:
    from collections.abc import Callable

_SAID = re.compile(r"user: (.+)", re.IGNORECASE)


def run(trial: Trial) -> int:
    if trial.url:
        key = trial.key or os.environ.get("MEM0_API_KEY", "")
        config = {"mode": "selfhosted", "host": trial.url, "user_id": "hermes-live"}
        return story(trial, config, {"MEM0_API_KEY": key}, forget=_forget)
    python = environment_with(trial.scratch, "mem0ai", "wordllama")
    quiet = {"MEM0_TELEMETRY": "False", "MEM0_DIR": os.path.join(trial.home, "mem0")}
    return inside(python, "live.mem0", json.dumps(asdict(trial)), environment=quiet)


def in_process(trial: Trial) -> int:
    embedding = real_vectors()
    with serving(_extract, embedding) as url:
        size = embedding.dimensions
        shared = {"api_key": "none", "openai_base_url": url}
        oss = {
            "llm": {"provider": "openai", "config": {**shared, "model": "stub"}},
            "embedder": {"provider": "openai", "config": {**shared, "model": "stub", "embedding_dims": size}},
            "vector_store": {"provider": "qdrant", "config": {"embedding_model_dims": size}},
        }
        return story(trial, {"mode": "oss", "oss": oss, "user_id": "live"}, {}, forget=_forget)


def _extract(messages: list[dict[str, Any]]) -> str:
    """Each thing the user said in the new messages is a memory."""
    prompt = str(messages[-1]["content"])
    new = prompt.partition("## New Messages")[2].partition("\n## ")[0]
    said = _SAID.findall(new) or re.findall(r'"content": "([^"]+)"', new)
    memories = [{"id": str(i), "text": text.strip(), "attributed_to": "user"} for i, text in enumerate(said)]
    return json.dumps({"memory": memories})


def _forget(call: Callable[..., Any]) -> bool:
    found = call("mem0_profile")["results"]
    return all("error" not in call("mem0_delete", memory_id=memory["id"]) for memory in found)


if __name__ == "__main__":
    sys.exit(in_process(Trial(**json.loads(sys.argv[1]))))
