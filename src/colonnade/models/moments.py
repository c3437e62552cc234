"""What one release says about the people in it: moments in natural units, least squares and principal directions."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import DrownedByNoise
from colonnade.numbers.threads import few_threads

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Scatter:
    """Rows around their mean: T = G − n μμᵀ, with n and μ.

    Centring costs nothing in noise: n μμᵀ has an error of order s‖μ‖√d, and ‖μ‖ ≤ 1.
    """

    count: float
    mean: Array
    matrix: Array
    noise: float
    border: float


@dataclass(frozen=True, eq=False)
class ConstantMoments:
    """G, n and Σx: a release whose label block is the constant, or any release with its label ignored."""

    gram: Array
    count: float
    total: Array
    noise: float
    border: float
    parts: int = 1

    def scatter(self) -> Scatter:
        if not self.count > 0:
            raise DrownedByNoise(
                f"the noisy number of rows is {self.count:.1f}, which leaves nothing to learn from. "
                "Use more rows, or a release with less noise (a larger ε)."
            )
        mean = self.total / self.count
        matrix = self.gram - self.count * np.outer(mean, mean)
        return Scatter(self.count, mean, matrix, self.noise, self.border)


@dataclass(frozen=True, eq=False)
class ClassMoments:
    """G, and for every class c the number of its rows n_c and their sum S_c; G is the sum of `parts` matrices."""

    gram: Array
    sums: Array
    counts: Array
    noise: float
    border: float
    parts: int = 1

    @property
    def sum_noise(self) -> float:
        return self.noise / float(np.sqrt(self.parts)) / self.border

    @property
    def count_noise(self) -> float:
        return float(np.sqrt(2.0 / self.parts)) * self.noise / self.border**2

    @property
    def clear_counts(self) -> Array:
        """Class counts, none below twice its noise: what is less may be anything."""
        return np.maximum(self.counts, max(1.0, 2.0 * self.count_noise))

    def plain(self) -> ConstantMoments:
        count, total = float(self.counts.sum()), self.sums.sum(axis=0)
        return ConstantMoments(self.gram, count, total, self.noise, self.border, self.parts)

    def scatter(self) -> Scatter:
        return self.plain().scatter()


@dataclass(frozen=True, eq=False)
class ValueMoments:
    """G, n, Σx, Σxv, Σv and Σv² for a label v scaled to [−1, 1]."""

    gram: Array
    count: float
    total: Array
    cross: Array
    value_total: float
    value_square: float
    noise: float
    border: float

    @property
    def sum_noise(self) -> float:
        return self.noise / self.border

    @property
    def value_mean(self) -> float:
        return self.value_total / self.count

    @property
    def value_scatter(self) -> float:
        """Σ(v − v̄)², which noise can make negative."""
        return self.value_square - self.value_total**2 / self.count

    def plain(self) -> ConstantMoments:
        return ConstantMoments(self.gram, self.count, self.total, noise=self.noise, border=self.border)

    def scatter(self) -> Scatter:
        return self.plain().scatter()


# Past this many standard deviations the floor costs more in bias than it saves in variance: a floor is a
# bias towards predicting the mean, and with hundreds of columns most directions carry a little signal each.
FLOOR_CAP = 12.0


def default_floor(columns: int) -> float:
    """The floor under the eigenvalues of T in standard deviations of the noise: min(2√d, 12).

    Noise alone has eigenvalues up to 2s√d: what is below cannot be told from it, and its inverse is arbitrary.
    """
    return min(2.0 * math.sqrt(columns), FLOOR_CAP)


def floor_of(floor: float | None, noise: float, columns: int) -> float:
    """The floor in natural units, from the user's multiple of the noise or from the rule."""
    return noise * (default_floor(columns) if floor is None else floor)


@dataclass(frozen=True, eq=False)
class Spectrum:
    """A symmetric matrix with its eigenvalues raised to at least `floor`, ready to be divided by.

    Raised, not dropped: a direction lost in noise is damped, and still helps where classes differ much. With no noise,
    eigenvalues that are zero up to rounding are left out, which gives the least-norm solution.
    """

    observed: Array
    inverse: Array
    vectors: Array

    def solve(self, right: Array) -> Array:
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
    """2s√d, the largest eigenvalue of noise alone up to order s·d^(−1/6): Wigner's semicircle, s off the diagonal."""
    return 2.0 * noise * math.sqrt(columns)


def learnable_rank(values: Array, noise: float) -> int:
    """How many directions stand out of the noise: the number of eigenvalues of T above 2s√d."""
    largest = float(np.abs(values).max(initial=0.0))
    negligible = largest * len(values) * float(np.finfo(np.float64).eps)
    return int(np.count_nonzero(values > max(noise_edge(noise, len(values)), negligible)))


def deflated(values: Array, noise: float) -> Array:
    """What the rows themselves have along noisy eigenvectors: √(L² − 4s²d), and zero inside the noise.

    λ > s√d is seen at L = λ + s²d/λ, along a direction of squared cosine 1 − s²d/λ²: the rows have λ − s²d/λ there.
    """
    edge = noise_edge(noise, len(values))
    inside = np.maximum(values, 0.0)
    return np.asarray(np.sqrt(np.maximum(inside**2 - edge**2, 0.0)))


def denoised(values: Array, noise: float) -> Array:
    """As `deflated`, where those inside the noise share what is left of the trace, which is right up to s√(2d)."""
    own = deflated(values, noise)
    inside = values <= noise_edge(noise, len(values))
    if inside.any():
        own[inside] = max(0.0, float(values.sum() - own.sum()) / np.count_nonzero(inside))
    return own


@dataclass(frozen=True, eq=False)
class LinearFit:
    """v ≈ coefficients @ x + intercept."""

    coefficients: Array
    intercept: float


def least_squares(
    moments: ValueMoments, *, floor: float | None = None, ridge: float = 0.0, unbias: bool = True
) -> LinearFit:
    """The line of least squares, with an intercept that is not penalised.

    w = (T + ridge)⁻¹(Σxv − v̄Σx) with T = G − nμμᵀ floored as for classes, and v ≈ wᵀ(x − μ) + v̄ + β, where
    β = −v̄(s/c)² tr(T⁻¹)/n: Σxv − v̄Σx and μ share the noise of Σx, so that E[wᵀμ] is off by this much.
    """
    scatter = moments.scatter()
    spectrum = decompose(scatter.matrix, floor=floor_of(floor, moments.noise, len(scatter.mean)), ridge=ridge)
    weights = spectrum.solve(moments.cross - moments.value_mean * moments.total)
    shift = moments.sum_noise**2 * spectrum.inverse_trace / scatter.count if unbias else 0.0
    intercept = float(moments.value_mean * (1.0 - shift) - weights @ scatter.mean)
    return LinearFit(weights, intercept)


@dataclass(frozen=True, eq=False)
class Principal:
    """Orthonormal directions (rows), strongest first, their sums of squares, and how many stand out of the noise."""

    directions: Array
    squares: Array
    total: float
    learnable: int


def principal_directions(scatter: Scatter, *, centre: bool = True, lift: float = 0.0) -> Principal:
    """All directions, strongest first: eigenvectors of T = G − nμμᵀ, or, not centred, of T + nμμᵀ.

    μ is read from the border of the release, where it has noise s√d/(cn); inside G it would have to stand out of
    2s√d. The squares are those that the rows have along the directions returned, not those seen: `deflated` for T,
    and for the mean, whose length is seen too large by (s/c)²d/n². `lift` is how much rounding on a coarse grid may
    have added.
    """
    with few_threads(scatter.matrix.size):
        observed, vectors = np.linalg.eigh(scatter.matrix)
    observed, vectors = observed[::-1], vectors[:, ::-1]
    squares = deflated(observed, scatter.noise)
    learnable = learnable_rank(observed - lift, scatter.noise)
    total = float(observed.sum())
    length = float(scatter.mean @ scatter.mean)
    lift = (scatter.noise / (scatter.border * scatter.count)) ** 2 * len(observed)
    if centre or not length > lift:
        return Principal(vectors.T, squares, total, learnable)
    mean_square = scatter.count * length * (1.0 - lift / length) ** 2
    spanning = np.column_stack([scatter.mean / np.sqrt(length), vectors[:, :learnable]])
    basis, triangle = np.linalg.qr(spanning)
    weights = np.concatenate([[mean_square], squares[:learnable]])
    values, turn = np.linalg.eigh((triangle * weights) @ triangle.T)
    keep = min(learnable + 1, len(observed))
    leading = (basis @ turn)[:, ::-1][:, :keep]
    rest = vectors - leading @ (leading.T @ vectors)
    # What is left of the eigenvectors of T outside the leading directions, in the order of T.
    directions = np.linalg.qr(np.column_stack([leading, rest[:, keep - 1 :]]))[0][:, : len(observed)]
    directions[:, :keep] = leading
    padded = np.concatenate([np.maximum(values[::-1][:keep], 0.0), np.zeros(len(observed) - keep)])
    return Principal(directions.T, padded, total + mean_square, keep)
