"""Tables as plain text."""


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


def render(rows, headers):
    """Lay out rows of texts under headers; a column of amounts is set to the right."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(headers))]
    widths = [max(width, len(header)) for width, header in zip(widths, headers)]
    right = [all(_is_amount(row[column]) for row in cells) for column in range(len(headers))]
    lines = [_line(headers, widths, right), "  ".join("-" * width for width in widths)]
    lines += [_line(row, widths, right) for row in cells]
    return "\n".join(lines) + "\n"


def _is_amount(cell):
    return cell[:1].isdigit() or cell[:1] == "-"


def _line(cells, widths, right):
    parts = []
    for cell, width, to_right in zip(cells, widths, right):
        parts.append(cell.rjust(width) if to_right else cell.ljust(width))
    return "  ".join(parts).rstrip()
