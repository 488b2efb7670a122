"""What `openviking` asks at set-up and reads from its file, and the tools it offers."""

from __future__ import annotations

from typing import Any

from hermes.providers.service import tool

LOCAL = "http://127.0.0.1:1933"
CATEGORIES = {
    "preference": "preferences",
    "entity": "entities",
    "event": "events",
    "case": "cases",
    "pattern": "patterns",
}
LEVELS = ("abstract", "overview", "full")

FIELDS: tuple[dict[str, Any], ...] = (
    {
        "key": "endpoint",
        "description": "Address of your OpenViking server",
        "default": LOCAL,
        "env_var": "OPENVIKING_ENDPOINT",
    },
    {
        "key": "api_key",
        "description": "API key (none for a server on your own machine)",
        "secret": True,
        "env_var": "OPENVIKING_API_KEY",
    },
    {"key": "account", "description": "Account", "default": "default", "env_var": "OPENVIKING_ACCOUNT"},
    {
        "key": "user",
        "description": "User (empty with a key: the key says who)",
        "default": "",
        "env_var": "OPENVIKING_USER",
    },
    {"key": "agent", "description": "The assistant's name", "default": "hermes", "env_var": "OPENVIKING_AGENT"},
    *(
        {
            "key": key,
            "file_only": True,
            "description": description,
            "default": default,
            "env_var": f"OPENVIKING_{key.upper()}",
        }
        for key, description, default in (
            ("recall_limit", "Most memories in a turn (1 to 100)", 6),
            ("recall_score_threshold", "Leave out what fits less", 0.15),
            ("recall_max_injected_chars", "Longest recall (100 to 50,000)", 4000),
            ("recall_timeout_seconds", "Seconds a recall may take in all", 2.6),
            ("recall_full_read_limit", "Memories read in full, on servers without budgeted search", 2),
            ("recall_prefer_abstract", "Never read in full", False),
            ("recall_resources", "Recall resources too, not only memories", False),
        )
    ),
    {
        "key": "use_ovcli_config",
        "file_only": True,
        "description": "Take address, key and names from OpenViking's own file",
        "default": False,
    },
    {
        "key": "ovcli_config_path",
        "file_only": True,
        "description": "That file",
        "default": "~/.openviking/ovcli.conf",
        "env_var": "OPENVIKING_CLI_CONFIG_FILE",
    },
)
TOOLS: tuple[dict[str, Any], ...] = (
    tool(
        "viking_search",
        "Finds memories, resources and skills.",
        ["query"],
        query="string",
        mode={"type": "string", "enum": ["auto", "fast", "deep"], "description": "deep thinks about what is meant."},
        scope={"type": "string", "description": "A viking:// address to look below."},
        limit="integer",
    ),
    tool(
        "viking_read",
        "Reads one address, or up to three: short, longer, or in full.",
        uri="string",
        uris={"type": "array", "items": {"type": "string"}},
        level={"type": "string", "enum": list(LEVELS), "description": "Default overview."},
    ),
    tool(
        "viking_browse",
        "Looks around in the tree.",
        ["action"],
        action={"type": "string", "enum": ["tree", "list", "stat"]},
        path="string",
    ),
    tool(
        "viking_remember",
        "Keeps something on purpose.",
        ["content"],
        content="string",
        category={"type": "string", "enum": list(CATEGORIES)},
    ),
    tool("viking_forget", "Deletes one memory.", ["uri"], uri="string"),
    tool(
        "viking_add_resource",
        "Adds a web page or repository to the knowledge.",
        ["url"],
        url="string",
        reason="string",
        to={"type": "string", "description": "Its address in the tree (or parent)."},
        parent="string",
        instruction="string",
        wait="boolean",
        timeout="number",
    ),
)
