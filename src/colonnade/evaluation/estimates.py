"""How good a model is, as people read it: figures from distributions of scores, each with its error."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from colonnade.data.labels import Label
from colonnade.errors import InputError, ModelError
from colonnade.models.discriminant import probabilities
from colonnade.randomness import KeyedRandomness, Randomness

Array = NDArray[np.float64]
BINS = 10
RULES = "balanced, f1, recall=0.8, share=0.1, or cost=5:1 (a miss costs five false alarms)"
_CLOSE_TO_ONE = 1e-15


@dataclass(frozen=True)
class Figure:
    """`noise` and `sampling` are deviations; `baseline` is what the commonest class, or the mean, would have."""

    value: float
    noise: float
    sampling: float
    baseline: float

    @property
    def error(self) -> float:
        return math.hypot(self.noise, self.sampling)

    def __str__(self) -> str:
        error = f" ± {error_text(self.error)}" if self.error > 0 else ""
        return f"{figure_text(self.value, self.error)}{error}"


def figure_text(value: float, error: float) -> str:
    """A figure with no more digits than its error allows; four behind the point where there is none."""
    digits = 4 if error <= 0 else min(12, -math.floor(math.log10(error)))
    return f"{round(value, digits):.{max(0, digits)}f}"


def error_text(error: float) -> str:
    rounded = float(f"{error:.2g}")
    return f"{rounded:.0f}" if rounded >= 10 else f"{rounded:.2g}"


def spread(values: Iterable[float]) -> float:
    numbers = list(values)
    return float(np.std(numbers, ddof=1)) if len(numbers) > 1 else 0.0


@dataclass(frozen=True, eq=False)
class ScoreDistribution:
    """Scores in ascending order, each once, and how many people of the first and of the second class have them."""

    scores: Array
    people: Array

    @classmethod
    def of(cls, scores: Array, classes: NDArray[np.int64]) -> ScoreDistribution:
        points, places = np.unique(np.asarray(scores, dtype=np.float64), return_inverse=True)
        people = np.stack(
            [np.bincount(places, weights=classes == number, minlength=len(points)) for number in (0, 1)]
        )
        return cls(points, people.astype(np.float64))

    @property
    def counts(self) -> Array:
        return np.asarray(self.people.sum(axis=1))

    @property
    def above(self) -> Array:
        """For thresholds that fall, each class's share of people whose score is above: from none to all."""
        shares = np.cumsum(self.people[:, ::-1], axis=1) / self.counts[:, None]
        return np.concatenate([np.zeros((2, 1)), shares], axis=1)

    def recalibrated(self) -> ScoreDistribution:
        """The same people, with the log-odds that fit them best for scores; equal scores stay equal, no others are."""
        slope, shift = recalibration(self)
        return replace(self, scores=max(slope, 1e-9) * self.scores + shift)

    def resampled(self, randomness: Randomness) -> ScoreDistribution:
        people = np.zeros_like(self.people)
        for number, count in enumerate(self.counts):
            ends = np.cumsum(self.people[number]) / count
            draws = randomness.words(max(1, round(count))).astype(np.float64) / 2.0**64
            places = np.minimum(np.searchsorted(ends, draws), len(ends) - 1)
            people[number] = np.bincount(places, minlength=len(ends))
        return replace(self, people=people)

    def figures(self, threshold: float) -> dict[str, float]:
        everybody, table = self.counts.sum(), confusion(self, threshold)
        recall, precision = recall_and_precision(self)
        return {
            "AUC": auc(self),
            # The precision at every threshold, weighed by the recall that it adds.
            "average precision": float(np.diff(recall) @ precision[1:]),
            "accuracy": float((table[0, 0] + table[1, 1]) / everybody),
            **{
                name: float((self.people * loss).sum() / everybody)
                for name, loss in losses(self.scores).items()
            },
        }


def auc(scored: ScoreDistribution) -> float:
    """The probability that somebody of the second class scores above somebody of the first; ties count half."""
    below = np.cumsum(scored.people[0]) - scored.people[0] / 2.0
    return float(scored.people[1] @ below / scored.counts.prod())


def recall_and_precision(scored: ScoreDistribution) -> tuple[Array, Array]:
    """At thresholds that fall; where nobody is above one, precision is 1."""
    false, true = scored.above * scored.counts[:, None]
    precision = np.divide(true, true + false, out=np.ones_like(true), where=true + false > 0)
    return scored.above[1], precision


def confusion(scored: ScoreDistribution, threshold: float) -> Array:
    """People by class and by what is said of them above and below a score: [[TN, FP], [FN, TP]]."""
    above = scored.people[:, scored.scores > threshold].sum(axis=1)
    return np.stack([scored.counts - above, above], axis=1)


def losses(scores: Array) -> dict[str, Array]:
    """What a score costs somebody of each class: logarithm of its probability, and squared distance from it."""
    odds = np.stack([scores, -scores])
    return {"log-loss": np.logaddexp(0.0, odds), "Brier score": expit(odds) ** 2}


def commonest(counts: Array) -> dict[str, float]:
    """What always answering with the commonest class, or with the share of each, would have."""
    shares = counts / counts.sum()
    there = shares[shares > 0]
    figures = {
        "accuracy": float(shares.max()),
        "log-loss": float(-(there * np.log(there)).sum()),
        "Brier score": float(1.0 - (shares**2).sum()),
    }
    if len(shares) > 2:
        return figures
    # Of two classes the squared distance is that of one probability.
    return {**figures, "AUC": 0.5, "average precision": float(shares[1]), "Brier score": float(shares.prod())}


def recalibration(scored: ScoreDistribution) -> tuple[float, float]:
    """a and b of the probability 1/(1 + e^-(as + b)) with the least log-loss over these people; a is never negative."""
    # A grain of doubt in each class, so that classes that never mix leave a finite slope.
    weights = scored.people + 0.5 * scored.people.sum(axis=0) / scored.people.sum()
    line = np.array([1.0, 0.0])
    design = np.stack([scored.scores, np.ones_like(scored.scores)])
    for _ in range(50):
        chance = expit(line @ design)
        slope = design @ (weights.sum(axis=0) * chance - weights[1])
        curve = (design * (weights.sum(axis=0) * chance * (1.0 - chance))) @ design.T
        step = np.linalg.solve(curve + 1e-9 * np.eye(2), slope)
        line = line - step / max(1.0, float(np.abs(step).max()))
        if np.abs(step).max() < 1e-10:
            break
    if line[0] < 0.0:
        share = scored.counts[1] / scored.counts.sum()
        return 0.0, float(logit(np.clip(share, _CLOSE_TO_ONE, 1 - _CLOSE_TO_ONE)))
    return float(line[0]), float(line[1])


def threshold_of(rule: str, scored: ScoreDistribution) -> float:
    """The score above which the second class is predicted, by a rule or a probability."""
    false, true = scored.above * scored.counts[:, None]
    missed = scored.counts[1] - true
    name, _, said = rule.rpartition("=")
    try:
        level = float(said)
    except ValueError:
        level = 0.0
    if "=" not in rule and 0.0 < level < 1.0:
        return float(logit(level))
    if rule == "balanced":
        value = scored.above[1] - scored.above[0]
    elif rule == "f1":
        value = 2.0 * true / (2.0 * true + false + missed)
    elif name == "cost" and (pair := re.fullmatch(r"([0-9.]+):([0-9.]+)", said)):
        value = -(float(pair[1]) * missed + float(pair[2]) * false)
    elif name in ("recall", "share") and 0.0 < level < 1.0:
        reached = scored.above[1] if name == "recall" else (true + false) / scored.counts.sum()
        return _below(scored, int(np.searchsorted(reached, level - 1e-12)))
    else:
        raise InputError(f"threshold: found {rule!r}; rules are {RULES}, or a probability between 0 and 1.")
    return _below(scored, int(np.argmax(value)))


def check_rule(rule: str) -> None:
    threshold_of(rule, ScoreDistribution(np.array([-1.0, 1.0]), np.ones((2, 2))))


def _below(scored: ScoreDistribution, above: int) -> float:
    scores = scored.scores[::-1]
    if above <= 0:
        return float(scores[0])
    if above >= len(scores):
        return float(scores[-1]) - 1.0
    return float((scores[above - 1] + scores[above]) / 2.0)


def calibration_curve(scored: ScoreDistribution) -> list[dict[str, float]]:
    """In tenths of the probability: what was said on average, what was so, and of how many people."""
    chances = expit(scored.scores)
    bins = np.minimum((chances * BINS).astype(np.int64), BINS - 1)
    everybody = scored.people.sum(axis=0)
    points = []
    for inside in (bins == number for number in range(BINS)):
        if (people := float(everybody[inside].sum())) > 0:
            said = float(chances[inside] @ everybody[inside] / people)
            so = float(scored.people[1, inside].sum()) / people
            points.append({"said": said, "so": so, "people": people})
    return points


def curves(scored: ScoreDistribution, points: int = 100) -> dict[str, list[list[float]]]:
    recall, precision = recall_and_precision(scored)
    share = scored.counts @ scored.above / scored.counts.sum()
    places = np.unique(np.linspace(0, len(recall) - 1, points).astype(np.int64))

    def pairs(horizontal: Array, up: Array) -> list[list[float]]:
        return [[round(float(horizontal[place]), 5), round(float(up[place]), 5)] for place in places]

    return {
        "roc": pairs(scored.above[0], recall),
        "precision-recall": pairs(recall, precision),
        "lift": pairs(share, recall),
    }


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
    """`threshold` is the score above which the second class is predicted; `exact` people were looked at.

    `redrawn` are distributions that noise could as well have left, `threshold_error` how far it or chance moves one by
    rule.
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
        baseline = commonest(scored.counts)
        randomness = keyed(f"sampling {people}")
        drawn = [scored.resampled(randomness).figures(threshold) for _ in range(DRAWS)]
        figures = {}
        for name, value in values.items():
            if chances or name not in _CHANCES:
                sampling = spread(one[name] for one in drawn)
                figures[name] = Figure(value, (noise or {}).get(name, 0.0), sampling, baseline[name])
        return cls(people, names, figures, threshold, scored, exact=noise is None)

    @cached_property
    def recalibration(self) -> tuple[float, float]:
        return recalibration(self.scored)

    @property
    def threshold_probability(self) -> float:
        return 1.0 / (1.0 + math.exp(-self.threshold))

    def at(self, rule: str) -> TwoClassEstimate:
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
        return {
            **_common(self),
            "classes": list(self.classes),
            "counts": self.scored.counts.round(1).tolist(),
            "confusion": confusion(self.scored, self.threshold).round(1).tolist(),
            "threshold": self.threshold_probability,
            "threshold_error": self.threshold_error,
            "recalibration": list(self.recalibration),
            "curves": curves(self.scored),
            "calibration": calibration_curve(self.scored),
        }


@dataclass(frozen=True, eq=False)
class ClassEstimate:
    """`each` class against the rest, by the probability that its score above the mean is recalibrated to.

    `together` are figures of all classes, and `confusion` who is taken for what, where rows may be looked at.
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
            ones = np.array([astuple(one.figures[name]) for one in self.each])
            value, _, sampling, baseline = ones.mean(axis=0).tolist()
            figures[called] = Figure(value, float(np.linalg.norm(ones[:, 1])) / len(ones), sampling, baseline)
        return figures

    def to_data(self) -> dict[str, Any]:
        return {
            **_common(self),
            "classes": list(self.classes),
            "counts": [round(float(one.scored.counts[1]), 1) for one in self.each],
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
    """`pairs` are means of what was predicted and of what was so, over people in the order of what was predicted."""

    people: int
    label: str
    figures: dict[str, Figure]
    pairs: tuple[tuple[float, float], ...]
    exact: bool = True

    def to_data(self) -> dict[str, Any]:
        return {**_common(self), "label": self.label, "pairs": [list(pair) for pair in self.pairs]}


Estimate = TwoClassEstimate | ClassEstimate | NumberEstimate


def _common(estimate: Estimate) -> dict[str, Any]:
    figures = {name: asdict(figure) for name, figure in estimate.figures.items()}
    return {"people": estimate.people, "exact": estimate.exact, "figures": figures}


def estimate_rows(
    scores: Array, truth: NDArray[Any], label: Label | None, *, chances: bool, threshold: float = 0.0
) -> Estimate:
    """Exact, with the error of sampling alone; `chances` says that scores are log-odds."""
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
    for name, count in zip(names, scored.counts, strict=True):
        if not count:
            raise ModelError(
                f"nobody here is of class {name!r}, and one class alone cannot be evaluated. Bring people of both."
            )
    values, people = scored.figures(threshold), len(scores)
    return TwoClassEstimate.of(
        scored, values, people=people, names=names, threshold=threshold, chances=chances
    )


def estimate_classes(
    scores: Array, classes: NDArray[np.int64], *, names: tuple[str, ...], chances: bool
) -> ClassEstimate:
    each = []
    for head, apart in enumerate(contrasts(scores).T):
        own, against = (classes == head).astype(np.int64), two_names(names, head)
        slope, shift = recalibration(ScoreDistribution.of(apart, own))
        odds = max(slope, 1e-9) * apart + shift
        each.append(estimate_two_classes(odds, own, names=against, threshold=0.0, chances=True))
    baseline = commonest(np.bincount(classes, minlength=len(names)).astype(np.float64))
    losses = {"accuracy": (scores.argmax(axis=1) == classes).astype(np.float64)}
    if chances:
        said = probabilities(scores)
        own = said[np.arange(len(classes)), classes]
        losses["log-loss"] = -np.log(np.maximum(own, 1e-15))
        losses["Brier score"] = (said**2).sum(axis=1) - 2.0 * own + 1.0
    together = {
        name: Figure(float(loss.mean()), 0.0, float(loss.std() / math.sqrt(len(loss))), baseline[name])
        for name, loss in losses.items()
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
