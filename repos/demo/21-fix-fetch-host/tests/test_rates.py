import pytest

from ledgerlib.money import Money
from ledgerlib.rates import Rates, fetch


@pytest.fixture
def rates():
    rates = Rates("EUR")
    rates.set("USD", 9, 10)
    rates.set("JPY", 1, 150)
    return rates


def test_convert_to_base(rates):
    assert rates.convert(Money(1000, "USD"), "EUR") == Money(900, "EUR")


def test_convert_between_exponents(rates):
    assert rates.convert(Money(15000, "JPY"), "EUR") == Money(10000, "EUR")
    assert rates.convert(Money(900, "USD"), "JPY") == Money(1215, "JPY")


def test_no_rate(rates):
    with pytest.raises(LookupError, match="no rate for GBP"):
        rates.convert(Money(1, "GBP"), "EUR")


def test_fetch_names_the_host():
    assert "Example Domain" in fetch("example.org", 80)


def test_rates_are_positive(rates):
    with pytest.raises(ValueError):
        rates.set("USD", 0)
