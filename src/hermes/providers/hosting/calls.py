"""Which members of a provider are called over the line, in which of its two threads, and what they answer."""

from __future__ import annotations

# In order, nobody waits; everything else answers somebody who does.
DELIVERED = frozenset(
    {
        *("initialize", "sync_turn", "on_memory_write", "on_delegation", "on_session_end", "on_session_switch"),
        *("queue_prefetch", "shutdown"),
    }
)
TEXTS = frozenset(
    {
        *("system_prompt_block", "prefetch", "on_pre_compress", "handle_tool_call", "check_connection"),
        *("forget_person", "recall_mode"),
    }
)
DATA = frozenset({"is_available", "get_tool_schemas", "get_config_schema", "get_status_config", "backup_paths"})
# Offered by the proxy only where the provider itself does something in them.
OPTIONAL = (DELIVERED | TEXTS | DATA | {"on_turn_start"}) - {
    *("initialize", "is_available", "get_tool_schemas", "shutdown", "recall_mode"),
}
