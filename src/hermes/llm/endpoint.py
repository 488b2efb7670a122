"""Where a model is, how to speak to it, and what is known about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One model at one address. `wire` is openai (chat completions) or anthropic (messages)."""

    model: str
    base_url: str
    provider: str = "a server of your own"
    wire: str = "openai"
    key: str = field(default="", repr=False)
    key_name: str = ""  # the environment variable it comes from, for messages
    context_length: int = 32_768
    max_output: int | None = None  # tokens one answer may have; Anthropic's wire must name a number
    # Where cache points go: "native" on Anthropic's wire, "envelope" in content parts (Claude behind OpenRouter).
    cache_points: str = ""
    cache_ttl: str = "5m"
    # Which reasoning a server wants back with a tool's result: "", "content" (reasoning_content), "details".
    replays_reasoning: str = ""
    vision: bool = True  # whether it takes images; one that refuses them gets placeholders instead
    timeout: float = 600  # seconds without a byte; a local server may read a long prompt for minutes
    settings: str = "model"  # where its address and provider are set, for messages: model, auxiliary.compression, …
    headers: dict[str, str] = field(default_factory=dict)
    extra_body: dict[str, Any] = field(default_factory=dict)  # more fields of a request, as the provider names them

    @property
    def key_remedy(self) -> str:
        if self.key_name and not self.key:
            return f"put {self.key_name}=… into .env or the environment"
        if self.key_name:
            return f"check {self.key_name} in .env or the environment"
        return "the server wants a key: set HERMES_MODEL_API_KEY in .env or the environment"
