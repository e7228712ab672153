# SPDX-License-Identifier: MIT
"""Where a report goes, and how it shows sizes and lists."""

import sys


class Failed(Exception):
    """What could not be done, as a message."""


def write(path, text):
    """Writes into the file at `path`, or to standard output for None."""
    try:
        if path is None:
            sys.stdout.write(text)
            sys.stdout.flush()
        else:
            with open(path, "w", encoding="utf-8", errors="replace") as file:
                file.write(text)
    except OSError as error:
        raise Failed(f"{path or 'standard output'}: {error.strerror}") from None


def in_units(size):
    """Such as "4.00 KiB"."""
    value, units = float(size), ["B", "KiB", "MiB", "GiB", "TiB"]
    while value >= 1024 and len(units) > 1:
        value, units = value / 1024, units[1:]
    return f"{value:.0f} B" if units[0] == "B" else f"{value:.2f} {units[0]}"


def table(title, columns, rows):
    """Lines of a table, which begin with the title. A column without a name is text on the left, all others are on the right."""
    columns = ("", *columns)
    rows = [columns, *(("  " + first, *rest) for first, *rest in rows)]
    widths = [max(len(str(row[index])) for row in rows) for index in range(len(columns))]
    widths[0] = max(widths[0], 30)
    is_long = len(title) > widths[0]
    if is_long:
        yield title
    for row in rows:
        cells = (f"{cell:<{width}}" if not name else f"{cell:>{width}}" for cell, width, name in zip(row, widths, columns))
        line = "  ".join(cells)
        yield (title + line[len(title):] if row is columns and not is_long else line).rstrip()
