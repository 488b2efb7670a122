"""Curated memory (L1): MEMORY.md, USER.md and the memory tool."""

REQUIREMENTS: dict[str, tuple[str, str]] = {
    "curated.files": (
        "entries live in memories/MEMORY.md and USER.md, joined by newline-§-newline",
        "003 Built-In Memory Files",
    ),
    "curated.limits": (
        "the files hold 2,200 and 1,375 characters by default; settings change that",
        "003 Built-In Memory Files",
    ),
    "curated.missing": (
        "a missing file reads as no entries; the folder is made on the first write",
        "003 Failure Modes",
    ),
    "curated.disabled": ("a switched-off store is not shown, and the tool says it is unavailable", "003 Failure Modes"),
    "curated.snapshot": (
        "the snapshot has a header with percentage and characters, and is empty without entries",
        "000 Frozen snapshot",
    ),
    "curated.frozen": (
        "a write during a session leaves its snapshot unchanged; the next session sees it",
        "000 Frozen snapshot",
    ),
    "curated.live": ("tool results show the live entries and usage", "003 Memory Store"),
    "curated.schema": ("the tool has add, replace and remove on memory and user, and no read", "003 Memory Tool"),
    "curated.add": ("add appends an entry", "003 Memory Tool"),
    "curated.replace": ("replace changes the one entry that contains a text", "003 Memory Tool"),
    "curated.remove": ("remove takes the one entry that contains a text away", "003 Memory Tool"),
    "curated.numbers": (
        "`memory show`, `replace`, `remove` and `pin` take the numbers of `memory list`; --text means the text",
        "product",
    ),
    "curated.show": ("`memory show` prints one entry whole, with its origin, date and last use", "product"),
    "curated.too-long": ("an entry longer than the limit is told its own length and the limit", "product"),
    "curated.batch": ("operations happen all or not at all; the budget is checked on the final state", "product"),
    "curated.duplicate": ("an exact duplicate is a success that says nothing was added", "003 Failure Modes"),
    "curated.no-match": ("a text no entry contains is refused with the current entries", "003 Matching Semantics"),
    "curated.ambiguous": (
        "several different matches are refused with previews; identical ones count as one",
        "003 Failure Modes",
    ),
    "curated.full": ("a write over the limit is refused with the current entries and usage", "003 Capacity Behavior"),
    "curated.stop": ("a model that keeps being refused in one turn is told to stop", "product"),
    "curated.drift": (
        "a file changed in another form is backed up once and the write refused with instructions",
        "003 Drift Detection",
    ),
    "curated.rot": ("a flipped bit in a memory file is told from an edit and reported", "issue 30"),
    "curated.adopt": ("a person can accept a drifted file; its bytes stay in a backup", "product"),
    "curated.delimiter": ("an entry that contains the delimiter is refused", "product"),
    "curated.not-text": ("NUL characters and lone surrogates are refused by name and position", "product"),
    "curated.hand-edit": ("entries a person adds with an editor or a shell are kept and recorded", "product"),
    "curated.fields": ("wrong arguments are answered with the name of the wrong field", "product"),
    "curated.history": ("every change is recorded with who, when, session, before and after", "product"),
    "curated.undo": ("any change can be undone, an undo too, byte for byte", "product"),
    "curated.diff": ("a person sees what one change did, or everything since", "product"),
    "curated.reset": ("forgetting everything asks first and can be undone", "product"),
    "curated.approval": (
        "with write approval on, a write is checked, staged, and carried out or thrown away by a person",
        "003 Memory Tool",
    ),
    "curated.approval-closed": (
        "a write that would be refused is not staged, and unreadable settings stop the tool",
        "product",
    ),
    "curated.status": ("the status tells files, usage, pending writes and problems", "product"),
    "curated.json": ("each listing command prints JSON on request", "product"),
    "curated.unreadable": ("an unreadable file is said to be unreadable, never shown as empty", "product"),
    "curated.links": (
        "a link that leads out of the home is refused; one inside, or to another home's memory, is followed",
        "product",
    ),
}
