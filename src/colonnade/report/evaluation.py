"""An evaluation as facts, as lines of text, and as pictures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from colonnade.federation.files import plain
from colonnade.report.charts import Axes, Chart, Series, Style, svg
from colonnade.report.plain import Section

if TYPE_CHECKING:
    # With all that training takes.
    from colonnade.evaluation.estimates import Estimate
    from colonnade.evaluation.evaluate import Evaluation

Facts = dict[str, Any]
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
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#7f7f7f")
_CHANCE = Series("chance", (0.0, 1.0), (0.0, 1.0), style=_DASHED)


def evaluation_facts(evaluation: Evaluation) -> Facts:
    """What may be read of an evaluation on private people, and what it was to each observer; by whom, if by one."""
    run = evaluation.run
    facts = {} if evaluation.estimate is None else estimate_facts(evaluation.estimate)
    facts |= {
        "run": run.name,
        "guarantees": [str(item) for item in run.plan.guarantees],
        "private": not run.reproducible,
    }
    if evaluation.receiver is not None:
        facts |= {"receiver": evaluation.receiver, "deviation": run.plan.deviation}
    return facts


def estimate_facts(estimate: Estimate) -> Facts:
    facts: Facts = plain(estimate.to_data())
    return facts


def figure_rows(facts: Facts) -> list[tuple[str, str, str]]:
    """Each figure, of several classes on average and then of each, beside that of always the same answer."""
    from colonnade.evaluation.estimates import Figure, figure_text

    named = dict(facts["figures"])
    for one, own in facts.get("each", {}).items():
        named |= {f"{one}: {name}": figure for name, figure in own["figures"].items()}
    figures = [(name, Figure(**figure)) for name, figure in named.items()]
    return [
        (name, str(figure), f"{float(figure_text(figure.baseline, figure.error)):g}")
        for name, figure in figures
    ]


def baseline_text(facts: Facts) -> str:
    return "always the mean" if "pairs" in facts else "the commonest class alone"


def confusion_rows(facts: Facts) -> list[tuple[str, ...]]:
    """People by what they are and what is said of them, as far as noise lets one say; nothing of numbers."""
    if "confusion" not in facts:
        return []
    from colonnade.evaluation.estimates import figure_text

    classes = facts["classes"]
    # Who is taken wrongly is all counts but one of a row, each of which noise moves by about this.
    wrong = len(classes) * (len(classes) - 1)
    noise = max(1.0, facts["figures"]["accuracy"]["noise"] * facts["people"] / math.sqrt(wrong))
    by = "by the largest score"
    if "threshold" in facts:
        # One that was asked for is as it was asked for, one by a rule as sure as the rule.
        error = facts.get("threshold_error", 0.0)
        by = f"above {figure_text(facts['threshold'], error) if error else format(facts['threshold'], '.3g')}"
    return [
        (by, *(f"said {name}" for name in classes)),
        *(
            (f"is {name}", *(figure_text(max(count, 0.0), noise) for count in row))
            for name, row in zip(classes, facts["confusion"], strict=True)
        ),
    ]


def evaluation_note(facts: Facts) -> str:
    note = NOISY if "receiver" in facts else EXACT if facts["exact"] else PRIVATE
    return note.format(**facts)


def evaluation_pictures(facts: Facts) -> list[Markup]:
    """ROC, precision and recall, calibration and lift, as drawings; of numbers, predicted against true."""
    if "pairs" in facts:
        return [_numbers_picture(facts)] if facts["pairs"] else []
    roc = Axes("false alarms among the rest", "found")
    precision = Axes("recall", "precision")
    if "each" in facts:
        both = (("ROC", "roc", roc, (_CHANCE,)), ("Precision and recall", "precision-recall", precision, ()))
        styles = [Style(_COLOURS[place % len(_COLOURS)]) for place in range(len(facts["each"]))]
        pictures = []
        for title, key, axes, more in both:
            classes = zip(facts["each"].items(), styles, strict=True)
            lines = [_line(name, one["curves"][key], style) for (name, one), style in classes]
            pictures.append(Markup(svg(Chart(title, axes, (*lines, *more)))))
        return pictures
    curves, share = facts["curves"], facts["counts"][1] / sum(facts["counts"])
    said = [(item["said"], item["so"]) for item in facts["calibration"]]
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


def evaluation_section(found: Facts | None, *, drawn: bool = True) -> Section | None:
    """How good a model is on people it was not trained on: figures, notes, pictures; None where nobody knows."""
    if not found:
        return None
    return Section(
        "How good it is on people held out",
        [("figure", "this model", baseline_text(found)), *figure_rows(found)],
        (evaluation_note(found), *found.get("guarantees", ())),
        evaluation_pictures(found) if drawn else (),
    )


def _line(name: str, pairs: Sequence[Sequence[float]], style: Style) -> Series:
    return Series(name, tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs), style=style)


def _numbers_picture(facts: Facts) -> Markup:
    values = [value for pair in facts["pairs"] for value in pair]
    ends = (min(values), max(values))
    lines = (
        _line("this model", facts["pairs"], _OWN),
        Series("as it should be", ends, ends, style=_DASHED),
    )
    axes = Axes(f"predicted {facts['label']}", f"mean of the true {facts['label']}", from_zero=False)
    return Markup(svg(Chart("Predicted against true", axes, lines)))


def score_text(facts: Facts) -> str | None:
    """The score of a run in a word: its AUC, or R², or RMSE, where it was evaluated; None where it was not."""
    from colonnade.evaluation.estimates import Figure

    found = facts.get("evaluated")
    figures = found.get("figures", {}) if isinstance(found, dict) else {}
    return next(
        (f"{name} {Figure(**figures[name])}" for name in ("AUC", "R²", "RMSE") if name in figures), None
    )
