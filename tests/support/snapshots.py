"""Compares a text with a stored file; `HERMES_REWRITE_SNAPSHOTS=1 bin/test` stores what is there now instead."""

from __future__ import annotations

import difflib
import os

SNAPSHOTS = os.path.join(os.path.dirname(os.path.dirname(__file__)), "snapshots")


def assert_same_as_stored(name: str, text: str) -> None:
    path = os.path.join(SNAPSHOTS, name)
    if os.environ.get("HERMES_REWRITE_SNAPSHOTS"):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(text)
    with open(path, encoding="utf-8", newline="") as file:
        stored = file.read()
    differences = "\n".join(
        difflib.unified_diff(stored.split("\n"), text.split("\n"), "stored", "now", lineterm="", n=1)
    )
    remedy = "if that is intended, run once with HERMES_REWRITE_SNAPSHOTS=1"
    assert text == stored, f"{name} differs; {remedy}\n{differences}"
