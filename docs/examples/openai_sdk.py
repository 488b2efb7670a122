"""Hermes around OpenAI's SDK: needs the package `openai`."""

import json
import tempfile

import httpx2
import openai

from hermes import MemorySession


def scripted(request):
    """Stands for OpenAI: it saves a preference once, then answers. Leave `http_client` out to ask the real one."""
    asked = json.loads(request.content)["messages"][-1]
    arguments = json.dumps({"action": "add", "target": "user", "content": "Prefers short answers."})
    call = {"id": "call_1", "type": "function", "function": {"name": "memory", "arguments": arguments}}
    message = {"content": "Noted."} if asked["role"] == "tool" else {"content": None, "tool_calls": [call]}
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", **message}}
    usage = {"prompt_tokens": 900, "completion_tokens": 5, "total_tokens": 905}
    answer = {"id": "1", "object": "chat.completion", "created": 0, "model": "gpt-5", "choices": [choice]}
    return httpx2.Response(200, json={**answer, "usage": usage})


transport = httpx2.Client(transport=httpx2.MockTransport(scripted))
client = openai.OpenAI(api_key="your-key", http_client=transport)


def ask(request):
    return client.chat.completions.create(
        model="gpt-5",
        messages=[{"role": "system", "content": request.system}, *request.messages],
        tools=request.tools,
    )


with tempfile.TemporaryDirectory() as home:
    with MemorySession.open(home, source="my-agent", model="gpt-5") as session:
        answer = ask(session.prepare_turn("Please keep your answers short."))
        while calls := answer.choices[0].message.tool_calls:
            session.record(answer.choices[0].message.model_dump(exclude_none=True))
            for call in calls:
                session.call_tool(call.function.name, call.function.arguments, call_id=call.id)
            answer = ask(session.request())
        session.finish_turn(answer.choices[0].message.content, usage=answer.usage)

    with MemorySession.open(home, source="my-agent") as tomorrow:
        assert "Prefers short answers." in tomorrow.system_prompt
        print("remembered")
transport.close()
