"""A context engine of your own: it keeps the last messages and one line for the rest."""

import os
import tempfile

from hermes import MemorySession

PLUGIN = """
from hermes import ContextEngine


class LastWords(ContextEngine):
    name = "last_words"

    def update_from_response(self, usage):
        self.last_prompt_tokens = usage["prompt_tokens"]

    def should_compress(self, prompt_tokens=None):
        return (prompt_tokens or self.last_prompt_tokens) > self.threshold_tokens

    def compress(self, messages, current_tokens=None, focus_topic=None):
        # Each message carries its id as "_id": what comes back unchanged stays, the rest is archived.
        gone, kept = messages[:-4], messages[-4:]
        if not gone:  # the window is full of prompt and tools, not of messages
            return messages
        note = f"[CONTEXT COMPACTION] {len(gone)} messages; context_expand ids='{gone[0]['_id']}-{gone[-1]['_id']}'"
        return [{"role": "user", "content": note}, {"role": "assistant", "content": "Understood."}, *kept]

    def get_tool_schemas(self):
        return [{"name": "last_words_size", "description": "How full it is.", "parameters": {"type": "object"}}]

    def handle_tool_call(self, name, args, **kwargs):
        return '{"prompt_tokens": %d}' % self.last_prompt_tokens


def register(ctx):
    ctx.register_context_engine(LastWords())
"""

temporary = tempfile.TemporaryDirectory()  # a home that is gone at the end, never your own
home = temporary.name
folder = os.path.join(home, "plugins", "context_engine", "last_words")
os.makedirs(folder)
with open(os.path.join(folder, "__init__.py"), "w", encoding="utf-8") as file:
    file.write(PLUGIN)
with open(os.path.join(home, "config.yaml"), "w", encoding="utf-8") as file:
    file.write("context:\n  engine: last_words\n")

with MemorySession.open(home, source="my-agent") as session:
    for number in range(10):
        session.prepare_turn(f"Remember that box {number} is on shelf {number * 7}.")
        session.finish_turn(f"Box {number}: noted.")
    session.prepare_turn("Where is box 3?")
    done = session.compact()
    print(f"{done.messages} messages were put away by {done.how}; {len(session.request().messages)} are left")
    assert "shelf 21" in session.call_tool("context_expand", {"ids": "1-100000"})
    assert "last_words_size" in [tool["function"]["name"] for tool in session.request().tools]

temporary.cleanup()
