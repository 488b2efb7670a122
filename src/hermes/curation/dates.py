"""Relative dates made absolute: "yesterday" in a note of 3 May is 2 May, for whoever reads it in June."""

from __future__ import annotations

import re
from datetime import timedelta

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import date

_NUMBERS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "ten": 10}
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
# What happens again and again has no date; what stands in quotes or code is somebody else's wording.
_RECURRING = re.compile(r"\b(?:every|each|daily|weekly|always|usually|often|whenever|never|per)\b", re.IGNORECASE)
_QUOTED = re.compile(r"`[^`]*`|\"[^\"]*\"|“[^”]*”|'[^']*'(?!\w)")
_SIMPLE = {"today": 0, "tonight": 0, "this morning": 0, "this afternoon": 0, "this evening": 0, "yesterday": -1}
_SIMPLE |= {"last night": -1, "tomorrow": 1, "the day before yesterday": -2, "the day after tomorrow": 2}
_RELATIVE = re.compile(
    r"\b(?:(?P<simple>the day before yesterday|the day after tomorrow|this morning|this afternoon|this evening|"
    r"last night|today|tonight|yesterday|tomorrow)(?!'s)"
    r"|(?P<n>\d{1,3}|an?|one|two|three|four|five|six|seven|ten) (?P<unit>day|week|month|year)s? (?P<way>ago|from now)"
    r"|(?P<which>last|next|this) (?P<period>week|month|year|monday|tuesday|wednesday|thursday|friday|saturday|sunday)"
    r")\b",
    re.IGNORECASE,
)


def absolute(entry: str, written: date) -> str:
    """The entry with its relative dates counted from the day it was written; unchanged where that would be a guess."""
    if _RECURRING.search(entry) or not _RELATIVE.search(entry):
        return entry
    quoted = [found.span() for found in _QUOTED.finditer(entry)]

    def replacement(found: re.Match[str]) -> str:
        inside = any(start <= found.start() < end for start, end in quoted)
        return found[0] if inside else _named(found, written)

    return _RELATIVE.sub(replacement, entry)


def _named(found: re.Match[str], written: date) -> str:
    if found["simple"]:
        return (written + timedelta(days=_SIMPLE[found["simple"].lower()])).isoformat()
    if found["n"]:
        count = _NUMBERS.get(found["n"].lower()) or int(found["n"])
        return _shifted(written, found["unit"].lower(), count if found["way"].lower() == "from now" else -count)
    step = {"last": -1, "this": 0, "next": 1}[found["which"].lower()]
    period = found["period"].lower()
    if period in _DAYS:
        return _weekday(written, _DAYS.index(period), step) or found[0]
    return _shifted(written, period, step, whole=True)


def _shifted(written: date, unit: str, count: int, *, whole: bool = False) -> str:
    if unit == "day":
        return (written + timedelta(days=count)).isoformat()
    if unit == "week":
        then = written + timedelta(weeks=count)
        monday = then - timedelta(days=then.weekday())
        return f"the week of {monday.isoformat()}" if whole else then.isoformat()
    if unit == "year":
        return str(written.year + count)
    months = written.year * 12 + written.month - 1 + count
    return f"{months // 12:04}-{months % 12 + 1:02}"


def _weekday(written: date, day: int, step: int) -> str:
    if step == 0:
        return ""  # "this Friday" is read both ways
    ahead = (day - written.weekday() - 1) % 7 + 1
    behind = (written.weekday() - day - 1) % 7 + 1
    return (written + timedelta(days=ahead if step > 0 else -behind)).isoformat()
