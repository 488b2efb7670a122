"""What a check-up found: a state, what was seen, and what to do about it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

OK, WARNING, PROBLEM = "ok", "warning", "problem"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    name: str
    state: str
    found: str
    remedy: str = ""
    fixed: bool = False

    def as_json(self) -> dict[str, Any]:
        return asdict(self)
