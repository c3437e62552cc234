"""Inverting a noisy scatter matrix: the floor under its eigenvalues, and how many of them are real.

Noise makes small eigenvalues meaningless, often negative, and a solve divides by them. The rules here
need nothing but the noise's standard deviation, which is public: they are post-processing and spend no
privacy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.numbers.threads import few_threads

Array = NDArray[np.float64]

# Past this many standard deviations the floor costs more in bias than it saves in variance: a floor is a
# bias towards predicting the mean, and with hundreds of columns most directions carry a little signal each.
FLOOR_CAP = 12.0


def default_floor(columns: int) -> float:
    """The floor under the eigenvalues of T in standard deviations of the noise: min(2√d, 12).

    The noise alone has eigenvalues up to 2s√d in size, so an eigenvalue below that cannot be told from
    noise and its inverse is arbitrary. Any multiple of s√d from 1 to 2 does nearly as well.
    """
    return min(2.0 * math.sqrt(columns), FLOOR_CAP)


def floor_of(floor: float | None, noise: float, columns: int) -> float:
    """The floor in natural units, from the user's multiple of the noise or from the rule."""
    return noise * (default_floor(columns) if floor is None else floor)


@dataclass(frozen=True, eq=False)
class Spectrum:
    """A symmetric matrix with its eigenvalues raised to at least `floor`, ready to be divided by.

    Raised, not dropped: a direction lost in noise is damped to 1/floor of what it says, and still helps
    when it carries much of the class difference. With no noise the floor is zero and eigenvalues that are
    zero up to rounding are left out, which gives the least-norm solution, as `numpy.linalg.lstsq` does.
    """

    observed: Array
    inverse: Array
    vectors: Array

    def solve(self, right: Array) -> Array:
        """The matrix inverse times a vector, or times every column of a matrix."""
        rotated = self.vectors.T @ right
        scaled = (rotated.T * self.inverse).T
        return np.asarray(self.vectors @ scaled)

    @property
    def inverse_trace(self) -> float:
        return float(self.inverse.sum())


def decompose(matrix: Array, *, floor: float, ridge: float = 0.0) -> Spectrum:
    """The spectrum of a symmetric matrix with eigenvalues L_i inverted as 1/(max(L_i, floor) + ridge)."""
    if not floor >= 0 or not ridge >= 0:
        raise ValueError(f"a floor and a ridge are at least 0, not {floor} and {ridge}")
    with few_threads(matrix.size):
        values, vectors = np.linalg.eigh(matrix)
    raised = np.maximum(values, floor) + ridge
    largest = float(np.abs(values).max(initial=0.0))
    negligible = largest * len(values) * float(np.finfo(np.float64).eps)
    inverse = np.divide(1.0, raised, out=np.zeros_like(raised), where=raised > negligible)
    return Spectrum(values, inverse, vectors)


def noise_edge(noise: float, columns: int) -> float:
    """2s√d: the largest eigenvalue that noise alone shows, up to a fluctuation of order s·d^(−1/6).

    The symmetric noise matrix has standard deviation s off its diagonal and √2·s on it; its spectrum is
    Wigner's semicircle.
    """
    return 2.0 * noise * math.sqrt(columns)


def learnable_rank(values: Array, noise: float) -> int:
    """How many directions stand out of the noise: the number of eigenvalues of T above 2s√d."""
    largest = float(np.abs(values).max(initial=0.0))
    negligible = largest * len(values) * float(np.finfo(np.float64).eps)
    return int(np.count_nonzero(values > max(noise_edge(noise, len(values)), negligible)))


def deflated(values: Array, noise: float) -> Array:
    """What the rows themselves have along noisy eigenvectors: √(L² − 4s²d), and zero inside the noise.

    A true eigenvalue λ > s√d under such noise is seen at L = λ + s²d/λ, along a direction whose squared
    cosine with the true one is 1 − s²d/λ²; so the rows have λ − s²d/λ = √(L² − 4s²d) along what is seen.
    """
    edge = noise_edge(noise, len(values))
    inside = np.maximum(values, 0.0)
    return np.asarray(np.sqrt(np.maximum(inside**2 - edge**2, 0.0)))


def held(values: Array, noise: float) -> Array:
    """What the rows have along noisy eigenvectors, those inside the noise too, which share what is left of the trace.

    The trace of the noise has mean zero, so the trace that is seen is the rows' own up to s√(2d).
    """
    held = deflated(values, noise)
    inside = values <= noise_edge(noise, len(values))
    if inside.any():
        held[inside] = max(0.0, float(values.sum() - held.sum()) / np.count_nonzero(inside))
    return held
