"""An agent in your own program: a model that follows a script here, any model of the settings otherwise."""

import tempfile

from hermes import Agent
from hermes.base.events import TextDelta, ToolReturned, TurnFinished
from hermes.llm.scripted import Reply, Scripted


class Weather:
    """A tool of your own: a schema in OpenAI's format, and a call that gets arguments which fit it."""

    schema = {  # noqa: RUF012 - a constant of the class
        "name": "weather",
        "description": "What the weather is like in a place.",
        "parameters": {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]},
    }
    brings = "tool"  # its text comes from outside, so what is remembered after it waits for a person

    def call(self, arguments):
        return {"success": True, "place": arguments["place"], "weather": "rain"}


# Leave `model` out and the agent talks to the model of your settings.
model = Scripted(
    [
        Reply(calls=[("memory", {"action": "add", "target": "user", "content": "Lives in Hamburg."})]),
        "Noted.",
        Reply(calls=[("weather", {"place": "Hamburg"})]),
        "It rains, take an umbrella.",
    ]
)

# A home that is gone at the end; leave it out and the agent has yours, ~/.hermes.
folder = tempfile.TemporaryDirectory()

with Agent.open(folder.name, source="my-agent", model=model, tools=[Weather()]) as agent:
    for line in ("I live in Hamburg.", "Do I need an umbrella?"):
        print(f"> {line}")
        for event in agent.turn(line):
            match event:
                case ToolReturned(call=call):
                    print(f"  ({call.name})")
                case TextDelta(text=text):
                    print(text, end="")
                case TurnFinished(usage=usage):
                    print(f"  [{usage.input_tokens} tokens in, {usage.output_tokens} out]")

with Agent.open(folder.name, source="my-agent", model=Scripted(["You live in Hamburg."])) as tomorrow:
    assert "Lives in Hamburg." in tomorrow.session.system_prompt

folder.cleanup()
