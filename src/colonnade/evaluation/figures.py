"""How good a classifier is, from how its scores lie in each of two classes: figures, curves, thresholds.

A `ScoreLaw` has scores and how many people of each class have each of them. For rows that may be looked at those are
the people themselves; for people nobody may look at, a smooth law that a judgement was read as.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from colonnade.errors import InputError

Array = NDArray[np.float64]
BINS = 10
RULES = "balanced, f1, recall=0.8, share=0.1, or cost=5:1 (a miss costs five false alarms)"
_CLOSE_TO_ONE = 1e-15


@dataclass(frozen=True, eq=False)
class ScoreLaw:
    """Scores in ascending order, each once, and how many people of the first and of the second class have them."""

    scores: Array
    people: Array

    @classmethod
    def of(cls, scores: Array, classes: NDArray[np.int64]) -> ScoreLaw:
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


def figure_text(value: float, error: float) -> str:
    """A figure with no more digits than its error allows; four behind the point where there is none."""
    digits = 4 if error <= 0 else min(12, -math.floor(math.log10(error)))
    return f"{round(value, digits):.{max(0, digits)}f}"


def error_text(error: float) -> str:
    rounded = float(f"{error:.2g}")
    return f"{rounded:.0f}" if rounded >= 10 else f"{rounded:.2g}"


def auc(law: ScoreLaw) -> float:
    """The probability that somebody of the second class scores above somebody of the first; ties count half."""
    below = np.cumsum(law.people[0]) - law.people[0] / 2.0
    return float(law.people[1] @ below / law.counts.prod())


def average_precision(law: ScoreLaw) -> float:
    """The precision at every threshold, weighed by the recall that it adds."""
    recall, precision = recall_and_precision(law)
    return float(np.diff(recall) @ precision[1:])


def recall_and_precision(law: ScoreLaw) -> tuple[Array, Array]:
    """At thresholds that fall; where nobody is above one, precision is 1."""
    false, true = law.above * law.counts[:, None]
    precision = np.divide(true, true + false, out=np.ones_like(true), where=true + false > 0)
    return law.above[1], precision


def confusion(law: ScoreLaw, threshold: float) -> Array:
    """People by class and by what is said of them above and below a score: [[TN, FP], [FN, TP]]."""
    above = law.people[:, law.scores > threshold].sum(axis=1)
    return np.stack([law.counts - above, above], axis=1)


def losses(scores: Array) -> dict[str, Array]:
    """What a score costs somebody of each class: logarithm of its probability, and squared distance from it."""
    odds = np.stack([scores, -scores])
    return {"log-loss": np.logaddexp(0.0, odds), "Brier score": expit(odds) ** 2}


def commonest(counts: Array) -> dict[str, float]:
    """What always answering with the commonest class, or with its share, would have."""
    share = float(counts[1] / counts.sum())
    entropy = -sum(part * math.log(part) for part in (share, 1.0 - share) if part > 0)
    return {
        "AUC": 0.5,
        "average precision": share,
        "accuracy": max(share, 1.0 - share),
        "log-loss": entropy,
        "Brier score": share * (1.0 - share),
    }


def recalibration(law: ScoreLaw, steps: int = 50) -> tuple[float, float]:
    """a and b of the probability 1/(1 + e^-(as + b)) with the least log-loss over these people; a is never negative."""
    # A grain of doubt in each class, so that classes that never mix leave a finite slope.
    weights = law.people + 0.5 * law.people.sum(axis=0) / law.people.sum()
    line = np.array([1.0, 0.0])
    design = np.stack([law.scores, np.ones_like(law.scores)])
    for _ in range(steps):
        chance = expit(line @ design)
        slope = design @ (weights.sum(axis=0) * chance - weights[1])
        curve = (design * (weights.sum(axis=0) * chance * (1.0 - chance))) @ design.T
        step = np.linalg.solve(curve + 1e-9 * np.eye(2), slope)
        line = line - step / max(1.0, float(np.abs(step).max()))
        if np.abs(step).max() < 1e-10:
            break
    if line[0] < 0.0:
        return 0.0, float(logit(np.clip(law.counts[1] / law.counts.sum(), _CLOSE_TO_ONE, 1 - _CLOSE_TO_ONE)))
    return float(line[0]), float(line[1])


def threshold_of(rule: str, law: ScoreLaw) -> float:
    """The score above which the second class is predicted, by a rule or a probability."""
    chance = _number(rule)
    if chance is not None:
        if not 0.0 < chance < 1.0:
            raise InputError(
                f"threshold: found {rule!r}; a probability is between 0 and 1, and rules are {RULES}."
            )
        return float(logit(chance))
    false, true = law.above * law.counts[:, None]
    missed = law.counts[1] - true
    name, _, said = rule.partition("=")
    if rule == "balanced":
        worth = law.above[1] - law.above[0]
    elif rule == "f1":
        worth = 2.0 * true / (2.0 * true + false + missed)
    elif name == "cost" and (pair := re.fullmatch(r"([0-9.]+):([0-9.]+)", said)):
        worth = -(float(pair[1]) * missed + float(pair[2]) * false)
    elif name in ("recall", "share") and (wanted := _number(said)) is not None and 0.0 < wanted < 1.0:
        reached = law.above[1] if name == "recall" else (true + false) / law.counts.sum()
        return _below(law, int(np.searchsorted(reached, wanted - 1e-12)))
    else:
        raise InputError(f"threshold: found {rule!r}; rules are {RULES}, or a probability between 0 and 1.")
    return _below(law, int(np.argmax(worth)))


def check_rule(rule: str) -> None:
    """Refuse a rule that is none, before anything is paid for to read it from."""
    threshold_of(rule, ScoreLaw(np.array([-1.0, 1.0]), np.ones((2, 2))))


def _below(law: ScoreLaw, above: int) -> float:
    scores = law.scores[::-1]
    if above <= 0:
        return float(scores[0])
    if above >= len(scores):
        return float(scores[-1]) - 1.0
    return float((scores[above - 1] + scores[above]) / 2.0)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def calibration_curve(law: ScoreLaw) -> list[dict[str, float]]:
    """In tenths of the probability: what was said on average, what was so, and of how many people."""
    chances = expit(law.scores)
    bins = np.minimum((chances * BINS).astype(np.int64), BINS - 1)
    everybody = law.people.sum(axis=0)
    points = []
    for number in range(BINS):
        inside = bins == number
        people = float(everybody[inside].sum())
        if people > 0:
            said = float(chances[inside] @ everybody[inside] / people)
            points.append({"said": said, "so": float(law.people[1, inside].sum()) / people, "people": people})
    return points


def curves(law: ScoreLaw, points: int = 100) -> dict[str, list[list[float]]]:
    """ROC, precision and recall, and lift, each as pairs; no more of them than a picture needs."""
    recall, precision = recall_and_precision(law)
    share = law.counts @ law.above / law.counts.sum()
    places = np.unique(np.linspace(0, len(recall) - 1, points).astype(np.int64))

    def pairs(across: Array, up: Array) -> list[list[float]]:
        return [[round(float(across[place]), 5), round(float(up[place]), 5)] for place in places]

    return {
        "roc": pairs(law.above[0], recall),
        "precision-recall": pairs(recall, precision),
        "lift": pairs(share, recall),
    }
