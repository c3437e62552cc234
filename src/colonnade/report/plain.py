"""Lines of text: tables, sentences, and when something was."""

from __future__ import annotations

import datetime
import re
import textwrap
from collections.abc import Iterable, Sequence

# What people call the steps of a protocol; steps that are not named here go by their own name.
STEPS = {
    "align": "finding the people in common",
    "columns": "sharing rows",
    "rehearsing": "rehearsing on invented people",
    "phases": "judging",
    "batches": "encrypted batches",
    "uncertainty": "estimating what noise did to the model (Ctrl-C skips it)",
}
# A cell of a table is not wrapped to less.
_NARROWEST = 12
_BREAK = re.compile(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")


def lines_text(lines: Iterable[str]) -> str:
    """Lines as one text. A name in one of them that holds a line break makes no further line: it is escaped."""
    return "\n".join(one_line(line) for line in lines)


def one_line(text: str) -> str:
    """A text without its line breaks, which are escaped."""
    return text if text.isprintable() else _BREAK.sub(lambda match: repr(match[0])[1:-1], text)


def now() -> str:
    """The time, in UTC and to the second."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def table_lines(rows: Sequence[Sequence[str]], width: int | None = None, *, heads: bool = True) -> list[str]:
    """Rows in columns, indented; wider than `width`, long cells are wrapped, and where that is not enough rows stack.

    `heads` is whether the first row names the columns, whose names then stand before stacked cells.
    """
    if not rows:
        return []
    rows = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    least = [min(size, max(_NARROWEST, *_longest_words(rows, at))) for at, size in enumerate(widths)]
    while width is not None and sum(widths) + 2 * len(widths) > max(width, _NARROWEST):
        excess = [size - small for size, small in zip(widths, least, strict=True)]
        if not any(excess):
            return _stacked(rows if heads else [[""] * len(widths), *rows], width)
        widths[max(range(len(widths)), key=lambda at: (excess[at] > 0, widths[at]))] -= 1
    lines = []
    for row in rows:
        cells = [
            textwrap.wrap(cell, size, break_on_hyphens=False) or [""] if size else [""]
            for cell, size in zip(row, widths, strict=True)
        ]
        for place in range(max(map(len, cells))):
            parts = [cell[place] if place < len(cell) else "" for cell in cells]
            lines.append("  " + "  ".join(map(str.ljust, parts, widths)).rstrip())
    return lines


def _longest_words(rows: Sequence[Sequence[str]], at: int) -> tuple[int, ...]:
    return tuple(max(map(len, row[at].split()), default=0) for row in rows)


def _stacked(rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Each row as a block: its first cell, then every other one after the name of its column."""
    heads, *rest = rows
    lines = []
    for first, *cells in rest:
        named = zip(heads[1:], cells, strict=True)
        lines += wrapped([first], width)
        lines += wrapped(
            (f"{head}: {cell}" if head else cell for head, cell in named if cell), width, indent="    "
        )
    return lines


def wrapped(
    sentences: Iterable[str], width: int | None, *, bullet: str = "", indent: str = "  "
) -> list[str]:
    """Sentences as indented lines, at most `width` wide; one line each without a width."""
    indent += bullet
    sentences = map(one_line, sentences)
    if width is None:
        return [indent + sentence for sentence in sentences]
    return [
        line
        for sentence in sentences
        for line in textwrap.wrap(
            sentence,
            width=max(width, 40),
            initial_indent=indent,
            subsequent_indent=" " * len(indent),
            break_on_hyphens=False,
        )
    ]
