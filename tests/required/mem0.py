"""mem0, beyond what every service does."""

REQUIREMENTS: dict[str, tuple[str, str]] = {
    "mem0.tools": ("search, profile, conclude, add, update and delete, with the documents' results", "003"),
    "mem0.modes": ("platform, self-hosted and in-process behind one setting", "product"),
}
