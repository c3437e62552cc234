"""Every integer row up to a norm, and the exact F², A, Q, R of every change: what the table must cover."""

import itertools
import math
from typing import Any

import numpy as np


def integer_rows(entries: int, norm_squared: int) -> np.ndarray:
    """All integer vectors with so many entries and at most this squared norm."""
    extent = range(-math.isqrt(norm_squared), math.isqrt(norm_squared) + 1)
    rows = [
        row for row in itertools.product(extent, repeat=entries) if sum(v * v for v in row) <= norm_squared
    ]
    return np.array(rows, dtype=np.int64).reshape(len(rows), entries)


def label_rows(entries: int, norm_squared: int, one_hot: bool) -> np.ndarray:
    """All label blocks: for one-hot ones, a fixed integer at any one place."""
    if not one_hot:
        return integer_rows(entries, norm_squared)
    return np.eye(entries, dtype=np.int64) * math.isqrt(norm_squared)


def all_rows(row: Any) -> np.ndarray:
    """Every row of a `RowShape`: features beside label block."""
    features = integer_rows(row.features, row.norm_squared)
    labels = label_rows(row.label_entries, row.label_norm_squared, row.one_hot)
    pairs = [np.concatenate([x, y]) for x in features for y in labels]
    return np.array(pairs, dtype=np.int64)


def measures(changes: np.ndarray) -> np.ndarray:
    """(F², A, Q, R, upper-triangle L1, upper-triangle L2²) of each matrix of a stack."""
    size = changes.shape[-1]
    diagonal = np.abs(changes[:, np.arange(size), np.arange(size)])
    rows, columns = np.triu_indices(size, k=1)
    above = np.abs(changes[:, rows, columns])
    d1, d2 = diagonal.sum(1), (diagonal**2).sum(1)
    a1, a2 = above.sum(1), (above**2).sum(1)
    return np.stack([d2 + 2 * a2, d1 + 2 * a1, d2 + 4 * a2, d1 + 4 * a1, d1 + a1, d2 + a2], axis=1)


def outer(rows: np.ndarray) -> np.ndarray:
    return np.asarray(rows[:, :, None] * rows[:, None, :])


def worst_zero_out(row: Any) -> np.ndarray:
    return np.asarray(measures(outer(all_rows(row))).max(0))


def worst_replace(row: Any) -> np.ndarray:
    products = outer(all_rows(row))
    return np.asarray(np.max([measures(products - one).max(0) for one in products], axis=0))


def _alongside(part: np.ndarray, rest: np.ndarray) -> np.ndarray:
    return np.concatenate([part, np.broadcast_to(rest, (len(part), len(rest)))], axis=1)


def worst_part_replaced(part: Any, rest: Any) -> np.ndarray:
    parts = all_rows(part)
    worst: list[Any] = []
    for fixed in all_rows(rest):
        products = outer(_alongside(parts, fixed))
        worst.extend(measures(products - one).max(0) for one in products)
    return np.asarray(np.max(worst, axis=0))
