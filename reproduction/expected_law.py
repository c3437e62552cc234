"""The law over all sets of how much accuracy noise takes: fitted, drawn, and turned into numbers of people."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from colonnade.planning.forecast import HALF_A_POINT, Law
from colonnade.report.charts import Axes, Chart, Level, Series, Style, svg
from reproduction.sections import FIGURES, Picture, Section, Table, timed

MOST = 0.15
"""Settings that lose more than this are past the law: there is nothing left to lose."""
COLUMNS = (10, 20, 50, 100, 200)
SHARE = 0.8
A_POINT = 0.01
Points = Sequence[Mapping[str, Any]]


def fitted(points: Points) -> Law:
    """lost = c·noiseᵃ·columnsᵇ with the least squares of log(lost + half a point)."""
    some = [point for point in points if point["lost"] < MOST]
    noise = np.log([point["noise"] for point in some])
    columns = np.log([point["columns"] for point in some])
    seen = np.log(np.maximum([point["lost"] for point in some], 0.0) + HALF_A_POINT)

    def off(guess: Any) -> Any:
        return np.log(np.exp(guess[0] + guess[1] * noise + guess[2] * columns) + HALF_A_POINT) - seen

    found = least_squares(off, [-4.0, 0.6, 1.0])
    factor = math.exp(float(np.quantile(np.abs(found.fun), SHARE)))
    constant, *powers = found.x
    return Law(*(float(f"{value:.3g}") for value in (math.exp(constant), *powers, factor)))


def law_section(title: str, points: Points) -> Section:
    """The law of each method, and how many people it says one needs."""
    with timed() as watch:
        laws = {
            method: fitted([point for point in points if point["method"] == method])
            for method in dict.fromkeys(point["method"] for point in points)
        }
        pictures = [_people_picture(points, method) for method in laws]
        pictures.append(_needed_picture(points, laws))
        tables = [_needed_table(points, laws[method], method) for method in laws]
        held, (more, tried) = _held_table(points, laws)
        tables.append(held)
    said = "\n".join(
        f"- `{method}`: points lost = {100 * law.constant:.3g} · σ^{law.noise_power:g} · d^{law.column_power:g}. In "
        "four settings of five, half a point added to both, what was measured is within a factor of "
        f"{law.factor:.2g} of it."
        for method, law in laws.items()
    )
    sets = ", ".join(dict.fromkeys(point["people"] for point in points))
    text = f"""
Over {len(points)} settings of four public sets ({sets}; from 1,000 to 100,000 people, 2 to 10 parties, with all columns
and with half of them, δ = 1e-5) accuracy is lost by one law for each method. d is the number of columns once encoded,
which the plan names as features; σ is the noise by person: of a moment, the standard deviation that the plan names over
the number of people, of margin descent that of an entry of each step's mean gradient. It falls with 1/n and about with
1/ε, and grows a little with the parties.

{said}

Lost is against logistic regression without privacy on the same people. What moments lose with much noise is noise; what
they lose with little is that squares are not the logistic loss. People are tested whom nobody trained on. The law was
fitted to tables with two classes, one of which has a fifth of the people or more; a rarer class, a table of another
kind, or columns that say nothing may lose more or less: the sets themselves differ by the factor above. Where less than
half a point is foretold, nothing was lost as far as can be told. Numbers of people are those at the far end of the
factor: most tables need fewer. In {more} of {tried} cells of the last table more were needed, or more than there are.
"""
    return Section(
        title,
        text,
        tuple(tables),
        tuple(pictures),
        watch.seconds,
        facts={
            "laws": {
                method: [law.constant, law.noise_power, law.column_power, law.factor]
                for method, law in laws.items()
            }
        },
    )


def _noise_at(points: Points, method: str) -> dict[float, float]:
    """σ·n of two parties at every ε: it does not depend on the people, and hardly on the columns."""
    found: dict[float, list[float]] = {}
    for point in points:
        if point["method"] == method and point["parties"] == 2:
            found.setdefault(point["epsilon"], []).append(point["noise"] * point["rows"])
    return {epsilon: median(values) for epsilon, values in sorted(found.items())}


def _needed_table(points: Points, law: Law, method: str) -> Table:
    noise = _noise_at(points, method)
    rows = tuple(
        (str(columns), *(_people(law.people_for(A_POINT, whole, columns)) for whole in noise.values()))
        for columns in COLUMNS
    )
    head = ("columns once encoded", *(f"ε = {epsilon:g}" for epsilon in noise))
    return Table(f"People with whom {method} loses less than a point, two parties, by the law", head, rows)


def _held_table(points: Points, laws: Mapping[str, Law]) -> tuple[Table, tuple[int, int]]:
    """The law against the numbers of people at which a set was seen to lose less than a point.

    And in how many cells more were needed than the law says, of how many.
    """
    rows, more, tried = [], 0, 0
    for method, law in laws.items():
        noise = _noise_at(points, method)
        for people in dict.fromkeys(point["people"] for point in points):
            mine = [p for p in points if (p["people"], p["method"], p["parties"]) == (people, method, 2)]
            widest = max(point["columns"] for point in mine)
            cells = []
            for epsilon, whole in noise.items():
                here = [p for p in mine if p["columns"] == widest and p["epsilon"] == epsilon]
                there = next((p["rows"] for p in here if p["lost"] < A_POINT), None)
                most = max(point["rows"] for point in here)
                seen = f"{there:,}" if there else f"> {most:,}"
                foretold = law.people_for(A_POINT, whole, widest)
                cells.append(f"{seen} ({_people(foretold)})")
                more, tried = more + ((there or most) > max(foretold, 1000)), tried + 1
            rows.append((method, people, str(widest), *cells))
    head = ("method", "set", "columns", *(f"ε = {epsilon:g}" for epsilon in noise))
    caption = "The fewest people of those tried at which less than a point was lost, and in brackets those by the law"
    return Table(caption, head, tuple(rows)), (more, tried)


def _people(count: float) -> str:
    """Two digits: the law says no more."""
    digits = 10 ** max(0, math.floor(math.log10(max(count, 1.0))) - 1)
    return f"{round(count / digits) * digits:,}"


def _people_picture(points: Points, method: str) -> Picture:
    styles = (
        Style("#1f5fa8", (), "circle"),
        Style("#b5472f", (5, 2), "square"),
        Style("#2e7d4f", (1.5, 2), "up"),
        Style("#6b4c9a", (6, 2, 1.5, 2), "diamond"),
    )
    lines = []
    for style, people in zip(styles, dict.fromkeys(point["people"] for point in points), strict=False):
        mine = [p for p in points if (p["people"], p["method"], p["parties"]) == (people, method, 2)]
        widest = max(point["columns"] for point in mine)
        here = [p for p in mine if p["columns"] == widest and p["epsilon"] == 1.0]
        lines.append(
            Series(
                f"{people}, {widest} columns",
                tuple(float(point["rows"]) for point in here),
                tuple(100 * point["lost"] for point in here),
                tuple(100 * point["deviation"] for point in here),
                style,
            )
        )
    axes = Axes("people", "points of accuracy lost", log_x=True)
    chart = Chart(
        f"What privacy costs {method} at ε = 1",
        axes,
        tuple(lines),
        (Level(1.0, Style("#999999", (2, 2)), note="a point"),),
    )
    name = f"what-to-expect-{method}.svg"
    _write(name, chart)
    return Picture(name, f"Points of accuracy lost by {method} at ε = 1 against people, on four sets")


def _needed_picture(points: Points, laws: Mapping[str, Law]) -> Picture:
    lines = []
    colours = ("#1f5fa8", "#b5472f")
    for colour, (method, law) in zip(colours, laws.items(), strict=True):
        noise = _noise_at(points, method)
        for columns, dashes in ((20, (1.5, 2)), (50, (5, 2)), (200, ())):
            needed = tuple(law.people_for(A_POINT, whole, columns) for whole in noise.values())
            lines.append(
                Series(
                    f"{method}, {columns} columns",
                    tuple(noise),
                    needed,
                    style=Style(colour, dashes, "circle"),
                )
            )
    chart = Chart(
        "People to lose less than a point", Axes("ε", "people", log_x=True, log_y=True), tuple(lines)
    )
    _write("what-to-expect-people.svg", chart)
    words = "People needed to lose less than a point of accuracy against ε, by the law, for 20, 50 and 200 columns"
    return Picture("what-to-expect-people.svg", words)


def _write(name: str, chart: Chart) -> None:
    FIGURES.mkdir(parents=True, exist_ok=True)
    (FIGURES / name).write_text(svg(chart), encoding="utf-8")
