"""Tables as CSV that spreadsheets may open: what a person or a peer named is never a formula there."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

# What begins a formula, or is skipped before one (OWASP, CSV injection).
FORMULAS = ("=", "+", "-", "@", "\t", "\r")


def cell(value: object) -> object:
    """A value as a cell: a text that a spreadsheet would compute begins with an apostrophe; numbers stay numbers."""
    if not isinstance(value, str) or not value.startswith(FORMULAS):
        return value
    try:
        float(value)
    except ValueError:
        # Where it stands in the middle of a row, a carriage return would begin another one.
        return f"'{value}".replace("\r", " ")
    # Python reads more as a number than spreadsheets do, but none of it names a cell or a function.
    return value


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    """Rows as the text of a CSV file."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([cell(value) for value in row] for row in rows)
    return text.getvalue()
