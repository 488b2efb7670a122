"""Takes the screenshots of the documentation: `bin/screens`. The program runs in a real pseudo-terminal.

Only the model is scripted, and the screen says so: its name stands in the status line.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from terminal_program import Terminal, script

from screens.svg import as_svg

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "docs", "screens")
_STEPS = (
    {
        "when": "Please keep",
        "calls": [
            {
                "name": "memory",
                "arguments": {"action": "add", "target": "user", "content": "Prefers short answers, metric units."},
            }
        ],
    },
    {"when": "Entry added", "text": "Noted. From now on: short, and metric."},
    {
        "when": "you remember",
        "calls": [{"name": "session_search", "arguments": {"query": "what did we decide about auth?", "limit": 1}}],
    },
    {
        "when": "sessions_searched",
        "text": "**Server sessions** (3 November), because of this:\n\n| | can be revoked | where |\n|---|---|---|\n"
        "| server sessions | at once | `sessions` table |\n| JWT | when it expires | nowhere |",
    },
)
_TITLE = "Keep your answers short, and use metric units."  # how the chat names the conversation
_PAST = (
    '{"role": "user", "content": "JWT or server sessions for auth?", "timestamp": 1793700000}\n'
    '{"role": "assistant", "content": "We decided on server sessions, because they can be revoked at once.", '
    '"timestamp": 1793700060}\n'
)


def chat(home: Path) -> str:
    with Terminal(home, lines=30) as terminal:
        terminal.say("Please keep your answers short, and use metric units.")
        terminal.wait_for("short, and metric.")
        terminal.say("Do you remember what we chose for auth?")
        terminal.wait_for("nowhere")
        terminal.wait_for("cached · memory")
        terminal.wait_for_prompt()
        return as_svg(terminal.rows, "hermes")


def _command(*words: str, lines: int = 40, columns: int = 100) -> Callable[[Path], str]:
    def take(home: Path) -> str:
        with Terminal(home, *words, lines=lines, columns=columns) as terminal:
            terminal.wait_for_end()
            shown = " ".join(f'"{word}"' if " " in word else word for word in words)
            return as_svg(terminal.rows, f"hermes {shown}")

    return take


SCREENS: dict[str, Callable[[Path], str]] = {
    "search": _command("sessions", "search", "what did we decide about auth?"),
    "chat": chat,
    "context": _command("sessions", "show", _TITLE, "--context", lines=24),
    "memory-log": _command("memory", "log"),
    "status": _command("status"),
    "demo": _command("demo", "--scripted", lines=46),
}


def prepared(home: Path) -> None:
    """A home with a model that follows a script and one past conversation."""
    script(home, *_STEPS)
    past = home.parent / "auth.jsonl"
    past.write_text(_PAST, encoding="utf-8")
    with Terminal(home, "sessions", "import", str(past)) as terminal:
        terminal.wait_for_end()


def take(names: list[str], folder: str) -> None:
    os.makedirs(folder, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="hermes-") as place:
        home = Path(place) / ".hermes"
        prepared(home)
        for name, screen in SCREENS.items():
            drawn = screen(home).replace(place, "~")
            if name in names:
                with open(os.path.join(folder, f"{name}.svg"), "w", encoding="utf-8") as file:
                    file.write(drawn)
                print(f"docs/screens/{name}.svg")


def main() -> int:
    unknown = [name for name in sys.argv[1:] if name not in SCREENS]
    if unknown:
        print(f"there is no screen {unknown[0]!r}; there are {', '.join(SCREENS)}", file=sys.stderr)
        return 2
    take(sys.argv[1:] or list(SCREENS), FOLDER)
    return 0


if __name__ == "__main__":
    sys.exit(main())
