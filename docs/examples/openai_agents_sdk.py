"""The OpenAI Agents SDK with Hermes as its session: needs the package `openai-agents`."""

import asyncio
import json
import tempfile

from agents import Agent, RunConfig, Runner
from agents.testing import ScriptedModel, assistant_message, function_call

from hermes.adapters.openai_agents import HermesSession

SAVE = {"action": "add", "target": "user", "content": "Prefers short answers."}

# Stands for a real model: it saves a preference, then answers. Leave `model` out to use OpenAI's.
model = ScriptedModel(
    [
        [function_call("memory", json.dumps(SAVE), call_id="c1")],
        [assistant_message("Noted.")],
        [assistant_message("You like them short.")],
    ]
)


async def main(home: str) -> None:
    quiet = RunConfig(tracing_disabled=True)
    async with await HermesSession.open(home) as session:
        agent = Agent(name="helper", instructions=session.instructions, tools=session.tools, model=model)
        await Runner.run(agent, "Please keep your answers short.", session=session, run_config=quiet)

    # Later, perhaps in another process: the conversation goes on, and memory is in the instructions.
    async with await HermesSession.open(home, resume=session.session_id) as later:
        assert [item.get("type", item.get("role")) for item in await later.get_items()] == [
            *("user", "function_call", "function_call_output", "message")
        ]
        answer = await Runner.run(agent, "How do I like answers?", session=later, run_config=quiet)
        last = await later.pop_item()
        assert last["content"][0]["text"] == "You like them short."
        print(answer.final_output)
    async with await HermesSession.open(home) as new:
        assert "Prefers short answers." in new.instructions


with tempfile.TemporaryDirectory() as folder:
    asyncio.run(main(folder))
