"""The agent: models from settings, turns that are stored as they happen, tools with limits and policies."""

REQUIREMENTS: dict[str, tuple[str, str]] = {
    "agent.turn": ("a turn yields events, ends with TurnFinished and is stored when that is given out", "product"),
    "agent.interrupt": (
        "a stopped turn is marked and the conversation goes on",
        "003 Interrupted Turns",
    ),
    "agent.reasoning": ("the reasoning of every message is stored and goes back as the wire wants it", "product"),
    "agent.outside": ("a call of a client's own function ends the turn, which goes on with its result", "product"),
    "agent.models": ("main model, fallback and helper models come from the settings with their keys", "product"),
    "agent.scripted": (
        "a scripted model can be chosen in the settings, so whole processes can be tested",
        "product",
    ),
}
