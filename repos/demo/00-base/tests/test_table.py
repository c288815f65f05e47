from ledgerlib.money import Money
from ledgerlib.table import render, wrap


def test_wrap():
    assert wrap("rent for the flat", 8) == ["rent for", "the flat"]


def test_wrap_leaves_short_texts():
    assert wrap("rent", 8) == ["rent"]


def test_render():
    rows = [("rent", Money(90000, "EUR")), ("food", Money(-350, "EUR"))]
    lines = render(rows, ["account", "amount"]).splitlines()
    assert lines[0] == "account      amount"
    assert lines[2] == "rent     900.00 EUR"


def test_render_sets_texts_left():
    assert render([("a", "b")], ["x", "y"]) == "x  y\n-  -\na  b\n"
