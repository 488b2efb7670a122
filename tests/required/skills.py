"""Skills: procedures the agent keeps as files."""

REQUIREMENTS: dict[str, tuple[str, str]] = {}
