"""A store that is never too full, and the curator that keeps it tidy."""

REQUIREMENTS: dict[str, tuple[str, str]] = {
    "archive.full": ("a full store takes the new entry and archives the least valuable one, saying why", "product"),
    "archive.budget": ("what a prompt holds of a memory file never exceeds its limit", "product"),
    "archive.worth": ("age, use, importance and trust decide which entry leaves; pinned ones never do", "product"),
    "archive.found": ("archived entries are listed, searched, and come back by restore or by use", "product"),
    "archive.origin": ("an entry comes back from the archive with the origin it always had", "product"),
    "archive.one-change": ("the write and the entry that made room for it are one change, undone as one", "product"),
    "curator.merge": ("entries that say the same are merged; what one says more is never lost", "product"),
    "curator.supersede": ("a newer entry that says something changed replaces the older one, linked to it", "product"),
    "curator.contradiction": ("contradictions are shown to the person and resolved by nobody else", "product"),
    "curator.dates": ("relative dates are written out, counted from the day of the entry", "product"),
    "curator.categories": ("categories are kept beside the entries", "product"),
    "curator.quarter": ("a run touches at most a quarter of the entries", "product"),
    "curator.proposals": ("a helper model's operations are checked; prose and inventions are refused", "product"),
    "curator.poison": ("untrusted in, untrusted out: no consolidation makes text from outside clean", "product"),
    "curator.undo": ("every run is undone byte for byte, and every entry ever acknowledged is in the log", "product"),
    "curator.commands": ("status, run, pause, resume, log and undo, with --dry-run and --json", "product"),
    "curator.schedule": ("runs by schedule and when idle; the first run waits for one interval", "product"),
    "skills.lifecycle": (
        "skills grow stale and are archived, never deleted; pinned ones stay; all come back",
        "product",
    ),
    "skills.approval": ("with skills.write_approval, changes of skills wait for a person", "product"),
}
