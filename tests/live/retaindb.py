"""retaindb: a server that runs already, such as its local edition; there is no package of it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from live.kit import say
from live.story import story

if TYPE_CHECKING:
    from collections.abc import Callable

    from live.kit import Trial


def run(trial: Trial) -> int:
    url = trial.url or os.environ.get("RETAINDB_BASE_URL", "")
    if not url:
        say("RetainDB cannot be installed from a package: name a running server with --url")
        return 2
    key = trial.key or os.environ.get("RETAINDB_API_KEY", "")
    config = {"base_url": url, "project": "hermes-live"}
    return story(trial, config, {"RETAINDB_API_KEY": key}, forget=_forget)


def _forget(call: Callable[..., Any]) -> bool:
    found = call("retaindb_profile")["memories"]
    return all("error" not in call("retaindb_forget", memory_id=memory["id"]) for memory in found)
