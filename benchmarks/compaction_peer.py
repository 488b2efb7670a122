"""hermes-agent's compressor on the same messages, in an environment of its own: CPU, prompt size, archiving."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from typing import Any

# Its model call is replaced by an instant answer, so that only its own work is counted.
_PEER = """
import json, os, sys, time
import agent.context_compressor as module
sizes = []
class Answer:
    def __init__(self, text):
        self.message = self; self.content = text; self.choices = [self]; self.finish_reason = "stop"; self.usage = None
def instant(**given):
    sizes.append(sum(len(str(each.get("content"))) for each in given.get("messages", [])))
    return Answer("## Goal\\nLook at many modules.\\n\\n## Completed Actions\\n1. Many modules were looked at.")
module.call_llm = instant
from agent.model_metadata import estimate_messages_tokens_rough
rows = []
def best(times, tail=None):
    shortest = 1e9
    for _ in range(times):
        engine = module.ContextCompressor("peer", quiet_mode=True, config_context_length=200000)
        if tail:
            engine.tail_token_budget = tail
        start = time.process_time()
        done = engine.compress([dict(each) for each in messages], current_tokens=190000)
        shortest = min(shortest, time.process_time() - start)
    return shortest * 1e3, len(done)
for path, tail in zip(sys.argv[1::2], sys.argv[2::2]):
    messages = json.load(open(path))
    times = 7 if len(messages) < 10000 else 1
    own, after = best(times)
    same, after_same = best(times, int(tail))
    start = time.process_time()
    estimate_messages_tokens_rough(messages)  # before each model call, over the whole history
    rows.append({"messages": len(messages), "compaction_ms": own, "messages_after": after, "our_tail_ms": same,
                 "our_tail_messages_after": after_same,
                 "counting_per_model_call_ms": (time.process_time() - start) * 1e3})
from hermes_state import SessionDB
db = SessionDB()
db.create_session("s", "cli")
for number in range(2000):
    db.append_message("s", "user" if number % 2 == 0 else "assistant", f"message {number} about " + "some module " * 20)
start = time.perf_counter()
db.archive_and_compact("s", [{"role": "user", "content": "summary"}])
print(json.dumps({"cost": rows, "largest_prompt_characters": max(sizes, default=0),
                  "archive_2000_ms": (time.perf_counter() - start) * 1e3}))
"""


def measure(python: str, histories: list[list[dict[str, Any]]], tails: list[int]) -> dict[str, Any]:
    """What it costs there, or why it could not be measured: with its own tail, and with one of so many tokens."""
    with tempfile.TemporaryDirectory() as place:
        given: list[str] = []
        for number, (messages, tail) in enumerate(zip(histories, tails, strict=True)):
            given += (os.path.join(place, f"{number}.json"), str(tail))
            with open(given[-2], "w", encoding="utf-8") as file:
                json.dump(messages, file)
        environment = {**os.environ, "HERMES_HOME": os.path.join(place, "home")}
        os.mkdir(environment["HERMES_HOME"])
        command = [python, "-c", _PEER, *given]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode != 0:
        return {"not_measured": done.stderr.strip()[-300:]}
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures
