"""What a judgement of numbers opened, read: laws of residual and label, errors from them, and predicted against true.

Residual and label each have a characteristic function at frequencies that double. The one that says most about their
spread gives a normal law; the law of greatest entropy relative to it, within noise and sampling of what was opened, is
the one that errors are read from (docs/proofs/judging.md). The mean label by score is the cubic in the score that fits
what was opened of scores by label best.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import ModelError
from colonnade.evaluation.judgement import DRAWS, Figure
from colonnade.evaluation.numbers_judged import NumbersJudged
from colonnade.evaluation.score_laws import greatest_entropy
from colonnade.protocols.evaluation import Opened
from colonnade.protocols.evaluation_plan import Head, JudgePlan
from colonnade.randomness import KeyedRandomness

Array = NDArray[np.float64]
RESIDUAL, LABEL, SCORE = range(3)
GROUPS = 10
"""In so many groups of people, by what is predicted of them, predictions are set against labels."""
CLEAR = 3.0
"""A label whose variance is not so many deviations of its noise away from 0 leaves no R²."""
_COARSE, _FINE = 201, 401
_WIDER = 1.5
# How far a straight line may bend at one deviation of the score, in deviations.
_BENDS = 0.3
# So many deviations either way hold everybody who can be told from noise.
_WIDTHS = 12.0


@dataclass(frozen=True, eq=False)
class NumberLaw:
    """Values in ascending order, and the share of people who have each."""

    values: Array
    shares: Array

    def mean(self, of: Array) -> float:
        return float(self.shares @ of)

    def deviation(self, of: Array) -> float:
        return math.sqrt(max(self.mean(of**2) - self.mean(of) ** 2, 0.0))


def judge_numbers_opened(opened: Opened, *, centre: float) -> NumbersJudged:
    """The judgement of what was opened about people nobody may look at; `centre` is what every score has added."""
    plan = opened.plan
    label = plan.label.label
    if label is None:
        raise ModelError("there is no label to be judged by.")
    middle = float(plan.label.from_unit(0.0))
    sums = np.asarray(opened.coefficients, dtype=np.float64)
    residual, truth = (law_of(plan, place, sums) for place in (RESIDUAL, LABEL))
    shift = middle - centre

    # People with just these laws, judged again under fresh noise: how far figures then lie around the truth, and how
    # far off they are on average, is what noise and smoothing do.
    randomness = KeyedRandomness(hashlib.sha256(f"judgement {opened.run}".encode()).digest())
    clean = np.zeros(plan.coefficients)
    for place, law in ((RESIDUAL, residual), (LABEL, truth)):
        _write(plan, place, law, clean)
    again = [
        _errors(law_of(plan, RESIDUAL, clean + fresh), law_of(plan, LABEL, clean + fresh), shift)
        for fresh in plan.opened_noise.draw((DRAWS, plan.coefficients), randomness)
    ]
    values = _errors(residual, truth, shift)
    off = {name: float(np.mean([item[name] for item in again])) - values[name] for name in values}
    noise = {
        name: math.hypot(float(np.std([item[name] for item in again], ddof=1)), off[name]) for name in values
    }
    figures = {
        name: Figure(values[name], noise[name], sampling, beside)
        for name, sampling, beside in _beside(residual, truth, shift, plan.rows)
        if name != "R²" or values["variance"] > CLEAR * noise["variance"]
    }
    pairs = _pairs(plan, sums, centre, values["RMSE"])
    return NumbersJudged(plan.rows, label.column, figures, pairs, exact=False)


def law_of(plan: JudgePlan, place: int, coefficients: Array) -> NumberLaw:
    """The law of the residual or of the label, from the middle of its bounds."""
    head = plan.heads[place]
    (row,) = plan.of_head(place, coefficients)
    return _law(plan, head, row, plan.deviation / _sizes(head, plan) / plan.rows)


def _law(plan: JudgePlan, head: Head, row: Array, noise: Array) -> NumberLaw:
    m, sizes = plan.harmonics, _sizes(head, plan) * plan.scale * plan.rows
    values = np.asarray((row[:m] + 1j * row[m:]) / sizes, dtype=np.complex128)
    omegas = np.array(head.frequencies, dtype=np.float64) * head.omega
    middle, width = _normal(values, noise, omegas)
    grid = np.linspace(-head.bound, head.bound, _COARSE)
    if _WIDTHS * width < head.bound:
        near = np.linspace(middle - _WIDTHS * width, middle + _WIDTHS * width, _FINE)
        grid = np.unique(np.concatenate([grid, near[np.abs(near) <= head.bound]]))
    base = -0.5 * ((grid - middle) / (_WIDER * width)) ** 2 + np.log(np.gradient(grid))
    angles = np.outer(grid, omegas)
    features = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
    target = np.concatenate([values.real, values.imag])
    doubt = np.tile(noise**2 + 0.5 / plan.rows, 2)
    return NumberLaw(grid, greatest_entropy(target, doubt, features, base))


def _normal(values: NDArray[np.complex128], noise: Array, omegas: Array) -> tuple[float, float]:
    """Mean and deviation of a normal law, by the frequency whose length says most about the deviation.

    Noise e on |φ| = e^(−x²/2) is an error of e/(|φ| |log |φ||) of x², which is least where |φ| = 1/e.
    """
    squares = np.abs(values) ** 2 - 2.0 * noise**2
    lengths = np.sqrt(np.clip(squares, noise**2, (1.0 - np.minimum(noise, 0.5)) ** 2))
    best = int(np.argmax(lengths * -np.log(lengths) / noise))
    width = math.sqrt(-2.0 * math.log(lengths[best])) / omegas[best]
    middle = 0.0
    for omega, value in zip(omegas[: best + 1], values[: best + 1], strict=True):
        # Every frequency says where within a period; those before say in which.
        middle += float(np.angle(value * np.exp(-1j * omega * middle))) / omega
    return middle, float(width)


def _sizes(head: Head, plan: JudgePlan) -> Array:
    return np.array(head.amplitudes, dtype=np.float64) / plan.gamma


def _write(plan: JudgePlan, place: int, law: NumberLaw, into: Array) -> None:
    """What would be opened, without noise, of people with this law."""
    head = plan.heads[place]
    angles = np.outer(law.values, np.array(head.frequencies) * head.omega)
    scale = _sizes(head, plan) * plan.scale * plan.rows
    waves = [(law.shares @ wave(angles)) * scale for wave in (np.cos, np.sin)]
    plan.of_head(place, into)[:] = np.concatenate(waves)


def _errors(residual: NumberLaw, truth: NumberLaw, shift: float) -> dict[str, float]:
    square = residual.mean((residual.values + shift) ** 2)
    variance = truth.deviation(truth.values) ** 2
    return {
        "RMSE": math.sqrt(square),
        "MAE": residual.mean(np.abs(residual.values + shift)),
        "R²": 1.0 - square / max(variance, 1e-300),
        "variance": variance,
    }


def _beside(
    residual: NumberLaw, truth: NumberLaw, shift: float, people: int
) -> list[tuple[str, float, float]]:
    wrong = residual.values + shift
    square, root = residual.mean(wrong**2), math.sqrt(people)
    apart = truth.values - truth.mean(truth.values)
    variance = max(truth.mean(apart**2), 1e-300)
    chance = residual.deviation(wrong**2)
    # Residuals and labels go together, which makes the error of their ratio smaller than this.
    ratio = math.hypot(chance / variance, square / variance**2 * truth.deviation(apart**2))
    return [
        ("RMSE", chance / (2.0 * math.sqrt(square) * root) if square > 0 else 0.0, math.sqrt(variance)),
        ("MAE", residual.deviation(np.abs(wrong)) / root, truth.mean(np.abs(apart))),
        ("R²", ratio / root, 0.0),
    ]


def _pairs(
    plan: JudgePlan, coefficients: Array, centre: float, error: float
) -> tuple[tuple[float, float], ...]:
    """Means of what is predicted and of the label, by groups of people in the order of what is predicted.

    Both sums together are the law of the score. Their difference is Σ v·e^{ifωs}, v the label between −1 and 1, and
    v = β·(1, z, z², z³) of the score z in deviations is fitted to it, within noise and what labels scatter around it;
    `error` is how far they do. What bends it is held back where it is not seen.
    """
    head = plan.heads[SCORE]
    low, high = plan.of_head(SCORE, coefficients)
    noise = math.sqrt(2.0) * plan.deviation / _sizes(head, plan)
    law = _law(plan, head, (low + high)[1:], noise / plan.rows)
    deviation = law.deviation(law.values)
    if not deviation > 0:
        return ()
    middle, half = (
        float(plan.label.from_unit(0.0)),
        float(plan.label.from_unit(1.0) - plan.label.from_unit(0.0)),
    )
    z = (law.values - law.mean(law.values)) / deviation
    powers = np.stack([z**power for power in range(4)])
    angles = np.outer(law.values, (0.0, *(np.array(head.frequencies) * head.omega)))
    waves = np.concatenate([np.cos(angles), np.sin(angles[:, 1:])], axis=1)
    sizes = np.concatenate([[1.0], _sizes(head, plan), _sizes(head, plan)])
    doubt = np.concatenate([[math.sqrt(2.0) * plan.deviation], noise, noise]) ** 2
    doubt += plan.rows * (error / half) ** 2 / 2.0
    design = plan.rows * (powers * law.shares) @ waves
    opened = (high - low) / sizes / plan.scale
    held = np.diag([0.0, 0.0, *[(_BENDS * deviation / half) ** -2] * 2])
    beta = np.linalg.solve((design / doubt) @ design.T + held, (design / doubt) @ opened)
    labels = np.clip(middle + half * (beta @ powers), middle - half, middle + half)
    groups = np.minimum((np.cumsum(law.shares) * GROUPS).astype(np.int64), GROUPS - 1)
    return tuple(
        (
            centre + float(law.values[inside] @ law.shares[inside]) / people,
            float(labels[inside] @ law.shares[inside]) / people,
        )
        for inside in (groups == number for number in range(GROUPS))
        if (people := float(law.shares[inside].sum())) > 0
    )
