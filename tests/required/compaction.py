"""Compaction of a session: when it happens, what it keeps, and that nothing can be lost on the way."""

REQUIREMENTS = {
    "compaction.in-place": (
        "By setting, a session is compacted under the same id and the old rows are archived",
        "product; 001 Dual compression system",
    ),
    "compaction.split": (
        "The old session ends with `compression`; a child with parent_session_id and a numbered title goes on",
        "002 Context compression and session splitting",
    ),
    "compaction.reachable": ("Search, scroll, read and context_expand reach every compacted message", "product"),
    "compaction.expand.own": ("context_expand shows nothing of another conversation", "product"),
    "compaction.restore": ("`hermes sessions restore` rebuilds the uncompacted conversation", "product"),
    "compaction.undo": (
        "What is taken back after a compaction leaves context, search and restore; nothing else does",
        "product",
    ),
    "compaction.branch": ("A branch of a compacted conversation can be restored and expanded like it", "product"),
    "compaction.range": ("The model may put away a range, with the same guarantees", "product"),
    "compaction.thrift": ("What would not become smaller is not compacted, whoever asks", "product"),
    "compaction.threshold": ("In the loop, what the provider counted decides", "001 Agent ContextCompressor"),
    "compaction.no-pressure": ("The model is never warned about a filling window", "001 Context pressure warnings"),
    "compaction.ladder": ("Helper, main model, then an extract; a failure is never a silent drop", "product"),
    "compaction.cooldown": ("A model that failed rests, also after a restart", "product"),
    "compaction.too-long": ("A request a model refuses as too long is sent again shorter", "product"),
    "compaction.window": ("What a provider said fits its model is known after a restart", "product"),
    "compaction.hygiene": (
        "Before a message is handled: 85 % of the window or a limit of messages, four messages, compaction enabled",
        "001 Gateway session hygiene",
    ),
    "compaction.hooks": (
        "on_pre_compress, on_session_end for the old session, on_session_switch with reason compression, in this order",
        "003 Session Lifecycle and Compression",
    ),
    "compaction.reinjected": ("Curated memory and instructions come from their source after a compaction", "product"),
    "compaction.prefix": ("A compaction moves the prefix once, marked; then it is stable again", "product"),
    "compaction.recall": ("What was recalled for a turn is not taken into a summary", "product"),
    "compaction.breaker": (
        "Compaction that does not help stops, also after a restart; a person may still ask",
        "product",
    ),
    "compaction.lease": ("Two processes cannot compact one session at once; a dead one holds nothing", "product"),
    "compaction.elsewhere": ("What another process made of the session is taken over, not overwritten", "product"),
    "compaction.engine": (
        "The engine that context.engine names compacts, tracks tokens and offers tools in a session",
        "001 Pluggable context engine",
    ),
    "compaction.engine.fallback": (
        "An engine that is missing, fails or returns no history leaves the built-in one, with a notice",
        "001 Pluggable context engine",
    ),
    "compaction.lcm": ("lcm keeps a graph of summaries and leads from it to every message", "product"),
    "compaction.kill": ("Killed at any point, the session is before or after a compaction, never between", "product"),
    "compaction.histories": ("Any history stays valid, reachable and restorable after two compactions", "product"),
    "compaction.ahead": ("No turn waits for a compaction unless the window is full; it is prepared before", "product"),
    "compaction.ahead.checked": ("A name the agent uses meanwhile is in the block, or it is made again", "product"),
    "compaction.ledger": ("Files changed and commands run are listed exactly, through every compaction", "product"),
    "compaction.notice": ("One notice per compaction tells the person what was kept", "product"),
}
