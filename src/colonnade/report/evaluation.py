"""A judgement as facts, as lines of text, and as pictures."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from colonnade.federation.records import plain
from colonnade.report.charts import Axes, Chart, Series, Style, svg

if TYPE_CHECKING:
    from colonnade.evaluation.classes_judged import ClassesJudged
    from colonnade.evaluation.evaluate import Judged
    from colonnade.evaluation.judgement import Judgement
    from colonnade.evaluation.numbers_judged import NumbersJudged
    from colonnade.federation.federation import Run
    from colonnade.protocols.joint_scores import ScoresPlan


Facts = dict[str, Any]
_CHANCE = Style("#999999", (3, 3))
PRIVATE = (
    "Measured on {people} people whom it was not trained on and whom nobody has looked at. ± is a standard deviation, "
    "of noise and of chance together."
)
NOISY = (
    "Measured by {holder} on {people} people, by scores with noise of a standard deviation of up to {noise:.2g} on "
    "each sum of embeddings. They are exact figures of {holder}'s own labels and for {holder} alone. ± is a standard "
    "deviation, of chance alone."
)
EXACT = "Measured exactly on {people} rows that may be looked at. ± is a standard deviation, of chance alone."


def judged_facts(judged: Judged) -> Facts:
    """What everybody may read of a judgement on private people, and what it was to each observer."""
    return {
        **judgement_facts(judged.judgement),
        "run": judged.run.name,
        "guarantees": [str(item) for item in judged.run.plan.guarantees],
        "private": not judged.run.reproducible,
    }


def network_judged_facts(run: Run[ScoresPlan], judgement: Judgement | ClassesJudged | NumbersJudged) -> Facts:
    """What the label holder alone may read of a judgement of a network by scores with noise."""
    plan = run.plan
    return {
        **judgement_facts(judgement),
        "run": run.name,
        "guarantees": [str(item) for item in plan.guarantees],
        "private": not run.reproducible,
        "receiver": plan.receiver,
        "deviation": plan.deviation,
    }


def judgement_facts(judgement: Judgement | ClassesJudged | NumbersJudged) -> Facts:
    facts: Facts = plain(judgement.to_data())
    return facts


def figure_rows(judged: Facts) -> list[tuple[str, str, str]]:
    """What, how much, and what always answering with the commonest class, or with the mean, would have.

    Of several classes first all of them on average, then each.
    """
    from colonnade.evaluation.figures import figure_text
    from colonnade.evaluation.judgement import Figure

    named = dict(judged["figures"])
    for one, figures in judged.get("each", {}).items():
        named |= {f"{one}: {name}": figure for name, figure in figures["figures"].items()}
    figures = [(name, Figure(**figure)) for name, figure in named.items()]
    return [
        (name, str(figure), f"{float(figure_text(figure.beside, figure.error)):g}")
        for name, figure in figures
    ]


def beside_text(judged: Facts) -> str:
    return "always the mean" if "pairs" in judged else "the commonest class alone"


def confusion_rows(judged: Facts) -> list[tuple[str, ...]]:
    """People by what they are and what is said of them, as far as noise lets one say; nothing of numbers."""
    if "confusion" not in judged:
        return []
    from colonnade.evaluation.figures import figure_text

    classes = judged["classes"]
    # Who is taken wrongly is all counts but one of a row, each of which noise moves by about this.
    wrong = len(classes) * (len(classes) - 1)
    noise = max(1.0, judged["figures"]["accuracy"]["noise"] * judged["people"] / math.sqrt(wrong))
    cut = "by the largest score"
    if "threshold" in judged:
        # One that was asked for is as it was asked for, one by a rule as sure as the rule.
        error = judged.get("threshold_error", 0.0)
        cut = f"above {figure_text(judged['threshold'], error) if error else format(judged['threshold'], '.3g')}"
    return [
        (cut, *(f"said {name}" for name in classes)),
        *(
            (f"is {name}", *(figure_text(max(count, 0.0), noise) for count in row))
            for name, row in zip(classes, judged["confusion"], strict=True)
        ),
    ]


def judged_note(judged: Facts) -> str:
    if "receiver" in judged:
        return NOISY.format(people=judged["people"], holder=judged["receiver"], noise=judged["deviation"])
    return (EXACT if judged["exact"] else PRIVATE).format(people=judged["people"])


def judged_pictures(judged: Facts) -> list[Markup]:
    """ROC, precision and recall, calibration and lift, as drawings; of numbers, predicted against true."""
    if "pairs" in judged:
        return [_numbers_picture(judged)] if judged["pairs"] else []
    if "each" in judged:
        return _class_pictures(judged)
    curves, said = judged["curves"], judged["calibration"]
    positives = judged["counts"][1] / sum(judged["counts"])
    diagonal = Series("chance", (0.0, 1.0), (0.0, 1.0), style=_CHANCE)

    def drawn(title: str, across: str, up: str, pairs: list[list[float]], beside: Series) -> Markup:
        line = Series(
            "this model", tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs), style=_OWN
        )
        return Markup(svg(Chart(title, Axes(across, up), (line, beside)), narrow=True))

    share = Series("chance", (0.0, 1.0), (positives, positives), style=_CHANCE)
    perfect = Series("as it should be", (0.0, 1.0), (0.0, 1.0), style=_CHANCE)
    calibration = [[item["said"], item["so"]] for item in said]
    return [
        drawn("ROC", "false alarms among the rest", "found", curves["roc"], diagonal),
        drawn("Precision and recall", "recall", "precision", curves["precision-recall"], share),
        drawn("Calibration", "said probability", "share that was so", calibration, perfect),
        drawn("Lift", "share of people, highest scores first", "found", curves["lift"], diagonal),
    ]


def _numbers_picture(judged: Facts) -> Markup:
    said, so = zip(*judged["pairs"], strict=True)
    ends = (min(*said, *so), max(*said, *so))
    lines = (Series("this model", said, so, style=_OWN), Series("as it should be", ends, ends, style=_CHANCE))
    axes = Axes(f"predicted {judged['label']}", f"mean of the true {judged['label']}", from_zero=False)
    return Markup(svg(Chart("Predicted against true", axes, lines)))


def _class_pictures(judged: Facts) -> list[Markup]:
    diagonal = Series("chance", (0.0, 1.0), (0.0, 1.0), style=_CHANCE)
    pictures = []
    for title, key, across, up in (
        ("ROC", "roc", "false alarms among the rest", "found"),
        ("Precision and recall", "precision-recall", "recall", "precision"),
    ):
        lines = [
            Series(
                name,
                tuple(pair[0] for pair in one["curves"][key]),
                tuple(pair[1] for pair in one["curves"][key]),
                style=Style(_COLOURS[place % len(_COLOURS)]),
            )
            for place, (name, one) in enumerate(judged["each"].items())
        ]
        pictures.append(
            Markup(svg(Chart(title, Axes(across, up), (*lines, *([diagonal] if key == "roc" else ())))))
        )
    return pictures


_OWN = Style("#000000")
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#7f7f7f")


def score_text(facts: Facts) -> str | None:
    """The score of a run in a word: its AUC, or R², or RMSE, where it was judged; None where it was not."""
    judged = facts.get("judged")
    figures = judged.get("figures", {}) if isinstance(judged, dict) else {}
    from colonnade.evaluation.judgement import Figure

    return next(
        (f"{name} {Figure(**figures[name])}" for name in ("AUC", "R²", "RMSE") if name in figures), None
    )
