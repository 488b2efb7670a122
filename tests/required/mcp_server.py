"""Memory for other agents, over MCP."""

REQUIREMENTS: dict[str, tuple[str, str]] = {
    "mcp.tools": (
        "at most 8 tools under 1,500 tokens: memory, search, skills, record, status",
        "product",
    ),
    "mcp.resources": ("MEMORY.md and USER.md are resources, the guidance is offered as prompts", "product"),
    "mcp.greeting": ("a host is told at the beginning what is known about the person", "product"),
    "mcp.record": ("a host's conversation is stored once and found later", "product"),
    "mcp.install": ("a host's configuration is written after a preview, with a backup, and taken out again", "product"),
    "mcp.verified": (
        "a host is given the command of the copy that runs, and only after that command has listed its tools",
        "product",
    ),
    "mcp.status": ("which hosts are configured, and whether the command they have still answers", "product"),
    "mcp.http": ("MCP over streamable HTTP, with the key of a person", "product"),
    "mcp.modern": (
        "protocol 2026-07-28 beside the older ones: discovery, cache hints, questions with a sealed state",
        "issue 31",
    ),
    "mcp.cards": ("hosts with MCP Apps show what waits and receipts as cards that run nothing they hold", "issue 31"),
    "mcp.structured": ("tools have titles, honest annotations, output schemas and structured results", "issue 31"),
    "mcp.search-fetch": ("search and fetch in the form ChatGPT requires", "issue 31"),
    "mcp.plugin": (
        "one folder is the plug-in of Claude Code and Codex; a bundle and a registry file for other hosts",
        "issue 31",
    ),
    "mcp.hooks": ("hooks of the hosts that have them record every conversation", "product"),
}
