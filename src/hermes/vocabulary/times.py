"""Moments in words, where the machine stands; stored numbers come from other clocks and other programs."""

from __future__ import annotations

import time


def in_words(moment: float, form: str) -> str:
    """`form` as `time.strftime` takes it; a number that is no moment is an unknown time and no error."""
    try:
        return time.strftime(form, time.localtime(moment))
    except (ValueError, OverflowError, OSError):
        return "unknown time"


def day(moment: float) -> str:
    return in_words(moment, "%Y-%m-%d")
