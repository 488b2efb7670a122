"""Which texts are trusted, what the gate lets through, and who is asked."""

REQUIREMENTS: dict[str, tuple[str, str]] = {
    "trust.grades": (
        "a stored message keeps its grade in search, resume, branch, compaction and delegation",
        "product",
    ),
    "trust.hosts": (
        "writes of MCP hosts wait unless their hooks report what was read, or the person said so",
        "product",
    ),
}
