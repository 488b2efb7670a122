"""`lcm`, the lossless engine, comes through the same door as an engine that somebody else wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hermes.compression.lcm.engine import LosslessEngine

if TYPE_CHECKING:
    from hermes.compression.discovery import EngineRegistry


def register(ctx: EngineRegistry, **given: Any) -> None:
    ctx.register_context_engine(LosslessEngine(**given))
