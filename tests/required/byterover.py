"""byterover, beyond what every service does."""

REQUIREMENTS: dict[str, tuple[str, str]] = {
    "byterover.tools": ("query, curate and status with the documents' results, and forget", "003 Bundled Providers"),
    "byterover.process": ("one long-lived `brv mcp` for all calls, started again when it ended", "product"),
    "byterover.empty": ("a curate that noted nothing is reported as such", "product"),
    "byterover.compress": ("what is about to leave the context is noted before a compaction", "003 Bundled Providers"),
    "byterover.missing": ("without brv the conversation works, and it is said what is missing", "product"),
}
