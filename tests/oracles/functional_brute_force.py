"""Brute force over grids of records for the functional mechanism's coefficients.

The norms of a change are symmetric in the coordinates, so only how many coordinates take each pair of values
(before, after) matters: multisets instead of products. `VERTICES` is the grid {−1, 0, 1}.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

VERTICES = (-1.0, 0.0, 1.0)


def records(features: int, grid: Sequence[float], own: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(x, x′) that differ in the first `own` coordinates only, up to permutation within own and rest."""
    pairs = tuple(itertools.product(grid, repeat=2))
    for mine in itertools.combinations_with_replacement(pairs, own):
        for rest in itertools.combinations_with_replacement(grid, features - own):
            before = np.array([a for a, _ in mine] + list(rest))
            after = np.array([b for _, b in mine] + list(rest))
            yield before, after


def upper(matrix: np.ndarray) -> np.ndarray:
    return matrix[np.triu_indices(len(matrix))]


def logistic_coefficients(x: np.ndarray, label: float, ordered: bool) -> np.ndarray:
    second = np.outer(x, x) / 8
    return np.concatenate([(0.5 - label) * x, second.ravel() if ordered else upper(second)])


def linear_coefficients(z: np.ndarray, ordered: bool) -> np.ndarray:
    second = np.outer(z, z)
    return second.ravel() if ordered else upper(second)


def _worst(changes: Iterator[np.ndarray], norm: int) -> float:
    return max(float(np.linalg.norm(change, norm)) for change in changes)


def linear_part(
    entries: int, norm: int, *, own: int, grid: Sequence[float] = VERTICES, ordered: bool = False
) -> float:
    """Largest change of zzᵀ when `own` of the entries of z are replaced."""
    return _worst(
        (
            linear_coefficients(z, ordered) - linear_coefficients(other, ordered)
            for z, other in records(entries, grid, own)
        ),
        norm,
    )


def logistic_part(
    features: int,
    norm: int,
    *,
    own: int,
    holds_label: bool,
    grid: Sequence[float] = VERTICES,
    ordered: bool = False,
) -> float:
    """Largest change of the logistic coefficients when own features, and possibly the label, are replaced."""
    labels = ((0.0, 0.0), (0.0, 1.0)) if holds_label else ((0.0, 0.0),)
    return _worst(
        (
            logistic_coefficients(x, y, ordered) - logistic_coefficients(other, changed, ordered)
            for x, other in records(features, grid, own)
            for y, changed in labels
        ),
        norm,
    )


def crossover(
    laplace: Callable[[int], float],
    gaussian: Callable[[int], float],
    *,
    epsilon: float,
    sigma_per_unit: float,
) -> int:
    """The fewest features at which Gaussian noise has the smaller standard deviation per coefficient.

    `laplace` and `gaussian` give L1 and L2 sensitivities by the number of features.
    """
    features = 1
    while math.sqrt(2) * laplace(features) / epsilon <= sigma_per_unit * gaussian(features):
        features += 1
    return features
