"""The story every provider must tell of its real service: through the manager, as a conversation would."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

from hermes.providers.config import save_config
from hermes.providers.discovery import load_provider
from hermes.providers.manager import Limits, MemoryManager
from live.kit import say

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from live.kit import Trial

    Call = Callable[..., Any]

FACT = "My parrot is called Humboldt and lives in Lisbon."
ENTRY = "Deploys happen on Thursdays."
_PARROT, _DEPLOYS = "What is the parrot called?", "When are deploys?"


def story(
    trial: Trial,
    config: Mapping[str, Any],
    secrets: Mapping[str, str],
    *,
    forget: Callable[[Call], bool],
    patience: float = 20.0,
    at_the_end: bool = False,
    target: str = "memory",
) -> int:
    """`forget` forgets what was said, with the provider's tools; `patience` is how long a step may take.

    `at_the_end` is for services that make memories of a session when it ends; `target` is the file whose entries a turn
    recalls.
    """
    os.makedirs(trial.home, exist_ok=True)
    save_config(trial.name, trial.home, config)
    with open(os.path.join(trial.home, ".env"), "w", encoding="utf-8") as file:
        file.writelines(f"{name}={text}\n" for name, text in secrets.items() if text)
    told = _Story(trial, trial.patience or patience, at_the_end=at_the_end)
    told.a_memory(forget, target)
    told.a_person()
    say(f"{trial.name}: {'FAILED: ' + ', '.join(told.failures) if told.failures else 'all of it works'}")
    return 1 if told.failures else 0


class _Story:
    def __init__(self, trial: Trial, patience: float, *, at_the_end: bool) -> None:
        self._provider = trial.name
        self._home = trial.home
        self._pause = trial.pause
        self._patience = patience
        self._at_the_end = at_the_end
        self.failures: list[str] = []

    def a_memory(self, forget: Callable[[Call], bool], target: str) -> None:
        """A turn is stored, recalled and forgotten; an entry is mirrored, changed and taken back."""
        manager = self._started("live-1")
        self._step("the connection", lambda: bool(manager.get_provider(self._provider).check_connection()))
        self._said(manager, "live-1")
        self._step("a turn is stored", lambda: manager.flush(self._patience))
        self._step("and recalled", lambda: "Humboldt" in manager.prefetch_all(_PARROT, session_id="live-1"))

        def mirrored(word: str) -> bool:
            return manager.flush(self._patience) and word in manager.prefetch_all(_DEPLOYS)

        changed, about = "Deploys happen on Mondays.", {"session_id": "live-1"}
        manager.on_memory_write("add", target, ENTRY, about)
        self._step("an entry is mirrored", lambda: mirrored("Thursdays"))
        manager.on_memory_write("replace", target, changed, {**about, "old_text": ENTRY})
        self._step("and replaced", lambda: mirrored("Mondays"))
        self._step("without the old one", lambda: not mirrored("Thursdays"))
        manager.on_memory_write("remove", target, "", {**about, "old_text": changed})
        self._step("and removed", lambda: not mirrored("Mondays"))

        def call(name: str, **arguments: Any) -> Any:
            return json.loads(manager.handle_tool_call(name, arguments))

        self._step("the tools forget it", lambda: forget(call))
        self._step("the turn is forgotten", lambda: "Humboldt" not in manager.prefetch_all(_PARROT))
        status = manager.status()[0]
        say(f"state {status['state']}, waiting {status['waiting']}, slowest recall {status['slowest_recall_ms']} ms")
        manager.shutdown_all()

    def a_person(self) -> None:
        """Everything of one person is deleted, and another's is left."""
        for name in ("ada", "bob"):
            self._as(name, f"the memory of {name} is recalled", self._knows, first=True)
        self._step("everything of ada is deleted", lambda: self._erased("ada"))
        self._as("ada", "ada is forgotten", lambda manager: not self._knows(manager))
        self._as("bob", "and bob is not", self._knows)
        time.sleep(self._pause)
        self._as("ada", "and nothing comes back later", lambda manager: not self._knows(manager))
        self._step("and of bob", lambda: self._erased("bob"))  # a service that goes on running is left as it was

    def _as(self, name: str, step: str, check: Callable[[MemoryManager], bool], *, first: bool = False) -> None:
        """One after the other: some stores let only one in."""
        manager = self._started(f"live-{name}", user_id=f"live {name}")
        if first:
            manager.on_memory_write("add", "user", f"Deploys of {name} happen on Thursdays.", {})
            self._said(manager, f"live-{name}")
        self._step(step, lambda: check(manager))
        manager.shutdown_all()

    def _erased(self, name: str) -> bool:
        provider = load_provider(self._provider, self._home)
        provider.initialize("forgetting", hermes_home=self._home, platform="cli", user_id=f"live {name}")
        try:
            said = provider.forget_person()
        finally:
            provider.shutdown()
        say(f"  {said}")
        return bool(said)

    def _knows(self, manager: MemoryManager) -> bool:
        flushed = manager.flush(self._patience)
        asked = (manager.prefetch_all(question) for question in (_DEPLOYS, _PARROT))
        return flushed and any(word in found for found in asked for word in ("Thursdays", "Humboldt"))

    def _said(self, manager: MemoryManager, session: str) -> None:
        manager.sync_all(FACT, "Noted.", session_id=session)
        if self._at_the_end:
            manager.on_session_end([], session_id=session)

    def _started(self, session: str, **identity: str) -> MemoryManager:
        patience = self._patience
        limits = Limits(recall_seconds=patience, tool_seconds=patience * 3, drain_seconds=patience)
        manager = MemoryManager(self._home, limits=limits, tell=lambda text: say(f"  notice: {text}"))
        manager.add_provider(load_provider(self._provider, self._home))
        manager.initialize_all(session, platform="cli", agent_context="primary", **identity)
        return manager

    def _step(self, name: str, check: Callable[[], bool]) -> None:
        began = time.monotonic()
        ok = _within(self._patience, check)
        say(f"{'ok  ' if ok else 'FAIL'} {name} ({time.monotonic() - began:.1f} s)")
        if not ok:
            self.failures.append(name)


def _within(seconds: float, check: Callable[[], bool]) -> bool:
    """Services index in their own time: asks again until it holds or the time is over."""
    end = time.monotonic() + seconds
    while True:
        try:
            if check():
                return True
        except Exception as error:  # noqa: BLE001 - whatever the service did is a failed step
            say(f"  {type(error).__name__}: {error}")
        if time.monotonic() > end:
            return False
        time.sleep(0.5)
