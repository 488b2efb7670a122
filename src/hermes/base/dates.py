"""Times that people name, read in four ways: bounds of a range, hints in a question, dates in an entry, moments ahead.

`since` and `until` take one expression on the local calendar and refuse what they do not understand. `spans` finds
every time in a question, in UTC, and is generous about the borders. `absolute` writes relative dates out. `ahead` finds
the moment that a reminder names, on the wall clock.
"""

from __future__ import annotations

import re
from collections import defaultdict
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

from hermes.base.errors import SettingsError
from hermes.base.values import value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import tzinfo

    Range = tuple[datetime, datetime]

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
_COUNTS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8}
_COUNTS |= {"nine": 9, "ten": 10, "eleven": 11, "twelve": 12}
_ROUGH_COUNTS = {"couple of": 2, "few": 3, "several": 3}
_ALL_COUNTS = _COUNTS | _ROUGH_COUNTS | {f"a {name}": count for name, count in _ROUGH_COUNTS.items()}
_NEAR_DAYS = {"today": 0, "tonight": 0, "this morning": 0, "this afternoon": 0, "this evening": 0, "yesterday": -1}
_NEAR_DAYS |= {"last night": -1, "tomorrow": 1, "the day before yesterday": -2, "the day after tomorrow": 2}


def zone_of(name: str) -> tzinfo | None:
    """The time zone of this name; None, the machine's own, for none."""
    from zoneinfo import ZoneInfo  # most programs have no zone in their settings

    return ZoneInfo(name) if name else None


# --- the grammar -----------------------------------------------------------------------------------------------------

_MONTH = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_DAY = r"(?P<day>[0-3]?\d)(?:st|nd|rd|th)?"
_NUMBER = r"(?P<number>\d{1,2})"
_WEEKDAY = r"(?P<weekday>(?:mon|tues|wednes|thurs|fri|satur|sun)day)"
_COUNTED = "|".join(_COUNTS)
_UNIT = r"(?P<unit>day|week|month|year)s?"
_NEAR = rf"(?P<near>{'|'.join(sorted(_NEAR_DAYS, key=len, reverse=True))})"
_WHICH = r"(?P<which>last|past|previous|this|current)"


def _dates(year: str) -> tuple[str, ...]:
    """Patterns of dates, given what a year looks like."""
    return (
        rf"(?P<year>{year})[-/.]{_NUMBER}[-/.]{_DAY}",
        rf"{_MONTH}\s+{_DAY}(?:,?\s+(?P<year>{year}))?(?!\s*%)",
        rf"{_DAY}\s+(?:of\s+)?{_MONTH}(?:,?\s+(?P<year>{year}))?",
        rf"{_MONTH},?\s+(?:of\s+)?(?P<year>{year})",
        rf"(?P<season>{'|'.join(_SEASONS)})\s+(?:of\s+)?(?P<year>{year})",
    )


def _date_of(found: re.Match[str]) -> tuple[int | None, int | None, int | None]:
    """Year, month and day, as far as they are said; a season is its first month."""
    parts = _said(found)
    month = int(parts["number"]) if parts["number"] else None
    if parts["month"]:
        month = _MONTHS.index(parts["month"][:3].lower()) + 1
    if parts["season"]:
        month = _SEASONS[parts["season"].lower()]
    return int(parts["year"]) if parts["year"] else None, month, int(parts["day"]) if parts["day"] else None


def _said(found: re.Match[str]) -> dict[str, str]:
    """The parts of the pattern by name; empty where the text has none, or the pattern has no such part."""
    return defaultdict(str, {name: text for name, text in found.groupdict().items() if text})


def _count_of(found: re.Match[str]) -> int:
    return _ALL_COUNTS.get(found["count"].lower()) or int(found["count"])


def _days_to(found: re.Match[str], weekday: int, direction: int) -> int:
    """From a weekday to the named one, at least one day away; `direction` is 1 for the next, -1 for the last."""
    there = _WEEKDAYS.index(found["weekday"][:3].lower())
    return direction * ((direction * (there - weekday)) % 7 or 7)


# --- one expression as a range of the local calendar -----------------------------------------------------------------

FORMS = "2024-05-03, 2024-05-03T14:00, May 2024, today, yesterday, last friday, last week, this month, 3 days ago, 12h"
_UNITS = {"h": "hour", "d": "day", "w": "week", "y": "year"}
_LATEST_YEAR = 9998
_SATURDAY = 5


def since(text: str, now: float) -> float:
    """The first moment of what the text names."""
    return _range(text, now)[0].timestamp()


def until(text: str, now: float) -> float:
    """The last moment of what the text names."""
    return _range(text, now)[1].timestamp() - 1e-3


def _range(text: str, now: float) -> Range:
    words = " ".join(text.lower().replace(",", " ").split())
    today = datetime.fromtimestamp(now).astimezone()
    for pattern, read in _BOUNDS:
        if found := pattern.fullmatch(words):
            try:
                return read(found, today)
            except (ValueError, OverflowError):
                break
    raise SettingsError(f"{text[:60]!r} is not a time Hermes understands; write it like one of these: {FORMS}")


def _exact(found: re.Match[str], today: datetime) -> Range:
    moment = datetime.fromisoformat(found[0].upper().replace(" ", "T"))
    moment = moment.replace(tzinfo=today.tzinfo) if moment.tzinfo is None else moment
    return moment, moment + timedelta(seconds=1)


def _date(found: re.Match[str], today: datetime) -> Range:
    """A year, a month or a day; a month or day without a year is the latest one that has begun."""
    year, month, day = _date_of(found)
    start = _midnight(today.year if year is None else year, month or 1, day or 1)
    if year is None and start > today:
        start = _midnight(today.year - 1, month or 1, day or 1)
    if day:
        return start, _later(start, days=1)
    return start, _months_later(start, 3 if _said(found)["season"] else 1 if month else 12)


def _near(found: re.Match[str], today: datetime) -> Range:
    start = _later(today, days=_NEAR_DAYS[found["near"]])
    return start, _later(start, days=1)


def _weekday(found: re.Match[str], today: datetime) -> Range:
    back = _days_to(found, today.weekday(), -1)
    named_last = found["which"] in ("last ", "past ", "previous ")
    start = _later(today, days=0 if back == -7 and not named_last else back)  # noqa: PLR2004 - today
    return start, _later(start, days=1)


def _period(found: re.Match[str], today: datetime) -> Range:
    """The current or the last whole week, month or year of the calendar."""
    back = 0 if found["which"] in ("this", "current") else 1
    match found["period"]:
        case "week":
            start = _later(today, days=-today.weekday() - 7 * back)
            return start, _later(start, days=7)
        case "weekend":
            weeks = back if today.weekday() >= _SATURDAY else 0
            start = _later(today, days=-((today.weekday() - _SATURDAY) % 7) - 7 * weeks)
            return start, _later(start, days=2)
        case "month":
            start = _months_later(_later(today).replace(day=1), -back)
            return start, _months_later(start, 1)
    start = _midnight(today.year - back, 1, 1)
    return start, _months_later(start, 12)


def _ago(found: re.Match[str], today: datetime) -> Range:
    """The moment so long ago, for hours and minutes; the day so long ago for everything longer."""
    count, unit = _count_of(found), _UNITS.get(found["unit"], found["unit"])
    if unit in ("minute", "hour"):
        moment = today - timedelta(minutes=count * (60 if unit == "hour" else 1))
        return moment, moment + timedelta(seconds=1)
    start = _shifted(today, -count, unit)
    return start, _later(start, days=1)


def _midnight(year: int, month: int, day: int) -> datetime:
    """In the machine's time zone, with the offset it has on that day."""
    if not 1 < year < _LATEST_YEAR:
        raise ValueError(f"the year {year} is out of range")
    return datetime(year, month, day).astimezone()


def _later(start: datetime, *, days: int = 0) -> datetime:
    moved = start.replace(tzinfo=None) + timedelta(days=days)
    return _midnight(moved.year, moved.month, moved.day)


def _shifted(day: datetime, count: int, unit: str) -> datetime:
    """Returns the day that many days, weeks, months or years later."""
    if unit in ("month", "year"):
        return _months_later(_later(day), count * (12 if unit == "year" else 1))
    return _later(day, days=count * (7 if unit == "week" else 1))


def _months_later(start: datetime, months: int) -> datetime:
    year, month = divmod(start.year * 12 + start.month - 1 + months, 12)
    following = date(year + month // 11, (month + 1) % 12 + 1, 1)
    return _midnight(year, month + 1, min(start.day, (following - timedelta(days=1)).day))


_SHORT_WEEKDAY = r"(?P<weekday>(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?)"
_LONG_UNITS = "minute|hour|day|week|month|year"
_BOUNDS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], datetime], Range]], ...] = tuple(
    (re.compile(pattern), read)
    for pattern, read in (
        (r"\d{4}-\d\d-\d\d[t ]\d\d:?\d\d(?::?\d\d(?:\.\d+)?)?(?:z|[+-]\d\d:?\d\d)?", _exact),
        *((pattern, _date) for pattern in (*_dates(r"\d{4}"), _MONTH, rf"(?P<year>\d{{4}})(?:[-/.]{_NUMBER})?")),
        (_NEAR, _near),
        (rf"(?P<which>last |past |previous |this |on )?{_SHORT_WEEKDAY}", _weekday),
        (rf"(?:the )?{_WHICH} (?P<period>week|weekend|month|year)", _period),
        # "the last 3 days" goes on until now
        (
            rf"(?:the )?(?:last|past|previous) (?P<count>\d{{1,4}}|{_COUNTED}) (?P<unit>{_LONG_UNITS})s?",
            lambda found, now: (_ago(found, now)[0], now),
        ),
        (
            rf"(?P<count>\d{{1,4}}|{_COUNTED}) ?(?P<unit>{_LONG_UNITS}|h|d|w|y)s?(?: (?:ago|back|earlier))?",
            _ago,
        ),
        (r"now", lambda _, now: (now, now + timedelta(seconds=1))),
    )
)


# --- times in a question ---------------------------------------------------------------------------------------------

_QUESTION_YEAR = r"(?:19|20)\d\d"  # other numbers of four digits are no years
_IN_A_QUESTION = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        *(rf"\b{pattern}(?!\w)" for pattern in _dates(_QUESTION_YEAR)),
        rf"\b(?:in|during|last|this|since|until|by|mid|early|late)\s+{_MONTH}(?!\w)",
        rf"(?<![\w.-])(?P<year>{_QUESTION_YEAR})(?![\w.-])",
    )
)
_LONG_AGO = re.compile(
    rf"\b(?P<count>\d+|{_COUNTED}|{'|'.join(_ROUGH_COUNTS)})\s+{_UNIT}\s+(?:ago|back|earlier)\b", re.IGNORECASE
)
_LAST = re.compile(rf"\b{_WHICH}\s+(?P<period>week|month|year|weekend|night|quarter)\b", re.IGNORECASE)
_NEAR_PAST = re.compile(r"\b(?P<near>today|yesterday|the day before yesterday)\b", re.IGNORECASE)
_ON_A_WEEKDAY = re.compile(rf"\b(?:(?:last|on|this|past)\s+)?{_WEEKDAY}\b", re.IGNORECASE)
_LENGTH = {"day": 1, "night": 1, "weekend": 3, "week": 7, "month": 31, "quarter": 92, "year": 366}
_REPORTED_WITHIN = timedelta(days=2)
_REPORTED_LATER = timedelta(days=14)
_EXACT_ENOUGH = 0.5


@value
class Span:
    """From `start` up to `end`; `yearly` when the year is not said; `strength` falls with the length of the span."""

    start: datetime
    end: datetime
    strength: float = 1.0
    yearly: bool = False

    def fit(self, moment: float) -> float:
        """Scores a moment: `strength` inside the span or up to two days after it, else less or 0.

        People report what happened after it happened, so a day or month also counts half for two weeks.
        """
        when = datetime.fromtimestamp(moment, UTC)
        start, end = self.start, self.end
        if self.yearly:
            years = when.year - start.year - (1 if (when.month, when.day) < (start.month, start.day) else 0)
            start, end = start + timedelta(days=365.25 * years), end + timedelta(days=365.25 * years)
        if start <= when < end + _REPORTED_WITHIN:
            return self.strength
        return self.strength / 2 if end <= when < end + _REPORTED_LATER and self.strength > _EXACT_ENOUGH else 0.0


def spans(text: str, now: float) -> Iterator[tuple[str, Span]]:
    """Yields every time a text names, with its wording, counted from `now` where it is relative.

    No character belongs to two of them.
    """
    taken: list[tuple[int, int]] = []
    for match, span in [*_written(text), *_relative(text, datetime.fromtimestamp(now, UTC))]:
        if all(match.end() <= start or match.start() >= end for start, end in taken):
            taken.append(match.span())
            yield match[0], span


def _written(text: str) -> Iterator[tuple[re.Match[str], Span]]:
    for pattern in _IN_A_QUESTION:
        for found in pattern.finditer(text):
            year, month, day = _date_of(found)
            try:
                start = datetime(year or 2000, month or 1, day or 1, tzinfo=UTC)
            except ValueError:
                continue
            if day:
                length, strength = 1, 1.0
            elif month:
                length, strength = 92 if _said(found)["season"] else 31, 0.8
            else:
                length, strength = 366, 0.3
            end = start + timedelta(days=length)
            yield found, Span(start=start, end=end, strength=strength, yearly=year is None)


def _relative(text: str, now: datetime) -> Iterator[tuple[re.Match[str], Span]]:
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)

    def around(days: int, width: int = 0) -> Span:
        middle, slack = today + timedelta(days=max(days, -700_000)), timedelta(days=width // 2)
        return Span(start=middle - slack, end=middle + slack + timedelta(days=1))

    for found in _LONG_AGO.finditer(text):
        length = _LENGTH[found["unit"].lower()]
        yield found, around(-min(_count_of(found), 10_000) * length, length)
    for found in _LAST.finditer(text):
        length = _LENGTH[found["period"].lower()]
        back = 0 if found["which"].lower() in ("this", "current") else length
        start = today - timedelta(days=back + (0 if length == 1 else length // 2))
        yield found, Span(start=start, end=now + timedelta(days=1), strength=0.8)
    for found in _NEAR_PAST.finditer(text):
        yield found, around(_NEAR_DAYS[found["near"].lower()])
    for found in _ON_A_WEEKDAY.finditer(text):
        yield found, around(_days_to(found, today.weekday(), -1))


# --- relative dates in an entry --------------------------------------------------------------------------------------

# A recurring event has no single date, and quotes and code must stay as they were written.
_RECURRING = re.compile(r"\b(?:every|each|daily|weekly|always|usually|often|whenever|never|per)\b", re.IGNORECASE)
_QUOTED = re.compile(r"`[^`]*`|\"[^\"]*\"|“[^”]*”|'[^']*'(?!\w)")
_IN_AN_ENTRY = re.compile(
    rf"\b(?:{_NEAR}(?!'s)|(?P<count>\d{{1,3}}|{_COUNTED}) {_UNIT} (?P<way>ago|from now)"
    rf"|(?P<which>last|next|this) (?:(?P<period>week|month|year)|{_WEEKDAY}))\b",
    re.IGNORECASE,
)


def absolute(entry: str, written: date) -> str:
    """Replaces relative dates by absolute ones, counted from the day of writing; ambiguous ones stay."""
    if _RECURRING.search(entry):
        return entry
    quoted = [found.span() for found in _QUOTED.finditer(entry)]

    def replacement(found: re.Match[str]) -> str:
        if any(start <= found.start() < end for start, end in quoted):
            return found[0]
        try:
            return _absolute(found, written)
        except (ValueError, OverflowError):
            return found[0]

    return _IN_AN_ENTRY.sub(replacement, entry)


def _absolute(found: re.Match[str], written: date) -> str:
    if found["near"]:
        return (written + timedelta(days=_NEAR_DAYS[found["near"].lower()])).isoformat()
    if found["count"]:
        count, unit = _count_of(found), found["unit"].lower()
        count = count if found["way"].lower() == "from now" else -count
    else:
        count, unit = {"last": -1, "this": 0, "next": 1}[found["which"].lower()], (found["period"] or "").lower()
    match unit:
        case "":  # a weekday; "this Friday" is read both ways
            days = _days_to(found, written.weekday(), count) if count else 0
            return (written + timedelta(days=days)).isoformat() if days else found[0]
        case "year":
            return str(written.replace(year=written.year + count, day=1).year)
        case "month":
            year, month = divmod(written.year * 12 + written.month - 1 + count, 12)
            return date(year, month + 1, 1).isoformat()[:7]
        case "week" if found["period"]:
            then = written + timedelta(weeks=count)
            return f"the week of {(then - timedelta(days=then.weekday())).isoformat()}"
    return (written + timedelta(days=count * (7 if unit == "week" else 1))).isoformat()


# --- a moment ahead --------------------------------------------------------------------------------------------------

# The hour that a part of a day means when no clock time is said; a day alone means the morning.
_PARTS = {"morning": 9, "lunch": 12, "noon": 12, "afternoon": 14, "evening": 18, "night": 20, "midnight": 24}
_PART = r"(?:\s+(?P<part>morning|afternoon|evening|night))?"
_ROUGHLY = "|".join(f"a {each}" for each in _ROUGH_COUNTS)
_AHEAD_IN = (
    rf"in\s+(?P<count>\d{{1,4}}|{_COUNTED}|half an|{_ROUGHLY})\s+(?P<unit>minute|min|hour|day|week|month|year)s?"
)
_AHEAD_NEAR = (
    rf"(?P<near>the day after tomorrow|tomorrow|today|tonight|later today){_PART}"
    r"|(?P<this>this)\s+(?P<part2>morning|afternoon|evening)"
)
_AHEAD_PERIOD = (
    r"(?:(?P<which>next|every|each)|this|at the|on the|over the)\s+"
    r"(?P<period>day|week|weekend|month|year|morning|evening)"
)
_AHEAD = tuple(
    re.compile(rf"(?<![\w-]){pattern}(?![\w-])", re.IGNORECASE)
    for pattern in (
        _AHEAD_IN,
        *(rf"(?:on\s+)?(?:the\s+)?{pattern}" for pattern in _dates(r"\d{4}")[:3]),
        f"(?:{_AHEAD_NEAR})",
        rf"(?:on\s+)?(?:(?P<which>next|this|every|each|coming)\s+)?{_WEEKDAY}(?P<plural>s)?{_PART}",
        _AHEAD_PERIOD,
    )
)
_HOUR = r"(?P<hour>\d{1,2})(?:[:.](?P<minute>\d\d))?\s*(?P<half>[ap]\.?m\b\.?)?(?:\s*o'clock)?"
_AT = (
    re.compile(rf"(?<![\w-])(?:at|by|around)\s+(?:{_HOUR}|(?P<named>noon|midnight|lunch|night))(?!\w)", re.IGNORECASE),
    re.compile(r"(?<![\w-])(?P<hour>\d{1,2})(?:[:.](?P<minute>\d\d))?\s*(?P<half>[ap]\.?m\b\.?)", re.IGNORECASE),
    re.compile(r"(?<![\w-])(?P<hour>[01]?\d|2[0-3]):(?P<minute>[0-5]\d)(?!\d)(?P<half>)", re.IGNORECASE),
)


@value
class Ahead:
    """A moment in the future, the text without the words that name it, and "daily" or "weekly" if it repeats."""

    at: datetime
    rest: str
    repeat: str = ""


def ahead(text: str, now: datetime) -> Ahead | None:
    """Finds the future moment a text names, in the time zone of `now`; None when it names none that is understood."""
    at = next((found for pattern in _AT if (found := pattern.search(text))), None)
    rest = f"{text[: at.start()]} {text[at.end() :]}" if at else text
    named = next((found for pattern in _AHEAD if (found := pattern.search(rest))), None)
    try:
        clock = _clock_time(at) if at else None
        if named is None:
            if clock is None:
                return None
            return Ahead(at=_coming(now, clock), rest=rest)
        moment, repeat = _ahead_of(named, now, clock)
    except (ValueError, OverflowError):
        return None
    return Ahead(at=moment, rest=f"{rest[: named.start()]} {rest[named.end() :]}", repeat=repeat)


def _ahead_of(found: re.Match[str], now: datetime, clock: tuple[int, int] | None) -> tuple[datetime, str]:
    parts = defaultdict(str, {name: text.lower() for name, text in _said(found).items()})
    if parts["count"]:
        return _after(found, now, clock), ""
    hour = clock or (_PARTS.get(parts["part"] or parts["part2"], 9), 0)
    repeats = parts["which"] in ("every", "each") or bool(parts["plural"])
    if parts["near"] or parts["this"]:
        near = parts["near"] or "today"
        if near == "tonight" and clock is None:
            hour = (_PARTS["night"], 0)
        days = {"tomorrow": 1, "the day after tomorrow": 2}.get(near, 0)
        moment = _at_time(now + timedelta(days=days), hour)
        return (moment if moment > now else now + timedelta(hours=3)), ""  # "later today"
    if parts["weekday"]:
        days = (_WEEKDAYS.index(parts["weekday"][:3]) - now.weekday()) % 7
        return _coming(now, hour, days, step=7), "weekly" if repeats else ""
    if parts["period"]:
        return _period_ahead(parts["period"], now, clock, repeats=repeats)
    year, month, day = _date_of(found)
    moment = _at_time(now.replace(year=year or now.year, month=month or 1, day=day or 1), hour)
    return (moment if year or moment > now else moment.replace(year=now.year + 1)), ""


def _after(found: re.Match[str], now: datetime, clock: tuple[int, int] | None) -> datetime:
    unit = found["unit"].lower()
    if found["count"].lower() == "half an" and unit == "hour":
        return now + timedelta(minutes=30)
    if unit in ("minute", "min", "hour"):
        return now + timedelta(minutes=_count_of(found) * (60 if unit == "hour" else 1))
    return _at_time(_shifted(now, _count_of(found), unit).replace(tzinfo=now.tzinfo), clock or (9, 0))


def _period_ahead(period: str, now: datetime, clock: tuple[int, int] | None, *, repeats: bool) -> tuple[datetime, str]:
    hour = clock or (_PARTS.get(period, 9), 0)
    if period in ("day", "morning", "evening"):
        return _coming(now, hour), "daily" if repeats else ""
    if period in ("week", "weekend"):
        days = (_SATURDAY - now.weekday()) % 7 or 7 if period == "weekend" else 7 - now.weekday()
        return _at_time(now + timedelta(days=days), hour), "weekly" if repeats else ""
    months = 1 if period == "month" else 13 - now.month
    return _at_time(_months_later(now.replace(day=1), months).replace(tzinfo=now.tzinfo), hour), ""


def _clock_time(found: re.Match[str]) -> tuple[int, int]:
    if named := _said(found)["named"]:
        return _PARTS[named.lower()], 0
    hour, half = int(found["hour"]), (found["half"] or "").lower()
    if half.startswith("p") and hour < 12:  # noqa: PLR2004
        hour += 12
    elif half.startswith("a") and hour == 12:  # noqa: PLR2004
        hour = 0
    return hour, int(found["minute"] or 0)


def _coming(now: datetime, clock: tuple[int, int], days: int = 0, *, step: int = 1) -> datetime:
    """Returns the clock time that many days from now, or `step` days later if it has passed."""
    moment = _at_time(now + timedelta(days=days), clock)
    return moment if moment > now else _at_time(now + timedelta(days=days + step), clock)


def _at_time(day: datetime, clock: tuple[int, int]) -> datetime:
    """A day at a clock time."""
    if clock[0] == 24:  # noqa: PLR2004 - midnight ends the day
        day, clock = day + timedelta(days=1), (0, 0)
    return day.replace(hour=clock[0], minute=clock[1], second=0, microsecond=0)
