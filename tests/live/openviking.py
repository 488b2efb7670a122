"""openviking: its server in a scratch directory, or a server that runs already with --url."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any

from live.kit import environment_with, packages_of
from live.servers import free_port, running
from live.story import story
from live.stub import real_vectors, serving

if TYPE_CHECKING:
    from collections.abc import Callable

    from live.kit import Trial

_SAID = re.compile(r"(My [^\"\n\\]+)")


def run(trial: Trial) -> int:
    key = trial.key or os.environ.get("OPENVIKING_API_KEY", "")
    if trial.url:
        return _told(trial, trial.url, key)
    python = environment_with(trial.scratch, "openviking", "wordllama")
    embedding = real_vectors(packages_of(python))
    with serving(_extract, embedding) as stub:
        port = free_port()
        model = {"provider": "openai", "model": "stub", "api_base": stub, "api_key": "none"}
        config = {
            "server": {"host": "127.0.0.1", "port": port},
            "storage": {"workspace": os.path.join(trial.home, "viking")},
            "embedding": {"dense": {**model, "dimension": embedding.dimensions, "input": "text"}},
            "vlm": model,
        }
        os.makedirs(trial.home, exist_ok=True)
        file = os.path.join(trial.home, "ov.conf")
        with open(file, "w", encoding="utf-8") as out:
            json.dump(config, out)
        url = f"http://127.0.0.1:{port}"
        command = [os.path.join(os.path.dirname(python), "openviking-server"), "--config", file]
        with running(command, f"{url}/health", os.path.join(trial.scratch, "openviking.log")):
            return _told(trial, url, "")


def _told(trial: Trial, url: str, key: str) -> int:
    config = {"endpoint": url, "user": f"live-{os.getpid()}"}
    secrets = {"OPENVIKING_API_KEY": key}
    return story(trial, config, secrets, forget=_forget, patience=40, at_the_end=True)


def _extract(messages: list[dict[str, Any]]) -> str:
    """What the user said is a preference, in the small language that the server runs."""
    prompt = "\n".join(str(message.get("content")) for message in messages)
    said = list(dict.fromkeys(text.strip() for text in _SAID.findall(prompt)))
    if "sdk." not in prompt:
        return said[0] if said else "notes"
    lines = [f"sdk.create_preferences(user='live', topic='pets', content={text!r})" for text in said[:1]]
    return "\n".join([*lines, "sdk.commit()"])


def _forget(call: Callable[..., Any]) -> bool:
    found = call("viking_search", query="What is the parrot called?")["results"]
    return all("error" not in call("viking_forget", uri=hit["uri"]) for hit in found)
