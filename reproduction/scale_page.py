"""The page about scale, from what runs took: slopes, where they bend, tables and pictures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from scipy.optimize import nnls

from colonnade.report.charts import Axes, Chart, Mark, Series, Style, svg
from reproduction.sections import FIGURES, Picture, Section, Table

METHODS_TRIED = ("moments", "margin")
TRIED: dict[str, Sequence[int]] = {
    "rows": (10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000),
    "columns": (10, 20, 50, 100, 200, 400, 800),
    "parties": (2, 3, 4, 5, 7, 10),
}
# Where the other two stand while one is varied.
PLAIN = {"rows": 5_000, "columns": 20, "parties": 2}
MEASURES = {
    "seconds": ("all_seconds", "processor seconds, all members together"),
    "bytes": ("bytes", "MB sent, all members together"),
    "memory": ("memory", "MB of memory, the member with most"),
}
WORDS = {"rows": "people", "columns": "columns", "parties": "parties"}
Runs = Mapping[int, Mapping[str, float]]
COLOURS: dict[str, tuple[str, Mark]] = {"moments": ("#1f5fa8", "circle"), "margin": ("#b5472f", "square")}


def title_of(what: str) -> str:
    """The title of a section."""
    return f"Cost against {WORDS[what]}"


def section_of(what: str, found: Mapping[str, Runs], *, drawn: bool = True) -> Section:
    """The section about one of people, columns and parties, from what was found."""
    facts = {method: {str(value): dict(run) for value, run in runs.items()} for method, runs in found.items()}
    others = " and ".join(f"{PLAIN[other]:,} {WORDS[other]}" for other in PLAIN if other != what)
    measured = [run for runs in found.values() for run in runs.values() if "forecast" not in run]
    base, loads = max(run["before"] for run in measured), [run["load"] for run in measured]
    seconds = sum(run["wall"] for run in measured)
    text = f"""
With {others}, ε = 1 and the default checks.

{chr(10).join(_slopes(what, method, runs) for method, runs in found.items())}

{_BENDS[what]}

Memory is above the {base / 1e6:,.0f} MB that a process has with the library in it. The load of the machine was
{min(loads):.0f} to {max(loads):.0f}.
"""
    tables = (_table(what, found),)
    pictures = tuple(_picture(what, measure, found) for measure in MEASURES) if drawn else ()
    return Section(title_of(what), text, tables, pictures, seconds, facts={"of": what, "runs": facts})


_BENDS = {
    "rows": "A run has a fixed cost, of meeting, planning, calibrating and drawing noise. Where people begin to cost "
    "more than that, time bends and is proportional to them from there on. Bytes are from the start: `moments` sends "
    "the shares of every person once, `margin` again in every step, some ten times as much. `moments` holds one block "
    "of people at a time; with `margin` computing parties keep their shares of all rows for all steps.",
    "columns": "The moment matrix of d columns has d(d + 1)/2 entries. With few columns the fixed cost is most of the "
    "time, then what is dealt, which grows with d, then the products and the noise, which grow with d². Bytes bend "
    "later, because with this many people the rows are most of what is sent. `margin` opens that matrix once and then "
    "as many numbers as there are columns in every step: its steps cost about the same until the matrix overtakes "
    "them.",
    "parties": "All have the same columns in all, so what `moments` deals grows with the computing parties and "
    "not with the "
    "owners: three computing parties with two, three and four owners, five with five, seven with seven, nine "
    "with ten. `margin` "
    "multiplies one more factor for every owner in each step, and deals each product anew from every computing "
    "party to every "
    "computing party: with K owners and N computing parties bytes grow with (K − 1)·N², a cube where all owners "
    "are computing parties. With ten it "
    "has no plan and says so, because rounding ten factors would cost more than half of the noise; a job that names no "
    "method then takes `moments`.",
}


def _measured(runs: Runs, measure: str) -> tuple[list[int], list[float]]:
    key = MEASURES[measure][0]
    values = [value for value in sorted(runs) if "forecast" not in runs[value]]
    return values, [runs[value][key] for value in values]


def slope(values: Sequence[float], figures: Sequence[float]) -> tuple[float, float]:
    """The exponent and the factor of the power law through the larger half, by least squares of logarithms.

    >>> slope([1, 10, 100], [7, 20, 2000])
    (2.0, 0.2)
    """
    start = len(values) // 2 if len(values) > 2 else 0
    logs = np.log([values[start:], figures[start:]])
    if len(logs[0]) < 2:
        return math.nan, math.nan
    power, intercept = np.polyfit(logs[0], logs[1], 1)
    return round(float(power), 4), round(float(math.exp(intercept)), 12)


def bend(values: Sequence[float], figures: Sequence[float]) -> tuple[list[float], list[float]]:
    """a, b and c ≥ 0 of a + b·x + c·x², by relative least squares, and where a term overtakes the one before.

    >>> found, bends = bend([10, 100, 1000, 10000], [110, 200, 1100, 10100])
    >>> [round(term, 3) for term in found], [round(place) for place in bends]
    ([100.0, 1.0, 0.0], [100])
    """
    inputs, wanted = np.asarray(values, dtype=float), np.asarray(figures, dtype=float)
    unit = inputs.max()
    terms = np.stack([np.ones_like(inputs), inputs / unit, (inputs / unit) ** 2], axis=1)
    found = nnls(terms / wanted[:, None], np.ones(len(wanted)))[0] / np.array([1.0, unit, unit**2])
    present = [power for power in range(3) if found[power] > 0]
    if len(present) == 3 and found[0] * found[2] > found[1] ** 2:
        present = [0, 2]  # the one in between is never the largest
    places = [float((found[low] / found[high]) ** (1.0 / (high - low))) for low, high in pairwise(present)]
    return list(map(float, found)), [place for place in places if values[0] < place < values[-1]]


def _slopes(what: str, method: str, runs: Runs) -> str:
    powers = {measure: f"{slope(*_measured(runs, measure))[0]:.2f}" for measure in MEASURES}
    values, figures = _measured(runs, "seconds")
    bends = [f"{float(f'{place:.2g}'):,.0f}" for place in bend(values, figures)[1]]
    place = f"; time bends at about {' and '.join(bends)} {WORDS[what]}" if bends else ""
    return (
        f"- `{method}`: time grows with the power {powers['seconds']}, bytes with {powers['bytes']} and memory with "
        f"{powers['memory']}{place}."
    )


def _shown(measure: str, run: Mapping[str, float]) -> str:
    key = MEASURES[measure][0]
    if key not in run:
        return "–"
    figure = f"{run[key]:,.2f}" if measure == "seconds" else f"{run[key] / 1e6:,.1f}"
    return f"{figure} f" if "forecast" in run else figure


def _table(what: str, found: Mapping[str, Runs]) -> Table:
    values = sorted({value for runs in found.values() for value in runs})
    cells = [(measure, runs) for measure in MEASURES for runs in found.values()]
    rows = tuple(
        (
            f"{value:,}",
            *(_shown(measure, runs[value]) if value in runs else "no plan" for measure, runs in cells),
        )
        for value in values
    )
    caption = "Processor seconds and MB sent of all members, MB of memory of the member with most; f: forecast, –: none"
    heads = (f"{head}, `{method}`" for head in ("s", "sent", "memory") for method in found)
    return Table(caption, (WORDS[what], *heads), rows)


def _picture(what: str, measure: str, found: Mapping[str, Runs]) -> Picture:
    unit = 1.0 if measure == "seconds" else 1e6
    key, words = MEASURES[measure]
    lines: list[Series] = []
    for method, runs in found.items():
        colour, mark = COLOURS[method]
        values, figures = _measured(runs, measure)
        heights = [max(figure / unit, 1e-3) for figure in figures]
        lines.append(Series(method, tuple(map(float, values)), tuple(heights), (), Style(colour, (), mark)))
        power, factor = slope(values, heights)
        ends = (float(values[0]), float(max(runs)))
        fitted = tuple(factor * end**power for end in ends)
        lines.append(Series(f"{method}, slope {power:.2f}", ends, fitted, (), Style(colour, (2, 3))))
        ahead = [value for value in sorted(runs) if "forecast" in runs[value] and key in runs[value]]
        if ahead:
            heights = [runs[value][key] / unit for value in ahead]
            style = Style(colour, (6, 3), mark, hollow=True)
            lines.append(Series(f"{method}, forecast", tuple(map(float, ahead)), tuple(heights), (), style))
    ticks = tuple(map(float, TRIED[what])) if what == "parties" else ()
    axes = Axes(WORDS[what], words.split(",")[0], log_x=True, log_y=True, ticks=ticks)
    title = f"{words.split(',')[0]} against {WORDS[what]}"
    name = f"scale-{what}-{measure}.svg"
    FIGURES.mkdir(parents=True, exist_ok=True)
    drawing = svg(Chart(title[0].upper() + title[1:], axes, tuple(lines)))
    (FIGURES / name).write_text(drawing, encoding="utf-8")
    return Picture(name, f"{title[0].upper() + title[1:]}, for moments and margin, with fitted slopes")
