"""pydantic-ai: message history, memory as instructions, and tools, for any of its agents.

async with await HermesMemory.open() as memory:
    result = await memory.run(agent, "What did we decide?")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from pydantic_ai import Tool
from pydantic_ai.messages import (
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    RetryPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.toolsets import FunctionToolset

from hermes.adapters.async_session import AsyncMemorySession

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_KEPT = "pydantic_ai"  # in a stored message: pydantic-ai's own form of it


class HermesMemory:
    """Runs a pydantic-ai agent inside a session: history in, messages and memory out."""

    def __init__(self, session: AsyncMemorySession) -> None:
        self.session = session
        self.toolset: Any = FunctionToolset(
            [self._tool(each["function"]) for each in session.session.request().tools], id="hermes"
        )

    @classmethod
    async def open(cls, home: Any = None, *, source: str = "pydantic-ai", **options: Any) -> Self:
        """Takes the arguments of `MemorySession.open`; `resume` continues an earlier conversation."""
        return cls(await AsyncMemorySession.open(home, source, **options))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.session.close()

    async def run(self, agent: Any, prompt: str, **options: Any) -> Any:
        """One turn of the agent; `options` are those of `agent.run`. A turn that fails is marked as broken off."""
        history = await self.history()
        request = await self.session.prepare_turn(prompt)
        result = await agent.run(
            request.messages[-1]["content"],
            message_history=history,
            instructions=request.system,
            toolsets=[self.toolset, *options.pop("toolsets", ())],
            **options,
        )
        *before, last = _messages(result.new_messages()[1:])
        for message in before:
            await self.session.record(message)
        counted = {"prompt_tokens": result.usage.input_tokens, "completion_tokens": result.usage.output_tokens}
        if last["role"] == "assistant" and not last.get("tool_calls"):
            await self.session.finish_turn(last["content"], usage=counted)
        else:  # the output came from a tool
            await self.session.record(last)
            await self.session.finish_turn(str(result.output), usage=counted)
        return result

    async def history(self) -> list[Any]:
        """The conversation so far as `message_history` takes it."""

        def read() -> list[Any]:
            session = self.session.session
            stored = [message for _, message in session.context.stored()]
            return [_model_message(*pair) for pair in zip(stored, session.request().messages, strict=True)]

        return await self.session.run(read)

    def _tool(self, schema: Mapping[str, Any]) -> Any:
        async def run(**arguments: Any) -> str:
            return await self.session.run_tool(schema["name"], arguments)

        return Tool.from_schema(run, schema["name"], schema["description"], dict(schema["parameters"]))


def _messages(new: list[Any]) -> Iterator[dict[str, Any]]:
    """Converts pydantic-ai's messages for storage; each tool result becomes a message of its own."""
    for message in new:
        kept = ModelMessagesTypeAdapter.dump_python([message], mode="json")[0]
        if isinstance(message, ModelResponse):
            text = "".join(part.content for part in message.parts if isinstance(part, TextPart))
            calls = [
                {
                    "id": part.tool_call_id,
                    "type": "function",
                    "function": {"name": part.tool_name, "arguments": part.args_as_json_str()},
                }
                for part in message.parts
                if isinstance(part, ToolCallPart)
            ]
            yield {"role": "assistant", "content": text, _KEPT: kept} | ({"tool_calls": calls} if calls else {})
            continue
        for part, alone in zip(message.parts, kept["parts"], strict=True):
            if isinstance(part, ToolReturnPart | RetryPromptPart) and part.tool_name:
                content = part.model_response_str() if isinstance(part, ToolReturnPart) else part.model_response()
                told = {"role": "tool", "tool_call_id": part.tool_call_id, "content": content}
            else:
                told = {"role": "user", "content": str(getattr(part, "content", ""))}
            yield {**told, _KEPT: {**kept, "parts": [alone]}}


def _model_message(stored: Mapping[str, Any], sent: Mapping[str, Any]) -> Any:
    if _KEPT in stored:
        return ModelMessagesTypeAdapter.validate_python([stored[_KEPT]])[0]
    if sent["role"] == "assistant":
        return ModelResponse(parts=[TextPart(sent["content"])])
    return ModelRequest(parts=[UserPromptPart(sent["content"])])
