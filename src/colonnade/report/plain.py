"""Lines of text: tables, sentences, and numbers with the digits that they bear."""

from __future__ import annotations

import datetime
import math
import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import TYPE_CHECKING

from markupsafe import Markup

if TYPE_CHECKING:
    from colonnade.report.record import BeforeRecord, RunRecord, TotalRecord

# What people call the steps of a protocol; steps that are not named here go by their own name.
STEPS = {
    "align": "finding the people in common",
    "columns": "sharing rows",
    "rehearsing": "rehearsing on synthetic people",
    "phases": "evaluating",
    "batches": "encrypted batches",
    "uncertainty": "estimating what noise did to the model (Ctrl-C skips it)",
}
# A cell of a table is not wrapped to less.
_NARROWEST = 12
_BREAK = re.compile(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")


@dataclass(frozen=True, eq=False)
class Section:
    """A part of a report, the same for text, page, card and board; a table begins with its heads.

    Of what is `bad` the last note is the warning.
    """

    title: str
    table: Sequence[tuple[str, ...]] = ()
    notes: tuple[str, ...] = ()
    pictures: Sequence[Markup] = ()
    lines: Sequence[str] = ()
    bad: bool = False


def lines_text(lines: Iterable[str]) -> str:
    """Lines as one text. A name in one of them that holds a line break makes no further line: it is escaped."""
    return "\n".join(one_line(line) for line in lines)


def one_line(text: str) -> str:
    return text if text.isprintable() else _BREAK.sub(lambda match: repr(match[0])[1:-1], text)


def now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def table_lines(rows: Sequence[Sequence[str]], width: int | None = None, *, heads: bool = True) -> list[str]:
    """Rows in columns, the first one `heads`; wider than `width` long cells wrap, and at last rows stack."""
    if not rows:
        return []
    rows = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    words = [[len(word) for row in rows for word in row[at].split()] for at in range(len(widths))]
    least = [min(size, max([_NARROWEST, *most])) for size, most in zip(widths, words, strict=True)]
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


def signed_text(value: float, half_width: float | None = None) -> str:
    """A number with its sign, and how far noise may have moved it, rounded up."""
    size = max(abs(value), half_width or 0.0)
    exact = Decimal(half_width or 0.0)
    if not size or 0.01 <= size < 1e6:
        places = 0 if size >= 100 else 2
        text, near = f"{value:+.{places}f}", f"{_up(exact, -places):f}"
    else:
        text, near = f"{value:+.1e}", f"{_up(exact, exact.adjusted() - 1):.1e}"
    return text if half_width is None else f"{text} ± {near}"


def _up(exact: Decimal, last: int) -> Decimal:
    return exact.quantize(Decimal(1).scaleb(last), rounding=ROUND_CEILING)


def spent_text(epsilon: float | None) -> str:
    """ε rounded up; a file of facts has null where no proof bounds it."""
    from colonnade.privacy.guarantee import epsilon_text  # accounting is loaded where ε is said

    return epsilon_text(math.inf if epsilon is None else epsilon)


def budget_text(epsilon: float | None) -> str:
    """A budget as it was granted; ∞ where a coalition was accepted by name."""
    return "∞" if epsilon is None or math.isinf(epsilon) else f"{epsilon:g}"


def left_text(epsilon: float | None) -> str:
    """What is left of a budget, rounded down."""
    if epsilon is None or math.isinf(epsilon):
        return "∞"
    exact = Decimal(epsilon)
    if not exact:
        return "0"
    return f"{exact.quantize(Decimal(1).scaleb(min(-2, exact.adjusted() - 1)), rounding=ROUND_FLOOR):f}"


def size_text(size: int) -> str:
    value = float(size)
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"


def duration_text(seconds: float) -> str:
    if seconds < 99.5:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5970 else f"{seconds / 3600:.1f} h"


def section_lines(section: Section | None, width: int | None) -> list[str]:
    if section is None:
        return []
    return ["", section.title, *table_lines(section.table, width), *wrapped(section.notes, width)]


def compared_text(value: float, people: int, name: str, *, spread: float | None = None) -> str:
    """A figure of that name on so many people, with its spread over the splits if there are several."""
    from colonnade.evaluation.estimates import error_text, figure_text  # facts of ledgers have no figures

    text = figure_text(value, max(spread or 0.0, chance_of(value, people, name)))
    return text if spread is None else f"{text} ± {error_text(spread)}"


def measured_rows(record: RunRecord) -> list[tuple[str, str]]:
    """What was measured on public data, and how much it is; where nobody says on how many people, three digits."""
    rows = []
    for name, value in (record.measured or {}).items():
        kind = "R²" if name.startswith("R²") else "accuracy"
        people = record.measured_on
        rows.append((name, compared_text(value, people, kind) if people else f"{value:.3f}"))
    return rows


def chance_of(value: float, people: int, name: str) -> float:
    """About how far chance alone moves a mean over the people held out, over all splits.

    Of errors it is as if they were normal, by the delta method; of shares of people about a third of 1/√n.
    """
    if not people:
        return 0.0
    match name:
        case "RMSE":
            return abs(value) / math.sqrt(2.0 * people)
        case "mean squared error":
            return abs(value) * math.sqrt(2.0 / people)
        case "R²":
            return abs(1.0 - value) * math.sqrt(2.0 / people)
        case _:
            return 0.3 / math.sqrt(people)


@dataclass
class BudgetMeter:
    """Accounts that differ in their observer alone; what they stood at before a run, where that is known."""

    total: TotalRecord
    observers: list[str]
    before: BeforeRecord | None


def merged(
    totals: Sequence[TotalRecord], before: Sequence[BeforeRecord] = (), *, fits: bool = False
) -> list[BudgetMeter]:
    """Accounts that differ in their observer alone, as one; by what still `fits` too, if that is shown."""
    ignored = {"observer", "entries", "otherwise", *(() if fits else ("fits",))}
    accounts: dict[str, BudgetMeter] = {}
    for place, total in enumerate(totals):
        earlier = before[place] if len(before) == len(totals) else None
        key = f"{total.model_dump(exclude=ignored)} {earlier and earlier.epsilon_before}"
        accounts.setdefault(key, BudgetMeter(total, [], earlier)).observers.append(total.observer)
    return list(accounts.values())
