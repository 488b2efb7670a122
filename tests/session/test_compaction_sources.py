"""What a compaction does when the sources of the prompt, the model or the breaker leave it little choice."""

from __future__ import annotations

import shutil
from datetime import date
from typing import TYPE_CHECKING

import pytest
from compacted import configure, talk, texts

from hermes.agent import Agent
from hermes.base.errors import ContextTooLong
from hermes.base.events import Compacted, Usage
from hermes.llm.scripted import Scripted
from hermes.session.session import MemorySession

if TYPE_CHECKING:
    from pathlib import Path

NO_HELPER = "auxiliary:\n  compression:\n    enabled: false\nreview:\n  enabled: false\n"


@pytest.mark.proves("compaction.reinjected")
def test_the_day_a_host_named_stays_the_day_of_the_prompt(home: Path) -> None:
    configure(home, NO_HELPER)
    with MemorySession.open(home, today=date(2031, 5, 6)) as session:
        before = session.system_prompt
        talk(session, 20)
        session.call_tool("memory", {"action": "add", "target": "user", "content": "Lives in Berlin."})
        assert session.compact() is not None
        assert "Lives in Berlin." in session.system_prompt
    assert "2031" in before
    dated = [[line for line in text.splitlines() if "2031" in line] for text in (before, session.system_prompt)]
    assert dated[0] == dated[1]


@pytest.mark.proves("compaction.reinjected")
def test_memory_that_cannot_be_read_is_not_taken_to_be_empty(home: Path, tmp_path: Path) -> None:
    configure(home, NO_HELPER)
    with MemorySession.open(home) as session:
        session.call_tool("memory", {"action": "add", "target": "user", "content": "Lives in Berlin."})
        talk(session, 20)
        shutil.move(home / "memories", tmp_path / "aside")
        (home / "memories").symlink_to("/etc")
        assert session.compact() is not None
        assert "MEMORY (your personal notes) [could not be read]" in session.system_prompt
        (home / "memories").unlink()
        shutil.move(tmp_path / "aside", home / "memories")
        talk(session, 20, start=20)
        assert session.compact() is not None
        assert "Lives in Berlin." in session.system_prompt


@pytest.mark.proves("compaction.reinjected", "session.skip")
def test_delegated_work_without_memory_is_compacted_without_it(home: Path) -> None:
    configure(home, NO_HELPER)
    with MemorySession.open(home) as session:
        session.call_tool("memory", {"action": "add", "target": "user", "content": "Lives in Berlin."})
    with MemorySession.open(home, skip_memory=True) as session:
        talk(session, 20)
        assert session.compact() is not None
        assert "Lives in Berlin." not in session.system_prompt


@pytest.mark.proves("compaction.breaker", "compaction.hygiene")
def test_where_compaction_has_not_helped_the_next_message_does_not_try_again(home: Path) -> None:
    configure(home, NO_HELPER)
    with MemorySession.open(home) as session:
        talk(session, 30)
        for number in range(8):
            talk(session, 2, start=30 + 2 * number)
            session.prepare_turn("go on")
            session.finish_turn("ok", usage=Usage(input_tokens=15_500))  # the provider still counts too much
        assert len([event for event in session.take_events() if isinstance(event, Compacted)]) < 4


@pytest.mark.proves("compaction.too-long")
def test_a_request_that_never_fits_is_an_error_and_loses_nothing(home: Path) -> None:
    configure(home, NO_HELPER)
    model = Scripted([ContextTooLong("too long", limit=50)] * 2, context_length=16_000)
    with MemorySession.open(home) as session:
        talk(session, 20)
        with pytest.raises(ContextTooLong):
            list(Agent(session, model).turn("the last request"))
        assert "the last request" in texts(session.request().messages)
        assert len(model.requests) == 2
