"""Context engines that return what cannot stand for a history, or never manage: the built-in compressor takes over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from compacted import configure, talk, texts
from histories import openai_faults

from hermes.base.errors import ModelUnreachable
from hermes.base.events import Notice, Usage
from hermes.llm.scripted import Scripted
from hermes.session.session import MemorySession

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hermes.llm.client import Message

ENGINE = """
from hermes import ContextEngine


class Amiss(ContextEngine):
    name = "amiss"

    def update_from_response(self, usage):
        pass

    def should_compress(self, prompt_tokens=None):
        return True

    def compress(self, messages, current_tokens=None, focus_topic=None):
        DOES
"""


def install(home: Path, does: str, more: str = "auxiliary:\n  compression:\n    enabled: false\n") -> None:
    configure(home, f"context:\n  engine: amiss\n{more}")
    place = home / "plugins" / "context_engine" / "amiss"
    place.mkdir(parents=True)
    (place / "__init__.py").write_text(ENGINE.replace("DOES", does), encoding="utf-8")


def told(session: MemorySession) -> list[str]:
    return [event.text for event in session.take_events() if isinstance(event, Notice)]


@pytest.mark.proves("compaction.engine.fallback")
@pytest.mark.parametrize(
    ("does", "reason"),
    [
        ('return [{"role": "user", "content": "before"}, *messages[-3:], *messages[-3:]]', "returned a message twice"),
        ('return [{"role": "user", "content": ""}, *messages[-3:]]', "put nothing in the place"),
        ('return [{"role": "assistant", "content": None}, *messages[-3:]]', "put nothing in the place"),
        ("return [messages[1], *messages[-3:]]", "put nothing in the place"),  # a call without its result
        ("raise SystemExit(3)", "raised SystemExit"),
        ("return messages[5]", "did not return a list of messages"),
        ('return [{"role": "user", "content": "before"}]', "dropped the person's last request"),
        ('return [{"role": "user", "content": 5}, *messages[-3:]]', "cannot be stored: content is int"),
        ('return [{"role": "user", "content": object()}, *messages[-3:]]', "cannot be stored: Object of type object"),
        ('return [{"role": "user", "content": "x", 5: "x"}, *messages[-3:]]', "the name of a field is not text"),
    ],
)
def test_what_cannot_stand_for_a_history_is_not_followed(home: Path, does: str, reason: str) -> None:
    install(home, does)
    with MemorySession.open(home) as session:
        talk(session, 12)
        session.prepare_turn("and now?")
        done = session.compact()
        assert done is not None
        assert (done.how, reason in told(session)[0]) == ("extract", True)
        session.finish_turn("Now this.")
        after = session.request().messages
    with MemorySession.open(home, resume=session.id) as again:
        assert again.request().messages == after


@pytest.mark.proves("compaction.engine.fallback")
def test_of_what_an_engine_writes_a_model_gets_what_it_can_read(home: Path) -> None:
    note = '{"role": "user", "content": "before", "api_content": "hidden", "copy_of": 5, "context_order": [[0, 9]]}'
    install(home, f'return [{note}, {{"role": "assistant", "content": ""}}, *messages[-3:]]')
    with MemorySession.open(home) as session:
        talk(session, 12)
        session.prepare_turn("and now?")
        assert session.compact() is not None
        after = session.request().messages
        assert [message["content"] for message in (after[0], after[-1])] == ["before", "and now?"]
        assert (len(after), openai_faults(after)) == (4, [])


@pytest.mark.proves("compaction.engine.fallback", "compaction.cooldown")
def test_a_model_that_failed_rests_also_while_the_built_in_compressor_stands_in(home: Path) -> None:
    install(home, 'raise RuntimeError("no")', more="")
    asked: list[int] = []

    def unreachable(messages: Sequence[Message]) -> Any:
        asked.append(len(messages))
        raise ModelUnreachable("no route")

    model = Scripted([unreachable] * 9, context_length=16_000)
    with MemorySession.open(home) as session:
        session.use_model(model)
        talk(session, 12)
        session.fit(session.prepare_turn("and now?"))
        session.finish_turn("This.")
        assert (len(asked), "compacted without a model" in told(session)[-1]) == (1, True)
        talk(session, 6, start=20, words=200)
        session.fit(session.prepare_turn("and then?"))
        assert (len(asked), "compacted without a model" in told(session)[-1]) == (1, True)
    with MemorySession.open(home, resume=session.id) as again:
        again.use_model(model)
        talk(again, 6, start=30, words=200)
        again.fit(again.prepare_turn("and at last?"))
        assert len(asked) == 1
        assert "ABC-0031" in texts(again.request().messages)


@pytest.mark.proves("compaction.engine.fallback", "compaction.breaker", "compaction.notice")
def test_what_never_helps_is_not_tried_at_every_call_and_is_told_once(home: Path) -> None:
    install(home, 'raise RuntimeError("no")')
    with MemorySession.open(home) as session:
        request = session.prepare_turn("the only message")
        session.counted(Usage(input_tokens=15_000))  # prompt and tools fill the window
        for _ in range(4):
            assert session.fit(request) is request
        assert len(told(session)) == 1
        breaker = session.compactor.breaker
        assert breaker.ineffective == 2
        session.counted(Usage(input_tokens=900))
        assert session.compactor.breaker.ineffective == 0
