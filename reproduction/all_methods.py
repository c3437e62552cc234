"""Every method of the library on one data set, as `colonnade compare` shows them."""

from __future__ import annotations

from pathlib import Path

from benchmarks.public_data import adult
from colonnade.comparison.compare import compare
from colonnade.comparison.entries import ComparisonEntries, field_of
from colonnade.methods.table import METHODS
from colonnade.report.comparison import (
    comparison_facts,
    comparison_picture,
    comparison_table,
    promise_table,
    remarks_on,
)
from reproduction.functional_mechanism import made_up_adult
from reproduction.sections import FIGURES, Part, Picture, Section, Table, timed
from reproduction.vertical import vertical

# Minutes for one training of this size each: the encrypted gradient, and the three releases of SLR's paper.
LEFT_OUT = ("encrypted", "slr (paper)")


def study(data: Path, quick: bool) -> list[Part]:
    """One section: Adult between two parties."""
    return [Part("Accuracy against ε on Adult", lambda: _section(data, quick))]


def _section(data: Path, quick: bool) -> Section:
    people = made_up_adult(400) if quick else adult(data)
    tables = vertical(people.columns, people.label, people.rows, people.labels, parties=2)
    everybody = field_of(METHODS.values(), "classification", paper=True)
    chosen = tuple(entry for entry in everybody.contenders if entry.name not in LEFT_OUT)
    field = ComparisonEntries(chosen[:2] if quick else chosen, ())
    with timed() as watch:
        found = compare(
            tables,
            task="classification",
            epsilons=(1.0,) if quick else (0.1, 1.0, 10.0),
            field=field,
            delta=1e-5,
            seeds=1 if quick else 3,
        )
    facts = comparison_facts(found, name="Adult between two parties")
    name = "all-methods-adult.svg"
    if not quick:
        FIGURES.mkdir(parents=True, exist_ok=True)
        (FIGURES / name).write_text(comparison_picture(facts), encoding="utf-8")
    table, promises = comparison_table(facts), promise_table(facts)
    remarks = "\n".join(f"- {remark}" for remark in remarks_on(facts))
    text = f"""
{found.trained_on:,} people to train on and {found.held_out:,} others to score, {found.seeds} splits, δ = 1e-5, every
method with its defaults. The baselines' defaults were chosen on this set. Left out, because one training of this size
is slow: {", ".join(LEFT_OUT)}.

{remarks}
"""
    return Section(
        "Accuracy against ε on Adult",
        text,
        (
            Table("Accuracy on held-out people, mean ± standard deviation", table[0], tuple(table[1:])),
            Table("What observers learn at most at ε = 1", ("method", "observer and ε"), tuple(promises)),
        ),
        () if quick else (Picture(name, "Accuracy on Adult against ε for every method."),),
        watch.seconds,
    )
