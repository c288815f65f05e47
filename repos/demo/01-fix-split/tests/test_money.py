import pytest

from ledgerlib.money import CurrencyMismatch, Money, ParseError


@pytest.mark.parametrize(
    "text, minor",
    [("12.50 EUR", 1250), ("12 EUR", 1200), ("0.5 USD", 50), ("-3.07 GBP", -307), ("100 JPY", 100), ("1.234 KWD", 1234)],
)
def test_parse(text, minor):
    assert Money.parse(text) == Money(minor, text[-3:])


def test_parse_refuses_too_many_decimals():
    with pytest.raises(ParseError, match="too many decimals"):
        Money.parse("1.005 EUR")


def test_unknown_currency():
    with pytest.raises(ValueError, match="unknown currency 'XXX'"):
        Money(1, "XXX")


def test_sum_and_difference():
    assert Money(150, "EUR") + Money(50, "EUR") == Money(200, "EUR")
    assert Money(150, "EUR") - Money(250, "EUR") == Money(-100, "EUR")


def test_currencies_do_not_mix():
    with pytest.raises(CurrencyMismatch):
        Money(1, "EUR") + Money(1, "USD")
    with pytest.raises(TypeError):
        Money(1, "EUR") + 1


def test_order():
    assert sorted([Money(3, "EUR"), Money(-1, "EUR"), Money(2, "EUR")])[0] == Money(-1, "EUR")
    assert Money(2, "EUR") >= Money(2, "EUR")


def test_equal_amounts_hash_alike():
    assert len({Money(1, "EUR"), Money(1, "EUR"), Money(1, "USD")}) == 2


def test_immutable():
    with pytest.raises(AttributeError):
        Money(1, "EUR").minor = 2


def test_str():
    assert str(Money(1250, "EUR")) == "12.50 EUR"
    assert str(Money(5, "USD")) == "0.05 USD"
    assert str(Money(100, "JPY")) == "100 JPY"
    assert str(Money(1234, "KWD")) == "1.234 KWD"


def test_scale():
    assert Money(1000, "EUR").scale(19, 100) == Money(190, "EUR")
    assert Money(5, "EUR").scale(1, 2) == Money(3, "EUR")


def test_scale_needs_a_positive_denominator():
    with pytest.raises(ValueError):
        Money(5, "EUR").scale(1, 0)


def test_split_evenly():
    assert Money(900, "EUR").split(3) == [Money(300, "EUR")] * 3


def test_split_into_one():
    assert Money(901, "EUR").split(1) == [Money(901, "EUR")]


def test_split_gives_the_first_parts_the_remainder():
    assert Money(10000, "EUR").split(3) == [Money(3334, "EUR"), Money(3333, "EUR"), Money(3333, "EUR")]


def test_split_of_a_debt():
    assert Money(-10000, "EUR").split(3) == [Money(-3334, "EUR"), Money(-3333, "EUR"), Money(-3333, "EUR")]


@pytest.mark.parametrize("minor", [0, 1, 2, 99, 100, -1, -7, 1001])
@pytest.mark.parametrize("parts", [2, 3, 7])
def test_split_loses_nothing(minor, parts):
    shares = Money(minor, "EUR").split(parts)
    assert len(shares) == parts
    assert sum(share.minor for share in shares) == minor
    assert abs(shares[0].minor - shares[-1].minor) <= 1


def test_split_needs_a_part():
    with pytest.raises(ValueError, match="fewer than one"):
        Money(900, "EUR").split(0)
