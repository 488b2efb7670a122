"""Every command with one line of help and the module that carries it out; read without loading any of them.

A module has `COMMANDS`: for each of its commands a function that adds its options to a parser, and one that runs it.
"""

from __future__ import annotations

GROUPS: dict[str, tuple[str, dict[str, tuple[str, str]]]] = {
    "memory": (
        "list, change, undo and approve what is remembered",
        {
            "list": ("memory_entries", "the entries, numbered, with how full each file is"),
            "show": ("memory_entries", "one entry whole: where it comes from, since when, and when it was last of use"),
            "add": ("memory_entries", "remember something"),
            "replace": ("memory_entries", "change one entry"),
            "remove": ("memory_entries", "forget one entry"),
            "log": ("memory_history", "every change: who, when, from which session, before and after"),
            "undo": ("memory_history", "take one change back (an undo can be undone too)"),
            "diff": ("memory_history", "what one change did, or everything since"),
            "restore": ("memory_archive", "bring an archived entry back"),
            "pin": ("memory_archive", "never archive this entry"),
            "unpin": ("memory_archive", "let a pinned entry be archived again"),
            "status": ("memory_decisions", "where memory is, how full, and whether anything is wrong with it"),
            "setup": ("memory_setup", "choose an external memory provider, answer its questions and try it"),
            "deliver": ("memory_setup", "hand over now what waits for external memory, also what it had refused"),
            "off": ("memory_setup", "use built-in memory only"),
            "pending": ("memory_decisions", "the writes that wait for your decision"),
            "approve": ("memory_decisions", "carry out pending writes"),
            "reject": ("memory_decisions", "throw away pending writes"),
            "scan": ("memory_scan", "look for threats and secrets in what is already stored"),
            "import": (
                "memory_import",
                "notes of other programs: Claude Code, Codex, mem0, OpenMemory, Letta, Markdown",
            ),
            "adopt": ("memory_decisions", "accept a memory file that was edited in another form (keeps a backup)"),
            "reset": ("memory_decisions", "forget everything (it stays in the log and can be undone)"),
        },
    ),
    "skills": (
        "look at the procedures the agent has",
        {
            "list": ("skills", "every skill with its category and what it is for"),
            "show": ("skills", "one skill, or one of its linked files"),
            "path": ("skills", "where skills are"),
            "usage": ("skills_lifecycle", "how often and when each skill was used, and which grow stale"),
            "pin": ("skills_lifecycle", "keep a skill from growing stale"),
            "unpin": ("skills_lifecycle", "let a pinned skill age again"),
            "archive": ("skills_lifecycle", "move a skill out of sight; nothing is deleted"),
            "restore": ("skills_lifecycle", "bring an archived skill back"),
            "pending": ("skills_lifecycle", "the skill changes that wait for your decision"),
            "approve": ("skills_lifecycle", "carry out pending skill changes"),
            "reject": ("skills_lifecycle", "throw away pending skill changes"),
        },
    ),
    "curator": (
        "tidy memory and skills in the background, and take it back",
        {
            "status": ("curator", "when it runs next, what contradicts itself, which skills grow stale"),
            "run": ("curator", "tidy now: duplicates, superseded facts, dates, categories, stale skills"),
            "pause": ("curator", "stop running by schedule"),
            "resume": ("curator", "run by schedule again"),
            "log": ("curator", "every run and what it did"),
            "undo": ("curator", "take a run back, byte for byte"),
        },
    ),
    "plugins": (
        "memory providers and context engines, bundled and your own",
        {
            "list": ("plugins", "every plug-in, with a mark at those in use"),
            "show": ("plugins", "what a plug-in says about itself"),
            "path": ("plugins", "where plug-ins are installed"),
            "check": ("plugins", "load plug-ins and say what is wrong with them"),
        },
    ),
    "config": (
        "show and change settings",
        {
            "show": ("config", "all settings with their values and where each comes from"),
            "get": ("config", "one setting, or all below a heading"),
            "set": ("config", "change one setting in config.yaml, keeping comments"),
            "unset": ("config", "take one setting out of config.yaml, so that the default counts again"),
            "path": ("config", "where the settings, secrets and memory are"),
            "check": ("config", "say everything that is wrong with config.yaml and .env"),
        },
    ),
    "sessions": (
        "find, read, export and tidy past conversations",
        {
            "list": ("sessions_look", "recent conversations, one row each"),
            "search": ("sessions_look", "find the conversations that answer a question"),
            "show": ("sessions_look", "print a conversation, or the part around a message"),
            "export": ("sessions_move", "write conversations as JSONL, Markdown or HTML"),
            "import": ("sessions_import", "bring conversations in from other programs; doing it twice adds nothing"),
            "rename": ("sessions_change", "give a conversation a title"),
            "delete": ("sessions_change", "delete conversations for good"),
            "prune": ("sessions_change", "delete ended conversations that were not used for long"),
            "stats": ("sessions_look", "how much there is, from where, and how it grows"),
            "optimize": ("sessions_change", "merge the search index and tidy the file, in small steps"),
            "restore": ("sessions_restore", "the conversation as it was before compaction, as a new session"),
            "repair": ("sessions_repair", "make a damaged database whole again, keeping the original bytes"),
        },
    ),
    "model": (
        "which models can be talked to from here",
        {
            "list": ("model", "providers with a key, local servers that answer, embedded models"),
            "fetch": ("model", "bring the weights of an embedded model that no package carries whole"),
        },
    ),
    "profile": (
        "keep several homes side by side",
        {
            "list": ("profile", "the profiles, with a mark at the chosen one"),
            "create": ("profile", "make a new, empty profile"),
            "use": ("profile", "use a profile from now on, when none is named"),
            "rename": ("profile", "give a profile another name"),
            "delete": ("profile", "delete a profile with everything in it, for good"),
        },
    ),
    "users": (
        "give people homes of their own below this one, and keys to them",
        {
            "list": ("users", "who has a home here, and the ids of their keys"),
            "add": ("users", "make a home and a key for somebody"),
            "key": ("users", "make another key, shown once, or revoke one"),
            "forget": ("users", "remove somebody with everything of theirs, and prove it; a dry run first"),
        },
    ),
    "gateway": (
        "talk to people on Telegram and other platforms, in one process for all of them",
        {
            "run": ("gateway", "receive and answer until it is stopped"),
            "status": ("gateway", "whether it runs, which platforms are connected, what waits, and its memory"),
            "pair": ("gateway", "make a code with which somebody's account becomes theirs"),
            "unpair": ("gateway", "make a paired account a stranger again"),
            "people": ("gateway", "which accounts are known, and whose they are"),
        },
    ),
    "mcp": (
        "give this memory to other agents (Claude Code, Codex, Cursor, …)",
        {
            "serve": ("mcp", "speak MCP on standard input, or over HTTP; what `hermes mcp` alone does"),
            "install": ("mcp_install", "try it, then put it into a host's configuration; shows the changes first"),
            "uninstall": ("mcp_install", "take it out of a host's configuration again; shows the changes first"),
            "status": ("mcp_install", "which hosts are configured, and whether the command they have still answers"),
            "record": ("mcp_install", "store a conversation that a host's hook reports"),
        },
    ),
    "claw": (
        "come from OpenClaw",
        {
            "migrate": ("claw", "bring memory, skills and settings over; shows what it would do first"),
            "cleanup": ("claw", "put the old folders aside when everything is right"),
        },
    ),
    "backup": (
        "archives of the whole home, checked, and the way back",
        {
            "create": ("backup", "one consistent archive of the home while it is in use, verified after writing"),
            "list": ("backup", "the backups of this home, newest first"),
            "verify": ("backup", "read a backup and compare every checksum"),
            "restore": ("backup", "put a backup in the place of the home, which is kept"),
        },
    ),
    "bench": (
        "measure, beside a floor or a peer in the same run",
        {
            "all": ("bench", "all of them one after the other: every figure with its command"),
            "curated": ("bench", "memory writes, cold starts and imports"),
            "scan": ("bench", "the threat scanner on ordinary and hostile texts"),
            "secrets": ("bench", "the secret finder on plain and hostile texts"),
            "fence": ("bench", "the fence and the stream scrubber, beside a bare loop"),
            "prompt": ("bench", "assembling prompts, marking cache points, estimating tokens"),
            "prefix": (
                "bench",
                "what the frozen prompt saves with the embedded model, beside rebuilding it; five minutes or more",
            ),
            "compaction": ("bench", "planted facts after compaction, and its own cost"),
            "holographic": ("bench", "right answers of the local facts provider, and the cost of another fact"),
            "curation": ("bench", "junk and corrections in a long log, poison through consolidation, exact undo"),
            "recall": ("bench", "whether questions find their conversation, on a public question file"),
            "turn": ("bench", "our own cost of a turn and of a model call, in short and long sessions"),
            "serve": ("bench", "the HTTP server under many people at once, beside a bare echo"),
            "search": ("bench", "search on a large made-up corpus, beside raw FTS5"),
            "import": ("bench", "another program's transcripts, beside append_many"),
        },
    ),
}
DEFAULTS = {"mcp": "serve"}  # what a group does when no command is named
SINGLES: dict[str, tuple[str, str]] = {
    "chat": ("chat", "talk to a model (what `hermes` alone does)"),
    "demo": ("demo", "the life of a memory in a minute: offline, with real files, leaving nothing behind"),
    "setup": ("setup", "choose the model to talk to, in a few questions"),
    "export": ("export_import", "everything as plain text that a person can read, with checksums"),
    "import": ("export_import", "an export, or the home of hermes-agent, into this home"),
    "doctor": ("doctor", "try everything for real, say what is wrong and what to do"),
    "status": ("status", "what is there and how it fares, in one screen"),
    "serve": ("serve", "answer OpenAI clients with memory, and offer a plain HTTP API and MCP"),
    "tool": ("tool", "call a tool exactly as a model would"),
    "prompt": ("prompt", "the system prompt a new session would get, and the size of each part"),
    "scan": ("scan", "say whether a text may enter a prompt"),
    "completion": ("completion", "print what makes a shell complete commands and options"),
}


# How help groups commands; one that is named nowhere stands under "more".
_START = {
    "demo": SINGLES["demo"][1],
    "setup": SINGLES["setup"][1],
    "chat": SINGLES["chat"][1],
    "mcp install HOST": "give this memory to the agent you already use: claude-code, codex, cursor, …",
    "doctor": SINGLES["doctor"][1],
}
_SECTIONS: dict[str, dict[str, str]] = {
    "": {
        "what it remembers": "memory sessions skills curator status",
        "other agents and people": "mcp serve gateway users",
        "settings": "config model profile plugins completion",
        "come, go and keep safe": "import claw export backup",
        "look inside": "prompt tool scan bench",
    },
    "memory": {
        "entries": "list show add replace remove pin unpin",
        "what changed": "log diff undo restore reset",
        "what waits for you": "pending approve reject",
        "external memory": "setup off deliver",
        "files": "status scan import adopt",
    },
    "sessions": {
        "find and read": "search list show stats",
        "change": "rename delete prune restore",
        "bring and take": "import export",
        "care": "optimize repair",
    },
}


def top_help(version: str) -> str:
    commands = {name: summary for name, (summary, _) in GROUPS.items()}
    commands |= {name: summary for name, (_, summary) in SINGLES.items()}
    return (
        f"hermes {version}: memory and context for language-model agents\n\n"
        "usage: hermes [--home DIR] [--profile NAME] [--user NAME] COMMAND …\n"
        "       hermes [-q TEXT] [--continue] [--model NAME]      talk to a model (`hermes chat --help`)\n\n"
        f"start here:\n{_table(_START)}\n\n"
        f"{_sections('', {name: text for name, text in commands.items() if name not in _START})}\n\n"
        "options:\n"
        "  --home DIR      where everything is kept (default: $HERMES_HOME, else ~/.hermes)\n"
        "  --profile NAME  which profile of the home (default: the chosen one)\n"
        "  --user NAME     whose home below it (`hermes users list`; default: your own)\n"
        "  -V, --version   print the version\n\n"
        "`hermes COMMAND --help` tells more about each."
    )


def group_help(group: str, before: str = "hermes ") -> str:
    summary, commands = GROUPS[group]
    return (
        f"usage: {before}{group} COMMAND …\n\n{summary[0].upper()}{summary[1:]}.\n\n"
        f"{_sections(group, {name: text for name, (_, text) in commands.items()})}\n\n"
        f"`{before}{group} COMMAND --help` tells more about each."
    )


def _sections(group: str, rows: dict[str, str]) -> str:
    sections = {title: names.split() for title, names in _SECTIONS.get(group, {}).items()}
    placed = [name for names in sections.values() for name in names]
    sections["more" if sections else "commands"] = [name for name in rows if name not in placed]
    width = max(map(len, rows))
    tables = {title: {name: rows[name] for name in names if name in rows} for title, names in sections.items()}
    return "\n\n".join(f"{title}:\n{_table(table, width)}" for title, table in tables.items() if table)


def _table(rows: dict[str, str], width: int = 0) -> str:
    width = width or max(map(len, rows))
    return "\n".join(f"  {name:<{width}}  {text}" for name, text in rows.items())
