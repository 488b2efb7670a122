"""Commands that show what a session gets and how the home fares."""

REQUIREMENTS: dict[str, tuple[str, str]] = {
    "prompt.command": (
        "`hermes prompt` prints the prompt a session would get with the size of each section",
        "product",
    ),
    "prompt.diff": ("`hermes prompt --diff SESSION` shows what a new session would see differently", "product"),
    "skills.command": ("`hermes skills list|show|path` shows the procedures to a person", "product"),
    "skills.in-session": ("the skill tools are in every session and their index in its prompt", "004 Prompt assembly"),
    "status.command": (
        "`hermes status` tells memory, sessions, growth, cache share, engine and breaker in one screen",
        "product",
    ),
    "session.cache-miss": ("what broke the prefix cache is recorded when little came from it", "product"),
}
