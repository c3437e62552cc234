"""Principal directions from second moments, and how many of them can be believed.

Everything here is a function of a release that is already public, so it spends no privacy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.learn.moments import Scatter
from colonnade.learn.spectral import decompose, deflated, learnable_rank

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Principal:
    """Orthonormal directions (rows), the sum of squares along each, and how many stand out of the noise."""

    directions: Array
    squares: Array
    total: float
    learnable: int


def principal_directions(scatter: Scatter, *, centre: bool = True) -> Principal:
    """All directions, strongest first.

    Centred, they are the eigenvectors of T = G − nμμᵀ. Not centred, they are those of T + nμμᵀ with μ
    read from the border of the release: there the mean has noise s√d/(cn), while inside G it would have to
    stand out of 2s√d by itself, and with thousands of columns it is often all that can be learned. The
    squares are those seen, less what noise adds to them (`deflated`; (s/c)²d/n for the mean).

    >>> scatter = Scatter(10.0, np.array([0.0, 2.0]), np.diag([5.0, 1.0]), noise=0.0, border=0.7)
    >>> principal_directions(scatter).squares
    array([5., 1.])
    >>> uncentred = principal_directions(scatter, centre=False)
    >>> uncentred.squares, np.abs(uncentred.directions[0])
    (array([41.,  5.]), array([0., 1.]))
    """
    spectrum = decompose(scatter.matrix, floor=0.0)
    squares = deflated(spectrum.observed, scatter.noise)
    vectors = spectrum.vectors
    learnable = learnable_rank(spectrum.observed, scatter.noise)
    total = float(spectrum.observed.sum())
    if not centre:
        columns = len(squares)
        length = float(scatter.mean @ scatter.mean)
        lift = (scatter.noise / (scatter.border * scatter.count)) ** 2 * columns
        if length > lift:
            strength = scatter.count * (length - lift) / length
            whole = (vectors * squares) @ vectors.T + strength * np.outer(scatter.mean, scatter.mean)
            squares, vectors = np.linalg.eigh(whole)
            total += strength * length
            learnable = min(learnable + 1, columns)
    order = np.argsort(squares)[::-1]
    return Principal(vectors[:, order].T, np.maximum(squares[order], 0.0), total, learnable)
