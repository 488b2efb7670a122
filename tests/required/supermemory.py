"""supermemory, beyond what every service does."""

REQUIREMENTS: dict[str, tuple[str, str]] = {
    "supermemory.generations": ("both generations of its API work behind one probe", "product"),
    "supermemory.tools": ("store, search, forget and profile, with the documents' results", "003"),
    "supermemory.capture": ("capture off means off; a conversation is sent under one id and not again", "product"),
    "supermemory.stripped": ("recalled text is taken out of captured turns", "003 Bundled Providers"),
    "supermemory.containers": ("several containers, and only those that are allowed", "003 Bundled Providers"),
    "supermemory.profile": ("the profile is recalled on the first turn and then now and again", "003"),
}
