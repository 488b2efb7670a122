"""Every text inside a JSON value, changed alike."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def change_texts(value: Any, change: Callable[[str], str]) -> Any:
    """The same value with each text changed; names of fields stay as they are."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: change_texts(inner, change) for key, inner in value.items()}
    return [change_texts(inner, change) for inner in value] if isinstance(value, list) else value
