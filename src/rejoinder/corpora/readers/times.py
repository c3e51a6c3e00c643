"""Times and dates as exports write them."""

from __future__ import annotations

import datetime
import email.utils
import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from rejoinder.corpora.clocks import HALF, half_of_day
from rejoinder.patterns import match_pattern, search_pattern

if TYPE_CHECKING:
    pass


Order: TypeAlias = Literal["day", "month", "year"]  # what stands first

_MAX_TIME = 100  # letters

_SECONDS = match_pattern(r"\d{9,13}(?:\.\d+)?")

_SPACES = search_pattern(r"\s+")

_MILLISECONDS = 1e11  # a larger number of seconds would be in the year 5138

_DATE = match_pattern(
    r"(\d{1,4})[./-] ?(\d{1,2})[./-] ?(\d{1,4})\.?[,،]?[ T]+(\d{1,2})[:.](\d{2})(?:[:.](\d{2}))?"
    rf"(?:\s?({HALF}))?"
)


def parse_time(value: Any, order: Order = "day") -> float | None:
    """Return the seconds of a time: a number of (milli)seconds, ISO 8601, RFC 2822, or 31/12/20."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value / 1_000 if abs(value) > _MILLISECONDS else float(value)
    text = str(value or "")[:_MAX_TIME].strip()
    if _SECONDS.fullmatch(text):
        return parse_time(float(text))
    try:
        return _seconds(datetime.datetime.fromisoformat(text))
    except ValueError:
        pass
    if match := _DATE.fullmatch(text):
        numbers = [int(match[group]) for group in (1, 2, 3)]
        clock = [int(match[group] or 0) for group in (4, 5, 6)]
        return date_seconds(numbers, clock, half_of_day(match[7] or ""), order)
    try:
        return _seconds(email.utils.parsedate_to_datetime(text))
    except (ValueError, TypeError, IndexError):
        return None


def date_seconds(
    numbers: Sequence[int], clock: Sequence[int], half: str, order: Order
) -> float | None:
    """Return the seconds of a date's three numbers and a clock's; None if there is no such day."""
    year, month, day = {
        "year": (0, 1, 2),
        "day": (2, 1, 0),
        "month": (2, 0, 1),
    }[order]
    hour = clock[0] % 12 + 12 * (half == "p") if half else clock[0]
    full = numbers[year] + 2_000 * (numbers[year] < 100)
    try:
        date = datetime.datetime(full, numbers[month], numbers[day], hour, clock[1], clock[2])
    except ValueError:
        return None
    return _seconds(date)


def find_order(dates: Iterable[Sequence[int]], *, twelve_hours: bool = False) -> Order:
    """Return which number of dates stands first, by numbers over 12 and by how they grow.

    Where both ways are possible: the month with a clock of twelve hours, else the day.
    """
    dates = list(dates)
    if any(date[0] > 31 for date in dates):
        return "year"
    if any(date[0] > 12 for date in dates):
        return "day"
    if any(date[1] > 12 for date in dates):
        return "month"
    falls = {
        order: sum(later < earlier for earlier, later in itertools.pairwise(keys))
        for order, keys in (
            ("day", [(date[2], date[1], date[0]) for date in dates]),
            ("month", [(date[2], date[0], date[1]) for date in dates]),
        )
    }
    if falls["day"] != falls["month"]:
        return "day" if falls["day"] < falls["month"] else "month"
    return "month" if twelve_hours else "day"


def date_numbers(value: Any) -> list[int] | None:
    """Return the three numbers of a date in numbers, as `find_order` takes them; else None."""
    match = _DATE.fullmatch(str(value or "")[:_MAX_TIME].strip())
    return [int(match[group]) for group in (1, 2, 3)] if match else None


def _seconds(date: datetime.datetime) -> float:
    zoned = date if date.tzinfo else date.replace(tzinfo=datetime.UTC)
    return zoned.timestamp()
