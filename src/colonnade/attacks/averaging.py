"""Looking again and again at messages with noise: the mean of k looks has noise σ/√k.

A sign of f under normal noise is read right with probability Φ(|f|/σ), after k looks Φ(|f|√k/σ). A bound on how far
weights drift says nothing about this; a bound on ε over the whole schedule does, because σ then grows with the number
of looks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from colonnade.attacks.success import Success, label_success

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Averaged:
    """Success after 1, 2, … looks, and Φ(|f|√k/σ) beside it, which noise that is not clipped would give."""

    by_looks: tuple[Success, ...]
    predicted: tuple[float, ...]


def average_signs(messages: Sequence[Array], labels: Array, *, sigma: float, size: float = 2.0) -> Averaged:
    """Guess each label from the sign of the mean message over the first k epochs.

    `messages` has one array an epoch, in the order of the records and in natural units; σ is in those units, too, and
    `size` is |f|: 2 while weights are small.
    """
    total = np.zeros(len(labels))
    successes, predicted = [], []
    for looks, message in enumerate(messages, start=1):
        total = total + message
        # Clipped messages often cancel exactly; then the last look decides.
        successes.append(label_success(-np.sign(np.where(total == 0, message, total)), labels))
        predicted.append(predicted_success(size, sigma, looks))
    return Averaged(tuple(successes), tuple(predicted))


def predicted_success(size: float, sigma: float, looks: int) -> float:
    """Φ(|f|√k/σ)."""
    return float(norm.cdf(size * np.sqrt(looks) / sigma))
