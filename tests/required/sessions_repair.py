"""Damage, durability, repair and isolation of `state.db`, and databases of hermes-agent."""

REQUIREMENTS: dict[str, tuple[str, str]] = {
    "repair.altered-text": ("a message whose bytes changed on disk is shown as damaged, never as genuine", "product"),
    "repair.altered-session": (
        "an altered title, prompt, owner or session of a message is not believed; nothing reaches another owner by it",
        "product",
    ),
    "repair.refuses-writing": (
        "a corrupt file is refused for writing at once, naming the command that repairs it",
        "product",
    ),
    "repair.any-damage": ("bits, pages and cuts: nothing altered is served, repair gets the rest back", "product"),
    "repair.schema": ("damage to the text of the schema is found and repaired, never a dead end", "product"),
    "repair.replaced": (
        "a database replaced under an open handle is noticed before the next acknowledgement",
        "product",
    ),
    "repair.kills": ("no acknowledged message is lost when the writer is killed; index and table agree", "product"),
    "repair.processes": ("sixteen processes write and read; no lock error reaches a caller", "product"),
    "repair.clock": ("order, neighbours and listing do not depend on the clock being right", "product"),
    "repair.owners": (
        "one owner's sessions are not reachable by another; absent and not yours look the same",
        "product",
    ),
    "repair.nothing-to-do": ("repairing a sound database changes nothing", "product"),
    "repair.keeps-original": ("a repair keeps the original bytes, privately", "product"),
    "repair.account": ("a repair says what was kept, altered and lost", "product"),
    "repair.dry-run": ("a dry run says what would be kept and changes nothing", "product"),
    "repair.lost-tables": ("messages come back when any table, page or the header is destroyed", "product"),
    "repair.truncated": ("a truncated file gives back what it still holds", "product"),
    "repair.summaries": ("the graph of summaries of the lossless engine comes back as far as it is there", "product"),
    "repair.log": ("a broken write-ahead log does not take the messages behind the break with it", "product"),
    "repair.deleted": ("what was deleted does not come back by a repair", "product"),
    "repair.index": ("an index that disagrees with the messages is found and made anew", "product"),
    "repair.alone": ("a repair does not swap a database that another program has open", "product"),
    "repair.without-wal": ("on a file system without shared memory the database works, with one warning", "product"),
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
