"""A book of entries and its balances."""

from .money import Money


class Book:
    """Entries in the order of their days."""

    def __init__(self, entries=()):
        self.entries = sorted(entries, key=lambda entry: entry.day)

    def add(self, entry):
        self.entries.append(entry)
        self.entries.sort(key=lambda entry: entry.day)

    def accounts(self):
        """Names of all accounts, sorted."""
        names = set()
        for entry in self.entries:
            names.add(entry.source)
            names.add(entry.target)
        return list(names)

    def during(self, period):
        """Entries of a period."""
        return [entry for entry in self.entries if entry.day in period]

    def balance(self, account):
        """What an account holds, by currency; accounts below it (``name:…``) included."""
        totals = {}
        for entry in self.entries:
            amount = entry.amount
            zero = Money(0, amount.currency)
            for name, change in ((entry.source, -amount), (entry.target, amount)):
                if name == account or name.startswith(account + ":"):
                    totals[amount.currency] = totals.get(amount.currency, zero) + change
        return {currency: total for currency, total in totals.items() if total}

    def share(self, account, people):
        """Split what an account holds among people: name to amounts by currency."""
        shares = {name: {} for name in people}
        for currency, total in self.balance(account).items():
            for name, part in zip(people, total.split(len(people))):
                shares[name][currency] = part
        return shares
