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
    "migration.resumed": (
        "an import that failed or was killed is completed by the next run, without a message twice",
        "product",
    ),
    "migration.goes-on": ("an imported conversation is resumed like any, with a prompt and tools of ours", "product"),
    "migration.kills": (
        "a migration killed at any step leaves the home as it was or as migrated, whoever uses it next",
        "product",
    ),
    "migration.live": ("a home can be used while it is migrated; who migrates it too is told who does", "product"),
    "migration.others-stay": (
        "what somebody else writes while a migration runs is kept; where both write, the migration gives up",
        "product",
    ),
    "migration.foreign-log": (
        "a foreign database is read with its log, in little memory, hostile ones refused",
        "product",
    ),
    "migration.damaged-transcripts": (
        "damaged lines are reported with their place; the rest comes in",
        "product",
    ),
    "migration.hostile-transcripts": ("links, bombs and broken archives are refused or passed over", "product"),
    "migration.bench": ("`hermes bench import` measures an import beside append_many", "product"),
}
REQUIREMENTS |= {
    "claw.preview": (
        "a migration is previewed first and applied after a confirmation or --yes",
        "003 OpenClaw Migration",
    ),
    "claw.sources": ("current and legacy folders and workspace patterns are found", "003 OpenClaw Migration"),
    "claw.memory": ("memory, profile and daily notes are parsed, merged and de-duplicated", "003 OpenClaw Migration"),
    "claw.over-limit": ("entries over the limit enter the archive rather than being dropped", "003 OpenClaw Migration"),
    "claw.markdown": ("notes become entries with their headings; code and tables are kept", "product"),
    "claw.screened": ("memory enters through the scanner with the origin import", "product"),
    "claw.secrets": (
        "secrets are copied only with --migrate-secrets, and only those on the list",
        "003 OpenClaw Migration",
    ),
    "claw.skills": ("skills come over; a taken name is skipped, overwritten or renamed", "003 OpenClaw Migration"),
    "claw.conflicts": ("what differs is a conflict; nothing is applied without --overwrite", "003 OpenClaw Migration"),
    "claw.workspace": ("workspace instructions go to a chosen workspace", "003 OpenClaw Migration"),
    "claw.archive": ("what has no home is archived, sensitive files are never read", "003 OpenClaw Migration"),
    "claw.backup": ("a backup is made first unless --no-backup", "003 OpenClaw Migration"),
    "claw.report": ("a report in JSON and Markdown names everything skipped or in conflict", "003 OpenClaw Migration"),
    "claw.warnings": ("a running OpenClaw or gateway is named before anything is applied", "003 OpenClaw Migration"),
    "claw.settings": ("settings that have a place here come over into config.yaml", "003 OpenClaw Migration"),
    "claw.cleanup": ("old folders are renamed to .pre-migration names", "003 OpenClaw Migration"),
    "claw.twice": ("a second run changes nothing", "product"),
    "claw.whole": ("a failure or a kill in the middle leaves the home as it was", "product"),
    "claw.hostile": ("links, devices, giants and odd names are passed over; nothing outside is written", "product"),
}
REQUIREMENTS |= {
    "adopt.copied": (
        "a hermes-agent home comes in: memory, sessions, skills, settings, providers, profiles",
        "product",
    ),
    "adopt.in-place": ("a hermes-agent home becomes ours where it stands, after a full backup", "product"),
    "adopt.found": ("a hermes-agent home is recognised, and every error names the command that adopts it", "product"),
    "adopt.twice": ("a second adoption changes nothing", "product"),
    "adopt.whole": ("an adoption that fails leaves the home as it was", "product"),
    "adopt.released": ("a home made by the released hermes-agent is adopted with every message and flag", "product"),
    "memory-import.claude-code": ("the memory files of Claude Code come into curated memory", "product"),
    "memory-import.codex": ("the notes of Codex come into curated memory", "product"),
    "memory-import.exports": ("exports of mem0 and OpenMemory and Letta's blocks come into curated memory", "product"),
    "memory-import.safe": ("imported notes are judged; a second run changes nothing; damage is reported", "product"),
}
