"""The one place that knows the version."""

from __future__ import annotations

__version__ = "0.2.0"
