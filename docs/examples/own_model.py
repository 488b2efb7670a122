"""A model of your own for the agent: anything that streams what it says and ends with the whole message."""

import tempfile

from hermes import Agent
from hermes.base.events import Finished, TextDelta, Usage


class Echo:
    """Stands for the client of your API; messages and tools come in OpenAI's format."""

    name = "echo-1"
    context_length = 32_000

    def stream(self, system, messages, tools=(), *, cancelled=lambda: False):
        said = f"You said: {messages[-1]['content']}"
        for word in said.split(" "):
            yield TextDelta(text=f"{word} ")
        # Calls stand in the message as `tool_calls`, with the reason "tool_calls"; the agent runs them and asks again.
        message = {"role": "assistant", "content": said}
        usage = Usage.of({"prompt_tokens": 120, "completion_tokens": 7})  # as your API returned it
        yield Finished(message=message, usage=usage, reason="stop", model=self.name)


folder = tempfile.TemporaryDirectory()  # a home that is gone at the end; give yours a folder of its own

with Agent.open(folder.name, source="my-agent", model=Echo()) as agent:
    for event in agent.turn("hello"):
        match event:
            case TextDelta(text=text):
                print(text, end="")
    print()
    assert agent.session.about().input_tokens

folder.cleanup()
