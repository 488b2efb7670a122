"""Finds the command that was asked for and loads only that."""

from __future__ import annotations


def run(arguments: list[str]) -> int:
    raise SystemExit(f"hermes: nothing to run yet for {arguments}")
