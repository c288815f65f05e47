from datetime import date

import pytest

from ledgerlib.periods import Period, add_months, parse_period, quarter_of, recurring


def test_year():
    assert parse_period("2024") == Period(date(2024, 1, 1), date(2025, 1, 1))
    assert parse_period("2024").days == 366


def test_quarter():
    assert parse_period("2023-Q1") == Period(date(2023, 1, 1), date(2023, 4, 1))
    assert parse_period("2023-Q4") == Period(date(2023, 10, 1), date(2024, 1, 1))


def test_month():
    assert parse_period("2023-02") == Period(date(2023, 2, 1), date(2023, 3, 1))


def test_december():
    assert parse_period("2023-12") == Period(date(2023, 12, 1), date(2024, 1, 1))


@pytest.mark.parametrize("month", range(1, 13))
def test_months_lie_end_to_end(month):
    following = parse_period("2024-01") if month == 12 else parse_period(f"2023-{month + 1:02}")
    assert parse_period(f"2023-{month:02}").end == following.start


@pytest.mark.parametrize("text", ["", "23", "2023-Q5", "2023-1", "2023-02-01"])
def test_not_a_period(text):
    with pytest.raises(ValueError, match="not a period"):
        parse_period(text)


def test_the_end_is_outside():
    february = parse_period("2023-02")
    assert date(2023, 2, 28) in february
    assert date(2023, 3, 1) not in february


@pytest.mark.parametrize("month, text", [(1, "2023-Q1"), (3, "2023-Q1"), (4, "2023-Q2"), (12, "2023-Q4")])
def test_quarter_of(month, text):
    assert quarter_of(date(2023, month, 28)) == parse_period(text)


def test_a_day_lies_in_its_quarter():
    day = date(2024, 2, 29)
    assert day in quarter_of(day)


def test_add_months_clamps():
    assert add_months(date(2023, 1, 31), 1) == date(2023, 2, 28)
    assert add_months(date(2024, 1, 31), 1) == date(2024, 2, 29)
    assert add_months(date(2023, 12, 15), 1) == date(2024, 1, 15)
    assert add_months(date(2023, 3, 15), -3) == date(2022, 12, 15)


def test_recurring():
    days = recurring(date(2023, 1, 15), date(2023, 4, 15))
    assert days == [date(2023, 1, 15), date(2023, 2, 15), date(2023, 3, 15)]


def test_recurring_every_quarter():
    assert recurring(date(2023, 1, 1), date(2023, 12, 31), months=3)[-1] == date(2023, 10, 1)


def test_recurring_must_move():
    with pytest.raises(ValueError):
        recurring(date(2023, 1, 1), date(2023, 12, 31), months=0)
