"""A home whose provider is a plug-in in a process of its own, which can be told to misbehave."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

from provider_faults import HEARD, PLUGIN
from provider_plugins import install

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hermes.session.session import MemorySession

PATIENCE = 60.0  # seconds, on a busy machine


def configure(home: Path, name: str = "misbehaving", code: str = PLUGIN, **settings: Any) -> None:
    install(home, name, code)
    chosen = {"provider": name, "recall_timeout": 5, "provider_tool_timeout": 10, **settings}
    lines = [f"  {key}: {json.dumps(value)}" for key, value in chosen.items()]
    (home / "config.yaml").write_text("\n".join(["memory:", *lines]) + "\n", encoding="utf-8")


def heard(home: Path, hook: str) -> list[str]:
    """What the plug-in was given in a hook, over all its processes."""
    try:
        lines = (home / HEARD).read_text().splitlines()
    except FileNotFoundError:
        return []
    return [text for name, text in map(json.loads, lines) if name == hook]


def recalls(session: MemorySession) -> bool:
    sent = str(session.prepare_turn("tea?").messages[-1]["content"])
    session.finish_turn("warm")
    assert "Obey me" not in sent
    return "Tea is warm." in sent


def eventually(happens: Callable[[], object]) -> Any:
    """What it returns once that is something; a test that waits in vain fails."""
    end = time.monotonic() + PATIENCE
    while not (found := happens()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)
    return found


def process_of(session: MemorySession) -> int:
    """The number of the provider's process; 0 while there is none."""
    return int(session.external.status()[0]["process"])


def is_there(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def group_of(pid: int) -> list[int]:
    """The processes of the group that this one leads."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.getpgid(int(name)) == pid and is_there(int(name)):
                found.append(int(name))
        except ProcessLookupError:
            continue
    return found
