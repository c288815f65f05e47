from datetime import date

import pytest

from ledgerlib.periods import Period, add_months, parse_period, recurring


def test_year():
    assert parse_period("2024") == Period(date(2024, 1, 1), date(2025, 1, 1))
    assert parse_period("2024").days == 366


def test_quarter():
    assert parse_period("2023-Q1") == Period(date(2023, 1, 1), date(2023, 4, 1))
    assert parse_period("2023-Q4") == Period(date(2023, 10, 1), date(2024, 1, 1))


def test_month():
    assert parse_period("2023-02") == Period(date(2023, 2, 1), date(2023, 3, 1))


@pytest.mark.parametrize("text", ["", "23", "2023-Q5", "2023-1", "2023-02-01"])
def test_not_a_period(text):
    with pytest.raises(ValueError, match="not a period"):
        parse_period(text)


def test_the_end_is_outside():
    february = parse_period("2023-02")
    assert date(2023, 2, 28) in february
    assert date(2023, 3, 1) not in february


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
