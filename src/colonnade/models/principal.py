"""Principal directions from second moments, and how many of them can be believed.

Everything here is a function of a release that is already public, so it spends no privacy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.models.moments import Scatter
from colonnade.models.spectral import deflated, learnable_rank
from colonnade.numbers.threads import few_threads

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Principal:
    """Orthonormal directions (rows), strongest first, with the sum of squares of the rows along each.

    `total` is the sum over all directions, and `learnable` how many stand out of the noise.
    """

    directions: Array
    squares: Array
    total: float
    learnable: int


def principal_directions(scatter: Scatter, *, centre: bool = True, lift: float = 0.0) -> Principal:
    """All directions, strongest first.

    Centred, they are the eigenvectors of T = G − nμμᵀ. Not centred, they are those of T + nμμᵀ with μ
    read from the border of the release: there the mean has noise s√d/(cn), while inside G it would have to
    stand out of 2s√d by itself, and with thousands of columns it is often all that can be learned. The
    squares are those that the rows have along the directions returned, not those seen: `deflated` for T,
    and likewise for the mean, whose length is seen too large by (s/c)²d/n².

    `lift` is how much rounding on a coarse grid may have added to the diagonal: a direction must stand out of that too.
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
