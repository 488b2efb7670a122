"""Hermes around Anthropic's SDK: needs the package `anthropic`."""

import json
import tempfile

import anthropic
import httpx2

from hermes import MemorySession


def scripted(request):
    """Stands for Claude: it saves a preference once, then answers. Leave `http_client` out to ask the real one."""
    asked = json.loads(request.content)["messages"][-1]["content"]
    saved = {"action": "add", "target": "user", "content": "Prefers short answers."}
    call = {"type": "tool_use", "id": "call_1", "name": "memory", "input": saved}
    block = call if isinstance(asked, str) else {"type": "text", "text": "Noted."}
    usage = {"input_tokens": 900, "output_tokens": 5}
    answer = {"id": "1", "type": "message", "role": "assistant", "model": "claude", "stop_reason": "end_turn"}
    return httpx2.Response(200, json={**answer, "content": [block], "stop_sequence": None, "usage": usage})


transport = httpx2.Client(transport=httpx2.MockTransport(scripted))
client = anthropic.Anthropic(api_key="your-key", http_client=transport)


def ask(request):
    functions = [tool["function"] for tool in request.tools]
    return client.messages.create(
        model="claude-opus-5",
        max_tokens=1000,
        cache_control={"type": "ephemeral"},  # the prefix stays as it is, so the next request finds it in the cache
        system=request.system,
        messages=claude_messages(request.messages),
        tools=[
            {"name": each["name"], "description": each["description"], "input_schema": each["parameters"]}
            for each in functions
        ],
    )


def claude_messages(messages):
    """Requests are in OpenAI's form; Claude wants calls and results as blocks, and all results in one message."""
    told = []
    for message in messages:
        if message["role"] == "tool":
            block = {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": message["content"]}
            if told[-1]["role"] == "user":
                told[-1]["content"].append(block)
            else:
                told.append({"role": "user", "content": [block]})
        elif message.get("tool_calls"):
            text = [{"type": "text", "text": message["content"]}] if message["content"] else []
            told.append({"role": "assistant", "content": text + [used(call) for call in message["tool_calls"]]})
        else:
            told.append({"role": message["role"], "content": message["content"]})
    return told


def used(call):
    function = call["function"]
    return {"type": "tool_use", "id": call["id"], "name": function["name"], "input": json.loads(function["arguments"])}


with tempfile.TemporaryDirectory() as home:
    with MemorySession.open(home, source="my-agent", model="claude-opus-5") as session:
        answer = ask(session.prepare_turn("Please keep your answers short."))
        while calls := [block for block in answer.content if block.type == "tool_use"]:
            for call in calls:
                session.call_tool(call.name, call.input, call_id=call.id)
            answer = ask(session.request())
        session.finish_turn("".join(block.text for block in answer.content if block.type == "text"), usage=answer.usage)

    with MemorySession.open(home, source="my-agent") as tomorrow:
        assert "Prefers short answers." in tomorrow.system_prompt
        print("remembered")
transport.close()
