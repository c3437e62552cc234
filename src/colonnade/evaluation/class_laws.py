"""The joint law of the scores of three classes, read from the law of each: what is right and wrong of all at once.

How far each of three scores is above their mean is a point of a plane, and a judgement opens, for the people of every
class, the characteristic function along three directions of it. Their first values say mean and covariance, all of them
what is left: the law of a class is the one of greatest entropy, relative to a normal one, within noise and sampling of
what was opened (docs/proofs/judging.md). Of more classes, the directions that are opened leave the covariance open.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.evaluation.judgement import DRAWS, Figure
from colonnade.evaluation.score_laws import greatest_entropy
from colonnade.models.discriminant import probabilities
from colonnade.protocols.evaluation import Opened
from colonnade.protocols.evaluation_plan import JudgePlan
from colonnade.randomness import KeyedRandomness

Array = NDArray[np.float64]
CLASSES = 3
SHAPE = 0.004
"""How far figures of real scores are off without any noise, because of what eight frequencies leave open of a law."""
_SIDE = 51
_WITHIN = 5
# So many deviations of a normal law, this much wider than what its first values say, hold everybody.
_REACH = 4.5
_WIDER = 1.5
# Three scores above their mean, by the two coordinates of the plane that they lie in.
_PLANE = np.array([[2.0, 0.0], [-1.0, math.sqrt(3.0)], [-1.0, -math.sqrt(3.0)]]) / math.sqrt(6.0)


@dataclass(frozen=True, eq=False)
class ClassLaws:
    """For each class, points of three scores, how many of its people are at each, and for whom of them it speaks.

    `said` are shares of the people at a point by the score that is largest: a point stands for a cell of the plane.
    """

    points: tuple[Array, ...]
    people: tuple[Array, ...]
    said: tuple[Array, ...]

    @property
    def counts(self) -> Array:
        return np.array([people.sum() for people in self.people])

    @property
    def confusion(self) -> Array:
        return np.stack([people @ said for people, said in zip(self.people, self.said, strict=True)])

    def means(self) -> dict[str, tuple[float, float]]:
        """Mean of accuracy and Brier score over people, and deviation from person to person.

        Not of log-loss: most of it can be of a few people so far out that no law that was opened has them.
        """
        everybody = float(self.counts.sum())
        right = float(np.trace(self.confusion)) / everybody
        first = second = 0.0
        for code, (points, people) in enumerate(zip(self.points, self.people, strict=True)):
            loss = class_losses(points, np.full(len(points), code))["Brier score"]
            first, second = first + float(people @ loss), second + float(people @ loss**2)
        first, second = first / everybody, second / everybody
        return {
            "accuracy": (right, math.sqrt(max(right * (1.0 - right), 0.0))),
            "Brier score": (first, math.sqrt(max(second - first**2, 0.0))),
        }


def class_losses(scores: Array, classes: NDArray[np.int64]) -> dict[str, Array]:
    """Of each person whether the largest score is right, and what the probabilities of the classes cost."""
    chances = probabilities(scores)
    own = chances[np.arange(len(classes)), classes]
    return {
        "accuracy": (scores.argmax(axis=1) == classes).astype(np.float64),
        "log-loss": -np.log(np.maximum(own, 1e-15)),
        "Brier score": (chances**2).sum(axis=1) - 2.0 * own + 1.0,
    }


def commonest_class(counts: Array) -> dict[str, float]:
    """What always answering with the commonest of several classes, or with their shares, would have."""
    shares = counts / counts.sum()
    there = shares[shares > 0]
    return {
        "accuracy": float(shares.max()),
        "log-loss": float(-(there * np.log(there)).sum()),
        "Brier score": float(1.0 - (shares**2).sum()),
    }


def judge_together(opened: Opened, centres: Array, *, chances: bool) -> tuple[dict[str, Figure], Array]:
    """Accuracy of three classes, the Brier score where the model says `chances`, and who is taken for what."""
    plan = opened.plan
    laws = laws_of(plan, np.asarray(opened.coefficients, dtype=np.float64), centres)
    # People with just these laws, judged again under fresh noise, as of two classes.
    randomness = KeyedRandomness(hashlib.sha256(f"judgement of all classes {opened.run}".encode()).digest())
    clean = opened_of(plan, laws, centres)
    again = [
        laws_of(plan, clean + fresh, centres).means()
        for fresh in plan.opened_noise.draw((DRAWS, plan.coefficients), randomness)
    ]
    beside = commonest_class(laws.counts)
    figures = {}
    for name, (value, deviation) in laws.means().items():
        drawn = np.array([item[name][0] for item in again])
        noise = math.hypot(float(drawn.std(ddof=1)), float(drawn.mean()) - value, SHAPE)
        if chances or name == "accuracy":
            figures[name] = Figure(value, noise, deviation / math.sqrt(plan.rows), beside[name])
    return figures, laws.confusion


def laws_of(plan: JudgePlan, coefficients: Array, centres: Array) -> ClassLaws:
    """The laws of three classes, from sums by head and class; `centres` are added to every person's scores."""
    heads, m = plan.heads, plan.harmonics
    rows = np.stack([plan.of_head(place, coefficients) for place in range(CLASSES)], axis=1)
    # Every head counts the people of every class anew, and how many people there are is known.
    counts = rows[:, :, 0].mean(axis=1) / plan.scale
    counts = np.maximum(counts + (plan.rows - counts.sum()) / CLASSES, 1.0)
    sizes = np.array([head.amplitudes for head in heads], dtype=np.float64) / plan.gamma
    values = (rows[:, :, 1 : m + 1] + 1j * rows[:, :, m + 1 :]) / (sizes * plan.scale)
    points, people, said = [], [], []
    for value, count in zip(values, counts, strict=True):
        share = value / count
        where, base, largest = _plane(plan, share, centres)
        target = np.concatenate([share.real.ravel(), share.imag.ravel()])
        doubt = np.tile(((plan.deviation / sizes / count) ** 2 + 0.5 / count).ravel(), 2)
        law = greatest_entropy(target, doubt, _waves(plan, where - centres), base)
        points.append(where)
        people.append(count * law)
        said.append(largest)
    return ClassLaws(tuple(points), tuple(people), tuple(said))


def opened_of(plan: JudgePlan, laws: ClassLaws, centres: Array) -> Array:
    """What would be opened, without noise, of people whose scores have these laws: `laws_of` reads it back."""
    opened = np.zeros(plan.coefficients)
    m = plan.harmonics
    for code, (points, people) in enumerate(zip(laws.points, laws.people, strict=True)):
        sums = (people @ _waves(plan, points - centres)).reshape(2, CLASSES, m) * plan.scale
        for place, head in enumerate(plan.heads):
            scale = np.array(head.amplitudes, dtype=np.float64) / plan.gamma
            row = plan.of_head(place, opened)[code]
            row[0] = people.sum() * plan.scale
            row[1 : m + 1], row[m + 1 :] = sums[0, place] * scale, sums[1, place] * scale
    return opened


def _waves(plan: JudgePlan, terms: Array) -> Array:
    """Cosines, then sines, of every head and frequency, for scores from the middle of their ranges."""
    steps = np.array([head.omega * np.array(head.frequencies) for head in plan.heads])
    angles = (terms[:, :, None] * steps).reshape(len(terms), -1)
    return np.concatenate([np.cos(angles), np.sin(angles)], axis=1)


def _plane(plan: JudgePlan, share: NDArray[np.complex128], centres: Array) -> tuple[Array, Array, Array]:
    """Cells around the people of a class: their middles, the logarithm of a normal law, and which score is largest.

    The normal law is the one of the first values.
    """
    omegas = np.array([head.omega for head in plan.heads])
    middle = _PLANE.T @ (np.angle(share[:, 0]) / omegas + centres)
    lengths = np.clip(np.abs(share[:, 0]), 1e-6, 0.9995)
    # Variances along three directions of a plane are those of one covariance.
    x, y = _PLANE.T
    first, mixed, second = np.linalg.solve(
        np.stack([x * x, 2.0 * x * y, y * y], axis=1), -2.0 * np.log(lengths) / omegas**2
    )
    sizes, axes = np.linalg.eigh(np.array([[first, mixed], [mixed, second]]))
    widths = _WIDER * np.sqrt(np.maximum(sizes, 1e-2 * sizes.max()))

    def scores(places: Array) -> Array:
        return np.asarray((middle + (places * widths) @ axes.T) @ _PLANE.T)

    grid = _square(_REACH, _SIDE)
    points = scores(grid)
    bounds = np.array([head.bound for head in plan.heads])
    within = (np.abs(points - centres) <= bounds).all(axis=1)
    grid, points = (grid[within], points[within]) if within.any() else (grid, points)
    step = 2.0 * _REACH / (_SIDE - 1)
    inner = _square(step * (1.0 - 1.0 / _WITHIN) / 2.0, _WITHIN)
    largest = scores(grid[:, None, :] + inner).argmax(axis=-1)
    said = np.stack([(largest == code).mean(axis=1) for code in range(CLASSES)], axis=1)
    return points, -0.5 * (grid**2).sum(axis=1), said


def _square(reach: float, side: int) -> Array:
    line = np.linspace(-reach, reach, side)
    return np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
