"""Every setting: its name in config.yaml, type, default and range, and whether a value is valid."""

from __future__ import annotations

from hermes.base.values import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any


@value
class Key:
    """One setting. `kind` is flag, integer, number, text, zone, choice, texts (a list) or mapping (free form)."""

    name: str
    kind: str
    default: Any
    help: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    optional: bool = False  # null is allowed and means "decide for me"

    @property
    def expected(self) -> str:
        """What a person should write, in words."""
        words = {
            "flag": "true or false",
            "integer": "a whole number",
            "number": "a number",
            "text": "a text",
            "zone": "a time zone such as Europe/Berlin, or nothing",
            "choice": f"one of {', '.join(self.choices)}",
            "texts": "a list of texts",
            "mapping": "a mapping of names to values",
        }[self.kind]
        if self.low is not None and self.high is not None:
            words += f" from {self.low:,} to {self.high:,}"
        elif self.low is not None:
            words += f" of at least {self.low:,}"
        return words + (" (or null)" if self.optional else "")


def _flag(name: str, default: bool, help_: str) -> Key:  # noqa: FBT001 - the default of a switch is a bool
    return Key(name=name, kind="flag", default=default, help=help_)


def _integer(name: str, default: int, help_: str, low: float = 0, high: float | None = None) -> Key:
    return Key(name=name, kind="integer", default=default, help=help_, low=low, high=high)


def _number(name: str, default: float, help_: str, low: float = 0, high: float | None = None) -> Key:
    return Key(name=name, kind="number", default=default, help=help_, low=low, high=high)


def _text(name: str, default: str, help_: str) -> Key:
    return Key(name=name, kind="text", default=default, help=help_)


def _choice(name: str, default: str, choices: tuple[str, ...], help_: str) -> Key:
    return Key(name=name, kind="choice", default=default, help=help_, choices=choices)


def _texts(name: str, help_: str) -> Key:
    return Key(name=name, kind="texts", default=(), help=help_)


def _mapping(name: str, help_: str) -> Key:
    return Key(name=name, kind="mapping", default=None, help=help_)


_GATEWAY_KEYS = (
    _flag("gateway.telegram.enabled", False, "Talk to people on Telegram; TELEGRAM_BOT_TOKEN in .env."),
    _choice("gateway.telegram.mode", "polling", ("polling", "webhook"), "Whether we ask Telegram or it calls us."),
    _text("gateway.telegram.webhook_url", "", "Public https address that leads to /telegram of the gateway."),
    _text("gateway.telegram.api_url", "https://api.telegram.org", "Where the Bot API is, for a server of your own."),
    _flag("gateway.webhook.enabled", False, "Talk to people through HTTP; GATEWAY_WEBHOOK_SECRET in .env."),
    _text("gateway.webhook.reply_url", "", "Address that answers of the generic webhook are sent to."),
    _mapping("gateway.people", "Accounts and whose they are, by platform: `{telegram: {'12345': ann}}`."),
    _choice(
        "gateway.groups",
        "mention",
        ("mention", "all", "off"),
        "In groups, answer when we are mentioned or replied to, always, or never.",
    ),
    _number("gateway.stream_seconds", 1.5, "Seconds between two edits of an answer that is being written; 0 for none."),
    _integer("gateway.workers", 32, "Conversations the gateway answers at the same time.", low=1, high=1024),
    _integer("gateway.open_conversations", 128, "Conversations the gateway keeps open.", low=1, high=100_000),
    _integer(
        "gateway.drain_seconds", 30, "Seconds the gateway waits for running answers when it is stopped.", high=3600
    ),
    _text("gateway.host", "127.0.0.1", "Address the gateway listens on for webhooks."),
    _integer("gateway.port", 8485, "Port the gateway listens on for webhooks.", low=1, high=65535),
    _flag("gateway.monitor_enabled", True, "Log the gateway's memory, garbage collection and threads."),
    _number("gateway.monitor_interval", 300, "Seconds between two such lines.", low=0.05, high=86_400),
    _integer("gateway.monitor_warn_mb", 0, "Megabytes of memory above which such a line is a warning; 0 for none."),
)

KEYS = (
    _flag("memory.memory_enabled", True, "Keep the agent's notes in MEMORY.md and show them in the prompt."),
    _flag(
        "memory.user_profile_enabled", True, "Keep what is known about the person in USER.md and show it in the prompt."
    ),
    _integer("memory.memory_char_limit", 2200, "Characters MEMORY.md may hold.", low=100, high=1_000_000),
    _integer("memory.user_char_limit", 1375, "Characters USER.md may hold.", low=100, high=1_000_000),
    _integer(
        "memory.project_char_limit", 2200, "Characters the notes of one project may hold.", low=100, high=1_000_000
    ),
    _choice(
        "memory.projects",
        "auto",
        ("auto", "named", "off"),
        "Notes per project: of the repository a session works in (auto), of a project that is named, or none.",
    ),
    _flag("memory.write_approval", False, "Stage the agent's memory writes until a person approves them."),
    _flag(
        "memory.guard",
        False,
        "Refuse memory writes that the scanner would ask about when the small model of the extra `guard` is certain.",
    ),
    _choice(
        "memory.untrusted_writes",
        "stage",
        ("stage", "refuse", "allow"),
        "What happens to a change of memory or skills that text from outside (web, files, tools, recall) may stand "
        "behind: it entered this turn, or an earlier one and the words are not the person's.",
    ),
    _choice(
        "memory.capture",
        "off",
        ("off", "stage", "on"),
        "Keep plain statements of the person without asking a model: not at all, after approval, or at once.",
    ),
    _choice(
        "memory.when_full",
        "archive",
        ("archive", "refuse"),
        "What a write into a full store does: archive the least valuable entry, or refuse as the documents say.",
    ),
    _flag(
        "memory.supersede",
        True,
        "A new entry replaces what it corrects, which moves to the archive; if off, `memory conflicts` shows both.",
    ),
    _number("memory.lock_timeout", 5, "Seconds to wait for another program that is writing a memory file.", high=600),
    _texts("memory.linked_folders", "Folders outside the home that MEMORY.md and USER.md may link into."),
    _text("memory.provider", "", "External memory provider; empty for built-in memory only."),
    _texts("memory.providers", "Several external memory providers at once, instead of the one of memory.provider."),
    _choice(
        "memory.provider_mode",
        "hybrid",
        ("hybrid", "context", "tools"),
        "Whether external memory recalls by itself (context), offers tools (tools) or both (hybrid).",
    ),
    _integer("memory.recall_tokens", 2000, "Tokens that recall may add to a turn, for all providers together.", low=50),
    _number("memory.recall_timeout", 3, "Seconds a turn waits for external memory.", low=0.01, high=60),
    _number("memory.provider_tool_timeout", 30, "Seconds a tool of a provider may take.", low=0.1, high=600),
    _number("memory.provider_drain_timeout", 5, "Seconds to wait at the end until providers have everything.", high=60),
    _choice(
        "memory.provider_process",
        "plugins",
        ("plugins", "all", "none"),
        "Which providers run in a process of their own: the plug-ins of the home, all, or none.",
    ),
    _integer(
        "memory.provider_memory_mb",
        2048,
        "Megabytes of memory the process of a provider may use; 0 for no limit.",
        high=1_000_000,
    ),
    _integer("memory.nudge_interval", 10, "User turns between two reviews of what is worth remembering; 0 for never."),
    _flag("rules.enabled", True, "Recognise standing rules of the person and bring them up when they apply."),
    _choice(
        "rules.enforce",
        "hold",
        ("tell", "hold", "ask"),
        "What a new rule does to a call it fires on: tell the model with the result, hold the call back once so that "
        "the model reads the rule first, or ask the person.",
    ),
    _flag("reminders.enabled", True, "Keep reminders that the person asks for, and bring them up in time."),
    _integer("rules.tokens", 200, "Tokens that rules may add to a turn or to a tool's result.", low=20, high=5000),
    _flag("compression.enabled", True, "Compact the conversation before it outgrows the context window."),
    _number(
        "compression.threshold", 0.5, "Share of the context window at which compaction starts.", low=0.05, high=0.95
    ),
    _number(
        "compression.prepare_at",
        0.8,
        "Share of the threshold at which a compaction is prepared in the background; with 0 the turn waits for it.",
        low=0.0,
        high=1.0,
    ),
    _number("compression.target_ratio", 0.2, "Share of the threshold that recent messages keep.", low=0.1, high=0.8),
    _integer("compression.protect_last_n", 20, "Newest messages that are never summarised.", low=1, high=10_000),
    _integer("compression.protect_first_n", 3, "First messages that are never summarised.", high=10_000),
    _integer(
        "compression.hygiene_hard_message_limit", 5000, "Messages after which a chat is compacted in any case.", low=1
    ),
    _flag("compression.abort_on_summary_failure", False, "Stop instead of falling back when no summary can be made."),
    _flag("compression.in_place", True, "Compact under the same session id instead of starting a child session."),
    _flag("compression.codex_gpt55_autoraise", True, "Of hermes-agent, kept and not used."),
    _flag("compression.codex_gpt55_autoraise_notice", True, "Of hermes-agent, kept and not used."),
    _text("compression.codex_app_server_auto", "native", "Of hermes-agent, kept and not used."),
    _text("database.journal_mode", "", "Of hermes-agent, kept and not used: the best mode that works is chosen."),
    _text("context.engine", "compressor", "Which context engine keeps the window small."),
    _choice("prompt_caching.cache_ttl", "5m", ("5m", "1h"), "How long the provider keeps the cached prompt prefix."),
    _integer("auxiliary.transient_retries", 2, "Retries of a helper model after a passing error.", high=20),
    _flag("skills.template_vars", True, "Fill in ${HERMES_SKILL_DIR}, the folder of a skill, when it is opened."),
    _flag("skills.inline_shell", False, "Of hermes-agent, kept and not used: opening a skill never runs anything."),
    _integer("skills.inline_shell_timeout", 10, "Of hermes-agent, kept and not used.", low=1, high=600),
    _flag("skills.guard_agent_created", False, "Refuse skills of the agent that the scanner merely doubts, too."),
    _flag("skills.write_approval", False, "Stage the agent's skill writes until a person approves them."),
    _texts("skills.disabled", "Skills, by name or category/name, that are neither listed nor opened."),
    _texts("skills.external_dirs", "More folders to read skills from; nothing is written there."),
    _integer(
        "skills.creation_nudge_interval", 10, "Tool calls between two reviews of what is worth a skill; 0 for never."
    ),
    _flag("curator.enabled", True, "Tidy memory and skills in the background."),
    _integer("curator.interval_hours", 168, "Hours between two runs of the curator.", low=1),
    _integer("curator.min_idle_hours", 2, "Hours without use before the curator runs."),
    _integer("curator.stale_after_days", 30, "Days without use after which a skill counts as stale.", low=1),
    _integer("curator.archive_after_days", 90, "Days without use after which a skill is archived.", low=1),
    _flag("curator.consolidate", False, "Let a helper model propose merges."),
    _flag("curator.prune_builtins", True, "Of hermes-agent, kept and not used: there are no bundled skills."),
    _flag("curator.backup.enabled", True, "Keep a backup before the curator changes anything."),
    _integer("curator.backup.keep", 5, "Backups of the curator to keep.", low=1, high=1000),
    _choice(
        "sessions.notes",
        "extract",
        ("off", "extract", "model"),
        "Write a dated note about each conversation when it ends: from its messages alone, or by a helper model.",
    ),
    _number(
        "sessions.lock_wait_seconds",
        3.0,
        "Seconds to wait for another program that keeps state.db locked; then a session goes on and stores later.",
        high=600,
    ),
    _flag(
        "sessions.required",
        False,
        "Refuse to open or continue a session while state.db is locked or damaged, instead of storing it later.",
    ),
    _text(
        "storage.url",
        "",
        "PostgreSQL database that keeps people's data instead of the home: postgresql://LOGIN@HOST/DATABASE. "
        "`hermes storage init` prepares it. With a password, put it into .env as HERMES_STORAGE_URL.",
    ),
    _flag("sessions.auto_prune", False, "Remove ended sessions that are older than the retention."),
    _integer("sessions.retention_days", 90, "Days an ended session is kept when pruning.", low=1),
    _flag("sessions.vacuum_after_prune", True, "Give disk space back after pruning."),
    _integer("sessions.min_interval_hours", 24, "Hours between two automatic prunes.", low=1),
    _flag(
        "sessions.write_json_snapshots",
        False,
        "Of hermes-agent, kept and not used; see `hermes sessions export`.",
    ),
    _choice(
        "recall.semantic",
        "auto",
        ("auto", "on", "off"),
        "Search past conversations by meaning too; auto does so where the extra `semantic` is installed.",
    ),
    _choice("session_reset.mode", "none", ("none", "idle", "daily", "both"), "When a chat starts over by itself."),
    _integer("session_reset.at_hour", 4, "Hour of the daily reset.", high=23),
    _integer("session_reset.idle_minutes", 1440, "Minutes without a message before an idle reset.", low=1),
    _flag("session_reset.notify", True, "Tell the person when a chat starts over."),
    _integer("session_reset.bg_process_max_age_hours", 24, "Of hermes-agent, kept and not used."),
    _integer("delegation.max_iterations", 50, "Model calls a delegated task may make.", low=1, high=10_000),
    _integer("delegation.max_concurrent_children", 3, "Delegated tasks at the same time.", low=1, high=100),
    _integer("delegation.max_spawn_depth", 1, "How deep delegated tasks may delegate.", low=0, high=10),
    _integer("delegation.max_summary_chars", 24000, "Characters of a delegated task's answer that are kept.", low=100),
    _integer("delegation.child_timeout_seconds", 0, "Seconds a delegated task may take; 0 for no limit."),
    _flag("delegation.orchestrator_enabled", True, "Allow delegated tasks that delegate themselves."),
    _flag("delegation.subagent_auto_approve", False, "Approve commands of delegated tasks without asking."),
    _flag("delegation.inherit_mcp_toolsets", True, "Give delegated tasks the tools of the connected MCP servers."),
    _choice(
        "display.memory_notifications",
        "on",
        ("off", "on", "verbose"),
        "Say when the background review saved something.",
    ),
    _flag("display.receipts", False, "Show one line of the receipt below each answer in the chat."),
    _flag("review.enabled", True, "Look back over a conversation in the background and save what is worth keeping."),
    _integer("review.max_calls", 16, "Model calls one background review may make.", low=1, high=100),
    _integer(
        "review.max_tokens", 60_000, "Tokens one review may cost, a cached one counted as a tenth; 0 for no limit."
    ),
    _integer("review.daily_tokens", 1_000_000, "Tokens all reviews of a day may cost; 0 for no limit."),
    _number("review.close_seconds", 5, "Seconds a review may go on while the program wants to end.", high=600),
    _integer(
        "background.tokens_per_day",
        2_000_000,
        "Tokens that reviews, curation, digests, notes and titles may take in a day, a cached one counted as a tenth; "
        "0 for no limit.",
    ),
    _number("background.cost_per_day", 0, "Dollars they may cost in a day, where prices are known; 0 for no limit."),
    _integer(
        "background.alarm_after",
        10,
        "Runs of the review or the curator in a row that cost tokens and change nothing, after which status and doctor "
        "say so; 0 for never.",
    ),
    _integer("agent.max_turns", 90, "Model calls one user turn may make.", low=1, high=10_000),
    Key(
        name="context_file_max_chars",
        kind="integer",
        default=None,
        help="Characters of a project context file that enter the prompt.",
        low=100,
        high=10_000_000,
        optional=True,
    ),
    _integer("file_read_max_chars", 100_000, "Characters a file tool returns at most.", low=1000),
    Key(
        name="timezone", kind="zone", default="", help="Time zone for dates in the prompt; empty for the machine's own."
    ),
    _integer("tool_output.max_bytes", 50_000, "Bytes of a tool's output that are kept.", low=1000),
    _integer("tool_output.max_lines", 2000, "Lines of a tool's output that are kept.", low=10),
    _integer("tool_output.max_line_length", 2000, "Characters of one line of a tool's output that are kept.", low=80),
    _text(
        "model.default", "", "The model to talk to, such as anthropic/claude-sonnet or a name your local server knows."
    ),
    _text("model.provider", "", "Who serves the model; empty to decide by its name."),
    _text("model.base_url", "", "Address of an OpenAI-compatible server."),
    Key(
        name="model.context_length",
        kind="integer",
        default=None,
        help="Tokens of context the model has; null to find out.",
        low=1_000,
        high=100_000_000,
        optional=True,
    ),
    Key(
        name="model.vision",
        kind="flag",
        default=None,
        help="Whether the model takes images; null to decide by its name. Without vision it gets a short description.",
        optional=True,
    ),
    _number("model.timeout", 600, "Seconds to wait for the next byte of an answer.", low=1, high=86_400),
    _mapping("model.extra_body", "More fields for requests to the model, as its provider names them."),
    _mapping(
        "model.prices",
        "Dollars for a million tokens, by model: `{my-model: {input: 3, output: 15, cache_read: 0.3}}`.",
    ),
    _texts("fallback_models", "Models to ask, in this order, when the model cannot answer."),
    _integer(
        "model.threads", 0, "Threads of the embedded model; 0 to decide by how busy the machine is.", low=0, high=256
    ),
    _text("server.host", "127.0.0.1", "Address `hermes serve` listens on."),
    _integer("server.port", 8484, "Port `hermes serve` listens on.", low=1, high=65535),
    _texts("server.hosts", "Names under which the server is reached, besides this machine's own; others are refused."),
    _texts(
        "server.origins",
        "Web pages whose scripts may call the server (CORS), such as https://chat.example.org; `*` for any.",
    ),
    _texts("server.models", "More models that clients of the server may name, besides the default one."),
    _mapping(
        "server.model_aliases",
        "Other names for `hermes` and the models of server.models: `{gpt-4o: hermes, 'claude-*': hermes}`.",
    ),
    _integer("server.requests_per_minute", 600, "Requests one person may make in a minute.", low=1, high=1_000_000),
    _integer("server.max_body_mb", 10, "Megabytes a request to the server may have.", low=1, high=1000),
    _integer("server.workers", 256, "Conversations the server answers at the same time.", low=1, high=4096),
    _integer(
        "server.turns_per_person", 64, "Turns of one person the server answers at the same time.", low=1, high=4096
    ),
    _integer("server.open_conversations", 512, "Conversations the server keeps open.", low=1, high=100_000),
    _integer("server.turn_timeout", 600, "Seconds a turn over HTTP may take.", low=1, high=86_400),
    _integer("server.drain_seconds", 30, "Seconds the server waits for running turns when it is stopped.", high=3600),
    *_GATEWAY_KEYS,
    _mapping("plugins", "Settings of plug-ins, by their names."),
    _mapping("honcho", "Settings of the Honcho provider, as hermes-agent keeps them."),
    _mapping("mcp_servers", "MCP servers whose tools the agent may use."),
    _mapping("enabled_toolsets", "Toolsets by platform: only these are on there; `default` stands for all others."),
    _mapping("disabled_toolsets", "Toolsets by platform that are off there; `default` stands for all of them."),
    _choice("terminal.policy", "ask", ("ask", "allow", "deny"), "Whether the agent may run commands."),
    _integer("terminal.timeout", 180, "Seconds a command may take unless the call says otherwise.", low=1, high=3600),
    _texts("terminal.pass_environment", "Variables that look like secrets and are given to commands all the same."),
    _texts("command_allowlist", "Commands, or how they begin, that run without asking."),
    _choice("files.outside", "ask", ("ask", "allow", "deny"), "File tools on paths outside the working folder."),
    _texts("files.allowed_folders", "Folders that file tools may use like the working folder."),
    _flag("web.allow_private_addresses", False, "Let the agent fetch from this machine and the local network."),
    _integer("web.max_bytes", 2_000_000, "Bytes of a page that are fetched at most.", low=1000, high=1_000_000_000),
    _number("web.timeout", 30, "Seconds a page may take.", low=1, high=600),
    _mapping("platform_hints", "What the prompt says about a platform instead: a text, or `{append: …}` to extend it."),
    _integer("_config_version", 0, "Written by hermes-agent; kept and not used."),
)

# Each helper task has the same block: `auxiliary.compression.model`, `auxiliary.curator.timeout`, …
TASKS = {
    "compression": 120,
    "background_review": 120,
    "title_generation": 30,
    "memory_query_rewrite": 8,
    "session_search": 90,
    "curator": 600,
}

# Settings that let something run, reach out or be reached, each with further values that do no harm. What an import
# or a restore brings of these stays disabled until the person agrees (`portability/consent`); a new one belongs here.
ENABLING: dict[str, tuple[str, ...]] = {
    "terminal.policy": ("ask", "deny"),
    "files.outside": ("ask", "deny"),
    "memory.untrusted_writes": ("stage", "refuse"),
    "memory.capture": ("off", "stage"),
    **dict.fromkeys(
        (
            *("command_allowlist", "terminal.pass_environment", "files.allowed_folders", "memory.linked_folders"),
            *("delegation.subagent_auto_approve", "web.allow_private_addresses", "skills.external_dirs"),
            *("mcp_servers", "memory.provider", "memory.providers", "memory.provider_process", "context.engine"),
            *("model.base_url", *(f"auxiliary.{task}.base_url" for task in TASKS)),
            *("server.host", "server.hosts", "server.origins", "gateway.host", "gateway.people"),
            *("gateway.telegram.enabled", "gateway.telegram.api_url"),
            *("gateway.webhook.enabled", "gateway.webhook.reply_url", "storage.url"),
        ),
        (),
    ),
}


def _task_keys() -> tuple[Key, ...]:
    keys: list[Key] = []
    for task, seconds in TASKS.items():
        block = f"auxiliary.{task}"
        keys += [
            _flag(f"{block}.enabled", True, f"Use a helper model for {task}."),
            _text(f"{block}.provider", "auto", f"Who serves the helper model for {task}."),
            _text(f"{block}.model", "", f"The helper model for {task}; empty for the main model."),
            _text(f"{block}.base_url", "", f"Address of the server of the helper model for {task}."),
            _text(f"{block}.api_key", "", f"Key for the helper model for {task}; better kept in .env."),
            _number(f"{block}.timeout", seconds, f"Seconds the helper model for {task} may take.", low=1, high=3600),
            _text(f"{block}.reasoning_effort", "", f"How hard the helper model for {task} should think."),
            _text(f"{block}.language", "", f"Language the helper model for {task} should write."),
            _mapping(f"{block}.extra_body", f"More fields for requests to the helper model for {task}."),
        ]
    return tuple(keys)


def all_keys() -> dict[str, Key]:
    return {key.name: key for key in KEYS + _task_keys()}


# Whether a value may stand at a key, and what to say when it may not.

_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def problem_with(key: Key, given: Any) -> str:
    """Empty when the value is right, else what was expected."""
    if given is None and (key.optional or key.kind == "mapping"):
        return ""
    fits = {
        "flag": lambda: isinstance(given, bool),
        "integer": lambda: isinstance(given, int) and not isinstance(given, bool),
        "number": lambda: isinstance(given, int | float) and not isinstance(given, bool) and given == given,  # noqa: PLR0124 - NaN
        "text": lambda: isinstance(given, str),
        "zone": lambda: isinstance(given, str) and _is_zone(given),
        "choice": lambda: given in key.choices if isinstance(given, str) else False,
        "texts": lambda: isinstance(given, list | tuple) and all(isinstance(item, str) for item in given),
        "mapping": lambda: isinstance(given, dict) and _can_be_sent(given),
    }[key.kind]()
    in_range = not fits or not isinstance(given, int | float) or isinstance(given, bool) or _within(key, given)
    return "" if fits and in_range else f"expected {key.expected}, found {given!r}"


def _is_zone(name: str) -> bool:
    from zoneinfo import ZoneInfo

    try:
        return name == "" or bool(ZoneInfo(name).key)
    except (ValueError, OSError, KeyError):  # a path, a folder, or a name nobody knows
        return False


def _can_be_sent(given: Any) -> bool:
    """Whether JSON can hold it: YAML has dates and sets as well, which no model and no cache would take."""
    if isinstance(given, dict | list):
        return all(map(_can_be_sent, given.values() if isinstance(given, dict) else given))
    return given is None or isinstance(given, str | int) or (isinstance(given, float) and given - given == 0)


def _within(key: Key, given: float) -> bool:
    return (key.low is None or given >= key.low) and (key.high is None or given <= key.high)


def from_words(key: Key, words: str) -> Any:
    """The value a person meant on the command line; unreadable words come back as they are, for `problem_with`."""
    plain = words.strip()
    if key.optional and plain.lower() in ("null", "none", ""):
        return None
    if key.kind == "flag":
        return _WORDS.get(plain.lower(), words)
    if key.kind in ("integer", "number"):
        for read in (int, float) if key.kind == "number" else (int,):
            try:
                return read(plain.replace("_", ""))
            except ValueError:
                continue
        return words
    if key.kind == "texts" and plain[:1] not in ("[", '"', "'"):  # else as YAML or JSON, which `yaml_file` reads
        return [item.strip() for item in plain.split(",") if item.strip()]
    return words


# Settings people guess, and what they want. A name that ends in a word of `_SECRETS` is a key.
_SECRETS = ("api_key", "apikey", "key", "token", "secret", "password")
_GUESSED = {
    "model": "did you mean model.default?",
    "model.name": "did you mean model.default?",
    "model.model": "did you mean model.default?",
    "model.id": "did you mean model.default?",
    "model.url": "did you mean model.base_url?",
    "model.api_base": "did you mean model.base_url?",
    "model.endpoint": "did you mean model.base_url?",
    "model.temperature": "put it into model.extra_body, as in '{\"temperature\": 0.2}'",
    "model.max_tokens": "put it into model.extra_body, as in '{\"max_tokens\": 4000}'",
    "model.top_p": "put it into model.extra_body, as in '{\"top_p\": 0.9}'",
    "model.context_window": "did you mean model.context_length?",
    "provider": "did you mean model.provider (who serves the model) or memory.provider (external memory)?",
    "memory.limit": "did you mean memory.memory_char_limit or memory.user_char_limit?",
    "memory.size": "did you mean memory.memory_char_limit or memory.user_char_limit?",
    "gateway.telegram.token": "it is the line TELEGRAM_BOT_TOKEN=… of .env, beside config.yaml",
    "gateway.telegram.bot_token": "it is the line TELEGRAM_BOT_TOKEN=… of .env, beside config.yaml",
    "server.cors": "did you mean server.origins?",
    "server.cors_origins": "did you mean server.origins?",
}


def setting_hint(name: str, names: Iterable[str]) -> str:
    """What to say about a setting that does not exist: where keys are kept, or the nearest name."""
    plain = name.lower()
    if plain in _GUESSED:
        return f"; {_GUESSED[plain]}"
    words = plain.replace(".", "_").replace("-", "_")
    if any(words == secret or words.endswith(f"_{secret}") for secret in _SECRETS):
        return (
            "; keys are kept in .env beside config.yaml: `hermes setup` asks for the model's and tries it, any other "
            "is a line NAME=value there"
        )
    return nearest(name, names)


def nearest(name: str, names: Iterable[str]) -> str:
    """A hint such as `; did you mean memory.provider?`, or nothing."""
    import difflib

    known = list(names)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if not close:  # the right word under the wrong heading, such as `nudge_interval` at the top
        last = name.rpartition(".")[2]
        close = [key for key in known if key.rpartition(".")[2] == last][:1]
    return f"; did you mean {close[0]}?" if close else ""
