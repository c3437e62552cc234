"""A comparison of methods as facts, as text, as one picture and as a page, and which method to take."""

from __future__ import annotations

import math
import statistics
from typing import Any, get_args

from markupsafe import Markup

from colonnade.evaluation.estimates import figure_text
from colonnade.privacy.observers import joined
from colonnade.privacy.paper import LABEL
from colonnade.report import plain
from colonnade.report.charts import COLOURS, Axes, Chart, Level, Mark, Series, Style, svg
from colonnade.report.html import render
from colonnade.report.lab import DEFENCES, success_text
from colonnade.report.record import AttackRecord, ComparisonRecord, ComparisonRow


def recommendation(record: ComparisonRecord) -> str:
    """Which method to take at the ε at which promises are shown, and why; nothing where no accuracy is known.

    Simulations of a trusted place, papers' formulas and what promises nothing are not for taking. Of methods that do
    not differ by more than their spreads, it is the one that sends least.
    """
    epsilon, sign = shown_epsilon(record), 1.0 if record.larger_is_better else -1.0
    takers = [
        row
        for row in record.rows
        if row.epsilon == epsilon and row.mean is not None and row.guarantees
        if not (row.paper or row.trusted or row.failures)
    ]
    if not takers:
        return ""
    best = max(takers, key=lambda row: sign * _mean(row))
    near = [
        row
        for row in takers
        if sign * (_mean(best) - _mean(row)) <= math.hypot(best.spread or 0.0, row.spread or 0.0)
    ]
    chosen = min(near, key=lambda row: (row.bytes is None, row.bytes or 0.0, -sign * _mean(row)))

    def known(value: float, spread: float | None = None) -> str:
        return figure_text(value, max(spread or 0.0, plain.chance_of(value, record.people, record.metric)))

    said = f"At ε = {epsilon:g} take {chosen.method}: {record.metric} {known(_mean(chosen), chosen.spread)}"
    alongside = []
    central = next((row for row in record.rows if row.method == "non-private"), None)
    if central is not None and central.mean is not None:
        alongside.append(f"{known(central.mean, central.spread)} without privacy")
    if record.constant is not None:
        same = "the commonest class" if record.task == "classification" else "the mean"
        alongside.append(f"{known(record.constant)} for always answering {same}")
    said += f" ({', '.join(alongside)})." if alongside else "."
    others = [row.method for row in near if row is not chosen]
    if others:
        verb = "differs" if len(others) == 1 else "differ"
        said += f" {joined(others)} {verb} from it by no more than the spread over splits, and it sends the least."
    if record.constant is not None and sign * (_mean(chosen) - record.constant) <= (chosen.spread or 0.0):
        said += " It is no better than a constant answer. Use more people or a larger ε."
    return said


def _mean(row: ComparisonRow) -> float:
    return math.nan if row.mean is None else row.mean


def shown_epsilon(record: ComparisonRecord) -> float:
    """The ε of the list at which promises are shown: the one nearest to 1."""
    return float(min(record.epsilons, key=lambda epsilon: abs(epsilon - 1.0)))


_MARKS: tuple[Mark, ...] = get_args(Mark)
# Without ε there is no line to follow but a level.
_LEVELS: tuple[tuple[float, ...], ...] = ((), (7, 2), (7, 2, 1, 2))
_HAIR, _APART = 0.025, 9
# Errors that differ by more than this are drawn on a logarithmic scale.
_WIDE = 30.0
FURTHER = {"R²": "R² (share of the variance explained)", "RMSE": "RMSE (in the label's own units)"}


def comparison_text(record: ComparisonRecord, *, width: int | None = None) -> str:
    lines = [record.name, *plain.wrapped([_setting(record)], width)]
    advice = recommendation(record)
    lines += [*plain.wrapped([advice], width), ""] if advice else [""]
    lines += plain.table_lines(comparison_table(record), width)
    for section in (*further_sections(record), promise_section(record)):
        lines += plain.section_lines(section, width)
    remarks = remarks_on(record)
    return plain.lines_text(lines + (["", *plain.wrapped(remarks, width, bullet="- ")] if remarks else []))


def comparison_table(record: ComparisonRecord) -> list[tuple[str, ...]]:
    head = ("method", *(f"ε = {epsilon:g}" for epsilon in record.epsilons), "seconds", "sent")
    lines = [head]
    for method, rows in _by_method(record).items():
        cells = [_cell(rows.get(epsilon, rows.get(None)), record) for epsilon in record.epsilons]
        took = f"{statistics.fmean(row.seconds or 0.0 for row in rows.values()):.2f}"
        sent = [row.bytes for row in rows.values() if row.bytes is not None]
        lines.append((method, *cells, took, plain.size_text(round(statistics.fmean(sent))) if sent else "-"))
    return lines


def further_sections(record: ComparisonRecord) -> list[plain.Section]:
    sections = []
    for name in dict.fromkeys(name for row in record.rows for name in row.further):
        lines = [("method", *(f"ε = {epsilon:g}" for epsilon in record.epsilons))]
        for method, rows in _by_method(record).items():
            at = [rows.get(epsilon, rows.get(None)) for epsilon in record.epsilons]
            lines.append((method, *(_shown(row, record, name) for row in at)))
        title = FURTHER.get(name, name)
        if (constant := record.constants.get(name)) is not None:
            title += f"; always the same answer has {plain.compared_text(constant, record.people, name)}"
        sections.append(plain.Section(title, lines))
    return sections


def ties_in(record: ComparisonRecord) -> list[str]:
    """For every ε which methods are as good as the best, within twice the error of their difference over splits."""
    said, sign = [], 1.0 if record.larger_is_better else -1.0
    for epsilon in record.epsilons if record.seeds > 1 else ():
        rows = [
            row
            for row in record.rows
            if row.epsilon == epsilon and len(row.scores) == record.seeds and not row.paper
        ]
        rows.sort(key=lambda row: -sign * _mean(row))
        tied = []
        for row in rows[1:]:
            differences = [one - two for one, two in zip(rows[0].scores, row.scores, strict=True)]
            error = statistics.stdev(differences) / math.sqrt(len(differences))
            tied += [row.method] if abs(statistics.fmean(differences)) <= 2.0 * error else []
        if tied:
            said.append(
                f"At ε = {epsilon:g} {rows[0].method} and {', '.join(tied)} are tied: they differ by less than "
                "twice the error of their difference over the splits."
            )
    return said


def promise_section(record: ComparisonRecord) -> plain.Section:
    shown = shown_epsilon(record)
    at = {method: rows.get(shown, rows.get(None)) for method, rows in _by_method(record).items()}
    rows = [(method, _promise(row)) for method, row in at.items() if row is not None]
    title = f"What observers learn at most, at ε = {shown:g}"
    return plain.Section(title, [("method", "who learns how much"), *rows])


def _promise(row: ComparisonRow) -> str:
    if row.paper:
        return LABEL
    if not row.guarantees:
        # What is not promised is told by the method itself, if it has something to say.
        return "-" if row.failures else next(iter(row.notes), "No privacy.")
    # Where every observer is told about one unit, the unit goes without saying.
    observers = [item.observer for item in row.guarantees]
    several = len(set(observers)) < len(observers)
    said = [
        f"{item.observer.removeprefix('party:')} {plain.spent_text(item.epsilon)}"
        + (f" ({item.unit})" if several else "")
        for item in row.guarantees
    ]
    pure = all(item.delta == 0 for item in row.guarantees)
    return ", ".join(said) + (" (δ = 0)" if pure else "")


def remarks_on(record: ComparisonRecord) -> list[str]:
    """What a reader of the table has to know: failures, methods left out, paper modes, what a trusted place means."""
    said = []
    for row in record.rows:
        if row.failures:
            where = f" at ε = {row.epsilon:g}" if row.epsilon is not None else ""
            count = f"{len(row.failures)} of {record.seeds}"
            said.append(f"{row.method}{where}: {count} gave no model. {row.failures[0]}")
    said += [f"{item['method']} was left out: {item['reason']}" for item in record.left_out]
    trusted = list(dict.fromkeys(row.method for row in record.rows if row.trusted))
    if trusted:
        said.append(
            f"{', '.join(trusted)}: simulations of a trusted place that holds all rows, which a federation does not "
            "have; their ε is for readers of the model and nobody else."
        )
    split = list(dict.fromkeys(row.method for row in record.rows if row.split and row.guarantees))
    if split:
        said.append(
            f"{', '.join(split)}: the weights stay with their parties. ε is about the messages; the score, which "
            "takes all weights together, and joint predictions are not covered by it."
        )
    if any(row.paper for row in record.rows):
        said.append(f"Rows marked (paper) are calibrated as a paper says: {LABEL}.")
    if record.constant is not None:
        same = "the commonest class" if record.task == "classification" else "the mean"
        said.append(
            f"Always answering {same} scores {plain.compared_text(record.constant, record.people, record.metric)}."
        )
        said += ties_in(record)
    return said


def comparison_chart(record: ComparisonRecord) -> Chart:
    scored = [row.mean for row in record.rows if row.mean is not None]
    wide = not record.larger_is_better and scored and min(scored) > 0 and max(scored) / min(scored) > _WIDE
    lines, levels = [], []
    for place, (method, by_epsilon) in enumerate(_by_method(record).items()):
        rows = [row for row in by_epsilon.values() if row.mean is not None]
        if rows and rows[0].epsilon is None:
            style = Style(COLOURS[place % len(COLOURS)], _LEVELS[place % len(_LEVELS)])
            levels.append(Level(_mean(rows[0]), style, label=method))
        elif rows:
            lines.append(_line(place, method, rows))
    if record.constant is not None:
        levels.append(Level(record.constant, Style("#999999", (1, 2)), note="always the same answer"))
    ticks = tuple(record.epsilons)
    axes = Axes("ε", record.metric, log_x=True, log_y=bool(wide), ticks=ticks, from_zero=False)
    return Chart(record.name, axes, tuple(lines), tuple(levels))


def _line(place: int, method: str, rows: list[ComparisonRow]) -> Series:
    # Bars that would lie on each other stay apart by a hair.
    shift = math.exp(_HAIR * (place % _APART - _APART // 2))
    paper, trusted = rows[0].paper, rows[0].trusted
    dashes = (5, 2) if paper else (1.5, 2) if trusted else ()
    style = Style(COLOURS[place % len(COLOURS)], dashes, _MARKS[place % len(_MARKS)], hollow=paper)
    xs = tuple((row.epsilon or 0.0) * shift for row in rows)
    ys, spreads = tuple(map(_mean, rows)), tuple(row.spread or 0.0 for row in rows)
    return Series(method, xs, ys, spreads, style)


def comparison_picture(record: ComparisonRecord) -> str:
    return svg(comparison_chart(record))


def comparison_page(record: ComparisonRecord) -> str:
    scored = any(row.mean is not None for row in record.rows)
    return render(
        "comparison.html",
        record,
        setting=_setting(record),
        advice=recommendation(record),
        # Our own drawing, which escapes whatever names are in it.
        picture=Markup(svg(comparison_chart(record), narrow=True)) if scored else "",
        lines=comparison_table(record),
        further=further_sections(record),
        promises=promise_section(record),
        remarks=remarks_on(record),
    )


def _setting(record: ComparisonRecord) -> str:
    delta = f", δ = {record.delta:g}" if record.delta is not None else ""
    splits = "1 split" if record.seeds == 1 else f"{record.seeds} splits, mean ± standard deviation"
    return (
        f"{record.task} on {record.trained_on} people, {record.metric} on {record.held_out} others "
        f"({record.metric_note}), {splits}{delta}"
    )


def _cell(row: ComparisonRow | None, record: ComparisonRecord) -> str:
    if row is None:
        return "-"
    if row.mean is None:
        return "no model"
    of = f" ({len(row.scores)} of {record.seeds})" if row.failures else ""
    return f"{plain.compared_text(row.mean, record.people, record.metric, spread=row.spread)}{of}"


def _shown(row: ComparisonRow | None, record: ComparisonRecord, name: str) -> str:
    values = [] if row is None else row.further.get(name, [])
    if not values:
        return "-"
    spread = statistics.stdev(values) if len(values) > 1 else None
    return plain.compared_text(statistics.fmean(values), record.people, name, spread=spread)


def _by_method(record: ComparisonRecord) -> dict[str, dict[float | None, ComparisonRow]]:
    rows: dict[str, dict[float | None, ComparisonRow]] = {}
    for row in record.rows:
        rows.setdefault(row.method, {})[row.epsilon] = row
    return rows


PRIVATE = (
    "No accuracy is shown: the data was not declared public, and a score of it would be a release of its own."
)


def section_of(facts: dict[str, Any]) -> plain.Section | None:
    if {"findings", "people"} <= set(facts) and all("attack" in item for item in facts["findings"]):
        return attack_section(AttackRecord.model_validate(facts))
    if {"rows", "epsilons", "metric", "public"} <= set(facts):
        return comparison_section(ComparisonRecord.model_validate(facts))
    return None


def attack_section(record: AttackRecord) -> plain.Section:
    lines = [
        f"{title}: {item.attack}: {success_text(item)}"
        for defence, title in DEFENCES.items()
        for item in record.findings
        if item.defence == defence
    ]
    note = f"On {record.people} people's records, declared public; the defence has ε = {record.epsilon:g}."
    return plain.Section("What attacks on encrypted gradients found", notes=(note,), lines=lines)


def comparison_section(record: ComparisonRecord) -> plain.Section:
    title = f"{record.metric.capitalize()} against ε"
    if not record.public or all(row.mean is None for row in record.rows):
        return plain.Section(title, notes=(PRIVATE,))
    # A picture of ours, drawn anew from the facts: nothing of the file goes onto the page as markup.
    picture = Markup(svg(comparison_chart(record), narrow=True))
    return plain.Section(title, comparison_table(record), (record.metric_note,), [picture])
