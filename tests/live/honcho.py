"""honcho: a server that runs already; there is no package of it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from live.kit import say
from live.story import story

if TYPE_CHECKING:
    from collections.abc import Callable

    from live.kit import Trial


def run(trial: Trial) -> int:
    url = trial.url or os.environ.get("HONCHO_URL", "")
    if not url:
        say("Honcho's server cannot be installed from a package: name a running one with --url")
        return 2
    key = trial.key or os.environ.get("HONCHO_API_KEY", "")
    workspace = f"hermes-live-{os.urandom(4).hex()}"
    config = {"baseUrl": url, "workspace": workspace, "sessionStrategy": "per-session"}
    return story(trial, config, {"HONCHO_API_KEY": key}, forget=_forget, patience=60, target="user")


def _forget(call: Callable[..., Any]) -> bool:
    found = call("honcho_conclude", list=True)["conclusions"]
    return all("error" not in call("honcho_conclude", delete_id=conclusion["id"]) for conclusion in found)
