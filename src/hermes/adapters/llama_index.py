"""LlamaIndex: a memory that keeps the chat history in Hermes, with curated memory before it.

memory = HermesMemory.open()
agent = FunctionAgent(llm=llm, tools=memory.tools())
await agent.run("What did we decide?", memory=memory)
memory.close()
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Self

from llama_index.core.base.llms.types import ChatMessage, TextBlock, ToolCallBlock
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.memory.types import BaseMemory
from llama_index.core.tools import FunctionTool, ToolMetadata

from hermes.session.session import MemorySession

if TYPE_CHECKING:
    from collections.abc import Sequence

_KEPT = "llama_index"  # in a stored message: LlamaIndex's own form of it, when a model or a tool wrote it


class HermesMemory(BaseMemory):
    """LlamaIndex's `BaseMemory` around an open session; its async calls run in threads, one at a time."""

    _session: Any = PrivateAttr()

    @classmethod
    def class_name(cls) -> str:
        return "HermesMemory"

    @classmethod
    def open(cls, home: Any = None, *, source: str = "llama-index", **options: Any) -> Self:
        """Takes the arguments of `MemorySession.open`; `resume` continues an earlier conversation."""
        memory = cls()
        memory._session = MemorySession.open(home, source, **options)
        return memory

    @classmethod
    def from_defaults(cls, **options: Any) -> Self:
        return cls.open(**options)

    @property
    def session(self) -> MemorySession:
        """The open session, for calls that LlamaIndex does not know."""
        return self._session  # type: ignore[no-any-return]

    def close(self) -> None:
        """Ends the session."""
        self.session.close()

    def get(self, input: str | None = None, **_: Any) -> list[Any]:  # noqa: A002, ARG002 - their interface
        """The system prompt with curated memory, then the history."""
        return [ChatMessage(role="system", content=self.session.system_prompt), *self.get_all()]

    def get_all(self) -> list[Any]:
        """The history without the system prompt, each message in LlamaIndex's own form if it came from there."""
        stored = [message for _, message in self.session.context.stored()]
        sent = self.session.request().messages
        return [_shown(kept, message) for kept, message in zip(stored, sent, strict=True)]

    def put(self, message: Any) -> None:
        """Records a message; a system message is left out, because ours comes first already."""
        if message.role.value != "system":
            self.session.record(_message(message))

    def set(self, messages: Sequence[Any]) -> None:
        """Replaces the context by these messages; the earlier ones stay stored."""
        self.reset()
        self.put_messages(messages)

    def reset(self) -> None:
        """Empties the context; the messages stay stored."""
        self.session.database.set_rewound(self.session.id, self.session.context.ids)
        self.session.reload()

    def tools(self) -> list[Any]:
        """The session's tools for a LlamaIndex agent."""
        return [self._tool(each["function"]) for each in self.session.request().tools]

    def _tool(self, schema: dict[str, Any]) -> Any:
        def run(**arguments: Any) -> str:
            return self.session.run_tool(schema["name"], arguments)

        return FunctionTool(
            run, metadata=_Metadata(schema["description"], schema["name"], None, parameters=schema["parameters"])
        )


class _Metadata(ToolMetadata):
    """Metadata with a JSON schema, where LlamaIndex would make one from a pydantic model."""

    def __init__(self, *given: Any, parameters: dict[str, Any]) -> None:
        super().__init__(*given)
        self._parameters = parameters

    def get_parameters_dict(self) -> dict[str, Any]:
        return self._parameters


def _message(message: Any) -> dict[str, Any]:
    role = message.role.value
    calls = [
        {"id": block.tool_call_id, "type": "function", "function": {"name": block.tool_name, "arguments": _json(block)}}
        for block in message.blocks
        if isinstance(block, ToolCallBlock)
    ]
    calls = calls or [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.function.name, "arguments": call.function.arguments},
        }
        for call in message.additional_kwargs.get("tool_calls") or ()
    ]
    text = "".join(block.text for block in message.blocks if isinstance(block, TextBlock))
    made = {"role": role, "content": text}
    if role == "tool":
        made["tool_call_id"] = message.additional_kwargs.get("tool_call_id", "")
    if role == "user":
        return made
    return {**made, _KEPT: message.model_dump(mode="json"), **({"tool_calls": calls} if calls else {})}


def _json(block: Any) -> str:
    return block.tool_kwargs if isinstance(block.tool_kwargs, str) else json.dumps(block.tool_kwargs)


def _shown(stored: Any, sent: Any) -> Any:
    if _KEPT in stored:
        return ChatMessage.model_validate(stored[_KEPT])
    return ChatMessage(role=sent["role"], content=sent["content"])
