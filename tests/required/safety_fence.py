"""Fences around recalled memory: in a prompt, in stored text, in a streamed answer."""

REQUIREMENTS: dict[str, tuple[str, str]] = {
    "fence.shape": (
        "recalled text is wrapped in tags with a note that it is memory and no instruction; nothing stays nothing",
        "003 Memory Context Fencing",
    ),
    "fence.nonce": ("both tags carry a nonce drawn per call, and no text inside can close its own fence", "product"),
    "fence.clean": ("cleaning removes whole fenced blocks, note lines and stray tags", "003 Memory Context Fencing"),
    "fence.legacy": ("the fences and both notes of hermes-agent are recognised", "003 Memory Context Fencing"),
    "fence.forms": ("a tag may be in any case, hold blanks and attributes, or be split by another tag", "product"),
    "fence.final": ("cleaning twice changes nothing more, and takes linear time on any text", "product"),
    "fence.outer": ("text outside fences is preserved byte for byte", "product"),
    "fence.hidden": (
        "nothing is visible in a stream of a fence that starts a line",
        "003 Context Scrubbing",
    ),
    "fence.cuts": (
        "what is visible does not depend on how the stream was cut into chunks",
        "003 Memory Context Fencing",
    ),
    "fence.unterminated": ("a span that never ends is discarded on flush", "003 Memory Context Fencing"),
    "fence.mention": (
        "a tag inside a line is shown and hides nothing, so an answer about fences can be read",
        "issue First day",
    ),
}
