"""Facts as lines that can be read without colour."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from decimal import ROUND_FLOOR, Decimal

from colonnade.privacy.guarantee import delta_text, epsilon_text
from colonnade.report.facts import Facts

WOULD_HOLD = "With noise that nobody can reproduce, the same run would promise:"


def run_text(facts: Facts, *, width: int | None = None) -> str:
    """What a person wants to know after a run, in the order they ask; sentences are wrapped to `width`."""
    lines = [facts["name"], f"  {facts['task']} on {facts['rows']} people, run {facts['run'][:12]}"]
    lines += table_lines([(party["name"], brought_text(party)) for party in facts["parties"]])
    lines += ["", "What each observer can learn at most"]
    if facts["warning"]:
        lines += _wrapped([facts["warning"], WOULD_HOLD], width)
    lines += _wrapped((item["sentence"] for item in facts["guarantees"]), width, bullet="- ")
    if facts["measured"]:
        lines += ["", "How good it is, measured on data declared public"]
        lines += table_lines([(what, f"{value:.3f}") for what, value in facts["measured"].items()])
    if facts["notes"]:
        lines += ["", "Notes", *_wrapped(facts["notes"], width, bullet="- ")]
    lines += ["", "Budgets after this run"]
    lines += budget_lines(facts["ledgers"].values())
    traffic = facts["traffic"]
    lines += ["", f"Sent: {size_text(traffic['bytes'])} in {traffic['rounds']} rounds."]
    return "\n".join(lines)


def brought_text(party: Facts) -> str:
    """What a party brought.

    >>> brought_text({"columns": ["age"], "holds_label": True})
    '1 column and the label'
    """
    count = len(party["columns"])
    columns = "1 column" if count == 1 else f"{count} columns"
    return f"{columns} and the label" if party["holds_label"] else columns


def budget_lines(ledgers: Iterable[Facts]) -> list[str]:
    """A table of every account of these ledgers: ε spent rounded up, ε left rounded down."""
    rows, bare = [], []
    for ledger in ledgers:
        if not ledger["totals"]:
            bare.append(f"  {ledger['party']}: nothing was charged yet.")
        for total in ledger["totals"]:
            rows.append(
                (
                    ledger["party"],
                    total["dataset"],
                    total["observer"],
                    total["unit"],
                    f"{epsilon_text(total['epsilon'])} of {total['budget']:g}",
                    left_text(total["left"]),
                    delta_text(total["delta"]),
                    "" if total["private"] else "seeded noise: no privacy",
                )
            )
    heads = ("party", "data set", "observer", "unit", "ε spent", "ε left", "at δ", "")
    return (table_lines([heads, *rows]) if rows else []) + bare


def table_lines(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows in columns, indented.

    >>> table_lines([("a", "bb"), ("ccc", "d")])
    ['  a    bb', '  ccc  d']
    """
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def left_text(epsilon: float) -> str:
    """What is left of a budget, rounded down.

    >>> left_text(2.5399), left_text(3.0), left_text(0.0159)
    ('2.53', '3.00', '0.015')
    """
    exact = Decimal(epsilon)
    if not exact:
        return "0"
    return f"{exact.quantize(Decimal(1).scaleb(min(-2, exact.adjusted() - 1)), rounding=ROUND_FLOOR):f}"


def size_text(size: int) -> str:
    """Bytes in a unit that people read.

    >>> size_text(1500), size_text(12), size_text(2_340_000)
    ('1.5 kB', '12 B', '2.3 MB')
    """
    value = float(size)
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"


def _wrapped(sentences: Iterable[str], width: int | None, *, bullet: str = "") -> list[str]:
    indent = "  " + bullet
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
