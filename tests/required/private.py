"""What a person marks as private."""

REQUIREMENTS: dict[str, tuple[str, str]] = {
    "private.sent": (
        "the model reads private text, with the same bytes as long as the process lives",
        "issue First day",
    ),
    "private.stored": ("no file of a home holds private text, and no search finds it", "issue First day"),
    "private.resumed": ("a resumed conversation has a placeholder in its place", "issue First day"),
    "private.unclosed": ("a tag that is not closed makes the rest private, with a notice", "issue First day"),
    "private.providers": ("external memory is never told of it", "issue First day"),
    "private.compacted": ("no summary and no helper reads it", "issue First day"),
    "private.background": ("titles and reviews are made without it", "issue First day"),
    "private.gateway": ("a message that waits on the gateway is stored without it", "issue First day"),
    "private.http": ("a client's history with private parts is recognised and stored without them", "issue First day"),
    "private.imported": ("imports and hosts' hooks leave it out", "issue First day"),
}
