"""Exchange rates."""

import socket

from .money import EXPONENTS, Money


class Rates:
    """Rates to one base currency, as pairs of whole numbers."""

    def __init__(self, base):
        self.base = base
        self._rates = {base: (1, 1)}

    def set(self, currency, numerator, denominator=1):
        """One unit of ``currency`` is worth ``numerator / denominator`` units of the base."""
        if numerator <= 0 or denominator <= 0:
            raise ValueError("a rate must be positive")
        self._rates[currency] = (numerator, denominator)

    def convert(self, money, currency):
        """Change an amount into another currency."""
        try:
            from_num, from_den = self._rates[money.currency]
            to_num, to_den = self._rates[currency]
        except KeyError as error:
            raise LookupError(f"no rate for {error.args[0]}") from None
        shift = 10 ** EXPONENTS[currency]
        unshift = 10 ** EXPONENTS[money.currency]
        numerator = money.minor * from_num * to_den * shift
        denominator = from_den * to_num * unshift
        return Money((2 * numerator + denominator) // (2 * denominator), currency)


def fetch(host, port=80, path="/", timeout=5):
    """Read a page of rates from a server: the body as text."""
    with socket.create_connection((host, port), timeout=timeout) as connection:
        connection.sendall(f"GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())
        answer = b""
        while True:
            chunk = connection.recv(4096)
            if not chunk:
                break
            answer += chunk
    head, _, body = answer.partition(b"\r\n\r\n")
    status = head.split(b"\r\n", 1)[0].decode("latin-1")
    if " 200 " not in status + " ":
        raise ConnectionError(f"{host} answered {status!r}")
    return body.decode("utf-8")
