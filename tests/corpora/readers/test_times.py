"""Times as exports and people write them: clocks of twelve hours, zones, fractions of a second."""

import datetime

import pytest

from rejoinder.corpora.readers.times import order_of_times, parse_time

JANUARY = "2024-01-05 10:00"


def _written(text):
    seconds = parse_time(text)
    return seconds if seconds is None else f"{datetime.datetime.fromtimestamp(seconds, datetime.UTC):%Y-%m-%d %H:%M}"


@pytest.mark.parametrize(("text", "wanted"), [
    ("Jan 5, 2024 1:05 PM", "2024-01-05 13:05"),
    ("Jan 5, 2024, 1:05:09\u202fPM", "2024-01-05 13:05"),
    ("Jan 5, 2024 12:05 am", "2024-01-05 00:05"),
    ("Friday, January 5, 2024 12:05:00 PM", "2024-01-05 12:05"),
    ("December 31, 2020 at 11:59 PM", "2020-12-31 23:59"),
    ("5 January 2024 at 10:00", JANUARY),
    ("2024-01-05 1:05 PM", "2024-01-05 13:05"),
])  # fmt: skip
def test_the_half_of_a_day_counts_in_dates_with_a_month_s_name(text, wanted):
    assert _written(text) == wanted


@pytest.mark.parametrize("text", [
    f"{JANUARY}:00 UTC", f"{JANUARY}:00 GMT", f"{JANUARY}:00.250 UTC", f"{JANUARY}:00 +0000 UTC", f"{JANUARY}:00+00",
    "2024-01-05 05:00:00 EST", "2024-01-05 05:00:00 -0500", "2024-01-05 05:00:00 -05", "2024-01-05T05:00:00-05:00",
    "5/1/2024 10:00:00 AM UTC", "Jan 5, 2024 5:00 AM EST", "Fri Jan 05 05:00:00 EST 2024",
    "Fri, 5 Jan 2024 05:00:00 -0500 (EST)", "Fri Jan 05 2024 05:00:00 GMT-0500 (Eastern Standard Time)",
])  # fmt: skip
def test_a_zone_stands_behind_the_clock(text):
    assert _written(text) == JANUARY


@pytest.mark.parametrize(("text", "wanted"), [
    ("01.03.2026", "2026-03-01 00:00"), ("3/1/2026", "2026-01-03 00:00"), ("March 1, 2026", "2026-03-01 00:00"),
    ("1 March 2026", "2026-03-01 00:00"), ("Sunday, March 1, 2026", "2026-03-01 00:00"), ("06-Mar-2026", "2026-03-06 00:00"),
    ("06-Mar-2026 21:21", "2026-03-06 21:21"), ("06.03.2026 - 21:21", "2026-03-06 21:21"),
    ("03/06/2026 09:21:00 PM GMT+1", "2026-06-03 20:21"), ("March 06, 2026 at 09:21:00 PM GMT+1", "2026-03-06 20:21"),
    ("March 06, 2026 at 09:21:00 PM UTC-10", "2026-03-07 07:21"),
])  # fmt: skip
def test_days_without_a_clock_hyphens_and_short_zones(text, wanted):
    assert _written(text) == wanted


@pytest.mark.parametrize("text", [
    "2024-01-05 20:00 AEST", "2024-01-05 21:00 AEDT", "2024-01-05 19:30 ACST", "2024-01-05 18:00 AWST",
    "2024-01-05 11:00 BST", "2024-01-05 12:00 MESZ", "2024-01-05 13:00 MSK", "5 Jan 2024 23:00 NZDT",
    "2024-01-05 19:00 JST", "2024-01-05 12:00 SAST", "2024-01-05 05:00EST", "5/1/2024 5:00 AM EST",
    "2024-01-05T12:00:00+02:00[Europe/Kyiv]", "2024-01-05T10:00:00.5Z[UTC]",
])  # fmt: skip
def test_zones_of_the_world(text):
    assert _written(text) == JANUARY


@pytest.mark.parametrize("text", [f"{JANUARY} XEST", f"{JANUARY} WAST", f"{JANUARY}:00[Europe/Berlin]"])
def test_a_zone_that_is_not_known_is_not_taken_for_its_end(text):
    assert parse_time(text) is None


@pytest.mark.parametrize(("text", "order", "wanted"), [
    ("2021/05/03", "day", "2021-05-03 00:00"), ("2021.5.3", "month", "2021-05-03 00:00"),
    ("03.05.21", "day", "2021-05-03 00:00"), ("03.05.21", "month", "2021-03-05 00:00"), ("3/5/21", "day", None),
])  # fmt: skip
def test_days_of_short_years_and_with_the_year_first(text, order, wanted):
    seconds = parse_time(text, order)
    shown = seconds and f"{datetime.datetime.fromtimestamp(seconds, datetime.UTC):%Y-%m-%d %H:%M}"
    assert shown == wanted


@pytest.mark.parametrize("number", [1704448800, 1704448800000, 1704448800000000, 1704448800000000000])
def test_numbers_count_from_seconds_to_nanoseconds(number):
    assert _written(number) == _written(str(number)) == JANUARY


@pytest.mark.parametrize("value", ["yesterday", "", None, True, "20240105100000", "-2024", "1.2.3", "99.99.2026", float("inf"), 10**400])
def test_what_is_no_time_is_none(value):
    assert parse_time(value) is None


@pytest.mark.parametrize(("times", "order"), [
    (["04/04/2024 1:05 PM", "03/05/2024 11:55 AM"], "month"),  # the newest first, as it may be
    (["03/05/2024 11:55 AM", "04/04/2024 1:05 PM"], "month"),
    (["03/05/2024 11:55:00 AM UTC", "03/06/2024 1:05:00 PM UTC"], "month"),
    (["03/05/2024 11:55", "03/05/2024 13:05"], "day"),
    (["13/05/2024 11:55 AM", "03/05/2024 1:05 PM"], "day"),
    (["3/1/2026", "3/13/2026"], "month"),
    (["2024/05/03 11:55 UTC", "2024/05/03 13:05 UTC"], "year"),
    (["05/04/2024 10:00", "04/04/2024 10:00", "12/03/2024 10:00", "10/03/2024 10:00"], "day"),
    (["04/05/2024 10:00", "04/04/2024 10:00", "03/12/2024 10:00", "03/10/2024 10:00"], "month"),
])  # fmt: skip
def test_what_stands_first_in_dates_of_tables(times, order):
    assert order_of_times(times) == order


@pytest.mark.parametrize(("values", "order"), [
    (["25.01.24 09:00", "2024/01/25 09:00"], "day"), (["2024/01/25 09:00", "01/25/24 09:00"], "month"),
    (["99/12/31 09:00", "01/01/05 09:00"], "year"), (["2024/01/25 09:00"], "year"),
])  # fmt: skip
def test_dates_with_the_year_first_do_not_order_the_others(values, order):
    assert order_of_times(values) == order


def test_a_year_in_front_is_read_in_any_order():
    assert {parse_time("2024/02/01 10:00", order) for order in ("day", "month", "year")} == {parse_time("2024-02-01 10:00")}
