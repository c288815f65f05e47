"""Calendar periods and repeating dates."""

import re
from calendar import monthrange
from collections import namedtuple
from datetime import date

_PERIOD = re.compile(r"(\d{4})(?:-(?:(\d{2})|Q([1-4])))?")


class Period(namedtuple("Period", "start end")):
    """Days from ``start`` up to, but not including, ``end``."""

    __slots__ = ()

    def __contains__(self, day):
        return self.start <= day < self.end

    @property
    def days(self):
        return (self.end - self.start).days


def parse_period(text):
    """Read a year (``2023``), a quarter (``2023-Q2``) or a month (``2023-04``)."""
    match = _PERIOD.fullmatch(text)
    if match is None:
        raise ValueError(f"not a period: {text!r}")
    year, month, quarter = (group and int(group) for group in match.groups())
    if month is not None:
        start = date(year, month, 1)
        return Period(start, add_months(start, 1))
    if quarter is not None:
        start = date(year, 3 * quarter - 2, 1)
        return Period(start, add_months(start, 3))
    return Period(date(year, 1, 1), date(year + 1, 1, 1))


def quarter_of(day):
    """The quarter that a day lies in."""
    start = date(day.year, day.month - (day.month - 1) % 3, 1)
    return Period(start, add_months(start, 3))


def add_months(day, months):
    """Move a day by whole months, to the month's last day where it is shorter."""
    index = day.year * 12 + day.month - 1 + months
    year, month = divmod(index, 12)
    last = monthrange(year, month + 1)[1]
    return date(year, month + 1, min(day.day, last))


def recurring(start, until, months=1):
    """List the days on which something that repeats is due, up to but not including ``until``."""
    if months < 1:
        raise ValueError("must repeat after at least one month")
    days = []
    day = start
    while day < until:
        days.append(day)
        day = add_months(day, months)
    return days
