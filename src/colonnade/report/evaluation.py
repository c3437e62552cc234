"""An evaluation as a record, as lines of text, and as pictures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from colonnade.federation.files import plain
from colonnade.report.charts import COLOURS, Axes, Chart, Series, Style, svg
from colonnade.report.plain import Section, table_lines
from colonnade.report.record import EvaluationRecord, FigureRecord

if TYPE_CHECKING:
    # With all that training takes.
    from colonnade.evaluation.estimates import Estimate, Figure
    from colonnade.evaluation.evaluate import Evaluation

TITLE = "How good it is on people held out"
PRIVATE = (
    "Measured on {people} people whom it was not trained on and whom nobody has looked at. ± is a standard deviation, "
    "of noise and of chance together."
)
NOISY = (
    "Measured by {receiver} on {people} people, by scores with noise of a standard deviation of up to {deviation:.2g} "
    "on each sum of embeddings. They are exact figures of {receiver}'s own labels and for {receiver} alone. ± is a "
    "standard deviation, of chance alone."
)
EXACT = "Measured exactly on {people} rows that may be looked at. ± is a standard deviation, of chance alone."
_OWN, _DASHED = Style("#000000"), Style("#999999", (3, 3))
_CHANCE = Series("chance", (0.0, 1.0), (0.0, 1.0), style=_DASHED)


def evaluation_facts(evaluation: Evaluation) -> EvaluationRecord:
    """What may be read of an evaluation on private people, and what it was to each observer; by whom, if by one."""
    run, estimate = evaluation.run, evaluation.estimate
    data = {} if estimate is None else estimate.to_data()
    data |= {
        "run": run.name,
        "guarantees": [str(item) for item in run.plan.guarantees],
        "private": not run.reproducible,
    }
    if evaluation.receiver is not None:
        data |= {"receiver": evaluation.receiver, "deviation": run.plan.deviation}
    return EvaluationRecord.model_validate(plain(data))


def estimate_facts(estimate: Estimate) -> EvaluationRecord:
    return EvaluationRecord.model_validate(plain(estimate.to_data()))


def _figure(record: FigureRecord) -> Figure:
    from colonnade.evaluation.estimates import Figure

    return Figure(**record.to_data())


def figure_rows(record: EvaluationRecord) -> list[tuple[str, str, str]]:
    """Each figure, of several classes on average and then of each, beside that of always the same answer."""
    from colonnade.evaluation.estimates import figure_text

    named = dict(record.figures)
    for one, own in record.each.items():
        named |= {f"{one}: {name}": figure for name, figure in own.figures.items()}
    figures = [(name, _figure(figure)) for name, figure in named.items()]
    return [
        (name, str(figure), f"{float(figure_text(figure.baseline, figure.error)):g}")
        for name, figure in figures
    ]


def baseline_text(record: EvaluationRecord) -> str:
    return "the commonest class alone" if record.pairs is None else "always the mean"


def confusion_rows(record: EvaluationRecord) -> list[tuple[str, ...]]:
    """People by what they are and what is said of them, as far as noise lets one say; nothing of numbers."""
    if not record.confusion:
        return []
    from colonnade.evaluation.estimates import figure_text

    classes = record.classes
    # Who is taken wrongly is all counts but one of a row, each of which noise moves by about this.
    wrong = len(classes) * (len(classes) - 1)
    noise = max(1.0, record.figures["accuracy"].noise * record.people / math.sqrt(wrong))
    by = "by the largest score"
    if record.threshold is not None:
        # One that was asked for is as it was asked for, one by a rule as sure as the rule.
        error = record.threshold_error
        by = f"above {figure_text(record.threshold, error) if error else format(record.threshold, '.3g')}"
    return [
        (by, *(f"said {name}" for name in classes)),
        *(
            (f"is {name}", *(figure_text(max(count, 0.0), noise) for count in row))
            for name, row in zip(classes, record.confusion, strict=True)
        ),
    ]


def evaluation_note(record: EvaluationRecord) -> str:
    note = NOISY if record.receiver is not None else EXACT if record.exact else PRIVATE
    return note.format(people=record.people, receiver=record.receiver, deviation=record.deviation)


def evaluation_lines(record: EvaluationRecord, width: int | None = None) -> list[str]:
    """Figures of an evaluation beside what the commonest class alone would have, and who was taken for what."""
    section, confused = evaluation_section(record, drawn=False), confusion_rows(record)
    lines = [] if section is None else table_lines(section.table, width)
    return [*lines, "", *table_lines(confused, width)] if confused else lines


def evaluation_pictures(record: EvaluationRecord) -> list[Markup]:
    """ROC, precision and recall, calibration and lift, as drawings; of numbers, predicted against true."""
    if record.pairs is not None:
        if not record.pairs:
            return []
        values = [value for pair in record.pairs for value in pair]
        even = Series(
            "as it should be", (min(values), max(values)), (min(values), max(values)), style=_DASHED
        )
        axes = Axes(f"predicted {record.label}", f"mean of the true {record.label}", from_zero=False)
        numbers = (_line("this model", record.pairs, _OWN), even)
        return [Markup(svg(Chart("Predicted against true", axes, numbers)))]
    roc = Axes("false alarms among the rest", "found")
    precision = Axes("recall", "precision")
    if record.each:
        both = (("ROC", "roc", roc, (_CHANCE,)), ("Precision and recall", "precision-recall", precision, ()))
        styles = [Style(COLOURS[place % len(COLOURS)]) for place in range(len(record.each))]
        pictures = []
        for title, key, axes, more in both:
            classes = zip(record.each.items(), styles, strict=True)
            lines = [_line(name, one.curves[key], style) for (name, one), style in classes]
            pictures.append(Markup(svg(Chart(title, axes, (*lines, *more)))))
        return pictures
    curves, share = record.curves, record.counts[1] / sum(record.counts)
    said = [(item["said"], item["so"]) for item in record.calibration]
    often = Series("chance", (0.0, 1.0), (share, share), style=_DASHED)
    perfect = Series("as it should be", (0.0, 1.0), (0.0, 1.0), style=_DASHED)
    lift = Axes("share of people, highest scores first", "found")
    drawn = (
        ("ROC", roc, curves["roc"], _CHANCE),
        ("Precision and recall", precision, curves["precision-recall"], often),
        ("Calibration", Axes("said probability", "share that was so"), said, perfect),
        ("Lift", lift, curves["lift"], _CHANCE),
    )
    return [
        Markup(svg(Chart(title, axes, (_line("this model", pairs, _OWN), baseline)), narrow=True))
        for title, axes, pairs, baseline in drawn
    ]


def evaluation_section(record: EvaluationRecord | None, *, drawn: bool = True) -> Section | None:
    """How good a model is on people it was not trained on: figures, notes, pictures; None where nobody knows."""
    if record is None:
        return None
    return Section(
        TITLE,
        [("figure", "this model", baseline_text(record)), *figure_rows(record)],
        (evaluation_note(record), *record.guarantees),
        evaluation_pictures(record) if drawn else (),
    )


def _line(name: str, pairs: Sequence[Sequence[Any]], style: Style) -> Series:
    return Series(name, tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs), style=style)


def score_text(record: EvaluationRecord) -> str | None:
    names = (name for name in ("AUC", "R²", "RMSE") if name in record.figures)
    return next((f"{name} {_figure(record.figures[name])}" for name in names), None)
