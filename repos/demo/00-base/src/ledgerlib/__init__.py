"""Plain-text double-entry bookkeeping."""

from .book import Book
from .journal import Entry, JournalError, parse
from .money import CurrencyMismatch, Money, ParseError
from .periods import Period, parse_period, recurring
from .table import render

__all__ = [
    "Book",
    "CurrencyMismatch",
    "Entry",
    "JournalError",
    "Money",
    "ParseError",
    "Period",
    "parse",
    "parse_period",
    "recurring",
    "render",
]
