"""Standing rules of the person: heard, kept, brought up when they apply."""

REQUIREMENTS: dict[str, tuple[str, str]] = {
    "rules.heard": (
        "a standing instruction is recognised in what the person says and kept with its trigger",
        "product",
    ),
    "rules.fire": ("a rule reaches the model when its trigger matches a message or a call, within a budget", "product"),
    "rules.enforce": ("a rule can tell the model, hold a call back until it was read, or ask the person", "product"),
    "rules.trust": ("only the person's own words make a rule; everything else waits for approval", "product"),
    "rules.commands": ("`hermes rules` lists, adds, tests, switches and removes rules, with --json", "product"),
    "rules.sets": ("rules and calls of several authors: 90 % recognised, 95 % fire, at most 2 % of others", "product"),
}
