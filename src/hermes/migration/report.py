"""What a migration did or would do, item by item: one JSON document for programs, one page of Markdown for people."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

MIGRATED, ARCHIVED, SKIPPED, CONFLICT, ERROR = "migrated", "archived", "skipped", "conflict", "error"
_MODES = {"dry_run": "a preview, nothing is changed yet", "execute": "carried out"}
STATUSES = (MIGRATED, ARCHIVED, SKIPPED, CONFLICT, ERROR)


@dataclass(slots=True, kw_only=True)
class Item:
    """One thing of the source. `act` carries it out; an item without it changes nothing."""

    kind: str
    source: str
    destination: str = ""
    status: str = SKIPPED
    reason: str = ""
    details: dict[str, Any] = field(default_factory=dict)
    sensitive: bool = False
    last: bool = False  # what others may be writing too comes last, so that it is rarely put back
    act: Callable[[Any], None] | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "source": self.source,
            "destination": self.destination,
            "status": self.status,
            "reason": self.reason,
            "details": self.details,
            "sensitive": self.sensitive,
        }


@dataclass(slots=True, kw_only=True)
class Report:
    timestamp: str
    mode: str
    source_root: str
    target_root: str
    output_dir: str
    options: dict[str, Any] = field(default_factory=dict)
    items: list[Item] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    next_steps: list[str] = field(default_factory=list)

    def summary(self) -> dict[str, int]:
        counts = Counter(item.status for item in self.items)
        return {status: counts[status] for status in STATUSES}

    def conflicts(self) -> list[Item]:
        return [item for item in self.items if item.status == CONFLICT]

    def has_work(self) -> bool:
        return any(item.act is not None for item in self.items)

    def as_json(self) -> dict[str, Any]:
        return {
            "timestamp": self.timestamp,
            "mode": self.mode,
            "source_root": self.source_root,
            "target_root": self.target_root,
            "output_dir": self.output_dir,
            **self.options,
            "summary": self.summary(),
            "items": [item.as_json() for item in self.items],
            "warnings": self.warnings,
            "next_steps": self.next_steps,
        }

    def json_bytes(self) -> bytes:
        return (json.dumps(self.as_json(), ensure_ascii=True, indent=2) + "\n").encode()

    def markdown(self) -> str:
        counts = ", ".join(f"{count} {status}" for status, count in self.summary().items() if count) or "nothing to do"
        lines = [
            f"# Migration from {_shown(self.source_root)}",
            "",
            f"{self.timestamp}, {_MODES[self.mode]}: {counts}.",
            "",
        ]
        for status in STATUSES:
            chosen = [item for item in self.items if item.status == status]
            if chosen:
                lines += [f"## {status.capitalize()}", "", *(line for item in chosen for line in _lines(item)), ""]
        for title, texts in (("Warnings", self.warnings), ("Next steps", self.next_steps)):
            if texts:
                lines += [f"## {title}", "", *(f"- {_shown(text)}" for text in texts), ""]
        return "\n".join(lines)


def _lines(item: Item) -> list[str]:
    to = f" → `{_shown(item.destination)}`" if item.destination else ""
    why = f" ({_shown(item.reason)})" if item.reason else ""
    counts = ", ".join(
        f"{value} {name.removesuffix('_entries')}"
        for name, value in item.details.items()
        if name.endswith("_entries") and value
    )
    refused = [f"  - refused: {_shown(each)}" for each in item.details.get("refused_reasons", ())]
    return [f"- {item.kind}: `{_shown(item.source)}`{to}{why}{f': {counts}' if counts else ''}", *refused]


def _shown(text: str) -> str:
    """One line that cannot act on a terminal, whatever a file was called."""
    return "".join(letter if letter.isprintable() else "�" for letter in text.replace("\n", " "))
