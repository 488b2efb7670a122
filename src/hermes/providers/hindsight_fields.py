"""What `hindsight` asks at set-up and reads from its file, and the tools it offers."""

from __future__ import annotations

from typing import Any

from hermes.providers.hindsight_api import CLOUD, LOCAL, TYPES
from hermes.providers.service import tool

FIELDS: tuple[dict[str, Any], ...] = (
    {
        "key": "mode",
        "description": "Where Hindsight runs: its cloud, or a server that you started",
        "default": "cloud",
        "choices": ["cloud", "local_external"],
        "env_var": "HINDSIGHT_MODE",
    },
    {
        "key": "api_key",
        "description": "API key (a server of your own may have none)",
        "secret": True,
        "env_var": "HINDSIGHT_API_KEY",
        "url": "https://ui.hindsight.vectorize.io",
    },
    {
        "key": "api_url",
        "description": "Address of the server",
        "default_from": {"field": "mode", "map": {"cloud": CLOUD, "local_external": LOCAL, "local_embedded": LOCAL}},
        "default": CLOUD,
        "env_var": "HINDSIGHT_API_URL",
    },
    {"key": "bank_id", "description": "Memory bank", "default": "hermes", "env_var": "HINDSIGHT_BANK_ID"},
    {
        "key": "bank_id_template",
        "description": "Bank by {profile}, {workspace}, {platform}, {user} or {session}",
        "default": "",
        "file_only": True,
    },
    {"key": "bank_mission", "description": "What reflection should keep in mind", "default": ""},
    {"key": "bank_retain_mission", "description": "What to look for in conversations", "default": ""},
    {
        "key": "recall_budget",
        "description": "How thoroughly to search",
        "default": "mid",
        "choices": ["low", "mid", "high"],
        "env_var": "HINDSIGHT_BUDGET",
    },
    {
        "key": "memory_mode",
        "description": "Recall by itself and tools, recall only, or tools only",
        "default": "hybrid",
        "choices": ["hybrid", "context", "tools"],
    },
    {
        "key": "recall_prefetch_method",
        "description": "Recall facts, or a reflection prepared after the turn before",
        "default": "recall",
        "choices": ["recall", "reflect"],
    },
    *(
        {"key": key, "file_only": True, "description": description, "default": default}
        for key, description, default in (
            ("recall_types", "Kinds of memories to recall", ",".join(TYPES)),
            ("recall_tags", "Recall only what has these tags", ""),
            ("recall_tags_match", "any, all, any_strict or all_strict", "any"),
            ("recall_max_tokens", "Longest recall", 4096),
            ("recall_max_input_chars", "Longest question", 800),
            ("recall_prompt_preamble", "Heading above what is recalled", ""),
            ("auto_recall", "Recall by itself", True),
            ("auto_retain", "Store turns by itself", True),
            ("retain_every_n_turns", "Store several turns together", 1),
            ("retain_async", "Let the server work on turns in the background", True),
            ("retain_tags", "Tags for what is stored", ""),
            ("retain_source", "Where it comes from, for its metadata", "hermes"),
            ("retain_context", "What conversations are, for the extraction", "conversation with an assistant"),
            ("retain_user_prefix", "Who speaks", "User"),
            ("retain_assistant_prefix", "Who answers", "Assistant"),
            ("observation_scopes", "per_tag, combined, all_combinations or shared", ""),
        )
    ),
    {
        "key": "timeout",
        "file_only": True,
        "description": "Seconds for a call that nobody waits for",
        "default": 120.0,
        "env_var": "HINDSIGHT_TIMEOUT",
    },
)
TOOLS: tuple[dict[str, Any], ...] = (
    tool(
        "hindsight_retain",
        "Keeps something on purpose.",
        ["content"],
        content="string",
        context={"type": "string", "description": "What it is about."},
        tags={"type": "array", "items": {"type": "string"}},
    ),
    tool("hindsight_recall", "Finds facts, with their ids.", ["query"], query="string"),
    tool("hindsight_reflect", "Answers a question from everything remembered.", ["query"], query="string"),
    tool(
        "hindsight_forget",
        "Removes a memory, and what else was learnt in the same exchange.",
        ["memory_id"],
        memory_id="string",
    ),
)
