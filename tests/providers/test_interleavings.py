"""Whatever is slow and whenever the session changes: recall stays in its session."""

# ruff: noqa: ARG002 - hooks are called with more than a test looks at

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING, Any

import pytest
from provider_plugins import Gate, Notebook

from hermes.providers.base import MemoryProvider
from hermes.providers.delivery import Job, Worker
from hermes.providers.manager import Limits, MemoryManager

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class _Steps:
    """Workers without threads: what runs next, and what is late, is drawn from a seed."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.workers: list[_Stepped] = []

    def worker(self, name: str) -> Worker:
        stepped = _Stepped(name, self)
        self.workers.append(stepped)
        return stepped

    def some(self) -> None:
        """Lets any of the workers take a few steps."""
        for _ in range(self.chance.randrange(4)):
            self.chance.choice(self.workers).step()


class _Stepped(Worker):
    def __init__(self, name: str, steps: _Steps) -> None:
        super().__init__(name)
        self._steps = steps

    def begin(self, work: Callable[[], Any]) -> Job[Any]:
        job = Job(work)
        self._jobs.append(job)
        self._steps.some()
        return job

    def step(self) -> None:
        if self._jobs and not self._running:
            self._running = True
            self._jobs.popleft().run()
            self._running = False

    def wake_at(self, moment: float, work: Callable[[], None]) -> None:
        del moment
        self.begin(work)


class _OneCache(MemoryProvider):
    """Keeps its recall in one place for all sessions, as careless ones do, and clears it when the session changes."""

    name = "careless"
    current = cached = ""

    def is_available(self) -> bool:
        return True

    def initialize(self, session_id: str, **kwargs: Any) -> None:
        self.current = session_id

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        return []

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        found = self.cached
        self.cached = f"- secret of {session_id}"
        return found or f"- secret of {session_id}"

    def queue_prefetch(self, query: str, *, session_id: str = "") -> None:
        self.cached = f"- secret of {session_id}"

    def on_session_switch(self, new_session_id: str, **kwargs: Any) -> None:
        self.cached, self.current = "", new_session_id


@pytest.mark.proves("providers.switch.isolated")
def test_one_sessions_recall_never_shows_in_another_in_a_thousand_interleavings(tmp_path: Path) -> None:
    recalled = 0
    for seed in range(1000):
        steps = _Steps(seed)
        manager = MemoryManager(str(tmp_path), limits=Limits(recall_seconds=0, tool_seconds=0), worker=steps.worker)
        manager.add_provider(_OneCache())
        attached = manager._handles[0]
        attached.start(lambda attached=attached: attached.provider.initialize("s0"))  # type: ignore[misc]
        while not attached.ready:
            steps.some()
        session = "s0"
        for turn in range(8):
            found = manager.prefetch_all("tea", session_id=session)
            assert found in ("", f"- secret of {session}"), f"seed {seed}, turn {turn}"
            recalled += bool(found)
            manager.queue_prefetch_all("tea", session_id=session)
            steps.some()
            if steps.chance.random() < 0.5:
                session = f"s{turn + 1}"
                manager.on_session_switch(session, reason="new")
            steps.some()
    assert recalled > 1000


@pytest.mark.proves("providers.switch.isolated")
def test_a_slow_recall_that_returns_after_the_switch_is_nobodys(tmp_path: Path) -> None:
    book, gate = Notebook(), Gate()
    book.facts = ["Tea of the first session."]
    manager = MemoryManager(str(tmp_path))
    manager.add_provider(book)
    manager.initialize_all("s1")
    book.in_prefetch = gate.wait
    found: list[str] = []
    asking = threading.Thread(target=lambda: found.append(manager.prefetch_all("tea", session_id="s1")))
    asking.start()
    assert gate.reached.wait(60)
    manager.on_session_switch("s2", reason="new")
    gate.open()
    asking.join()
    assert found == [""]
    manager.shutdown_all()
