"""How good a model is, as people read it: each figure with what noise and chance may have done to it.

For rows that may be looked at the figures are exact, with the error of sampling alone; what is read of people whom
nobody may look at is made in `distributions`.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from colonnade.data.labels import Label
from colonnade.errors import ModelError
from colonnade.evaluation.figures import (
    Figure,
    ScoreDistribution,
    calibration_curve,
    class_losses,
    commonest,
    confusion,
    curves,
    recalibration,
    spread,
    threshold_of,
)
from colonnade.randomness import KeyedRandomness

Array = NDArray[np.float64]
DRAWS = 24
"""How often noise and chance are drawn anew to see what they do."""
CALIBRATION_GROUPS = 20
_CHANCES = ("log-loss", "Brier score")
AVERAGED = {
    "AUC": "AUC",
    "average precision": "average precision",
    "accuracy": "accuracy against the rest",
    "Brier score": "Brier score against the rest",
}
"""The figures of one class against the rest, and what they are called beside those of all classes."""


@dataclass(frozen=True, eq=False)
class TwoClassEstimate:
    """How good a model of two classes is, on people whom it was not trained on.

    `threshold` is the score above which the second class is predicted. `exact` says that the people were looked at.
    `redrawn` are distributions that noise could as well have left of private people, `threshold_error` how far it or
    chance moves one by rule.
    """

    people: int
    classes: tuple[str, str]
    figures: dict[str, Figure]
    threshold: float
    scored: ScoreDistribution = field(repr=False)
    exact: bool = False
    redrawn: tuple[ScoreDistribution, ...] = field(default=(), repr=False)
    threshold_error: float = 0.0

    @classmethod
    def of(
        cls,
        scored: ScoreDistribution,
        values: Mapping[str, float],
        *,
        people: int,
        names: tuple[str, str],
        threshold: float,
        chances: bool,
        noise: Mapping[str, float] | None = None,
    ) -> TwoClassEstimate:
        """Figures of these values, with what chance does to people like these; `noise` is None of exact ones."""
        beside = commonest(scored.counts)
        randomness = keyed(f"sampling {people}")
        drawn = [scored.resampled(randomness).figures(threshold) for _ in range(DRAWS)]
        figures = {
            name: Figure(
                value, (noise or {}).get(name, 0.0), spread(one[name] for one in drawn), beside[name]
            )
            for name, value in values.items()
            if chances or name not in _CHANCES
        }
        return cls(people, names, figures, threshold, scored, exact=noise is None)

    @property
    def confusion(self) -> Array:
        return confusion(self.scored, self.threshold)

    @cached_property
    def recalibration(self) -> tuple[float, float]:
        """a and b of probabilities 1/(1 + e^-(as + b)) that fit these people best."""
        return recalibration(self.scored)

    def threshold_by(self, rule: str) -> float:
        """The probability above which the second class is to be predicted, by a rule such as "f1" or "recall=0.8"."""
        return float(1.0 / (1.0 + math.exp(-threshold_of(rule, self.scored))))

    def at(self, rule: str) -> TwoClassEstimate:
        """The same people with another threshold, by a probability or by a rule; nothing more is opened for it."""
        threshold = threshold_of(rule, self.scored)
        randomness = keyed(f"threshold {rule} {self.people}")
        redrawn = self.redrawn or (self.scored.resampled(randomness) for _ in range(DRAWS))
        right = float(np.trace(confusion(self.scored, threshold)) / self.scored.counts.sum())
        return replace(
            self,
            threshold=threshold,
            threshold_error=spread(float(expit(threshold_of(rule, one))) for one in redrawn),
            figures={**self.figures, "accuracy": replace(self.figures["accuracy"], value=right)},
        )

    def to_data(self) -> dict[str, Any]:
        """All of it as plain values, with its curves."""
        return {
            "people": self.people,
            "exact": self.exact,
            "classes": list(self.classes),
            "counts": self.scored.counts.round(1).tolist(),
            "figures": {name: asdict(figure) for name, figure in self.figures.items()},
            "confusion": self.confusion.round(1).tolist(),
            "threshold": 1.0 / (1.0 + math.exp(-self.threshold)),
            "threshold_error": self.threshold_error,
            "recalibration": list(self.recalibration),
            "curves": curves(self.scored),
            "calibration": calibration_curve(self.scored),
        }


@dataclass(frozen=True, eq=False)
class ClassEstimate:
    """How good a model of several classes is: `each` of them against the rest, by how far its score is above the mean.

    Accuracy and Brier score of one against the rest are those of the probability that this score is recalibrated to.
    `together` are figures of all classes at once, and `confusion` who is taken for what: of three classes, and of more
    where rows may be looked at.
    """

    people: int
    classes: tuple[str, ...]
    each: tuple[TwoClassEstimate, ...]
    together: dict[str, Figure] = field(default_factory=dict)
    confusion: Array | None = None
    exact: bool = False

    @property
    def figures(self) -> dict[str, Figure]:
        figures = dict(self.together)
        for name, called in AVERAGED.items():
            ones = [one.figures[name] for one in self.each]
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
            "counts": [round(float(one.scored.counts[1]), 1) for one in self.each],
            "figures": {name: asdict(figure) for name, figure in self.figures.items()},
            **({} if self.confusion is None else {"confusion": self.confusion.round(1).tolist()}),
            "each": {
                name: {
                    "figures": {called: asdict(one.figures[item]) for item, called in AVERAGED.items()},
                    "curves": curves(one.scored),
                }
                for name, one in zip(self.classes, self.each, strict=True)
            },
        }


@dataclass(frozen=True, eq=False)
class NumberEstimate:
    """RMSE, MAE and R² of predictions, beside what always answering with the mean would have.

    `pairs` are the means of what was predicted and of what was so, over people in the order of what was predicted.
    `exact` says that the people were looked at.
    """

    people: int
    label: str
    figures: dict[str, Figure]
    pairs: tuple[tuple[float, float], ...]
    exact: bool = True

    def to_data(self) -> dict[str, Any]:
        return {
            "people": self.people,
            "exact": self.exact,
            "label": self.label,
            "figures": {name: asdict(figure) for name, figure in self.figures.items()},
            "pairs": [list(pair) for pair in self.pairs],
        }


Estimate = TwoClassEstimate | ClassEstimate | NumberEstimate


def estimate_rows(
    scores: Array, truth: NDArray[Any], label: Label | None, *, chances: bool, threshold: float = 0.0
) -> Estimate:
    """The estimate of people who may be looked at: exact, with the error of sampling alone.

    Scores are predictions of a number, one column of two classes, and one for each of more classes. `chances` says that
    they are log-odds.
    """
    if label is None or not label.classes:
        column = "label" if label is None else label.column
        return estimate_numbers(scores[:, 0], np.asarray(truth, dtype=np.float64), label=column)
    classes, names = np.asarray(truth, dtype=np.int64), tuple(label.classes)
    if len(names) > 2:
        return estimate_classes(scores, classes, names=names, chances=chances)
    return estimate_two_classes(
        scores[:, 0], classes, names=two_names(names), threshold=threshold, chances=chances
    )


def estimate_two_classes(
    scores: Array, classes: NDArray[np.int64], *, names: tuple[str, str], threshold: float, chances: bool
) -> TwoClassEstimate:
    scored = ScoreDistribution.of(scores, classes)
    missing = [name for name, count in zip(names, scored.counts, strict=True) if not count]
    if missing:
        raise ModelError(
            f"nobody here is of class {missing[0]!r}, and one class alone cannot be judged. Bring people of both."
        )
    return TwoClassEstimate.of(
        scored,
        scored.figures(threshold),
        people=len(scores),
        names=names,
        threshold=threshold,
        chances=chances,
    )


def estimate_classes(
    scores: Array, classes: NDArray[np.int64], *, names: tuple[str, ...], chances: bool
) -> ClassEstimate:
    each = []
    for head, apart in enumerate(contrasts(scores).T):
        own = (classes == head).astype(np.int64)
        slope, shift = recalibration(ScoreDistribution.of(apart, own))
        odds = max(slope, 1e-9) * apart + shift
        against = two_names(names, head)
        each.append(estimate_two_classes(odds, own, names=against, threshold=0.0, chances=True))
    beside = commonest(np.bincount(classes, minlength=len(names)).astype(np.float64))
    together = {
        name: Figure(float(loss.mean()), 0.0, float(loss.std() / math.sqrt(len(loss))), beside[name])
        for name, loss in class_losses(scores, classes).items()
        if chances or name == "accuracy"
    }
    table = np.zeros((len(names), len(names)))
    np.add.at(table, (classes, scores.argmax(axis=1)), 1.0)
    return ClassEstimate(len(classes), names, tuple(each), together, table, exact=True)


def estimate_numbers(predicted: Array, truth: Array, *, label: str) -> NumberEstimate:
    wrong, apart = predicted - truth, truth - truth.mean()
    variance = float((apart**2).mean())
    if not variance > 0:
        raise ModelError(
            f"everybody here has the same {label!r}, so that nothing can be said of predictions of it."
        )
    square, root = float((wrong**2).mean()), math.sqrt(len(truth))
    # By the delta method: how far each figure of other people like these would lie around it.
    chance = float((wrong**2).std()) / (2.0 * math.sqrt(square) * root) if square > 0 else 0.0
    away, ratio = np.abs(wrong), square / variance
    either = float((wrong**2 - apart**2 * ratio).std()) / variance / root
    figures = {
        "RMSE": Figure(math.sqrt(square), 0.0, chance, math.sqrt(variance)),
        "MAE": Figure(float(away.mean()), 0.0, float(away.std() / root), float(np.abs(apart).mean())),
        "R²": Figure(1.0 - ratio, 0.0, either, 0.0),
    }
    groups = np.array_split(np.argsort(predicted, kind="stable"), min(CALIBRATION_GROUPS, len(truth)))
    pairs = tuple((float(predicted[group].mean()), float(truth[group].mean())) for group in groups)
    return NumberEstimate(len(truth), label, figures, pairs)


def contrasts(scores: Array) -> Array:
    """How far the score of each class is above the mean of all, along the last axis: what is common says nothing."""
    return np.asarray(scores - scores.mean(axis=-1, keepdims=True))


def two_names(classes: Sequence[str], head: int | None = None) -> tuple[str, str]:
    """Two classes as they are declared, or one of several against the rest."""
    return (classes[0], classes[1]) if head is None else (f"not {classes[head]}", classes[head])


def keyed(what: str) -> KeyedRandomness:
    """Draws for what is read of a run: the same wherever it is read, whatever the last digits of floats are there."""
    return KeyedRandomness(hashlib.sha256(what.encode()).digest())
