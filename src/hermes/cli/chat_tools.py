"""Tool calls as a person sees them: one line each with the outcome, and the whole on request."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hermes.vocabulary.events import ToolReturned

_LONGEST_VALUE = 40
_LONGEST_OUTCOME = 100


def summary(returned: ToolReturned) -> str:
    """`memory add user “Prefers short answers.”`: what was called, as short as it can be told."""
    given = _parsed(returned.call.arguments)
    if not isinstance(given, dict):
        return returned.call.name
    return " ".join([returned.call.name, *(_short(each) for each in given.values() if each not in (None, "", [], {}))])


def outcome(returned: ToolReturned) -> tuple[bool, str]:
    """Whether it worked, and how it ended: in a few words, or the whole reason why it failed."""
    result = _parsed(returned.result)
    if not isinstance(result, dict):
        return True, _cut(returned.result, _LONGEST_OUTCOME)
    worked = result.get("success", True) is not False and not result.get("error")
    if "exit_code" in result and not result.get("error"):
        printed = str(result.get("output") or "").strip().splitlines()
        return worked, _cut(f"exit code {result['exit_code']}{f', {printed[-1]}' if printed else ''}", _LONGEST_OUTCOME)
    for name in ("error", "message", "summary", "note"):
        if isinstance(result.get(name), str) and result[name]:
            return worked, _cut(result[name], _LONGEST_OUTCOME) if worked else result[name].strip()
    for name, found in result.items():
        if isinstance(found, list):
            return worked, f"{len(found):,} {name}"
    return worked, "done" if worked else "failed"


def whole(returned: ToolReturned) -> str:
    """Everything: the arguments and the result, readable where they are JSON."""
    return f"{returned.call.name} {_pretty(returned.call.arguments)}\n→ {_pretty(returned.result)}"


def _short(given: Any) -> str:
    if isinstance(given, bool | int | float):
        return str(given)
    text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    return text if text.isidentifier() else f"“{_cut(text, _LONGEST_VALUE)}”"


def _cut(text: str, longest: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


def _pretty(text: str) -> str:
    parsed = _parsed(text)
    return text if parsed is None else json.dumps(parsed, ensure_ascii=False, indent=2)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
