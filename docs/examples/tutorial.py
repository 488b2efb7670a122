"""The agent of the tutorial: it chats, remembers facts and searches past conversations."""

import json
import sys
import tempfile

from hermes import MemorySession


# step 1: a model
def openai_model():
    """A real model; needs `pip install openai` and OPENAI_API_KEY."""
    from openai import OpenAI

    client = OpenAI()

    def ask(request):
        completion = client.chat.completions.create(
            model="gpt-4.1-mini",
            messages=[{"role": "system", "content": request.system}, *request.messages],
            tools=request.tools,
        )
        return completion.choices[0].message.model_dump(exclude_none=True), completion.usage

    return ask


def scripted_model(*answers):
    """A model that follows a script, so that the tutorial runs without a key."""
    script = iter(answers)

    def ask(request):
        answer = next(script)
        if isinstance(answer, str):
            return {"role": "assistant", "content": answer}, None
        name, arguments = answer
        call = {"id": "call_1", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        return {"role": "assistant", "content": None, "tool_calls": [call]}, None

    return ask


# step 2: one turn
def turn(session, ask, text):
    """Send one message, run the tools the model asks for, and return its answer."""
    request = session.prepare_turn(text)
    answer, usage = ask(request)
    while answer.get("tool_calls"):
        session.record(answer)
        for call in answer["tool_calls"]:
            session.call_tool(call["function"]["name"], call["function"]["arguments"], call_id=call["id"])
        request = session.fit(session.request())  # compacts when the context window is nearly full
        answer, usage = ask(request)
    session.finish_turn(answer["content"], usage=usage)
    return answer["content"]


# step 3: it remembers
folder = tempfile.TemporaryDirectory()
home = sys.argv[1] if len(sys.argv) > 1 else folder.name  # name a folder, and it stays

monday = scripted_model(
    ("memory", {"action": "add", "target": "user", "content": "Ana is allergic to peanuts."}),
    "Noted: no peanuts.",
    "Then I suggest the lentil soup at Bistro Verde.",
)
with MemorySession.open(home, source="tutorial", title="Dinner with Ana") as session:
    print(turn(session, monday, "Ana is coming for dinner on Friday. She is allergic to peanuts."))
    print(turn(session, monday, "Where could we go?"))

# step 4: the next day, in another process
tuesday = scripted_model(
    ("session_search", {"query": "Which restaurant did we choose for Ana?"}),
    "Bistro Verde, because of the lentil soup.",
)
with MemorySession.open(home, source="tutorial") as session:
    assert "allergic to peanuts" in session.system_prompt  # the fact is in the prompt before anybody asks
    print(turn(session, tuesday, "Which restaurant was it again?"))
    found = session.call_tool("session_search", {"query": "restaurant for Ana"})
    assert "Bistro Verde" in str(found)  # and the whole conversation is one search away

folder.cleanup()
