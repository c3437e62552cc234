"""Second moments with Gaussian noise by a trusted party: what a release could be without distributed noise."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np

from colonnade.methods.baselines.gathering import Gathered
from colonnade.models.release import MomentRelease
from colonnade.noise import DiscreteGaussianNoise
from colonnade.privacy.calibrate import calibrate
from colonnade.privacy.events import Approximated
from colonnade.privacy.leaves import DiscreteGaussian
from colonnade.privacy.sensitivity.matrix import matrix_change_zero_out
from colonnade.randomness import Randomness


def exact_release(rows: Gathered) -> MomentRelease:
    """The moments without noise, as a release that promises nothing."""
    return _release(rows, rows.moments(), variance=Fraction(0), reproducible=False)


def gaussian_release(rows: Gathered, *, randomness: Randomness) -> MomentRelease:
    """The moments with discrete Gaussian noise: σ² on the diagonal, σ²/2 off it, within (ε, δ) of the plan.

    Guarantee: a zeroed record changes the matrix by D with F² = Σ Dᵢᵢ² + 2 Σ Dᵢⱼ² at most that of
    `matrix_change_zero_out`, and D_α ≤ α F²/2σ² for every order α, as for one discrete Gaussian of variance σ² and
    sensitivity F (docs/proofs/baselines.md). `mu` of the release is half the variance on the diagonal, as
    everywhere; its law is another.
    """
    plan = rows.plan
    change = matrix_change_zero_out(plan.shape_of_all_but(None)).frobenius
    variance = _variance(Fraction(change), plan.coefficients, epsilon=plan.spec.epsilon, delta=plan.delta)
    diagonal = DiscreteGaussianNoise(variance).draw(plan.size, randomness)
    beside = DiscreteGaussianNoise(variance / 2).draw((plan.size, plan.size), randomness)
    upper = np.triu(beside, 1)
    noisy = rows.moments() + upper + upper.T + np.diag(diagonal)
    edge = sum(plan.widths.values())
    noisy[edge:, edge:] *= plan.labels.opened
    return _release(rows, noisy, variance=variance, reproducible=randomness.reproducible)


def gaussian_event(sensitivity: Fraction, variance: Fraction, entries: int) -> Approximated:
    """The release to a reader, as one discrete Gaussian."""
    return Approximated(DiscreteGaussian(sensitivity, variance), draws=entries)


@lru_cache(maxsize=256)
def _variance(sensitivity: Fraction, entries: int, *, epsilon: float, delta: float) -> Fraction:
    return calibrate(
        lambda variance: gaussian_event(sensitivity, variance, entries), epsilon=epsilon, delta=delta
    )


def _release(rows: Gathered, matrix: np.ndarray, *, variance: Fraction, reproducible: bool) -> MomentRelease:
    plan = rows.plan
    change = Fraction(matrix_change_zero_out(plan.shape_of_all_but(None)).frobenius)
    guarantees = rows.privacy(gaussian_event(change, variance, plan.coefficients)) if variance else ()
    return MomentRelease(
        matrix=matrix,
        gamma=plan.gamma,
        rows=plan.rows,
        encoders=tuple(plan.encoders.items()),
        label=plan.label,
        mu=variance / 2,
        guarantees=tuple(guarantees),
        plan="",
        run="",
        reproducible=reproducible,
    )
