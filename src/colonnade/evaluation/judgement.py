"""A judgement as people read it: each figure with what noise and chance may have done to it, and what it is beside."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from colonnade.errors import ModelError
from colonnade.evaluation.figures import (
    ScoreLaw,
    auc,
    average_precision,
    calibration_curve,
    commonest,
    confusion,
    curves,
    error_text,
    figure_text,
    losses,
    recalibration,
    threshold_of,
)
from colonnade.evaluation.score_laws import Phi
from colonnade.protocols.evaluation import Opened
from colonnade.randomness import KeyedRandomness, Randomness

Array = NDArray[np.float64]
DRAWS = 24
"""How often noise and chance are drawn anew to see what they do."""
_CHANCES = ("log-loss", "Brier score")
# What smoothing moves on average, and is moved back; accuracy it hardly moves, and the rest not at all.
_SMOOTHED = ("average precision",)
_SMOOTHED_REST = ("average precision", "accuracy", "Brier score")


@dataclass(frozen=True)
class Figure:
    """One figure; `noise` and `sampling` are standard deviations.

    `beside` is what always answering with the commonest class, or with the mean, would have.
    """

    value: float
    noise: float
    sampling: float
    beside: float

    @property
    def error(self) -> float:
        return math.hypot(self.noise, self.sampling)

    def __str__(self) -> str:
        error = f" ± {error_text(self.error)}" if self.error > 0 else ""
        return f"{figure_text(self.value, self.error)}{error}"


@dataclass(frozen=True, eq=False)
class Judgement:
    """How good a model of two classes is, on people whom it was not trained on.

    `threshold` is the score above which the second class is predicted, `recalibration` the a and b of probabilities
    1/(1 + e^-(as + b)) that fit these people best. `exact` says that the people were looked at. `again` are laws that
    noise could as well have left of private people, `threshold_error` how far it or chance moves one by rule.
    """

    people: int
    counts: tuple[float, float]
    classes: tuple[str, str]
    figures: dict[str, Figure]
    confusion: tuple[tuple[float, float], tuple[float, float]]
    threshold: float
    recalibration: tuple[float, float]
    law: ScoreLaw = field(repr=False)
    exact: bool = False
    again: tuple[ScoreLaw, ...] = field(default=(), repr=False)
    threshold_error: float = 0.0

    def threshold_by(self, rule: str) -> float:
        """The probability above which the second class is to be predicted, by a rule such as "f1" or "recall=0.8"."""
        return float(1.0 / (1.0 + math.exp(-threshold_of(rule, self.law))))

    def at(self, rule: str) -> Judgement:
        """The same people with another threshold, by a probability or by a rule; nothing more is opened for it."""
        threshold = threshold_of(rule, self.law)
        table = confusion(self.law, threshold)
        accuracy = float((table[0, 0] + table[1, 1]) / self.law.counts.sum())
        randomness = KeyedRandomness(hashlib.sha256(f"threshold {rule} {self.people}".encode()).digest())
        again = self.again or (_resampled(self.law, randomness) for _ in range(DRAWS))
        return replace(
            self,
            threshold=threshold,
            threshold_error=_spread(float(expit(threshold_of(rule, law))) for law in again),
            confusion=((float(table[0, 0]), float(table[0, 1])), (float(table[1, 0]), float(table[1, 1]))),
            figures={**self.figures, "accuracy": replace(self.figures["accuracy"], value=accuracy)},
        )

    def to_data(self) -> dict[str, Any]:
        """All of it as plain values, with its curves."""
        return {
            "people": self.people,
            "exact": self.exact,
            "classes": list(self.classes),
            "counts": [round(count, 1) for count in self.counts],
            "figures": {name: asdict(figure) for name, figure in self.figures.items()},
            "confusion": [[round(count, 1) for count in row] for row in self.confusion],
            "threshold": 1.0 / (1.0 + math.exp(-self.threshold)),
            "threshold_error": self.threshold_error,
            "recalibration": list(self.recalibration),
            "curves": curves(self.law),
            "calibration": calibration_curve(self.law),
        }


def judge_rows(
    scores: Array, classes: NDArray[np.int64], *, names: tuple[str, str], threshold: float, chances: bool
) -> Judgement:
    """The judgement of people who may be looked at: exact, with the error of sampling alone."""
    law = ScoreLaw.of(scores, classes)
    missing = [name for name, count in zip(names, law.counts, strict=True) if not count]
    if missing:
        raise ModelError(
            f"nobody here is of class {missing[0]!r}, and one class alone cannot be judged. Bring people of both."
        )
    return _judgement(
        law, len(scores), names, threshold, chances, _of_law(law, threshold), noise={}, exact=True
    )


def judge_opened(
    opened: Opened, *, centre: float, threshold: float, chances: bool, head: int = 0
) -> Judgement:
    """The judgement of what was opened about people nobody may look at; of several classes, of one against the rest.

    One class against the rest has no probability that is linear in scores: its score is recalibrated to be one.
    """
    plan = opened.plan

    def read(phi: Phi) -> tuple[ScoreLaw, dict[str, float]]:
        law = phi.law()
        if plan.scores == 1:
            return law, _of_phi(phi, law, threshold)
        law = recalibrated(law)
        return law, {**_of_law(law, threshold), "AUC": min(max(phi.auc(), 0.0), 1.0)}

    phi = Phi.of(opened.coefficients, plan, centre, head)
    randomness = KeyedRandomness(hashlib.sha256(f"judgement {opened.run} {head}".encode()).digest())
    law, estimates = read(phi)
    # People whose scores have just this law, judged again under fresh noise: how far figures then lie around the truth,
    # and how far off they are on average, is what noise and smoothing do.
    more = plan.opened_noise.draw((DRAWS, plan.coefficients), randomness)
    clean, laws, again = phi.opened_of(law), [], []
    for fresh in more:
        try:
            noisy = Phi.of(clean + fresh, plan, centre, head)
        except ModelError:
            continue
        other, values = read(noisy)
        laws.append(other)
        again.append(values)
    truth = _of_law(law, threshold)
    smoothed = _SMOOTHED if plan.scores == 1 else _SMOOTHED_REST
    noise: dict[str, float] = {}
    shift: dict[str, float] = {}
    for name in estimates:
        drawn = [item[name] for item in again]
        shift[name] = float(np.mean(drawn)) - truth[name] if drawn and name in smoothed else 0.0
        noise[name] = math.hypot(_spread(drawn), shift[name])
    names = two_names(plan.label.classes, None if plan.scores == 1 else head)
    figures = {
        name: min(max(value - shift[name], 0.0), 1.0) if name in smoothed else value
        for name, value in estimates.items()
    }
    made = _judgement(law, plan.rows, names, threshold, chances, figures, noise=noise)
    return replace(made, again=tuple(laws))


def recalibrated(law: ScoreLaw) -> ScoreLaw:
    """The same people, with the log-odds that fit them best for scores; equal scores stay equal and no others are."""
    slope, shift = recalibration(law)
    return replace(law, scores=max(slope, 1e-9) * law.scores + shift)


def two_names(classes: Sequence[str], head: int | None) -> tuple[str, str]:
    """Two classes as they are declared, or one of several against the rest."""
    return (classes[0], classes[1]) if head is None else (f"not {classes[head]}", classes[head])


def _judgement(
    law: ScoreLaw,
    people: int,
    names: tuple[str, str],
    threshold: float,
    chances: bool,
    estimates: dict[str, float],
    *,
    noise: dict[str, float],
    exact: bool = False,
) -> Judgement:
    beside = commonest(law.counts)
    randomness = KeyedRandomness(hashlib.sha256(f"sampling {people} {estimates}".encode()).digest())
    drawn = [_of_law(_resampled(law, randomness), threshold) for _ in range(DRAWS)]
    figures = {
        name: Figure(value, noise.get(name, 0.0), _spread(item[name] for item in drawn), beside[name])
        for name, value in estimates.items()
        if chances or name not in _CHANCES
    }
    table = confusion(law, threshold)
    return Judgement(
        people=people,
        counts=(float(law.counts[0]), float(law.counts[1])),
        classes=names,
        figures=figures,
        confusion=((float(table[0, 0]), float(table[0, 1])), (float(table[1, 0]), float(table[1, 1]))),
        threshold=threshold,
        recalibration=recalibration(law),
        law=law,
        exact=exact,
    )


def _of_law(law: ScoreLaw, threshold: float) -> dict[str, float]:
    everybody = law.counts.sum()
    table = confusion(law, threshold)
    return {
        "AUC": auc(law),
        "average precision": average_precision(law),
        "accuracy": float((table[0, 0] + table[1, 1]) / everybody),
        **{name: float((law.people * loss).sum() / everybody) for name, loss in losses(law.scores).items()},
    }


def _of_phi(phi: Phi, law: ScoreLaw, threshold: float) -> dict[str, float]:
    """What has an estimate without bias is read from what was opened itself, the rest from the smooth law."""
    return {**_of_law(law, threshold), "AUC": min(max(phi.auc(), 0.0), 1.0), **phi.mean_losses()}


def _resampled(law: ScoreLaw, randomness: Randomness) -> ScoreLaw:
    people = np.zeros_like(law.people)
    for number, count in enumerate(law.counts):
        ends = np.cumsum(law.people[number]) / count
        draws = randomness.words(max(1, round(count))).astype(np.float64) / 2.0**64
        places = np.minimum(np.searchsorted(ends, draws), len(ends) - 1)
        people[number] = np.bincount(places, minlength=len(ends))
    return replace(law, people=people)


def _spread(values: Iterable[float]) -> float:
    numbers = list(values)
    return float(np.std(numbers, ddof=1)) if len(numbers) > 1 else 0.0
