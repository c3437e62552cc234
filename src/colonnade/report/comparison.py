"""A comparison of methods as facts, as text, as one picture and as a page, and which method to take."""

from __future__ import annotations

import math
import statistics
from typing import get_args

from markupsafe import Markup

from colonnade.evaluation.estimates import figure_text
from colonnade.privacy.observers import joined
from colonnade.privacy.paper import LABEL
from colonnade.report import plain
from colonnade.report.charts import Axes, Chart, Level, Mark, Series, Style, svg
from colonnade.report.facts import Facts
from colonnade.report.html import render
from colonnade.report.lab import DEFENCES, success_text


def recommendation(facts: Facts) -> str:
    """Which method to take at the ε at which promises are shown, and why; nothing where no accuracy is known.

    Simulations of a trusted place, papers' formulas and what promises nothing are not for taking. Of methods that do
    not differ by more than their spreads, it is the one that sends least.
    """
    epsilon, sign = shown_epsilon(facts), 1.0 if facts["larger_is_better"] else -1.0
    takers = [
        row
        for row in facts["rows"]
        if row["epsilon"] == epsilon and row["mean"] is not None and row["guarantees"]
        if not (row["paper"] or row["trusted"] or row["failures"])
    ]
    if not takers:
        return ""
    best = max(takers, key=lambda row: sign * row["mean"])
    near = [
        row
        for row in takers
        if sign * (best["mean"] - row["mean"]) <= math.hypot(best["spread"] or 0.0, row["spread"] or 0.0)
    ]
    chosen = min(near, key=lambda row: (row["bytes"] is None, row["bytes"], -sign * row["mean"]))

    def known(value: float, spread: float | None = None) -> str:
        return figure_text(value, max(spread or 0.0, plain.chance_of(value, facts, facts["metric"])))

    said = f"At ε = {epsilon:g} take {chosen['method']}: {facts['metric']} {known(chosen['mean'], chosen['spread'])}"
    alongside = []
    central = next((row for row in facts["rows"] if row["method"] == "non-private"), None)
    if central is not None and central["mean"] is not None:
        alongside.append(f"{known(central['mean'], central['spread'])} without privacy")
    if facts["constant"] is not None:
        same = "the commonest class" if facts["task"] == "classification" else "the mean"
        alongside.append(f"{known(facts['constant'])} for always answering {same}")
    said += f" ({', '.join(alongside)})." if alongside else "."
    others = [row["method"] for row in near if row is not chosen]
    if others:
        verb = "differs" if len(others) == 1 else "differ"
        said += f" {joined(others)} {verb} from it by no more than the spread over splits, and it sends the least."
    if facts["constant"] is not None and sign * (chosen["mean"] - facts["constant"]) <= (
        chosen["spread"] or 0.0
    ):
        said += (
            " It is no better than always the same answer: more people, or a larger ε, before any of them."
        )
    return said


def shown_epsilon(facts: Facts) -> float:
    """The ε of the list at which promises are shown: the one nearest to 1."""
    return float(min(facts["epsilons"], key=lambda epsilon: abs(epsilon - 1.0)))


# Okabe and Ito's colours, told apart by every eye, each with a mark of its own.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#7f7f7f")
_MARKS: tuple[Mark, ...] = get_args(Mark)
# Without ε there is no line to follow but a level.
_LEVELS: tuple[tuple[float, ...], ...] = ((), (7, 2), (7, 2, 1, 2))
_HAIR, _APART = 0.025, 9
# Errors that differ by more than this are drawn on a logarithmic scale.
_WIDE = 30.0
FURTHER = {"R²": "R² (share of the variance explained)", "RMSE": "RMSE (in the label's own units)"}


def comparison_text(facts: Facts, *, width: int | None = None) -> str:
    """The table, what each method promises, and what has to be known to read them."""
    lines = [facts["name"], *plain.wrapped([_setting(facts)], width)]
    advice = recommendation(facts)
    lines += [*plain.wrapped([advice], width), ""] if advice else [""]
    lines += plain.table_lines(comparison_table(facts), width)
    for name, table in further_tables(facts).items():
        lines += ["", name, *plain.table_lines(table, width)]
    lines += ["", f"What observers learn at most, at ε = {shown_epsilon(facts):g}"]
    lines += plain.table_lines([("method", "who learns how much"), *promise_table(facts)], width)
    remarks = remarks_on(facts)
    return plain.lines_text(lines + (["", *plain.wrapped(remarks, width, bullet="- ")] if remarks else []))


def comparison_table(facts: Facts) -> list[tuple[str, ...]]:
    """A line for each method and a column for each ε, with means and spreads."""
    head = ("method", *(f"ε = {epsilon:g}" for epsilon in facts["epsilons"]), "seconds", "sent")
    lines = [head]
    for method, rows in _by_method(facts).items():
        cells = [_cell(rows.get(epsilon, rows.get(None)), facts) for epsilon in facts["epsilons"]]
        seconds = [row["seconds"] for row in rows.values() if row["seconds"] is not None]
        sent = [row["bytes"] for row in rows.values() if row["bytes"] is not None]
        took = f"{statistics.fmean(seconds):.2f}" if seconds else "not shown"
        lines.append((method, *cells, took, plain.size_text(round(sum(sent) / len(sent))) if sent else "-"))
    return lines


def further_tables(facts: Facts) -> dict[str, list[tuple[str, ...]]]:
    """For every figure beside the score a table of its own, by what it is."""
    names = dict.fromkeys(name for row in facts["rows"] for name in row.get("further", {}))
    tables = {}
    for name in names:
        lines = [("method", *(f"ε = {epsilon:g}" for epsilon in facts["epsilons"]))]
        for method, rows in _by_method(facts).items():
            at = [rows.get(epsilon, rows.get(None)) for epsilon in facts["epsilons"]]
            figures = [[] if row is None else row["further"].get(name, []) for row in at]
            lines.append((method, *(_shown(values, facts, name) for values in figures)))
        constant = facts.get("constants", {}).get(name)
        alongside = "" if constant is None else "; always the same answer has "
        alongside += "" if constant is None else plain.compared_text(constant, facts, name)
        tables[f"{FURTHER.get(name, name)}{alongside}"] = lines
    return tables


def ties_in(facts: Facts) -> list[str]:
    """For every ε which methods are as good as the best, within twice the error of their difference over splits."""
    said, sign = [], 1.0 if facts["larger_is_better"] else -1.0
    for epsilon in facts["epsilons"] if facts["seeds"] > 1 else ():
        rows = [
            row
            for row in facts["rows"]
            if row["epsilon"] == epsilon and len(row["scores"]) == facts["seeds"] and not row["paper"]
        ]
        rows.sort(key=lambda row: -sign * row["mean"])
        tied = []
        for row in rows[1:]:
            differences = [one - two for one, two in zip(rows[0]["scores"], row["scores"], strict=True)]
            error = statistics.stdev(differences) / math.sqrt(len(differences))
            tied += [row["method"]] if abs(statistics.fmean(differences)) <= 2.0 * error else []
        if tied:
            said.append(
                f"At ε = {epsilon:g} {rows[0]['method']} and {', '.join(tied)} are tied: they differ by less than "
                "twice the error of their difference over the splits."
            )
    return said


def promise_table(facts: Facts) -> list[tuple[str, str]]:
    """Who learns how much from each method, at one ε of the list."""
    shown = shown_epsilon(facts)
    at = {method: rows.get(shown, rows.get(None)) for method, rows in _by_method(facts).items()}
    return [(method, _promise(row)) for method, row in at.items() if row is not None]


def _promise(row: Facts) -> str:
    if row["paper"]:
        return LABEL
    if not row["guarantees"]:
        # What is not promised is told by the method itself, if it has something to say.
        return "-" if row["failures"] else next(iter(row["notes"]), "No privacy.")
    # Where every observer is told about one unit, the unit goes without saying.
    observers = [item["observer"] for item in row["guarantees"]]
    several = len(set(observers)) < len(observers)
    said = [
        f"{item['observer'].removeprefix('party:')} {plain.spent_text(item['epsilon'])}"
        + (f" ({item['unit']})" if several else "")
        for item in row["guarantees"]
    ]
    pure = all(item["delta"] == 0 for item in row["guarantees"])
    return ", ".join(said) + (" (δ = 0)" if pure else "")


def remarks_on(facts: Facts) -> list[str]:
    """What a reader of the table has to know: failures, methods left out, paper modes, what a trusted place means."""
    said = []
    for row in facts["rows"]:
        if row["failures"]:
            where = f" at ε = {row['epsilon']:g}" if row["epsilon"] is not None else ""
            count = f"{len(row['failures'])} of {facts['seeds']}"
            said.append(f"{row['method']}{where}: {count} gave no model. {row['failures'][0]}")
    said += [f"{item['method']} was left out: {item['reason']}" for item in facts["left_out"]]
    trusted = list(dict.fromkeys(row["method"] for row in facts["rows"] if row["trusted"]))
    if trusted:
        said.append(
            f"{', '.join(trusted)}: simulations of a trusted place that holds all rows, which a federation does not "
            "have; their ε is for readers of the model and nobody else."
        )
    split = list(dict.fromkeys(row["method"] for row in facts["rows"] if row["split"] and row["guarantees"]))
    if split:
        said.append(
            f"{', '.join(split)}: the weights stay with their parties. ε is about the messages; the score, which "
            "takes all weights together, and joint predictions are not covered by it."
        )
    if any(row["paper"] for row in facts["rows"]):
        said.append(f"Rows marked (paper) are calibrated as a paper says: {LABEL}.")
    if not facts["public"]:
        said.append(
            "The data is not declared public, so no accuracy is shown: an exact one would be a release of its own. The "
            "cells show the most that any observer learns. Everything that was run is charged to the ledgers. Time can "
            "depend on rows and is not shown; what was sent to find the common people is not counted."
        )
    elif facts["constant"] is not None:
        same = "the commonest class" if facts["task"] == "classification" else "the mean"
        said.append(
            f"Always answering {same} scores {plain.compared_text(facts['constant'], facts, facts['metric'])}."
        )
        said += ties_in(facts)
    return said


def comparison_chart(facts: Facts) -> Chart:
    """Score against ε: one line for each method, bars for the spread over seeds."""
    scored = [row["mean"] for row in facts["rows"] if row["mean"] is not None]
    wide = not facts["larger_is_better"] and scored and min(scored) > 0 and max(scored) / min(scored) > _WIDE
    lines, levels = [], []
    for place, (method, by_epsilon) in enumerate(_by_method(facts).items()):
        rows = [row for row in by_epsilon.values() if row["mean"] is not None]
        if rows and rows[0]["epsilon"] is None:
            style = Style(_COLOURS[place % len(_COLOURS)], _LEVELS[place % len(_LEVELS)])
            levels.append(Level(rows[0]["mean"], style, label=method))
        elif rows:
            lines.append(_line(place, method, rows))
    if facts["constant"] is not None:
        levels.append(Level(facts["constant"], Style("#999999", (1, 2)), note="always the same answer"))
    ticks = tuple(facts["epsilons"])
    axes = Axes("ε", facts["metric"], log_x=True, log_y=bool(wide), ticks=ticks, from_zero=False)
    return Chart(facts["name"], axes, tuple(lines), tuple(levels))


def _line(place: int, method: str, rows: list[Facts]) -> Series:
    # Bars that would lie on each other stay apart by a hair.
    shift = math.exp(_HAIR * (place % _APART - _APART // 2))
    paper, trusted = rows[0]["paper"], rows[0]["trusted"]
    dashes = (5, 2) if paper else (1.5, 2) if trusted else ()
    style = Style(_COLOURS[place % len(_COLOURS)], dashes, _MARKS[place % len(_MARKS)], hollow=paper)
    xs = tuple(row["epsilon"] * shift for row in rows)
    ys, spreads = tuple(row["mean"] for row in rows), tuple(row["spread"] or 0.0 for row in rows)
    return Series(method, xs, ys, spreads, style)


def comparison_picture(facts: Facts) -> str:
    return svg(comparison_chart(facts))


def comparison_page(facts: Facts) -> str:
    """The picture and the tables on one page that needs nothing else."""
    scored = any(row["mean"] is not None for row in facts["rows"])
    return render(
        "comparison.html",
        facts,
        setting=_setting(facts),
        advice=recommendation(facts),
        # Our own drawing, which escapes whatever names are in it.
        picture=Markup(svg(comparison_chart(facts), narrow=True)) if scored else "",
        table_heads=comparison_table(facts)[0],
        table_rows=comparison_table(facts)[1:],
        further=further_tables(facts),
        promises=promise_table(facts),
        shown=f"{shown_epsilon(facts):g}",
        remarks=remarks_on(facts),
    )


def _setting(facts: Facts) -> str:
    delta = f", δ = {facts['delta']:g}" if facts["delta"] is not None else ""
    if not facts["public"]:
        return f"{facts['task']} on {facts['trained_on']} people{delta}"
    splits = "1 split" if facts["seeds"] == 1 else f"{facts['seeds']} splits, mean ± standard deviation"
    return (
        f"{facts['task']} on {facts['trained_on']} people, {facts['metric']} on {facts['held_out']} others "
        f"({facts['metric_note']}), {splits}{delta}"
    )


def _cell(row: Facts | None, facts: Facts) -> str:
    if row is None:
        return "-"
    if not facts["public"]:
        most = max((item["epsilon"] for item in row["guarantees"]), default=None)
        return "-" if most is None else plain.spent_text(most)
    if row["mean"] is None:
        return "no model"
    of = f" ({len(row['scores'])} of {facts['seeds']})" if row["failures"] else ""
    return f"{plain.compared_text(row['mean'], facts, facts['metric'], spread=row['spread'])}{of}"


def _shown(values: list[float], facts: Facts, name: str) -> str:
    """A mean over the splits with its spread, or one figure, with no more digits than are known of it."""
    if not values:
        return "-"
    spread = statistics.stdev(values) if len(values) > 1 else None
    return plain.compared_text(statistics.fmean(values), facts, name, spread=spread)


def _by_method(facts: Facts) -> dict[str, dict[float | None, Facts]]:
    rows: dict[str, dict[float | None, Facts]] = {}
    for row in facts["rows"]:
        rows.setdefault(row["method"], {})[row["epsilon"]] = row
    return rows


PRIVATE = (
    "No accuracy is shown: the data was not declared public, and a score of it would be a release of its own."
)


def section_of(facts: Facts) -> plain.Section | None:
    """The section of an attack's or a comparison's facts; None if they are neither."""
    if {"findings", "people"} <= set(facts) and all("attack" in item for item in facts["findings"]):
        return attack_section(facts)
    if {"rows", "epsilons", "metric", "public"} <= set(facts):
        return comparison_section(facts)
    return None


def attack_section(facts: Facts) -> plain.Section:
    """Every attack with its success, what chance would give, and an interval; undefended first."""
    lines = [
        f"{title}: {item['attack']}: {success_text(item)}"
        for defence, title in DEFENCES.items()
        for item in facts["findings"]
        if item["defence"] == defence
    ]
    note = (
        f"On {facts['people']} people's records, declared public; the defence has ε = {facts['epsilon']:g}."
    )
    return plain.Section("What attacks on encrypted gradients found", notes=(note,), lines=lines)


def comparison_section(facts: Facts) -> plain.Section:
    """Score against ε for every method, where every party declared its data public."""
    title = f"{facts['metric'].capitalize()} against ε"
    if not facts["public"] or all(row["mean"] is None for row in facts["rows"]):
        return plain.Section(title, notes=(PRIVATE,))
    # A picture of ours, drawn anew from the facts: nothing of the file goes onto the page as markup.
    picture = Markup(svg(comparison_chart(facts), narrow=True))
    return plain.Section(title, comparison_table(facts), (facts["metric_note"],), [picture])
