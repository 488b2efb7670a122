"""Sessions that are long enough to be compacted, for the tests of compaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from hermes.session.session import MemorySession

WINDOW = 16_000


def configure(home: Path, text: str = "", *, in_place: bool = True, window: int = WINDOW) -> None:
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.yaml").write_text(
        f"model:\n  context_length: {window}\n"
        f"compression:\n  in_place: {str(in_place).lower()}\n  protect_last_n: 4\n{text}",
        encoding="utf-8",
    )


def talk(session: MemorySession, turns: int, start: int = 0, words: int = 60) -> None:
    """Turns that each name a ticket and a file, with a tool call in every third."""
    for number in range(start, start + turns):
        session.prepare_turn(
            f"Please repair src/module_{number}.py for ticket ABC-{number:04}. {'more words ' * words}"
        )
        if number % 3 == 0:
            session.call_tool("skills_list", {})
        session.finish_turn(f"Repaired module_{number}. {'it works now ' * words}")


def texts(messages: list[dict[str, Any]]) -> str:
    return "\n".join(str(message.get("content")) for message in messages)
