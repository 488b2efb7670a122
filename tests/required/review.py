"""Nudges and the background review."""

REQUIREMENTS: dict[str, tuple[str, str]] = {
    "nudge.interval": ("a review is due after the set number of user turns or tool calls", "003 Memory Nudge"),
    "nudge.survives": ("the counts survive a resume and a fresh process", "003 Memory Nudge"),
    "nudge.reset": ("a model that saves by itself is not reminded", "003 Memory Nudge"),
    "review.after": ("the review runs after the answer is delivered and never in its way", "003 Memory Nudge"),
    "review.prefix": (
        "it sends the parent's prompt, tools and messages byte for byte, and one message more",
        "003 Memory Nudge and Background Review",
    ),
    "review.isolation": (
        "no text of a review reaches a provider, the transcript, search or the next prompt",
        "003 Background Review Isolation",
    ),
    "review.toolbox": ("only memory and skill tools run; approvals are denied", "003 Background Review"),
    "review.origin": ("its writes are stamped as the review's, and wait when text from outside was seen", "product"),
    "review.notice": ("one line tells the person what was saved: off, on or verbose", "product"),
    "review.failure": ("a failing review is logged and shown by status, never in the turn", "003 Failure Modes"),
    "review.cost": ("calls and tokens of a review, and tokens of a day, are limited by settings", "product"),
    "background.budget": (
        "reviews, curation, digests, notes and titles share a budget per day, in tokens and dollars, that status shows",
        "issue 32",
    ),
    "background.waits": ("what no budget is left for waits, survives a restart and runs on another day", "issue 32"),
    "background.killed": ("a review whose process was killed is made by a later one, three times at most", "product"),
    "background.alarm": ("status and doctor tell when consolidation keeps spending and changes nothing", "issue 32"),
    "review.close": ("closing waits a bounded time for a review and then stops it", "product"),
    "review.elsewhere": ("a review by another model gets a digest and only the tools that run", "product"),
    "review.curation": ("an agent that starts runs the curator when it is due and the home was idle", "product"),
    "episode.note": ("a dated note per conversation: goal, outcome, decisions, open ends", "product"),
    "episode.search": ("notes are found with the conversations and never injected by themselves", "product"),
    "episode.model": ("a helper model's note is checked, and its failure leaves the extract", "product"),
    "episode.use": ("an entry whose words came up in a conversation counts as used", "product"),
}
