"""Hermes: the memory and context system for language-model agents."""

from __future__ import annotations

from hermes.base.version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hermes.adapters.async_session import AsyncMemorySession
    from hermes.agent import Agent
    from hermes.compaction.compressor import ContextCompressor
    from hermes.compaction.engine import ContextEngine
    from hermes.conversations.database import SessionDB
    from hermes.memory.store import MemoryStore
    from hermes.providers.base import MemoryProvider
    from hermes.providers.manager import MemoryManager
    from hermes.safety.fence import StreamingContextScrubber, build_memory_context_block, sanitize_context
    from hermes.session.parts import SessionOptions
    from hermes.session.receipts import Receipt, ReceiptItem, Receipts
    from hermes.session.session import MemorySession
    from hermes.storage.images import image_part

__all__ = [
    "Agent",
    "AsyncMemorySession",
    "ContextCompressor",
    "ContextEngine",
    "MemoryManager",
    "MemoryProvider",
    "MemorySession",
    "MemoryStore",
    "Receipt",
    "ReceiptItem",
    "Receipts",
    "SessionDB",
    "SessionOptions",
    "StreamingContextScrubber",
    "__version__",
    "build_memory_context_block",
    "image_part",
    "sanitize_context",
]

# The public names and where they live; each is loaded when it is first used.
_HOMES = {
    "Agent": "hermes.agent",
    "AsyncMemorySession": "hermes.adapters.async_session",
    "ContextCompressor": "hermes.compaction.compressor",
    "ContextEngine": "hermes.compaction.engine",
    "MemoryManager": "hermes.providers.manager",
    "MemoryProvider": "hermes.providers.base",
    "MemorySession": "hermes.session.session",
    "MemoryStore": "hermes.memory.store",
    "Receipt": "hermes.session.receipts",
    "ReceiptItem": "hermes.session.receipts",
    "Receipts": "hermes.session.receipts",
    "SessionDB": "hermes.conversations.database",
    "SessionOptions": "hermes.session.parts",
    "StreamingContextScrubber": "hermes.safety.fence",
    "build_memory_context_block": "hermes.safety.fence",
    "image_part": "hermes.storage.images",
    "sanitize_context": "hermes.safety.fence",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'hermes' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *_HOMES]
