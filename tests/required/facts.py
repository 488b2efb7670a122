"""Facts that change (issue 32): a correction takes the place of what it replaces."""

REQUIREMENTS: dict[str, tuple[str, str]] = {
    "facts.corrections": (
        "hand-written corrections of everyday facts are recognised in search and memory; similar facts stay apart",
        "product",
    ),
    "facts.supersede": ("a correction takes the place of the entry it replaces, after the prefix", "product"),
    "facts.history": ("what an entry took the place of is one step away, with its dates, and can be undone", "product"),
    "facts.conflicts": ("entries that may contradict each other are shown side by side and settled", "product"),
    "facts.trust": ("text from outside never supersedes what the person said", "product"),
    "facts.search": ("search shows the current statement first and folds the outdated one to its date", "product"),
    "facts.consolidation": ("FactConsolidation is measured by `hermes bench facts FILE`", "product"),
}
