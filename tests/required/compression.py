"""Compaction of the context: engines, the default compressor, summaries that are checked, pointers back."""

REQUIREMENTS = {
    "compression.engine": (
        "An engine decides when and how to compact, tracks tokens, and may offer tools",
        "001 Pluggable context engine",
    ),
    "compression.engine.found": (
        "Engines are found in plugins/context_engine/<name>/ and through register_context_engine; never by themselves",
        "001 Pluggable context engine",
    ),
    "compression.engine.fallback": (
        "The built-in compressor is the default and what is used when another does not load",
        "001 Pluggable context engine",
    ),
    "compression.threshold": (
        "Compaction starts at threshold of the window; budgets are those of the documents",
        "001 Parameters",
    ),
    "compression.hygiene": ("The safety net needs 85 % of the window and four messages", "001 Gateway hygiene"),
    "compression.cleared": ("Old tool results over 200 characters are cleared, with a pointer", "001 Phase 1"),
    "compression.boundaries": ("Head and tail stay; a call is never separated from its results", "001 Phase 2"),
    "compression.last_request": ("The last request stays word for word, wherever it stands", "product"),
    "compression.template": ("The summary is asked for with the documents' sections and a budget", "001 Phase 3"),
    "compression.iterative": ("A later compaction updates the earlier summary", "001 Iterative recompression"),
    "compression.focus": ("A subject can be given that gets most of the room", "001 Phase 3"),
    "compression.valid": ("The result is a valid history for both formats", "001 Phase 4"),
    "compression.budget": ("The result fits its budget", "product"),
    "compression.window": ("What a summariser is sent fits its window, whatever the history", "product"),
    "compression.audit": ("An empty, cut, refusing, looping or invented summary is rejected", "product"),
    "compression.kept": ("What a summary leaves out of names, rules and decisions is kept word for word", "product"),
    "compression.ladder": ("Helper, pieces, main model, then the conversation's own words", "product"),
    "compression.extract": ("Without a model the extract says what was asked, done, decided and left open", "product"),
    "compression.pointers": ("A block names the messages it stands for", "product"),
    "compression.expand": ("context_expand brings them back, bounded", "product"),
    "compression.twice": ("Compacting again loses nothing that was kept", "product"),
    "compression.breaker": ("Compaction that does not help stops; the breaker survives restarts", "product"),
    "compression.thrift": ("A compaction that does not pay is not made", "product"),
    "compression.masked": ("A helper model of its own is shown no credentials", "product"),
    "compression.bench": ("Planted facts stay in the context or one expansion away; own cost is measured", "product"),
}
