from ledgerlib import Book, Money, parse, parse_period

JOURNAL = """
2023-02-01 assets:bank -> expenses:rent 900.00 EUR
2023-01-15 income:wages -> assets:bank 2500.00 EUR
2023-02-10 assets:cash -> expenses:food 30.00 EUR
2023-02-11 assets:cash -> expenses:food 12.00 USD
"""


def test_entries_are_in_order():
    book = Book(parse(JOURNAL))
    assert [entry.day.isoformat() for entry in book.entries][:2] == ["2023-01-15", "2023-02-01"]


def test_add_keeps_the_order():
    book = Book(parse(JOURNAL))
    book.add(parse("2023-01-20 a -> b 1.00 EUR")[0])
    assert book.entries[1].source == "a"


def test_balance():
    assert Book(parse(JOURNAL)).balance("assets:bank") == {"EUR": Money(160000, "EUR")}


def test_balance_by_currency():
    food = Book(parse(JOURNAL)).balance("expenses:food")
    assert food == {"EUR": Money(3000, "EUR"), "USD": Money(1200, "USD")}


def test_balance_includes_accounts_below():
    assert Book(parse(JOURNAL)).balance("expenses")["EUR"] == Money(93000, "EUR")


def test_nothing_is_no_balance():
    assert Book().balance("assets") == {}


def test_during():
    book = Book(parse(JOURNAL))
    assert len(book.during(parse_period("2023-02"))) == 3
    assert len(book.during(parse_period("2023-Q1"))) == 4


def test_during_ends_before_the_next_period():
    book = Book(parse(JOURNAL))
    assert [entry.day.isoformat() for entry in book.during(parse_period("2023-01"))] == ["2023-01-15"]


def test_during_begins_on_the_first_day():
    book = Book(parse(JOURNAL))
    assert book.during(parse_period("2023-02"))[0].target == "expenses:rent"


def test_share_adds_up():
    shares = Book(parse("2023-02-01 a -> b 0.10 EUR")).share("b", ["ada", "ben", "cy"])
    assert [share["EUR"].minor for share in shares.values()] == [4, 3, 3]


def test_share():
    shares = Book(parse(JOURNAL)).share("expenses:rent", ["ada", "ben"])
    assert shares == {"ada": {"EUR": Money(45000, "EUR")}, "ben": {"EUR": Money(45000, "EUR")}}
