"""Finds the function that masks secrets, when this installation has it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def secret_mask() -> Callable[[str], str] | None:
    try:
        mask: Callable[[str], str] = import_module("hermes.safety.secrets").mask_secrets
    except (ImportError, AttributeError):
        return None
    return mask
