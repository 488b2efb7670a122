"""`AsyncMemorySession`: the same session for a program on asyncio, whatever is cancelled."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from hermes import AsyncMemorySession, MemorySession, SessionDB

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class Slow:
    """A tool of the host that works until it is released."""

    def __init__(self) -> None:
        self.started, self.released = threading.Event(), threading.Event()

    schema = {"name": "slow", "description": "Works for long.", "parameters": {"type": "object", "properties": {}}}  # noqa: RUF012 - as hosts write them

    def call(self, _arguments: Mapping[str, Any]) -> str:
        self.started.set()
        self.released.wait()
        return '{"success": true}'


class SlowToOffer(Slow):
    @property
    def schema(self) -> dict[str, Any]:  # type: ignore[override]
        self.started.set()
        self.released.wait()
        return Slow.schema


async def reached(event: threading.Event) -> None:
    await asyncio.to_thread(event.wait)


@pytest.mark.proves("session.async")
def test_a_turn_on_asyncio_is_the_turn_that_threads_have(home: Path) -> None:
    async def talk() -> str:
        async with await AsyncMemorySession.open(home, source="my-agent") as session:
            request = await session.prepare_turn("Please keep your answers short.")
            assert request.system == session.system_prompt
            await session.call_tool("memory", {"action": "add", "target": "user", "content": "Prefers short answers."})
            await session.finish_turn("Noted.")
            assert (await session.receipt()).id
            return session.id

    name = asyncio.run(talk())
    with MemorySession.open(home, resume=name) as session:
        assert [each["role"] for each in session.request().messages] == ["user", "assistant", "tool", "assistant"]
    with MemorySession.open(home) as later:
        assert "Prefers short answers." in later.system_prompt


@pytest.mark.proves("session.async")
def test_a_cancelled_call_ends_and_the_next_one_waits_for_it(home: Path) -> None:
    tool = Slow()

    async def talk() -> list[str]:
        async with await AsyncMemorySession.open(home, tools=[tool]) as session:
            await session.prepare_turn("Do it.")
            working = asyncio.ensure_future(session.call_tool("slow", {}, call_id="c1"))
            await reached(tool.started)
            working.cancel()
            with pytest.raises(asyncio.CancelledError):
                await working
            answer = asyncio.ensure_future(session.finish_turn("Done."))
            _, waiting = await asyncio.wait([answer], timeout=0)
            assert waiting
            tool.released.set()
            await answer
            return [str(each.get("tool_call_id", each["role"])) for each in (await session.request()).messages]

    assert asyncio.run(talk()) == ["user", "assistant", "c1", "assistant"]


@pytest.mark.proves("session.async")
def test_a_session_that_opens_after_its_caller_has_gone_is_closed_again(home: Path) -> None:
    tool = SlowToOffer()

    async def give_up() -> None:
        opening = asyncio.ensure_future(AsyncMemorySession.open(home, tools=[tool]))
        await reached(tool.started)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        tool.released.set()

    asyncio.run(give_up())
    with SessionDB.open(home / "state.db") as database:
        assert [each.ended_at for each in database.list_sessions(limit=5)] != [None]


@pytest.mark.proves("session.async")
def test_a_call_that_fails_after_its_caller_has_gone_is_not_logged_as_forgotten(home: Path) -> None:
    said: list[Any] = []

    async def talk() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, about: said.append(about))
        session = await AsyncMemorySession.open(home)
        await session.close()
        refused = asyncio.ensure_future(session.prepare_turn("too late"))
        await asyncio.sleep(0)
        refused.cancel()
        await asyncio.wait([refused])

    asyncio.run(talk())
    assert said == []


@pytest.mark.proves("session.adapters")
def test_a_framework_records_results_itself_and_only_those_of_other_tools_hold_writes_back(home: Path) -> None:
    save = {"action": "add", "target": "user", "content": "Likes tea."}

    def saved(session: MemorySession) -> bool:
        return "staged" not in session.run_tool("memory", save, call_id="c9")

    def results(session: MemorySession, *texts: str) -> None:
        calls = [
            {"id": f"c{at}", "type": "function", "function": {"name": "session_search", "arguments": "{}"}}
            for at in range(len(texts))
        ]
        session.record({"role": "assistant", "content": "", "tool_calls": calls})
        for at, text in enumerate(texts):
            session.record({"role": "tool", "tool_call_id": f"c{at}", "content": text})

    with MemorySession.open(home) as session:
        session.record({"role": "user", "content": "What is new?"})
        results(session, session.run_tool("memory", {"action": "add", "target": "memory", "content": "Uses Debian."}))
        assert saved(session)
    with MemorySession.open(home) as other:
        other.record({"role": "user", "content": "What is new?"})
        results(other, "A page: the person likes tea.")
        assert not saved(other)
