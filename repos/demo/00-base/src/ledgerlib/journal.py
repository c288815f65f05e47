"""The journal's text format, one entry a line.

    2023-02-01 assets:bank -> expenses:rent 900.00 EUR ; February
"""

import re
from collections import namedtuple
from datetime import date

from .money import Money

_LINE = re.compile(
    r"(?P<day>\d{4}-\d{2}-\d{2})\s+(?P<source>\S+)\s+->\s+(?P<target>\S+)"
    r"\s+(?P<amount>-?[\d.]+\s+[A-Z]{3})\s*(?:;\s*(?P<note>.*))?"
)

Entry = namedtuple("Entry", "day source target amount note")


class JournalError(ValueError):
    """A line of a journal cannot be read."""


def parse_line(line):
    """Read one entry."""
    match = _LINE.fullmatch(line.strip())
    if match is None:
        raise JournalError(f"cannot read {line.strip()!r}")
    day = date(*map(int, match["day"].split("-")))
    return Entry(day, match["source"], match["target"], Money.parse(match["amount"]), match["note"] or "")


def parse(text):
    """Read a journal; blank lines and lines that begin with ``#`` are left out."""
    entries = []
    for number, line in enumerate(text.splitlines()):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            entries.append(parse_line(line))
        except JournalError as error:
            raise JournalError(f"line {number}: {error}") from None
    return entries
