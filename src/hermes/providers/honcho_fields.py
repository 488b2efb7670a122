"""What `honcho` asks at set-up and reads from its file, and the tools it offers."""

from __future__ import annotations

from typing import Any

from hermes.providers.honcho_api import CLOUD, LEVELS
from hermes.providers.service import tool

STRATEGIES = ("per-directory", "per-session", "per-repo", "global")
_PEER = {"type": "string", "description": "user (default), ai, or the id of a peer."}

FIELDS: tuple[dict[str, Any], ...] = (
    {
        "key": "baseUrl",
        "description": "Address of the cloud, or of your server",
        "default": CLOUD,
        "env_var": "HONCHO_BASE_URL",
    },
    {
        "key": "apiKey",
        "description": "API key (a server of your own may have none)",
        "secret": True,
        "env_var": "HONCHO_API_KEY",
        "url": "https://app.honcho.dev",
    },
    {"key": "workspace", "description": "Workspace", "default": "hermes"},
    {"key": "peerName", "description": "Your name as a peer", "default": "user"},
    {"key": "aiPeer", "description": "The assistant's name as a peer", "default": "hermes"},
    {
        "key": "sessionStrategy",
        "description": "What a Honcho session is",
        "default": "per-directory",
        "choices": list(STRATEGIES),
    },
    {
        "key": "recallMode",
        "description": "Recall by itself and tools, recall only, or tools only",
        "default": "hybrid",
        "choices": ["hybrid", "context", "tools"],
    },
    *(
        {"key": key, "file_only": True, "description": description, "default": default}
        for key, description, default in (
            ("environment", "production, or local for http://localhost:8000", "production"),
            ("observationMode", "directional (the assistant's view of you) or unified (one view)", "directional"),
            ("observation", "What peers observe: {user: {observeMe, observeOthers}, ai: {…}}", {}),
            ("pinUserPeer", "One user peer also in a gateway (everybody shares a memory)", False),
            ("userPeerAliases", "Peers of known users: {user_id: peer}", {}),
            ("runtimePeerPrefix", "Before a gateway user's id", ""),
            ("sessions", "Names of sessions by directory", {}),
            ("sessionPeerPrefix", "Your peer's name before that of a session", False),
            ("saveMessages", "Store turns", True),
            ("writeFrequency", "async or turn (every turn), session (at its end), or a number of turns", "async"),
            ("messageMaxChars", "Longest message; longer ones are split", 25_000),
            ("contextTokens", "Tokens of the session's summary and messages", 1000),
            ("contextCadence", "Turns between two looks at what is known", 1),
            ("dialecticCadence", "Turns between two questions to Honcho's reasoning", 1),
            ("dialecticDepth", "Questions in a row, 1 to 3", 1),
            ("dialecticDepthLevels", "The level of each of them", []),
            ("dialecticReasoningLevel", f"One of {', '.join(LEVELS)}", "low"),
            ("dialecticDynamic", "The model may choose the level of its own questions", True),
            ("dialecticMaxChars", "Longest answer that is added to a turn", 600),
            ("dialecticMaxInputChars", "Longest question", 10_000),
            ("reasoningHeuristic", "A higher level for longer messages", True),
            ("reasoningLevelCap", "The highest level that may choose", "high"),
            ("injectionFrequency", "every-turn or first-turn", "every-turn"),
            ("firstTurnBaseWait", "Seconds the first turn waits for what is known", 3.0),
            ("firstTurnDialecticWait", "Seconds it waits for the reasoning", 2.0),
        )
    ),
    {
        "key": "timeout",
        "file_only": True,
        "description": "Seconds for a call that nobody waits for",
        "default": 30.0,
        "env_var": "HONCHO_TIMEOUT",
    },
)
TOOLS: tuple[dict[str, Any], ...] = (
    tool(
        "honcho_profile",
        "Shows a peer's card (key facts), or sets it.",
        peer=_PEER,
        card={"type": "array", "items": {"type": "string"}, "description": "The new card, all of it."},
    ),
    tool(
        "honcho_search",
        "Finds what is known and what was said.",
        ["query"],
        query="string",
        max_tokens={"type": "integer", "description": "Default 800, at most 2000."},
        peer=_PEER,
    ),
    tool(
        "honcho_reasoning",
        "Asks Honcho's reasoning about a peer; slower.",
        ["query"],
        query="string",
        reasoning_level={"type": "string", "enum": list(LEVELS)},
        peer=_PEER,
    ),
    tool("honcho_context", "Summary, what is known, card and recent messages.", peer=_PEER),
    tool(
        "honcho_conclude",
        "Keeps a conclusion about a peer, lists them with ids, or deletes one. Give exactly one of the three.",
        conclusion="string",
        delete_id="string",
        list="boolean",
        query={"type": "string", "description": "With list: only what fits."},
        peer=_PEER,
    ),
)
