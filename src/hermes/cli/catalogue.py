"""The table of commands (module, one line of help, section in `--help`), and the commands people guess.

A module has `COMMANDS`: for each of its commands a function that adds its options to a parser, and one that runs it.
"""

from __future__ import annotations

GROUPS: dict[str, tuple[str, dict[str, tuple[str, str]]]] = {
    "memory": (
        "list, change, undo and approve what is remembered",
        {
            "list": ("memory.entries", "the entries, numbered, with how full each file is"),
            "show": ("memory.entries", "one entry whole: where it comes from, since when, and when it was last of use"),
            "add": ("memory.entries", "remember something"),
            "replace": ("memory.entries", "change one entry"),
            "remove": ("memory.entries", "forget one entry"),
            "log": ("memory.entries", "every change: who, when, from which session, before and after"),
            "undo": ("memory.entries", "take one change back (an undo can be undone too)"),
            "diff": ("memory.entries", "what one change did, or everything since"),
            "restore": ("memory.entries", "bring an archived entry back"),
            "pin": ("memory.entries", "never archive this entry"),
            "unpin": ("memory.entries", "let a pinned entry be archived again"),
            "status": ("memory.review", "where memory is, how full, and whether anything is wrong with it"),
            "setup": ("commands.plugins", "choose an external memory provider, answer its questions and try it"),
            "deliver": ("commands.plugins", "hand over now what waits for external memory, also what it had refused"),
            "off": ("commands.plugins", "use built-in memory only"),
            "pending": ("memory.review", "the writes that wait for your decision"),
            "approve": ("memory.review", "carry out pending writes"),
            "reject": ("memory.review", "throw away pending writes"),
            "scan": ("memory.review", "look for threats and secrets in what is already stored"),
            "import": (
                "memory.review",
                "notes of other programs: Claude Code, Codex, mem0, OpenMemory, Letta, Markdown",
            ),
            "adopt": ("memory.review", "accept a memory file that was edited in another form (keeps a backup)"),
            "reset": ("memory.review", "forget everything (it stays in the log and can be undone)"),
        },
    ),
    "skills": (
        "look at the procedures the agent has",
        {
            "list": ("commands.skills", "every skill with its category and what it is for"),
            "show": ("commands.skills", "one skill, or one of its linked files"),
            "path": ("commands.skills", "where skills are"),
            "usage": ("commands.skills", "how often and when each skill was used, and which grow stale"),
            "pin": ("commands.skills", "keep a skill from growing stale"),
            "unpin": ("commands.skills", "let a pinned skill age again"),
            "archive": ("commands.skills", "move a skill out of sight; nothing is deleted"),
            "restore": ("commands.skills", "bring an archived skill back"),
            "pending": ("commands.skills", "the skill changes that wait for your decision"),
            "approve": ("commands.skills", "carry out pending skill changes"),
            "reject": ("commands.skills", "throw away pending skill changes"),
        },
    ),
    "curator": (
        "tidy memory and skills in the background, and take it back",
        {
            "status": ("commands.skills", "when it runs next, what contradicts itself, which skills grow stale"),
            "run": ("commands.skills", "tidy now: duplicates, superseded facts, dates, categories, stale skills"),
            "pause": ("commands.skills", "stop running by schedule"),
            "resume": ("commands.skills", "run by schedule again"),
            "log": ("commands.skills", "every run and what it did"),
            "undo": ("commands.skills", "take a run back, byte for byte"),
        },
    ),
    "plugins": (
        "memory providers and context engines, bundled and your own",
        {
            "list": ("commands.plugins", "every plug-in, with a mark at those in use"),
            "show": ("commands.plugins", "what a plug-in says about itself"),
            "path": ("commands.plugins", "where plug-ins are installed"),
            "check": ("commands.plugins", "load plug-ins and say what is wrong with them"),
        },
    ),
    "config": (
        "show and change settings",
        {
            "show": ("commands.config", "all settings with their values and where each comes from"),
            "get": ("commands.config", "one setting, or all below a heading"),
            "set": ("commands.config", "change one setting in config.yaml, keeping comments"),
            "unset": ("commands.config", "take one setting out of config.yaml, so that the default counts again"),
            "path": ("commands.config", "where the settings, secrets and memory are"),
            "check": ("commands.config", "say everything that is wrong with config.yaml and .env"),
        },
    ),
    "sessions": (
        "find, read, export and tidy past conversations",
        {
            "list": ("sessions.look", "recent conversations, one row each"),
            "search": ("sessions.look", "find the conversations that answer a question"),
            "show": ("sessions.look", "print a conversation, or the part around a message"),
            "export": ("sessions.change", "write conversations as JSONL, Markdown or HTML"),
            "import": ("sessions.imports", "bring conversations in from other programs; doing it twice adds nothing"),
            "rename": ("sessions.change", "give a conversation a title"),
            "delete": ("sessions.change", "delete conversations for good"),
            "prune": ("sessions.change", "delete ended conversations that were not used for long"),
            "stats": ("sessions.look", "how much there is, from where, and how it grows"),
            "optimize": ("sessions.change", "merge the search index and tidy the file, in small steps"),
            "restore": ("sessions.change", "the conversation as it was before compaction, as a new session"),
            "repair": ("sessions.change", "make a damaged database whole again, keeping the original bytes"),
        },
    ),
    "model": (
        "which models can be talked to from here",
        {
            "list": ("commands.setup", "providers with a key, local servers that answer, embedded models"),
            "fetch": ("commands.setup", "bring the weights of an embedded model that no package carries whole"),
        },
    ),
    "profile": (
        "keep several homes side by side",
        {
            "list": ("commands.config", "the profiles, with a mark at the chosen one"),
            "create": ("commands.config", "make a new, empty profile"),
            "use": ("commands.config", "use a profile from now on, when none is named"),
            "rename": ("commands.config", "give a profile another name"),
            "delete": ("commands.config", "delete a profile with everything in it, for good"),
        },
    ),
    "users": (
        "give people homes of their own below this one, and keys to them",
        {
            "list": ("commands.serve", "who has a home here, and the ids of their keys"),
            "add": ("commands.serve", "make a home and a key for somebody"),
            "key": ("commands.serve", "make another key, shown once, or revoke one"),
            "forget": ("commands.serve", "remove somebody with everything of theirs, and prove it; a dry run first"),
        },
    ),
    "gateway": (
        "talk to people on Telegram and other platforms, in one process for all of them",
        {
            "run": ("commands.serve", "receive and answer until it is stopped"),
            "status": ("commands.serve", "whether it runs, which platforms are connected, what waits, and its memory"),
            "pair": ("commands.serve", "make a code with which somebody's account becomes theirs"),
            "unpair": ("commands.serve", "make a paired account a stranger again"),
            "people": ("commands.serve", "which accounts are known, and whose they are"),
        },
    ),
    "mcp": (
        "give this memory to other agents (Claude Code, Codex, Cursor, …)",
        {
            "serve": ("commands.mcp", "speak MCP on standard input, or over HTTP; what `hermes mcp` alone does"),
            "install": ("commands.mcp", "try it, then put it into a host's configuration; shows the changes first"),
            "uninstall": ("commands.mcp", "take it out of a host's configuration again; shows the changes first"),
            "status": ("commands.mcp", "which hosts are configured, and whether the command they have still answers"),
            "record": ("commands.mcp", "store a conversation that a host's hook reports"),
        },
    ),
    "claw": (
        "come from OpenClaw",
        {
            "migrate": ("commands.portability", "bring memory, skills and settings over; shows what it would do first"),
            "cleanup": ("commands.portability", "put the old folders aside when everything is right"),
        },
    ),
    "backup": (
        "archives of the whole home, checked, and the way back",
        {
            "create": (
                "commands.portability",
                "one consistent archive of the home while it is in use, verified after writing",
            ),
            "list": ("commands.portability", "the backups of this home, newest first"),
            "verify": ("commands.portability", "read a backup and compare every checksum"),
            "restore": ("commands.portability", "put a backup in the place of the home, which is kept"),
        },
    ),
    "bench": (
        "measure, beside a floor or a peer in the same run",
        {
            "all": ("commands.inspect", "all of them one after the other: every figure with its command"),
            "curated": ("commands.inspect", "memory writes, cold starts and imports"),
            "scan": ("commands.inspect", "the threat scanner on ordinary and hostile texts"),
            "secrets": ("commands.inspect", "the secret finder on plain and hostile texts"),
            "fence": ("commands.inspect", "the fence and the stream scrubber, beside a bare loop"),
            "prompt": ("commands.inspect", "assembling prompts, marking cache points, estimating tokens"),
            "prefix": (
                "commands.inspect",
                "what the frozen prompt saves with the embedded model, beside rebuilding it; five minutes or more",
            ),
            "compaction": ("commands.inspect", "planted facts after compaction, and its own cost"),
            "holographic": (
                "commands.inspect",
                "right answers of the local facts provider, and the cost of another fact",
            ),
            "curation": (
                "commands.inspect",
                "junk and corrections in a long log, poison through consolidation, exact undo",
            ),
            "recall": ("commands.inspect", "whether questions find their conversation, on a public question file"),
            "turn": ("commands.inspect", "our own cost of a turn and of a model call, in short and long sessions"),
            "serve": ("commands.inspect", "the HTTP server under many people at once, beside a bare echo"),
            "search": ("commands.inspect", "search on a large made-up corpus, beside raw FTS5"),
            "import": ("commands.inspect", "another program's transcripts, beside append_many"),
        },
    ),
}
DEFAULTS = {"mcp": "serve"}  # what a group does when no command is named
SINGLES: dict[str, tuple[str, str]] = {
    "chat": ("commands.chat", "talk to a model (what `hermes` alone does)"),
    "demo": ("commands.demo", "the life of a memory in a minute: offline, with real files, leaving nothing behind"),
    "setup": ("commands.setup", "choose the model to talk to, in a few questions"),
    "export": ("commands.portability", "everything as plain text that a person can read, with checksums"),
    "import": ("commands.portability", "an export, or the home of hermes-agent, into this home"),
    "doctor": ("commands.status", "try everything for real, say what is wrong and what to do"),
    "status": ("commands.status", "what is there and how it fares, in one screen"),
    "serve": ("commands.serve", "answer OpenAI clients with memory, and offer a plain HTTP API and MCP"),
    "tool": ("commands.inspect", "call a tool exactly as a model would"),
    "prompt": ("commands.inspect", "the system prompt a new session would get, and the size of each part"),
    "scan": ("commands.inspect", "say whether a text may enter a prompt"),
    "completion": ("commands.config", "print what makes a shell complete commands and options"),
}


# The sections of `--help`; a command that no section names is listed under "more".
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

# Commands people guess, by group, and the command that does it. A last word in capitals is replaced by what they typed
# after it; a text with a backquote is the whole hint.
GUESSED = {
    "": {
        "search find recall grep": "sessions search TEXT",
        "remember add save note learn": "memory add TEXT",
        "forget remove rm": "memory remove ENTRY",
        "delete": "`hermes memory remove ENTRY` for an entry, `hermes sessions delete ID` for a conversation",
        "list ls show": "`hermes memory list` for what is remembered, `hermes sessions list` for conversations",
        "history conversations": "sessions list",
        "resume": "--resume ID",
        "continue": "--continue",
        "ask query": "-q TEXT",
        "log logs": "memory log",
        "undo": "memory undo",
        "approve reject": "memory pending",
        "login auth key keys init configure onboard": "setup",
        "install connect": "mcp install HOST",
        "run start": "`hermes` alone talks to a model, `hermes serve` and `hermes gateway run` answer others",
        "server api http web": "serve",
        "telegram bot": "gateway run",
        "provider providers": "memory setup",
        "models": "model list",
        "settings get": "config show",
        "set": "config set KEY",
        "whoami me": "memory list --target user",
        "insights usage stats": "sessions stats",
        "info": "status",
        "test check": "doctor",
        "fix repair": "doctor --fix",
        "tools": "tool --list",
        "rename title": "sessions rename ID",
        "restore": "backup restore BACKUP",
        "migrate": "`hermes import hermes-agent` or `hermes claw migrate`",
        "update upgrade": "to update, `git pull` in the checkout or `pip install --upgrade` the package",
        "uninstall": "`hermes config path` says where your data is; the program is its folder or package",
    },
    "memory": {
        "search find": "`hermes memory list` shows every entry, `hermes sessions search TEXT` finds archived ones too",
        "provider": "memory setup",
        "disable": "memory off",
        "archive": "memory list --archived",
        "export": "export",
    },
    "sessions": {
        "resume open": "--resume ID",
        "continue": "--continue",
        "new": "`hermes` starts a new conversation",
    },
    "config": {
        "edit": "edit config.yaml (`hermes config path` says where), then `hermes config check`",
        "init": "setup",
        "migrate": "import hermes-agent",
    },
    "model": {"set use switch default": "config set model.default NAME"},
    "plugins": {
        "install add": "`hermes plugins path` says where plug-ins go, `hermes memory setup NAME` uses one",
        "enable": "memory setup NAME",
    },
    "skills": {"install add create": "put a folder with a SKILL.md where `hermes skills path` says"},
    "gateway": {"setup": "config get gateway"},
}
# Words for what a group can do under another name; the first that the group has is meant.
VERBS = {
    "ls list all dir": "list show status",
    "show view cat get read print open inspect": "show list get",
    "rm del delete remove forget erase drop": "remove delete forget unset archive uninstall unpair",
    "edit update change modify set": "replace set rename",
    "new create make add save write remember insert": "add create set install",
    "find grep query lookup": "search",
    "history logs": "log list",
    "revert rollback": "undo restore",
    "clear clean wipe purge reset": "reset prune cleanup unset",
    "start launch now": "run serve create",
    "stop disable": "pause off",
    "enable activate select switch choose use": "use setup approve resume",
    "connect setup": "install setup",
    "test validate": "check verify",
    "fix": "repair",
    "vacuum compact": "optimize",
    "title": "rename",
    "where file folder": "path",
    "info stat": "status stats",
    "download pull": "fetch",
    "accept": "approve",
    "deny": "reject",
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
