"""A memory provider of your own: keeps what was said in a file, and recalls lines that share a word with a question."""

import json
import os
import tempfile

from hermes import MemoryProvider, MemorySession


class Diary(MemoryProvider):
    name = "diary"

    def is_available(self):
        return True

    def initialize(self, session_id, **kwargs):
        self.path = os.path.join(kwargs["hermes_home"], "diary.jsonl")

    def get_tool_schemas(self):
        return [
            {
                "name": "diary_find",
                "description": "Find what the user said before.",
                "parameters": {"type": "object", "properties": {"words": {"type": "string"}}, "required": ["words"]},
            }
        ]

    def handle_tool_call(self, tool_name, args, **kwargs):
        return json.dumps({"found": self._find(str(args.get("words", "")))})

    def prefetch(self, query, *, session_id=""):
        return "\n".join(f"- {line}" for line in self._find(query))

    def sync_turn(self, user_content, assistant_content, *, session_id="", messages=None, idempotency_key=""):
        if idempotency_key in {entry["key"] for entry in self._entries()}:
            return  # delivered before; the answer was lost
        with open(self.path, "a", encoding="utf-8", errors="replace") as file:
            file.write(json.dumps({"text": user_content, "key": idempotency_key}) + "\n")

    def _find(self, words):
        asked = set(words.lower().replace("?", " ").split())
        return [entry["text"] for entry in self._entries() if asked & set(entry["text"].lower().split())]

    def _entries(self):
        if not os.path.exists(self.path):
            return []
        with open(self.path, encoding="utf-8") as file:
            return [json.loads(line) for line in file]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as home:
        with MemorySession.open(home, providers=[Diary()]) as session:
            session.prepare_turn("my boat is called Calypso")
            session.finish_turn("A fine name.")
        with MemorySession.open(home, providers=[Diary()]) as session:
            print(session.prepare_turn("what is my boat called?").messages[-1]["content"])
