"""Reminders: asked for in words, brought up once at their time or topic."""

REQUIREMENTS: dict[str, tuple[str, str]] = {
    "reminders.time": (
        "a reminder comes up once at the next turn after it is due, in the person's time zone",
        "product",
    ),
    "reminders.topic": ("a reminder can wait until a topic comes up again", "product"),
    "reminders.push": ("a running gateway sends a reminder to the person's private chat when it is due", "product"),
    "reminders.trust": ("only the person's own words set a reminder; everything else waits for approval", "product"),
    "reminders.commands": ("`hermes reminders` lists, adds, snoozes and ends reminders, with --json", "product"),
}
