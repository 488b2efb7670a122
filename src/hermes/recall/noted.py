"""What our own sessions note beside a message, as a file may hold it that anybody wrote: what has another shape goes.

Whoever reads a stored conversation relies on these shapes, and a range of places may be as long as a file says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_LARGEST = 1 << 40
_MOST_PLACES = 1_000_000


def rightly_noted(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields without those of ours that we would not have written so."""
    return {name: given for name, given in fields.items() if name not in _SHAPES or _SHAPES[name](given)}


def _is_count(given: Any) -> bool:
    return type(given) is int and 0 <= given < _LARGEST


def _has(given: Any, texts: tuple[str, ...], counts: tuple[str, ...]) -> bool:
    return (
        isinstance(given, dict)
        and all(isinstance(given.get(name), str) for name in texts)
        and all(_is_count(given.get(name)) for name in counts)
    )


def _is_addition(given: Any) -> bool:
    if not _has(given, ("source",), ("characters",)):
        return False
    return given["source"] != "summary" or _has(given, ("by", "why"), ("messages",))


def _are(given: Any, shape: Callable[[Any], bool]) -> bool:
    return isinstance(given, list) and bool(given) and all(map(shape, given))


def _is_range(given: Any) -> bool:
    return isinstance(given, list) and len(given) == 2 and all(map(_is_count, given))  # noqa: PLR2004 - first and last


def _is_order(given: Any) -> bool:
    return _are(given, _is_range) and sum(max(last - first, 0) + 1 for first, last in given) <= _MOST_PLACES


def _are_counts(given: Any) -> bool:
    return isinstance(given, dict) and all(map(_is_count, given.values()))


def _is_usage(given: Any) -> bool:
    """Other programs note more there than we do, which stays."""
    return isinstance(given, dict) and _is_count(given.get("input_tokens", 0))


def _is_cache(given: Any) -> bool:
    return isinstance(given, dict) and isinstance(given.get("share"), int | float | None)


_SHAPES: dict[str, Callable[[Any], bool]] = {
    "additions": lambda given: _are(given, _is_addition),
    "announced": _are_counts,
    "api_content": lambda given: isinstance(given, str),
    "cache": _is_cache,
    "context_order": _is_order,
    "copy_of": _is_count,
    "outside": lambda given: isinstance(given, str) and bool(given),  # nobody else can say that a text is ours
    "prompt_sections": lambda given: _are(given, lambda each: _has(each, ("name",), ("characters", "tokens"))),
    "replaced_prompt": lambda given: isinstance(given, str),
    "usage": _is_usage,
}
