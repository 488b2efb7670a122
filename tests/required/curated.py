"""Curated memory (L1): MEMORY.md, USER.md and the memory tool."""

REQUIREMENTS: dict[str, tuple[str, str]] = {}
