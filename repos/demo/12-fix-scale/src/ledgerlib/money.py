"""Amounts of money, kept as whole minor units (cents)."""

import re
from functools import total_ordering

# Digits after the decimal point, by ISO 4217 code.
EXPONENTS = {"EUR": 2, "GBP": 2, "JPY": 0, "KWD": 3, "USD": 2}

_NUMBER = re.compile(r"(-?)(\d+)(?:\.(\d+))?")


class CurrencyMismatch(TypeError):
    """Two amounts of different currencies were combined."""


class ParseError(ValueError):
    """A text is not an amount of money."""


@total_ordering
class Money:
    """An amount in one currency; immutable."""

    __slots__ = ("minor", "currency")

    def __init__(self, minor, currency):
        if currency not in EXPONENTS:
            raise ValueError(f"unknown currency {currency!r}")
        object.__setattr__(self, "minor", minor)
        object.__setattr__(self, "currency", currency)

    def __setattr__(self, name, value):
        raise AttributeError("Money is immutable")

    @classmethod
    def parse(cls, text):
        """Read a text such as ``12.50 EUR``."""
        number, _, currency = text.strip().partition(" ")
        match = _NUMBER.fullmatch(number)
        exponent = EXPONENTS.get(currency.strip())
        if match is None or exponent is None:
            raise ParseError(f"not an amount: {text!r}")
        sign, whole, fraction = match.groups()
        fraction = fraction or ""
        if len(fraction) > exponent:
            raise ParseError(f"too many decimals in {text!r}")
        minor = int(whole + fraction.ljust(exponent, "0"))
        return cls(-minor if sign else minor, currency.strip())

    def _same(self, other):
        if self.currency != other.currency:
            raise CurrencyMismatch(f"{self.currency} and {other.currency}")

    def __add__(self, other):
        if not isinstance(other, Money):
            return NotImplemented
        self._same(other)
        return Money(self.minor + other.minor, self.currency)

    def __sub__(self, other):
        if not isinstance(other, Money):
            return NotImplemented
        return self + -other

    def __neg__(self):
        return Money(-self.minor, self.currency)

    def __eq__(self, other):
        if not isinstance(other, Money):
            return NotImplemented
        return (self.minor, self.currency) == (other.minor, other.currency)

    def __lt__(self, other):
        if not isinstance(other, Money):
            return NotImplemented
        self._same(other)
        return self.minor < other.minor

    def __hash__(self):
        return hash((self.minor, self.currency))

    def __bool__(self):
        return self.minor != 0

    def __repr__(self):
        return f"Money({self.minor}, {self.currency!r})"

    def __str__(self):
        exponent = EXPONENTS[self.currency]
        if exponent == 0:
            return f"{self.minor} {self.currency}"
        whole, fraction = divmod(self.minor, 10**exponent)
        return f"{whole}.{fraction:0{exponent}} {self.currency}"

    def scale(self, numerator, denominator=1):
        """Multiply by a fraction, halves away from zero."""
        if denominator <= 0:
            raise ValueError("the denominator must be positive")
        product = self.minor * numerator
        # Twice everything, so that a half is whole.
        rounded = (2 * abs(product) + denominator) // (2 * denominator)
        return Money(-rounded if product < 0 else rounded, self.currency)

    def split(self, parts):
        """Divide into ``parts`` amounts that add up to this one, larger ones first."""
        if parts < 1:
            raise ValueError("cannot split into fewer than one part")
        sign = -1 if self.minor < 0 else 1
        share, rest = divmod(abs(self.minor), parts)
        return [Money(sign * (share + (index < rest)), self.currency) for index in range(parts)]
