"""A judgement of several classes: each against the rest, and all of them on average."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.protocols.judging import Opened
from colonnade.scoring.figures import curves
from colonnade.scoring.judgement import Figure, Judgement, judge_opened, judge_rows, two_names

Array = NDArray[np.float64]
AVERAGED = ("AUC", "average precision")


@dataclass(frozen=True, eq=False)
class ClassesJudged:
    """How good a model of several classes is: `each` of them against the rest, by how far its score is above the mean.

    `further` are figures of all classes at once, which only rows that may be looked at have.
    """

    people: int
    classes: tuple[str, ...]
    each: tuple[Judgement, ...]
    further: dict[str, Figure] = field(default_factory=dict)
    exact: bool = False

    @property
    def figures(self) -> dict[str, Figure]:
        """Means over the classes, each of which counts alike; noises of classes are independent."""
        found = dict(self.further)
        for name in AVERAGED:
            ones = [judged.figures[name] for judged in self.each]
            found[name] = Figure(
                float(np.mean([one.value for one in ones])),
                math.sqrt(sum(one.noise**2 for one in ones)) / len(ones),
                float(np.mean([one.sampling for one in ones])),
                float(np.mean([one.beside for one in ones])),
            )
        return found

    def to_data(self) -> dict[str, Any]:
        """All of it as plain values, with the curves of each class."""
        return {
            "people": self.people,
            "exact": self.exact,
            "classes": list(self.classes),
            "counts": [round(judged.counts[1], 1) for judged in self.each],
            "figures": {name: asdict(figure) for name, figure in self.figures.items()},
            "each": {
                name: {
                    "figures": {item: asdict(judged.figures[item]) for item in AVERAGED},
                    "curves": curves(judged.law),
                }
                for name, judged in zip(self.classes, self.each, strict=True)
            },
        }


def contrasts(scores: Array) -> Array:
    """How far the score of each class is above the mean of all, along the last axis: what is common says nothing.

    >>> contrasts(np.array([[1.0, 2.0, 6.0]])).tolist()
    [[-2.0, -1.0, 3.0]]
    """
    return np.asarray(scores - scores.mean(axis=-1, keepdims=True))


def judge_classes(opened: Opened, centres: Array) -> ClassesJudged:
    """The judgement of what was opened about people nobody may look at, by each class's own scores."""
    each = tuple(
        judge_opened(opened, centre=float(centre), threshold=0.0, chances=False, head=head)
        for head, centre in enumerate(centres)
    )
    return ClassesJudged(opened.plan.rows, tuple(opened.plan.label.classes), each)


def judge_class_rows(
    scores: Array, classes: NDArray[np.int64], *, names: tuple[str, ...], chances: Array | None
) -> ClassesJudged:
    """The judgement of people who may be looked at; `chances` are what the model says each class has."""
    apart = contrasts(scores)
    each = tuple(
        judge_rows(
            apart[:, head],
            (classes == head).astype(np.int64),
            names=two_names(names, head),
            threshold=0.0,
            chances=False,
        )
        for head in range(len(names))
    )
    right = (scores.argmax(axis=1) == classes).astype(np.float64)
    shares = np.bincount(classes, minlength=len(names)) / len(classes)
    further = {"accuracy": _mean(right, float(shares.max()))}
    if chances is not None:
        lost = -np.log(np.maximum(chances[np.arange(len(classes)), classes], 1e-15))
        further["log-loss"] = _mean(lost, float(-(shares * np.log(shares)).sum()))
    return ClassesJudged(len(classes), names, each, further, exact=True)


def _mean(values: Array, beside: float) -> Figure:
    return Figure(float(values.mean()), 0.0, float(values.std() / math.sqrt(len(values))), beside)
