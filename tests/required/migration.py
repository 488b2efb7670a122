"""Coming from other programs: their conversations, their curated memory, and whole homes."""

REQUIREMENTS: dict[str, tuple[str, str]] = {
    "migration.claude-code": ("transcripts of Claude Code come in with tools, thinking, title and project", "product"),
    "migration.codex": ("rollouts of Codex CLI, old and new, come in with their tools and project", "product"),
    "migration.agents-sdk": ("the SQLite session store of OpenAI's Agents SDK comes in", "product"),
    "migration.chatgpt": ("a ChatGPT export comes in, left paths as branches", "product"),
    "migration.claude-export": ("a Claude export comes in, attachments included", "product"),
    "migration.letta": ("Letta agent files of both generations come in", "product"),
    "migration.recognised": ("each format is recognised by itself, or named with --format", "product"),
    "migration.incremental": ("a second run adds only what is new, and does not open what has not changed", "product"),
    "migration.edited": ("a conversation that was edited since becomes a branch; neither wording is lost", "product"),
    "migration.watch": ("--watch goes on bringing in what is new until it is stopped", "product"),
    "migration.resumed": ("an import that was killed is completed by the next run, without a message twice", "product"),
    "migration.taken-back": ("an import that fails leaves the database as it was", "product"),
    "migration.damaged-transcripts": (
        "damaged lines are reported with their place; the rest comes in",
        "product",
    ),
    "migration.hostile-transcripts": ("links, bombs and broken archives are refused or passed over", "product"),
    "migration.bench": ("`hermes bench import` measures an import beside append_many", "product"),
}
