"""Keys that are plainly examples: documentation and settings are full of them, and they harm nobody."""

from __future__ import annotations

from hermes.safety.secret_pattern import Pattern

_FEWEST_CHARACTERS = 3
_EXAMPLE = Pattern(
    r"\.\.\.|\u2026|\*{3}|\$\{|\{\{|\A[<%{\[(]|\A\$(?!\w{1,10}\$)|\A(?i:passw(?:or)?d|pass|pwd|secret|token|key|pw|none|null)\Z"
    r"|(?i:x{5}|example|your[_-]|change_?me|placeholder|redacted|dummy|1234567890abcdef)"
)


def is_example(text: str) -> bool:
    """Whether a text with the shape of a key is an example, a reference or a masked value."""
    return _EXAMPLE.search(text) is not None or len(set(text.lower())) <= min(_FEWEST_CHARACTERS, len(text) // 4)
