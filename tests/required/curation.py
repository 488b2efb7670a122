"""A store that is never too full, and the curator that keeps it tidy."""

REQUIREMENTS: dict[str, tuple[str, str]] = {
    "archive.full": ("a full store takes the new entry and archives the least valuable one, saying why", "product"),
    "archive.budget": ("what a prompt holds of a memory file never exceeds its limit", "product"),
    "archive.worth": ("age, use, importance and trust decide which entry leaves; pinned ones never do", "product"),
    "archive.found": ("archived entries are listed, searched, and come back by restore or by use", "product"),
    "archive.origin": ("an entry comes back from the archive with the origin it always had", "product"),
    "archive.one-change": ("the write and the entry that made room for it are one change, undone as one", "product"),
}
