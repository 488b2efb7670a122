"""Hermes around an agent loop of your own: the model here is three lines, yours calls an API."""

import json
import tempfile

from hermes import MemorySession


def model(system: str, messages: list, tools: list) -> dict:
    """Stands for a call to any chat API; it saves a preference once, then answers."""
    if messages[-1]["role"] == "tool":
        return {"role": "assistant", "content": "Noted, I will keep it short."}
    arguments = json.dumps({"action": "add", "target": "user", "content": "Prefers short answers."})
    call = {"id": "call_1", "type": "function", "function": {"name": "memory", "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


# A home that is gone at the end; give yours a folder of its own, or nothing for ~/.hermes.
folder = tempfile.TemporaryDirectory()

with MemorySession.open(folder.name, source="my-agent") as session:
    request = session.prepare_turn("Please keep your answers short.")
    answer = model(request.system, request.messages, request.tools)
    while answer.get("tool_calls"):
        session.record(answer)
        for call in answer["tool_calls"]:
            session.call_tool(call["function"]["name"], call["function"]["arguments"], call_id=call["id"])
        request = session.request()
        answer = model(request.system, request.messages, request.tools)
    session.finish_turn(answer["content"])

with MemorySession.open(folder.name, source="my-agent") as tomorrow:
    assert "Prefers short answers." in tomorrow.system_prompt
    print("remembered")

folder.cleanup()
