"""How many of our files somebody must read to follow a conversation: those in which a function runs.

One conversation opens a session, takes a turn, writes to memory, searches past conversations and closes. Importing a
module is not counted; calling into it is.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from typing import TYPE_CHECKING, TypeVar

import hermes
from hermes.session.session import MemorySession

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

Result = TypeVar("Result")
PACKAGE = os.path.dirname(hermes.__file__)
CONVERSATION_LIMIT, PREPARE_TURN_LIMIT = 45, 15


class Reading:
    """The files of the package in which a function was called, by step."""

    def __init__(self) -> None:
        self.files: dict[str, set[str]] = {}

    def step(self, name: str, act: Callable[[], Result]) -> Result:
        files = self.files.setdefault(name, set())

        def called(frame: FrameType, event: str, _argument: object) -> None:
            code = frame.f_code
            is_ours = event == "call" and code.co_filename.startswith(PACKAGE)
            # A class body and a module body run when they are imported; nobody reads them to follow a call.
            if is_ours and code.co_name != "<module>" and code.co_flags & 0x0001:
                files.add(os.path.relpath(code.co_filename, PACKAGE))

        sys.setprofile(called)
        try:
            return act()
        finally:
            sys.setprofile(None)


def run() -> dict[str, object]:
    reading = Reading()
    with tempfile.TemporaryDirectory() as home:
        with MemorySession.open(home) as earlier:  # so that there is something to find
            earlier.prepare_turn("Which database did we choose?")
            earlier.finish_turn("We chose SQLite.")
        session = reading.step("open", lambda: MemorySession.open(home))
        reading.step("prepare_turn", lambda: session.prepare_turn("What did we decide about the database?"))
        note = {"action": "add", "target": "memory", "content": "The project uses SQLite."}
        reading.step("memory write", lambda: session.call_tool("memory", note))
        reading.step("search", lambda: session.call_tool("session_search", {"query": "database"}))
        reading.step("finish_turn", lambda: session.finish_turn("We chose SQLite."))
        reading.step("close", session.close)
    everything = set().union(*reading.files.values())
    return {
        "conversation": {"files": len(everything), "limit": CONVERSATION_LIMIT},
        "prepare_turn": {"files": len(reading.files["prepare_turn"]), "limit": PREPARE_TURN_LIMIT},
        "steps": {name: len(files) for name, files in reading.files.items()},
        "read": {name: sorted(files) for name, files in reading.files.items()},
    }


if __name__ == "__main__":
    print(json.dumps(run(), indent=2))
