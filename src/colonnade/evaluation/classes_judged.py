"""A judgement of several classes: each against the rest, and all of them on average."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.evaluation.class_laws import CLASSES, class_losses, commonest_class, judge_together
from colonnade.evaluation.figures import ScoreLaw, curves, recalibration
from colonnade.evaluation.judgement import Figure, Judgement, judge_opened, judge_rows, two_names
from colonnade.protocols.evaluation import Opened

Array = NDArray[np.float64]
AVERAGED = {
    "AUC": "AUC",
    "average precision": "average precision",
    "accuracy": "accuracy against the rest",
    "Brier score": "Brier score against the rest",
}
"""The figures of one class against the rest, and what they are called beside those of all classes."""


@dataclass(frozen=True, eq=False)
class ClassesJudged:
    """How good a model of several classes is: `each` of them against the rest, by how far its score is above the mean.

    Accuracy and Brier score of one against the rest are those of the probability that this score is recalibrated to.
    `together` are figures of all classes at once, and `confusion` who is taken for what: of three classes, and of more
    where rows may be looked at.
    """

    people: int
    classes: tuple[str, ...]
    each: tuple[Judgement, ...]
    together: dict[str, Figure] = field(default_factory=dict)
    confusion: tuple[tuple[float, ...], ...] = ()
    exact: bool = False

    @property
    def figures(self) -> dict[str, Figure]:
        figures = dict(self.together)
        for name, called in AVERAGED.items():
            ones = [judged.figures[name] for judged in self.each]
            figures[called] = Figure(
                float(np.mean([one.value for one in ones])),
                math.sqrt(sum(one.noise**2 for one in ones)) / len(ones),
                float(np.mean([one.sampling for one in ones])),
                float(np.mean([one.beside for one in ones])),
            )
        return figures

    def to_data(self) -> dict[str, Any]:
        """All of it as plain values, with the curves of each class."""
        return {
            "people": self.people,
            "exact": self.exact,
            "classes": list(self.classes),
            "counts": [round(judged.counts[1], 1) for judged in self.each],
            "figures": {name: asdict(figure) for name, figure in self.figures.items()},
            **(
                {"confusion": [[round(count, 1) for count in row] for row in self.confusion]}
                if self.confusion
                else {}
            ),
            "each": {
                name: {
                    "figures": {called: asdict(judged.figures[item]) for item, called in AVERAGED.items()},
                    "curves": curves(judged.law),
                }
                for name, judged in zip(self.classes, self.each, strict=True)
            },
        }


def contrasts(scores: Array) -> Array:
    """How far the score of each class is above the mean of all, along the last axis: what is common says nothing."""
    return np.asarray(scores - scores.mean(axis=-1, keepdims=True))


def judge_classes(opened: Opened, centres: Array, *, chances: bool) -> ClassesJudged:
    """The judgement of what was opened about people nobody may look at; `chances` says that scores are log-odds."""
    each = tuple(
        judge_opened(opened, centre=float(centre), threshold=0.0, chances=True, head=head)
        for head, centre in enumerate(centres)
    )
    names = tuple(opened.plan.label.classes)
    if len(names) != CLASSES:
        return ClassesJudged(opened.plan.rows, names, each)
    together, confusion = judge_together(opened, centres, chances=chances)
    return ClassesJudged(opened.plan.rows, names, each, together, _rows(confusion))


def judge_class_rows(
    scores: Array, classes: NDArray[np.int64], *, names: tuple[str, ...], chances: bool
) -> ClassesJudged:
    """The judgement of people who may be looked at; `chances` says that scores are log-odds."""
    apart = contrasts(scores)
    each = tuple(
        _against_rest(apart[:, head], classes == head, two_names(names, head)) for head in range(len(names))
    )
    beside = commonest_class(np.bincount(classes, minlength=len(names)).astype(np.float64))
    together = {
        name: Figure(float(loss.mean()), 0.0, float(loss.std() / math.sqrt(len(loss))), beside[name])
        for name, loss in class_losses(scores, classes).items()
        if chances or name == "accuracy"
    }
    confusion = np.zeros((len(names), len(names)))
    np.add.at(confusion, (classes, scores.argmax(axis=1)), 1.0)
    return ClassesJudged(len(classes), names, each, together, _rows(confusion), exact=True)


def _against_rest(scores: Array, own: NDArray[np.bool_], names: tuple[str, str]) -> Judgement:
    classes = own.astype(np.int64)
    slope, shift = recalibration(ScoreLaw.of(scores, classes))
    return judge_rows(max(slope, 1e-9) * scores + shift, classes, names=names, threshold=0.0, chances=True)


def _rows(table: Array) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(float(count) for count in row) for row in table)
