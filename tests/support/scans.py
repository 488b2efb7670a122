"""A threat scan for tests: the verdicts of the real one, decided by plain words."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Verdict:
    level: str
    classes: tuple[str, ...] = ()
    excerpt: str = ""


def scan(text: str) -> Verdict:
    lowered = text.lower()
    if "ignore previous instructions" in lowered:
        return Verdict("refuse", ("prompt_injection",), "ignore previous instructions")
    if "cat .env" in lowered:
        return Verdict("ask", ("read_secrets",), "cat .env")
    return Verdict("clean")
