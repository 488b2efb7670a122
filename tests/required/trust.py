"""Which texts are trusted, what the gate lets through, and who is asked."""

REQUIREMENTS: dict[str, tuple[str, str]] = {
    "trust.honest": ("ordinary saves in trusted work are not held back", "product"),
    "trust.poison": ("what text from outside asks for reaches no prompt, file or address without a person", "product"),
    "trust.own-words": (
        "a write that repeats a statement of the person needs no approval, and nothing else passes as one",
        "product",
    ),
    "trust.sinks": ("every tool that writes or sends is registered as a sink and asks the gate", "product"),
    "trust.closed": ("the gate fails closed, and every decision is recorded", "product"),
    "trust.grades": (
        "a stored message keeps its grade in search, resume, branch, compaction and delegation",
        "product",
    ),
    "trust.folders": ("files, notes and skills are as far trusted as their folder; `hermes trust` decides", "product"),
    "trust.hosts": (
        "writes of MCP hosts wait unless their hooks report what was read, or the person said so",
        "product",
    ),
    "trust.pending": ("what waits records what would be done, its sink, its sources and the passage", "product"),
    "approval.chat": (
        "the chat asks once at the end of a turn about everything that waits, with source and passage; one key decides",
        "product",
    ),
    "approval.alone": (
        "where nobody can be asked, a write is staged and the person is told how to look at it",
        "product",
    ),
    "approval.commands": ("`hermes memory pending|approve|reject` show sources and passages, and can edit", "product"),
    "approval.http": ("over HTTP, only a key with the right `approve` decides about writes that wait", "product"),
    "approval.platforms": ("on Discord and Slack each write that waits has buttons", "product"),
    "approval.telegram": ("on Telegram each write that waits has buttons, which only its person may press", "product"),
    "approval.mcp": ("an MCP host that can ask its user is asked about a write that must wait", "product"),
}
