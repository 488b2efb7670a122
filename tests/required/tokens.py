"""Token estimates that know scripts."""

REQUIREMENTS = {
    "tokens.scripts": (
        "Estimates are within 15 % of o200k on prose in ten scripts, code, JSON, logs and Markdown",
        "product",
    ),
    "tokens.long": ("A long text is estimated from a part of it and stays within the same error", "product"),
    "tokens.robust": ("Any string has an estimate: at least one token unless empty, at most one per byte", "product"),
    "tokens.messages": ("A message costs its text, its calls, a fixed price per picture, and its framing", "product"),
    "tokens.import": ("The estimate needs no package and next to no import time", "product"),
}
