"""pydantic-ai with memory: needs the package `pydantic-ai`."""

import asyncio
import tempfile

from pydantic_ai import Agent, models
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from hermes.adapters.pydantic_ai import HermesMemory

SAVE = {"action": "add", "target": "user", "content": "Prefers short answers."}
models.ALLOW_MODEL_REQUESTS = False  # this example talks to nobody


def model(messages, info):
    """Stands for a real model: it saves a preference, then answers."""
    assert "memory" in [tool.name for tool in info.function_tools]
    if len(messages) == 1:
        return ModelResponse(parts=[ToolCallPart("memory", SAVE)])
    return ModelResponse(parts=[TextPart(f"Answer {len(messages) // 2}.")])


async def main(home: str) -> None:
    agent = Agent(FunctionModel(model))
    async with await HermesMemory.open(home) as memory:
        first = await memory.run(agent, "Please keep your answers short.")

    async with await HermesMemory.open(home, resume=memory.session.id) as later:
        second = await later.run(agent, "How do I like answers?")
        # The second request begins with everything of the first one.
        assert [type(each) for each in second.all_messages()][:4] == [type(each) for each in first.all_messages()]
        print(second.output)
    async with await HermesMemory.open(home) as new:
        assert "Prefers short answers." in new.session.system_prompt


with tempfile.TemporaryDirectory() as folder:
    asyncio.run(main(folder))
