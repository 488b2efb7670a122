"""`AsyncMemorySession`: `MemorySession` for programs that run on asyncio.

    async with await AsyncMemorySession.open(source="my-agent") as session:
        request = await session.prepare_turn("what did we decide about auth?")
        …send it to a model…
        await session.finish_turn("We chose …")

Each call runs in a thread of the event loop's own pool, one at a time per session. Cancelling the task that waits for
a call does not stop the call: it completes its writes, and the next call waits until it has ended.
"""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from functools import partial, update_wrapper
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from hermes.session.session import MemorySession

if TYPE_CHECKING:
    import os
    from collections.abc import Awaitable, Callable

    from hermes.settings.home import Home

Result = TypeVar("Result")
Given = ParamSpec("Given")


def _awaited(
    method: Callable[Concatenate[MemorySession, Given], Result],
) -> Callable[Concatenate[AsyncMemorySession, Given], Awaitable[Result]]:
    async def call(self: AsyncMemorySession, /, *args: Given.args, **named: Given.kwargs) -> Result:
        return await self.run(partial(method, self.session, *args, **named))

    update_wrapper(call, method)
    return call


class AsyncMemorySession:
    """One conversation with its memory; `session` is the synchronous one, for attributes that need no thread."""

    def __init__(self, session: MemorySession) -> None:
        self.session = session
        self._one_at_a_time = asyncio.Lock()

    @classmethod
    async def open(cls, home: str | os.PathLike[str] | Home | None = None, source: str = "cli", **options: Any) -> Self:
        """Takes the arguments of `MemorySession.open`; if the caller is cancelled meanwhile, closes the new session."""
        opening = _in_thread(partial(MemorySession.open, home, source, **options))
        try:
            return cls(await asyncio.shield(opening))
        except asyncio.CancelledError:
            opening.add_done_callback(_close_unwanted)
            raise

    async def run(self, call: Callable[[], Result]) -> Result:
        """Runs anything that uses `session` in a thread, after the calls before it."""
        await self._one_at_a_time.acquire()
        running = _in_thread(call)
        running.add_done_callback(self._ended)
        return await asyncio.shield(running)

    def _ended(self, running: asyncio.Future[Any]) -> None:
        self._one_at_a_time.release()
        if not running.cancelled():
            running.exception()  # mark it as retrieved: if the caller was cancelled, asyncio would log it

    prepare_turn = _awaited(MemorySession.prepare_turn)
    request = _awaited(MemorySession.request)
    record = _awaited(MemorySession.record)
    record_result = _awaited(MemorySession.record_result)
    run_tool = _awaited(MemorySession.run_tool)
    call_tool = _awaited(MemorySession.call_tool)
    finish_turn = _awaited(MemorySession.finish_turn)
    use_model = _awaited(MemorySession.use_model)
    counted = _awaited(MemorySession.counted)
    fit = _awaited(MemorySession.fit)
    compact = _awaited(MemorySession.compact)
    undo = _awaited(MemorySession.undo)
    branch = _awaited(MemorySession.branch)
    rename = _awaited(MemorySession.rename)
    receipt = _awaited(MemorySession.receipt)
    close = _awaited(MemorySession.close)

    @property
    def id(self) -> str:
        """The id of the session; a compaction may change it."""
        return self.session.id

    @property
    def system_prompt(self) -> str:
        """The system prompt with curated memory, frozen for the session."""
        return self.session.system_prompt

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _in_thread(call: Callable[[], Result]) -> asyncio.Future[Result]:
    """Returns a future, not a task: `asyncio.run` cancels tasks when it ends, but it waits for its threads."""
    return asyncio.get_running_loop().run_in_executor(None, partial(copy_context().run, call))


def _close_unwanted(opening: asyncio.Future[MemorySession]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()  # in this thread: the session is empty, and the loop may be ending
