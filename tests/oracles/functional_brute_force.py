"""Brute force over the records of a grid for the functional mechanism's coefficients.

The norms of a change are symmetric in the coordinates, so only how many coordinates take each pair of values
(before, after) matters: multisets instead of products. `VERTICES` is the grid {−1, 0, 1}.
"""

import itertools
import math
from collections.abc import Callable

import numpy as np

VERTICES = (-1.0, 0.0, 1.0)


def records(features: int, own: int) -> tuple[np.ndarray, np.ndarray]:
    """All (x, x′), a pair in each row, that differ in the first `own` coordinates only, up to permutation within own
    and rest."""
    pairs = tuple(itertools.product(VERTICES, repeat=2))
    changed = list(itertools.combinations_with_replacement(pairs, own))
    same = list(itertools.combinations_with_replacement(VERTICES, features - own))
    mine = np.repeat(np.array(changed, dtype=float).reshape(len(changed), own, 2), len(same), axis=0)
    rest = np.tile(np.array(same, dtype=float).reshape(len(same), features - own), (len(changed), 1))
    return np.concatenate([mine[..., 0], rest], axis=1), np.concatenate([mine[..., 1], rest], axis=1)


def logistic_coefficients(x: np.ndarray, label: float, ordered: bool) -> np.ndarray:
    return np.concatenate([(0.5 - label) * x, linear_coefficients(x, ordered) / 8], axis=-1)


def linear_coefficients(z: np.ndarray, ordered: bool) -> np.ndarray:
    width = z.shape[-1]
    first, second = np.indices((width, width)).reshape(2, -1) if ordered else np.triu_indices(width)
    products: np.ndarray = z[..., first] * z[..., second]
    return products


def _worst(changes: np.ndarray, norm: int) -> float:
    return float(np.linalg.norm(changes, norm, axis=-1).max())


def linear_part(entries: int, norm: int, *, own: int, ordered: bool = False) -> float:
    """Largest change of zzᵀ when `own` of the entries of z are replaced."""
    before, after = records(entries, own)
    return _worst(linear_coefficients(before, ordered) - linear_coefficients(after, ordered), norm)


def logistic_part(features: int, norm: int, *, own: int, holds_label: bool, ordered: bool = False) -> float:
    """Largest change of the logistic coefficients when own features, and possibly the label, are replaced."""
    before, after = records(features, own)
    return max(
        _worst(
            logistic_coefficients(before, 0.0, ordered) - logistic_coefficients(after, changed, ordered), norm
        )
        for changed in ((0.0, 1.0) if holds_label else (0.0,))
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
