"""System prompt assembly (L0), context files and cache points."""

REQUIREMENTS: dict[str, tuple[str, str]] = {}
