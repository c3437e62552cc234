"""What one release says about the people in it, in natural units, before any model is solved.

A row is z = (x, label block). Its noisy second moments hold, for every kind of label, the number of
rows, the sum of the features and their Gram matrix; the kinds differ in what else the border of the
matrix says. `noise` is s, the standard deviation of an entry of the Gram matrix off its diagonal, and
`border` is the constant c with which "one" enters a row, so that an entry of a feature sum has standard
deviation s/c and a count √2·s/c². On the diagonal of the Gram matrix it is √2·s: the noise is a multiple
of the Gaussian orthogonal ensemble, whose eigenvalues fill [−2s√d, 2s√d].
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import DrownedByNoise

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Scatter:
    """Rows around their mean: T = G − n μμᵀ, with n and μ.

    Centring by the border costs nothing in noise: n μμᵀ has an error of order s‖μ‖√d, the size of the
    noise that G already carries, because ‖μ‖ ≤ 1.
    """

    count: float
    mean: Array
    matrix: Array
    noise: float
    border: float


def _scatter(gram: Array, total: Array, count: float, *, noise: float, border: float) -> Scatter:
    if not count > 0:
        raise DrownedByNoise(
            f"the noisy number of rows is {count:.1f}, which leaves nothing to learn from. "
            "Use more rows, or a release with less noise (a larger ε)."
        )
    mean = total / count
    return Scatter(count, mean, gram - count * np.outer(mean, mean), noise, border)


@dataclass(frozen=True, eq=False)
class ConstantMoments:
    """G, n and Σx: a release whose label block is the constant, or any release with its label ignored."""

    gram: Array
    count: float
    total: Array
    noise: float
    border: float
    parts: int = 1

    @property
    def sum_noise(self) -> float:
        return self.noise / float(np.sqrt(self.parts)) / self.border

    def scatter(self) -> Scatter:
        return _scatter(self.gram, self.total, self.count, noise=self.noise, border=self.border)


@dataclass(frozen=True, eq=False)
class ClassMoments:
    """G, and for every class c the number of its rows n_c and the sum of their features S_c.

    `parts` is how many released matrices G is the sum of: `noise` is that of the sum, the others' is of one.
    """

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
        """The same release with the label ignored."""
        return ConstantMoments(
            self.gram,
            float(self.counts.sum()),
            self.sums.sum(axis=0),
            noise=self.noise,
            border=self.border,
            parts=self.parts,
        )

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
        """The standard deviation of an entry of Σx or of Σxv."""
        return self.noise / self.border

    @property
    def value_mean(self) -> float:
        return self.value_total / self.count

    @property
    def value_scatter(self) -> float:
        """Σ(v − v̄)², which noise can make negative."""
        return self.value_square - self.value_total**2 / self.count

    def plain(self) -> ConstantMoments:
        """The same release with the label ignored."""
        return ConstantMoments(self.gram, self.count, self.total, noise=self.noise, border=self.border)

    def scatter(self) -> Scatter:
        return self.plain().scatter()
