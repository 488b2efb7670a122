"""The session: a prompt that never moves, messages kept as they happen."""

REQUIREMENTS: dict[str, tuple[str, str]] = {
    "session.front-door": ("a host prepares a turn, calls tools and finishes the turn through one object", "product"),
    "session.async": (
        "a program on asyncio uses a session without threads of its own; a cancelled call is safe",
        "issue 31",
    ),
    "session.adapters": ("a framework that keeps the history itself gets history, memory and tools", "issue 31"),
    "session.frozen-prompt": ("the system prompt is built once, stored and reused as it is", "004 Prompt assembly"),
    "session.prefix": ("every request of a session extends the one before it", "002 The economics of the prefix cache"),
    "session.resume": ("a resumed session sends the same bytes again, then goes on", "004 Prompt assembly"),
    "session.transcript": ("every message, call and result is stored as it happens", "002 Lifecycle"),
    "session.power-cut": (
        "the person's message and tool results survive a power cut when they are recorded",
        "issue 30",
    ),
    "session.request-time": (
        "what a request adds touches neither stored prompt nor stored message",
        "004 Prompt assembly",
    ),
    "session.announce": ("memory changed by others is announced once, after the prefix", "product"),
    "session.fence": ("recalled memory is fenced on a copy of the user's message", "003 Memory Context Fencing"),
    "session.order": ("a history whose calls and results got out of order is sent in order", "product"),
    "session.misuse": ("calls in the wrong order are refused with what to do; a turn that failed is marked", "product"),
    "session.open-calls": ("a call that never returned gets a result that says so; history stays valid", "product"),
    "session.interrupted": ("an interrupted turn is marked", "003 Interrupted Turns"),
    "session.usage": ("tokens and the share read from the cache are recorded per turn and session", "product"),
    "session.hints": ("notes of a sub-directory follow the tool result that leads there, once", "004 Prompt assembly"),
    "session.notices": ("what the person should know reaches them once and never the model", "product"),
    "session.skip": ("delegated work can leave out memory and context files", "004 Prompt assembly"),
    "session.ended": ("a closed conversation counts as ended until it is resumed; a platform's goes on", "product"),
}
