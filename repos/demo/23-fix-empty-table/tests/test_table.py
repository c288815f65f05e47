from ledgerlib.money import Money
from ledgerlib.table import render, wrap


def test_wrap():
    assert wrap("rent for the flat", 8) == ["rent for", "the flat"]


def test_wrap_leaves_short_texts():
    assert wrap("rent", 8) == ["rent"]


def test_wrap_breaks_long_words():
    assert wrap("Donaudampfschiff", 8) == ["Donaudam", "pfschiff"]


def test_render():
    rows = [("rent", Money(90000, "EUR")), ("food", Money(-350, "EUR"))]
    lines = render(rows, ["account", "amount"]).splitlines()
    columns = [(line[:7], line[9:]) for line in lines]
    assert columns[0] == ("account", "    amount")
    assert columns[1] == ("-------", "----------")
    assert columns[2] == ("rent   ", "900.00 EUR")


def test_render_without_rows():
    assert render([], ["account", "note"]).splitlines()[1] == "-------  ----"


def test_render_sets_texts_left():
    assert render([("a", "b")], ["x", "y"]) == "x  y\n-  -\na  b\n"
