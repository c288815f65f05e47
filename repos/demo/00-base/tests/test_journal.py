from datetime import date

import pytest

from ledgerlib.journal import Entry, JournalError, parse, parse_line
from ledgerlib.money import Money


def test_entry():
    entry = parse_line("2023-02-01 assets:bank -> expenses:rent 900.00 EUR ; February")
    assert entry == Entry(date(2023, 2, 1), "assets:bank", "expenses:rent", Money(90000, "EUR"), "February")


def test_note_is_optional():
    assert parse_line("2023-02-01 a -> b 1 JPY").note == ""


def test_comments_and_blank_lines():
    text = "# February\n\n2023-02-01 a -> b 1.00 EUR\n  # end\n"
    assert len(parse(text)) == 1


@pytest.mark.parametrize("line", ["2023-02-01 a b 1.00 EUR", "a -> b 1.00 EUR", "2023-02-01 a -> b 1.00"])
def test_unreadable(line):
    with pytest.raises(JournalError, match="cannot read"):
        parse(line)
