"""LangGraph: a checkpointer that keeps threads in a home, with the tools of Hermes.

    with HermesSaver() as memory:
        graph = create_react_agent(model, memory.tools(), checkpointer=memory)
        graph.invoke({"messages": "What did we decide?"}, {"configurable": {"thread_id": "1"}})

Every thread is also a conversation of Hermes, which records the `messages` of its state: so search finds them, and the
trust gate knows what the model has read. Needs no MCP adapter, so any version of `mcp` may be installed.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import threading
from contextlib import ExitStack
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Self

from langchain_core.messages import convert_to_openai_messages
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
    writes_sort_key,
)
from langgraph.prebuilt import ToolRuntime  # noqa: TC002 - LangGraph reads the annotation

from hermes.session.session import MemorySession
from hermes.settings.config import documents_of
from hermes.settings.home import find_home

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

_LONGEST = 1 << 28  # bytes of one checkpoint
_ID = "langchain_id"  # in a stored message


class HermesSaver(BaseCheckpointSaver[int]):
    """A LangGraph checkpointer that keeps each thread as a Hermes session."""

    def __init__(self, home: Any = None, *, source: str = "langgraph", **options: Any) -> None:
        """`options` are those of `MemorySession.open`, for the conversation of each thread."""
        super().__init__()
        self._documents = documents_of(find_home(home)).below("langgraph")
        self._open = partial(MemorySession.open, home, source, **options)
        self._sessions: dict[str, MemorySession] = {}
        self._recorded: dict[str, set[str]] = {}
        self._lock = threading.RLock()
        self._closing = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def session(self, thread_id: str) -> MemorySession:
        """The conversation of a thread, for its `system_prompt` and the other calls of a session."""
        with self._lock, self._folder(thread_id) as folder:
            if thread_id not in self._sessions:
                known = folder.read("session", at_most=_LONGEST)
                session = self._closing.enter_context(self._open(resume=known.decode() if known else None))
                folder.replace("session", session.id.encode())
                stored = (each.message for each in session.database.messages(session.id))
                self._recorded[thread_id] = {str(each[_ID]) for each in stored if _ID in each}
                self._sessions[thread_id] = session
            return self._sessions[thread_id]

    def tools(self) -> list[Any]:
        """The tools of Hermes for a `ToolNode`; each call belongs to the conversation of its thread."""
        with self._open(skip_context_files=True) as session:
            schemas = [each["function"] for each in session.request().tools]
            session.drop_if_empty()
        return [self._tool(schema) for schema in schemas]

    def _tool(self, schema: dict[str, Any]) -> Any:
        def run(runtime: ToolRuntime, **arguments: Any) -> str:
            thread_id = str(runtime.config["configurable"]["thread_id"])
            with self._lock:
                self._record(
                    thread_id, runtime.state["messages"]
                )  # now, because the checkpoint may come after the call
                return self.session(thread_id).run_tool(schema["name"], arguments, call_id=runtime.tool_call_id or "")

        return StructuredTool(
            name=schema["name"], description=schema["description"], args_schema=schema["parameters"], func=run
        )

    def _record(self, thread_id: str, messages: Sequence[Any]) -> None:
        session, recorded = self.session(thread_id), self._recorded[thread_id]
        for message in messages:
            if message.id not in recorded:
                session.record({**convert_to_openai_messages(message), _ID: message.id})
                recorded.add(message.id)

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:  # noqa: ARG002 - their interface
        """Stores a checkpoint, and records the messages of its state that are new."""
        given = config["configurable"]
        messages = checkpoint["channel_values"].get("messages", ())
        with self._lock, self._folder(given["thread_id"]) as folder:
            if (
                not given.get("checkpoint_ns")
                and isinstance(messages, list)
                and all(hasattr(m, "id") for m in messages)
            ):
                self._record(given["thread_id"], messages)
            about = get_checkpoint_metadata(config, metadata)
            folder.replace(_name(given, checkpoint["id"]), self._bytes((checkpoint, about, given.get("checkpoint_id"))))
        return _config(given, checkpoint["id"])

    def put_writes(self, config: Any, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = "") -> None:
        """Stores the writes of one task beside their checkpoint; a repeated write counts once."""
        given = config["configurable"]
        name = f"{_name(given, given['checkpoint_id'])}.{_digest(task_id)}"
        with self._lock, self._folder(given["thread_id"]) as folder:
            kept = self._read(folder, name) or {}
            for position, (channel, value) in enumerate(writes):
                number = WRITES_IDX_MAP.get(channel, position)
                if number < 0 or number not in kept:
                    kept[number] = (task_path, task_id, number, channel, value)
            folder.replace(name, self._bytes(kept))

    def get_tuple(self, config: Any) -> Any:
        wanted = get_checkpoint_id(config)
        return next((each for each in self._all(config) if wanted in (None, _id(each.config))), None)

    def list(self, config: Any, *, filter: Any = None, before: Any = None, limit: int | None = None) -> Iterator[Any]:  # noqa: A002 - their interface
        """Yields the checkpoints of one thread, newest first; a thread must be named."""
        if config is None:
            raise ValueError("checkpoints can be listed only for one thread; name a thread_id")
        bound = get_checkpoint_id(before) if before else None
        found = (each for each in self._all(config) if bound is None or _id(each.config) < bound)
        yield from islice((each for each in found if (filter or {}).items() <= each.metadata.items()), limit)

    def _all(self, config: Any) -> Iterator[Any]:
        """Every checkpoint of a thread, newest first; their ids sort by time."""
        given = config["configurable"]
        with self._lock, self._folder(given["thread_id"]) as folder:
            names = sorted(name for name in folder.names() if name.startswith(_name(given, "")))
            for name in reversed([name for name in names if name.count(".") == 1]):
                checkpoint, metadata, parent = self._read(folder, name)
                lists = [self._read(folder, each).values() for each in names if each.startswith(f"{name}.")]
                writes = sorted((each for some in lists for each in some), key=lambda each: writes_sort_key(*each[:3]))
                pending = [(task, channel, value) for _, task, _, channel, value in writes]
                yield CheckpointTuple(
                    _config(given, checkpoint["id"]), checkpoint, metadata, parent and _config(given, parent), pending
                )

    def delete_thread(self, thread_id: str) -> None:
        """Deletes a thread's checkpoints and its conversation."""
        with self._lock, self._folder(thread_id) as folder:
            session = self.session(thread_id)
            session.database.delete(session.id)
            session.close()
            del self._sessions[thread_id]
            for name in folder.names():
                folder.remove(name)

    async def aget_tuple(self, config: Any) -> Any:
        return await asyncio.to_thread(self.get_tuple, config)

    async def alist(self, config: Any, **wanted: Any) -> AsyncIterator[Any]:
        for each in await asyncio.to_thread(lambda: [*self.list(config, **wanted)]):
            yield each

    async def aput(self, *given: Any) -> Any:
        return await asyncio.to_thread(self.put, *given)

    async def aput_writes(self, *given: Any, **more: Any) -> None:
        await asyncio.to_thread(self.put_writes, *given, **more)

    async def adelete_thread(self, thread_id: str) -> None:
        await asyncio.to_thread(self.delete_thread, thread_id)

    def _folder(self, thread_id: str) -> Any:
        return self._documents.below(_digest(str(thread_id))).create()

    def _bytes(self, value: Any) -> bytes:
        kind, data = self.serde.dumps_typed(value)
        return json.dumps([kind, base64.b64encode(data).decode()]).encode()

    def _read(self, folder: Any, name: str) -> Any:
        data = folder.read(name, at_most=_LONGEST)
        if data is None:
            return None
        kind, text = json.loads(data)
        return self.serde.loads_typed((kind, base64.b64decode(text)))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _name(given: Any, checkpoint_id: str) -> str:
    return f"{_digest(given.get('checkpoint_ns', ''))}.{checkpoint_id}"


def _id(config: Any) -> str:
    return str(config["configurable"]["checkpoint_id"])


def _config(given: Any, checkpoint_id: str) -> dict[str, Any]:
    place = {"thread_id": given["thread_id"], "checkpoint_ns": given.get("checkpoint_ns", "")}
    return {"configurable": {**place, "checkpoint_id": checkpoint_id}}
