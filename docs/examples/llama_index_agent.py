"""LlamaIndex with memory: needs the package `llama-index-core`."""

import asyncio
import tempfile

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, TextBlock, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM

from hermes.adapters.llama_index import HermesMemory

SAVE = {"action": "add", "target": "user", "content": "Prefers short answers."}


def model(messages, **_):
    """Stands for a real model: it saves a preference, then answers."""
    if messages[-1].content.startswith("Please"):
        blocks = [ToolCallBlock(tool_call_id="c1", tool_name="memory", tool_kwargs=SAVE)]
    else:
        blocks = [TextBlock(text=f"Answer to {len(messages) - 1} messages.")]
    return ChatMessage(role="assistant", blocks=blocks)


async def main(home: str) -> None:
    llm = MockFunctionCallingLLM(response_generator=model)
    memory = HermesMemory.open(home)
    await FunctionAgent(llm=llm, tools=memory.tools()).run("Please keep your answers short.", memory=memory)
    memory.close()

    later = HermesMemory.open(home, resume=memory.session.id)
    answer = await FunctionAgent(llm=llm, tools=later.tools()).run("How do I like answers?", memory=later)
    assert [each.role.value for each in later.get_all()] == [
        *("user", "assistant", "tool", "assistant", "user", "assistant")
    ]
    later.close()
    new = HermesMemory.open(home)
    assert "Prefers short answers." in new.get()[0].content
    new.close()
    print(answer)


with tempfile.TemporaryDirectory() as folder:
    asyncio.run(main(folder))
