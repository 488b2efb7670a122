"""Receipts: what each answer was made from, sealed."""

REQUIREMENTS: dict[str, tuple[str, str]] = {
    "receipts.record": (
        "each answer has a record of what was in front of the model, what was written, what waits and what it cost",
        "issue 32",
    ),
    "telemetry.spans": ("memory operations and receipts are OpenTelemetry spans without words", "issue 31"),
    "receipts.sealed": ("a changed, moved or missing receipt, message, answer or prompt is detected", "issue 32"),
    "receipts.travel": ("receipts verify after export, import, merge, backup and restore", "issue 32"),
    "receipts.act": (
        "from a receipt a person corrects, forgets or pins an item, or keeps it from every model and still finds it",
        "issue 32",
    ),
    "receipts.surfaces": (
        "the same record is shown by the command line, the chat, HTTP, MCP and Python; nobody sees another person's",
        "issue 32",
    ),
}
