"""Tables as plain text."""

from .money import Money


def wrap(text, width):
    """Break a text into lines of at most ``width`` characters, at blanks."""
    lines = []
    while len(text) > width:
        cut = text.rfind(" ", 0, width + 1)
        if cut > 0:
            lines.append(text[:cut])
            text = text[cut + 1 :]
        else:
            lines.append(text[:width])
            text = text[width:]
    lines.append(text)
    return lines


class _Column:
    def __init__(self, header, cells):
        self.width = max(len(header), max((len(cell) for cell in cells), default=0))
        self.to_right = all(cell[:1].isdigit() or cell[:1] == "-" for cell in cells)

    def place(self, cell):
        return cell.rjust(self.width) if self.to_right else cell.ljust(self.width)


def render(rows, headers, totals=False):
    """Lay out rows of texts under headers; a column of amounts is set to the right.

    With ``totals``, a last line adds up each column that holds nothing but
    amounts of one currency.
    """
    rows = [list(row) for row in rows]
    if totals and rows:
        rows.append([_total(column) for column in zip(*rows)])
    cells = [[str(cell) for cell in row] for row in rows]
    columns = [_Column(header, [row[index] for row in cells]) for index, header in enumerate(headers)]
    lines = [_line(columns, headers), "  ".join("-" * column.width for column in columns)]
    lines += [_line(columns, row) for row in cells]
    return "\n".join(lines) + "\n"


def _total(cells):
    currencies = {cell.currency if isinstance(cell, Money) else None for cell in cells}
    if None in currencies or len(currencies) > 1:
        return ""
    return sum(cells[1:], cells[0])


def _line(columns, cells):
    return "  ".join(column.place(cell) for column, cell in zip(columns, cells)).rstrip()
