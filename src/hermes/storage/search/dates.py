"""Times that a question names, in words or numbers, as ranges that a conversation may fall into."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
_SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
_COUNTED = "zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"
_NUMBERS = {word: at for at, word in enumerate(_COUNTED.split("|"))}
_NUMBERS |= {"a": 1, "an": 1, "couple of": 2, "few": 3, "several": 3}
_MONTH = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_YEAR = r"(?P<year>(?:19|20)\d\d)"
_DAY = r"(?P<day>[0-3]?\d)(?:st|nd|rd|th)?"
_FULL = (
    re.compile(rf"\b{_YEAR}[-/.](?P<number>[01]?\d)[-/.]{_DAY}\b"),
    re.compile(rf"\b{_DAY}\s+(?:of\s+)?{_MONTH},?\s+{_YEAR}\b", re.IGNORECASE),
    re.compile(rf"\b{_MONTH}\s+{_DAY},?\s+{_YEAR}\b", re.IGNORECASE),
    re.compile(rf"\b{_MONTH},?\s+(?:of\s+)?{_YEAR}\b", re.IGNORECASE),
    re.compile(rf"\b{_MONTH}\s+{_DAY}\b(?!\s*%)", re.IGNORECASE),
    re.compile(rf"\b{_DAY}\s+(?:of\s+)?{_MONTH}(?!\w)", re.IGNORECASE),
    re.compile(rf"\b(?P<season>spring|summer|autumn|fall|winter)\s+(?:of\s+)?{_YEAR}\b", re.IGNORECASE),
    re.compile(rf"\b(?:in|during|last|this|since|until|by|mid|early|late)\s+{_MONTH}(?!\w)", re.IGNORECASE),
    re.compile(rf"(?<![\w.-]){_YEAR}(?![\w.-])"),
)
_AGO = re.compile(
    r"\b(?P<count>\d+|a|an|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|couple of|few|several)"
    r"\s+(?P<unit>day|week|month|year)s?\s+(?:ago|back|earlier)\b",
    re.IGNORECASE,
)
_LAST = re.compile(
    r"\b(?P<which>last|past|previous|this|current)\s+(?P<unit>week|month|year|weekend|night|quarter)\b", re.IGNORECASE
)
_WEEKDAY = re.compile(rf"\b(?:(?:last|on|this|past)\s+)?(?P<name>{'|'.join(_DAYS)})\b", re.IGNORECASE)
_NEAR = re.compile(r"\b(today|yesterday|the day before yesterday)\b", re.IGNORECASE)
_LENGTH = {"day": 1, "night": 1, "weekend": 3, "week": 7, "month": 31, "quarter": 92, "year": 366}
_REPORTED_WITHIN = timedelta(days=2)
_REPORTED_LATER = timedelta(days=14)
_EXACT_ENOUGH = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """From `start` up to `end`; `yearly` when the year is not said; `strength` falls with the length of the span."""

    start: datetime
    end: datetime
    strength: float
    yearly: bool = False
    words: str = ""

    def fit(self, moment: float) -> float:
        """1 when the moment lies inside or shortly after (people tell what happened), 0 when far away."""
        when = datetime.fromtimestamp(moment, UTC)
        start, end = self.start, self.end
        if self.yearly:
            years = when.year - start.year - (1 if (when.month, when.day) < (start.month, start.day) else 0)
            start, end = start + timedelta(days=365.25 * years), end + timedelta(days=365.25 * years)
        if start <= when < end + _REPORTED_WITHIN:
            return self.strength
        return self.strength / 2 if end <= when < end + _REPORTED_LATER and self.strength > _EXACT_ENOUGH else 0.0


def spans(text: str, now: float) -> list[Span]:
    """Every time the text names; the same characters are never read twice."""
    taken: list[tuple[int, int]] = []
    found = []
    for start, end, span in [*_written(text), *_relative(text, datetime.fromtimestamp(now, UTC))]:
        if all(end <= other[0] or start >= other[1] for other in taken):
            taken.append((start, end))
            found.append(span)
    return found


def _written(text: str) -> Iterator[tuple[int, int, Span]]:
    for pattern in _FULL:
        for match in pattern.finditer(text):
            span = _span_of(
                {"month": None, "day": None, "year": None, "number": None, "season": None} | match.groupdict()
            )
            if span is not None:
                start, end, strength, yearly = span
                yield (
                    match.start(),
                    match.end(),
                    Span(start=start, end=end, strength=strength, yearly=yearly, words=match[0]),
                )


def _span_of(parts: dict[str, str | None]) -> tuple[datetime, datetime, float, bool] | None:
    year = int(parts["year"]) if parts["year"] else None
    month = int(parts["number"]) if parts["number"] else _month(parts["month"])
    day = int(parts["day"]) if parts["day"] else None
    if parts["season"]:
        month = _SEASONS[parts["season"].lower()]
    try:
        start = datetime(year or 2000, month or 1, day or 1, tzinfo=UTC)
    except ValueError:
        return None
    if day:
        return start, start + timedelta(days=1), 1.0, year is None
    if month:
        return start, start + timedelta(days=92 if parts["season"] else 31), 0.8, year is None
    return start, start + timedelta(days=366), 0.3, False


def _month(name: str | None) -> int | None:
    if not name:
        return None
    return _MONTHS.index(name.lower()[:3]) + 1


def _relative(text: str, now: datetime) -> Iterator[tuple[int, int, Span]]:
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    for match in _AGO.finditer(text):
        count = _NUMBERS.get(match["count"].lower()) or int(match["count"])
        yield _around(
            match, today, days=min(count, 10_000) * _LENGTH[match["unit"].lower()], width=_LENGTH[match["unit"].lower()]
        )
    for match in _LAST.finditer(text):
        length = _LENGTH[match["unit"].lower()]
        back = 0 if match["which"].lower() in ("this", "current") else length
        start = today - timedelta(days=back + (0 if length == 1 else length // 2))
        yield match.start(), match.end(), Span(start=start, end=now + timedelta(days=1), strength=0.8, words=match[0])
    for match in _NEAR.finditer(text):
        back = {"today": 0, "yesterday": 1}.get(match[0].lower(), 2)
        yield _around(match, today, days=back, width=0)
    for match in _WEEKDAY.finditer(text):
        back = (today.weekday() - _DAYS.index(match["name"].lower())) % 7 or 7
        yield _around(match, today, days=back, width=0)


def _around(match: re.Match[str], today: datetime, *, days: int, width: int) -> tuple[int, int, Span]:
    middle = today - timedelta(days=min(days, 700_000))
    slack = timedelta(days=width // 2)
    return (
        match.start(),
        match.end(),
        Span(start=middle - slack, end=middle + slack + timedelta(days=1), strength=1.0, words=match[0]),
    )
