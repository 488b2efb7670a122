"""A whole agent around a model of your own: streaming, tools of your own, usage, and a window that never overflows."""

import json
import tempfile

from hermes import MemorySession, StreamingContextScrubber
from hermes.base.errors import ContextTooLong

WINDOW = 8000  # tokens that the model takes


class Add:
    """A tool of your own: the session offers it, checks what the model sends, and runs it in `call_tool`."""

    brings = ""  # a sum is nobody's words, so nothing has to wait because of it

    schema = {  # noqa: RUF012 - a constant of the class
        "name": "add",
        "description": "Adds two numbers.",
        "parameters": {
            "type": "object",
            "properties": {"x": {"type": "number"}, "y": {"type": "number"}},
            "required": ["x", "y"],
        },
    }

    def call(self, arguments):
        return {"success": True, "sum": arguments["x"] + arguments["y"]}


class TooLong(Exception):
    """What the client of your API raises when a request does not fit."""


def stream(system, messages, tools):
    """Stands for a streaming chat API; this one answers by a script."""
    size = len(json.dumps([system, messages, tools])) // 4
    if size > WINDOW:
        raise TooLong(f"at most {WINDOW} tokens")
    if messages[-1]["role"] == "user" and "2 + 3" in messages[-1]["content"]:
        yield {
            "calls": [{"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"x": 2, "y": 3}'}}]
        }
    else:
        yield from ({"text": piece} for piece in ("That ", "was ", "it."))
    yield {"usage": {"prompt_tokens": size, "completion_tokens": 4}}


def answer_of(session, request):
    """One model call: what it said and called, shown while it comes."""
    scrubber = StreamingContextScrubber()  # recalled memory that a model repeats is not for the person's eyes
    said, calls, usage = "", [], {}
    for piece in stream(request.system, request.messages, request.tools):
        said += piece.get("text", "")
        print(scrubber.feed(piece.get("text", "")), end="", flush=True)
        calls += piece.get("calls", [])
        usage = piece.get("usage", usage)
    print(scrubber.flush())
    session.counted(usage)  # compaction goes by what the provider counted, as its API says it
    return said, calls, usage


def turn(session, text):
    request = session.prepare_turn(text)
    while True:
        request = session.fit(request)  # compacts first when the window is half full
        try:
            said, calls, usage = answer_of(session, request)
        except TooLong as error:
            request = session.fit(request, ContextTooLong(str(error), limit=WINDOW))
            continue
        if not calls:
            break
        session.record({"role": "assistant", "content": said or None, "tool_calls": calls})
        for call in calls:
            session.call_tool(call["function"]["name"], call["function"]["arguments"], call_id=call["id"])
        request = session.request()
    session.finish_turn(said, usage=usage)
    for notice in session.notices.take():
        print(f"[{notice.text}]")


folder = tempfile.TemporaryDirectory()  # a home that is gone at the end; give yours a folder of its own

with MemorySession.open(folder.name, source="my-agent", tools=[Add()], context_length=WINDOW) as session:
    turn(session, "What is 2 + 3?")
    for number in range(12):
        turn(session, f"Ticket ABC-{number}: " + "the import stops at line 4711. " * 60)
    assert session.compactions
    assert "ABC-1" in session.call_tool("session_search", {"query": "ticket ABC-1"})

folder.cleanup()
