"""The agent: models from settings, turns that are stored as they happen, tools with limits and policies."""

REQUIREMENTS: dict[str, tuple[str, str]] = {
    "agent.turn": ("a turn yields events, ends with TurnFinished and is stored when that is given out", "product"),
    "agent.interrupt": (
        "a stopped turn is marked and the conversation goes on",
        "003 Interrupted Turns",
    ),
    "agent.reasoning": (
        "the reasoning of every message is stored and goes back to its own model",
        "product",
    ),
    "agent.claims": (
        "an answer that claims to have saved something, when nothing was, is followed by a notice",
        "product",
    ),
    "agent.outside": ("a call of a client's own function ends the turn, which goes on with its result", "product"),
    "agent.models": ("main model, fallback and helper models come from the settings with their keys", "product"),
    "agent.scripted": (
        "a scripted model can be chosen in the settings, so whole processes can be tested",
        "product",
    ),
    "agent.files": ("read, write, patch, list and search files", "product"),
    "agent.files-border": ("file tools stay in their folder, ask outside it, never touch keys or stores", "product"),
    "agent.bounded": ("results stay within tool_output.* and file_read_max_chars", "003 Configuration Map"),
    "agent.terminal": ("a command has a time limit, bounded output, and ends with all it started", "product"),
    "agent.terminal-policy": ("commands run when a person, the policy or the allow-list agrees", "product"),
    "agent.web": ("pages are fetched as text within limits, never from private addresses unasked", "product"),
    "agent.outside-text": ("text from files, pages and commands taints the turn", "003 Security and Safety"),
    "agent.todo": (
        "the list of steps is kept in the conversation, also after a compaction",
        "003 Tool Routing",
    ),
    "agent.delegation": (
        "delegated tasks have a session of their own, fewer tools, limits",
        "003 Tool Routing",
    ),
    "agent.mcp": ("tools of MCP servers are offered and called; a server that fails is a notice", "product"),
    "agent.kills": ("a process killed in a turn leaves a history both wires take, nothing lost", "product"),
    "agent.titles": ("a conversation gets a readable title, from its words or by a helper model", "product"),
    "agent.any-arguments": ("any arguments, and any failing tool, give a result", "product"),
    "agent.forgiving-arguments": (
        "arguments are coerced to the schema, defaults filled in, unknown keys ignored and named",
        "product",
    ),
    "agent.toolsets": ("toolsets are switched by platform; one that is off costs nothing", "003 Toolset Gating"),
}
