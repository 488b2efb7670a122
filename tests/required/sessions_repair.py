"""Damage, durability, repair and isolation of `state.db`, and databases of hermes-agent."""

REQUIREMENTS: dict[str, tuple[str, str]] = {
    "repair.foreign-refused": (
        "a hermes-agent database in our place is left untouched and refused with the command that adopts it",
        "product",
    ),
    "repair.foreign-import": (
        "sessions, messages, flags, titles and lineage of any hermes-agent layout come over",
        "product",
    ),
    "repair.foreign-once": ("a second import adds only what was written since the first", "product"),
    "repair.foreign-read-only": ("reading a foreign database alters no byte of it", "product"),
    "repair.foreign-adopt": ("adopting keeps the original file beside ours", "product"),
    "repair.foreign-search": ("what hermes-agent's own search misses is found after an import", "product"),
}
