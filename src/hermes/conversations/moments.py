"""Parses the bounds of a time range: ISO dates and times, or phrases such as "last week" and "May 2024"."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from hermes.base.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable

    Span = tuple[datetime, datetime]

FORMS = "2024-05-03, 2024-05-03T14:00, May 2024, today, yesterday, last friday, last week, this month, 3 days ago, 12h"
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_MONTH = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_NUMBERS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8}
_NUMBERS |= {"nine": 9, "ten": 10, "eleven": 11, "twelve": 12}
_UNITS = {"h": "hour", "d": "day", "w": "week", "y": "year"}
_LATEST_YEAR = 9998


def since(text: str, now: float) -> float:
    """The first moment of what the text names."""
    return _span(text, now)[0].timestamp()


def until(text: str, now: float) -> float:
    """The last moment of what the text names."""
    return _span(text, now)[1].timestamp() - 1e-3


def _span(text: str, now: float) -> Span:
    words = " ".join(text.lower().replace(",", " ").split())
    today = datetime.fromtimestamp(now).astimezone()
    for pattern, reader in _READERS:
        found = pattern.fullmatch(words)
        if found:
            try:
                return reader(found, today)
            except (ValueError, OverflowError):
                break
    raise SettingsError(f"{text[:60]!r} is no time that can be understood; write it like one of these: {FORMS}")


def _exact(found: re.Match[str], today: datetime) -> Span:
    written = found[0].upper().replace(" ", "T")
    moment = datetime.fromisoformat(written)
    moment = moment.replace(tzinfo=today.tzinfo) if moment.tzinfo is None else moment
    return moment, moment + timedelta(seconds=1)


def _date(found: re.Match[str], today: datetime) -> Span:
    """A year, a month or a day; a month or day without a year is the latest one that has begun."""
    parts = {"year": None, "month": None, "number": None, "day": None} | found.groupdict()
    month = int(parts["number"]) if parts["number"] else _month(parts["month"])
    year = int(parts["year"]) if parts["year"] else today.year
    start = _midnight(year, month or 1, int(parts["day"] or 1))
    if not parts["year"] and start > today:
        start = _midnight(year - 1, month or 1, int(parts["day"] or 1))
    if parts["day"]:
        return start, _later(start, days=1)
    return start, _months_later(start, 1 if month else 12)


def _near(found: re.Match[str], today: datetime) -> Span:
    back = {"today": 0, "yesterday": 1, "the day before yesterday": 2}[found[0]]
    start = _later(_day(today), days=-back)
    return start, _later(start, days=1)


def _weekday(found: re.Match[str], today: datetime) -> Span:
    back = (today.weekday() - _DAYS.index(found["day"][:3])) % 7
    if back == 0 and found["which"] in ("last ", "past ", "previous "):
        back = 7
    start = _later(_day(today), days=-back)
    return start, _later(start, days=1)


def _period(found: re.Match[str], today: datetime) -> Span:
    """The current or the last whole week, month or year of the calendar."""
    back = 0 if found["which"] in ("this", "current") else 1
    if found["unit"] == "week":
        start = _later(_day(today), days=-today.weekday() - 7 * back)
        return start, _later(start, days=7)
    if found["unit"] == "weekend":
        start = _later(_day(today), days=-((today.weekday() - 5) % 7) - 7 * (back if today.weekday() >= 5 else 0))  # noqa: PLR2004 - Saturday
        return start, _later(start, days=2)
    if found["unit"] == "month":
        start = _months_later(_day(today).replace(day=1), -back)
        return start, _months_later(start, 1)
    start = _midnight(today.year - back, 1, 1)
    return start, _months_later(start, 12)


def _ago(found: re.Match[str], today: datetime) -> Span:
    """The moment so long ago, for hours and minutes; the day so long ago for everything longer."""
    count = _NUMBERS.get(found["count"]) or int(found["count"])
    unit = _UNITS.get(found["unit"], found["unit"])
    if unit in ("minute", "hour"):
        moment = today - timedelta(minutes=count * (60 if unit == "hour" else 1))
        return moment, moment + timedelta(seconds=1)
    start = _day(today)
    if unit in ("month", "year"):
        start = _months_later(start, -count * (12 if unit == "year" else 1))
    else:
        start = _later(start, days=-count * (7 if unit == "week" else 1))
    return start, _later(start, days=1)


def _rolling(found: re.Match[str], today: datetime) -> Span:
    """The last so many days, weeks …, up to now."""
    return _ago(found, today)[0], today


def _now(_: re.Match[str], today: datetime) -> Span:
    return today, today + timedelta(seconds=1)


def _month(name: str | None) -> int | None:
    return _MONTHS.index(name[:3]) + 1 if name else None


def _day(moment: datetime) -> datetime:
    return _midnight(moment.year, moment.month, moment.day)


def _midnight(year: int, month: int, day: int) -> datetime:
    """Where the machine stands, with the offset its zone has on that day."""
    if not 1 < year < _LATEST_YEAR:
        raise ValueError(f"the year {year} is out of range")
    return datetime(year, month, day).astimezone()


def _later(start: datetime, *, days: int) -> datetime:
    moved = start.replace(tzinfo=None) + timedelta(days=days)
    return _midnight(moved.year, moved.month, moved.day)


def _months_later(start: datetime, months: int) -> datetime:
    at = start.year * 12 + start.month - 1 + months
    year, month = divmod(at, 12)
    following = datetime(year + month // 11, (month + 1) % 12 + 1, 1)  # noqa: DTZ001 - only its day is used
    return _midnight(year, month + 1, min(start.day, (following - timedelta(days=1)).day))


_COUNT = r"(?P<count>\d{1,4}|an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)"
_WHICH = r"(?P<which>last|past|previous|this|current)"
_YEAR = r"(?P<year>\d{4})"
_DAY_NAME = r"(?P<day>(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?)"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_READERS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], datetime], Span]], ...] = tuple(
    (re.compile(pattern), reader)
    for pattern, reader in (
        (r"\d{4}-\d\d-\d\d[t ]\d\d:?\d\d(?::?\d\d(?:\.\d+)?)?(?:z|[+-]\d\d:?\d\d)?", _exact),
        (rf"{_YEAR}(?:[-/.](?P<number>\d{{1,2}})(?:[-/.]{_DAY})?)?", _date),
        (rf"{_MONTH}(?: {_YEAR})?", _date),
        (rf"{_MONTH} {_DAY}(?: {_YEAR})?", _date),
        (rf"{_DAY} (?:of )?{_MONTH}(?: {_YEAR})?", _date),
        (r"today|yesterday|the day before yesterday", _near),
        (rf"(?P<which>last |past |previous |this |on )?{_DAY_NAME}", _weekday),
        (rf"(?:the )?{_WHICH} (?P<unit>week|weekend|month|year)", _period),
        (rf"(?:the )?(?:last|past|previous) {_COUNT} (?P<unit>minute|hour|day|week|month|year)s?", _rolling),
        (rf"{_COUNT} ?(?P<unit>minute|hour|day|week|month|year|h|d|w|y)s?(?: (?:ago|back|earlier))?", _ago),
        (r"now", _now),
    )
)
