"""Where memory comes from, and what may become memory."""

REQUIREMENTS: dict[str, tuple[str, str]] = {
    "provenance.stamped": (
        "every entry knows its origin, stamped by the program and never writable by the model",
        "product",
    ),
    "provenance.carried": ("origin is carried through replace, batch, approval, undo, export and merge", "product"),
    "provenance.shown": ("people see which entries came from outside", "product"),
    "provenance.taint": (
        "a write in a turn that text from outside has entered is staged for a person by default",
        "product",
    ),
    "provenance.host-tools": (
        "results of a host's or client's own tools, and notes in folders, count as text from outside",
        "product",
    ),
    "provenance.later": (
        "text from outside taints as long as the model has it before it, in later turns, resumed, branched, delegated",
        "product",
    ),
    "provenance.skills": (
        "a skill that text from outside may stand behind waits for a person, as memory does",
        "product",
    ),
    "provenance.poisoned-page": (
        "a web page that asks to be remembered is staged with origin and excerpt, and enters no later prompt",
        "product",
    ),
    "screening.refuse": ("a threat is refused before anything is stored", "003 Built-In Memory Content Scan"),
    "screening.ask": ("a doubtful text is staged for a person, and allowed where a person wrote it", "product"),
    "screening.secret": ("a secret is refused in memory and never shown back", "product"),
    "screening.unreviewed": (
        "a doubtful entry of unknown origin is hidden from the model until a person has accepted it",
        "product",
    ),
    "screening.load": (
        "a stored entry that is a threat shows as blocked in the prompt and stays in the file",
        "003 Failure Modes",
    ),
    "screening.split": ("splitting, prefixing, nesting or delimiter tricks reach the prompt only marked", "product"),
    "screening.closed": ("the gate fails closed when the scanner cannot load", "product"),
    "screening.command": ("`hermes scan` and `hermes memory scan` print verdicts for people and scripts", "product"),
}
