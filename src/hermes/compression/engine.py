"""`ContextEngine`: what keeps a conversation inside the model's window. The built-in one is `ContextCompressor`.

Names and signatures are those of the documents, so that an engine written for hermes-agent runs here unchanged.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


class ContextEngine(ABC):
    """Decides when the context is compacted, does it, and may offer tools. One engine is active per session."""

    last_prompt_tokens: int = 0
    last_completion_tokens: int = 0
    last_total_tokens: int = 0
    threshold_tokens: int = 0
    context_length: int = 0
    compression_count: int = 0
    threshold_percent: float = 0.75
    protect_first_n: int = 3
    protect_last_n: int = 6

    @property
    @abstractmethod
    def name(self) -> str:
        """The name that `context.engine` uses."""

    @abstractmethod
    def update_from_response(self, usage: Mapping[str, Any]) -> None:
        """Takes the token counts of a model's answer."""

    @abstractmethod
    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        """Whether to compact now."""

    @abstractmethod
    def compress(
        self,
        messages: list[dict[str, Any]],
        current_tokens: int | None = None,
        focus_topic: str | None = None,
    ) -> list[dict[str, Any]]:
        """A valid OpenAI-format history that needs less room, or the given one when there is nothing to do."""

    # --- optional ----------------------------------------------------------------------------------------------------

    def should_compress_preflight(self, messages: list[dict[str, Any]]) -> bool:
        """A rough look before the first call of a turn, when no provider has counted yet."""
        del messages
        return False

    def should_defer_preflight_to_real_usage(self, rough_tokens: int) -> bool:
        """Whether a rough figure over the threshold should wait for what the provider counts."""
        del rough_tokens
        return False

    def has_content_to_compress(self, messages: list[dict[str, Any]]) -> bool:
        """Whether a person who asks for compaction would get anything."""
        del messages
        return True

    def on_session_start(self, session_id: str, **kwargs: Any) -> None:  # noqa: B027 - optional
        """A session begins or goes on; after a compaction with `boundary_reason="compression"`."""

    def on_session_end(self, session_id: str, messages: list[dict[str, Any]]) -> None:  # noqa: B027 - optional
        """A session ends, or its id changes."""

    def on_session_reset(self) -> None:
        """The person starts afresh: counters of the old conversation no longer mean anything."""
        self.last_prompt_tokens = self.last_completion_tokens = self.last_total_tokens = 0
        self.compression_count = 0

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        """OpenAI-style functions the engine offers to the model; an empty list for none."""
        return []

    def handle_tool_call(self, name: str, args: dict[str, Any], **kwargs: Any) -> str:
        """Runs one of the engine's tools; the result is JSON text."""
        del args, kwargs
        return json.dumps({"error": f"the context engine {self.name!r} has no tool {name!r}"})

    def get_status(self) -> dict[str, Any]:
        """Figures for people: how full the window is and how often it was compacted."""
        used = min(self.last_prompt_tokens / self.context_length * 100, 100.0) if self.context_length else 0.0
        return {
            "last_prompt_tokens": self.last_prompt_tokens,
            "threshold_tokens": self.threshold_tokens,
            "context_length": self.context_length,
            "usage_percent": used,
            "compression_count": self.compression_count,
        }

    def update_model(
        self,
        model: str,
        context_length: int,
        base_url: str = "",
        api_key: str = "",
        provider: str = "",
        **kwargs: Any,
    ) -> None:
        """Another model with another window takes over."""
        del model, base_url, api_key, provider, kwargs
        self.context_length = context_length
        self.threshold_tokens = int(context_length * self.threshold_percent)
