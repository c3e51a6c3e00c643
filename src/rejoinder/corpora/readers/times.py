"""Times and dates as exports write them."""

from __future__ import annotations

import datetime
import email.utils
import itertools
import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypeAlias

from rejoinder.corpora.clocks import HALF, half_of_day
from rejoinder.patterns import match_pattern, search_pattern

Order: TypeAlias = Literal["day", "month", "year"]  # what stands first

_MAX_TIME = 100  # letters
_MAX_DAY = 31  # a larger number is a year
_LEAST_YEAR = 1_000  # of four digits

# Seconds, milliseconds, microseconds or nanoseconds; 14 digits are a date and a clock.
_NUMBER = match_pattern(r"\d{9,13}(?:\.\d+)?|\d{16}|\d{19}")

_SPACES = search_pattern(r"\s+")

_MAX_SECONDS = 1e11  # a larger number of seconds would be in the year 5138
_UNITS = (1, 1_000, 1_000_000, 1_000_000_000)  # of a second, down to nanoseconds

_DATE = match_pattern(
    r"(\d{1,4})[./-] ?(\d{1,2})[./-] ?(\d{1,4})\.?[,،]?(?: [-\u2013])?[ T]+"
    r"(\d{1,2})[:.](\d{2})(?:[:.](\d{2}))?"
    rf"(?:\s?({HALF}))?"
)

# A date without a clock; with dots its year may have two digits.
_DAY = match_pattern(
    r"(?=\d{4}|\S{4,6}\d{4}$|\d{1,2}\.\d{1,2}\.\d{2}$)"
    r"(\d{4}|\d{1,2})[./-](\d{1,2})[./-](\d{4}|\d{1,2})"
)
_NAMED_DAY = match_pattern(
    r"(?:[^\W\d]{3,9},? )?(?:[^\W\d]{3,9}\.? \d{1,2},? \d{4}|\d{1,2}\.?[ -][^\W\d]{3,9}[ -]\d{4})"
)
_HYPHENS = search_pattern(r"^(\d{1,2})-([^\W\d]{3,9})-(\d{4})\b")
CLOCK = match_pattern(rf"\d{{1,2}}[:.]\d{{2}}(?:[:.]\d{{2}})?(?:\s?{HALF})?")

# Hours from UTC; a name that several zones share, such as CST, means what RFC 2822 says.
_ZONES = {
    "z": 0, "ut": 0, "utc": 0, "gmt": 0, "wet": 0, "west": 1, "bst": 1, "cet": 1, "mez": 1,
    "cest": 2, "mest": 2, "mesz": 2, "eet": 2, "eest": 3, "sast": 2, "msk": 3, "sgt": 8, "hkt": 8,
    "jst": 9, "kst": 9, "awst": 8, "acst": 9.5, "acdt": 10.5, "aest": 10, "aedt": 11, "nzst": 12,
    "nzdt": 13,
    "est": -5, "edt": -4, "cst": -6, "cdt": -5, "mst": -7, "mdt": -6, "pst": -8, "pdt": -7,
    "akst": -9, "akdt": -8, "hst": -10,
}  # fmt: skip

# Behind a clock: UTC, -0500, +00, GMT-0500 (EST), +0000 UTC; no end of a word.
_ZONE = search_pattern(
    rf"(?<=[\w.])\s?(?:(?<![^\W\d_])({'|'.join(_ZONES)})|"
    r"(?:UTC|GMT)?([+-])(0\d|1[0-4]|(?<=GMT.|UTC.)\d)(?::?(\d\d))?"
    rf"(?: (?:{'|'.join(_ZONES)}))?)(?: \([^()]{{0,60}}\))?$",
    re.IGNORECASE,
)
_ZONE_ID = search_pattern(r"(Z|[+-]\d\d:\d\d)\[[\w/+-]{1,50}\]$")  # +02:00[Europe/Berlin]

_HALF_AT_END = search_pattern(rf"(?<=\d)\s?({HALF})$")


def parse_time(value: Any, order: Order = "day") -> float | None:
    """Return the seconds of a time: a number, ISO 8601, RFC 2822, 31/12/20 or a month's name.

    A number counts seconds, milliseconds, microseconds or nanoseconds.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        return next((value / unit for unit in _UNITS if abs(value) <= _MAX_SECONDS * unit), None)
    text = _ZONE_ID.sub(r"\1", str(value or "")[:_MAX_TIME].strip())
    if _NUMBER.fullmatch(text):
        return parse_time(float(text))
    try:
        return _seconds(datetime.datetime.fromisoformat(text))
    except ValueError:
        text, offset = _without_zone(text)
    text = f"{text} 00:00" if _DAY.fullmatch(text) or _NAMED_DAY.fullmatch(text) else text
    seconds = _parse_date(_HYPHENS.sub(r"\1 \2 \3", text), order)
    return None if seconds is None else seconds - offset


def _without_zone(text: str) -> tuple[str, float]:
    """Return a time without the zone behind its clock, and the seconds of the zone from UTC."""
    clock = text.find(":")
    match = _ZONE.search(text, clock) if clock > 0 else None
    if match is None:
        return text, 0
    text = text[: match.start()]
    if match[1]:
        return text, 3_600 * _ZONES[match[1].lower()]
    offset = 3_600 * int(match[3]) + 60 * int(match[4] or 0)
    return text, -offset if match[2] == "-" else offset


def _parse_date(text: str, order: Order) -> float | None:
    """Return the seconds of a date and a clock."""
    try:
        return _seconds(datetime.datetime.fromisoformat(text))
    except ValueError:
        pass
    if match := _DATE.fullmatch(text):
        clock = [int(match[group] or 0) for group in (4, 5, 6)]
        return date_seconds(_date_numbers(match), clock, half_of_day(match[7] or ""), order)
    # Of a clock of twelve hours the library drops the half.
    half = _HALF_AT_END.search(text)
    text = text[: half.start()] if half else text
    try:
        date = email.utils.parsedate_to_datetime(text.replace(" at ", " "))
    except (ValueError, TypeError, IndexError):
        return None
    if half:
        date = date.replace(hour=_full_hour(date.hour, half_of_day(half[1])))
    return _seconds(date)


def _full_hour(hour: int, half: str) -> int:
    """Return the hour of 24 of one with a half of the day, or with none."""
    return hour % 12 + 12 * (half == "p") if half else hour


def date_seconds(
    numbers: Sequence[int], clock: Sequence[int], half: str, order: Order
) -> float | None:
    """Return the seconds of a date's three numbers and a clock's; None if there is no such day."""
    order = "year" if numbers[0] > _MAX_DAY else order
    year, month, day = {
        "year": (0, 1, 2),
        "day": (2, 1, 0),
        "month": (2, 0, 1),
    }[order]
    hour = _full_hour(clock[0], half)
    full = numbers[year] + 2_000 * (numbers[year] < 100)
    try:
        date = datetime.datetime(full, numbers[month], numbers[day], hour, clock[1], clock[2])
    except ValueError:
        return None
    return _seconds(date)


def find_order(
    dates: Iterable[Sequence[int]], *, twelve_hours: bool = False, oldest_first: bool = True
) -> Order:
    """Return which number of dates stands first, by numbers over 12 and by how they grow.

    Dates with a year of four digits in front say nothing about the others. Where both ways are
    possible: the month with a clock of twelve hours, else the day. Dates that are not known to be
    `oldest_first` may as well fall.
    """
    given = list(dates)
    dates = [date for date in given if date[0] < _LEAST_YEAR]
    if (given and not dates) or any(date[0] > _MAX_DAY for date in dates):
        return "year"
    if any(date[0] > 12 for date in dates):
        return "day"
    if any(date[1] > 12 for date in dates):
        return "month"
    rises: dict[Order, int] = {}
    falls: dict[Order, int] = {}
    keys: dict[Order, list[Any]] = {
        "day": [(date[2], date[1], date[0]) for date in dates],
        "month": [(date[2], date[0], date[1]) for date in dates],
    }
    for order, in_order in keys.items():
        pairs = list(itertools.pairwise(in_order))
        rises[order] = sum(later > earlier for earlier, later in pairs)
        falls[order] = sum(later < earlier for earlier, later in pairs)
    turns = falls if oldest_first else {order: min(falls[order], rises[order]) for order in keys}
    if turns["day"] == turns["month"] and twelve_hours:
        return "month"
    return min(("day", "month"), key=lambda order: (turns[order], falls[order]))


def order_of_times(values: Iterable[Any]) -> Order:
    """Return which number of dates stands first in the times of a table, in any order."""
    dates = []
    twelve_hours = False
    for value in values:
        text = str(value or "")[:_MAX_TIME].strip()
        if match := _DATE.match(text) or _DAY.fullmatch(text):
            dates.append(_date_numbers(match))
            twelve_hours = twelve_hours or bool(len(match.groups()) > 3 and match[7])
    return find_order(dates, twelve_hours=twelve_hours, oldest_first=False)


def _date_numbers(match: re.Match[str]) -> tuple[int, ...]:
    return tuple(int(match[group]) for group in (1, 2, 3))


def _seconds(date: datetime.datetime) -> float:
    zoned = date if date.tzinfo else date.replace(tzinfo=datetime.UTC)
    return zoned.timestamp()
