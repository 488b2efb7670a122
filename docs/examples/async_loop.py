"""Hermes in a program on asyncio: the model here is three lines, yours awaits an API."""

import asyncio
import tempfile

from hermes import AsyncMemorySession


async def model(system: str, messages: list, tools: list) -> str:
    """Stands for a call to any chat API."""
    await asyncio.sleep(0)
    return f"You said: {messages[-1]['content']}"


async def main(home: str) -> None:
    async with await AsyncMemorySession.open(home, source="my-agent") as session:
        request = await session.prepare_turn("Good morning!")
        answer = await model(request.system, request.messages, request.tools)
        await session.finish_turn(answer)
        print(answer)


with tempfile.TemporaryDirectory() as folder:
    asyncio.run(main(folder))
